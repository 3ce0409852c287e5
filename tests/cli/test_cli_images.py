"""`margrave images`: a folder of pictures to a table with its schema, and synthetic rows to pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import margrave as mg
from command_line import call, files
from margrave.images import Pixels, read_images, write_images


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    labels = rng.choice(["bar", "dot"], 60).tolist()
    images = rng.integers(0, 60, (60, 6, 4), dtype=np.uint8)
    images[:, :, 2:] = 220
    write_images(tmp_path / "pictures", images, labels)
    (tmp_path / "pictures" / "none").mkdir()
    return tmp_path


def test_from_a_folder_of_pictures_to_one_of_synthetic_ones(folder: Path) -> None:
    table, schema, rows = folder / "table.csv", folder / "schema.json", folder / "rows.csv"
    size = ("--height", 3, "--width", 2, "--levels", 3)
    made = call("images", "tabulate", folder / "pictures", "--out", table, "--schema", schema, *size)
    assert made.code == 0, made.err
    assert "PRIVATE" in made.out
    assert "60" not in made.out  # how many there are is not public
    pixels = Pixels.find(mg.Schema.load(schema))
    assert pixels == Pixels(3, 2, 3, ("bar", "dot", "none"))
    budget = (
        "--epsilon",
        20,
        "--delta",
        "1e-6",
        "--method",
        "independent",
        "--report",
        folder / "report.html",
    )
    done = call("synthesize", table, "--schema", schema, "--out", rows, *budget)
    assert done.code == 0, done.err
    assert "Contact sheet" in (folder / "report.html").read_text(encoding="utf-8")
    drawn = call(
        "images", "draw", rows, "--schema", schema, "--out", folder / "made", "--sheet", folder / "s.png"
    )
    assert drawn.code == 0, drawn.err
    images, labels, _ = read_images(folder / "made")
    assert images.shape[1:] == (3, 2)
    assert set(np.unique(images)) <= {0, 128, 255}
    assert images[:, :, 1].mean() > 150 > 100 > images[:, :, 0].mean()
    with Image.open(folder / "s.png") as sheet:
        assert sheet.size[1] == ((3 + 2) * len(set(labels)) - 2) * 3


def test_their_own_size_is_the_default(folder: Path) -> None:
    table, schema = folder / "table.parquet", folder / "schema.json"
    made = call("images", "tabulate", folder / "pictures", "--out", table, "--schema", schema, "--quiet")
    assert (made.code, made.out, made.err) == (0, "", "")
    assert Pixels.find(mg.Schema.load(schema)) == Pixels(6, 4, 4, ("bar", "dot", "none"))


def test_what_cannot_be_done_is_said_and_nothing_is_written(folder: Path) -> None:
    table, schema = folder / "table.csv", folder / "schema.json"
    before = files(folder)
    for options, word in (
        ((folder / "absent", "--out", table, "--schema", schema), "folder must be one with"),
        ((folder / "pictures", "--out", table, "--schema", schema, "--height", 4), "images must be"),
        ((folder / "pictures", "--out", folder / "table.txt", "--schema", schema), "out must"),
        ((folder / "pictures", "--out", table, "--schema", table), "schema"),
    ):
        done = call("images", "tabulate", *options)
        assert (done.code, word in done.err) == (2, True), done.err
    assert files(folder) == before
    mg.Schema((mg.Categorical(name="a", values=("x", "y"), missing=False),)).save(schema)
    table.write_text("a\nx\n", encoding="utf-8")
    done = call("images", "draw", table, "--schema", schema, "--out", folder / "made")
    assert (done.code, "schema must be one of pictures" in done.err) == (2, True), done.err
    Pixels(6, 4, 4, ("bar",)).schema.save(schema)
    done = call("images", "draw", table, "--schema", schema, "--out", folder / "made")
    assert (done.code, "table must be of the columns" in done.err) == (2, True), done.err
    assert not (folder / "made").exists()
