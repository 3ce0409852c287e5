"""PublicAuto: a blend of two models or the gated mixture, and that all come back from their state."""

from __future__ import annotations

import numpy as np
import pytest

from margrave.errors import ReleaseError
from margrave.models._base.pooling import pool
from margrave.models._determined import DeterminedModel
from margrave.models.auto import Auto
from margrave.models.gated import GatedModel
from margrave.models.gated.blended import BlendedModel
from margrave.models.gated.public_auto import CalibratedModel, ConditionedModel, PublicAuto
from margrave.release import KnownMarginal, NoisyMarginal
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded

NAMES = tuple("pabcd")
DOMAIN = Domain(NAMES, (2, 12, 12, 12, 12))


def copies(rows: int = 4000, alike: float = 0.98) -> Encoded:
    """Four private attributes that are one another's copies but for a few rows, and a public coin."""
    rng = np.random.default_rng(0)
    code = rng.integers(0, 12, rows)
    columns = [rng.integers(0, 2, rows)]
    columns += [np.where(rng.random(rows) < alike, code, rng.integers(0, 12, rows)) for _ in range(4)]
    return Encoded(DOMAIN, tuple(column.astype(np.uint8) for column in columns))


def count(rows: Encoded, clique: tuple[str, ...]) -> np.ndarray:
    table = np.zeros(rows.domain.shape(clique))
    np.add.at(table, tuple(rows.column(name) for name in clique), 1.0)
    return table


def noisy_pairs(rows: Encoded, sigma: float) -> list[NoisyMarginal]:
    rng = np.random.default_rng(1)
    pairs = [(a, b) for i, a in enumerate(NAMES) for b in NAMES[i + 1 :]]
    tables = [(pair, count(rows, pair)) for pair in pairs]
    return [NoisyMarginal(pair, t + sigma * rng.standard_normal(t.shape), sigma) for pair, t in tables]


def public(rows: Encoded, names: tuple[str, ...]) -> Encoded:
    return Encoded(rows.domain.project(names), tuple(rows.column(name) for name in names))


def test_both_models_are_drawn_given_public_rows_and_come_back() -> None:
    rows = copies(1000, alike=0.9)
    tables, given = noisy_pairs(rows, 4.0), public(rows, ("p",))
    model = PublicAuto(given=given).fit(DOMAIN, tables)
    assert isinstance(model, BlendedModel)
    assert isinstance(model.other, CalibratedModel)
    drawn = model.sample(1000, np.random.default_rng(0), {"p": rows.column("p")})
    np.testing.assert_array_equal(drawn.column("p"), rows.column("p"))
    again = PublicAuto().restore(DOMAIN, tables, model.state())
    for clique in (("a", "b"), ("p", "c"), ("a", "c", "d")):
        np.testing.assert_allclose(again.project(clique), model.project(clique), rtol=1e-6, atol=1e-6)


def test_a_model_of_another_kind_is_drawn_given_the_rows_as_it_is_and_comes_back() -> None:
    """Graphical models, and mixtures of columns of very many codes, are not calibrated."""
    rows = copies(300)
    tables, known = noisy_pairs(rows, 4.0), [KnownMarginal(("p",), count(rows, ("p",)), 4.0)]
    fitted = Auto().fit(DOMAIN, [*tables, *known], total=300.0)
    inner = fitted.inner if isinstance(fitted, DeterminedModel) else fitted
    model = ConditionedModel(inner, known)
    again = PublicAuto().restore(DOMAIN, tables, model.state())
    assert isinstance(again, ConditionedModel)
    np.testing.assert_allclose(again.project(("a", "b")), model.project(("a", "b")), rtol=1e-6, atol=1e-6)


def test_a_blend_is_no_worse_in_rows() -> None:
    rows = copies()
    tables, given = noisy_pairs(rows, 3.0), public(rows, ("p",))
    errors = []
    for fitter in (PublicAuto(given=given), PublicAuto(given=given)._gated):
        drawn = fitter.fit(DOMAIN, tables).sample(4000, np.random.default_rng(0), {"p": rows.column("p")})
        errors.append(np.mean([np.abs(count(drawn, t.clique) - count(rows, t.clique)).sum() for t in tables]))
    assert errors[0] <= 1.05 * errors[1]


def test_where_most_is_public_or_nothing_is_given_it_is_the_gated_mixture() -> None:
    rows = copies(300)
    tables = noisy_pairs(rows, 20.0)
    for given in (None, public(rows, ("p", "a", "b", "c"))):
        assert isinstance(PublicAuto(given=given).fit(DOMAIN, tables), GatedModel)


@pytest.mark.parametrize(("noise", "share"), [(400.0, 1 / 3), (0.25, 1.0)])
def test_public_tables_are_surer_than_measured_ones_where_noise_is_large(noise: float, share: float) -> None:
    rows = copies(1000)
    tables = pool(DOMAIN, noisy_pairs(rows, noise))
    known = PublicAuto(given=public(rows, ("p", "a")))._count_public(DOMAIN, tables)
    assert [table.clique for table in known] == [("p",), ("a",), ("p", "a")]
    np.testing.assert_array_equal(known[2].values, count(rows, ("p", "a")))
    assert [table.sigma for table in known] == pytest.approx([share * noise] * 3)


def test_a_damaged_state_is_refused() -> None:
    rows = copies(300)
    state = PublicAuto(given=public(rows, ("p",)))._gated.fit(DOMAIN, noisy_pairs(rows, 20.0)).state()
    with pytest.raises(ReleaseError):
        PublicAuto().restore(DOMAIN, [], state | {"public_degrees": np.array([3])})
