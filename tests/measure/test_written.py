"""Numbers, truth values and missing marks come back written as most cells of their column came."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from margrave.errors import SchemaError
from margrave.files import write_table
from margrave.privacy.ledger import ledger as ledgers
from margrave.run.synthesis import Synthesis
from margrave.run.synthesizer import Synthesizer
from margrave.schema.columns import Boolean, Integer, Real
from margrave.schema.schema import Schema
from margrave.schema.storage.spelling import SPELLINGS, spell_numbers, spellings
from seeded_noise import SeededSource

ROWS = 6000
RNG = np.random.default_rng(5)
CENTS = RNG.integers(100, 90_000, ROWS) / 100
CELLS = {
    "accounts": [f"{number}.0" for number in RNG.integers(0, 30, ROWS)],
    "price": [f"{value:.2f}" for value in CENTS],
    "short": [f"{value:g}" for value in np.round(CENTS[::-1] / 100, 1)],
    "plain": [str(number) for number in RNG.integers(0, 40, ROWS)],
    "gaps": [str(n) if n % 5 else "?" for n in RNG.integers(0, 40, ROWS)],
    "holes": [str(n) if n % 5 else "" for n in RNG.integers(0, 40, ROWS)],
    "sold": np.where(RNG.random(ROWS) < 0.2, "TRUE", "FALSE").tolist(),
    "crp": [
        "<0.5" if n < 12 else ">100" if n > 97 else "" if n == 50 else f"{value:.1f}"
        for n, value in zip(RNG.integers(0, 100, ROWS), CENTS / 100, strict=True)
    ],
    "lab": [
        "< 0,5 mg/l" if n < 12 else "n.d." if n < 20 else f"{value:.2f} mg/l".replace(".", ",")
        for n, value in zip(RNG.integers(0, 100, ROWS), CENTS / 100, strict=True)
    ],
    "length": [f"{n // 60}:{n % 60:02d}:{n % 7:02d}" for n in RNG.integers(5, 700, ROWS)],
    "day": [f"2024-01-{n:02d}" if n < 29 else "NULL" for n in RNG.integers(1, 32, ROWS)],
}
FORMS = {
    "accounts": r"\d+\.0",
    "price": r"\d+\.\d\d",
    "short": r"\d+(\.[1-9])?",
    "plain": r"\d+",
    "gaps": r"\d+|\?",
    "holes": r"\d*",
    "sold": "TRUE|FALSE",
    "crp": r"(\d+\.\d)?|<0\.5|>100",
    "lab": r"\d+,\d\d mg/l|< 0,5 mg/l|n\.d\.",
    "length": r"(\d|1[01]):[0-5]\d:[0-5]\d",
    "day": r"\d{4}-\d\d-\d\d|NULL",
}


def _file(path: Path, cells: dict[str, list[str]]) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([list(cells), *zip(*cells.values(), strict=True)])
    return path


def _read(path: Path) -> dict[str, list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    path = _file(tmp_path_factory.mktemp("written") / "in.csv", CELLS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledgers, "SecureSource", lambda: SeededSource(3))
        return Synthesizer("independent", epsilon=20.0).fit(path)


@pytest.mark.parametrize("name", FORMS)
def test_cells_come_back_as_most_of_them_came(release: Synthesis, name: str, tmp_path: Path) -> None:
    write_table(release.sample_arrow(3000, rng=1), tmp_path / "out.csv", text=release.release.text)
    made = _read(tmp_path / "out.csv")[name]
    odd = [text for text in made if not re.fullmatch(FORMS[name], text)]
    assert odd == []
    if name in ("gaps", "holes", "day"):
        mark = {"gaps": "?", "holes": "", "day": "NULL"}[name]
        share = CELLS[name].count(mark) / ROWS
        assert abs(made.count(mark) / 3000 - share) < 0.05


@pytest.mark.parametrize("text", ["<0.5", ">100", ""])
def test_censored_results_come_back_as_often_as_they_came(
    release: Synthesis, text: str, tmp_path: Path
) -> None:
    """Before, all of these cells were empty."""
    write_table(release.sample_arrow(3000, rng=1), tmp_path / "out.csv", text=release.release.text)
    share = CELLS["crp"].count(text) / ROWS
    made = _read(tmp_path / "out.csv")
    assert abs(made["crp"].count(text) / 3000 - share) < 0.03
    assert 0.05 < made["lab"].count("n.d.") / 3000 < 0.11


def test_only_what_is_open_is_asked(release: Synthesis) -> None:
    asked = {event.what for event in release.release.events}
    assert {"spelling of price", "spelling of accounts", "marks of gaps", "marks of day"} <= asked
    censored = {what for what in asked if what.startswith("censored")}
    assert censored == {"censored results of crp", "censored results of lab"}
    assert not asked & {"spelling of plain", "marks of plain", "marks of holes", "spelling of sold"}


def test_typed_storage_has_no_spelling() -> None:
    table = pa.table({"x": CENTS, "b": RNG.random(ROWS) < 0.5})
    release = Synthesizer("independent", epsilon=5.0).fit(table)
    assert not any("spelling" in event.what for event in release.release.events)
    assert release.sample_arrow(3, rng=0).schema.field("x").metadata is None


def test_declared_spellings_cost_nothing(tmp_path: Path) -> None:
    path = _file(tmp_path / "in.csv", {name: CELLS[name] for name in ("price", "sold", "gaps")})
    schema = Schema(
        (
            Real(name="price", lower=0, upper=1000, missing=False, spelling="0.000"),
            Boolean(name="sold", missing=False, spelling="TRUE"),
            Integer(name="gaps", lower=0, upper=39, missing=True, strict=False, mark="n/a"),
        )
    )
    release = Synthesizer("independent", epsilon=20.0, schema=schema).fit(path)
    assert not any("spelling" in event.what or "mark" in event.what for event in release.release.events)
    write_table(release.sample_arrow(500, rng=1), tmp_path / "out.csv")
    made = _read(tmp_path / "out.csv")
    assert all(re.fullmatch(r"\d+\.\d{3}", text) for text in made["price"])
    assert set(made["sold"]) == {"TRUE", "FALSE"}
    assert "n/a" in made["gaps"]
    assert "" not in made["gaps"]


def test_a_cell_votes_for_one_spelling() -> None:
    texts = ["12", "-3", "1.5", "2.50", "1e5", ".25", "3.", "x", "0.1234567890", None, "NA", "?", "1e999"]
    votes = spellings(pa.array(texts), "number")
    assert dict(zip(SPELLINGS["number"], votes.tolist(), strict=True)) == {
        **dict.fromkeys(SPELLINGS["number"], 0),
        "0": 3,
        "0.0": 1,
        "0.00": 2,
        "": 2,
    }
    marks = spellings(pa.array(texts), "mark")
    assert [SPELLINGS["mark"][place] for place in np.flatnonzero(marks)] == ["NA", "?"]
    parts = [spellings(pa.array(texts[:5]), "number"), spellings(pa.array(texts[5:]), "number")]
    assert (parts[0] + parts[1] == votes).all()


def test_numbers_are_spelt() -> None:
    values = pa.chunked_array([[1.0, 2.345, None], [-0.001]])
    assert spell_numbers(values, "0.00").to_pylist() == ["1.00", "2.35", None, "0.00"]
    assert spell_numbers(values, "0").to_pylist() == ["1", "2", None, "0"]
    assert spell_numbers(values, "0.####").to_pylist() == ["1", "2.345", None, "-0.001"]
    assert spell_numbers(values, "0.0##").to_pylist() == ["1.0", "2.345", None, "-0.001"]
    assert spell_numbers(pa.array([7, None]), "0.0").to_pylist() == ["7.0", None]
    assert spell_numbers(pa.array([0.0, 1e5, 1 / 3, None]), "0.*").to_pylist() == [
        "0",
        "100000",
        "0.3333333333333333",
        None,
    ]


@pytest.mark.parametrize("spelling", ["0,00", "0.", "0.#0", "0.0000000000", "00"])
def test_spellings_of_numbers_are_checked(spelling: str) -> None:
    with pytest.raises(SchemaError, match="spelling"):
        Real(name="x", spelling=spelling)
    assert Real(name="x", spelling="0.0##").spelling == "0.0##"
    assert Real(name="x", spelling="0.*").spelling == "0.*"
