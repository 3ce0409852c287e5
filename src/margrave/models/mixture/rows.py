"""Rows: synthetic rows of a mixture, with far less noise than independent draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.models.balance import balance
from margrave.models.rounding import draw_column, grouped

if TYPE_CHECKING:
    from margrave.models.mixture.model import MixtureModel

__all__ = ["conditioned", "draw"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

PASSES = 4
"""Swaps tried for each row and attribute to bring pair counts to the model's."""


def conditioned(model: MixtureModel, evidence: Mapping[str, int]) -> Floats:
    """Component weights given some codes: w_k prod_i Q_ki(x_i), normalised, shape [components]."""
    logs = np.log(np.maximum(model.weights, 1e-300))
    for name, code in evidence.items():
        logs = logs + np.log(np.maximum(model.block(name)[code], 1e-300))
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def draw(
    model: MixtureModel, rows: int, rng: np.random.Generator, evidence: Mapping[str, int]
) -> list[Longs]:
    """Codes of every attribute, each of shape [rows], in random order.

    Components get rows by systematic sampling of their weights, and codes in a component by that of its
    conditionals, so that each count is within 1 of its expectation. Codes are then swapped inside components,
    where any pairing is as likely, until the counts of pairs come close to the model's.
    """
    domain = model.domain
    weights = conditioned(model, evidence)
    keys = draw_column(np.zeros(rows, np.int64), np.arange(rows), weights[None, :], rng)
    keys.sort()
    by = grouped(keys, len(weights))
    columns = []
    for name in domain.names:
        if name in evidence:
            columns.append(np.full(rows, evidence[name], dtype=np.int64))
            continue
        table = np.ascontiguousarray(model.block(name).T)
        columns.append(draw_column(keys, by, table, rng))
    free = [i for i, name in enumerate(domain.names) if name not in evidence]
    if len(free) > 1 and rows > 1:
        sizes = [domain.sizes[i] for i in free]
        kept = np.concatenate([np.repeat(name not in evidence, domain[name]) for name in domain.names])
        expected = rows * model.pairs(weights)[np.ix_(kept, kept)]
        for i, column in zip(
            free, balance([columns[i] for i in free], keys, expected, sizes, PASSES, rng), strict=True
        ):
            columns[i] = column
    order = rng.permutation(rows)
    return [column[order] for column in columns]
