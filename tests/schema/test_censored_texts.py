"""Texts of censored results: which they are, and how a file writes them among missing cells."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from margrave.errors import SchemaError
from margrave.files import write_table
from margrave.schema.columns import Integer, Real
from margrave.schema.encode import decode, encode
from margrave.schema.encoded import Encoded
from margrave.schema.profile import PROFILE, classes
from margrave.schema.schema import Schema
from margrave.schema.storage.censored import CENSORED, CENSORED_VOTES, MARKS, vote_on_censored
from margrave.schema.storage.spelling import SPELLINGS, spellings

TEXTS = {
    "<0.5": "<0.5",
    "< 5": "< 5",
    "<\u00a05": "< 5",
    ">100": ">100",
    "≤2": "≤2",
    ">=65": ">=65",
    "<0,05": "<0,05",
    "> 1,000": "> 1,000",
    "<0.5 mg/l": "<0.5",
    "<5%": "<5",
    "n.d.": "n.d.",
    "< LOD": "< LOD",
    "not detected": "not detected",
    "Don't know": "Don't know",
    "keine Angabe": "keine Angabe",
    ">2419.6": ">2419.6",
    ">24,196": ">24,196",
    "": "",
    " ": "",
    "n/a": "",
}
OTHERS = ("0.5", "<0.12345", "<5-10", "<5 apples", "<-5", "< ", "<b>", "18-24", "5<", "<5 ", "none of these")


@pytest.mark.parametrize(("text", "vote"), TEXTS.items())
def test_a_text_votes_for_its_class(text: str, vote: str) -> None:
    assert CENSORED_VOTES[int(vote_on_censored(pa.array([text]))[0])] == vote


def test_other_texts_vote_for_nothing() -> None:
    assert (vote_on_censored(pa.array(OTHERS)) == -1).all()


def test_no_text_is_on_both_lists_or_twice() -> None:
    assert len(set(CENSORED)) == len(CENSORED)
    assert not set(CENSORED) & set(MARKS)


def test_a_cell_votes_once_and_parts_add_up() -> None:
    texts = [*TEXTS, *OTHERS, None]
    whole = spellings(pa.array(texts), "censored")
    assert whole.shape == (len(SPELLINGS["censored"]),)
    single = [spellings(pa.array([text], pa.string()), "censored") for text in texts]
    assert [int(counts.sum()) for counts in single] == [1] * len(TEXTS) + [0] * len(OTHERS) + [1]
    assert (np.sum(single, axis=0) == whole).all()


def test_the_profile_has_a_class_of_them() -> None:
    found = [PROFILE[place] for place in classes(pa.array(["<0.5", "trace", "n/a", "", "<b>", "5", "$5"]))]
    assert found == ["censored", "censored", "mark", "missing", "text", "whole", "written number"]


def _write(column: Real | Integer, path: Path, rows: int = 4000) -> list[str]:
    """Cells of a file with so many rows, of which three quarters are missing."""
    schema = Schema((column,))
    codes = np.where(np.arange(rows) % 4 == 0, 0, column.present).astype(np.uint8)
    table = decode(Encoded(schema.domain, (codes,)), schema, np.random.default_rng(0))
    assert table[column.name].null_count == 3 * rows // 4
    write_table(table, path)
    with open(path, encoding="utf-8", newline="") as file:
        return [row[0] if row else "" for row in list(csv.reader(file))[1:]]


@pytest.mark.parametrize("mark", ["", "?"])
def test_missing_cells_are_written_in_these_shares(mark: str, tmp_path: Path) -> None:
    censored = (("<0.5", 0.6), (">100", 0.1))
    column = Real(name="x", lower=0, upper=9, bins=3, missing=True, censored=censored, mark=mark)
    cells = _write(column, tmp_path / "a.csv")
    assert set(cells[1::4]) == {"<0.5", ">100", mark}
    shares = [cells.count(text) / 3000 for text in ("<0.5", ">100", mark)]
    assert shares == pytest.approx([0.6, 0.1, 0.3], abs=0.03)
    assert all(0 <= float(cell) <= 9 for cell in cells[::4])
    assert _write(column, tmp_path / "b.csv") == cells


def test_all_missing_cells_of_whole_numbers_may_be_censored(tmp_path: Path) -> None:
    column = Integer(name="n", lower=5, upper=9, missing=True, censored=(("< 5", 1.0),))
    cells = _write(column, tmp_path / "a.csv")
    assert set(cells) <= {"< 5", "5", "6", "7", "8", "9"}
    assert cells.count("< 5") == 3000


def test_they_are_missing_values_and_go_through_json() -> None:
    column = Real(name="x", lower=0, upper=9, bins=3, missing=True, strict=False, censored=(("<0.5", 0.25),))
    schema = Schema.from_json(Schema((column,)).to_json())
    assert schema == Schema((column,))
    assert encode(pa.table({"x": ["<0.5", "4", None]}), schema).column("x").tolist() == [3, 1, 3]


@pytest.mark.parametrize("censored", [("<0.5",), (("<0.5", 1.5),), (("<1", 0.7), (">9", 0.7)), ((3, 0.5),)])
def test_what_is_no_share_is_refused(censored: object) -> None:
    with pytest.raises(SchemaError, match="censored of column 'x'"):
        Real(name="x", censored=censored)  # type: ignore[arg-type]
