"""CalibratedModel: public rows keep the mixture's tables; refined attributes; the same rows after a file."""

from __future__ import annotations

import numpy as np
import pytest

from margrave.errors import ReleaseError
from margrave.models._base.pooling import pool
from margrave.models._mixture.model import MixtureModel
from margrave.models._mixture.refinements import Refinements
from margrave.models.gated.public_auto import CalibratedModel, calibrate, restore_calibrated
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded

DOMAIN = Domain(("a", "x", "b", "y", "z"), (3, 4, 3, 5, 2))
PUBLIC = ("a", "b")
ROWS = 6000


def mixture(components: int = 6) -> MixtureModel:
    """A mixture that knows nothing of how the public columns below depend on each other."""
    rng = np.random.default_rng(3)
    spread = (2.0, 0.4, 2.0, 0.4, 0.4)
    blocks = [rng.dirichlet(np.full(n, s), components).T for n, s in zip(DOMAIN.sizes, spread, strict=True)]
    shares = np.concatenate(blocks)
    return MixtureModel(DOMAIN, ROWS, rng.dirichlet(np.full(components, 5.0)), shares, 1.0, None)


def public_rows() -> Encoded:
    """Both columns as the mixture has them, but for half of the rows one rises with the other."""
    rng = np.random.default_rng(0)
    rows = mixture().sample(ROWS, rng)
    a, b = (rows.column(name).copy() for name in PUBLIC)
    part = rng.permutation(ROWS)[: ROWS // 2]
    a[part], b[part] = np.sort(a[part]), np.sort(b[part])
    return Encoded(DOMAIN.project(PUBLIC), (a, b))


def table(rows: Encoded, clique: tuple[str, ...]) -> np.ndarray:
    found = np.zeros(DOMAIN.shape(clique))
    np.add.at(found, tuple(rows.column(name) for name in clique), 1.0)
    return found


def evidence(rows: Encoded) -> dict[str, np.ndarray]:
    return {name: rows.column(name) for name in PUBLIC}


def rake(wanted: np.ndarray, lines: np.ndarray) -> np.ndarray:
    return wanted * (lines / wanted.sum(axis=1))[:, None]


def errors(model: MixtureModel, rows: Encoded, given: Encoded) -> tuple[float, float]:
    """How far rows are from the mixture's private pairs, and from mixed ones raked to public counts."""
    private = [("x", "y"), ("x", "z"), ("y", "z")]
    mixed = [(one, two) for one in PUBLIC for two in ("x", "y", "z")]
    apart = [np.abs(table(rows, pair) - model.project(pair)).sum() / ROWS for pair in private]
    own = [
        np.abs(table(rows, pair) - rake(model.project(pair), table(rows, pair[:1]))).sum() / ROWS
        for pair in mixed
    ]
    return float(np.mean(apart)), float(np.mean(own))


def test_rows_keep_the_tables_that_a_draw_given_the_same_rows_undoes() -> None:
    model, given = mixture(), public_rows()
    calibrated = calibrate(model, given, (), 0)
    before = model.sample(ROWS, np.random.default_rng(1), evidence(given))
    after = calibrated.sample(ROWS, np.random.default_rng(1), evidence(given))
    for name in PUBLIC:
        np.testing.assert_array_equal(after.column(name), given.column(name))
    lost, kept = errors(model, before, given), errors(model, after, given)
    assert kept[0] < 0.4 * lost[0]
    assert kept[1] < 0.5 * lost[1]
    assert max(kept) < 0.03


def test_sums_over_the_rows_are_those_of_the_mixture() -> None:
    """Of each component by public code, from its definition in float64."""
    model, given = mixture(), public_rows()
    found = calibrate(model, given, (), 0)
    logs = found.bias.astype(float) + sum(
        found.gate[given.column(name) + start] for name, start in zip(PUBLIC, (0, 3), strict=True)
    )
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares.mean(axis=0), model.weights, atol=2e-3)
    for name in PUBLIC:
        own = np.stack([shares[given.column(name) == code].sum(axis=0) / ROWS for code in range(3)])
        counts = np.bincount(given.column(name)) / ROWS
        wanted = model.block(name) * model.weights
        for _ in range(200):
            wanted = wanted * (model.weights / wanted.sum(axis=0))
            wanted = rake(wanted, counts)
        assert np.abs(own - wanted).sum() < 0.02


def refined() -> tuple[CalibratedModel, list[NoisyMarginal]]:
    model, given = mixture(), public_rows()
    rows = model.sample(ROWS, np.random.default_rng(5))
    tables = [NoisyMarginal((n, "z"), table(rows, (n, "z")), 3.0) for n in DOMAIN.names if n != "z"]
    found = calibrate(model, given, (), 0)
    return found.with_refinements(Refinements.learn(found, ["z"], pool(DOMAIN, tables), 0)), tables


def test_a_state_brings_back_the_same_rows_and_damage_is_refused() -> None:
    model, _ = refined()
    again = restore_calibrated(mixture(), (), model.state())
    rows = [one.sample(ROWS, np.random.default_rng(2), evidence(public_rows())) for one in (model, again)]
    for name in DOMAIN.names:
        np.testing.assert_array_equal(rows[0].column(name), rows[1].column(name))
    for clique in (("a", "x"), ("x", "z"), ("a", "b", "z")):
        np.testing.assert_allclose(again.project(clique), model.project(clique))
    with pytest.raises(ReleaseError):
        restore_calibrated(mixture(), (), model.state() | {"calibrated_gate": np.zeros((2, 2))})


def test_other_codes_that_are_given_are_kept() -> None:
    model, _ = refined()
    given = evidence(public_rows())
    rows = model.sample(ROWS, np.random.default_rng(2), given | {"z": 1, "x": 2})
    assert (rows.column("z") == 1).all()
    assert (rows.column("x") == 2).all()
    for some in ({"z": 1}, {"a": 2}, {"a": given["a"]}, {}):
        rows = model.sample(ROWS, np.random.default_rng(2), some)
        for name, codes in some.items():
            assert (rows.column(name) == codes).all()
    assert model.sample(0, np.random.default_rng(2), {}).rows == 0
