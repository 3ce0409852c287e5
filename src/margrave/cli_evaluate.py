"""The command `margrave evaluate`: a real and a synthetic table side by side. Not private."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["evaluate"]


def evaluate(
    real: Annotated[Path, typer.Argument(help="The private table.")],
    synthetic: Annotated[Path, typer.Argument(help="The synthetic table.")],
    report: Annotated[Path | None, typer.Option(help="Write the comparison as HTML. Not private.")] = None,
    schema: Annotated[Path | None, typer.Option(help="schema.json with what is known.")] = None,
    target: Annotated[str | None, typer.Option(help="Column to predict, for a classifier score.")] = None,
    test: Annotated[Path | None, typer.Option(help="Held-out real table for the classifier.")] = None,
    metrics: Annotated[
        list[str] | None, typer.Option(help="More scores by name, see docs/metrics.md; repeatable, or 'all'.")
    ] = None,
    missing: Annotated[
        list[str] | None, typer.Option("--missing", help="Text that means missing; repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and no progress.")] = False,
) -> None:
    """Compare a real and a synthetic table. NOT PRIVATE: do not publish what it says."""
    from margrave._api import evaluate as compare
    from margrave.evaluation.table import METRICS
    from margrave.files import check_outputs, write_text
    from margrave.report.comparison_page import render_comparison

    check_outputs({"report": report}, {"real": real, "synthetic": synthetic, "schema": schema, "test": test})
    names = list(METRICS) if metrics == ["all"] else metrics or []
    texts = list(dict.fromkeys([*(missing or []), ""]))
    comparison = compare(
        real, synthetic, schema=schema, target=target, test=test, missing=texts, metrics=names
    )
    typer.echo(json.dumps(comparison.to_json()) if as_json else str(comparison))
    if report is not None:
        write_text(report, render_comparison(comparison, title=f"{synthetic.name} against {real.name}"))
