"""All pairs and the mixture against their sheet: the budget, quotas, a penalty that is right."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.models._base.pooling import Pooled, compare, halves, mu, pool
from margrave.models._mixture.model import MixtureModel
from margrave.models.mixture import Mixture
from margrave.models.mixture.policy import set_policy
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.unit import Adjacency
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain
from margrave.select.all_pairs import AllPairs

SIZES = {"a": 3, "b": 4, "c": 2}


@pytest.mark.parametrize(("adjacency", "squared"), [("add_remove", 1), ("replace_one", 2)])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("hidden", [float("inf"), 1e-9])
def test_the_sum_of_squared_sensitivity_over_variance_is_mu_squared(
    adjacency: Adjacency, squared: int, k: int, hidden: float
) -> None:
    """S = k, or k root 2 where rows are replaced: d one-ways and every pair, once or twice.

    Where pairs are screened one event is the appraisal, whose sensitivity grows with the pairs.
    """
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(0, size, 300) for name, size in SIZES.items()}
    unit = None if k == 1 else mg.Unit("id", max_rows=k)
    if unit:
        columns["id"] = np.arange(300) // 5
    synthesis = mg.Synthesizer(
        epsilon=1.0,
        delta=1e-5,
        select=AllPairs(hidden=hidden, blind=float("inf")),
        model=Mixture(components=4, steps=10),
        schema=mg.Schema.from_sizes(SIZES),
        adjacency=adjacency,
        unit=unit,
    ).fit(pa.table(columns))
    total, others = Fraction(0), 0
    for event in synthesis.release.events:
        assert isinstance(event, GaussianEvent)
        assert event.rounded
        others += event.l2_squared != squared * k * k
        total += Fraction(event.l2_squared) / event.sigma_squared
    assert others == (0 if hidden > 1.0 else 1)
    assert float(total) == pytest.approx(0.268051**2, rel=1e-5)  # mu at (1, 1e-5)
    assert total <= 2 * Fraction(synthesis.guarantee.rho) * (1 + Fraction(1, 10**12))


def test_every_component_and_every_column_inside_it_is_within_one_of_its_quota() -> None:
    """Components are told by a column of their own, so that what was drawn from each can be counted."""
    rng = np.random.default_rng(2)
    domain = Domain(("mark", "x", "y", "z"), (5, 4, 6, 3))
    weights = rng.dirichlet(np.full(5, 2.0))
    shares = np.concatenate([np.eye(5), *(rng.dirichlet(np.ones(n), 5).T for n in domain.sizes[1:])])
    model = MixtureModel(domain, 1000.0, weights, shares, 0.0, None)
    for rows in (7, 400, 3001):
        sample = model.sample(rows, np.random.default_rng(rows))
        mark = sample.column("mark")
        drawn = np.bincount(mark, minlength=5)
        assert np.abs(drawn - rows * weights).max() < 1 + 1e-9
        start = 5
        for name in domain.names[1:]:
            size = domain[name]
            for k in range(5):
                counts = np.bincount(sample.column(name)[mark == k], minlength=size)
                assert np.abs(counts - drawn[k] * shares[start : start + size, k]).max() < 1 + 1e-9
            start += size


def truth(domain: Domain, rows: float, seed: int) -> np.ndarray:
    """A joint distribution of dependent columns, in rows."""
    rng = np.random.default_rng(seed)
    parts = [rng.dirichlet(np.full(n, 0.6), 4) for n in domain.sizes]
    joint = sum(
        w * np.einsum("a,b,c,d->abcd", *(p[k] for p in parts))
        for k, w in enumerate(rng.dirichlet(np.ones(4)))
    )
    return rows * np.asarray(joint)


@pytest.mark.parametrize("sigma", [4.0, 25.0])
def test_the_price_that_split_noise_picks_is_nearly_as_good_as_the_best(sigma: float) -> None:
    """Within 3 % of the least pair error, which only the tables without noise can tell.

    The half that was fitted, asked the same, names the penalty of the least smoothing: it cannot judge.
    """
    domain, rows = Domain(("a", "b", "c", "d"), (10, 8, 9, 12)), 5000.0
    picked, best, fooled = 0.0, 0.0, 0
    for seed in range(4):
        joint, rng = truth(domain, rows, seed), np.random.default_rng(50 + seed)
        exact = {}
        for pair in itertools.combinations(range(4), 2):
            gone = tuple({0, 1, 2, 3} - set(pair))
            exact[tuple(domain.names[i] for i in pair)] = joint.sum(axis=gone)
        noisy = [NoisyMarginal(c, t + sigma * rng.standard_normal(t.shape), sigma) for c, t in exact.items()]
        tables = pool(domain, noisy)
        fitted, judged = halves(tables, rng)
        penalties = [
            times * set_policy(sum(domain.sizes), rows * mu(tables)).penalty for times in (0.1, 1.0, 20.0)
        ]
        candidates = priced(domain, fitted, rows, [np.sqrt(0.75) * penalty for penalty in penalties])
        chosen = nearest(candidates, judged, rows)
        fooled += nearest(candidates, fitted, rows) == 0
        errors = [
            np.mean(
                [np.abs(f - exact[t.clique]).sum() / (2 * rows) for f, t in zip(own, tables, strict=True)]
            )
            for own in priced(domain, tables, rows, penalties)
        ]
        picked, best = picked + errors[chosen], best + min(errors)
        assert max(errors) > 1.3 * min(errors)  # there is something to choose
    assert picked < 1.03 * best
    assert fooled == 4


def nearest(candidates: Sequence[list[Any]], judged: Sequence[Pooled], rows: float) -> int:
    """Which of them is the best by what is judged by."""
    return int(np.argmin([compare(one, candidates[-1], judged, rows)[0] for one in candidates]))


def priced(
    domain: Domain, tables: Sequence[Pooled], rows: float, penalties: Sequence[float]
) -> list[list[Any]]:
    """The tables of a mixture fitted at each penalty of dependence."""
    asked = [NoisyMarginal(t.clique, t.values, t.sigma) for t in tables]
    found = []
    for penalty in penalties:
        fitter = Mixture(components=12, refinements=0, steps=300, information=float(penalty))
        model = fitter.fit(domain, asked, total=rows)
        found.append([model.project(t.clique) for t in tables])
    return found
