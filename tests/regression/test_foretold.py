"""What a run foretells of sums of products is what the door would release: its noise, at every adjacency."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import GDP, ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.regression.foretold import foretell_noise
from margrave.regression.moments import number_columns
from seeded_noise import SeededSource

SCHEMA = mg.Schema(
    (
        mg.Integer(name="pay", lower=0, upper=9, bins=10, missing=False),
        mg.Categorical(name="ward", values=("a", "b", "c", "d"), missing=False),
        mg.Boolean(name="sex", missing=False),
    )
)


@pytest.mark.parametrize("gdp", [False, True])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("rho", [Fraction(1, 10_000), Fraction(1, 100)])
def test_the_noise_that_is_foretold_is_the_door_s(
    rho: Fraction, rows: int, adjacency: Adjacency, gdp: bool
) -> None:
    """Numbers are cut to binary digits, and a marginal of whole rows has the noise of rounding besides."""
    neighbours = Neighbours(Unit("id", rows) if rows else Unit(), adjacency)
    ledger = Ledger(neighbours=neighbours, accountant=GDP() if gdp else ZCDP(), epsilon=2.0, delta=1e-5)
    table = pa.table({"pay": [1, 2], "ward": ["a", "b"], "sex": [True, False]})
    if rows:
        table = table.append_column("id", pa.array(np.arange(2)))
    curator = Curator(open_source(table)[0], ledger, SeededSource(1))
    curator.discover(SCHEMA)
    numbers = number_columns(SCHEMA, "pay")
    foretold = foretell_noise(numbers, curator.sigma(rho))
    found = curator.sums(numbers, rho)
    assert foretold == pytest.approx((found.sigma, found.diagonal_sigma), rel=2e-3)
