"""From a raw file with codes, keys and notes to synthetic rows, on the command line."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from command_line import call, write_csv
from margrave.cli.released import column_notes
from margrave.privacy.ledger import ledger as ledgers
from margrave.run.synthesizer import Synthesizer
from seeded_noise import SeededSource

ROWS = 8000


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    stem = np.floor(20 * rng.random(ROWS) ** 3).astype(int) + 10
    rows: list[list[object]] = [["visit_number", "zip", "diagnosis", "note", "died"]]
    for place in range(ROWS):
        code = f"{'EIJK'[rng.integers(4)]}{stem[place]}.{rng.integers(10)}"
        word = f"seen by {rng.integers(1 << 40)} again"
        zipped = f"{1000 + int(900 * rng.random() ** 3):05d}"
        rows.append([f"V{place:06d}-{place % 97:02d}", zipped, code, word, str(bool(rng.random() < 0.01))])
    return write_csv(tmp_path / "visits.csv", rows)


def test_rows_look_as_they_did_and_what_does_not_is_said(
    visits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "SecureSource", lambda: SeededSource(2))
    out = tmp_path / "out.csv"
    done = call(
        "synthesize", visits, "-e", 3, "--method", "independent", "--seed", 1, "-o", out,
        "--report", tmp_path / "r.html", "--release", tmp_path / "r.mrg",
    )  # fmt: skip
    assert done.code == 0
    with open(out, encoding="utf-8", newline="") as file:
        made = list(csv.DictReader(file))
    assert list(made[0]) == ["visit_number", "zip", "diagnosis", "died"]
    assert len({row["visit_number"] for row in made}) == len(made)
    assert all(re.fullmatch("V00[0-9]{4}-[0-9]{2}", row["visit_number"]) for row in made)
    assert all(re.fullmatch("[0-9]{5}", row["zip"]) for row in made)
    assert {row["died"] for row in made} == {"False", "True"}
    assert sum(row["diagnosis"] == "(other)" for row in made) < 0.05 * len(made)
    notes = [line for line in done.out.splitlines() if line.startswith("note: ")]
    assert any("'note' is left out: nearly every row" in line for line in notes)
    assert any("'visit_number' holds new keys of the shape V00" in line for line in notes)
    assert any("'diagnosis'" in line and "beginnings" in line for line in notes)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "left out: nearly every row has a text of its own" in page
    assert "seen by" not in page + done.out
    shown = call("show", tmp_path / "r.mrg").out
    assert "new keys of the shape V00" in shown
    assert "left out, nearly every row" in shown


def test_schema_proposes_on_standard_error(visits: Path) -> None:
    done = call("schema", visits)
    assert done.code == 0
    assert "proposal" not in done.out
    for part in ("'visit_number' may be a key", "'zip'", "'diagnosis'", "'note' may be free text"):
        assert part in done.err


@pytest.mark.filterwarnings("ignore::margrave.errors.NotPrivateWarning")
def test_a_column_of_which_noise_hides_all_is_missing_in_every_row_and_a_note_says_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{rng.integers(5)},{row if row < 15 else ''}," for row in range(4000)]
    (tmp_path / "t.csv").write_text("\n".join(["group,speed,fax", *lines]) + "\n")
    run = Synthesizer("independent", epsilon=1.0, not_private_test_seed=1).fit(tmp_path / "t.csv")
    rows = run.sample(200, rng=1)
    assert rows["speed"].null_count == rows["fax"].null_count == 200
    notes = column_notes(run.release)
    assert all(
        any(f"{name!r} is missing in every row" in note for note in notes) for name in ("speed", "fax")
    )
