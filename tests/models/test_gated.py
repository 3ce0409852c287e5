"""The gated mixture: its expected tables, its gradients, its rows given public ones."""

from __future__ import annotations

import numpy as np
import pytest

from margrave.errors import ReleaseError
from margrave.models._base.pooling import pool
from margrave.models._base.public_rows import PublicRows
from margrave.models.gated import Gated, GatedModel, gate
from margrave.models.gated.objective import Objective, Point, collect_targets, start
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded, tabulate_rows

DOMAIN = Domain(("a", "x", "b", "y"), (3, 2, 4, 3))
PUBLIC = Domain(("a", "b"), (3, 4))


def public_rows(rows: int, seed: int = 0) -> Encoded:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, rows)
    return Encoded(PUBLIC, (a.astype(np.uint8), ((a + rng.integers(0, 2, rows)) % 4).astype(np.uint8)))


def random_model(rows: int, seed: int = 0, components: int = 4) -> GatedModel:
    rng = np.random.default_rng(seed)
    public = PublicRows.of(DOMAIN, ("a", "b"), public_rows(rows).columns)
    blocks = [rng.dirichlet(np.ones(size), components).T for size in (2, 3)]
    gate = rng.normal(size=(7, components))
    return GatedModel(DOMAIN, rows, public, gate, rng.normal(size=components), np.concatenate(blocks))


def exact_tables(model: GatedModel, cliques, sigma=1.0):
    return [NoisyMarginal(clique, model.project(clique), sigma) for clique in cliques]


MIXED = [("a", "x"), ("a", "y"), ("x", "b"), ("b", "y"), ("x", "y")]


@pytest.mark.parametrize("balanced", [False, True])
def test_expected_tables_are_the_mean_of_many_draws(balanced: bool) -> None:
    """Rows that are moved towards the tables come to the nearest whole numbers, whose mean may be up to half
    a row off; all others have exactly these means."""
    model, rng, given = random_model(40), np.random.default_rng(1), public_rows(40)
    evidence = {name: given.column(name).astype(np.int64) for name in ("a", "b")}
    places = [model.domain.index(name) for name in ("a", "x", "y")]
    drawn = np.zeros((400, 3, 2, 3))
    for turn in range(400):
        columns = model.draw_unrefined(40, rng, evidence, balanced=balanced)
        np.add.at(drawn[turn], tuple(columns[place] for place in places), 1)
    for axes, clique in (((3,), ("a", "x")), ((1,), ("x", "y")), ((2,), ("a", "y"))):
        table = drawn.sum(axis=axes)
        error = table.std(axis=0) / 20 + 1e-3
        allowed = 0.5 if balanced else 5 * error
        assert (np.abs(table.mean(axis=0) - model.project(clique)) < allowed).all()


def test_public_codes_come_back_in_order_and_alone_they_are_counted() -> None:
    model, given = random_model(500), public_rows(500)
    rows = model.sample(500, np.random.default_rng(0))
    assert all((rows.column(name) == given.column(name)).all() for name in ("a", "b"))
    counts = np.zeros((3, 4))
    np.add.at(counts, (given.column("a"), given.column("b")), 1)
    np.testing.assert_allclose(model.project(("a", "b")), counts, atol=1e-4)
    assert model.project(("b", "a")).shape == (4, 3)


def test_very_many_given_rows_are_drawn_in_parts_with_the_same_tables(monkeypatch) -> None:
    model, given = random_model(6000), public_rows(6000)
    parts: list[int] = []
    unrefined = GatedModel.draw_unrefined

    def note(self: GatedModel, rows: int, *rest, **options):
        parts.append(rows)
        return unrefined(self, rows, *rest, **options)

    monkeypatch.setattr(GatedModel, "draw_unrefined", note)
    monkeypatch.setattr("margrave.models.gated.model.MAX_CODES_AT_ONCE", 4 * 2500)
    codes = {name: given.column(name) for name in ("a", "b")}
    rows = model.sample(6000, np.random.default_rng(0), codes)
    assert parts == [2500, 2500, 1000]
    assert all((rows.column(name) == codes[name]).all() for name in ("a", "b"))
    for clique in MIXED:
        table = tabulate_rows(rows, DOMAIN, clique)
        assert np.abs(table - model.project(clique)).max() < 15


def test_the_gradient_is_that_of_finite_differences() -> None:
    model = random_model(60)
    rng = np.random.default_rng(2)
    tables = [
        NoisyMarginal(c, model.project(c) + rng.normal(size=DOMAIN.shape(c)) * 5, 2.0)
        for c in [*MIXED, ("x",)]
    ]
    targets = collect_targets(DOMAIN, ("a", "b"), ("x", "y"), pool(DOMAIN, tables), 60.0)
    at = start(model.rows, targets, 3, np.random.default_rng(3))
    objective = Objective(model.rows, targets, 7.0, 3.0)
    sums, totals = objective.expect(at)
    objective(at)
    gradients = (
        objective.gate * np.maximum(sums, 1e-12),
        objective.bias * totals,
        objective.logs * at.shares * totals,
    )
    step = 1e-2

    def value(moved: Point) -> float:
        moved.settle(targets.starts)
        return Objective(model.rows, targets, 7.0, 3.0)(moved)

    for name, gradient in zip(("gate", "bias", "logs"), gradients, strict=True):
        for place in list(np.ndindex(gradient.shape))[:: max(gradient.size // 6, 1)]:
            ends = []
            for sign in (1, -1):
                moved = Point(at.gate.copy(), at.bias.copy(), at.logs.copy(), at.shares.copy())
                getattr(moved, name)[place] += sign * step
                ends.append(value(moved))
            found = (ends[0] - ends[1]) / (2 * step)
            assert found == pytest.approx(float(gradient[place]), rel=0.05, abs=0.02), name


@pytest.mark.parametrize("rows_a_joint_code", [1, 1000])
def test_sums_by_joint_codes_are_those_of_single_ones(rows_a_joint_code: int, monkeypatch) -> None:
    monkeypatch.setattr(gate, "ROWS_A_JOINT_CODE", rows_a_joint_code)
    model, rng = random_model(300), np.random.default_rng(4)
    joined = gate.JointCodes.group(model.rows)
    # Each code of a goes with two of b, hence six joint codes in one group, or seven in two groups.
    assert (joined.rows.shape[1], joined.count) == ((1, (6, 7)) if rows_a_joint_code == 1 else (2, (7, 7)))
    odds = joined.join(model.gate, model.bias)
    shares, sums = np.empty((len(joined.rows), 4), np.float32), np.zeros_like(odds)
    gate.gate_joined(joined.rows, joined.weights, odds, shares, sums)
    for found, wanted in zip(joined.split(sums), model.component_sums, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    # The derivative by log-odds of any slopes is that of the mean of their sums over the rows.
    slopes = rng.normal(size=odds.shape).astype(np.float32)
    gradient = np.zeros_like(odds)
    gate.pull_joined(joined.rows, joined.weights, shares, slopes, gradient)
    values = []
    for sign in (1, -1):
        moved, own = odds.copy(), np.zeros_like(odds)
        moved[2, 1] += sign * np.float32(0.01)
        gate.gate_joined(joined.rows, joined.weights, moved, shares, own)
        values.append(float((own * slopes).sum()))
    assert (values[0] - values[1]) / 0.02 == pytest.approx(float(gradient[2, 1]), rel=0.01, abs=1e-4)


def test_pairs_of_a_known_conditional_mixture_are_recovered() -> None:
    truth, given = random_model(3000, seed=5), public_rows(3000)
    fitted = Gated(given=given, components=12, information=0.0).fit(DOMAIN, exact_tables(truth, MIXED))
    for clique in MIXED:
        p, q = truth.project(clique) / 3000, fitted.project(clique) / 3000
        assert float((p * np.log(np.maximum(p, 1e-12) / np.maximum(q, 1e-12))).sum()) < 1e-3


def test_a_copy_of_a_public_column_comes_back_as_a_copy() -> None:
    domain = Domain(("a", "copy"), (3, 3))
    given = Encoded(Domain(("a",), (3,)), public_rows(2000).columns[:1])
    exact = np.diag(np.bincount(given.columns[0], minlength=3)).astype(float)
    model = Gated(given=given, components=20).fit(domain, [NoisyMarginal(("a", "copy"), exact, 2.0)])
    rows = model.sample(2000, np.random.default_rng(0), {"a": given.columns[0]})
    assert (rows.column("copy") == rows.column("a")).mean() > 0.99


def test_tables_of_public_columns_alone_change_nothing() -> None:
    given, tables = public_rows(300), exact_tables(random_model(300), MIXED)
    wrong = NoisyMarginal(("a", "b"), np.full((3, 4), 1e4), 1.0)
    fitter = Gated(given=given, components=5, steps=20, information=1.0)
    one, two = fitter.fit(DOMAIN, tables), fitter.fit(DOMAIN, [*tables, wrong])
    np.testing.assert_array_equal(one.gate, two.gate)


def test_without_public_rows_it_is_a_mixture_and_without_private_columns_the_rows() -> None:
    table = NoisyMarginal(("x", "y"), np.array([[50.0, 5, 5], [5, 5, 50]]), 1.0)
    model = Gated(components=6).fit(Domain(("x", "y"), (2, 3)), [table])
    assert np.abs(model.project(("x", "y")) - table.values).max() < 6
    given = public_rows(50)
    whole = Gated(given=given).fit(PUBLIC, [])
    assert (whole.sample(50, np.random.default_rng(0)).columns[1] == given.columns[1]).all()


def test_given_private_codes_draw_the_public_rows_that_go_with_them() -> None:
    model = random_model(400, seed=7)
    rows = model.sample(20_000, np.random.default_rng(0), {"x": 1})
    wanted = model.project(("x", "a"))[1]
    found = np.bincount(rows.column("a"), minlength=3) / 20_000
    np.testing.assert_allclose(found, wanted / wanted.sum(), atol=0.02)
    by_row = np.repeat(np.array([0, 1], dtype=np.uint8), 5_000)
    rows = model.sample(10_000, np.random.default_rng(0), {"x": by_row})
    assert (rows.column("x") == by_row).all()
    table = model.project(("x", "y"))
    found = np.bincount(rows.column("y")[5_000:], minlength=3) / 5_000
    np.testing.assert_allclose(found, table[1] / table[1].sum(), atol=0.03)


def test_codes_that_no_public_row_has_are_drawn_all_the_same() -> None:
    model = random_model(30)
    rows = model.sample(4, np.random.default_rng(0), {"a": 0, "b": 3})
    assert (rows.column("b") == 3).all()


def test_a_model_is_restored_from_its_state_and_damage_is_refused() -> None:
    tables = exact_tables(random_model(200), MIXED)
    model = Gated(given=public_rows(200), components=5, steps=20).fit(DOMAIN, tables)
    again = Gated().restore(DOMAIN, tables, model.state())
    for clique in (*MIXED, ("a", "x", "y")):
        np.testing.assert_allclose(again.project(clique), model.project(clique))
    broken = model.state() | {"rows": np.full((3, 2), 99, dtype=np.int32)}
    with pytest.raises(ReleaseError):
        Gated().restore(DOMAIN, tables, broken)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_very_many_public_attributes_do_not_carry_the_gate_past_the_optimum(seed: int) -> None:
    # With steps as long as those of few attributes, pairs of the first seed are .14 of the rows off.
    rng = np.random.default_rng(seed)
    kind, columns = rng.integers(0, 6, 1000), []
    names, sizes = [f"p{i}" for i in range(200)], [2 + i % 4 for i in range(200)]
    for size in sizes:
        ends = rng.dirichlet(np.ones(size), 6).cumsum(axis=1)[kind]
        columns.append((rng.random(1000)[:, None] > ends[:, :-1]).sum(axis=1).astype(np.uint8))
    domain = Domain((*names, "kind"), (*sizes, 6))
    tables, noise = [], np.random.default_rng(9)
    for name, size, column in zip(names, sizes, columns, strict=True):
        counts = np.zeros((size, 6))
        np.add.at(counts, (column, kind), 1.0)
        tables.append(NoisyMarginal((name, "kind"), counts + noise.normal(0, 5, counts.shape), 5.0))
    given = Encoded(Domain(tuple(names), tuple(sizes)), tuple(columns))
    model = Gated(given=given, components=20, information=50.0, refinements=0).fit(domain, tables)
    off = [np.abs(model.project(table.clique) - table.values).sum() / 1000 for table in tables]
    assert np.mean(off) < 0.1
