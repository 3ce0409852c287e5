"""Keys with blanks, and keys in which letters and digits are anywhere: made anew, and not left out."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest

from margrave import Synthesizer
from margrave.schema.columns import Categorical, Identifier, Omitted

ROWS = 4_000
LETTERS = np.array(list("ABCDEFGHJKLMNPRSTUVWXYZ"))
SIGNS = np.array([*LETTERS, *"0123456789"])
FORMS = {
    "insurance": r"[A-Z]{2} \d{2} \d{2} \d{2} [A-Z]",
    "licence": r"RBQ \d{4}-\d{4}-\d{2}",
    "plate": r"[A-Z]{1,2}-[A-Z]{1,2} \d{3,4}",
    "vehicle": r"[0-9A-Z]{17}",
    "token": r"[0-9A-Z]{4}-[0-9A-Z]{4}",
    "slug": r"[0-9a-z]{12}",
}


def join(rng: np.random.Generator, signs: np.ndarray, length: int) -> list[str]:
    return ["".join(row) for row in rng.choice(signs, (ROWS, length))]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], pa.Table]:
    """Columns as they were found, and rows."""
    rng = np.random.default_rng(0)
    numbers = [f"{number:08d}" for number in rng.integers(0, 10**8, ROWS)]
    letters, words = (
        join(rng, LETTERS, 5),
        ["SEEN", "FEVER", "AT 3 PM", "FOR 10 DAYS", "NO REVIEW", "B12", "OK"],
    )
    table = {
        "insurance": [
            f"{a[:2]} {n[:2]} {n[2:4]} {n[4:6]} {a[2]}" for a, n in zip(letters, numbers, strict=True)
        ],
        "licence": [f"RBQ {n[:4]}-{n[4:]}-01" for n in numbers],
        "plate": [
            f"{a[: 1 + (n[0] < '3')]}-{a[2 : 3 + (n[1] < '7')]} {n[2:5]}{n[7] if n[6] > '3' else ''}"
            for a, n in zip(letters, numbers, strict=True)
        ],
        "vehicle": [
            f"{maker}{mixed}{n[:6]}"
            for maker, mixed, n in zip(
                rng.choice(["WVWZZZ", "WAUZZZ", "1HGCM8"], ROWS), join(rng, SIGNS, 5), numbers, strict=True
            )
        ],
        "token": [f"{text[:4]}-{text[4:]}" for text in join(rng, SIGNS, 8)],
        "slug": [text.lower() for text in join(rng, SIGNS, 12)],
        "note": [" ".join(rng.choice(words, 6)) + f" {n}" for n in numbers],
    }
    path = tmp_path_factory.mktemp("keys") / "keys.csv"
    csv.write_csv(pa.table(table | {"age": rng.integers(18, 90, ROWS)}), path)
    synthesis = Synthesizer("independent", epsilon=3.0, delta=1e-9, not_private_test_seed=0).fit(path)
    return {column.name: column for column in synthesis.schema.columns}, synthesis.sample_arrow()


@pytest.mark.parametrize("name", FORMS)
def test_keys_come_back_in_their_form(name: str, made: tuple[dict[str, object], pa.Table]) -> None:
    columns, rows = made
    assert isinstance(columns[name], Identifier | Categorical)
    keys = rows[name].to_pylist()
    assert np.mean([re.fullmatch(FORMS[name], key) is not None for key in keys]) > 0.9
    assert len(set(keys)) == len(keys)


def test_notes_in_capitals_stay_out(made: tuple[dict[str, object], pa.Table]) -> None:
    assert isinstance(made[0]["note"], Omitted)


def test_structured_keys_keep_their_structure(tmp_path: Path) -> None:
    """Two letters, two digits, a letter, three digits: not any sign at any place."""
    rng = np.random.default_rng(1)
    codes = [
        f"{a[:2]}{n[:2]}{a[2]}{n[2:5]}"
        for a, n in zip(
            join(rng, LETTERS, 3), [f"{n:05d}" for n in rng.integers(0, 10**5, ROWS)], strict=True
        )
    ]
    csv.write_csv(pa.table({"code": codes, "age": rng.integers(18, 90, ROWS)}), tmp_path / "codes.csv")
    fitted = Synthesizer("independent", epsilon=3.0, delta=1e-9, not_private_test_seed=0).fit(
        tmp_path / "codes.csv"
    )
    keys = fitted.sample_arrow()["code"].to_pylist()
    assert all(re.fullmatch(r"[A-Z]{2}\d{2}[A-Z]\d{3}", key) for key in keys)
    assert "signs of code" not in [event.what for event in fitted.release.events]
