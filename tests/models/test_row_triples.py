"""Tables of three attributes that rows are balanced towards: which, and what it does to rows of a mixture."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from margrave.limits import Deadline, Stopwatch
from margrave.models._base.model import Model
from margrave.models._mixture.model import MixtureModel
from margrave.models._sampling import balance as balance_module
from margrave.models._sampling import triples
from margrave.models._sampling.balance import balance_column
from margrave.models._sampling.rounding import order_by_group
from margrave.models._sampling.triples import choose_triples, expect_triples
from margrave.models.mixture.fitter import Mixture
from margrave.models.pgm.fitter import PGM
from margrave.release import NoisyMarginal
from margrave.schema.columns import Categorical
from margrave.schema.constraints.rules import Forbidden
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

COLUMNS = tuple(
    Categorical(name=name, values=tuple(map(str, range(size))), missing=False)
    for name, size in {"a": 8, "b": 8, "c": 4, "d": 5, "e": 3}.items()
)
DOMAIN = Schema(COLUMNS).domain
RULED = Schema(COLUMNS, (Forbidden(("c", "d"), (("0", "0"), ("0", "1"), ("2", "3"))),)).domain
ROWS = 8_000


def measurements(seed: int = 0) -> list[NoisyMarginal]:
    """All pairs of a made-up table in which b nearly follows from a, and all others depend a little."""
    rng = np.random.default_rng(seed)
    parts = [rng.dirichlet(np.full(size, 0.6), 4) for size in DOMAIN.sizes[2:]]
    near = np.exp(-np.abs(np.arange(8)[:, None] - np.arange(8)[None, :]) / 0.4)[None] * rng.random((4, 8, 1))
    near /= near.sum(axis=(1, 2), keepdims=True)
    table = ROWS * np.einsum("kab,kc,kd,ke->abcde", near / 4, *parts)
    found = []
    for places in itertools.chain.from_iterable(itertools.combinations(range(5), n) for n in (1, 2)):
        exact = table.sum(axis=tuple(i for i in range(5) if i not in places))
        noisy = exact + 3.0 * rng.standard_normal(exact.shape)
        found.append(NoisyMarginal(tuple(DOMAIN.names[i] for i in places), noisy, 3.0))
    return found


KINDS: dict[str, dict[str, Any]] = {
    "plain": {"latent_blocks": False, "refinements": 0},
    "latent blocks": {"latent_blocks": True, "refinements": 0},
    "refined": {"latent_blocks": False, "refinements": 8},
    "rules": {"latent_blocks": False, "refinements": 0},
}


@pytest.fixture(scope="module", params=KINDS)
def fitted(request: pytest.FixtureRequest) -> MixtureModel:
    domain = RULED if request.param == "rules" else DOMAIN
    model = Mixture(components=40, **KINDS[request.param]).fit(domain, measurements())
    assert isinstance(model, MixtureModel)
    assert (request.param == "latent blocks") == bool(model.latent_blocks)
    assert (request.param == "refined") == (model.refinements is not None)
    return model


def off(model: Model, drawn: Encoded, width: int) -> float:
    """Mean total variation of the rows' tables of so many attributes from the model's."""
    found = []
    for clique in itertools.combinations(DOMAIN.names, width):
        counts = np.zeros(DOMAIN.shape(clique))
        np.add.at(counts, tuple(drawn.column(name) for name in clique), 1 / drawn.rows)
        found.append(0.5 * np.abs(counts - model.project(clique) / model.total).sum())
    return float(np.mean(found))


def draw_both(
    model: Model, monkeypatch: pytest.MonkeyPatch, rows: int = ROWS, **given: Any
) -> tuple[Encoded, Encoded]:
    """Rows of one seed without triples and with them."""
    with monkeypatch.context() as patched:
        patched.setattr(triples, "MOST_WORK", 0)
        without = model.sample(rows, np.random.default_rng(1), **given)
    return without, model.sample(rows, np.random.default_rng(1), **given)


def test_triples_come_nearer_and_pairs_stay_near(
    fitted: MixtureModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    without, held = draw_both(fitted, monkeypatch)
    assert off(fitted, held, 3) < 0.85 * off(fitted, without, 3)
    assert off(fitted, held, 2) < 1.1 * off(fitted, without, 2) + 0.001
    # Codes change places only, so that there are as many of each; a refined attribute is drawn anew.
    anew = () if fitted.refinements is None else fitted.refinements.names
    for name in set(DOMAIN.names) - {*anew}:
        assert np.array_equal(np.bincount(without.column(name)), np.bincount(held.column(name)))


def test_rules_hold_in_every_row(fitted: MixtureModel) -> None:
    drawn = fitted.sample(ROWS, np.random.default_rng(2))
    tied = fitted.domain.rules
    if tied is not None:
        assert tied.possible({name: drawn.column(name) for name in DOMAIN.names}, drawn.rows).all()


def test_given_codes_leave_triples_out(fitted: MixtureModel, monkeypatch: pytest.MonkeyPatch) -> None:
    without, held = draw_both(fitted, monkeypatch, 500, given={"a": 1})
    if fitted.refinements is None:
        assert all(np.array_equal(a, b) for a, b in zip(without.columns, held.columns, strict=True))
    assert (held.column("a") == 1).all()


def test_none_is_swapped_after_the_deadline(fitted: MixtureModel, monkeypatch: pytest.MonkeyPatch) -> None:
    deadline = Deadline(-1.0, Stopwatch())
    without, held = draw_both(fitted, monkeypatch, deadline=deadline)
    if fitted.refinements is None:
        assert all(np.array_equal(a, b) for a, b in zip(without.columns, held.columns, strict=True))


@pytest.mark.parametrize("rows", [0, 1, 2, 7])
def test_hardly_any_rows(fitted: MixtureModel, rows: int) -> None:
    assert fitted.sample(rows, np.random.default_rng(0)).rows == rows


def test_rows_of_a_graphical_model_come_nearer_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    model = PGM().fit(DOMAIN, [table for table in measurements() if "a" in table.clique])
    without, held = draw_both(model, monkeypatch)
    assert off(model, held, 3) < 0.9 * off(model, without, 3)
    assert off(model, held, 2) < 1.1 * off(model, without, 2) + 0.001


def test_what_tables_should_be_is_summed_over_the_rows_as_they_were_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, 1_000) for size in (4, 3, 2)])
    keys, table = rng.integers(0, 5, 1_000), 7.0 * rng.random((5, 6))
    monkeypatch.setattr(triples, "CHUNK", 300)
    pairs, found = expect_triples(codes, [2, 0], (2, 4), keys, table)
    assert pairs == [(2, 0)]
    wanted = np.zeros((2, 4, 6))
    np.add.at(wanted, (codes[2], codes[0]), (table / table.sum(axis=1, keepdims=True))[keys])
    assert np.allclose(found[0], wanted.reshape(8, 6))


def test_a_column_is_swapped_inside_its_groups_towards_its_tables_with_pairs() -> None:
    """v follows from the parity of u and w, which no pair shows; inside a group any row may have any code."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (3, ROWS)).astype(np.int32)
    groups = rng.integers(0, 20, ROWS)
    kept = codes[2].copy()
    odd = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]) * ROWS / 4
    even = np.full((2, 2), ROWS / 4)
    by, table = order_by_group(groups, 20), np.full((20, 2), 0.5)
    apart = {}
    for drawn, expected in (([(0,), (1,)], [even, even]), ([(0,), (1,), (0, 1)], [even, even, odd])):
        codes[2] = kept
        balance_column(codes, 2, drawn, by, groups, table, expected, 16, np.random.default_rng(1))
        apart[len(drawn)] = np.mean(codes[2] != codes[0] ^ codes[1])
        assert np.array_equal(np.bincount(2 * groups + codes[2]), np.bincount(2 * groups + kept))
        assert np.abs(np.bincount(2 * codes[0] + codes[2], minlength=4) - ROWS / 4).max() < 0.02 * ROWS
    assert apart[2] > 0.45
    assert apart[3] < 0.1


def test_tables_of_more_cells_than_half_the_rows_are_left_out() -> None:
    sizes = (10, 10, 10, 2)
    assert choose_triples(sizes, 2_000, {0, 1, 2, 3})[0] == (0, 1, 2)
    assert choose_triples(sizes, 1_999, {0, 1, 2, 3}) == [(0, 1, 3), (0, 2, 3), (1, 2, 3)]
    assert choose_triples(sizes, 399, {0, 1, 2, 3}) == []


def test_every_triple_has_an_attribute_that_moves() -> None:
    assert choose_triples((2, 3, 4, 5), 1_000, {3}) == [(1, 2, 3), (0, 2, 3), (0, 1, 3)]
    assert choose_triples((2, 3, 4, 5), 1_000, set()) == []


def test_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, moved = tuple(range(2, 12)), set(range(10))
    whole = choose_triples(sizes, 10_000, moved)
    assert len(whole) == 120
    one = 3 * 10_000 * (1 + triples.TRIPLE_PASSES)
    monkeypatch.setattr(triples, "MOST_WORK", 7 * one)
    # Those of most cells are kept, and tables that take long to work out take the place of others.
    assert choose_triples(sizes, 10_000, moved) == whole[:7]
    assert 0 < len(choose_triples(sizes, 10_000, moved, components=4_000)) < 7


def test_wide_and_long_tables_have_none() -> None:
    assert choose_triples((2,) * 40, 1_000, {0})
    assert choose_triples((2,) * 41, 1_000, {0}) == []
    assert choose_triples((2, 3, 4), triples.MOST_ROWS, {0}) == [(0, 1, 2)]
    assert choose_triples((2, 3, 4), triples.MOST_ROWS + 1, {0}) == []


def test_pairs_count_more_than_triples_where_both_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its pair v has nothing to do with u, by the table with u and w it is u."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (3, ROWS)).astype(np.int32)
    groups, kept = rng.integers(0, 20, ROWS), codes[2].copy()
    even = np.full((2, 2), ROWS / 4)
    alike = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]) * ROWS / 4
    by, table, drawn = order_by_group(groups, 20), np.full((20, 2), 0.5), [(0,), (1,), (0, 1)]
    found = {}
    for weight in (balance_module.TRIPLE_WEIGHT, 1.0):
        monkeypatch.setattr(balance_module, "TRIPLE_WEIGHT", weight)
        codes[2] = kept
        balance_column(codes, 2, drawn, by, groups, table, [even, even, alike], 16, np.random.default_rng(1))
        found[weight] = np.mean(codes[2] == codes[0])
    assert 0.5 < found[0.25] < found[1.0] - 0.05
