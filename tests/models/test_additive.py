from __future__ import annotations

import itertools

import numpy as np
import pytest

from margrave.errors import InputError, ReleaseError, SchemaError
from margrave.models._base.pooling import Pooled
from margrave.models._mixture import additive, additive_dual
from margrave.models._mixture.additive import Additive, drawn_from, fit_additive, rank_alike, slack
from margrave.models._mixture.additive_dual import Dual, lowest
from margrave.schema.domain import Domain

SIZES = {"a": 4, "b": 3, "y": 2, "c": 5}
ROWS = 6000


def world(width, seed=0, rows=ROWS):
    """A domain whose target y has `width` codes, rows of the others, and an additive p(y | rest)."""
    domain = Domain.of({**SIZES, "y": width})
    rng = np.random.default_rng(seed)
    columns = {"a": rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])}
    columns["b"] = (columns["a"] + rng.choice(3, rows, p=[0.6, 0.2, 0.2])) % 3
    columns["c"] = rng.integers(0, 5, rows)
    potentials = np.concatenate([rng.normal(0, 1, (12, width)), rng.normal(0, 0.5, (1, width))])
    return domain, columns, Additive(domain, "y", potentials, 0.0, 0, True)


def expected_tables(domain, columns, shares, sigma, names="abc", own=True):
    """The target's pairs and own table, exact for these conditionals, with a stated noise."""
    codes = np.eye(domain["y"])
    found = []
    for name in names:
        table = np.eye(domain[name])[columns[name]].T @ shares
        clique = domain.canonical({name, "y"})
        values = table if clique[1] == "y" else table.T
        found.append(Pooled(clique, values, np.full(values.shape, sigma)))
    if own:
        found.append(Pooled(("y",), shares.sum(axis=0), np.full(len(codes), sigma)))
    return found


@pytest.mark.parametrize("width", [2, 3])
def test_the_gradient_is_that_of_the_value(width):
    rng = np.random.default_rng(4)
    starts, lines = [0, 3, 8], 9
    codes = np.stack([rng.integers(0, 3, 50), rng.integers(3, 8, 50), np.full(50, 8)], axis=1)
    table, ridge = rng.normal(0, 0.2, (lines, width)), rng.uniform(0.01, 0.1, (lines, width))
    bonds = rng.uniform(0.01, 0.1, (lines - 1, width))
    bonds[[2, 7]] = 0.0
    shares = np.bincount(codes.ravel(), minlength=lines) / len(codes)
    dual = Dual(codes.astype(np.int32), shares, starts, table, ridge, bonds)
    at = rng.normal(0, 1, lines * width)
    gradient = dual(at)[1]
    for i, step in enumerate(1e-5 * np.eye(len(at))):
        slope = (dual(at + step)[0] - dual(at - step)[0]) / 2e-5
        assert slope == pytest.approx(gradient[i], abs=1e-8)
    hessian = np.stack([(dual(at + s)[1] - dual(at - s)[1]) / 2e-5 for s in 1e-5 * np.eye(len(at))])
    dual.bend(at)
    solved = np.stack([dual.solved(column) for column in hessian])
    np.testing.assert_allclose(solved, np.eye(len(at)), atol=1e-4)
    spread = np.abs(dual(at)[1]).reshape(lines, width)
    assert dual.gap(gradient) == pytest.approx(max(spread[a:b].sum() for a, b in ((0, 3), (3, 8), (8, 9))))


@pytest.mark.parametrize("width", [2, 3])
def test_the_diagonal_of_a_large_hessian_is_its_own(width, monkeypatch):
    monkeypatch.setattr(additive_dual, "MOST_BENT", 0)
    rng = np.random.default_rng(5)
    codes = np.stack([rng.integers(0, 3, 50), rng.integers(3, 8, 50), np.full(50, 8)], axis=1)
    table, ridge = rng.normal(0, 0.2, (9, width)), rng.uniform(0.01, 0.1, (9, width))
    bonds = rng.uniform(0.01, 0.1, (8, width))
    bonds[[2, 7]] = 0.0
    shares = np.bincount(codes.ravel(), minlength=9) / len(codes)
    dual = Dual(codes.astype(np.int32), shares, [0, 3, 8], table, ridge, bonds)
    at = rng.normal(0, 1, 9 * width)
    steps = 1e-5 * np.eye(len(at))
    # A bond counts for one of its two lines as if the other did not move with it.
    diagonal = [(dual(at + s)[1] - dual(at - s)[1])[i] / 2e-5 for i, s in enumerate(steps)]
    dual.bend(at)
    np.testing.assert_allclose(dual.solved(np.ones(len(at))), 1.0 / np.array(diagonal), rtol=1e-6)


def test_a_target_that_another_column_determines_takes_few_steps():
    rng = np.random.default_rng(6)
    names, rows = "abcdefghij", 20_000
    sizes = (16, *[42] * 9)
    domain = Domain((*names, "y"), (*sizes, 16), (0,) * 11)
    columns = {name: rng.integers(0, size, rows) for name, size in zip(names, sizes, strict=True)}
    for name in "bcd":
        columns[name] = (columns[name] // 2 + columns["a"]) % 42
    y = columns["a"]
    tables = [Pooled(("y",), np.bincount(y, minlength=16).astype(float), np.full(16, 3.0))]
    for name, size in zip(names, sizes, strict=True):
        counts = np.bincount(columns[name] * 16 + y, minlength=size * 16).reshape(size, 16)
        tables.append(
            Pooled((name, "y"), counts + rng.normal(0, 3.0, counts.shape), np.full(counts.shape, 3.0))
        )
    found = fit_additive(domain, "y", tables, float(rows), columns, tolerance=3e-4)
    assert found.converged
    # As if all rows that share a code had one conditional it takes 60.
    assert found.iterations <= 40
    assert (found.probabilities(columns)[np.arange(rows), y] > 0.9).mean() > 0.95


def test_shares_of_two_codes_are_those_of_one_row_at_a_time():
    _, columns, truth = world(2)
    codes = truth._lines(columns)[:133]
    side_by_side, alone = np.zeros((133, 2)), np.zeros((133, 2))
    additive_dual.softmax(codes, truth.potentials, side_by_side)
    for lines, shares in zip(codes, alone, strict=True):
        additive_dual._soften(lines, truth.potentials, shares)
    assert len(np.unique(alone[:, 0] > 0.5)) == 2
    np.testing.assert_array_equal(side_by_side, alone)


@pytest.mark.parametrize("width", [2, 3, 9])
def test_the_mean_of_tilted_shares(width: int):
    rng = np.random.default_rng(width)
    shares, factors = rng.dirichlet(np.ones(width), 300), rng.lognormal(size=width)
    tilted = shares * factors
    wanted = (tilted / tilted.sum(axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(additive_dual.mean_tilted(shares, factors), wanted, rtol=1e-13)


def test_two_codes_and_the_general_kernel_agree():
    _, columns, truth = world(2)
    lift = np.ascontiguousarray(truth.potentials[:, 1] - truth.potentials[:, 0])
    codes = truth._lines(columns)
    special, general = np.zeros((13, 2)), np.zeros((13, 2))
    value = additive_dual._binary(codes, lift, special) + truth.potentials[codes, 0].sum()
    assert value == pytest.approx(additive_dual._general(codes, truth.potentials, general))
    np.testing.assert_allclose(special[:, 1], general[:, 1])


@pytest.mark.parametrize("width", [2, 6])
def test_a_log_linear_conditional_is_recovered_from_exact_tables(width):
    domain, columns, truth = world(width)
    shares = truth.probabilities(columns)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    tables = expected_tables(domain, columns, shares, 0.01)
    found = fit_additive(domain, "y", tables, ROWS, columns, tolerance=1e-6, max_iterations=2000)
    assert found.converged
    assert found.gap <= 1e-6
    assert np.abs(found.probabilities(columns) - shares).max() < 2e-3


def test_the_rows_expectations_meet_the_tables_when_noise_is_small():
    domain, columns, _ = world(3)
    rng = np.random.default_rng(8)
    shares = rng.dirichlet(np.ones(3), size=ROWS)
    tables = expected_tables(domain, columns, shares, 1e-3)
    found = fit_additive(domain, "y", tables, ROWS, columns, tolerance=1e-7, max_iterations=2000)
    for got, asked in zip(
        expected_tables(domain, columns, found.probabilities(columns), 1.0), tables, strict=True
    ):
        np.testing.assert_allclose(got.values, asked.values, atol=0.02)


def ordered_world(lift, rows, seed):
    """A refined attribute of two codes whose log-odds are `lift` of one attribute's code, others that tell
    nothing, and what a release of its pairs says with a noise of 40 rows."""
    names, codes = ("x", "y", "u", "v"), len(lift)
    sizes, rng = (codes, 2, codes, codes), np.random.default_rng(seed)
    columns = {name: rng.integers(0, codes, rows) for name in "xuv"}
    share = 1.0 / (1.0 + np.exp(-lift[columns["x"]]))
    shares, tables = np.stack([1.0 - share, share], axis=1), []
    for table in expected_tables(Domain(names, sizes), columns, shares, 40.0, names="xuv", own=False):
        noisy = table.values + 40.0 * rng.standard_normal(table.values.shape)
        tables.append(Pooled(table.clique, noisy, table.sigma))
    return names, sizes, columns, shares, tables


def lost(world, ordered):
    """Divergence of the true conditional from the fitted one, in nats, with an order of codes or without."""
    names, sizes, columns, shares, tables = world
    domain = Domain(names, sizes, tuple(size if ordered and size > 2 else 0 for size in sizes))
    found = fit_additive(domain, "y", tables, len(shares), columns, tolerance=1e-6, max_iterations=2000)
    assert found.converged
    return float((shares * np.log(shares / found.probabilities(columns))).sum(axis=1).mean())


def test_neighbours_in_order_help_where_noise_is_large_and_effects_are_smooth():
    worlds = [ordered_world(2.0 * np.sin(np.arange(32) / 5.0), 4000, seed) for seed in range(6)]
    apart, tied = (np.array([lost(world, ordered) for world in worlds]) for ordered in (False, True))
    assert (tied < apart).all()
    assert tied.mean() < 0.75 * apart.mean()


def test_a_zigzag_along_ordered_codes_survives_where_noise_is_small():
    worlds = [ordered_world(1.5 * (-1.0) ** np.arange(32), 200_000, seed) for seed in range(2)]
    apart, tied = (np.array([lost(world, ordered) for world in worlds]) for ordered in (False, True))
    assert tied.mean() < 0.002
    assert tied.mean() < 1.5 * apart.mean()


def test_pure_noise_about_an_attribute_teaches_less_than_the_same_noise_on_a_dependent_one():
    _, sizes, columns, _, tables = ordered_world(2.0 * np.sin(np.arange(32) / 5.0), 20_000, 1)
    found = fit_additive(Domain(("x", "y", "u", "v"), sizes), "y", tables, 20_000.0, columns)
    blocks = [found.potentials[at : at + 32] for at in (0, 32, 64)]
    told, *empty = (float(np.abs(block[:, 1] - block[:, 0]).mean()) for block in blocks)
    assert told > 10.0 * max(empty)


def test_what_is_left_unexplained_is_ridge_times_potential():
    domain, columns, truth = world(3)
    tables = expected_tables(domain, columns, truth.probabilities(columns), 60.0)
    found = fit_additive(domain, "y", tables, ROWS, columns, strength=2.0, tolerance=1e-9)
    left = tables[0].values - expected_tables(domain, columns, found.probabilities(columns), 1.0)[0].values
    shares = np.bincount(columns["a"], minlength=4) / ROWS
    ridge = slack(tables[0].values / ROWS, tables[0].sigma / ROWS, shares, 2.0)
    np.testing.assert_allclose(left / ROWS, ridge * found.potentials[:4], atol=1e-7)


def test_more_noise_means_a_conditional_nearer_to_the_marginal():
    domain, columns, truth = world(2)
    shares = truth.probabilities(columns)
    marginal = shares.mean(axis=0)
    apart = []
    for sigma in (0.1, 30.0, 300.0, 30_000.0):
        tables = expected_tables(domain, columns, shares, sigma, own=False)
        tables.append(Pooled(("y",), ROWS * marginal, np.full(2, 1e-3)))
        found = fit_additive(domain, "y", tables, ROWS, columns).probabilities(columns)
        apart.append(np.abs(found - marginal).mean())
    assert apart == sorted(apart, reverse=True)
    assert apart[0] > 0.9 * np.abs(shares - marginal).mean()
    assert apart[-1] < 0.02


def test_lines_whose_sums_are_off_leave_the_conditional_where_it_is():
    domain, columns, truth = world(3)
    tables = expected_tables(domain, columns, truth.probabilities(columns), 40.0, names="ab")
    moved = [Pooled(t.clique, t.values + 7.0, t.sigma) for t in tables]
    one, two = (fit_additive(domain, "y", t, ROWS, columns, tolerance=1e-9) for t in (tables, moved))
    np.testing.assert_allclose(one.probabilities(columns), two.probabilities(columns), atol=1e-6)


def test_without_pairs_the_targets_own_table_is_all():
    domain, columns, _ = world(3)
    own = Pooled(("y",), np.array([600.0, 300.0, 100.0]), np.full(3, 0.01))
    pair = Pooled(("a", "y"), np.full((4, 3), 1000 / 12), np.full((4, 3), 1.0))
    other = Pooled(("a", "b"), np.full((4, 3), 1000 / 12), np.full((4, 3), 1.0))
    none = {name: column[:0] for name, column in columns.items()}
    for rows, tables in ((columns, [own, other]), (none, [own, pair])):
        found = fit_additive(domain, "y", tables, 1000.0, rows, tolerance=1e-6)
        np.testing.assert_allclose(
            found.probabilities(columns), np.tile([0.6, 0.3, 0.1], (ROWS, 1)), atol=1e-4
        )
    uniform = fit_additive(domain, "y", [other], 1000.0, columns)
    assert (uniform.probabilities(columns) == 1 / 3).all()
    assert not uniform.potentials.any()


def test_a_pair_that_was_not_measured_and_a_code_that_no_row_has_have_no_potentials():
    domain, columns, truth = world(2)
    columns = {**columns, "a": np.minimum(columns["a"], 2)}
    tables = expected_tables(domain, columns, truth.probabilities(columns), 5.0, names="ac")
    tables[0].values[3] += [50.0, -50.0]
    found = fit_additive(domain, "y", tables, ROWS, columns)
    assert found.converged
    assert found.potentials[:3].any()
    assert not found.potentials[3:7].any()


def draw(model, columns, rng):
    shares = model.probabilities(columns)
    return drawn_from(shares, rank_alike(shares), rng)


def test_a_target_of_one_code_no_rows_and_no_other_attributes():
    domain, columns, _ = world(1)
    own = Pooled(("y",), np.array([100.0]), np.ones(1))
    found = fit_additive(domain, "y", [own], 100.0, columns)
    assert found.converged
    assert (found.probabilities(columns) == 1.0).all()
    assert not draw(found, columns, np.random.default_rng(0)).any()
    domain, columns, truth = world(3)
    none = {name: column[:0] for name, column in columns.items()}
    assert truth.probabilities(none).shape == (0, 3)
    assert draw(truth, none, np.random.default_rng(0)).shape == (0,)
    alone = Domain(("y",), (2,))
    own = Pooled(("y",), np.array([75.0, 25.0]), np.full(2, 0.01))
    found = fit_additive(alone, "y", [own], 100.0, {"y": np.zeros(8, dtype=np.int64)})
    rows = {"y": np.zeros(8, dtype=np.int64)}
    assert np.bincount(draw(found, rows, np.random.default_rng(0))).tolist() == [6, 2]


@pytest.mark.parametrize("width", [2, 5])
def test_a_draw_has_the_expected_counts_overall_and_among_like_rows(width):
    _, columns, truth = world(width)
    shares = truth.probabilities(columns)
    codes = draw(truth, columns, np.random.default_rng(3))
    assert np.abs(np.bincount(codes, minlength=width) - shares.sum(axis=0)).max() < 1 + 1e-6
    likely = shares[:, 1] > 0.5
    excess = (np.eye(width)[codes] - shares)[likely].sum(axis=0)
    assert np.abs(excess).max() < (1 + 1e-6 if width == 2 else 6)


def test_a_draw_has_each_rows_own_probabilities():
    _, columns, truth = world(3, rows=40)
    shares, rng, runs = truth.probabilities(columns), np.random.default_rng(5), 3000
    counts = np.zeros_like(shares)
    for _ in range(runs):
        counts[np.arange(40), draw(truth, columns, rng)] += 1
    errors = (counts / runs - shares) / np.sqrt(shares * (1 - shares) / runs)
    assert np.abs(errors).max() < 4.5
    assert 0.6 < (errors**2).mean() < 1.5


def test_only_the_first_so_many_rows_are_fitted_and_they_are_spread(monkeypatch):
    domain, columns, truth = world(2)
    tables = expected_tables(domain, columns, truth.probabilities(columns), 10.0)
    monkeypatch.setattr(additive, "MOST_ROWS", 2000)
    some = fit_additive(domain, "y", tables, ROWS, columns)
    third = fit_additive(domain, "y", tables, ROWS, {name: c[::3] for name, c in columns.items()})
    assert np.array_equal(some.potentials, third.potentials)


def test_narrow_codes_and_the_targets_own_column_change_nothing():
    _, columns, truth = world(2)
    narrow = {name: column.astype(np.uint8) for name, column in columns.items()}
    narrow["y"] = np.full(ROWS, 200, dtype=np.uint8)
    assert np.array_equal(truth.probabilities(columns), truth.probabilities(narrow))


def test_a_saved_state_restores_the_same_and_a_damaged_one_is_refused():
    domain, columns, truth = world(3)
    tables = expected_tables(domain, columns, truth.probabilities(columns), 10.0)
    found = fit_additive(domain, "y", tables, ROWS, columns)
    again = Additive.restore(domain, "y", found.state())
    assert np.array_equal(again.potentials, found.potentials)
    assert (again.gap, again.iterations, again.converged) == (found.gap, found.iterations, True)
    state = found.state()
    for damage in (
        {"potentials": state["potentials"][:-1]},
        {"potentials": state["potentials"] * np.nan},
        {"fit": state["fit"][:2]},
    ):
        with pytest.raises(ReleaseError, match="state"):
            Additive.restore(domain, "y", {**state, **damage})
    with pytest.raises(ReleaseError, match="state"):
        Additive.restore(domain, "y", {"fit": state["fit"]})


def test_what_does_not_fit_is_refused_by_name():
    domain, columns, truth = world(2)
    tables = expected_tables(domain, columns, truth.probabilities(columns), 10.0)
    for wrong, named in (
        (np.full(ROWS, 4), "codes"),
        (np.full(ROWS, -1), "codes"),
        (np.zeros(3, int), "a row"),
    ):
        with pytest.raises(InputError, match=named):
            truth.probabilities({**columns, "a": wrong})
        with pytest.raises(InputError, match=named):
            fit_additive(domain, "y", tables, ROWS, {**columns, "a": wrong})
    with pytest.raises(InputError, match="'c'"):
        truth.probabilities({"a": columns["a"], "b": columns["b"]})
    for wrong in ({"total": 0.0}, {"total": np.nan}, {"total": 1.0, "strength": 0.0}):
        with pytest.raises(InputError, match=r"total|strength"):
            fit_additive(domain, "y", tables, columns=columns, **wrong)
    with pytest.raises(SchemaError):
        fit_additive(domain, "z", tables, ROWS, columns)


def test_the_optimiser_goes_down_and_says_when_it_stops_early():
    domain, columns, truth = world(4)
    tables = expected_tables(domain, columns, truth.probabilities(columns), 0.01)
    gaps = [fit_additive(domain, "y", tables, ROWS, columns, 1.5, 1e-7, most) for most in (1, 3, 2000)]
    assert [found.converged for found in gaps] == [False, False, True]
    assert all(found.iterations <= most for found, most in zip(gaps, (1, 3, 2000), strict=True))

    class Bowl:
        def __call__(self, at):
            return float(at @ (np.arange(1, 6) * at)) / 2 - float(at.sum()), np.arange(1, 6) * at - 1.0

        def bend(self, at):
            pass

        def solved(self, vector):
            return vector

        def gap(self, gradient):
            return float(np.abs(gradient).max())

    values = [Bowl()(lowest(Bowl(), np.zeros(5), 1e-12, most)[0])[0] for most in (0, 1, 3, 100)]
    assert all(later <= earlier for earlier, later in itertools.pairwise(values))
    np.testing.assert_allclose(lowest(Bowl(), np.zeros(5), 1e-12, 100)[0], 1 / np.arange(1, 6))


@pytest.mark.parametrize("wanted", [(0.995, 0.005), (0.3, 0.7)])
def test_the_targets_shares_are_as_wanted_and_odds_ratios_stay(wanted):
    _, columns, truth = world(2)
    moved, shares = truth.with_shares(columns, np.array(wanted))
    np.testing.assert_array_equal(shares, moved.probabilities(columns))
    assert shares.mean(axis=0) == pytest.approx(wanted, rel=1e-3)
    before, after = (np.log(one.probabilities(columns)) for one in (truth, moved))
    shift = (after[:, 1] - after[:, 0]) - (before[:, 1] - before[:, 0])
    assert np.ptp(shift) < 1e-9
    none = {name: column[:0] for name, column in columns.items()}
    assert (truth.with_shares(none, np.array(wanted))[0].potentials == truth.potentials).all()


def test_shares_of_three_codes_are_as_wanted():
    _, columns, truth = world(3)
    wanted = np.array([0.9, 0.001, 0.099])
    assert truth.with_shares(columns, wanted)[1].mean(axis=0) == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("width", [2, 3])
def test_rows_are_ranked_by_their_likeliest_code_and_then_by_its_probability(width):
    rng = np.random.default_rng(width)
    kinds = rng.dirichlet(np.ones(width), size=20)
    shares = kinds[rng.integers(20, size=300)]
    keys = [(0 if width == 2 else int(row.argmax()), row[1] if width == 2 else row.max()) for row in shares]
    places = sorted(set(keys))
    assert rank_alike(shares).tolist() == [places.index(key) for key in keys]
    assert rank_alike(shares[:0]).shape == (0,)
