"""Options that commands share: how a text file is written, and which of its columns are read."""

from __future__ import annotations

import csv
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from margrave.errors import InputError, invalid

__all__ = ["Columns", "Drop", "Estimator", "split_names", "with_text_options"]


Estimator = Annotated[
    str | None,
    typer.Option(help="What restores the model of an estimator of your own: package.module:Class, imported."),
]


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


def with_text_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with these options in place of its last parameter, `text`.

    Args:
        command: Takes a `TextFormat` by the name of `text`.
    """
    plain = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in plain.parameters.items() if name != "text"]
    kind = inspect.Parameter.KEYWORD_ONLY
    more = [
        inspect.Parameter(name, kind, default=default, annotation=option)
        for name, (option, default) in OPTIONS.items()
    ]

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        chosen = {name: options.pop(name) for name in OPTIONS if name in options}
        command(*args, text=_text_format(**chosen), **options)

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
