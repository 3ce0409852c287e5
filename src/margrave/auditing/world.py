"""World: two neighbouring tables that an attacker tries to tell apart, and how they should be protected.

`Evidence` is what the attacker reads off one run: a few numbers that are the higher, the likelier the canary
is in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.run.synthesis import Synthesis
from margrave.schema.encode import decode, encode
from margrave.schema.encoded import Encoded, code_dtype
from margrave.schema.frame import Frame
from margrave.schema.schema import Schema

OWNER = "canary owner"
SIZES = {"a": 2, "b": 3, "c": 4, "d": 3}
"""Columns of the table by default and how many codes each has: few, so that many runs take seconds."""
AUDITED: tuple[Adjacency, ...] = ("add_remove", "replace_one")
"""The adjacencies under which a canary makes two tables neighbours: it is added, or takes a row's place."""


def check_adjacency(adjacency: str) -> None:
    """Raise InputError unless a table with a canary and one without it are neighbours under the adjacency."""
    if adjacency not in AUDITED:
        remedy = "A canary is a row that is added, or that takes the place of another: audit one of these."
        raise InputError(invalid("adjacency", f"one of {list(AUDITED)} in an audit", remedy, got=adjacency))


@dataclass(frozen=True, slots=True, repr=False)
class World:
    """Two neighbouring tables. **Not private** where they were made from a private one.

    Args:
        schema: Of both, all of it known, without the owner column.
        without: The table without the canary, a pyarrow.Table, with an owner column if there is one.
        present: The neighbour that holds it.
        canary: Its codes, by column.
        neighbours: Whom the guarantee protects, and under which adjacency the tables are neighbours.

    Raises:
        InputError: The adjacency is neither "add_remove" nor "replace_one".
    """

    schema: Schema
    without: Any
    present: Any
    canary: Mapping[str, int]
    neighbours: Neighbours

    def __post_init__(self) -> None:
        check_adjacency(self.neighbours.adjacency)

    def codes(self, present: bool) -> Encoded:
        """The rows of one of the tables as codes."""
        table = self.present if present else self.without
        return encode(table.select(list(self.schema.names)), self.schema)

    def __repr__(self) -> str:
        return f"World({list(self.schema.names)}, {self.neighbours})"


def generated(
    *,
    rows: int = 200,
    sizes: Mapping[str, int] | None = None,
    max_rows: int = 1,
    adjacency: Adjacency = "add_remove",
    seed: int = 0,
) -> World:
    """A world of made-up rows, dependent and clustered, and a canary of values that are rare or absent.

    Args:
        rows: Rows without the canary.
        sizes: Codes of each column, 2 or more.
        max_rows: Rows of the canary, all alike; above 1 there is an owner column.
        adjacency: Whether the canary is added, or takes the place of ordinary rows.
        seed: Of the rows.

    Raises:
        InputError: There are too few rows, or the adjacency is neither "add_remove" nor "replace_one".
    """
    check_adjacency(adjacency)
    schema = Schema.from_sizes(SIZES if sizes is None else sizes)
    if rows < 2:
        raise InputError(invalid("rows", "2 or more", "Try rows=200.", got=rows))
    rng = np.random.default_rng(seed)
    hidden = rng.random(rows)
    columns = []
    for size in schema.domain.sizes:
        near = np.where(rng.random(rows) < 0.8, hidden, rng.random(rows))
        # The last code is the canary's: no other row has it, but where there are two codes.
        codes = np.floor(near * max(size - 1, 2)).astype(np.int64)
        columns.append(codes.astype(code_dtype(size)))
    table = decode(Encoded(schema.domain, tuple(columns)), schema, rng)
    return worlds_of(table, schema, max_rows=max_rows, adjacency=adjacency, seed=seed)


def worlds_of(
    table: Any,
    schema: Schema,
    *,
    max_rows: int = 1,
    adjacency: Adjacency = "add_remove",
    canary: Mapping[str, int] | None = None,
    seed: int = 0,
) -> World:
    """A world from a table: its rows, and its rows with a canary. **Not private** where the table is.

    Args:
        table: A pyarrow.Table of the schema's columns.
        schema: All of it known.
        max_rows: Rows of the canary, which one owner has; every other row is an owner of its own.
        adjacency: Under "replace_one" the canary takes the place of rows of the most frequent values.
        canary: Its codes; by default the rarest value of each column.
        seed: Draws numbers inside the canary's bins.

    Raises:
        InputError: A column is not known, the table holds no row, the canary is no row of it, or the
            adjacency is neither "add_remove" nor "replace_one".
    """
    check_adjacency(adjacency)
    unit = Unit(None if max_rows == 1 else OWNER, max_rows)
    codes = encode(table.select(list(schema.names)), schema)
    if codes.rows == 0:
        raise InputError(invalid("table", "of one row or more", "There is nothing to audit on."))
    rare, plain = _rarest_and_commonest(codes, schema)
    chosen = rare if canary is None else {name: int(canary[name]) for name in rare}
    _check(chosen, schema)
    rng = np.random.default_rng(seed)
    extra, instead = (_repeat_row(row, schema, max_rows, table, rng) for row in (chosen, plain))
    # Where a row is replaced, an ordinary one stands in the canary's place, so that the tables differ by
    # one row and not by their length.
    base = [table] if adjacency == "add_remove" else [table, instead]
    sides = [pa.concat_tables(base), pa.concat_tables([table, extra])]
    if max_rows > 1:
        sides = [
            side.append_column(OWNER, pa.array(_make_owners(side.num_rows, codes.rows))) for side in sides
        ]
    return World(schema, sides[0], sides[1], chosen, Neighbours(unit, adjacency))


def _rarest_and_commonest(codes: Encoded, schema: Schema) -> tuple[dict[str, int], dict[str, int]]:
    """The rarest and the most frequent code of each column, missing ones left out."""
    counts = {
        name: np.bincount(codes.column(name), minlength=size)[: schema[name].present]
        for name, size in zip(schema.domain.names, schema.domain.sizes, strict=True)
    }
    # Of values equally rare the last, of those equally frequent the first: so they are not the same.
    rare = {name: len(found) - 1 - int(found[::-1].argmin()) for name, found in counts.items()}
    return rare, {name: int(found.argmax()) for name, found in counts.items()}


def _make_owners(rows: int, alone: int) -> Any:
    """Each of the first rows has an owner of its own, all later ones share one."""
    return np.minimum(np.arange(rows), alone)


def _repeat_row(
    row: Mapping[str, int], schema: Schema, times: int, like: Any, rng: np.random.Generator
) -> Any:
    """The same row so many times, stored as a table stores its own."""
    codes = tuple(
        np.full(times, row[name], dtype=code_dtype(size))
        for name, size in zip(schema.domain.names, schema.domain.sizes, strict=True)
    )
    types = {field.name: str(field.type) for field in like.schema}
    made = decode(Encoded(schema.domain, codes), schema, rng, Frame("arrow", types))
    return made.select(like.column_names).cast(like.schema)


def _check(canary: Mapping[str, int], schema: Schema) -> None:
    for name, size in zip(schema.domain.names, schema.domain.sizes, strict=True):
        if not 0 <= canary[name] < size:
            bounds = f"a code of column {name!r}, below {size}"
            raise InputError(invalid("canary", bounds, "Give a code for each column.", got=canary[name]))


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
