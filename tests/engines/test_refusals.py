"""Bad input gets one clear error, and nothing of the rows is in it or in what it is chained to."""

from __future__ import annotations

import gzip
import traceback
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from margrave.engines import opening
from margrave.engines.memory import MemorySource, open_source
from margrave.errors import InputError, SchemaError
from margrave.schema.columns import Boolean, Categorical, Column, Integer, Real, Unknown
from margrave.schema.schema import Schema

CANARY = "CANARY"
NUMBER = 987654321


def refusal(act: Callable[[], Any], kind: type[Exception] = InputError) -> str:
    """The message of the error that act must raise, after looking for the canaries along its whole chain."""
    with pytest.raises(kind) as caught:
        act()
    error: BaseException | None = caught.value
    shown = "".join(traceback.format_exception(caught.value))
    while error is not None:
        shown += f"{error!s} {error!r} {error.args!r}"
        error = error.__cause__ or error.__context__
    assert CANARY not in shown
    assert str(NUMBER) not in shown
    return str(caught.value)


TEXTS = {
    "ragged short": ("a,b\n1,2\nCANARY\n", "every row has the header's 2 cells"),
    "ragged long": ("a,b\n1,2\nCANARY,3,4\n", "every row has the header's 2 cells"),
    "unclosed quote": ('a,b\n1,2\n"CANARY,3\n4,5\n', "every quote is closed"),
    "text after quote": ('a,b\n1,"CANARY"x\n', "every quote is closed"),
    "quote behind blanks": ('a,b\n1, "CANARY, 2"\n', "opens right behind a separator"),
    "header unclosed": ('a,"CANARY\n1,2\n', "every quote is closed"),
    "no header": ("CANARY,987654321\nx,2\n", "names, not by numbers"),
    "repeated header": ("CANARY,b,CANARY\n1,2,3\n", "distinct names"),
    "empty name": ("CANARY,,c\n1,2,3\n", "names every column"),
    "blank first line": ("\na,CANARY\n1,2\n", "names every column"),
    "empty file": ("", "names every column"),
}


@pytest.mark.parametrize("case", list(TEXTS))
@pytest.mark.parametrize("packed", [False, True])
def test_broken_text_file(case: str, packed: bool, tmp_path: Path) -> None:
    content, message = TEXTS[case]
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    assert message in refusal(lambda: open_source(path))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "latin.csv",
            b"a,b\n1,CANARY\xe9\n",
            "a text file in UTF-8. Check that the file is complete; if it is in another encoding",
        ),
        (
            "header.csv",
            b"a,CANARY\xe9\n1,2\n",
            "a text file whose first line is in utf-8. Try --encoding cp1252",
        ),
        ("utf16.csv", "a,b\n1,CANARY\n".encode("utf-16-le"), "Try --encoding utf-16-le"),
        ("half.csv", "a,b\n1,CANARY\n".encode("utf-16")[:-1], "a text file in utf-16"),
        ("t.csv.gz", b"a,b\n1,CANARY\n", "a readable text file"),
        ("cut.csv.gz", gzip.compress(b"a,b\n" + b"1,CANARY\n" * 9999)[:-30], "complete"),
        ("t.parquet", b"PAR1 CANARY", "a readable Parquet file"),
        ("t.arrow", b"ARROW1 CANARY", "a readable Arrow file"),
        ("t.feather", b"", "a readable Arrow file"),
        ("t.xls", b"CANARY", "a .csv, .csv.gz, .tsv, .xlsx, .parquet"),
        ("t", b"CANARY", "a .csv, .csv.gz, .tsv, .xlsx, .parquet"),
    ],
)
def test_broken_file(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert message in refusal(lambda: open_source(tmp_path / name))


def test_missing_file(tmp_path: Path) -> None:
    assert "Check the path" in refusal(lambda: open_source(tmp_path / "none.csv"))
    assert "Check the path" in refusal(lambda: open_source(tmp_path))
    assert "Check the path" in refusal(lambda: open_source("https://example.org/t.csv"))
    assert "a list of texts" in refusal(lambda: open_source(tmp_path / "none.csv", missing="?"))


class Wordy:
    """An object whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError(CANARY)

    __repr__ = __str__


SPAN = pa.MonthDayNano([1, 15, 987_654_321])
FRAMES: dict[str, tuple[Callable[[], Any], str]] = {
    "pandas months": (lambda: pd.DataFrame({"d": pd.period_range("2024-05", periods=1)}), "column 'd' must"),
    "pandas bytes": (lambda: pd.DataFrame({"d": [b"CANARY", "x"]}), "column 'd' must be text, not bytes"),
    "pandas surrogate": (
        lambda: pd.DataFrame({"d": ["CANARY\ud800", 1]}),
        "column 'd' must be text in valid",
    ),
    "pandas signalling": (
        lambda: pd.DataFrame({"d": [Decimal("sNaN"), Decimal(NUMBER)]}, dtype=object),
        "column 'd' must be text in valid",
    ),
    "pandas long number": (
        lambda: pd.DataFrame({"d": [10**5000 + NUMBER, "x"]}, dtype=object),
        "column 'd' must be text in valid",
    ),
    "pandas objects": (
        lambda: pd.DataFrame({"d": pd.Series([Wordy(), "x"], dtype=object)}),
        "column 'd' must be text in valid",
    ),
    "pandas categories": (
        lambda: pd.DataFrame({"d": pd.Categorical.from_codes([0], [Wordy()])}),
        "column 'd' must be text in valid",
    ),
    "pandas complex": (lambda: pd.DataFrame({"d": [987654321j]}), "column 'd' must be made of numbers"),
    "pandas repeat": (lambda: pd.DataFrame([[1, 2]], columns=["d", "d"]), "column names must be distinct"),
    "pandas numbered": (lambda: pd.DataFrame([[1, 2]], columns=[1.5, None]), "column names must be texts"),
    "pandas nothing": (pd.DataFrame, "one column or more"),
    "polars objects": (lambda: pl.DataFrame({"d": [object()]}), "column 'd' must be made of numbers"),
    "polars lists": (lambda: pl.DataFrame({"d": [["CANARY"]]}), "column 'd' must be made of numbers"),
    "polars bytes": (lambda: pl.DataFrame({"d": [b"CANARY"]}), "column 'd' must be made of numbers"),
    "polars lazy": (lambda: pl.LazyFrame({"d": ["CANARY"]}), "Collect a lazy frame first"),
    "polars series": (lambda: pl.Series(["CANARY"]), "a pandas, polars or Arrow table in memory"),
    "arrow intervals": (lambda: pa.table({"d": pa.array([SPAN])}), "column 'd' must be made of numbers"),
    "arrow structs": (lambda: pa.table({"d": [{"x": CANARY}]}), "column 'd' must be made of numbers"),
    "arrow repeat": (lambda: pa.table([[1], [2]], names=["d", "d"]), "column names must be distinct"),
    "arrow no UTF-8": (
        lambda: pa.table({"d": pa.array([b"CANARY\xff"]).view(pa.string())}),
        "column 'd' must be text in valid Unicode",
    ),
    "list of rows": (lambda: [{"d": CANARY}], "a pandas, polars or Arrow table in memory"),
    "array": (lambda: np.array([[NUMBER]]), "a pandas, polars or Arrow table in memory"),
    "nothing": (lambda: None, "a pandas, polars or Arrow table in memory"),
}


@pytest.mark.parametrize("case", list(FRAMES))
def test_unusable_frame(case: str) -> None:
    make, message = FRAMES[case]
    assert message in refusal(lambda: open_source(make()))


def test_parquet_with_lists(tmp_path: Path) -> None:
    pq.write_table(pa.table({"d": pa.array([[NUMBER]])}), tmp_path / "t.parquet")
    assert "column 'd' must be made of numbers" in refusal(lambda: open_source(tmp_path / "t.parquet"))


@pytest.fixture
def source() -> MemorySource:
    table = {
        "t": ["CANARY", "x", None],
        "n": [NUMBER, 1, 2],
        "r": [0.5, NUMBER, None],
        "b": ["yes", "no", "no"],
    }
    return open_source(pa.table(table))[0]


REST = {
    "t": Categorical(name="t", values=("x",), other="rest", missing=True),
    "n": Integer(name="n", lower=0, upper=10**9, missing=False),
    "r": Real(name="r", lower=0, upper=1e9, missing=True),
    "b": Categorical(name="b", values=("yes", "no"), missing=False),
}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (Categorical(name="t", values=("x",), missing=True), "column 't' must be within its declared values"),
        (Categorical(name="t", values=("x", CANARY), missing=False), "column 't' must be without missing"),
        (Integer(name="t", lower=0, upper=1, missing=True), "column 't' must be made of numbers"),
        (Integer(name="n", lower=0, upper=9, missing=True), "column 'n' must be within its declared bounds"),
        (Real(name="r", lower=1, upper=1e9, missing=True), "column 'r' must be within its declared bounds"),
        (Real(name="r", lower=0, upper=1e9, missing=False), "column 'r' must be without missing values"),
        (Integer(name="r", lower=0, upper=10**9, missing=True), "column 'r' must be made of whole numbers"),
        (Boolean(name="b", missing=False), "column 'b' must be within its declared values"),
    ],
)
def test_outside_the_declaration(source: MemorySource, column: Column, message: str) -> None:
    columns = [column if name == column.name else other for name, other in REST.items()]
    if CANARY in getattr(column, "values", ()):  # the caller typed it, so it may show elsewhere
        with pytest.raises(InputError, match=message):
            source.bind(Schema(tuple(columns)))
        return
    assert message in refusal(lambda: source.bind(Schema(tuple(columns))))


def test_schema_of_another_table(source: MemorySource) -> None:
    assert "lacks ['b']" in refusal(lambda: source.bind(Schema(tuple(REST.values())[:3])))
    more = (*REST.values(), Boolean(name="z", missing=False))
    assert "got ['z']" in refusal(lambda: source.bind(Schema(more)))
    unknown = (Unknown(name="t"), *tuple(REST.values())[1:])
    assert "known" in refusal(lambda: source.bind(Schema(unknown)), SchemaError)


def test_owner(source: MemorySource) -> None:
    assert "owner must be a column without missing" in refusal(lambda: source.bound_owners("t", 1))
    assert "owner must be a column without missing" in refusal(lambda: source.bound_owners("r", 1))
    assert "owner must be one of" in refusal(lambda: source.bound_owners("id", 1))
    assert "max_rows must be at least 1" in refusal(lambda: source.bound_owners("n", 0))
    assert "beside another" in refusal(lambda: open_source(pa.table({"n": [1]}))[0].bound_owners("n", 1))


def test_questions(source: MemorySource) -> None:
    assert "column must be one of" in refusal(lambda: source.kinds("z"))
    for edges in ([0.0], [1.0, 0.0], [0.0, 0.0], [0.0, np.nan]):
        assert "edges must be increasing" in refusal(
            lambda edges=edges: source.histogram("n", np.array(edges))
        )
    engine = source.bind(Schema(tuple(REST.values())))
    assert "distinct names" in refusal(lambda: engine.count([("t", "t")]), SchemaError)
    assert "clique must be made of" in refusal(lambda: engine.count([("z",)]), SchemaError)


@pytest.mark.parametrize("name", ["wave.dta", "wave.sav", "wave.sas7bdat"])
def test_files_of_statistics_packages_are_refused_with_the_way_to_read_them(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(b"<stata_dta>")
    with pytest.raises(InputError, match=r"with pandas \(read_stata, read_spss, read_sas\)"):
        opening.open_source(tmp_path / name)
