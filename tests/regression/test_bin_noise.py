"""What is not known of the numbers of discovered bins, in the score of a regression."""

from __future__ import annotations

import numpy as np
import pytest

from margrave.regression.bin_noise import find_bin_noise
from margrave.regression.design import Design, centre
from margrave.regression.encoding import Encoding
from margrave.schema.columns import Real
from margrave.tables.numbers import doubts_of

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
    found = find_bin_noise(made, Tables(), target).covariance(gamma)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8 * np.abs(wanted).max())


def test_numbers_that_are_known_add_nothing() -> None:
    made = design()
    known = [Encoding(e.column, e.names, e.levels, e.matrix) for e in made.encodings]
    noise = find_bin_noise(centre(Tables(), "y", LABELS, known, True), Tables(), None)
    assert (noise.numbers, noise.covariance(np.ones(3)).any()) == ((), False)
