"""What an attacker reads off one run: a few numbers that are the higher, the likelier the canary is in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave.auditing.world import World
from margrave.errors import InputError, invalid
from margrave.run.synthesis import Synthesis
from margrave.schema.encode import encode
from margrave.schema.encoded import Encoded

SYNTHETIC_ROWS = 2000
"""Synthetic rows that are looked at, if the run leaves the number open."""
MIN_SHARE = 1e-12
"""Least share of a pair of values whose logarithm is taken: a model may give a pair none."""
Numbers = NDArray[np.float64]


class Evidence:
    """The statistics of a world that its runs are scored by. **Not private** where the world is not.

    - "released cells": the log-likelihood ratio of all released marginals, from the exact counts of both
      tables, as an attacker has it who knows everything but whether the canary is in (Neyman and Pearson).
    - "model": the mean log share that the fitted model gives the canary's pairs of values.
    - "total": the number of rows that the model or the table stands for.
    - "rows alike": synthetic rows that are the canary; "rows near": that differ from it in one column.
    - "values": the sum over columns of the share of synthetic rows with the canary's value.

    Args:
        world: The two tables.
        rng: Draws synthetic rows.
    """

    def __init__(self, world: World, rng: np.random.Generator) -> None:
        self._world, self._rng = world, rng
        self._sides = tuple(world.codes(present) for present in (False, True))
        self._counts: dict[tuple[str, ...], tuple[Numbers, Numbers]] = {}

    def names(self, made: Any) -> tuple[str, ...]:
        """The statistics that runs like this one have."""
        rows = ("total", "rows alike", "rows near", "values")
        return ("released cells", "model", *rows) if isinstance(made, Synthesis) else rows

    def of(self, made: Any) -> Numbers:
        """The statistics of one run, in the order of `names`: shape [statistics].

        Args:
            made: A `Synthesis`, or a table of synthetic rows: pyarrow, or `Encoded`.
        """
        if not isinstance(made, Synthesis):
            return np.array(self._of_rows(rows_of(made, self._world)))
        synthesis = made
        rows = synthesis.encoded(SYNTHETIC_ROWS, rng=self._rng)
        seen = self._of_rows(rows)
        return np.array([self._cells(synthesis), self._model(synthesis), synthesis.model.total, *seen[1:]])

    def _cells(self, synthesis: Synthesis) -> float:
        total = 0.0
        for noisy in synthesis.measurements:
            low, high = self._exact(noisy.clique)
            total += float(((noisy.values - (low + high) / 2) * (high - low) / noisy.sigmas**2).sum())
        return total

    def _exact(self, clique: tuple[str, ...]) -> tuple[Numbers, Numbers]:
        if clique not in self._counts:
            low, high = (count_cells(side, clique) for side in self._sides)
            self._counts[clique] = (low, high)
        return self._counts[clique]

    def _model(self, synthesis: Synthesis) -> float:
        names = self._world.schema.domain.names
        pairs: list[tuple[str, ...]] = list(combinations(names, 2)) or [names]
        cells = []
        for pair, table in zip(pairs, synthesis.model.project_many(pairs), strict=True):
            share = float(table[tuple(self._world.canary[name] for name in pair)]) / max(
                float(table.sum()), 1
            )
            cells.append(np.log(max(share, MIN_SHARE)))
        return float(np.mean(cells))

    def _of_rows(self, rows: Encoded) -> Sequence[float]:
        same = np.array([rows.column(name) == code for name, code in self._world.canary.items()])
        unlike = (~same).sum(axis=0)
        values = float(same.mean(axis=1).sum()) if rows.rows else 0.0
        return [float(rows.rows), float((unlike == 0).sum()), float((unlike == 1).sum()), values]


def rows_of(made: Any, world: World) -> Encoded:
    """Synthetic rows as codes of the world's schema.

    Raises:
        InputError: They are neither a release nor rows of these columns.
    """
    if isinstance(made, Encoded):
        if made.domain != world.schema.domain:
            raise InputError(invalid("run", "to return rows of the table's columns", "Encode alike."))
        return made
    if not isinstance(made, pa.Table):
        wanted = "to return a Synthesis, a pyarrow.Table or Encoded rows"
        raise InputError(invalid("run", wanted, "Convert what it makes.", got=type(made).__name__))
    return encode(made.select(list(world.schema.names)), world.schema)


def count_cells(rows: Encoded, clique: tuple[str, ...]) -> Numbers:
    """Rows in each cell of a clique's table, one axis an attribute. **Not private** where rows are not."""
    counts = np.zeros(rows.domain.shape(clique))
    if not clique:
        return counts + rows.rows
    np.add.at(counts, tuple(rows.column(name) for name in clique), 1)
    return counts
