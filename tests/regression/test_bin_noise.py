"""What is not known of the numbers of discovered bins, in the score of a regression."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Literal

import numpy as np
import pytest

from margrave.models.pgm.fitter import PGM
from margrave.privacy.unit import Neighbours
from margrave.regression import linear
from margrave.regression.bin_noise import find_bin_noise
from margrave.regression.design import Design, centre
from margrave.regression.encoding import Encoding
from margrave.release import Guarantee, NoisyMarginal, Release
from margrave.schema.columns import Integer, Real
from margrave.schema.schema import Schema
from margrave.tables.means import Numbers, Product
from margrave.tables.numbers import LINE_DOUBT, doubts_of, scores_of

CODES = {"a": 4, "b": 3, "y": 5}
RNG = np.random.default_rng(0)
WHOLE = RNG.dirichlet(np.full(60, 0.5)).reshape(4, 3, 5) * 1000.0
NUMBERS = {"a": np.array([0.0, 1.5, 2.0, 7.0]), "b": np.array([-1.0, 0.0, 4.0])}
LABELS = np.array([0.0, 1.0, 3.0, 4.0, 9.0])
VARIANCES = {"a": np.array([0.1, 0.0, 0.4, 2.0]), "b": None}
TARGET = Real(
    name="y",
    missing=False,
    edges=(0.0, 2.0, 4.0, 6.0, 8.0, 20.0),
    fine=(0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 20.0),
    weights=(30.0, 9.0, 40.0, 50.0, 20.0, 12.0, 3.0),
    noise=5.0,
)
OF_LABELS = doubts_of(TARGET)


class Tables:
    """The tables of a joint distribution."""

    total = 1000.0

    def project(self, clique: tuple[str, ...]) -> np.ndarray:
        axes = {"a": 0, "b": 1, "y": 2}
        kept = [axes[name] for name in clique]
        lost = tuple(axis for axis in range(3) if axis not in kept)
        table = WHOLE.sum(axis=lost)
        return table.T if kept != sorted(kept) else table

    def project_many(self, cliques: list[tuple[str, ...]]) -> list[np.ndarray]:
        return [self.project(clique) for clique in cliques]


def add_up(column: Real | None) -> tuple[Product, ...]:
    """What the labels are made of: the numbers of this column, or none."""
    numbers = None if column is None else Numbers.of_column(column)
    return () if numbers is None else (Product((column.name,), (numbers,)),)


def design() -> Design:
    encodings = [
        Encoding(name, (name,), ("",), NUMBERS[name][None, :], variances=VARIANCES[name])
        for name in ("a", "b")
    ]
    return centre(Tables(), "y", LABELS, encodings, True)


def score(made: Design, gamma: np.ndarray, off: dict[str, np.ndarray]) -> np.ndarray:
    """b - G gamma over all cells, with numbers of codes that are off by so much."""
    a = made.matrices[0][0] + off["a"] * made.to_raw[1, 1]
    b = made.matrices[1][0] + off["b"] * made.to_raw[2, 2]
    y = made.labels + off["y"]
    x = np.stack(np.broadcast_arrays(np.ones((1, 1, 1)), a[:, None, None], b[None, :, None]))
    x = np.broadcast_to(x, (3, 4, 3, 5))
    left = y - np.tensordot(gamma, x, 1)
    return (WHOLE * x * left).sum(axis=(1, 2, 3))


@pytest.mark.parametrize("of_labels", [None, OF_LABELS], ids=["features", "the target as well"])
def test_the_covariance_is_that_of_derivatives_by_each_number(of_labels: np.ndarray | None) -> None:
    made, gamma = design(), np.array([0.3, -1.2, 0.7])
    nothing = {name: np.zeros(codes) for name, codes in CODES.items()}
    doubts = [("a", VARIANCES["a"])] + ([("y", of_labels)] if of_labels is not None else [])
    wanted = np.zeros((3, 3))
    for name, variances in doubts:
        for code, variance in enumerate(variances):
            step = np.zeros(CODES[name])
            step[code] = 1e-5
            more, less = (score(made, gamma, nothing | {name: sign * step}) for sign in (1, -1))
            slope = (more - less) / 2e-5
            wanted += variance * np.outer(slope, slope)
    target = None if of_labels is None else TARGET
    noise = find_bin_noise(made, Tables(), add_up(target))
    found = noise.covariance(gamma)
    # What lines put back is off by a share of itself, the same for all numbers.
    wanted += LINE_DOUBT**2 * np.outer(noise.inside, noise.inside)
    assert noise.inside.any() == (target is not None)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8 * np.abs(wanted).max())


@pytest.mark.parametrize("source", ["both", "model", "measured"])
def test_coefficients_have_what_goes_with_the_target_inside_its_bins(source: Literal["both"]) -> None:
    """A straight line, whose bins of the target are twice as wide as its scatter: a tenth of it is inside."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, 200_000)
    y = 30.0 + 5.0 * x + rng.normal(0.0, 10.0, 200_000)
    edges, fine = np.arange(-40.0, 121.0, 20.0), np.arange(-40.0, 121.0, 1.0)
    counts = np.stack([np.histogram(y[x == value], edges)[0] for value in range(5)])
    weights = tuple(np.histogram(y, fine)[0].astype(float))
    target = Real(name="y", missing=False, edges=tuple(edges), fine=tuple(fine), weights=weights)
    schema = Schema((Integer(name="x", edges=tuple(range(6)), missing=False), target))
    measured = (NoisyMarginal(("x", "y"), counts.astype(float), 1.0),)
    model = PGM().fit(schema.domain, measured)
    promise = Guarantee(1.0, 1e-9, 0.1, Neighbours(), "gdp")
    release = Release(schema, measured, promise, (), "tables", "pgm", model.state(), model.total)
    found = linear(SimpleNamespace(release=release, model=model), "y", source=source, of="table")
    seen = np.polyfit(x, scores_of(target)[np.clip(np.searchsorted(edges, y, "right") - 1, 0, 7)], 1)[0]
    assert seen < 4.7
    assert found["x"] == pytest.approx(5.0, rel=0.03)
    assert found.middles[1] == pytest.approx(5.0, rel=0.02)
    # Lines need not be straight: a share of what was put back is in the intervals.
    back = found.middles[1] - seen
    assert found.standard_errors[1] == pytest.approx(LINE_DOUBT * back, rel=0.1)
    # What noise makes of the cells is in the intervals, as the same for every release of these tables.
    noisy = replace(release, schema=Schema((schema["x"], replace(target, noise=300_000.0))))
    less_sure = linear(SimpleNamespace(release=noisy, model=model), "y", source=source, of="table")
    assert less_sure.standard_errors[1] > 1.5 * found.standard_errors[1]
    bare = replace(target, fine=None, weights=None)
    assert not find_bin_noise(found.fit.design, model, add_up(bare)).inside.any()


def test_coefficients_of_columns_that_go_together_have_what_goes_inside_their_bins() -> None:
    """In wide bins, the number of one column leaves to the other what it does not tell."""
    rng = np.random.default_rng(0)
    a = rng.normal(0.0, 10.0, 400_000)
    b = 0.8 * a + 6.0 * rng.normal(size=400_000)
    y = np.clip(np.round((2.0 * a - b + rng.normal(0.0, 5.0, 400_000)) / 10.0), -8, 8).astype(int)
    edges, fine = np.arange(-60.0, 61.0, 15.0), np.arange(-60.0, 61.0, 0.5)
    columns = {
        name: Real(
            name=name,
            missing=False,
            edges=tuple(edges),
            fine=tuple(fine),
            weights=tuple(np.histogram(x, fine)[0].astype(float)),
        )
        for name, x in {"a": a, "b": b}.items()
    }
    schema = Schema((*columns.values(), Integer(name="y", edges=tuple(range(-8, 10)), missing=False)))
    codes = [np.clip(np.searchsorted(edges, x, "right") - 1, 0, 7) for x in (a, b)] + [y + 8]
    joint = np.zeros((8, 8, 17))
    np.add.at(joint, tuple(codes), 1.0)
    pairs = (("a", "b"), ("a", "y"), ("b", "y"))
    measured = tuple(NoisyMarginal(pair, joint.sum(axis=2 - at), 1.0) for at, pair in enumerate(pairs))
    model = PGM().fit(schema.domain, measured)
    promise = Guarantee(1.0, 1e-9, 0.1, Neighbours(), "gdp")
    release = Release(schema, measured, promise, (), "tables", "pgm", model.state(), model.total)
    found = linear(SimpleNamespace(release=release, model=model), "y", of="table")
    rows = np.column_stack([np.ones(len(a)), a, b])
    truth = np.linalg.lstsq(rows, y, rcond=None)[0]
    numbers = [scores_of(column)[code] for column, code in zip(columns.values(), codes[:2], strict=True)]
    seen = np.linalg.lstsq(np.column_stack([np.ones(len(a)), *numbers]), y, rcond=None)[0]
    missed = np.abs(seen - truth)[1:]
    assert (missed > 0.05 * np.abs(truth[1:])).all()
    assert (np.abs(found.middles - truth)[1:] < 0.15 * missed).all()
    assert (np.abs(found.estimates - truth)[1:] < 0.15 * missed).all()
    assert (found.standard_errors[1:] > 0.3 * missed).all()
    bare = replace(
        release,
        schema=Schema((*(replace(c, fine=None, weights=None) for c in columns.values()), schema["y"])),
    )
    assert not linear(SimpleNamespace(release=bare, model=model), "y", of="table").fit.bins.beside.any()


def test_numbers_that_are_known_add_nothing() -> None:
    made = design()
    known = [Encoding(e.column, e.names, e.levels, e.matrix) for e in made.encodings]
    noise = find_bin_noise(centre(Tables(), "y", LABELS, known, True), Tables(), ())
    assert (noise.numbers, noise.covariance(np.ones(3)).any()) == ((), False)
