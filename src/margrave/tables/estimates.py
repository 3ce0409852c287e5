"""The tables of a release with their uncertainty, from the noisy tables or from the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from margrave.errors import InputError, invalid
from margrave.models.table import resolve
from margrave.release import Release
from margrave.schema.domain import Clique
from margrave.tables.estimate import (
    REPLICATES,
    Estimate,
    OnRefit,
    checked_clique,
    ignore_refit,
    measured,
    modelled,
)

if TYPE_CHECKING:
    from margrave.protocols import Model

__all__ = ["SOURCES", "Source", "estimates", "released"]

Source = Literal["best", "measured", "model"]
SOURCES = ("best", "measured", "model")


def released(release: Release) -> list[Estimate]:
    """Every table that was measured, each clique once and in the order of the first, all its looks pooled."""
    cliques = dict.fromkeys(release.domain.canonical(table.clique) for table in release.measurements)
    found = (measured(release.domain, release.measurements, clique) for clique in cliques)
    return [estimate for estimate in found if estimate is not None]


def estimates(
    release: Release,
    model: Model,
    cliques: Sequence[Sequence[str]],
    *,
    source: Source = "best",
    replicates: int = REPLICATES,
    rng: np.random.Generator | int | None = None,
    on_refit: OnRefit = ignore_refit,
) -> list[Estimate]:
    """The tables of some columns, with standard errors.

    Args:
        release, model: What was released, and the model fitted to it.
        cliques: Columns of each table.
        source: "measured": unbiased, from noisy tables that hold the columns; "model": from the model, with a
            bootstrap; "best": measured where a noisy table holds the columns, else the model.
        replicates: Refits of the bootstrap.
        rng: Of the bootstrap.
        on_refit: Told before each refit how many are done, and how many there are.

    Raises:
        SchemaError: There is no such column.
        InputError: source is none of these, or "measured" and no noisy table holds the columns.
    """
    if source not in SOURCES:
        raise InputError(invalid("source", f"one of {list(SOURCES)}", "Pick one.", got=source))
    wanted = [checked_clique(release.domain, names) for names in cliques]
    found: dict[int, Estimate] = {}
    for place, clique in enumerate(wanted):
        direct = None if source == "model" else measured(release.domain, release.measurements, clique)
        if direct is not None:
            found[place] = direct
        elif source == "measured":
            remedy = "Use source='model'."
            raise InputError(invalid("columns", "held by a measured table", remedy, got=list(clique)))
    rest = [place for place in range(len(wanted)) if place not in found]
    if rest:
        asked = [wanted[place] for place in rest]
        computed = _bootstrapped(release, model, asked, replicates, np.random.default_rng(rng), on_refit)
        found |= dict(zip(rest, computed, strict=True))
    return [found[place] for place in range(len(wanted))]


def _bootstrapped(
    release: Release,
    model: Model,
    cliques: Sequence[Clique],
    replicates: int,
    rng: np.random.Generator,
    on_refit: OnRefit,
) -> list[Estimate]:
    public = release.guarantee.neighbours.rows_are_public
    return modelled(
        model,
        resolve(release.fitter),
        release.measurements,
        cliques,
        total=release.total if public else None,
        replicates=replicates,
        rng=rng,
        on_refit=on_refit,
    )
