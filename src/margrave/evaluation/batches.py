"""batches: many cliques, a few at a time, so that their tables fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from margrave.schema.domain import Clique, Domain

__all__ = ["BATCH_CELLS", "batches"]

BATCH_CELLS = 1 << 22
"""Cells of the tables that are counted together."""


def batches(domain: Domain, cliques: Sequence[Clique]) -> Iterator[list[Clique]]:
    """The cliques in their order, in runs of at most BATCH_CELLS cells or of one clique."""
    batch: list[Clique] = []
    cells = 0
    for clique in cliques:
        size = domain.size(clique)
        if batch and cells + size > BATCH_CELLS:
            yield batch
            batch, cells = [], 0
        batch.append(clique)
        cells += size
    if batch:
        yield batch
