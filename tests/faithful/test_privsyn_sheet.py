"""PrivSyn against its sheet: the noise DenseMarg weighs, scores that are not drowned, tables that agree."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from faithful_door import Recorder, chain, opened

from margrave.models._base.pooling import Pooled
from margrave.models.rowwise.gum import GUM
from margrave.models.rowwise.targets import consistent
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.unit import Adjacency
from margrave.progress import silent
from margrave.schema.domain import Domain
from margrave.select.privsyn import PrivSyn, dense

SIZES = {"a": 4, "b": 3, "c": 5, "d": 2}
DOMAIN = Domain.of(SIZES)
PAIRS = list(itertools.combinations(SIZES, 2))


def noise_of(chosen: list[tuple[str, str]], rho: float) -> float:
    """Expected L1 noise of marginals with rho split by cells^(2/3), each summed by itself."""
    cells = np.array([DOMAIN.size(pair) for pair in chosen], dtype=float)
    shares = rho * cells ** (2 / 3) / (cells ** (2 / 3)).sum() if len(cells) else cells
    return float((cells * math.sqrt(2 / math.pi) / np.sqrt(2 * shares)).sum()) if len(cells) else 0.0


def test_the_noise_in_all_is_the_closed_form() -> None:
    whole = sum(DOMAIN.size(pair) ** (2 / 3) for pair in PAIRS)
    assert noise_of(PAIRS, 0.03) == pytest.approx(whole**1.5 / math.sqrt(math.pi * 0.03))


@pytest.mark.parametrize("rho", [1e-7, 0.001, 0.02, 1.0])
def test_pairs_are_added_while_that_lowers_noise_and_dependence_together(rho: float) -> None:
    """The greedy choice, step by step, from the noise of each marginal as it would be bought."""
    rng = np.random.default_rng(int(1e7 * rho))
    errors = dict(zip(PAIRS, rng.exponential(300, len(PAIRS)).tolist(), strict=True))
    found = dense(DOMAIN, errors, 1 / math.sqrt(2 * rho))

    def cost(chosen: list[tuple[str, str]]) -> float:
        return noise_of(chosen, rho) + sum(e for pair, e in errors.items() if pair not in chosen)

    wanted: list[tuple[str, str]] = []
    while left := [pair for pair in PAIRS if pair not in wanted]:
        best = min(left, key=lambda pair: cost([*wanted, pair]))
        if cost([*wanted, best]) >= cost(wanted):
            break
        wanted.append(best)
    assert found == wanted
    assert bool(found) == (rho > 1e-7)


@pytest.mark.parametrize(("adjacency", "moved"), [("add_remove", 1.0), ("replace_one", 2.0)])
def test_scores_have_the_standard_deviation_and_not_the_variance(adjacency: Adjacency, moved: float) -> None:
    """S root(m / (2 rho_1)) rows for m scores, S the L1 sensitivity of one table against a public product."""
    recorder = Recorder(opened(chain(SIZES, 3000), SIZES, 0.5, adjacency=adjacency, gdp=True)[0])
    PrivSyn().run(recorder, GUM(rows=500, iterations=1), silent)
    note = next(n for n in recorder.notes if n.verb == "appraise")
    ledger = recorder.curator._ledger
    (event,) = (e for e in ledger.events if isinstance(e, GaussianEvent) and e.what.startswith("errors"))
    steps = int(event.what.rsplit("-", 1)[1].split()[0])
    sigma = math.sqrt(float(event.sigma_squared)) / 2**steps
    rho = float(recorder.total) / 10
    assert float(note.question["rho"]) == pytest.approx(rho)
    assert sigma == pytest.approx(moved * math.sqrt(len(PAIRS) / (2 * rho)), rel=1e-3)


def test_all_that_tables_share_agrees_and_their_totals_are_one_where_nothing_is_cut() -> None:
    rng = np.random.default_rng(3)
    joint = 4000 * rng.dirichlet(np.full(120, 5.0)).reshape(DOMAIN.sizes)
    cliques = [("a", "b"), ("b", "c"), ("a", "c", "d"), ("b", "d"), ("d",)]
    tables = []
    for clique, sigma in zip(cliques, (1.0, 0.3, 2.0, 0.7, 1.5), strict=True):
        exact = joint.sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in clique))
        noisy = exact + sigma * rng.standard_normal(exact.shape)
        tables.append(Pooled(clique, noisy, np.full(exact.shape, sigma)))
    values = consistent(tables, 4000.0)
    assert min(float(table.min()) for table in values) > 0
    for (one, x), (two, y) in itertools.combinations(zip(cliques, values, strict=True), 2):
        common = tuple(name for name in one if name in two)
        first, second = (
            t.sum(axis=tuple(i for i, name in enumerate(c) if name not in common))
            for c, t in ((one, x), (two, y))
        )
        np.testing.assert_allclose(first, second, atol=1e-6 * 4000)
    np.testing.assert_allclose([table.sum() for table in values], 4000.0)
