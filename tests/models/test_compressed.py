"""Codes that noise hides are merged before the fit and spread out again after it."""

from __future__ import annotations

import numpy as np
import pytest

from margrave.errors import InputError
from margrave.limits import Effort
from margrave.models._base.pooling import Pooled, one_ways, pool
from margrave.models._grouping import GroupedModel, merge_rare_codes
from margrave.models.compressed import Compressed
from margrave.models.independent import Independent
from margrave.models.mixture.fitter import Mixture
from margrave.models.pgm.fitter import PGM
from margrave.models.registry import resolve
from margrave.release import NoisyMarginal
from margrave.schema.columns import Categorical
from margrave.schema.constraints.rules import Forbidden
from margrave.schema.domain import Domain
from margrave.schema.schema import Schema

DOMAIN = Domain(("many", "line", "few"), (40, 31, 3), (0, 30, 0))
ROWS = 20_000.0


def truth() -> np.ndarray:
    """Ten values of `many` and two stretches of `line` hold nearly all rows; `few` depends on both."""
    many = np.where(np.arange(40) < 10, 1.0, 1e-4)
    line = np.where((np.arange(31) < 6) | (np.arange(31) == 20), 1.0, 1e-4)
    given = np.random.default_rng(0).dirichlet(np.full(3, 0.6), (40, 31))
    joint = many[:, None, None] * line[None, :, None] * given
    return ROWS * joint / joint.sum()


def measured(sigma: float, seed: int = 0, pairs: bool = True) -> list[NoisyMarginal]:
    rng, joint = np.random.default_rng(seed), truth()
    cliques = [("many",), ("line",), ("few",)] + [("many", "few"), ("line", "few")] * pairs
    found = []
    for clique in cliques:
        table = joint.sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in clique))
        found.append(NoisyMarginal(clique, table + sigma * rng.standard_normal(table.shape), sigma))
    return found


def test_codes_below_the_threshold_are_merged_and_no_others() -> None:
    grouping = merge_rare_codes(DOMAIN, one_ways(pool(DOMAIN, measured(30.0))), 3.0)
    assert grouping is not None
    many, line = grouping.groups["many"], grouping.groups["line"]
    assert many[:10].tolist() == list(range(10))
    assert set(many[10:].tolist()) == {10}
    assert line.tolist() == [0, 1, 2, 3, 4, 5, *[6] * 14, 7, *[8] * 9, 9]  # the last one has no order
    assert grouping.inner.ordered == (0, 10, 0)
    assert "few" not in grouping.groups
    for name in grouping.groups:
        np.testing.assert_allclose(np.bincount(grouping.groups[name], weights=grouping.shares[name]), 1.0)


def test_one_low_code_alone_merges_nothing() -> None:
    table = Pooled(("a",), np.array([50.0, 1.0, 50.0]), np.full(3, 2.0))
    for ordered in (0, 3):
        assert merge_rare_codes(Domain(("a",), (3,), (ordered,)), {"a": table}, 3.0) is None


def test_merged_cells_add_up_with_their_variances() -> None:
    grouping = merge_rare_codes(DOMAIN, one_ways(pool(DOMAIN, measured(30.0))), 3.0)
    assert grouping is not None
    table = next(t for t in pool(DOMAIN, measured(30.0)) if t.clique == ("many", "few"))
    found = grouping.summed(table)
    np.testing.assert_allclose(found.values[10], table.values[10:].sum(axis=0))
    np.testing.assert_allclose(found.sigma[10], 30.0 * np.sqrt(30))
    np.testing.assert_allclose(found.sigma[:10], 30.0)


def test_where_noise_hides_many_codes_tables_come_nearer_to_the_rows() -> None:
    joint, pairs, off = truth(), [("many", "few"), ("line", "few"), ("many", "line")], []
    for fitter in (PGM(), Compressed()):
        errors = []
        for seed in range(5):
            model = fitter.fit(DOMAIN, measured(60.0, seed), total=ROWS)
            for pair, table in zip(pairs, model.project_many(pairs), strict=True):
                gone = tuple(i for i, name in enumerate(DOMAIN.names) if name not in pair)
                errors.append(0.5 * np.abs(table - joint.sum(axis=gone)).sum() / ROWS)
        off.append(np.mean(errors))
    assert off[1] < 0.97 * off[0]


INNERS = [
    PGM(),
    Independent(),
    Mixture(components=10, information=50.0),
    Mixture(components=10, information=50.0, largest=8),
]


@pytest.mark.parametrize("inner", INNERS, ids=["pgm", "independent", "mixture", "grouped"])
def test_models_come_back_from_their_state_and_rows_follow_the_model(inner) -> None:
    fitter = Compressed(inner)
    tables = measured(30.0, pairs=not isinstance(inner, Independent))
    model = fitter.fit(DOMAIN, tables)
    assert isinstance(model, GroupedModel)
    again = fitter.restore(DOMAIN, tables, model.state())
    one, two = (m.sample(500, np.random.default_rng(1)).columns for m in (model, again))
    assert all((a == b).all() for a, b in zip(one, two, strict=True))
    rows = model.sample(20_000, np.random.default_rng(2))
    for name in DOMAIN.names:
        counts = np.bincount(rows.column(name), minlength=DOMAIN[name]) / 20_000
        np.testing.assert_allclose(counts, model.project((name,)) / model.total, atol=2e-3)
    given = model.sample(300, np.random.default_rng(3), {"many": 25, "line": 12})
    assert set(given.column("many").tolist()) == {25}
    assert set(given.column("line").tolist()) == {12}


def test_a_rough_fit_and_one_without_hidden_codes_are_the_fitters_own() -> None:
    rough = Compressed().fit(DOMAIN, measured(30.0), effort=Effort(rough=True))
    assert not isinstance(rough, GroupedModel)
    quiet = [NoisyMarginal(m.clique, np.maximum(m.values, 1.0), 0.01) for m in measured(1e-3)]
    plain, same = PGM().fit(DOMAIN, quiet), Compressed().fit(DOMAIN, quiet)
    np.testing.assert_array_equal(plain.project(("many", "few")), same.project(("many", "few")))
    restored = Compressed().restore(DOMAIN, quiet, same.state())
    np.testing.assert_allclose(restored.project(("many",)), same.project(("many",)))


def test_attributes_under_rules_keep_their_codes() -> None:
    columns = [Categorical(name=n, values=tuple("abcdefgh"), missing=False) for n in ("x", "y")]
    domain = Schema(columns, [Forbidden(("x", "y"), (("a", "b"),))]).domain
    table = Pooled(("x",), np.array([90.0, *[0.0] * 7]), np.full(8, 5.0))
    assert merge_rare_codes(domain, {"x": table}, 3.0) is None


def test_it_is_resolved_by_name_and_refuses_what_it_cannot_do() -> None:
    assert resolve("compressed").name == "compressed"
    assert Compressed(max_memory=10**9)._inner == PGM(max_memory=10**9)
    for sigmas in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="sigmas"):
            Compressed(sigmas=sigmas)
    with pytest.raises(InputError, match="max_memory"):
        Compressed(Independent(), max_memory=10**9)


def test_columns_that_the_fitter_was_told_of_are_named() -> None:
    assert Compressed(Mixture(target="few")).named_columns == {"few"}
    assert Compressed(PGM()).named_columns == frozenset()
