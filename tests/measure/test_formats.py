"""Numbers and dates that are written as the world writes them are found and come back so."""

from __future__ import annotations

import csv
import datetime
import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from margrave.engines.memory import open_source
from margrave.evaluation.rows import observed_schema
from margrave.files import write_table
from margrave.measure.curator import Curator
from margrave.measure.discovery.kinds import settle_format
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.run.synthesizer import Synthesizer
from margrave.schema.columns import Boolean, Categorical, Date, Integer, Moment, Real, Relative
from margrave.schema.encode import decode
from margrave.schema.schema import Schema
from margrave.schema.storage.numbers import NUMBER_VOTES

ROWS = 3000
RNG = np.random.default_rng(5)
DAYS = [datetime.date(2020, 1, 1) + datetime.timedelta(int(n)) for n in RNG.integers(0, 900, ROWS)]
AMOUNTS = np.round(np.exp(RNG.normal(7.2, 0.9, ROWS)), 2).tolist()
PEOPLE = np.round(np.exp(RNG.normal(8, 1.5, ROWS))).astype(int).tolist()
PARTS = [f"{n:06d}" for n in RNG.integers(100_000, 999_999, ROWS)]


def german(value: float) -> str:
    """A number with two decimals, as Germany writes it."""
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


CELLS: dict[str, list[str]] = {
    "us": [day.strftime("%m/%d/%Y") for day in DAYS],
    "de": [day.strftime("%d.%m.%Y") for day in DAYS],
    "short": [f"{day.month}/{day.day}/{day:%y}" for day in DAYS],
    "seen": [f"{day:%m/%d/%Y} {n % 12 + 1:02d}:30 {'AP'[n % 2]}M" for n, day in enumerate(DAYS)],
    "dollars": [f"${value:,.2f}" for value in AMOUNTS],
    "euros": [f"{german(value)} €" for value in AMOUNTS],
    "owed": [f"(${value:,.2f})" if n % 3 else f"${value:,.2f}" for n, value in enumerate(AMOUNTS[::-1])],
    "lost": [f"({value:.2f})" if n % 3 == 0 else f"{value:.2f}" for n, value in enumerate(AMOUNTS[::-1])],
    "comma": [f"{value:.1f}".replace(".", ",") for value in AMOUNTS],
    "percent": [f"{n % 101}%" for n in PEOPLE],
    "people": [f"{n:,}" for n in PEOPLE],
    "weight": [f"{n % 400 / 10 + 50:.1f} kg" for n in PEOPLE],
    "insured": [f"€ {n * 1000:,}" for n in PEOPLE],
    "mixed": [f"{n % 40 + 50} kg" if n % 3 else f"{n % 90 + 110} lb" for n in PEOPLE],
    "part": [f"{text[:3]} {text[3:]}" for text in PARTS],
}
FORMATS = {
    "us": (Date, "%m/%d/%Y"),
    "de": (Date, "%d.%m.%Y"),
    "short": (Date, "%-m/%-d/%y"),
    "seen": (Moment, "%m/%d/%Y %p"),
    "dollars": (Real, "$1,234.5"),
    "euros": (Real, "1.234,5 €"),
    "owed": (Real, "($1,234.5)"),
    "lost": (Real, "(1234.5)"),
    "comma": (Real, "1234,5"),
    "percent": (Integer, "1234.5%"),
    "people": (Integer, "1,234.5"),
    "weight": (Real, "1234.5 kg"),
    "insured": (Integer, "€ 1,234.5"),
}


def write(path: Path, cells: dict[str, Sequence[str]] = CELLS) -> Path:
    """A CSV file of the cells."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([list(cells), *zip(*cells.values(), strict=True)])
    return path


def discovered(data: Any, epsilon: float = 20.0) -> Schema:
    """The schema that discovery finds in a table with nothing declared."""
    source, _ = open_source(data)
    ledger = Ledger(
        epsilon=epsilon,
        delta=1e-6,
        neighbours=Neighbours(),
        accountant=ZCDP(),
        partition_delta=Fraction(1, 4_000_000),
    )
    return Curator(source, ledger).discover(None, ledger.total / 2)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Schema:
    return discovered(write(tmp_path_factory.mktemp("formats") / "t.csv"))


@pytest.mark.parametrize("name", FORMATS)
def test_the_format_is_found(found: Schema, name: str) -> None:
    column = found[name]
    own = getattr(column, "own", column)
    assert (type(own), own.format) == FORMATS[name]


def test_noise_in_hundreds_of_classes_makes_no_format() -> None:
    votes = np.zeros((1000, len(NUMBER_VOTES)))
    votes[:, NUMBER_VOTES.index((("", ""), "whole"))] = 4000.0
    noisy = votes + 10.0 * np.random.default_rng(0).standard_normal(votes.shape)
    column = Integer(name="n", format=None, strict=False)
    assert {settle_format(column, one, 10.0, True).format for one in noisy} == {""}


def test_codes_in_groups_of_digits_stay_text(found: Schema) -> None:
    assert not isinstance(found["part"], Integer | Real)


def test_numbers_of_mixed_units_stay_text(found: Schema) -> None:
    """Before units were known, these were text as well; as numbers a third of them would be missing."""
    assert not isinstance(found["mixed"], Integer | Real)


def test_values_come_back_as_they_were_written(tmp_path: Path) -> None:
    names = ["de", "dollars", "owed", "percent", "seen", "weight", "insured"]
    path = write(tmp_path / "t.csv", {name: CELLS[name] for name in names})
    fitted = Synthesizer(epsilon=20, delta=1e-6, method="independent").fit(path)
    out = tmp_path / "out.csv"
    write_table(fitted.sample_arrow(400, rng=1), out, text=fitted.release.text)
    with open(out, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert datetime.datetime.strptime(row["de"], "%d.%m.%Y").year in range(2019, 2024)
        assert datetime.datetime.strptime(row["seen"], "%m/%d/%Y %I:%M %p")
        assert row["dollars"][0] == "$"
        assert row["dollars"][-3] == "."
        assert re.fullmatch(r"\(\$[0-9,]+\.[0-9]{2}\)|\$[0-9,]+\.[0-9]{2}", row["owed"])
        assert 0 <= int(row["percent"].removesuffix("%")) <= 100
        assert 49 < float(re.fullmatch(r"([0-9]+\.[0-9]) kg", row["weight"])[1]) < 91  # type: ignore[index]
        assert re.fullmatch(r"€ [0-9]{1,3}(,[0-9]{3})*", row["insured"])
    assert np.mean([row["owed"][0] == "(" for row in rows]) == pytest.approx(2 / 3, abs=0.15)
    amounts = [float(row["dollars"][1:].replace(",", "")) for row in rows]
    assert np.median(amounts) == pytest.approx(np.median(AMOUNTS), rel=0.2)


def test_frames_of_text_come_back_as_text() -> None:
    frame = pl.DataFrame({name: CELLS[name] for name in ("us", "euros")})
    fitted = Synthesizer(epsilon=20, delta=1e-6, method="independent").fit(frame)
    rows = fitted.sample(50, rng=1)
    assert rows.schema == frame.schema
    assert rows["us"].str.to_date("%m/%d/%Y").is_not_null().all()
    assert rows["euros"].str.contains(r"^[0-9.]+,[0-9]{2} €$").all()


def test_usual_numbers_and_dates_have_no_format() -> None:
    table = pa.table({"day": [str(day) for day in DAYS], "name": [f"n{n % 7}" for n in PEOPLE]})
    found = discovered(table)
    assert isinstance(found["day"], Date)
    assert found["day"].format == ""
    assert isinstance(found["name"], Categorical)


def test_a_comparison_reads_formats_off_the_tables(tmp_path: Path) -> None:
    source, _ = open_source(write(tmp_path / "t.csv"))
    schema = observed_schema(source, source)
    assert {name: (type(schema[name]), schema[name].format) for name in FORMATS} == FORMATS
    read = source.read_as([schema["euros"]])
    assert read.histogram("euros", np.array([0.0, 1e9])).reveal().sum() == ROWS
    assert read.only(["euros"]).histogram("euros", np.array([0.0, 1000.0, 1e9])).reveal()[0] == sum(
        value < 1000 for value in AMOUNTS
    )


def test_formats_survive_a_relation(tmp_path: Path) -> None:
    left = [day + datetime.timedelta(int(n)) for day, n in zip(DAYS, RNG.geometric(0.3, ROWS), strict=True)]
    cells = {"us": CELLS["us"], "left": [day.strftime("%d.%m.%Y") for day in left]}
    path = write(tmp_path / "t.csv", cells)
    source, frame = open_source(path)
    schema = discovered(path)
    codes = source.bind(schema).encoded
    rows = decode(codes, schema, np.random.default_rng(0), frame)
    first = [datetime.datetime.strptime(text, "%m/%d/%Y") for text in rows["us"].to_pylist()]
    last = [datetime.datetime.strptime(text, "%d.%m.%Y") for text in rows["left"].to_pylist()]
    assert np.mean([a <= b for a, b in zip(first, last, strict=True)]) > 0.99


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize(
    "kind", ["memory", "file", pytest.param("backend", marks=pytest.mark.needs_extra("ibis"))]
)
def test_formats_that_are_declared_are_read_by_all_looks(kind: str, bounded: bool, tmp_path: Path) -> None:
    """Before, looks at columns of which nothing else was open read their texts as usual: as no numbers."""
    rows, rng = 4000, np.random.default_rng(1)
    days = [datetime.date(1950, 1, 1) + datetime.timedelta(int(n)) for n in rng.integers(0, 9000, rows)]
    amounts = rng.integers(1000, 90_000, rows)
    cells = {
        "born": [day.strftime("%d.%m.%Y") for day in days],
        "pay": [f"${value:,}.50" for value in amounts],
    }
    data: Any = pa.table(cells)
    if kind == "file":
        data = write(tmp_path / "t.csv", cells)
    if kind == "backend":
        ibis = pytest.importorskip("ibis")
        connection = ibis.duckdb.connect()
        data = connection.create_table("t", data)
    days_between: dict[str, Any] = {"lower": "1950-01-01", "upper": "1979-12-31"}
    pay_between: dict[str, Any] = {"lower": 0, "upper": 100_000}
    declared = Schema(
        (
            Date(name="born", format="%d.%m.%Y", **(days_between if bounded else {})),
            Real(name="pay", format="$1,234.5", **(pay_between if bounded else {})),
        )
    )
    release = Synthesizer("independent", epsilon=5.0, delta=1e-6, schema=declared).fit(data)
    born, pay = release.schema["born"], release.schema["pay"]
    assert (born.missing, pay.missing) == (False, False)
    assert min(born.present, pay.present) > 8
    made = release.sample(2000, rng=0)
    drawn = [datetime.datetime.strptime(text, "%d.%m.%Y").date() for text in made["born"].to_pylist()]
    assert (
        abs(np.median([day.toordinal() for day in drawn]) - np.median([day.toordinal() for day in days]))
        < 400
    )
    found = [float(text.strip("$").replace(",", "")) for text in made["pay"].to_pylist()]
    assert np.median(found) == pytest.approx(np.median(amounts), rel=0.1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("file", "bounded"), [(True, False), (False, False), (True, True)])
def test_formats_of_declared_columns_are_found_where_other_text_is_no_error(
    file: bool, bounded: bool, tmp_path: Path
) -> None:
    """Without bounds, and between bounds that absorb. Before, all came out missing without a word."""
    rows, rng = 4000, np.random.default_rng(1)
    days = [datetime.datetime(1950, 1, 1) + datetime.timedelta(int(n)) for n in rng.integers(0, 9000, rows)]
    amounts = [f"{value:,}" for value in rng.integers(1000, 90_000, rows)]
    written = {"us": "%m/%d/%Y", "german": "%d.%m.%Y", "iso": "%Y-%m-%d", "digits": "%Y%m%d"}
    marks = {"dollars": ("$", ","), "euros": ("", "."), "blanks": ("", " "), "plain": ("", "")}
    cells = {name: [day.strftime(form) for day in days] for name, form in written.items()}
    cells["moment"] = [day.strftime("%d.%m.%Y 08:15") for day in days]
    cells |= {
        name: [sign + text.replace(",", mark) for text in amounts] for name, (sign, mark) in marks.items()
    }
    days_between: dict[str, Any] = {"lower": "1950-01-01", "upper": "1974-12-31", "strict": False}
    pay_between: dict[str, Any] = {"lower": 0, "upper": 100_000, "strict": False}
    kinds = [
        *(Date(name=name, **(days_between if bounded else {})) for name in written),
        Moment(name="moment", **(days_between if bounded else {})),
        *(Integer(name=name, **(pay_between if bounded else {})) for name in marks),
    ]
    data: Any = write(tmp_path / "t.csv", cells) if file else pa.table(cells)
    release = Synthesizer("independent", epsilon=5.0, delta=1e-6, schema=Schema(kinds)).fit(data)
    # What a relation codes has its own bins, and the format, in `own`.
    found = [c.own if isinstance(c, Relative) else c for c in release.schema.columns]
    assert [type(column) for column in found] == [type(column) for column in kinds]
    made = release.sample(1000, rng=0)
    for name, form in {**written, "moment": "%d.%m.%Y %H:%M"}.items():
        drawn = [
            str(text) if isinstance(text, str | int) else text.strftime(form)
            for text in made[name].to_pylist()
        ]
        years = [datetime.datetime.strptime(text, form).year for text in drawn]
        assert abs(float(np.median(years)) - 1962) <= 2
    for name, (sign, mark) in marks.items():
        texts = [str(text) for text in made[name].to_pylist()]
        assert all(text.startswith(sign) for text in texts)
        numbers = [int(text.removeprefix(sign).replace(mark, "") if mark else text) for text in texts]
        assert abs(float(np.median(numbers)) - 45_000) < 5000


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_format_that_is_found_leaves_declared_bins_as_they_are() -> None:
    """Where missing values alone are to be found. Before, the bins were found anew."""
    rng = np.random.default_rng(1)
    amounts = rng.integers(1000, 90_000, 4000)
    days = [datetime.date(1950, 1, 1) + datetime.timedelta(int(n)) for n in rng.integers(0, 9000, 4000)]
    cells = {"pay": [f"${n:,}.50" for n in amounts], "born": [day.strftime("%d.%m.%Y") for day in days]}
    edges = (0.0, 20_000.0, 100_000.0)
    declared = Schema(
        (
            Real(name="pay", edges=edges, strict=False),
            Date(name="born", edges=("1950-01-01", "1960-01-01", "1980-01-01"), strict=False),
        )
    )
    table = pa.table(cells)
    found = Synthesizer("independent", epsilon=5.0, delta=1e-6, schema=declared).fit(table).schema
    assert [column.edges for column in found.columns] == [column.edges for column in declared.columns]
    assert [column.format for column in found.columns] == ["$1,234.5", "%d.%m.%Y"]
    assert [column.missing for column in found.columns] == [False, False]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("declared", [True, False])
def test_text_of_blanks_is_missing_in_dates_numbers_and_truth_values(declared: bool) -> None:
    """As empty cells of files are. Before, a tenth of them made a column one of cut text, or an error."""
    rng = np.random.default_rng(1)
    days = [datetime.date(1950, 1, 1) + datetime.timedelta(int(n)) for n in rng.integers(0, 9000, 4000)]
    cells = {
        "born": [day.isoformat() for day in days],
        "pay": [f"${n:,}" for n in rng.integers(1000, 90_000, 4000)],
        "died": [("True", "False")[n] for n in rng.integers(0, 2, 4000)],
        "town": [("Ulm", "Bonn")[n] for n in rng.integers(0, 2, 4000)],
    }
    absent = rng.random(4000) < 0.1
    for name, blank in (("born", ""), ("pay", " "), ("died", ""), ("town", "")):
        cells[name] = [blank if gone else text for text, gone in zip(cells[name], absent, strict=True)]
    columns = (
        Date(name="born", lower="1950-01-01", upper="1974-12-31", bins=20, missing=True),
        Integer(name="pay", lower=0, upper=100_000, bins=20, format="$1,234.5", missing=True),
        Boolean(name="died", missing=True),
        Categorical(name="town", values=("", "Bonn", "Ulm"), missing=False),
    )
    schema = Schema(columns) if declared else None
    release = Synthesizer("independent", epsilon=5.0, delta=1e-6, schema=schema).fit(pa.table(cells))
    made = release.sample(4000, rng=0)
    assert [c.kind for c in release.schema.columns][1:] == ["integer", "boolean", "categorical"]
    assert release.schema["town"].values == ("", "Bonn", "Ulm")  # an empty text is a value of its own
    for name, gone in (("born", None), ("pay", None), ("died", None), ("town", "")):
        assert np.mean([cell == gone for cell in made[name].to_pylist()]) == pytest.approx(0.1, abs=0.03)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("options", [{}, {"strict": False}, {"lower": 0, "strict": False}])
def test_declared_numbers_are_read_where_undeclared_ones_would_be_codes(
    options: dict[str, Any], tmp_path: Path
) -> None:
    """Thousands parted by blanks look like codes. Before, a declared `Real` ended in an error after it had
    spent."""
    amounts = np.random.default_rng(1).integers(1000, 999_999, 3000)
    path = write(tmp_path / "t.csv", {"x": [f"{n:,}".replace(",", " ") for n in amounts], "y": ["a"] * 3000})
    schema = Schema((Real(name="x", **options), Categorical(name="y", values=("a",), missing=False)))
    release = Synthesizer("independent", epsilon=5.0, delta=1e-6, schema=schema).fit(path)
    made = [int(str(text).replace(" ", "")) for text in release.sample(2000, rng=0)["x"].to_pylist()]
    assert np.median(made) == pytest.approx(np.median(amounts), rel=0.1)
