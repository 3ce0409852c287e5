"""The commands `margrave bench` and `margrave bench report`: methods against each other. Not private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from margrave.errors import InputError, MargraveError, invalid

REPEATED_OPTIONS = ("--methods", "--data", "--epsilon", "-e", "--metrics", "--retry", "--rivals")
"""Options that take several values, one after the other."""


def _repeat_options(words: Sequence[str]) -> list[str]:
    """The words with `--methods a b` written as `--methods a --methods b`."""
    spread: list[str] = []
    option, empty = "", False
    for word in words:
        if word.startswith("-") and len(word) > 1:
            option, empty = (word, True) if word in REPEATED_OPTIONS else ("", False)
            spread.append(word)
        elif option and not empty:
            spread += [option, word]
        else:
            spread.append(word)
            empty = False
    return spread


class _Group(TyperGroup):
    """A group whose options may take several values; the name of a command comes before any option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and args[0] in self.commands
        return super().parse_args(ctx, args if named else _repeat_options(args))


class _Command(TyperCommand):
    """A command whose options may take several values."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _repeat_options(args))


bench_app = typer.Typer(cls=_Group, rich_markup_mode=None)

Methods = Annotated[
    list[str] | None,
    typer.Option(help="Methods of margrave, NAME+target, real, bootstrap, shuffled, or .py/.toml files."),
]
Data = Annotated[
    list[str] | None,
    typer.Option(help="adult, dense, choosing/loans-a (see `bench tables`), a table file, or .toml files."),
]
Epsilon = Annotated[list[float] | None, typer.Option("--epsilon", "-e", help="One or more, above 0.")]
Repeats = Annotated[int | None, typer.Option(help="Runs of each cell; 5 by default. Noise differs.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the benchmark. Not private.")]
Spec = Annotated[Path | None, typer.Option(help="Grid as TOML or JSON; options given here come first.")]
Root = Annotated[Path | None, typer.Option(help="Where the files named in data specs lie.")]
Metrics = Annotated[
    list[str] | None,
    typer.Option(help="Names, see docs/metrics.md; or cheap (the default), dependence, learnt, all."),
]
Workers = Annotated[
    int, typer.Option(min=1, help="Cells at a time. More than 1 share the machine: seconds then tell little.")
]
MaxSeconds = Annotated[float | None, typer.Option("--max-seconds", help="Of one cell, then it is killed.")]
MaxMemory = Annotated[str | None, typer.Option("--max-memory", help="Of one cell, like 4GB.")]
Retry = Annotated[
    list[str] | None, typer.Option(help="Run again what ended so: failed, error, time, memory, killed.")
]
Delta = Annotated[
    float | None,
    typer.Option(help="1e-9 by default, as `synthesize` takes it; papers mostly take 1e-5."),
]
Seed = Annotated[int | None, typer.Option(help="Of split, sampling and metrics; never of the noise.")]
Environments = Annotated[Path | None, typer.Option(help="Where peers are installed; in OUT by default.")]
Page = Annotated[
    Path | None, typer.Option("--report", help="Then write this Markdown page, as `bench report` does.")
]
Force = Annotated[bool, typer.Option("--force", help="Write over a page that is there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


@bench_app.callback(invoke_without_command=True)
def bench(
    context: typer.Context,
    methods: Methods = None,
    data: Data = None,
    epsilon: Epsilon = None,
    repeats: Repeats = None,
    out: Out = None,
    spec: Spec = None,
    root: Root = None,
    metrics: Metrics = None,
    workers: Workers = 1,
    max_seconds: MaxSeconds = None,
    max_memory: MaxMemory = None,
    retry: Retry = None,
    delta: Delta = None,
    seed: Seed = None,
    environments: Environments = None,
    page: Page = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Run a grid of methods, tables and epsilons, resume it, report it. NOT PRIVATE."""
    if context.invoked_subcommand is not None:
        return
    if out is None:
        raise InputError(invalid("out", "given", "Say --out FOLDER."))
    if page is not None:
        _check_page(page, "report", force, page.with_suffix(".tex"))
    grid: dict[str, Any] = {
        "methods": methods,
        "data": data,
        "epsilon": epsilon,
        "repeats": repeats,
        "metrics": metrics,
    }
    grid |= {"max_seconds": max_seconds, "max_memory": max_memory, "delta": delta, "seed": seed}
    _run(grid, (out, spec, root, environments), workers, retry or [], quiet)
    if page is not None:
        report(out, page, force=True)


def _check_page(page: Path, param: str, force: bool, tex: Path | None = None) -> None:
    from margrave.benchmark.page import check_page
    from margrave.files import check_outputs

    check_page(page, param)
    check_outputs({param: page, f"the LaTeX beside {param}": tex}, {}, new=not force)


def _run(
    grid: Mapping[str, Any], paths: Sequence[Path | None], workers: int, retry: list[str], quiet: bool
) -> None:
    from margrave.benchmark.grid import read_grid
    from margrave.benchmark.run import FAILURES, run_grid

    out, spec, root, environments = paths
    unknown = sorted(set(retry) - {*FAILURES, "failed"})
    if unknown:
        known = ["failed", *FAILURES]
        raise InputError(invalid("retry", f"among {known}", "Check the spelling.", got=unknown))
    given = {key: value or None if isinstance(value, list) else value for key, value in grid.items()}
    declared = read_grid(spec, given, root)
    options: dict[str, Any] = {} if quiet else {"on_cell": _tell}
    try:
        run, failed = run_grid(
            declared, out or Path(), workers=workers, retry=retry, environments=environments, **options
        )
    except KeyboardInterrupt:
        raise MargraveError("stopped; what is done is kept, and the same command goes on") from None
    if not quiet:
        failures = f", {failed} have failed: see `margrave bench report`" if failed else ""
        typer.echo(f"{run} cells run, {sum(1 for _ in declared.cells())} in the grid{failures}")


def _tell(cell: Any, outcome: Mapping[str, Any], done: int, todo: int) -> None:
    ended = outcome["status"] if outcome["status"] == "done" else f"{outcome['status']}: {outcome['reason']}"
    wall = outcome.get("wall_seconds")
    took = "" if wall is None else f" in {wall:.1f} s"
    typer.echo(f"[{done}/{todo}] {cell.key} {ended}{took}", err=True)


@bench_app.command(cls=_Command)
def standing(
    folder: Annotated[Path, typer.Argument(help="The folder of a benchmark.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The Markdown page to write.")],
    method: Annotated[str, typer.Option(help="The method to hold against others.")] = "auto",
    rivals: Annotated[list[str] | None, typer.Option(help="Those others; aim, batched, mst.")] = None,
    tolerance: Annotated[float, typer.Option(min=0, help="An error may be greater by this share.")] = 0.03,
    force: Force = False,
) -> None:
    """Write where one method is worse than the best of others, setting by setting. NOT PRIVATE."""
    from margrave.benchmark.page import write_standing

    _check_page(out, "out", force)
    found = write_standing(folder, out, method=method, rivals=rivals or (), tolerance=tolerance)
    worse = sum(one.verdict in ("worse", "failed") for one in found)
    typer.echo(f"{out}: {method} is worse than the best of the others in {worse} of {len(found)} settings")


@bench_app.command()
def tables() -> None:
    """List the tables of the nursery: choose constants on one half, report figures on the other."""
    from margrave.benchmark.nursery import NURSERY

    for word, table in NURSERY.items():
        extra = f" (needs {table.needs})" if table.needs else ""
        typer.echo(f"{word:26}{table.rows:>10,} rows  {table.family}: {table.shows}{extra}")


@bench_app.command(cls=_Command)
def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a benchmark.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The Markdown page to write.")],
    metrics: Annotated[list[str] | None, typer.Option(help="Which to show; all by default.")] = None,
    against: Annotated[str, typer.Option(help="The method that ratios are taken against.")] = "aim",
    force: Force = False,
) -> None:
    """Write a page of tables and pictures, and the tables as LaTeX beside it. NOT PRIVATE."""
    from margrave.benchmark.page import write_page

    _check_page(out, "out", force, out.with_suffix(".tex"))
    for path in write_page(folder, out, metrics=metrics or None, against=against):
        typer.echo(path)
