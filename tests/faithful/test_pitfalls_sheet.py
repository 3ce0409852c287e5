"""Privacy bugs of published implementations, one by one: what each would look like, and that it is not."""

from __future__ import annotations

import inspect
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from faithful_door import chain, counted, opened

import margrave as mg
import margrave.measure.mechanisms.choose as choosing
from margrave.models.independent import Independent
from margrave.models.mixture import Mixture
from margrave.models.pgm.fitter import PGM
from margrave.models.pgm.multiplicative_weights import PMW
from margrave.models.rowwise.genetic import Genetic
from margrave.models.rowwise.gum import GUM
from margrave.models.rowwise.residual import Residual
from margrave.privacy.accounting.accountants import GDP, ZCDP, event_rho
from margrave.privacy.accounting.conversions import gdp_mu, zcdp_rho
from margrave.privacy.accounting.events import ExponentialEvent
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain
from margrave.select import AIM, AllKWay, MeanEmbedding

SIZES = {"a": 3, "b": 4, "c": 2}
SCHEMA = mg.Schema.from_sizes(SIZES)


@pytest.mark.parametrize(("adjacency", "l1", "l2_squared"), [("add_remove", 1, 1), ("replace_one", 2, 2)])
@pytest.mark.parametrize("k", [1, 4])
def test_constants_are_those_of_the_adjacency(adjacency: Adjacency, l1: int, l2_squared: int, k: int) -> None:
    """Every constant of the door comes from here: found again by brute force over one unit's rows."""
    neighbours = Neighbours(Unit("id", k) if k > 1 else Unit(), adjacency)
    cells = 3
    own = [np.bincount(rows, minlength=cells) for rows in itertools.product(range(cells), repeat=k)]
    none = [np.zeros(cells, dtype=int)]
    changes = [x - y for x in own for y in (own if adjacency == "replace_one" else none)]
    assert neighbours.marginal_l1 == max(int(np.abs(c).sum()) for c in changes) == l1 * k
    assert neighbours.marginal_l2_squared == max(int((c**2).sum()) for c in changes) == l2_squared * k * k
    assert neighbours.rows_are_public == (adjacency == "replace_one" and k == 1)


def test_a_choice_scores_one_model_so_that_two_cells_move_it_by_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port scored |M - E| - |M - E'| at sensitivity 2: counts (5, 5) to (6, 4) take that from 0 to 4.

    Here one expected table is scored, and what the ledger has is what the witness moves.
    """
    seen: list[float] = []
    monkeypatch.setattr(choosing, "exponential", lambda scores, *_: seen.append(float(scores[0])) or 0)
    for rows in ([0] * 5 + [1] * 5, [0] * 6 + [1] * 4):
        import pyarrow as pa

        curator, ledger = opened(pa.table({"x": rows}), {"x": 2}, adjacency="replace_one")
        curator.choose([("x",)], [np.array([5.0, 5.0])], ledger.total / 10, weights=[7])
        (event,) = ledger.events
        assert isinstance(event, ExponentialEvent)
    assert abs(seen[0] - seen[1]) == 14 == event.sensitivity


def test_the_row_count_costs_what_its_noise_says() -> None:
    """A precedence slip elsewhere gives the count a hundredth of the variance that its share buys.

    All that tells the number of rows here is a table in the ledger: its share, its noise in the release and
    the spread of many releases agree, and the synthetic table has the released number of rows.
    """
    counts, totals = [], []
    for _ in range(300):
        synthesis = mg.Synthesizer(select=AllKWay(degree=1), model="independent", epsilon=0.5, schema=SCHEMA)
        release = synthesis.fit(chain(SIZES, 200)).release
        totals.append(release.total)
        counts.append([m.values.sum() for m in release.measurements])
    events = release.events
    rho = sum((event_rho(event) for event in events), Fraction(0))
    assert float(rho) == pytest.approx(release.guarantee.rho, rel=1e-6)
    for place, (event, measured) in enumerate(zip(events, release.measurements, strict=True)):
        sigma = math.sqrt(event.l2_squared / (2 * float(rho) / len(events)))  # type: ignore[attr-defined]
        assert float(measured.sigma) == pytest.approx(sigma, rel=2e-2)
        cells = measured.values.size
        assert np.std([c[place] for c in counts]) == pytest.approx(sigma * math.sqrt(cells), rel=0.2)
    # Pooled by precision, the total is no sharper than all of its sums together allow.
    best = sigma / math.sqrt(sum(1 / m.values.size for m in release.measurements))
    assert np.std(totals) == pytest.approx(best, rel=0.2)


def test_as_many_rows_are_drawn_as_were_released_and_not_as_there_are() -> None:
    drawn = []
    for _ in range(8):
        synthesis = mg.Synthesizer("independent", epsilon=0.3, schema=SCHEMA).fit(chain(SIZES, 200))
        assert synthesis.sample(rng=0).num_rows == synthesis.rows == round(synthesis.release.total)
        drawn.append(synthesis.rows)
    assert len(set(drawn)) > 3


def test_delta_is_a_constant_and_no_function_of_the_rows() -> None:
    default = inspect.signature(mg.Synthesizer).parameters["delta"].default
    deltas = {
        mg.Synthesizer("independent", epsilon=1.0, schema=SCHEMA).fit(chain(SIZES, rows)).guarantee.delta
        for rows in (5, 50, 1000)
    }
    assert deltas == {default}
    assert isinstance(default, float)


def test_noise_is_never_that_of_a_seed() -> None:
    """Published code has default_rng(109), np.random.seed(0) and PRNGKey(seed) at its noise: known then."""
    noises = []
    for _ in range(3):
        np.random.seed(0)  # noqa: NPY002 - what must have no effect
        synthesis = mg.Synthesizer("independent", epsilon=0.2, schema=SCHEMA).fit(chain(SIZES, 100))
        noises.append(np.concatenate([m.values - m.values.round(-9) for m in synthesis.measurements]))
    assert all((one != two).mean() > 0.5 for one, two in itertools.combinations(noises, 2))
    seeds = [name for name in inspect.signature(mg.Synthesizer).parameters if "seed" in name]
    assert seeds == ["not_private_test_seed"]  # whose releases promise nothing: tests/run/test_seeded_runs.py


def test_one_account_for_all_and_it_is_the_tight_one() -> None:
    """epsilon = rho + 2 root(rho ln(1 / delta)) gives 0.0208 at (1, 1e-5); noise alone can have 0.0359."""
    delta = Fraction(1, 100_000)
    assert (
        float(ZCDP().total(1.0, delta))
        == pytest.approx(zcdp_rho(1.0, 1e-5))
        == pytest.approx(0.0306, abs=1e-4)
    )
    assert float(GDP().total(1.0, delta)) == pytest.approx(0.0359, abs=1e-4)
    assert gdp_mu(1.0, 1e-5) == pytest.approx(0.268051, rel=1e-5)
    loose = 0.020820
    assert loose + 2 * math.sqrt(loose * math.log(1e5)) == pytest.approx(1.0, abs=1e-4)
    strategies = {True: AllKWay(), False: AIM()}
    for gaussian, strategy in strategies.items():
        assert strategy.gaussian_only is gaussian
        ledger = mg.Synthesizer(select=strategy, model="pgm", epsilon=1.0, delta=1e-5).new_ledger(False)
        assert ledger.accountant.name == ("gdp" if gaussian else "zcdp")
    assert MeanEmbedding().gaussian_only


FITTERS: dict[str, Any] = {
    "genetic": Genetic(rows=20_000, tolerance=0.001),
    "gum": GUM(rows=20_000),
    "independent": Independent(),
    "mixture": Mixture(components=30, refinements=0, steps=600, information=1e-3, smoothness=1e-9),
    "pgm": PGM(strength=1e-5, tolerance=1e-9),
    "pmw": PMW(passes=600),
    "residual": Residual(rows=GUM(rows=20_000)),
}


@pytest.mark.parametrize("name", FITTERS)
def test_measurements_weigh_by_one_over_the_variance_in_every_generator(name: str) -> None:
    """Standard deviations 1 and 3 give (9 y1 + y2) / 10; one over sigma would give (3 y1 + y2) / 4."""
    domain = Domain(("a", "b"), (2, 3))
    clique = ("a",) if name == "independent" else ("a", "b")
    shape = domain.shape(clique)
    y1 = (
        np.array([[4000.0, 3000], [5000, 2500], [3500, 2000]]).T
        if len(clique) == 2
        else np.array([9000.0, 11000])
    )
    push = np.resize([300.0, -300.0], y1.size).reshape(shape)
    found = FITTERS[name].fit(
        domain, [NoisyMarginal(clique, y1, 1.0), NoisyMarginal(clique, y1 + push, 3.0)], total=20_000.0
    )
    np.testing.assert_allclose(found.project(clique), y1 + push / 10, atol=12)


def test_measured_twice_is_paid_for_twice_and_known_better() -> None:
    """Some keep the later answer only, some noise the earlier one again for nothing."""
    curator, ledger = opened(chain(SIZES, 500), SIZES, gdp=True)
    for _ in range(3):
        curator.measure([("a",)], ledger.total / 6)
    assert float(ledger.spent / ledger.total) == pytest.approx(0.5, rel=1e-6)
    first, *more = curator.measurements
    assert all((m.values != first.values).any() for m in more)
    total = PGM().fit(curator.domain, curator.measurements, total=500.0)
    exact = counted(chain(SIZES, 500), ("a",), [3])
    sigma = float(first.sigma) / math.sqrt(3)
    assert np.abs(total.project(("a",)) - exact).max() < 5 * sigma


def test_one_column_and_no_pair_to_choose_divide_by_nothing() -> None:
    """A public tree divides its rho by the number of draws, r - 1 = 0 for one column."""
    for method in ("mst", "aim", "privsyn", "privmrf", "batched", "auto", "mwem", "residual_planner"):
        synthesis = mg.Synthesizer(method, epsilon=1.0, schema=mg.Schema.from_sizes({"a": 3})).fit(
            chain({"a": 3}, 200)
        )
        spent = sum((event_rho(event) for event in synthesis.release.events), Fraction(0))
        assert float(spent) == pytest.approx(synthesis.guarantee.rho, rel=1e-4)
