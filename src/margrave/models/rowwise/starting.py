"""Starting: the rows that a generator begins with, from the tables they are to have."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models.rounding import draw_column, grouped
from margrave.models.rowwise.model import row_dtype
from margrave.models.rowwise.targets import Targets
from margrave.schema.domain import Clique

__all__ = ["STARTS", "linked", "scattered", "uniform"]

Floats = NDArray[np.float64]
Rows = NDArray[Any]


def scattered(wanted: Targets, rows: int, rng: np.random.Generator) -> Rows:
    """Rows with the wanted one-ways, to within one row a code, paired at random: shape [names, rows]."""
    group, by = np.zeros(rows, dtype=np.int64), np.arange(rows)
    columns = [draw_column(group, by, one[None, :], rng) for one in wanted.ones]
    return _stacked(wanted, columns, rows)


def uniform(wanted: Targets, rows: int, rng: np.random.Generator) -> Rows:
    """Rows of codes at random: shape [names, rows]."""
    sizes = wanted.domain.shape(wanted.names)
    return _stacked(wanted, [rng.integers(0, size, rows) for size in sizes], rows)


def linked(wanted: Targets, rows: int, rng: np.random.Generator) -> Rows:
    """Rows drawn attribute by attribute, each given those drawn before it that one table holds with it.

    Next comes the attribute, with the table, whose mutual information with what is drawn already is
    largest; by its one-way where no table ties it to any: shape [names, rows].
    """
    tables = {c: t / max(float(t.sum()), 1e-300) for c, t in zip(wanted.cliques, wanted.tables, strict=True)}
    drawn: dict[str, NDArray[np.int64]] = {}
    ties: dict[tuple[str, Clique], tuple[float, Clique]] = {}
    while len(drawn) < len(wanted.names):
        best: tuple[float, str, Clique, Clique] | None = None
        for clique in tables:
            given = tuple(name for name in clique if name in drawn)
            for name in clique if given else ():
                if name in drawn:
                    continue
                if (name, clique) not in ties or ties[name, clique][1] != given:
                    ties[name, clique] = _information(tables[clique], clique, name, given), given
                worth = ties[name, clique][0]
                if best is None or worth > best[0]:
                    best = (worth, name, clique, given)
        if best is None:
            name = next(name for name in wanted.names if name not in drawn)
            one = wanted.ones[wanted.names.index(name)][None, :]
            drawn[name] = draw_column(np.zeros(rows, np.int64), np.arange(rows), one, rng)
        else:
            _, name, clique, given = best
            drawn[name] = _given(tables[clique], clique, name, {n: drawn[n] for n in given}, rows, rng)
    return _stacked(wanted, [drawn[name] for name in wanted.names], rows)


def _given(
    table: Floats,
    clique: Clique,
    name: str,
    given: dict[str, NDArray[np.int64]],
    rows: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Codes of an attribute drawn given others, by a table that holds them all, shape [rows]."""
    flat = _conditioning(table, clique, name, tuple(given))
    sizes = [table.shape[clique.index(other)] for other in given]
    keys = np.zeros(rows, dtype=np.int64)
    for codes, size in zip(given.values(), sizes, strict=True):
        keys = keys * size + codes
    # Where the table has nothing, rounding has put rows all the same: they follow the attribute's own shares.
    empty = flat.sum(axis=1) <= 0.0
    flat[empty] = flat.sum(axis=0)
    return draw_column(keys, grouped(keys, len(flat)), flat, rng)


def _conditioning(table: Floats, clique: Clique, name: str, given: Clique) -> Floats:
    """The table summed to `given` and `name`, shape [cells of given, codes of name]."""
    kept = (*given, name)
    summed = table.sum(axis=tuple(axis for axis, other in enumerate(clique) if other not in kept))
    order = [other for other in clique if other in kept]
    summed = summed.transpose([order.index(other) for other in kept])
    return np.array(summed.reshape(-1, table.shape[clique.index(name)]))


def _information(table: Floats, clique: Clique, name: str, given: Clique) -> float:
    """Mutual information of an attribute and others, in nats."""
    joint = _conditioning(table, clique, name, given)
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    some = joint > 0
    return float((joint[some] * np.log(joint[some] / apart[some])).sum())


def _stacked(wanted: Targets, columns: list[NDArray[np.int64]], rows: int) -> Rows:
    return np.array(columns, dtype=row_dtype(wanted.domain)).reshape(len(columns), rows)


STARTS = {"linked": linked, "scattered": scattered, "uniform": uniform}
"""The rows to begin with, by name."""
