from __future__ import annotations

import numpy as np
import pytest

from margrave.errors import InputError, ReleaseError
from margrave.models.independent import Independent
from margrave.models.registry import FITTERS, resolve
from margrave.release import NoisyMarginal, project_simplex
from margrave.schema.domain import Domain

DOMAIN = Domain(("a", "b", "c"), (2, 3, 4))


def test_measurements_that_mention_an_attribute_are_averaged_by_their_noise():
    a = NoisyMarginal(("a",), np.array([60.0, 40.0]), 2.0)
    ab = NoisyMarginal(("b", "a"), np.array([[20.0, 10.0], [20.0, 10.0], [30.0, 10.0]]), 1.0)
    model = Independent().fit(DOMAIN, [a, ab], total=100.0)
    precision = (1 / 4, 1 / 3)
    first = (60 * precision[0] + 70 * precision[1]) / sum(precision)
    np.testing.assert_allclose(model.project(("a",)), [first, 100 - first])
    # Of three codes or more others say something too; with so little noise nothing much.
    np.testing.assert_allclose(model.project(("b",)), [30, 30, 40], atol=0.5)
    np.testing.assert_allclose(model.project(("c",)), 25)


def test_projections_are_products_in_the_order_asked():
    model = Independent().fit(DOMAIN, [NoisyMarginal(("a",), np.array([30.0, 10.0]), 1.0)])
    np.testing.assert_allclose(model.project(("b", "a")), np.outer(np.full(3, 1 / 3), [30, 10]))
    assert model.project(()) == pytest.approx(40)


@pytest.mark.parametrize("seed", range(10))
def test_the_simplex_projection_meets_its_optimality_conditions(seed):
    rng = np.random.default_rng(seed)
    values, variances = rng.normal(0.1, 0.3, size=12), rng.uniform(0.1, 2, size=12)
    found = project_simplex(values, variances)
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()
    pull = (values - found) / variances
    inside = found > 0
    assert np.ptp(pull[inside]) < 1e-9
    assert (pull[~inside] <= pull[inside].min() + 1e-9).all()


def test_column_counts_are_within_one_of_the_model():
    model = Independent().fit(DOMAIN, [NoisyMarginal(("b",), np.array([10.0, 25.0, 65.0]), 1.0)])
    encoded = model.sample(333, np.random.default_rng(0))
    for name, size in zip(DOMAIN.names, DOMAIN.sizes, strict=True):
        counts = np.bincount(encoded.column(name), minlength=size)
        assert np.abs(counts - 333 * model.project((name,)) / model.total).max() < 1


def test_damaged_states_and_unknown_names_are_refused():
    model = Independent().fit(DOMAIN, [])
    with pytest.raises(ReleaseError, match="state"):
        Independent().restore(DOMAIN, [], {"total": np.array(1.0), "ways": model.state()["ways"][1:]})
    with pytest.raises(ReleaseError, match="state"):
        Independent().restore(DOMAIN, [], {})
    with pytest.raises(InputError, match="model"):
        resolve("no such model")
    assert [resolve(name).name for name in FITTERS] == list(FITTERS)


def test_public_names_are_loaded_lazily():
    import margrave.models as models

    assert models.PGM().name == "pgm"
    assert models.Independent().name == "independent"
    assert models.resolve is resolve
    with pytest.raises(AttributeError):
        models.nothing
