"""Keys whose beginning says something of the row: which shapes are codes, and what is drawn of them."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from margrave import Synthesizer, load
from margrave.cli.released import column_notes
from margrave.engines.opening import open_source
from margrave.errors import SchemaError
from margrave.measure.curator import Curator
from margrave.measure.discovery.beginnings import MOST_CODED, choose_digits, choose_uneven, list_places
from margrave.measure.discovery.keys import LEAST_APART, MOST_PATTERNS, keep_keys
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours, Unit
from margrave.report.release.record import list_identifiers
from margrave.report.release.usefulness import judge_release
from margrave.schema.columns import Categorical, Identifier
from margrave.schema.encode import encode_column
from margrave.schema.schema import Schema
from margrave.schema.storage.arrow import decode_column
from seeded_noise import SeededSource

ROWS = 12_000
SITES = 12


def _table() -> pa.Table:
    """Policies with the year of their start, and visits of subjects of twelve sites that are alike large."""
    rng = np.random.default_rng(6)
    years, sites = rng.integers(2019, 2023, ROWS), rng.integers(1, SITES + 1, ROWS)
    subjects = rng.integers(0, 2000, ROWS)
    return pa.table(
        {
            "policy": [
                None if number % 10 == 0 else f"POL-{year}-{number:06d}"
                for number, year in zip(rng.permutation(ROWS), years, strict=True)
            ],
            "year": years,
            "subject": [f"S-{site:02d}-{number:04d}" for site, number in zip(sites, subjects, strict=True)],
            "site": [f"Site {site}" for site in sites],
        }
    )


@pytest.fixture(scope="module")
def schema() -> Schema:
    source, _ = open_source(_table())
    whom, delta = Neighbours(Unit(), "add_remove"), Fraction(1, 10**9)
    ledger = Ledger(epsilon=5, delta=1e-8, neighbours=whom, accountant=ZCDP(), partition_delta=delta)
    return Curator(source, ledger, SeededSource(2)).discover(None, ledger.total / 4)


def test_years_of_keys_are_codes_and_missing_ones_stay_missing(schema: Schema) -> None:
    column = schema["policy"]
    assert isinstance(column, Categorical)
    assert (column.unique, column.missing) == (True, True)
    assert column.patterns == tuple(f"POL-{year}-[0-9]{{6}}" for year in range(2019, 2023))


def test_codes_in_front_of_numbers_are_told_however_even_they_are(schema: Schema) -> None:
    column = schema["subject"]
    assert isinstance(column, Categorical)
    assert not column.unique
    assert set(column.patterns) >= {f"S-{site:02d}-[0-1][0-9]{{3}}" for site in range(1, SITES + 1)}


def test_what_keys_say_goes_with_other_columns(tmp_path: Path) -> None:
    made = Synthesizer("mst", epsilon=20, delta=1e-6, not_private_test_seed=0).fit(_table())
    made.save(tmp_path / "r.margrave")
    for synthesis in (made, load(tmp_path / "r.margrave")):
        rows = synthesis.sample_arrow(ROWS, rng=np.random.default_rng(0)).to_pylist()
        held = [row for row in rows if row["policy"] is not None]
        assert np.mean([row["policy"][4:8] == str(row["year"]) for row in held]) > 0.9
        assert np.mean([int(row["subject"][2:4]) == int(row["site"][5:]) for row in rows]) > 0.9
        keys = Counter(row["policy"] for row in held)
        assert max(keys.values()) == 1
        assert 0.8 < len(keys) / ROWS < 0.97
    only = made.sample_arrow(200, given={"year": 2021}, rng=np.random.default_rng(0))["policy"].to_pylist()
    assert np.mean([text[4:8] == "2021" for text in only if text is not None]) > 0.9


def test_keys_that_say_something_are_told_where_a_release_is_read() -> None:
    table = _table().select(["policy"]).append_column("n", [[1, 2] * (ROWS // 2)])
    made = Synthesizer("independent", epsilon=5, delta=1e-6, not_private_test_seed=0).fit(table)
    assert [note for note in column_notes(made.release) if "'policy' holds new keys of 4 patterns" in note]
    assert "policy" in str(list_identifiers(made.release))
    use = judge_release(made.release, None)
    assert use.keys == ()
    assert "policy" in [column.name for column in use.columns]
    assert "4 patterns of new keys" in repr(made.release.schema)


COLUMN = Categorical(name="k", values=(), other="(other)", missing=False, strict=False)


def test_keys_with_one_beginning_stay_without_codes() -> None:
    """What differs are the first digits of a running number, or next to no key has another beginning."""
    assert isinstance(keep_keys(COLUMN, {"V00[0-9]{5}": 500.0, "V01[0-9]{5}": 500.0}), Identifier)
    assert isinstance(keep_keys(COLUMN, {"[0-9a-f]{32}": 1000.0}), Identifier)
    for share, kind in ((LEAST_APART / 2, Identifier), (2 * LEAST_APART, Categorical)):
        assert isinstance(keep_keys(COLUMN, {"A[0-9]{5}": 1 - share, "B[0-9]{5}": share}), kind)


def test_keys_that_some_rows_lack_have_a_code() -> None:
    """Where there is none may go with other columns, as a place does with its coordinates."""
    lacking = dataclasses.replace(COLUMN, missing=True)
    column = keep_keys(lacking, {"[0-9a-f]{32}": 1000.0})
    assert isinstance(column, Categorical)
    assert column.patterns == ("[0-9a-f]{32}",)
    assert column.unique
    drawn = decode_column(np.array([0, 0, column.missing_code]), column, np.random.default_rng(0)).to_pylist()
    assert drawn[2] is None
    assert [len(key) for key in drawn[:2]] == [32, 32]
    # None of the shapes has as many rows as a code needs.
    rare = dataclasses.replace(lacking, rare=0.9)
    assert keep_keys(rare, {"A[0-9]{5}": 10.0, "A[1-9][0-9]{5}": 20.0}).patterns == ("A[1-9][0-9]{5}",)


def test_most_patterns_that_are_codes() -> None:
    shapes = {f"{first}{second}-[0-9]{{6}}": 1000.0 - at for at, (first, second) in enumerate(
        (first, second) for first in "ABCDEFGHIJ" for second in "KLMNOPQRST"
    )}  # fmt: skip
    column = keep_keys(COLUMN, shapes)
    assert isinstance(column, Categorical)
    assert set(column.patterns) == set(list(shapes)[:MOST_PATTERNS])
    assert column.others == list(shapes)[MOST_PATTERNS]
    codes = encode_column(pa.array(["AK-123456", "JT-123456", "nothing"]), column)
    assert codes.tolist() == [column.patterns.index("AK-[0-9]{6}"), MOST_PATTERNS, MOST_PATTERNS]


def test_new_keys_are_of_their_pattern_and_all_their_own() -> None:
    column = Categorical(
        name="k",
        values=("A07",),
        other="(other)",
        missing=True,
        patterns=("A[0-9]{2}", "B[0-9]{3}"),
        others="B[0-9]{3}",
        unique=True,
    )
    codes = np.array([1] * 90 + [2] * 200 + [3] * 100 + [0, 4], dtype=np.uint32)
    texts = decode_column(codes, column, np.random.default_rng(0)).to_pylist()
    assert texts[-2:] == ["A07", None]
    assert len(set(texts)) == len(texts)
    # A hundred texts are enough for ninety keys, of which one value is none.
    assert all(re.fullmatch("A[0-9]{2}", text) for text in texts[:90])
    assert all(re.fullmatch("B[0-9]{3}", text) for text in texts[90:390])


def test_a_schema_says_whether_keys_are_unique() -> None:
    column = Categorical(name="k", values=(), patterns=("A[0-9]{2}", "B[0-9]{2}"), unique=True)
    text = json.dumps(Schema((column,)).to_json())
    assert Schema.from_json(json.loads(text))["k"] == column
    assert "unique" not in json.dumps(Schema((Categorical(name="k", values=("a",)),)).to_json())
    with pytest.raises(SchemaError, match="unique of column"):
        Categorical(name="k", values=("a",), unique=True)


def _noiseless(shape: str, texts: list[str], sigma: float) -> tuple[tuple[int, ...], int]:
    """The places that are looked at next, and how many of them are a code, after a look without noise."""
    looks = list_places([shape])
    counts = [
        sum(text[place] == sign for text in texts)
        for place, signs in zip(looks[0].places, looks[0].signs, strict=True)
        for sign in signs
    ]
    chosen = choose_uneven({shape: float(len(texts))}, looks, np.array(counts, dtype=float), 1.0, sigma)
    return (chosen[0].places, chosen[0].code) if chosen else ((), 0)


def test_codes_are_looked_at_where_they_are_few_and_noise_does_not_hide_them() -> None:
    rng = np.random.default_rng(1)
    texts = [f"{site:02d}-{number:04d}" for site, number in rng.integers((0, 0), (20, 9999), (8000, 2))]
    assert _noiseless("[0-9]{2}-[0-9]{4}", texts, 50.0) == ((0, 1), 2)
    assert _noiseless("[0-9]{2}-[0-9]{4}", texts, 200.0)[1] == 0
    many = [f"{site:02d}-{number:04d}" for site, number in rng.integers((0, 0), (99, 9999), (8000, 2))]
    assert MOST_CODED < 99
    assert _noiseless("[0-9]{2}-[0-9]{4}", many, 1.0)[1] == 0


@pytest.mark.parametrize(
    ("shape", "code"),
    [
        ("POL-[1-9][0-9]{3}-[0-9]{6}", 4),
        ("S-0[0-9]-[0-9]{4}", 1),
        ("V[0-9]{7}-[0-9]{2}", 0),
        ("1[0-9]{2}/[0-9]{2}", 0),
        ("[0-9a-f]{32}", 0),
    ],
)
def test_which_digits_are_a_code(shape: str, code: int) -> None:
    looks = choose_digits({shape: 100_000.0}, 1.0)
    assert sum(look.code for look in looks) == code
