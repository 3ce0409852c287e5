"""Whose row it is stands in the file as it is written: no argument makes an owner missing, or one of two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pytest

import margrave as mg
from command_line import call
from margrave.engines import opening
from margrave.engines.opening import open_source
from margrave.errors import InputError
from margrave.privacy.ledger.book import Book
from margrave.privacy.unit import Neighbours, Unit
from margrave.run.regressor import Regressor
from margrave.schema.storage.text import TextFormat
from source_values import list_values

HEAD = ("patient", "age", "ill")
CANARY = ("P777", 30, "no")
SCHEMA = mg.Schema(
    (
        mg.Integer(name="age", lower=0, upper=99, bins=10, missing=False),
        mg.Categorical(name="ill", values=("no", "yes"), missing=True),
    )
)
KINDS = ("memory", "streamed", "sheet")


def write(folder: Path, kind: str, *more: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of 300 rows of 50 patients, and some more; every file is streamed where that is asked for."""
    rows = [(f"P{100 + i % 50}", 20 + i % 60, "yes" if i % 3 else "no") for i in range(300)]
    table = [HEAD, *rows, *more]
    if kind == "sheet":
        book = openpyxl.Workbook()
        for row in table:
            book.active.append(row)
        book.save(folder / "people.xlsx")
        return folder / "people.xlsx"
    if kind == "streamed":
        monkeypatch.setattr(opening, "MIN_STREAMED_BYTES", 0)
    lines = [",".join(map(str, row)) for row in table]
    (folder / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "people.csv"


def _synthesizer(path: Path, **options: Any) -> Any:
    run = mg.Synthesizer("independent", unit=Unit("patient", 2), schema=SCHEMA, outside="absorb", **options)
    return run.fit(path)


def _discovering(path: Path, **options: Any) -> Any:
    return mg.Synthesizer("independent", unit="patient", **options).fit(path)


def _regressor(path: Path, **options: Any) -> Any:
    more = {"schema": SCHEMA, "unit": "patient", "outside": "absorb"}
    return Regressor(target="age", **more, **options).fit(path)


def _owner_sizes(path: Path, **options: Any) -> Any:
    return mg.owner_sizes(path, "patient", **options)


RUNS: dict[str, Callable[..., Any]] = {
    "synthesizer": _synthesizer,
    "discovering": _discovering,
    "regressor": _regressor,
    "owner_sizes": _owner_sizes,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("run", RUNS)
def test_no_mark_for_missing_asks_whether_a_person_is_in_the_table(
    run: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Book.create(tmp_path / "steward.book")
    kept.cap("people", 9.0, 1e-6, Neighbours(Unit("patient")))
    for more in ((), (CANARY,)):
        path = write(tmp_path, kind, *more, monkeypatch=monkeypatch)
        options = {"ledger": kept, "dataset": "people", "analyst": "eve"}
        RUNS[run](path, epsilon=0.5, missing=["P777", ""], **options)
    assert [booked.state for booked in kept.runs()] == ["closed"] * 2
    assert not any(one.refused for one in kept.attempts())


def test_the_command_line_asks_nothing_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "memory", CANARY, monkeypatch=monkeypatch)
    out = tmp_path / "out.csv"
    options = ("-e", 1, "--owner", "patient", "--method", "independent", "--missing", "P777", "-o", out)
    assert call("synthesize", path, *options).code == 0
    assert call("owners", path, "-e", 1, "--owner", "patient", "--missing", "P777").code == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("missing", [("",), (), ("x",)])
def test_an_owner_that_is_not_there_is_refused(
    kind: str, missing: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, kind, ("", 30, "no"), monkeypatch=monkeypatch)
    for run in RUNS.values():
        with pytest.raises(InputError, match="owner must be a column without missing values"):
            run(path, epsilon=0.5, missing=missing)


def test_marks_still_mean_missing_in_other_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,n\n?,?\np,1\n", encoding="utf-8")
    source: Any = open_source(tmp_path / "t.csv", missing=("?",), owner="id")[0]
    assert source._table.to_pydict() == {"id": ["?", "p"], "n": [None, "1"]}


FORMATS = {
    "usual": TextFormat(),
    "a prefix": TextFormat(columns={"age": "P1"}),
    "thousands": TextFormat(thousands="_"),
    "days": TextFormat(dates="%d.%m.%Y"),
    "German": TextFormat.for_locale("de", separator=","),
}
OWNERS = ("P12", "12", "1_234", "1234", "1.2.2020", "01.02.2020", "1.234", "2020-02-01")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FORMATS)
def test_no_format_makes_one_owner_of_two(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = [(owner, place, "no") for place, owner in enumerate(OWNERS)]
    path = write(tmp_path, kind, *more, monkeypatch=monkeypatch)
    run = mg.Synthesizer("independent", epsilon=1, unit="patient", text=FORMATS[name], drop=["ill"])
    source, _ = open_source(path, **run._reading)
    assert source.sizes("patient", 9).reveal().tolist() == [len(OWNERS), *[0] * 4, 50, *[0] * 4]
    assert source.bound_owners("patient", 1).rows().reveal().tolist() == [50 + len(OWNERS)]


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_the_reader_itself_takes_owners_as_written(engine: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,n\nP12,1\n12,P12\n", encoding="utf-8")
    text = TextFormat(columns={"id": "P1", "n": "P1"})
    source = open_source(tmp_path / "t.csv", text=text, engine=engine, owner="id")[0]
    assert source.sizes("id", 2).reveal().tolist() == [2, 0, 0]
    assert list_values(source, "n")[0] == ("1", "12")


@pytest.mark.parametrize("example", ["P1", "%d.%m.%Y"])
def test_a_format_of_the_owners_column_is_refused(example: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,n\nP1,1\n", encoding="utf-8")
    text = TextFormat(columns={"id": example})
    words = "format must be of other columns than the owner's"
    with pytest.raises(InputError, match=words):
        mg.Synthesizer("independent", epsilon=1, unit="id", text=text)
    with pytest.raises(InputError, match=words):
        Regressor(target="n", epsilon=1, unit="id", text=text)
    with pytest.raises(InputError, match=words):
        mg.owner_sizes(tmp_path / "t.csv", "id", epsilon=1, text=text)
    mg.Synthesizer("independent", epsilon=1, unit="id", text=TextFormat(columns={"id": "text"}))
