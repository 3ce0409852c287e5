"""mg.slicing: what is released of a matrix, its price, hard cases, and training that costs nothing."""

from __future__ import annotations

import json
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import margrave as mg
from margrave.errors import InputError, ReleaseError
from margrave.privacy.accounting.conversions import gdp_mu
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.book import Book
from margrave.privacy.unit import Neighbours, Unit
from margrave.run.slicing import _check_matrix, _encode, _spread_levels
from margrave.schema.features import RowNumbers

BUDGET: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-5}


def _matrix(rows: int = 2000) -> Any:
    rng = np.random.default_rng(0)
    base = rng.uniform(0.2, 0.9, rows)
    return np.stack([base, 0.5 * base, rng.uniform(0.0, 1.0, rows)], axis=1)


@pytest.mark.parametrize(("adjacency", "distance"), [("zero_out", 3.0), ("replace_one", 3.0)])
def test_one_gaussian_event_of_all_the_budget(adjacency: Any, distance: float) -> None:
    """Three numbers in [0, 1]: a row is sqrt 3 long at most, and so far are two rows apart."""
    found = mg.slicing.release(_matrix(), adjacency=adjacency, **BUDGET)
    (event,) = found.events
    assert isinstance(event, GaussianEvent)
    assert found.guarantee.neighbours.adjacency == adjacency
    mu = gdp_mu(5.0, 1e-5)
    assert found.sigma == pytest.approx(np.sqrt(distance) / mu, rel=0.01)
    assert found.values.shape == (2000, 3)


def test_moments_are_near_those_of_the_rows() -> None:
    exact = 4.0 * _matrix(20_000) - 1.0
    found = mg.slicing.release(exact, lower=-1.0, upper=3.0, **BUDGET)
    mean, second = found.moments()
    noise = found.sigma / np.sqrt(20_000)
    np.testing.assert_allclose(mean, exact.mean(axis=0), atol=5 * noise + 0.01)
    room = 5 * (found.sigma**2 + 2 * found.sigma * 3) / np.sqrt(20_000) + 0.05
    np.testing.assert_allclose(second, exact.T @ exact / 20_000, atol=room)


def test_rows_above_the_bound_are_shortened_and_counted() -> None:
    rows = np.full((500, 4), 1.0)
    rows[:200] = 0.1
    found = mg.slicing.release(rows, longest=1.0, **BUDGET)
    assert len(found.events) == 2
    assert found.slices.shortened is not None
    assert found.slices.shortened_sigma is not None
    assert abs(found.slices.shortened - 300) < 5 * found.slices.shortened_sigma
    mean, _ = found.moments()
    expected = (200 * 0.1 + 300 * 0.5) / 500
    np.testing.assert_allclose(mean, expected, atol=5 * found.sigma / np.sqrt(500) + 0.01)


def test_what_is_no_number_or_out_of_bounds_changes_no_error_and_no_price() -> None:
    rows = _matrix(50)
    rows[0], rows[1], rows[2], rows[3] = np.nan, np.inf, -np.inf, 0.0
    odd, plain = (mg.slicing.release(table, **BUDGET) for table in (rows, _matrix(50)))
    assert np.isfinite(odd.values).all()
    assert odd.sigma == plain.sigma
    assert [event.what for event in odd.events] == [event.what for event in plain.events]


def test_a_number_that_no_double_holds_is_told_by_no_warning() -> None:
    rows = np.array([[np.longdouble("1e4000"), 0.25], [0.5, 0.75]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = _encode(rows, ("x0", "x1"), _spread_levels(0.0, 1.0, 5))
    assert found["x0"].to_pylist() == [4, 2]


def test_levels_are_taken_number_by_number() -> None:
    rows = np.array([[np.nan, -9.0], [0.26, 9.0], [0.0, np.inf]])
    found = _encode(rows, ("x0", "x1"), _spread_levels(-1.0, 1.0, 5))
    assert found.column("x0").to_pylist() == [2, 3, 2]
    assert found.column("x1").to_pylist() == [0, 4, 4]
    above = _encode(np.array([[np.nan]]), ("x0",), _spread_levels(2.0, 4.0, 3))
    assert above.column("x0").to_pylist() == [0]


@pytest.mark.parametrize(("lower", "upper", "levels"), [(-1.0, 1.0, 2), (-1.0, 1.0, 256), (-0.3, 2.0, 16)])
def test_zero_is_a_level_where_it_lies_between_the_bounds(lower: float, upper: float, levels: int) -> None:
    grid = _spread_levels(lower, upper, levels)
    assert (grid[0], grid[-1], len(grid)) == (lower, upper, levels + 1)
    rows = np.array([[0.0, lower, upper, lower / 2 + upper / 2, -np.inf, np.inf]]).T
    codes = _encode(rows, ("x0",), grid).column("x0").to_pylist()
    values = grid[codes]
    assert values[0] == 0.0
    assert values[[1, 2, 4, 5]].tolist() == [lower, upper, lower, upper]
    assert abs(values[3] - (lower + upper) / 2) <= (upper - lower) / (levels - 1) / 2 + 1e-12
    # So a row whose numbers become 0 moves by no more than what is priced.
    found = mg.slicing.release(rows, lower=lower, upper=upper, levels=levels, **BUDGET)
    (event,) = found.events
    scaled = grid / max(abs(lower), abs(upper))
    height = 1 << 10 if levels > 2 else 1
    (matrix,) = RowNumbers(("x0",), (scaled[None, :],), constant=False).cut(height)
    assert int(((matrix - matrix[:, [codes[0]]]) ** 2).max()) <= event.l2_squared


def test_a_book_has_releases_and_broken_attempts_on_record(tmp_path: Path) -> None:
    kept = Book.create(tmp_path / "steward.book")
    kept.cap("people", 9.0, 1e-4, Neighbours(Unit(), "replace_one"))
    asked: dict[str, Any] = {
        "ledger": kept,
        "dataset": "people",
        "analyst": "ann",
        "adjacency": "replace_one",
    }
    with pytest.raises(InputError, match="X must be a matrix"):
        mg.slicing.release([[0.5], [0.5, 0.5]], epsilon=1.0, delta=1e-6, **asked)
    assert [one.refused for one in kept.attempts()] == [True]
    found = mg.slicing.release(_matrix(50), epsilon=1.0, delta=1e-6, **asked)
    assert found.guarantee.epsilon <= 1.0
    assert [one.refused for one in kept.attempts()] == [True, False]


class _Odd:
    """A cell whose code fails when it is read."""

    def __float__(self) -> float:
        raise RuntimeError


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ([[0.5, 0.5]] * 3, [[0.5, 0.5], [0.5, 0.5], [0.5]]),
        ([[0.5, 0.5]] * 3, [[0.5], [0.5, 0.5], [0.5, 0.5]]),
        ([[0.5, 0.5]] * 3, [[0.5, 0.5], [0.5, [0.5]], [0.5, 0.5]]),
        (np.full((3, 2), 0.5, object), np.array([[0.5, 0.5], [0.5, _Odd()], [0.5, 0.5]], object)),
        (pd.DataFrame([[0.5, 0.5]] * 3), pd.DataFrame([[0.5, 0.5], [0.5, _Odd()], [0.5, 0.5]])),
    ],
    ids=["list", "first row", "cell", "array", "frame"],
)
def test_whether_a_run_is_on_record_follows_from_no_row(good: Any, bad: Any, tmp_path: Path) -> None:
    """What a later release says of the data set is the same beside either neighbour."""
    told = []
    for name, rows in (("good", good), ("bad", bad)):
        kept = Book.create(tmp_path / f"{name}.book")
        kept.cap("people", 9.0, 1e-4, Neighbours(Unit(), "replace_one"))
        asked: dict[str, Any] = {"ledger": kept, "dataset": "people", "adjacency": "replace_one"}
        with suppress(InputError, RuntimeError):
            mg.slicing.release(rows, epsilon=1.0, delta=1e-6, **asked)
        frame = pd.DataFrame({"c": ["a", "b"] * 20})
        later = mg.Synthesizer("independent", epsilon=1.0, **asked).fit(frame)
        history = later.release.provenance.history
        assert history is not None
        assert [one.refused for one in kept.attempts()] == [name == "bad", False]
        told.append(history.to_json())
    assert told[0] == told[1]
    assert len(told[0]["earlier"]) == 1


@pytest.mark.parametrize("wrong", [np.zeros(3), np.zeros((2, 0)), np.array([["a"]]), pd.Series([0.5])])
def test_what_is_no_matrix_by_its_type_reserves_no_run(wrong: Any, tmp_path: Path) -> None:
    kept = Book.create(tmp_path / "steward.book")
    kept.cap("people", 9.0, 1e-4, Neighbours(Unit(), "replace_one"))
    asked: dict[str, Any] = {"ledger": kept, "dataset": "people", "adjacency": "replace_one"}
    with pytest.raises(InputError, match="X must be a matrix"):
        mg.slicing.release(wrong, epsilon=1.0, delta=1e-6, **asked)
    assert (len(kept.attempts()), len(kept.runs())) == (1, 0)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"lower": 1.0, "upper": 1.0}, "lower"),
        ({"upper": float("nan")}, "lower"),
        ({"levels": 1}, "levels"),
        ({"adjacency": "add_remove"}, "adjacency"),
        ({"longest": 0.0}, "longest"),
        ({"max_memory": 1000}, "X must be of at most 25 numbers"),
    ],
)
def test_what_cannot_be_released_is_refused_before_anything_is_spent(
    options: dict[str, Any], match: str, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.jsonl"
    with pytest.raises(InputError, match=match):
        mg.slicing.release(_matrix(100), ledger=path, **BUDGET, **options)
    assert not path.exists() or "noisy copies of all rows" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("matrix", [np.zeros(3), np.zeros((2, 0)), np.array([["a"]])])
def test_what_is_no_matrix_is_refused_without_its_values(matrix: Any) -> None:
    with pytest.raises(InputError, match="X must be a matrix"):
        mg.slicing.release(matrix, **BUDGET)


def test_no_rows_are_released_and_have_no_moments_and_no_training() -> None:
    found = mg.slicing.release(np.zeros((0, 3)), **BUDGET)
    mean, second = found.moments()
    assert found.values.shape == (0, 3)
    assert (mean == 0).all()
    assert np.isfinite(second).all()


@pytest.mark.needs_extra("torch")
def test_a_generator_starts_at_the_released_means_and_none_of_them_at_a_bound() -> None:
    rows = np.tile([0.0, 0.25, 1.0], (4000, 1)) * 4.0 - 1.0
    found = mg.slicing.release(rows, lower=-1.0, upper=3.0, epsilon=60.0, delta=1e-5)
    generator = mg.slicing.make_generator(found, widths=(), noise=3)
    middle = (
        generator(generator.device.put(np.zeros((1, 3)), generator.device.torch.float32)).detach().numpy()
    )
    np.testing.assert_allclose(middle[0], [0.02, 0.25, 0.98], atol=0.02)
    plain, other = (
        mg.slicing.make_generator(found, widths=(), noise=3, from_means=False, seed=seed) for seed in (0, 1)
    )
    assert (plain.weights[-1] != other.weights[-1]).any()
    assert (plain.weights[-1][:, :-1] == generator.weights[-1][:, :-1]).all()
    empty = mg.slicing.release(np.zeros((0, 3)), **BUDGET)
    with pytest.raises(InputError, match="rows"):
        mg.slicing.train(empty, mg.slicing.make_generator(empty, noise=2))


@pytest.mark.needs_extra("torch")
def test_training_twice_leaves_the_release_and_draws_within_bounds() -> None:
    found = mg.slicing.release(4.0 * _matrix(300) - 1.0, lower=-1.0, upper=3.0, **BUDGET)
    before, events = found.values.copy(), found.events
    course = mg.slicing.Course(steps=10, batch=64, slices=4, k=2)
    made = []
    for loss in ("kl", "kl", "wasserstein", mg.slicing.SlicedDivergence("chi_square", widths=(2.0,))):
        generator = mg.slicing.make_generator(found, widths=(8,), noise=4)
        assert len(mg.slicing.train(found, generator, loss=loss, course=course)) == 10
        made.append(mg.slicing.sample(found, generator, 20))
    np.testing.assert_array_equal(made[0], made[1])
    assert np.abs(made[0] - made[2]).max() > 0
    assert all(rows.shape == (20, 3) and (rows >= -1).all() and (rows <= 3).all() for rows in made)
    np.testing.assert_array_equal(before, found.values)
    assert found.events == events


@pytest.mark.needs_extra("torch")
def test_generators_of_other_rows_and_too_few_rows_are_refused() -> None:
    found, other = (mg.slicing.release(_matrix(9)[:, :width], **BUDGET) for width in (3, 2))
    generator = mg.slicing.make_generator(found, widths=(), noise=2)
    with pytest.raises(InputError, match="generator"):
        mg.slicing.train(other, generator)
    with pytest.raises(InputError, match=r"loss must be one of \['chi_square', .*'wasserstein'\]"):
        mg.slicing.train(found, generator, loss="hellinger")
    with pytest.raises(InputError, match="k must be at most the 3"):
        mg.slicing.train(found, generator, course=mg.slicing.Course(steps=1, k=4))
    lone = mg.slicing.release(_matrix(1), **BUDGET)
    with pytest.raises(InputError, match="rows"):
        mg.slicing.train(lone, mg.slicing.make_generator(lone, noise=2))
    # Fewer rows than a batch are one batch.
    assert len(mg.slicing.train(found, generator, course=mg.slicing.Course(steps=2, batch=64, slices=2))) == 2


def test_a_saved_release_comes_back_and_holds_nothing_but_what_was_released(tmp_path: Path) -> None:
    rows = _matrix(60)
    found = mg.slicing.release(rows, lower=-1.0, upper=2.0, longest=1.5, **BUDGET)
    path = tmp_path / "copies.margrave"
    found.save(path)
    back = mg.slicing.load(path)
    np.testing.assert_array_equal(back.values, found.values)
    assert (back.lower, back.upper, back.sigma) == (found.lower, found.upper, found.sigma)
    assert (back.guarantee, back.events) == (found.guarantee, found.events)
    assert back.slices.shortened == found.slices.shortened
    for one, other in zip(back.moments(), found.moments(), strict=True):
        np.testing.assert_array_equal(one, other)
    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("release.json"))
        arrays = {name for name in archive.namelist() if name != "release.json"}
    numbers = {f"arrays/numbers/{place}.npy" for place in range(3)}
    assert arrays == {"arrays/values.npy"} | numbers == set(document["sha256"])
    assert set(document) == {
        *("margrave_slices", "guarantee", "events", "names", "constant", "bounds", "sigma", "shortened"),
        *("shortened_sigma", "sha256"),
    }
    # The numbers of the file are those that every matrix of these bounds and levels would have.
    for matrix in back.slices.numbers.numbers:
        np.testing.assert_allclose(matrix[0], np.linspace(-0.5, 1.0, 256), atol=2**-10)


def _rewrite(path: Path, change: dict[str, Any]) -> None:
    """Put other entries into the document of a file."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["release.json"] = json.dumps(json.loads(parts["release.json"]) | change).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, blob in parts.items():
            archive.writestr(name, blob)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"margrave_slices": 99}, "slices file must be of version 1 or older"),
        ({"margrave_slices": "1"}, "slices file must be a whole file"),
        ({"sigma": 0.0}, "slices file must be a whole file"),
        ({"sigma": None}, "slices file must be a whole file"),
        ({"bounds": [1.0, 0.0]}, "slices file must be a whole file"),
        ({"names": ["x0", "x1"]}, "slices file must be a whole file"),
        ({"sha256": {"arrays/values.npy": "0"}}, "slices file must be a whole file"),
    ],
)
def test_a_damaged_file_is_refused(change: dict[str, Any], match: str, tmp_path: Path) -> None:
    path = tmp_path / "copies.margrave"
    mg.slicing.release(_matrix(9), **BUDGET).save(path)
    _rewrite(path, change)
    with pytest.raises(ReleaseError, match=match):
        mg.slicing.load(path)


def test_files_of_another_kind_cut_short_or_gone_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "copies.margrave"
    with pytest.raises(ReleaseError, match="existing slices file"):
        mg.slicing.load(path)
    mg.slicing.release(_matrix(9), **BUDGET).save(path)
    with pytest.raises(ReleaseError, match="whole margrave release"):
        mg.load(path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ReleaseError, match="slices file must be a whole file"):
        mg.slicing.load(path)


@pytest.mark.parametrize("width", [2, 3, 7])
def test_projections_on_random_directions_have_independent_noise_of_one_size(width: int) -> None:
    """Rows of zeros, so that all that is seen is noise; fewer directions than numbers, as many, and more."""
    exact = np.full((40_000, 3), 0.25)
    found = mg.slicing.release(exact, **BUDGET)
    directions = np.random.default_rng(3).standard_normal((3, width)) / np.sqrt(3)
    seen, sigma = found.project(directions, rng=4)
    assert sigma == pytest.approx(found.sigma * np.linalg.norm(directions, 2))
    noise = seen - 0.25 * directions.sum(axis=0)
    spread = noise.T @ noise / len(noise)
    np.testing.assert_allclose(spread / sigma**2, np.eye(width), atol=5 * np.sqrt(2 / 40_000) + 0.01)
    plain, _ = np.linalg.eigh(np.cov((found.values @ directions).T))
    assert plain[-1] > plain[0] * 1.05  # without the noise that is added they are not alike


@pytest.mark.parametrize(
    "directions", [np.zeros((3, 2)), np.ones((2, 2)), np.full((3, 1), np.nan), np.ones(3)]
)
def test_directions_that_are_none_are_refused(directions: Any) -> None:
    with pytest.raises(InputError, match="directions"):
        mg.slicing.release(_matrix(9), **BUDGET).project(directions)


def _classes(rows: int) -> Any:
    """Indicators of three classes, the last of which is empty, and a number that is .2 or .8 by class."""
    label = (np.arange(rows) % 3 > 0).astype(int)
    return np.column_stack([np.eye(3)[label], np.where(label == 0, 0.2, 0.8), np.full(rows, 0.5)])


@pytest.mark.needs_extra("torch")
@pytest.mark.parametrize("loss", [pytest.param("kl", marks=[pytest.mark.slow]), "wasserstein"])
def test_a_generator_that_is_told_the_class_learns_each_and_outlives_an_empty_one(loss: str) -> None:
    found = mg.slicing.release(_classes(3000), epsilon=60.0, delta=1e-5)
    generator = mg.slicing.make_generator(found, widths=(16,), noise=4, classes=3)
    course = mg.slicing.Course(steps=150, batch=128, slices=8, k=2, rate=1e-2)
    losses = mg.slicing.train(found, generator, loss=loss, course=course)
    assert np.isfinite(losses).all()
    for label, expected in ((0, 0.2), (1, 0.8)):
        drawn = mg.slicing.sample(found, generator, 400, label=label)
        np.testing.assert_array_equal(drawn[:, :3], np.tile(np.eye(3)[label], (400, 1)))
        assert drawn[:, 3].mean() == pytest.approx(expected, abs=0.12)
    empty = mg.slicing.sample(found, generator, 50, label=2)
    assert (np.isfinite(empty) & (empty >= 0) & (empty <= 1)).all()
    shares = mg.slicing.sample(found, generator, 4000)[:, :3].mean(axis=0)
    np.testing.assert_allclose(shares, [1 / 3, 2 / 3, 0], atol=0.06)


@pytest.mark.needs_extra("torch")
def test_classes_that_there_are_not_are_refused() -> None:
    found = mg.slicing.release(_classes(30), **BUDGET)
    for classes in (-1, 5):
        with pytest.raises(InputError, match="classes"):
            mg.slicing.make_generator(found, classes=classes)
    generator = mg.slicing.make_generator(found, noise=2, classes=3)
    for label in (-1, 3):
        with pytest.raises(InputError, match="label"):
            mg.slicing.sample(found, generator, 4, label=label)
    with pytest.raises(InputError, match="label"):
        mg.slicing.sample(found, mg.slicing.make_generator(found, noise=2), 4, label=0)


@pytest.mark.parametrize("cell", [None, "much", b"1", [], 1j, 10**400, np.datetime64("2024-01-01")])
def test_a_cell_that_is_no_number_ends_no_run(cell: Any) -> None:
    """In an array of objects one cell decides about nothing but itself."""
    rows: Any = np.full((200, 2), 0.5, dtype=object)
    rows[17, 1] = cell
    assert mg.slicing.release(rows, **BUDGET).values.shape == (200, 2)
    read = _check_matrix(rows, None)
    assert np.isfinite(np.delete(read.ravel(), 35)).all()
    assert read[17, 1] == np.inf if cell == 10**400 else np.isnan(read[17, 1])


@pytest.mark.parametrize("cell", [None, "much", b"1"])
def test_a_cell_of_a_list_or_a_frame_is_read_by_itself(cell: Any) -> None:
    rows = [[0.25, 0.5], [0.25, cell], [True, 1]]
    for found in (rows, pd.DataFrame(rows)):
        read = _check_matrix(found, None)
        np.testing.assert_array_equal(read, [[0.25, 0.5], [0.25, np.nan], [1.0, 1.0]])


def test_rows_of_different_lengths_are_refused_in_our_words() -> None:
    with pytest.raises(InputError, match="X must be a matrix of numbers") as found:
        mg.slicing.release([[0.5, 0.5], [0.5]], **BUDGET)
    assert found.value.__context__ is None
