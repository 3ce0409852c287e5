"""Exactness, bit by bit: where floating point decides, exact arithmetic on the same bits agrees."""

from __future__ import annotations

import ast
import importlib.util
import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from margrave.errors import InputError
from margrave.privacy.noise import (
    SecureSource,
    discrete_gaussian,
    exponential,
    gaussian,
    rounded,
    rounded_gaussian,
)
from margrave.privacy.noise.exponential import _draw as draw_index
from margrave.privacy.noise.sampling import (
    SLACK,
    UNIT,
    LazyUniform,
    _cumulate_weights,
    accept,
    exp_bounds,
    half_table,
    invert,
    rounded_draws,
    table_draws,
)
from seeded_noise import SeededSource

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SRC = Path(__file__).parents[2] / "src" / "margrave"
ROOTS = [Fraction(1, 1000), Fraction(3, 10), Fraction(1), Fraction(73, 10), Fraction(90)]


class Replay:
    """A source that says the given words first, and then others."""

    def __init__(self, words: list[int]) -> None:
        self.given, self.after, self.more = words, SeededSource(99), 0

    def words(self, n: int) -> NDArray[np.uint64]:
        taken, self.given = self.given[:n], self.given[n:]
        self.more += n - len(taken)
        return np.concatenate([np.array(taken, dtype=np.uint64), self.after.words(n - len(taken))])


@pytest.mark.parametrize("halved", [True, False])
@pytest.mark.parametrize("squared", [root**2 for root in ROOTS])
def test_table_boundaries_are_within_their_error(squared: Fraction, halved: bool) -> None:
    _check_boundaries(squared, halved)


@pytest.mark.slow
@pytest.mark.parametrize("halved", [True, False])
@pytest.mark.parametrize("squared", [Fraction(1 << 20), Fraction(10**6), Fraction(789_123, 4)])
def test_large_table_boundaries_are_within_their_error(squared: Fraction, halved: bool) -> None:
    _check_boundaries(squared, halved)


def _check_boundaries(squared: Fraction, halved: bool) -> None:
    table, sums = half_table(squared, halved), _cumulate_weights(squared, halved, 160)
    assert (np.diff(table.bounds) >= 0).all()
    for k, bound in enumerate(table.bounds.tolist()):
        position = min(k, len(sums.low) - 1)
        low = (sums.low[position] << UNIT) // sums.total_high
        high = (sums.high[position] << UNIT) // sums.total_low + 1
        assert low - SLACK // 2 <= bound <= high + SLACK // 2


@pytest.mark.parametrize("squared", [Fraction(1, 9), Fraction(1), Fraction(5329, 100), Fraction(10_000)])
def test_a_uniform_at_a_boundary_is_in_doubt(squared: Fraction) -> None:
    table = half_table(squared, True)
    for bound in table.bounds[table.bounds < (1 << UNIT) - SLACK].tolist():
        for step in (-SLACK, -1, 0, 1, SLACK - 1):
            word = np.array([(bound + step) << 2], dtype=np.uint64)
            state = table_draws(word, np.empty(1, np.int64), 0, table.bounds, table.guide, table.shift, SLACK)
            assert tuple(state) == (0, 0, True)


@pytest.mark.parametrize(
    "sigma", [Fraction(1, 5), Fraction(1), Fraction(73, 10), Fraction(100), Fraction(2000), Fraction(10**7)]
)
def test_fast_and_exact_gaussians_agree_on_the_same_bits(sigma: Fraction) -> None:
    words = SeededSource(20).words(900).tolist()
    fast = gaussian._draws(sigma**2, 400, Replay(words), SLACK, gaussian.MARGIN)
    exact = gaussian._draws(sigma**2, 400, Replay(words), 1 << 61, 2.0)
    np.testing.assert_array_equal(fast, exact)


@pytest.mark.parametrize("sigma", [Fraction(1, 5), Fraction(1), Fraction(73, 10), Fraction(10**7)])
def test_fast_and_exact_rounded_gaussians_agree_on_the_same_bits(sigma: Fraction) -> None:
    table = half_table(Fraction(rounded.BLOCKS**2), False)
    seen = {"quick": 0, "accepted": 0, "rejected": 0}
    for words in SeededSource(22).words(1200).reshape(-1, 3):
        if words[2] % 2:  # so that the acceptance has to look at the third word
            b, t = table.resolve(int(words[0]) >> 2, SeededSource(0), SLACK), int(words[1]) % 2**50 / 2**50
            high = int(math.exp(-(2 * b + t) * t / 2**21) * 2**14)
            words[1] = np.uint64(high << 50 | int(words[1]) % 2**50)
        out = np.empty(1, np.int64)
        filled, used, doubtful = rounded_draws(
            words, out, 0, table.bounds, table.guide, table.shift, SLACK, float(sigma), rounded.MARGIN
        )
        if not doubtful:
            exact = rounded._settle(words.tolist(), SeededSource(0), table, 1 << 61, sigma**2)
            assert exact == (out[0] if filled else None)
            seen["quick" if used == 2 else "accepted" if filled else "rejected"] += 1
    assert min(seen.values()) > 20
    assert sum(seen.values()) > 390


@pytest.mark.parametrize("sigma", [Fraction(1), Fraction(10**9)])
def test_the_tails_are_drawn_too(sigma: Fraction) -> None:
    top = 2**64 - 1
    far = gaussian._draws(sigma**2, 1, Replay([top, 0] + [top] * 16), SLACK, gaussian.MARGIN)
    assert far[0] < -9 * sigma
    far = rounded._draws(sigma**2, 1, Replay([top, 0, 0] + [top] * 17), SLACK, rounded.MARGIN)
    assert far[0] <= -math.floor(9 * sigma)


def test_large_rounded_gaussians_near_zero_are_in_doubt() -> None:
    """Where sigma is large and t begins with zeros, the bits of t that are not drawn yet decide."""
    sigma = Fraction(1 << 30)
    half = (1 << 50) // (1 << 21) - 1  # the last t whose sigma * t / 1024 is below 1/2
    table = half_table(Fraction(rounded.BLOCKS**2), False)
    words = np.array([0, half, 0], dtype=np.uint64)
    state = rounded_draws(
        words, np.empty(1, np.int64), 0, table.bounds, table.guide, table.shift, SLACK, float(sigma), 2.0**-46
    )
    assert state[2]


@given(st.fractions(0, 300), st.sampled_from([64, 128, 256]))
def test_exp_bounds_hold(x: Fraction, bits: int) -> None:
    low, high = exp_bounds(x, bits)
    finer_low, finer_high = exp_bounds(x, 4 * bits)
    assert 0 <= high - low <= 3
    assert low << 3 * bits <= finer_high
    assert finer_low <= high << 3 * bits
    assert math.isclose(finer_low / 2 ** (4 * bits), math.exp(-x), rel_tol=1e-12, abs_tol=1e-15)


@given(st.fractions(0, 2))
def test_exp_bounds_against_the_series(x: Fraction) -> None:
    x = x.limit_denominator(1000)
    term, total, n = Fraction(1), Fraction(1), 0
    while abs(term) > Fraction(1, 2**140):
        n += 1
        term *= -x / n
        total += term
    low, high = exp_bounds(x, 128)
    assert low - 1 <= total * 2**128 <= high + 1


def test_a_lazy_uniform_draws_only_what_it_needs() -> None:
    source = Replay([1, 2])
    uniform = LazyUniform(5, 3, source)
    assert uniform.extend(3) == 5
    assert uniform.extend(4) == 5 << 64 | 1
    assert (uniform.bits, source.given) == (67, [2])


def test_accept_goes_on_until_it_knows() -> None:
    third = (1 << 256) // 3
    for tail, answer in ((third + 1, False), (third - 1, True)):
        words = [tail >> shift & (2**64 - 1) for shift in (192, 128, 64, 0)]
        uniform = LazyUniform(0, 0, Replay(words))
        # bounds on 1/3 that know nothing beyond the 256th bit
        found = accept(uniform, lambda bits: ((1 << bits) // 3, (1 << bits) // 3 + 1))
        assert found is answer
        assert uniform.bits >= 256


def test_invert_goes_on_until_it_knows() -> None:
    squared = Fraction(4)
    sums = _cumulate_weights(squared, False, 512)
    edge = ((sums.low[2] + sums.high[2]) << 256) // (sums.total_low + sums.total_high)
    for value, k in ((edge - 2, 2), (edge + 2, 3)):
        words = [value >> shift & (2**64 - 1) for shift in (192, 128, 64, 0)]
        uniform = LazyUniform(0, 0, Replay(words))
        assert invert(uniform, lambda bits: _cumulate_weights(squared, False, bits)) == k
        assert uniform.bits >= 256


@settings(deadline=None)
@given(
    st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=6), st.fractions(0, 9), st.integers(0, 2**64 - 1)
)
def test_fast_and_exact_choices_agree_on_the_same_bits(
    scores: list[float], rate: Fraction, word: int
) -> None:
    array = np.asarray(scores)
    fast, exact = (draw_index(array, rate, Replay([word]), widen) for widen in (1.0, 1e18))
    assert fast == exact


@pytest.mark.parametrize("rate", [Fraction(1, 2**1074), Fraction(10**400), Fraction(1, 10**400), Fraction(0)])
def test_choices_survive_any_size_of_scores(rate: Fraction) -> None:
    scores = np.array([-1.7e308, 1.7e308, 0.0, 5e-324])
    drawn = {draw_index(scores, rate, SeededSource(k), 1.0) for k in range(60)}
    assert drawn == ({1} if rate > 1 else {0, 1, 2, 3})


def test_a_far_better_score_always_wins() -> None:
    scores = np.array([0.0, 1e6, -1e6])
    assert all(exponential(scores, Fraction(1), Fraction(1), SecureSource()) == 1 for _ in range(50))


@pytest.mark.parametrize("scores", [[], [math.nan], [math.inf, 1.0], [-math.inf], [[1.0]]])
def test_impossible_scores_are_refused_unseen(scores: list[float]) -> None:
    with pytest.raises(InputError, match="scores must be") as caught:
        exponential(np.asarray(scores), Fraction(1), Fraction(1), SecureSource())
    assert "nan" not in str(caught.value)


@pytest.mark.parametrize(
    ("epsilon", "sensitivity"),
    [
        (Fraction(-1), Fraction(1)),
        (Fraction(1), Fraction(0)),
        (Fraction(1), Fraction(-1)),
        (1.0, Fraction(1)),
    ],
)
def test_impossible_choices_are_refused(epsilon: Fraction, sensitivity: Fraction) -> None:
    with pytest.raises(InputError, match="must be an int or Fraction"):
        exponential(np.zeros(2), epsilon, sensitivity, SecureSource())


@pytest.mark.parametrize("draw", [discrete_gaussian, rounded_gaussian])
def test_impossible_arguments_are_refused(draw: object) -> None:
    for amount in (0, -1, Fraction(-1), 1.0, True, None, Fraction(2**70), Fraction(1, 2**70)):
        with pytest.raises(InputError, match="must be an int or Fraction"):
            draw(amount, 1, SecureSource())  # type: ignore[operator]
    for size in (-1, 1.5, True, None):
        with pytest.raises(InputError, match="size must be"):
            draw(Fraction(1), size, SecureSource())  # type: ignore[operator]


@pytest.mark.parametrize("draw", [discrete_gaussian, rounded_gaussian])
@pytest.mark.parametrize("size", [0, 1, 3, 16_384, 50_001])
def test_sizes(draw: object, size: int) -> None:
    drawn = draw(Fraction(9), size, SecureSource())  # type: ignore[operator]
    assert (drawn.shape, drawn.dtype) == ((size,), np.int64)


def test_variances_at_the_limits() -> None:
    for squared in (Fraction(1, 2**60), Fraction(2**60)):
        for draw in (discrete_gaussian, rounded_gaussian):
            drawn = draw(squared, 1000, SecureSource())
            assert np.abs(drawn).max() <= 8 * math.sqrt(squared)
            assert (drawn == 0).all() == (squared < 1)


def test_the_secure_source_never_repeats_itself() -> None:
    source = SecureSource()
    words = np.concatenate([source.words(1000), source.words(1000), SecureSource().words(1000)])
    assert len(np.unique(words)) == 3000
    assert words.flags.writeable
    assert not hasattr(source, "__dict__")
    ones = np.unpackbits(words.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 5 / (2 * math.sqrt(64 * 3000))


def test_the_package_has_no_source_of_bits_but_the_secure_one_and_the_marked_one() -> None:
    """`RepeatableSource` is made by a ledger that then promises nothing: tests/test_seeded_runs.py."""
    sources = []
    for path in SRC.rglob("*.py"):
        assert "seeded" not in path.stem, path
        text = path.read_text(encoding="utf-8")
        named = "seeded" in text.lower()  # most modules name it nowhere: their nodes need no look
        for node in ast.walk(ast.parse(text)):
            if named and isinstance(node, ast.ImportFrom | ast.Import):
                assert "seeded" not in ast.unparse(node).lower(), path.name
            if named and isinstance(node, ast.Name | ast.Attribute):
                assert "SeededSource" not in ast.unparse(node), path.name
            if isinstance(node, ast.ClassDef):
                drawing = [part for part in node.body if isinstance(part, ast.FunctionDef)]
                sources += [
                    node.name for part in drawing if part.name == "words" and len(part.args.args) == 2
                ]
    assert sorted(sources) == ["BitSource", "RepeatableSource", "SecureSource"]


def test_the_wheel_is_the_package_and_nothing_of_the_tests() -> None:
    root = SRC.parents[1]
    build = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"] == {"packages": ["src/margrave"]}
    assert set(build) == {"targets"}  # no file is forced into it
    assert importlib.util.find_spec("margrave.privacy.noise.seeded") is None
    assert not (SRC / "privacy" / "noise" / "seeded.py").exists()
