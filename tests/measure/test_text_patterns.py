"""Texts that repeat and have a structure: which fall back to patterns, and what these keep of them."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from margrave import Synthesizer
from margrave.cli.released import column_notes
from margrave.engines.opening import open_source
from margrave.measure.curator import Curator
from margrave.measure.discovery.beginnings import (
    MOST_PLACES,
    choose_uneven,
    count_digits,
    count_signs,
    leave_shapes,
    list_places,
    look_at,
    split_patterns,
    tell_by_beginnings,
)
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.accounting.events import GaussianEvent, PartitionEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours, Unit
from margrave.report.release import page
from margrave.schema.columns import Categorical
from margrave.schema.columns.identifier import keep_letters
from margrave.schema.encode import decode, encode_column
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

ROWS = 20_000
PRESSURE = "[1-9][0-9]{2}/[1-9][0-9]"


def _columns() -> dict[str, list[Any]]:
    rng = np.random.default_rng(8)
    upper = np.clip(rng.normal(135, 15, ROWS), 100, 199).astype(int)
    lower = np.clip(0.6 * upper + rng.normal(0, 6, ROWS), 40, 99).astype(int)
    user, page = rng.integers(0, 4000, ROWS), np.floor(400 * rng.random(ROWS) ** 2).astype(int)
    often = rng.choice(["/cart", "/home", "/search"], ROWS)
    serial = rng.permutation(10**6)[:ROWS]
    return {
        "pressure": [f"{a}/{b}" for a, b in zip(upper, lower, strict=True)],
        "mail": [f"u{number:05d}@example.com" if number % 3 else None for number in user],
        "path": [
            word if first else f"/product/{number + 100}"
            for word, number, first in zip(often, page, rng.random(ROWS) < 0.6, strict=True)
        ],
        "invoice": [f"INV-{2015 + number % 7}-{number % 3000:04d}" for number in serial],
        "phone": [
            "none" if first else f"+49 {number:06d}"
            for number, first in zip(serial, rng.random(ROWS) < 0.2, strict=True)
        ],
        "diagnosis": [f"{'EIK'[n % 3]}{10 + n % 50}.{n % 7}" for n in rng.integers(0, 4000, ROWS)],
    }


def _discover(table: pa.Table, epsilon: float = 5.0) -> tuple[Schema, Ledger, Curator]:
    source, _ = open_source(table)
    whom, delta = Neighbours(Unit(), "add_remove"), Fraction(1, 10**9)
    ledger = Ledger(epsilon=epsilon, delta=1e-8, neighbours=whom, accountant=ZCDP(), partition_delta=delta)
    curator = Curator(source, ledger, SeededSource(2))
    return curator.discover(None, ledger.total / 4), ledger, curator


@pytest.fixture(scope="module")
def columns() -> dict[str, list[Any]]:
    return _columns()


@pytest.fixture(scope="module")
def found(columns: dict[str, list[Any]]) -> tuple[Schema, Ledger, Curator]:
    return _discover(pa.table(columns))


def _column(schema: Schema, name: str) -> Categorical:
    column = schema[name]
    assert isinstance(column, Categorical), column
    return column


def _drawn(found: tuple[Schema, Ledger, Curator], name: str) -> list[Any]:
    """Texts drawn by the released counts of a column alone."""
    column, rng = _column(found[0], name), np.random.default_rng(0)
    counts = next(m for m in found[2].measurements if m.clique == (name,)).values.clip(0)
    codes = rng.choice(len(counts), 5000, p=counts / counts.sum())
    schema = Schema((column,))
    rows = Encoded(schema.domain, (codes.astype(np.uint16),))
    texts: list[Any] = decode(rows, schema, rng)[name].to_pylist()
    return texts


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("pressure", "1[0-9]{2}/[4-9][0-9]"),
        ("mail", r"u0[0-3][0-9]{3}@example\.com"),
        ("path", "/cart|/home|/search|/product/[1-4][0-9]{2}"),
        ("invoice", "INV-20[12][0-9]-[0-2][0-9]{3}"),
        ("phone", r"none|\+49 [0-9]{6}"),
    ],
)
def test_drawn_texts_have_the_whole_pattern(
    found: tuple[Schema, Ledger, Curator], columns: dict[str, list[Any]], name: str, pattern: str
) -> None:
    assert all(re.fullmatch(pattern, text) for text in columns[name] if text is not None)
    drawn = _drawn(found, name)
    held = [text for text in drawn if text is not None]
    assert sum(bool(re.fullmatch(pattern, text)) for text in held) > 0.97 * len(held)
    assert not _column(found[0], name).prefixes
    assert drawn.count(None) / len(drawn) == pytest.approx(columns[name].count(None) / ROWS, abs=0.03)


def test_both_numbers_of_a_compound_keep_their_shares_and_go_together(
    found: tuple[Schema, Ledger, Curator], columns: dict[str, list[Any]]
) -> None:
    real = Counter((text[:2], text[4:5]) for text in columns["pressure"])
    drawn = Counter((text[:2], text[4:5]) for text in _drawn(found, "pressure"))
    off = sum(abs(real[tens] / ROWS - drawn[tens] / drawn.total()) for tens in real | drawn)
    # Tens that were drawn apart from each other would be off by more than a half.
    alone = [Counter(tens[place] for tens in real.elements()) for place in (0, 1)]
    apart = sum(
        abs(real[a, b] / ROWS - alone[0][a] * alone[1][b] / ROWS**2) for a in alone[0] for b in alone[1]
    )
    assert apart > 0.5
    assert off < 0.3


def test_each_text_has_the_code_that_its_count_was_released_for(
    found: tuple[Schema, Ledger, Curator], columns: dict[str, list[Any]]
) -> None:
    for name in ("mail", "path", "pressure"):
        column = _column(found[0], name)
        marginal = next(m for m in found[2].measurements if m.clique == (name,))
        codes = encode_column(pa.array(columns[name]), column)
        truth = np.bincount(codes, minlength=column.size)
        grouped = slice(len(column.values or ()), len(column.values or ()) + column.grouped)
        assert column.patterns
        off = np.abs(marginal.values - truth)[grouped]
        assert (off < 6 * marginal.sigmas[grouped] + 0.02 * ROWS).all()


def test_codes_with_a_point_keep_their_beginnings(found: tuple[Schema, Ledger, Curator]) -> None:
    column = _column(found[0], "diagnosis")
    assert not column.patterns
    assert {"E", "I", "K"} <= {prefix[0] for prefix in column.prefixes}
    assert set(column.endings) == {""}
    asked = {event.what for event in found[1].events}
    assert "patterns of diagnosis" not in asked
    assert "beginnings of diagnosis, 3 letters" in asked


def test_the_looks_stay_within_what_beginnings_would_cost(found: tuple[Schema, Ledger, Curator]) -> None:
    ledger = found[1]
    assert ledger.spent <= ledger.total / 4
    assert sum(e.delta for e in ledger.events if isinstance(e, PartitionEvent)) <= ledger.partition_delta
    rho = {event.what: float(ledger.accountant.cost(event)) for event in ledger.events}
    looks = ("patterns of mail", "digits of mail, place by place", "first digits of mail")
    spent = [rho[what] for what in looks]
    # One search of a half, and two looks of a quarter.
    assert spent[0] == pytest.approx(spent[1] + spent[2], rel=1e-3)
    # As much as the first of two looks at beginnings has.
    assert spent[0] == pytest.approx(rho["beginnings of diagnosis, 3 letters"], rel=1e-3)
    places = next(event for event in ledger.events if event.what == looks[1])
    assert isinstance(places, GaussianEvent)
    assert 1 < places.l2_squared <= MOST_PLACES


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        (r"[A-Z][0-9]{2}\.[0-9]", True),
        (r"[0-9]{3}\.[0-9]{2}", True),
        ("[0-9]{5}", True),
        ("[A-Z][0-9]{2}[A-Z]{2}[0-9]{2}", True),
        ("[A-Z]-[0-9]{5}", True),
        ("[0-9]{3}/[0-9]{2}", False),
        (r"[0-9]{2}\.[0-9]\.[0-9]{2}\.[0-9]", False),
        (r"[a-z][0-9]{5}@[a-z]{7}\.[a-z]{3}", False),
        ("/[a-z]{7}/[0-9]{2}", False),
        ("[a-z]{4}[0-9]{5}", False),
        ("[0-9]{2}[a-z][0-9]{2}[a-z][0-9]{2}", False),
        ("[0-9]{2}[A-Z][0-9]{3}", True),
        (r"[a-z]{3}[0-9]{3}\.[a-z]{3}", False),
    ],
)
def test_which_shapes_beginnings_tell(shape: str, told: bool) -> None:
    assert tell_by_beginnings({shape: 100.0}) is told
    assert tell_by_beginnings({shape: 100.0, "[0-9]/[0-9]": 200.0}) is False


def test_what_patterns_and_values_leave_of_a_shape_stays_where_it_is_evident() -> None:
    shapes = {"/[a-z]{4}/[0-9]": 1000.0, "[A-Z]{2}-[0-9]": 300.0}
    patterns = {"/item/[0-9]": 700.0}
    found = leave_shapes(shapes, 10.0, patterns, 10.0, {"/shop/1": 240.0})
    assert found == {
        "/item/[0-9]": (700.0, 100.0),
        "/[a-z]{4}/[0-9]": (60.0, 300.0),
        "[A-Z]{2}-[0-9]": (300.0, 100.0),
    }
    found = leave_shapes(shapes, 10.0, patterns, 10.0, {"/shop/1": 280.0})
    assert "/[a-z]{4}/[0-9]" not in found


def test_the_digits_of_each_number_are_counted_and_the_first_ones_first() -> None:
    (look,) = list_places([PRESSURE])
    assert look.places == (0, 1, 4, 2, 5)
    (look,) = list_places(["[0-9]{8}-[0-9]{8}"])
    assert len(look.places) == MOST_PLACES
    assert list_places(["[A-Z]{3}"]) == []


def _split(texts: list[str], sigma: float, seed: int = 0) -> dict[str, tuple[float, float]]:
    """What is made of texts of one shape under seeded noise."""
    rng, shape = np.random.default_rng(seed), keep_letters(texts[0])
    rows, counts = [(text, shape, 1) for text in texts], {shape: float(len(texts))}
    places = list_places([shape])
    cells = count_signs(places, rows)
    assert cells.sum() == len(texts) * len(places[0].places)
    spread = sigma * len(places[0].places) ** 0.5
    looks = choose_uneven(counts, places, cells + spread * rng.standard_normal(len(cells)), spread, sigma)
    cells = count_digits(looks, rows)
    assert cells.sum() <= len(texts)
    noisy = cells + sigma * rng.standard_normal(len(cells))
    return split_patterns({shape: (counts[shape], sigma**2)}, looks, noisy, sigma)


def test_what_is_constant_stays_wherever_it_stands() -> None:
    """The first digits are even, the two behind the mark are not."""
    rng = np.random.default_rng(3)
    texts = [
        f"{a}-20{b:03d}" for a, b in zip(rng.integers(10, 99, ROWS), rng.integers(0, 999, ROWS), strict=True)
    ]
    found = _split(texts, 40.0)
    assert list(found) == ["[1-9][0-9]-20[0-9]{3}"]
    assert found["[1-9][0-9]-20[0-9]{3}"][0] == pytest.approx(ROWS)


def test_noise_alone_splits_nothing() -> None:
    rng, split = np.random.default_rng(4), 0
    for seed in range(40):
        texts = [f"{a}/{b}" for a, b in rng.integers(100, 1000, (2000, 2))]
        split += len(_split(texts, 60.0, seed)) > 1
    assert split <= 2


def test_patterns_are_told_where_a_release_is_read(columns: dict[str, list[Any]]) -> None:
    table = pa.table({"pressure": columns["pressure"]}).slice(0, 8000)
    made = Synthesizer("independent", epsilon=3, delta=1e-6, not_private_test_seed=0).fit(table)
    column = _column(made.release.schema, "pressure")
    assert column.patterns
    assert [note for note in column_notes(made.release) if f"{len(column.patterns)} patterns" in note]
    told = str(page._list_values(column))
    assert "by their pattern: " in told
    assert column.patterns[0] in told


def test_digits_that_are_not_looked_at_are_in_no_cell() -> None:
    look = look_at(PRESSURE, (0, 4))
    narrow = type(look)(PRESSURE, (0, 4), ("1", "78"))
    rows = [(text, PRESSURE, 1) for text in ("120/80", "121/79", "133/91", "220/80")]
    assert count_digits([look], rows).sum() == 4
    assert count_digits([narrow], rows).tolist() == [1, 1]
