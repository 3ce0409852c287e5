"""Options that commands share: how a text file is written, which of its columns are read, what decides a run.

`synthesize` and `plan` take the same `RunOptions`, so that a plan is that of the run.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer
from typer.core import TyperCommand

from margrave.errors import InputError, invalid

if TYPE_CHECKING:
    from margrave.run.synthesizer import Synthesizer

Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        help="Columns to release, parted by commas; names with commas in quotes; repeatable. All by default.",
    ),
]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", help="Columns to leave out, instead: written alike; repeatable.")
]
Estimator = Annotated[
    str | None,
    typer.Option(help="What restores the model of an estimator of your own: package.module:Class, imported."),
]
Locale = Annotated[
    str | None,
    typer.Option(
        "--locale", help="As spreadsheets write there: ch, de, fr, uk or us; the next ones override it."
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--separator", help="What parts the cells: ';', '|', tab. A comma by default, a tab in .tsv."
    ),
]
Quote = Annotated[
    str | None, typer.Option("--quote", help="What cells may stand in; none: quotes mean nothing.")
]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", help="Such as cp1252 (of Windows), latin-1 or utf-16; UTF-8 by default."),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line names the columns, if only by numbers.",
    ),
]
Names = Annotated[
    str | None, typer.Option("--names", help="Names for a file without a header, parted by commas.")
]
Decimal = Annotated[str | None, typer.Option("--decimal", help="Decimal mark of numbers, '.' or ','.")]
Thousands = Annotated[
    str | None,
    typer.Option("--thousands", help="What may part groups of three digits: ',', '.', space, apostrophe."),
]
Dates = Annotated[
    str | None,
    typer.Option("--dates", help="How dates are written, as in %d.%m.%Y; as 2024-12-31 by default."),
]
Formats = Annotated[
    list[str] | None,
    typer.Option(
        "--format",
        help="How one column is written, by example: COLUMN=$1,234.50, COLUMN=32%, COLUMN=%m/%d/%y, "
        "COLUMN=text; repeatable.",
    ),
]
OPTIONS: dict[str, tuple[Any, Any]] = {
    "locale": (Locale, None),
    "separator": (Separator, None),
    "quote": (Quote, None),
    "encoding": (Encoding, None),
    "header": (Header, None),
    "names": (Names, None),
    "decimal": (Decimal, None),
    "thousands": (Thousands, None),
    "dates": (Dates, None),
    "formats": (Formats, None),
}


def list_missing_texts(missing: list[str] | None) -> list[str]:
    """The texts that mean missing, in the order given; an empty field always does."""
    return list(dict.fromkeys([*(missing or []), ""]))


def split_names(param: str, texts: list[str] | None) -> list[str] | None:
    """The names in lists that are parted by commas as in a CSV file; None where nothing was said.

    Raises:
        InputError: A name is empty.

    Example:
        >>> split_names("drop", ['age,"height, cm"', "sex"])
        ['age', 'height, cm', 'sex']
    """
    if texts is None:
        return None
    names = [name for line in csv.reader(texts, skipinitialspace=True) for name in line]
    if "" in names or not names:
        raise InputError(invalid(param, "names parted by commas", f"Try --{param} age,sex.", got=texts))
    return names


def with_text_options(command: Callable[..., None], without: tuple[str, ...] = ()) -> Callable[..., None]:
    """The command with these options in place of its last parameter, `text`.

    Args:
        command: Takes a `TextFormat` by the name of `text`.
        without: Options whose names the command has for something else.
    """
    kept = {name: option for name, option in OPTIONS.items() if name not in without}
    return expand_parameter(command, "text", kept, _text_format)


def expand_parameter(
    command: Callable[..., None],
    parameter: str,
    expanded: Mapping[str, tuple[Any, Any]],
    build: Callable[..., Any],
) -> Callable[..., None]:
    """The command with options in place of one of its parameters.

    Args:
        command: A function that Typer makes a command of.
        parameter: The parameter's name.
        expanded: Annotation and default of each option, by name; `inspect.Parameter.empty` for none.
        build: Makes the parameter's value from the options, by name.
    """
    plain = inspect.signature(command, eval_str=True)
    own = [found for name, found in plain.parameters.items() if name != parameter]
    kind = inspect.Parameter.KEYWORD_ONLY
    more = [
        inspect.Parameter(name, kind, default=default, annotation=option)
        for name, (option, default) in expanded.items()
    ]

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        chosen = {name: options.pop(name) for name in expanded if name in options}
        command(*args, **{parameter: build(**chosen)}, **options)

    signature = plain.replace(parameters=[*own, *more])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: found.annotation for name, found in signature.parameters.items()}
    return run


def _text_format(
    locale: str | None = None,
    header: bool | None = None,
    names: str | None = None,
    formats: list[str] | None = None,
    **parts: str | None,
) -> Any:
    """The format that the options describe.

    Raises:
        InputError: They do not fit together.
    """
    from margrave.schema.storage.text import TextFormat

    said: dict[str, Any] = {name: value for name, value in parts.items() if value is not None}
    said["header"] = False if header is None and names is not None else header
    if names is not None:
        said["names"] = tuple(name.strip() for name in names.split(","))
    columns = {}
    for pair in formats or []:
        name, found, example = pair.rpartition("=")
        if not found:
            remedy = "Try --format 'charge=$1,234.50'."
            raise InputError(invalid("format", "of the form COLUMN=EXAMPLE", remedy, got=pair))
        columns[name] = example
    said["columns"] = columns
    return TextFormat(**said) if locale is None else TextFormat.for_locale(locale, **said)


SET_ASIDE = 1.0
"""The epsilon of a synthesizer whose plan is to find another."""
Epsilon = Annotated[
    float | None, typer.Option("--epsilon", "-e", help="Privacy loss for everything, above 0.")
]
Delta = Annotated[float, typer.Option(help="Far below one over the number of people protected.")]
Method = Annotated[str, typer.Option(help="Name of a method.")]
SchemaFile = Annotated[Path | None, typer.Option("--schema", help="schema.json with what is public.")]
Outside = Annotated[
    Literal["refuse", "absorb"],
    typer.Option(help="A value the schema rules out: an error, or the nearest bin or (other)."),
]
Owner = Annotated[
    str | None,
    typer.Option(help="Column that says whose row it is: protects owners and leaves it out; else rows."),
]
MaxRows = Annotated[
    int | None, typer.Option(help="At most this many rows of one owner are used; 1 by default.")
]
Adjacency = Annotated[
    Literal["add_remove", "replace_one", "replace_private", "zero_out"] | None,
    typer.Option(
        help="Which tables are neighbours: add_remove by default, with --public replace_private; zero_out is "
        "for slices."
    ),
]
Public = Annotated[
    list[str] | None,
    typer.Option("--public", help="Columns whose rows are public and come back as they are: A,B."),
]
PublicTable = Annotated[
    Path | None,
    typer.Option("--public-table", help="Other rows that are public, of another year or place, say."),
]
Missing = Annotated[list[str] | None, typer.Option("--missing", help="Text that means missing; repeatable.")]
Target = Annotated[str | None, typer.Option(help="Column that rows are meant to predict.")]
Moments = Annotated[
    bool,
    typer.Option(
        "--moments", help="With --target: a tenth of the budget buys sums that serve regressions of it."
    ),
]
MomentsShare = Annotated[
    float | None,
    typer.Option(
        "--moments-share", help="Instead: this share of the budget, such as 0.2, buys them; 0 for none."
    ),
]
MaxMemory = Annotated[
    str | None, typer.Option("--max-memory", help="For the model, like 800MB or 4GB; the table not counted.")
]
MaxSeconds = Annotated[
    float | None,
    typer.Option("--max-seconds", help="Of post-processing, then end early but complete; reading is extra."),
]
TestSeed = Annotated[
    int | None,
    typer.Option(
        "--not-private-test-seed",
        min=0,
        help="NOT PRIVATE: draws the noise from this seed, for tests of programs. All output says so.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What was said of a run on the command line; its fields are the options.

    Args:
        text: How a text file is written, from options of its own (`margrave.cli.options`).
        epsilon: None for a plan that is to find it.
        Others: As the help of the command says.
    """

    epsilon: Epsilon = None
    delta: Delta = 1e-9
    method: Method = "auto"
    schema: SchemaFile = None
    outside: Outside = "refuse"
    owner: Owner = None
    max_rows: MaxRows = None
    adjacency: Adjacency = None
    public: Public = None
    public_table: PublicTable = None
    missing: Missing = None
    columns: Columns = None
    drop: Drop = None
    target: Target = None
    moments: Moments = False
    moments_share: MomentsShare = None
    max_memory: MaxMemory = None
    max_seconds: MaxSeconds = None
    not_private_test_seed: TestSeed = None
    text: Any = None

    @property
    def missing_texts(self) -> list[str]:
        """The texts that mean missing, the one to write first."""
        return list_missing_texts(self.missing)

    def make_synthesizer(self, quiet: bool, **more: Any) -> Synthesizer:
        """The synthesizer of the run.

        Args:
            quiet: Whether nothing is said of a cap that was not chosen.
            more: Arguments of `Synthesizer` that only some commands have.

        Raises:
            InputError: An option is out of its range.
        """
        from margrave.limits import bytes_of
        from margrave.privacy.unit import Unit
        from margrave.run.synthesizer import Synthesizer

        public = split_names("public", self.public) or ()
        return Synthesizer(
            self.method,
            epsilon=SET_ASIDE if self.epsilon is None else self.epsilon,
            delta=self.delta,
            unit=Unit(self.owner, self._cap(quiet)),
            adjacency=self.adjacency or ("replace_private" if public else "add_remove"),
            public=public,
            public_table=self.public_table,
            schema=self.schema,
            outside=self.outside,
            missing=self.missing_texts,
            columns=split_names("columns", self.columns),
            drop=split_names("drop", self.drop) or (),
            target=self.target,
            moments=(self.moments or None) if self.moments_share is None else self.moments_share,
            text=self.text,
            max_memory=None if self.max_memory is None else bytes_of(self.max_memory),
            max_seconds=self.max_seconds,
            not_private_test_seed=self.not_private_test_seed,
            **more,
        )

    def _cap(self, quiet: bool) -> int:
        """The cap on the rows of an owner; says so where it was not chosen, since other rows are dropped."""
        if self.owner is not None and self.max_rows is None and not quiet:
            typer.echo(
                f"note: one row of each {self.owner!r} is used and the others are dropped; choose with "
                "--max-rows, and see `margrave owners`",
                err=True,
            )
        return 1 if self.max_rows is None else self.max_rows


class MethodCommand(TyperCommand):
    """A command whose help of `--method` lists the methods.

    They are imported once the command's options are asked for, and not with the command line, which takes a
    small part of their time to import.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Arguments and options, with the names of the methods in the help of `--method`."""
        from margrave.methods import METHODS

        for parameter in self.params:
            if parameter.name == "method":
                names = ", ".join(sorted(METHODS))
                parameter.help = f"One of {names}, or of an installed extension."  # type: ignore[attr-defined]
        return super().get_params(ctx)


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with these options, and those of text files, in place of its parameter `asked`.

    Args:
        command: Takes `RunOptions` by the name of `asked`.
    """
    expanded = _expand_options()
    expanded["epsilon"] = (expanded["epsilon"][0], inspect.Parameter.empty)
    return with_text_options(expand_parameter(command, "asked", expanded, RunOptions))


def with_plan_options(command: Callable[..., None]) -> Callable[..., None]:
    """As `with_run_options`, and epsilon may be left out: see `check_epsilon`."""
    return with_text_options(expand_parameter(command, "asked", _expand_options(), RunOptions))


def _expand_options() -> dict[str, tuple[Any, Any]]:
    """Annotation and default of each field of `RunOptions`."""
    annotations = get_type_hints(RunOptions, include_extras=True)
    return {field.name: (annotations[field.name], field.default) for field in dataclasses.fields(RunOptions)}


def check_epsilon(epsilon: float | None, error: float | None, risk: str | None) -> None:
    """Check that a plan is told its epsilon, or what to find it from.

    Raises:
        InputError: Neither is given, or both are.
    """
    if (epsilon is None) == (error is None and risk is None):
        remedy = "Say --epsilon 1; or --error 0.02 with --rows, or --risk '10% at 1%', to have it found."
        raise InputError(
            invalid("epsilon", "given, or else an error or a risk, not both", remedy, got=epsilon)
        )
