"""Pictures become rows by their own pixels alone, and come back; files are read and written whole."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import margrave as mg
from margrave.errors import InputError
from margrave.images import Pixels, draw_sheet, encode_png, read_images, write_images

PIXELS = Pixels(4, 5, levels=4, labels=("a", "b", "empty"))


def _images(count: int = 30) -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (count, 8, 10), dtype=np.uint8), list(rng.choice(["a", "b"], count))


def test_a_pixel_is_the_mean_of_its_block_in_even_levels() -> None:
    images, labels = _images()
    table = PIXELS.tabulate(images, labels)
    assert tuple(table.column_names) == tuple(column.name for column in PIXELS.schema.columns)
    share = images[7, 2:4, 6:8].mean() / 255
    assert table["r1c3"][7].as_py() == min(int(share * 4), 3)
    assert table["label"].to_pylist() == labels


def test_pictures_of_whole_levels_come_back_as_they_were() -> None:
    rng = np.random.default_rng(1)
    images = rng.choice(np.array([0, 85, 170, 255], np.uint8), (20, 4, 5))
    back, labels = PIXELS.picture(PIXELS.tabulate(images, ["b"] * 20))
    np.testing.assert_array_equal(back, images)
    assert labels == ["b"] * 20
    frame = PIXELS.tabulate(images, ["b"] * 20).to_pandas()
    np.testing.assert_array_equal(PIXELS.picture(frame)[0], images)


def test_a_row_hangs_on_its_picture_alone() -> None:
    images, labels = _images()
    whole = PIXELS.tabulate(images, labels).to_pylist()
    brighter = images.copy()
    brighter[1:] = 255
    assert PIXELS.tabulate(brighter, labels).to_pylist()[0] == whole[0]
    assert PIXELS.tabulate(images[:1], labels[:1]).to_pylist() == whole[:1]


def test_no_picture_moves_the_levels_of_another_however_floats_lie_in_memory() -> None:
    rng = np.random.default_rng(2)
    pixels = Pixels(1, 1, levels=16, labels=("a",))
    for middle in rng.integers(1, 16, 100) / 16:
        one = rng.uniform(-0.02, 0.02, (1, 8, 8))
        # The mean is that of a border between two levels, but for rounding.
        both = np.concatenate([one - one.mean() + middle, rng.random((1, 8, 8))])
        for lies in (both, np.asfortranarray(both), both.transpose(1, 2, 0).copy().transpose(2, 0, 1)):
            alone = lies[:1].transpose(1, 2, 0).copy().transpose(2, 0, 1)
            level = pixels.tabulate(alone, ["a"])["r0c0"][0]
            assert pixels.tabulate(lies, ["a", "a"])["r0c0"][0] == level


def test_floats_and_whole_numbers_are_one_scale() -> None:
    images, labels = _images()
    assert PIXELS.tabulate(images / 255.0, labels).equals(PIXELS.tabulate(images, labels))


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda x: x[:, :7], "multiples"),
        (lambda x: x[0], "multiples"),
        (lambda x: np.where(x == x.max(), np.nan, x / 255), "none missing"),
        (lambda x: x.astype(int) + 1, "0 to 255"),
        (lambda x: x / 200.0, "0 to 1"),
        (lambda x: x.astype(str), "0 to 255"),
    ],
)
def test_pictures_that_cannot_be_read_are_refused(change: object, names: str) -> None:
    images, labels = _images()
    with pytest.raises(InputError, match=names):
        PIXELS.tabulate(change(images), labels)  # type: ignore[operator]


def test_an_error_about_a_class_does_not_name_it() -> None:
    images, labels = _images()
    with pytest.raises(InputError, match="declared") as caught:
        PIXELS.tabulate(images, [*labels[:-1], "secret"])
    assert "secret" not in str(caught.value)
    with pytest.raises(InputError, match="as many"):
        PIXELS.tabulate(images, labels[1:])


def test_numbers_out_of_range_are_refused() -> None:
    for more in ({"levels": 1}, {"levels": 257}, {"labels": ()}, {"labels": ("a", "a")}, {"height": 0}):
        with pytest.raises(InputError):
            Pixels(**({"height": 2, "width": 2, "levels": 4, "labels": ("a",)} | more))  # type: ignore[arg-type]


def test_a_release_of_pictures_with_an_empty_class_and_one_of_no_picture() -> None:
    """The schema declares all, so that discovery spends nothing; the empty class is drawn by noise, or
    not."""
    small = Pixels(2, 2, levels=3, labels=("a", "b", "empty"))
    images, labels = _images(200)
    for table in (small.tabulate(images, labels), small.tabulate(images[:0], [])):
        made = mg.Synthesizer("independent", epsilon=5.0, delta=1e-5, schema=small.schema).fit(table)
        drawn, named = small.picture(made.sample(50, rng=0))
        assert drawn.shape == (50, 2, 2)
        assert set(named) <= set(small.labels)


def test_a_folder_is_read_as_it_was_written(tmp_path: Path) -> None:
    images, labels = _images()
    write_images(tmp_path / "out", images, labels)
    (tmp_path / "out" / "empty").mkdir()
    back, named, classes = read_images(tmp_path / "out")
    assert classes == ("a", "b", "empty")
    order = np.argsort(labels, kind="stable")
    np.testing.assert_array_equal(back, images[order])
    assert named == [labels[k] for k in order]
    with pytest.raises(InputError, match="empty"):
        write_images(tmp_path / "out", images, labels)
    with pytest.raises(InputError, match="names that folders"):
        write_images(tmp_path / "new", images[:1], ["../x"])


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path / "gone", tmp_path):
        with pytest.raises(InputError, match="folder for each class"):
            read_images(folder)
    write_images(tmp_path / "two", np.zeros((2, 3, 3), np.uint8), ["a", "b"])
    (tmp_path / "two" / "a" / "broken.png").write_bytes(b"no picture at all")
    with pytest.raises(InputError, match="whole and of one size") as caught:
        read_images(tmp_path / "two")
    assert "broken" not in str(caught.value)
    (tmp_path / "two" / "a" / "broken.png").write_bytes(encode_png(np.zeros((4, 3), np.uint8)))
    with pytest.raises(InputError, match="of one size"):
        read_images(tmp_path / "two")


def test_a_sheet_has_a_line_for_each_class(tmp_path: Path) -> None:
    images = np.arange(5, dtype=np.uint8)[:, None, None] * np.ones((1, 3, 4), np.uint8)
    draw_sheet(tmp_path / "s.png", images, ["b", "a", "b", "b", "b"], columns=3, enlarge=2)
    with Image.open(io.BytesIO((tmp_path / "s.png").read_bytes())) as opened:
        sheet = np.asarray(opened)
    assert sheet.shape == ((3 + 2 + 3) * 2, (3 * 4 + 2 * 2) * 2)
    assert sheet[0, 0] == 1  # the line of "a" first
    assert [sheet[10, x] for x in (0, 12, 24)] == [0, 2, 3]
    assert (sheet[:6, 12:] == 255).all()
    with pytest.raises(InputError, match="picture at least"):
        draw_sheet(tmp_path / "t.png", images[:0], [])


def test_pixels_are_found_from_their_own_schema_alone(tmp_path: Path) -> None:
    assert Pixels.find(PIXELS.schema) == PIXELS
    PIXELS.schema.save(tmp_path / "schema.json")
    assert Pixels.find(mg.Schema.load(tmp_path / "schema.json")) == PIXELS
    columns = PIXELS.schema.columns
    for others in (
        columns[:-1],
        columns[1:],
        (columns[-1],),
        (*columns[::-1][1:], columns[-1]),
        (*columns[:3], mg.Integer(name="r0c3", missing=False, lower=0, upper=9, bins=10), *columns[4:]),
        (*columns[:-1], mg.Categorical(name="class", missing=False, values=("a", "b", "empty"))),
        (*columns[:-1], mg.Categorical(name="label", missing=True, values=("a", "b", "empty"))),
    ):
        assert Pixels.find(mg.Schema(others)) is None


@pytest.mark.parametrize("level", [None, "dark"])
def test_a_table_with_other_than_grey_levels_is_refused(level: object) -> None:
    images, labels = _images(3)
    table = PIXELS.tabulate(images, labels)
    table = table.set_column(0, "r0c0", pa.array(["1", level, "2"], pa.string()))
    with pytest.raises(InputError, match="table must be of grey levels"):
        PIXELS.picture(table)
