"""Columns, tables of their codes, and releases of these: what tests of relative columns share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

import margrave as mg
from margrave.models.independent import Independent
from margrave.privacy.unit import Neighbours
from margrave.release import Guarantee, NoisyMarginal, Release
from margrave.schema.columns import Categorical, Column, Real, Relative
from margrave.tables.numbers import scores_of

OWN = Real(name="y", lower=-500.0, upper=500.0, bins=4, missing=False)
NET = Real(name="net", lower=0.0, upper=80.0, bins=4, missing=False)
FEE = Real(name="fee", lower=0.0, upper=9.0, bins=3, missing=False)
SEX = Categorical(name="sex", values=("F", "M"), missing=False)
EXACT = Real(name="y", edges=(0.0, float(np.nextafter(0.0, 1.0))), missing=False)
APART = Real(name="y", edges=(-6.0, -2.0, 0.0, 8.0), missing=False)
QUOTIENTS = Real(name="y", edges=(0.2, 0.6, 1.0, float(np.nextafter(1.0, 2.0))), missing=False)


def relative(part: Real = EXACT, **changed: Any) -> Relative:
    """The column y, by default equal to net."""
    options: dict[str, Any] = {"base": "net", "own": OWN, "missing": False}
    return Relative(name="y", part=dataclasses.replace(part, name="y"), **(options | changed))


def release_of(
    columns: Sequence[Column],
    joint: Any,
    cliques: Sequence[tuple[str, ...]],
    sigma: float = 1e-9,
    seed: int = 0,
) -> Release:
    """Noisy tables of counts that have one axis a column."""
    rng, tables = np.random.default_rng(seed), []
    schema = mg.Schema(tuple(columns))
    names = list(schema.names)
    for clique in cliques:
        axes = tuple(axis for axis, name in enumerate(names) if name not in clique)
        kept = [name for name in names if name in clique]
        exact = np.asarray(joint, dtype=float).sum(axis=axes).transpose([kept.index(name) for name in clique])
        tables.append(NoisyMarginal(clique, exact + sigma * rng.standard_normal(exact.shape), sigma))
    model = Independent().fit(schema.domain, tables)
    promise = Guarantee(1.0, 1e-9, 0.1, Neighbours(), "gdp")
    return Release(schema, tuple(tables), promise, (), "tables", "independent", model.state(), model.total)


def counts(columns: Sequence[Column], seed: int = 3) -> Any:
    """Rows of each combination of codes, of which some are much more frequent than others."""
    shape = [column.size for column in columns]
    return np.random.default_rng(seed).poisson(40.0 * np.random.default_rng(seed).exponential(1.0, shape))


def numbers(column: Column) -> Any:
    """The number of each code."""
    found = scores_of(column)
    assert found is not None
    return found
