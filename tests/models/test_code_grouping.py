"""Groups of codes: what is grouped, how tables are added up and spread, and a mixture over groups."""

from __future__ import annotations

import numpy as np
import pytest

from margrave.errors import ReleaseError
from margrave.models._base.pooling import pool
from margrave.models._grouping import group_codes, groups_from_state
from margrave.models.mixture import Mixture
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

DOMAIN = Domain(("many", "few"), (300, 3))


def truth(rows: float = 100_000.0) -> np.ndarray:
    """Frequent codes of `many` decide `few`; rare ones are all alike."""
    share = 1.0 / np.arange(1, 301) ** 1.2
    rng = np.random.default_rng(0)
    given = rng.dirichlet(np.full(3, 0.5), 300)
    given[25:] = given[25]
    return rows * (share / share.sum())[:, None] * given


def measurements(sigma: float = 3.0) -> list[NoisyMarginal]:
    rng = np.random.default_rng(1)
    one, both = truth().sum(axis=1), truth()
    return [
        NoisyMarginal(("many",), one + sigma * rng.standard_normal(one.shape), sigma),
        NoisyMarginal(("many", "few"), both + sigma * rng.standard_normal(both.shape), sigma),
    ]


def test_small_attributes_are_left_alone() -> None:
    assert group_codes(DOMAIN, pool(DOMAIN, measurements()), 300) is None


def test_frequent_codes_keep_a_group_of_their_own() -> None:
    grouping = group_codes(DOMAIN, pool(DOMAIN, measurements()), 40)
    assert grouping is not None
    assert grouping.inner.sizes == (40, 3)
    lone = np.bincount(grouping.groups["many"])
    top = np.argsort(-truth().sum(axis=1))[:20]
    assert (lone[grouping.groups["many"][top]] == 1).all()
    assert np.allclose(np.bincount(grouping.groups["many"], weights=grouping.shares["many"]), 1.0)


def test_ordered_codes_are_grouped_in_runs() -> None:
    domain = Domain(("many", "few"), (301, 3), (300, 0))
    grouping = group_codes(domain, [], 40)
    assert grouping is not None
    groups = grouping.groups["many"]
    assert (np.diff(groups) >= 0).all()
    assert grouping.inner.ordered == (40, 0)
    assert np.bincount(groups)[:-1].max() - np.bincount(groups)[:-1].min() <= 1
    assert np.bincount(groups)[-1] == 1  # the code without order stands alone


def test_tables_are_added_up_with_their_variances() -> None:
    tables = pool(DOMAIN, measurements())
    grouping = group_codes(DOMAIN, tables, 40)
    assert grouping is not None
    small = grouping.summed(tables[1])
    assert small.values.shape == (40, 3)
    assert small.values.sum() == pytest.approx(tables[1].values.sum())
    lone = np.bincount(grouping.groups["many"])
    assert np.allclose(small.sigma**2, 9.0 * lone[:, None])
    assert grouping.spread(small.values, ("many", "few")).sum() == pytest.approx(small.values.sum())


def test_a_mixture_over_groups_answers_in_codes() -> None:
    fitter = Mixture(components=20, largest=40, target=None)
    model = fitter.fit(DOMAIN, measurements())
    assert model.domain == DOMAIN
    pair = model.project(("few", "many"))
    assert pair.shape == (3, 300)
    assert 0.5 * np.abs(pair.T - truth()).sum() / truth().sum() < 0.05
    rows = model.sample(50_000, np.random.default_rng(0))
    counts = np.bincount(rows.column("many"), minlength=300) / 50_000
    assert 0.5 * np.abs(counts - pair.sum(axis=0) / model.total).sum() < 0.01
    again = Mixture().restore(DOMAIN, [], model.state())
    assert np.allclose(again.project(("many", "few")), pair.T)
    assert np.array_equal(
        again.sample(50, np.random.default_rng(2)).column("many"),
        model.sample(50, np.random.default_rng(2)).column("many"),
    )


def test_given_a_code_of_a_large_attribute() -> None:
    model = Mixture(components=20, largest=40).fit(DOMAIN, measurements())
    rows = model.sample(20_000, np.random.default_rng(0), {"many": 0})
    assert (rows.column("many") == 0).all()
    wanted = model.project(("many", "few"))[0]
    found = np.bincount(rows.column("few"), minlength=3) / 20_000
    assert np.abs(found - wanted / wanted.sum()).max() < 0.01


@pytest.mark.parametrize("key", ["groups_0", "shares_0"])
def test_damaged_states_are_refused(key: str) -> None:
    model = Mixture(components=5, largest=40).fit(DOMAIN, measurements())
    for damage in (np.full(300, np.nan), np.zeros(4), np.full(300, -1.0)):
        with pytest.raises(ReleaseError, match="damaged"):
            groups_from_state(DOMAIN, model.state() | {key: damage})
