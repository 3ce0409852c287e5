"""Residuals: an orthogonal, complete decomposition; least squares in closed form; the nearest counts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from margrave.errors import InputError
from margrave.models._base.pooling import Pooled, pool, rows_of
from margrave.models.rowwise.gum import GUM
from margrave.models.rowwise.residual import (
    Residual,
    combine_tables,
    local,
    others,
    rebuilt,
    residual,
    subsets,
)
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

NAMES, SIZES = ("a", "b", "c"), (2, 3, 4)
ALL = [c for k in range(4) for c in itertools.combinations(NAMES, k)]


def operator(part):
    """The matrix that takes a vector of all cells to the residual over a part."""
    identity = np.eye(math.prod(SIZES))
    return np.array([residual(column.reshape(SIZES), NAMES, part).ravel() for column in identity]).T


def over(joint, clique):
    return joint.sum(axis=tuple(i for i, name in enumerate(NAMES) if name not in clique))


def test_residuals_are_orthogonal_and_complete():
    operators = {part: operator(part) for part in ALL}
    for one, two in itertools.combinations(ALL, 2):
        np.testing.assert_allclose(operators[one] @ operators[two].T, 0.0, atol=1e-12)
    ranks = {part: np.linalg.matrix_rank(matrix) for part, matrix in operators.items()}
    sizes = dict(zip(NAMES, SIZES, strict=True))
    assert all(ranks[part] == math.prod(sizes[n] - 1 for n in part) for part in ALL)
    assert sum(ranks.values()) == math.prod(SIZES)


def test_a_table_is_rebuilt_exactly():
    table = np.random.default_rng(0).normal(size=SIZES)
    parts = {part: residual(table, NAMES, part) for part in subsets(NAMES)}
    np.testing.assert_allclose(rebuilt(parts, NAMES, SIZES), table, atol=1e-13)
    assert list(subsets(("a", "b"))) == [(), ("a",), ("b",), ("a", "b")]
    assert others(table, NAMES, ("b",)) == 8


def tables(cliques, sigma=(1.0, 5.0, 2.0), seed=1):
    rng = np.random.default_rng(seed)
    joint = 300 * rng.dirichlet(np.ones(24)).reshape(SIZES)
    made = []
    for clique, own in zip(cliques, itertools.cycle(sigma)):
        exact = over(joint, clique)
        made.append(Pooled(clique, exact + rng.normal(size=exact.shape) * own, np.full(exact.shape, own)))
    return made, joint


@pytest.mark.parametrize(
    "cliques",
    [
        [("a", "b"), ("b", "c"), ("a", "c")],
        [("a",), ("a", "b"), ("b", "c"), ("c",)],
        [("a", "b", "c"), ("b", "c")],
        [("a",), ("b",)],
    ],
)
def test_combined_is_generalised_least_squares(cliques):
    made, _ = tables(cliques)
    lines, values, weights = [], [], []
    for table in made:
        for cell in np.ndindex(table.values.shape):
            indicator = np.zeros(table.values.shape)
            indicator[cell] = 1.0
            shape = [size if name in table.clique else 1 for name, size in zip(NAMES, SIZES, strict=True)]
            lines.append(np.broadcast_to(indicator.reshape(shape), SIZES).ravel())
            values.append(table.values[cell])
            weights.append(1.0 / table.sigma[cell])
    design, root = np.array(lines), np.array(weights)
    joint = np.linalg.pinv(design * root[:, None]) @ (np.array(values) * root)
    best = combine_tables(made)
    for table in made:
        found = rebuilt(best.values, table.clique, table.values.shape)
        np.testing.assert_allclose(found, over(joint.reshape(SIZES), table.clique), atol=1e-10)


def test_a_total_that_is_known_is_kept_and_moves_nothing_else():
    made, _ = tables([("a", "b"), ("b", "c")])
    free, fixed = combine_tables(made), combine_tables(made, 333.0)
    for table in made:
        one = rebuilt(free.values, table.clique, table.values.shape)
        two = rebuilt(fixed.values, table.clique, table.values.shape)
        assert two.sum() == pytest.approx(333.0)
        np.testing.assert_allclose(one - one.mean(), two - two.mean(), atol=1e-10)


def test_the_variance_of_a_rebuilt_cell_is_what_the_precisions_say():
    clique, draws = ("a", "b"), 1500
    found = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        made = [
            Pooled(
                c,
                rng.normal(size=over(np.zeros(SIZES), c).shape) * s,
                np.full(over(np.zeros(SIZES), c).shape, s),
            )
            for c, s in ((("a", "b"), 2.0), (("b", "c"), 1.0), (("a",), 3.0))
        ]
        best = combine_tables(made)
        found.append(rebuilt(best.values, clique, (2, 3)))
    sizes = dict(zip(NAMES, SIZES, strict=True))
    expected = sum(
        math.prod((sizes[n] - 1) / sizes[n] for n in part)
        / math.prod(sizes[n] ** 2 for n in clique if n not in part)
        / best.precisions[part]
        for part in subsets(clique)
    )
    assert np.var(found, axis=0).mean() == pytest.approx(expected, rel=0.08)


def test_counts_that_are_none_negative_are_left_alone():
    made, _ = tables([("a", "b"), ("b", "c")], sigma=(0.1,))
    best = combine_tables(made)
    shapes = {table.clique: table.values.shape for table in made}
    assert all((rebuilt(best.values, c, s) >= 0).all() for c, s in shapes.items())
    for clique, table in local(best, shapes, 100).items():
        np.testing.assert_allclose(table, rebuilt(best.values, clique, shapes[clique]), atol=1e-10)


def test_the_nearest_counts_agree_and_no_counts_that_do_are_nearer():
    made, _ = tables([("a", "b"), ("b", "c"), ("a", "c")], sigma=(20.0,))
    best = combine_tables(made, 300.0)
    shapes = {table.clique: table.values.shape for table in made}
    assert any((rebuilt(best.values, c, s) < -1).any() for c, s in shapes.items())
    found = local(best, shapes, 5000)
    for table in found.values():
        assert (table >= 0).all()
        assert table.sum() == pytest.approx(300.0, rel=1e-3)
    for one, two in itertools.combinations(found, 2):
        (name,) = set(one) & set(two)
        first, second = (
            found[c].sum(axis=tuple(i for i, n in enumerate(c) if n != name)) for c in (one, two)
        )
        np.testing.assert_allclose(first, second, atol=0.3)

    def far(counts):
        return sum(
            float(((residual(counts[c], c, part) - best.values[part]) ** 2).sum()) * best.precisions[part]
            for part in best.values
            if part
            for c in [next(c for c in counts if set(part) <= set(c))]
        )

    own = far(found)
    rng = np.random.default_rng(0)
    for _ in range(300):
        other = 300 * rng.dirichlet(np.full(24, 0.3)).reshape(SIZES)
        share = rng.uniform(0, 0.2)
        # Convex, so that any step towards other counts that agree makes it no nearer.
        mixed = {c: (1 - share) * found[c] + share * over(other, c) for c in found}
        assert far(mixed) >= own * (1 - 1e-3) - 1e-9


def released(sigma=1.0):
    rng = np.random.default_rng(0)
    domain = Domain(("a", "b", "c", "d"), (3, 4, 2, 5))
    joint = 20_000 * rng.dirichlet(np.full(120, 0.5)).reshape(domain.sizes)
    made = {}
    for clique in itertools.combinations(domain.names, 2):
        exact = joint.sum(axis=tuple(i for i, name in enumerate(domain.names) if name not in clique))
        made[clique] = exact
    noisy = [NoisyMarginal(c, t + rng.normal(size=t.shape) * sigma, sigma) for c, t in made.items()]
    return domain, noisy, made


@pytest.mark.parametrize("fitter", [Residual(), Residual(rows=GUM())], ids=["genetic", "gum"])
def test_rows_have_all_pairs(fitter):
    domain, noisy, exact = released()
    model = fitter.fit(domain, noisy, total=20_000.0)
    for clique, table in exact.items():
        assert np.abs(model.project(clique) - table).sum() < 0.006 * 2 * 20_000


def test_noisy_tables_come_out_nearer_to_the_truth():
    domain, noisy, exact = released(sigma=80.0)
    wanted = Residual().targets(domain, pool(domain, noisy), rows_of(noisy, None))
    before = sum(float(np.abs(m.values - exact[m.clique]).sum()) for m in noisy)
    after = sum(
        float(np.abs(table - exact[c]).sum()) for c, table in zip(wanted.cliques, wanted.tables, strict=True)
    )
    assert after < 0.87 * before


def test_settings_are_checked_and_memory_is_passed_on():
    with pytest.raises(InputError, match="rounds"):
        Residual(rounds=-1)
    assert Residual(max_memory=500_000_000).rows.max_memory == 500_000_000
    assert Residual(rows=GUM(max_memory=450_000_000), max_memory=500_000_000).rows.max_memory == 450_000_000
