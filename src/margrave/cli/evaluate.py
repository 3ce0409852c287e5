"""The command `margrave evaluate`: synthetic tables beside the real one. Not private."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from margrave.evaluation.review import Review

PRINTED_SCORES = (
    *("overall", "first_look", "dependence_kept", "rank_slope"),
    *("tv_1_mean", "tv_2_mean", "tv_3_mean", "association_mean", "roc_auc", "average_precision", "rules"),
    "unique_exact_match",
)
"""Scores that are printed; the page and --json have all."""


def evaluate(
    real: Annotated[Path, typer.Argument(help="The private table.")],
    synthetic: Annotated[list[Path], typer.Argument(help="The synthetic table, or several.")],
    report: Annotated[Path | None, typer.Option(help="Write the comparison as HTML. Not private.")] = None,
    schema: Annotated[Path | None, typer.Option(help="schema.json with what is known, and rules.")] = None,
    target: Annotated[str | None, typer.Option(help="Column to predict, for scores of models.")] = None,
    test: Annotated[Path | None, typer.Option(help="Held-out real table, for models and attacks.")] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(help="Scores to add by name, see docs/metrics.md; repeatable, or 'all'."),
    ] = None,
    missing: Annotated[
        list[str] | None, typer.Option("--missing", help="Text that means missing; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the samples that are drawn and models that are trained.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and no progress.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    text: Any = None,
) -> None:
    """Compare synthetic tables with the real one. NOT PRIVATE: do not publish what it says."""
    from margrave.evaluation.metrics.registry import METRICS
    from margrave.files import check_outputs, write_text
    from margrave.report.comparison.page import render_comparison
    from margrave.run.evaluate import review

    tables = _name_files(synthetic)
    inputs = {"real": real, "schema": schema, "test": test}
    inputs |= {f"synthetic {name}": path for name, path in tables.items()}
    check_outputs({"report": report}, inputs, new=not force)
    found = review(
        *(real, tables),
        schema=schema,
        target=target,
        test=test,
        missing=[*dict.fromkeys([*(missing or []), ""])],
        text=text,
        metrics=list(METRICS) if metrics == ["all"] else metrics or [],
        pictures=report is not None or target is not None,
        seed=seed,
        on_step=_print_progress if sys.stderr.isatty() and not as_json else _silent,
    )
    typer.echo(json.dumps(found.to_json()) if as_json else _write_text(found, metrics or ()))
    if report is not None:
        write_text(report, render_comparison(found, title=f"{', '.join(tables)} against {real.stem}"))


def _name_files(paths: Sequence[Path]) -> dict[str, Path]:
    """A short name for each file: without its suffix where that is enough to tell it from the others."""
    from margrave.evaluation.review import RESERVED_NAMES

    for names in (
        [path.stem for path in paths],
        [path.name for path in paths],
        [str(path) for path in paths],
    ):
        if max(Counter(names).values()) == 1 and not RESERVED_NAMES & set(names):
            return dict(zip(names, paths, strict=True))
    return {f"{path} ({place})": path for place, path in enumerate(paths, 1)}


def _write_text(found: Review, asked: Sequence[str]) -> str:
    from margrave.report.comparison.verdict import plain_lines

    return "\n".join([found.table(PRINTED_SCORES, asked), "", *plain_lines(found)])


def _silent(words: str) -> None:
    pass


def _print_progress(words: str) -> None:
    typer.echo(f"{words} ...", err=True)
