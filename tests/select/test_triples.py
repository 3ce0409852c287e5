"""Triples: dependence that no pair shows is found and measured, and nothing is asked where noise hides it."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

from margrave.engines.memory import open_source
from margrave.errors import InputError
from margrave.limits import Effort
from margrave.measure.curator import Curator
from margrave.models._mixture.model import MixtureModel
from margrave.models.auto import Auto
from margrave.models.mixture import Mixture
from margrave.privacy.accounting.accountants import GDP
from margrave.privacy.accounting.events import read_appraisal
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.progress import silent
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain
from margrave.schema.schema import Schema
from margrave.select._screening.pairs import summarise_one_ways
from margrave.select._screening.triples import PASSES, KnownPairs, _fit_triple, estimate_pairs, plan_query
from margrave.select.all_pairs import AllPairs
from seeded_noise import SeededSource

FEW = Mixture(components=20)


def opened(
    data: dict[str, np.ndarray], sizes: dict[str, int], epsilon: float = 1.0, seed: int = 1
) -> tuple[Curator, Ledger]:
    source, _ = open_source(pa.table(data))
    ledger = Ledger(epsilon=epsilon, delta=1e-6, neighbours=Neighbours(), accountant=GDP())
    curator = Curator(source, ledger, SeededSource(seed))
    curator.discover(Schema.from_sizes(sizes))
    return curator, ledger


def parity(rows: int, columns: int = 6, wrong: float = 0.05) -> dict[str, np.ndarray]:
    """Coins, of which the last says whether the first two differ, but for some rows."""
    rng = np.random.default_rng(0)
    data = {f"x{i}": rng.integers(0, 2, rows) for i in range(columns)}
    last = f"x{columns - 1}"
    data[last] = np.where(rng.random(rows) < wrong, data[last], data["x0"] ^ data["x1"])
    return data


def appraised(ledger: Ledger) -> list[int]:
    """How many triples each appraisal of triples asked about."""
    found = [read_appraisal(event) for event in ledger.events]
    return [look.marginals for look in found if look is not None and look.columns == 3]


def measured_triples(curator: Curator) -> list[tuple[str, ...]]:
    return [m.clique for m in curator.measurements if len(m.clique) == 3]


def test_a_parity_is_found_measured_and_reproduced() -> None:
    data = parity(20_000)
    curator, ledger = opened(data, dict.fromkeys(data, 2))
    model = AllPairs().run(curator, Auto(), silent)
    assert appraised(ledger) == [20]
    assert measured_triples(curator) == [("x0", "x1", "x5")]
    assert ledger.remaining < Fraction(1, 10**6) * ledger.total
    rows = model.sample(20_000, np.random.default_rng(0))
    same = rows.column("x5") == rows.column("x0") ^ rows.column("x1")
    real = data["x5"] == data["x0"] ^ data["x1"]
    assert float(same.mean()) == pytest.approx(float(real.mean()), abs=0.02)
    table = model.project(("x5", "x0", "x1"))
    assert table[1, 0, 1] + table[1, 1, 0] + table[0, 0, 0] + table[0, 1, 1] > 0.95 * model.total


def test_without_a_share_triples_are_not_asked_about() -> None:
    data = parity(20_000)
    curator, ledger = opened(data, dict.fromkeys(data, 2))
    AllPairs(triples=Fraction(0)).run(curator, FEW, silent)
    assert appraised(ledger) == []
    assert measured_triples(curator) == []


def test_what_pairs_explain_is_not_measured() -> None:
    """A column of 16 codes, a noisy copy of it and what both say of a third: its pairs tell all."""
    rng = np.random.default_rng(0)
    first = rng.choice(16, 30_000, p=0.8 ** np.arange(16) / (0.8 ** np.arange(16)).sum())
    copy = np.where(rng.random(30_000) < 0.05, rng.integers(0, 16, 30_000), first)
    data = {"a": first, "b": copy, "c": (first + rng.integers(0, 8, 30_000)) // 12, "d": first // 4}
    curator, ledger = opened(data, {"a": 16, "b": 16, "c": 2, "d": 4})
    AllPairs().run(curator, FEW, silent)
    assert len(appraised(ledger)) == 1
    assert measured_triples(curator) == []


def test_a_look_at_nothing_costs_little() -> None:
    rng = np.random.default_rng(0)
    data = {f"x{i}": rng.integers(0, 2, 20_000) for i in range(8)}
    curator, ledger = opened(data, dict.fromkeys(data, 2))
    AllPairs().run(curator, FEW, silent)
    assert measured_triples(curator) == []
    (look,) = [e for e in ledger.events if (found := read_appraisal(e)) is not None and found.columns == 3]
    mu = float(look.l2_squared / look.sigma_squared)  # type: ignore[attr-defined]
    assert mu / 2 <= 0.031 * float(ledger.total)


def test_where_noise_hides_all_nothing_is_asked() -> None:
    data = parity(4000, columns=12)
    curator, ledger = opened(data, dict.fromkeys(data, 2), epsilon=0.2)
    AllPairs(hidden=np.inf).run(curator, FEW, silent)
    assert appraised(ledger) == []


def test_rare_flags_cannot_interact_enough_to_be_asked_about() -> None:
    """Their interaction is at most twice the part of the rows that have them."""
    rng = np.random.default_rng(0)
    data = {f"x{i}": (rng.random(20_000) < 0.01).astype(int) for i in range(8)}
    curator, ledger = opened(data, dict.fromkeys(data, 2), epsilon=0.2)
    AllPairs(hidden=np.inf).run(curator, FEW, silent)
    assert appraised(ledger) == []
    even = {name: rng.integers(0, 2, 20_000) for name in data}
    curator, ledger = opened(even, dict.fromkeys(even, 2), epsilon=0.2)
    AllPairs(hidden=np.inf).run(curator, FEW, silent)
    assert appraised(ledger) == [56]


def test_a_target_s_triples_come_first_where_not_all_can_be_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("margrave.select._screening.triples.MAX_TRIPLES", 12)
    data = parity(20_000)
    curator, _ = opened(data, dict.fromkeys(data, 2))
    curator.measure([(name,) for name in data], curator.total / 50)
    pairs = list(combinations(data, 2))
    ways, largest = summarise_one_ways(curator), curator.total * Fraction(3, 100)
    query = plan_query(curator, pairs, ways, largest, "x3")
    assert query is not None
    assert len(query.triples) == 12
    assert sum("x3" in triple for triple in query.triples) == 10
    assert query.rho <= largest


def test_pairs_imply_the_table_of_most_entropy() -> None:
    """Of a chain a - b - c measured without much noise: a and c are independent given b."""
    rng = np.random.default_rng(0)
    domain = Domain(("a", "b", "c"), (3, 4, 3))
    middle = rng.dirichlet(np.ones(4))
    left, right = rng.dirichlet(np.ones(3), 4), rng.dirichlet(np.ones(3), 4)
    table = 50_000 * np.einsum("b,ba,bc->abc", middle, left, right)
    made = [
        NoisyMarginal(("a", "b"), table.sum(axis=2), 1.0),
        NoisyMarginal(("a", "c"), table.sum(axis=1), 1.0),
    ]
    made.append(NoisyMarginal(("b", "c"), table.sum(axis=0), 1.0))
    model = FEW.fit(domain, made, total=50_000.0, effort=Effort(rough=True))
    known = estimate_pairs(model, made)
    (found,), (floor,) = known.imply_triples([("a", "b", "c")])
    assert 0.5 * float(np.abs(found - table).sum()) < 0.01 * 50_000
    rows = rng.multinomial(50_000, (table / table.sum()).ravel())
    drawn = 0.5 * float(np.abs(rows - table.ravel()).sum()) / 50_000
    assert 0.5 * drawn < floor < 2.0 * drawn


def test_the_compiled_fitting_is_that_of_whole_arrays() -> None:
    """Three made-up pairs that no table has, some of their cells 0, against the same passes in NumPy."""
    rng = np.random.default_rng(0)
    sizes = {"a": 4, "b": 3, "c": 5}
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    shares = {}
    for pair in pairs:
        table = np.maximum(rng.random([sizes[name] for name in pair]) - 0.3, 0.0)
        shares[pair] = table / table.sum()
    shares["a", "b"][2], shares["a", "c"][:, 1], shares["b", "c"][:, 1] = 0.0, 0.0, 0.0
    model = MixtureModel(Domain(("a",), (2,)), 1000.0, np.ones(1), np.full((2, 1), 0.5), 1.0, None)
    known = KnownPairs(model, shares, dict.fromkeys(pairs, 0.0))
    (found, again), _ = known.imply_triples([("a", "b", "c")] * 2)
    assert np.array_equal(found, again)
    first, middle, last = (shares[pair] for pair in pairs)
    table = (middle / np.maximum(middle.sum(axis=0), 1e-300))[:, None, :] * last[None, :, :]
    for turn in range(3 * PASSES - 1):
        axis = (2, 0, 1)[turn % 3]
        ratio = (last, middle, first)[axis] / np.maximum(table.sum(axis=axis), 1e-300)
        table = table * np.expand_dims(ratio, axis)
    fitted = _fit_triple(first, middle, last, PASSES)
    np.testing.assert_allclose(
        1000.0 * fitted / fitted.sum(), 1000.0 * table / table.sum(), rtol=1e-10, atol=1e-12
    )
    # It is held in single precision.
    assert np.array_equal(found, (1000.0 * (fitted / fitted.sum())).astype(np.float32))


def test_an_interaction_that_only_the_rough_model_has_is_not_implied() -> None:
    """A mixture of a handful of products may hold c = a xor b though the rows have three fair coins."""
    domain = Domain(("a", "b", "c"), (2, 2, 2))
    xor = 10_000 * np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]) / 4
    first, second = np.array([1.0, 1.0, 0.0, 0.0]), np.array([1.0, 0.0, 1.0, 0.0])
    third = np.array([1.0, 0.0, 0.0, 1.0])
    shares = np.stack([part for one in (first, second, third) for part in (one, 1.0 - one)])
    false = MixtureModel(domain, 10_000.0, np.full(4, 0.25), shares, 1.0, None)
    assert np.allclose(false.project(("a", "b", "c")), xor)
    made = [NoisyMarginal(pair, np.full((2, 2), 2500.0), 5.0) for pair in combinations("abc", 2)]
    (found,), _ = estimate_pairs(false, made).imply_triples([("a", "b", "c")])
    assert np.allclose(found, 1250.0)


def test_a_wrong_share_is_refused() -> None:
    with pytest.raises(InputError, match="triples"):
        AllPairs(triples=Fraction(1))
