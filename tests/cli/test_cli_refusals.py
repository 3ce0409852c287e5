"""Bad input on the command line: one clear line, exit code 2, no private value, nothing written or spent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import call, files, people, write_csv
from margrave.privacy.ledger.journal import read_ledger

CANARY = "Xq7canary"
NUMBER = "918273645"
GOOD = [["id", "a", "n"], *[[f"{CANARY}{i}", CANARY, NUMBER] for i in range(30)]]

Make = Callable[[Path], list[object]]


def refused(folder: Path, *args: object, names: str, code: int = 2) -> str:
    """The one line that a call fails with; nothing else may have happened."""
    before = {name: (folder / name).read_bytes() for name in files(folder) if (folder / name).is_file()}
    done = call(*args)
    after = {name: (folder / name).read_bytes() for name in files(folder) if (folder / name).is_file()}
    assert done.code == code, done
    assert done.out == ""
    assert done.err.startswith("margrave: ")
    assert done.err.count("\n") == 1
    assert done.err.endswith("\n")
    assert "Traceback" not in done.err
    assert names in done.err, done.err
    assert done.err.rstrip().count(". ") + done.err.rstrip().count(" Try ") >= 1, "no remedy"
    for secret in (CANARY, CANARY.lower(), NUMBER):
        assert secret not in done.err.replace(str(folder), "")
    assert after == before
    return done.err


def table(folder: Path, content: bytes | list[list[object]] = GOOD, name: str = "t.csv") -> Path:
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
        return path
    return write_csv(path, content)


def synthesize(data: object, folder: Path, *more: object) -> list[object]:
    return ["synthesize", data, "-e", 1, "-o", folder / "out.csv", "-q", "--method", "independent", *more]


BAD_TABLES: dict[str, tuple[bytes, str]] = {
    "ragged": (f"a,b\n{CANARY},1\n{CANARY}\n".encode(), "data must be a text file in which every row"),
    "long row": (f"a,b\n{CANARY},1,{CANARY}\n".encode(), "data must be a text file in which every row"),
    "header repeats": (f"{CANARY},{CANARY}\n1,2\n".encode(), "data must be headed by distinct names"),
    "header of numbers": (f"{NUMBER},{CANARY}\n1,2\n".encode(), "data must be headed by names"),
    "nameless column": (f"{CANARY},\n1,2\n".encode(), "data must be headed"),
    "not utf-8": (f"a,b\n{CANARY},".encode() + b"\xff\xfe\n", "data must be a text file in UTF-8"),
    "not utf-8 header": (b"\xff\xfea,b\n" + CANARY.encode() + b",2\n", "data must be"),
    "open quote": (f'a,b\n"{CANARY},1\n'.encode(), "data must be a text file in which every quote"),
    "nul": (f"a,b\n{CANARY}\0,1\n".encode() * 2, "data must be"),
    "empty": (b"", "data must be"),
}


IN_ROWS = {"ragged", "long row", "not utf-8", "open quote"}
"""Faults below the header."""


@pytest.mark.parametrize("kind", BAD_TABLES)
def test_broken_text_files(tmp_path: Path, kind: str) -> None:
    content, names = BAD_TABLES[kind]
    data = table(tmp_path, content)
    if kind == "nul":  # a zero byte is a character like another
        assert call(*synthesize(data, tmp_path)).code == 0
        return
    refused(tmp_path, *synthesize(data, tmp_path), names=names)
    if kind not in IN_ROWS:  # a plan and a schema read the header alone
        refused(tmp_path, "plan", data, "-e", 1, names=names)
        refused(tmp_path, "schema", data, "-o", tmp_path / "s.json", names=names)
    good = table(tmp_path, name="good.csv")
    refused(tmp_path, "evaluate", good, data, "--report", tmp_path / "r.html", names=names)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather", ".csv.gz", ".xlsx", ""])
def test_files_that_are_something_else(tmp_path: Path, suffix: str) -> None:
    data = table(tmp_path, f"a,b\n{CANARY},1\n".encode(), f"t{suffix}")
    refused(tmp_path, *synthesize(data, tmp_path), names="data must be")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    refused(tmp_path, *synthesize(tmp_path / "absent.csv", tmp_path), names="data must be")
    refused(tmp_path, *synthesize(tmp_path, tmp_path), names="data must be")
    (tmp_path / "folder.csv").mkdir()
    refused(tmp_path, *synthesize(tmp_path / "folder.csv", tmp_path), names="data must be")


def test_columns_that_cannot_be_released(tmp_path: Path) -> None:
    lists = tmp_path / "t.parquet"
    pq.write_table(pa.table({"day": [[1], [2]], "a": [CANARY, "b"]}), lists)
    refused(tmp_path, *synthesize(lists, tmp_path), names="column 'day' must be")


@pytest.mark.parametrize(
    ("option", "value", "names"),
    [
        ("--epsilon", 0, "epsilon must be a finite number above 0"),
        ("--epsilon", -1, "epsilon must be a finite number above 0"),
        ("--epsilon", "nan", "epsilon must be a finite number above 0"),
        ("--epsilon", "inf", "epsilon must be a finite number above 0"),
        ("--epsilon", "much", "--epsilon"),
        ("--delta", 0, "delta must be"),
        ("--delta", 1, "delta must be"),
        ("--delta", "nan", "delta must be"),
        ("--delta", "tiny", "--delta"),
        ("--method", "magic", "method must be one of"),
        ("--owner", "nobody", "owner must be one of"),
        ("--max-rows", 0, "max_rows must be"),
        ("--max-rows", 2, "max_rows must be 1 when no owner"),
        ("--max-rows", 1.5, "--max-rows"),
        ("--adjacency", "both", "--adjacency"),
        ("--rows", -1, "--rows"),
        ("--seed", -1, "--seed"),
        ("--out", "no/out.csv", "out must be a file in a writable folder"),
        ("--out", "out.xlsx", "out must be a file ending in one of"),
        ("--out", "out", "out must be a file ending in one of"),
        ("--out", "t.csv", "out must be another file than table"),
        ("--out", "x" * 250 + ".csv", "out must be a file in a writable folder"),
        ("--report", "no/report.html", "report must be a file in a writable folder"),
        ("--report", ".", "report must be a file in a writable folder"),
        ("--report", "out.csv", "report must be another file than out"),
        ("--release", "no/a.margrave", "release must be a file in a writable folder"),
        ("--ledger", "no/ledger.jsonl", "ledger must be a file in a writable folder"),
        ("--ledger", "out.csv", "ledger must be another file than out"),
        ("--schema", "absent.json", "schema must be a readable file"),
        ("--schema", ".", "schema must be a readable file"),
        ("--frobnicate", 1, "--frobnicate"),
    ],
)  # fmt: skip
def test_bad_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, value: object, names: str
) -> None:
    monkeypatch.chdir(tmp_path)
    data = table(tmp_path)
    refused(tmp_path, *synthesize(data, tmp_path, "-o", "out.csv", option, value), names=names)


@pytest.mark.parametrize(
    "args", [["synthesize"], ["synthesize", "t.csv"], ["frobnicate"], ["sample"], ["evaluate", "t.csv"]]
)
def test_half_a_command(tmp_path: Path, args: list[object]) -> None:
    refused(tmp_path, *args, names="--help")


def schema_file(folder: Path, columns: object, **more: object) -> Path:
    path = folder / "schema.json"
    path.write_text(json.dumps({"columns": columns, **more}), encoding="utf-8")
    return path


BAD_SCHEMAS: dict[str, tuple[object, str]] = {
    "unknown column": ([{"name": "z", "kind": "integer"}], "schema must be about the table's columns"),
    "no columns": ([], "columns must be one or more"),
    "not a list": (3, "schema must be an object with a list of"),
    "nameless": ([{"kind": "integer"}], "columns must be objects with a 'name'"),
    "unknown kind": ([{"name": "a", "kind": "colour"}], "kind of column 'a' must be one of"),
    "kind is a list": ([{"name": "a", "kind": ["colour"]}], "kind of column 'a' must be one of"),
    "unknown key": ([{"name": "a", "kind": "integer", "colour": 1}], "column 'a' must be made of"),
    "bounds of text": ([{"name": "n", "kind": "integer", "lower": "x", "upper": 2}], "column 'n'"),
    "bounds reversed": ([{"name": "n", "kind": "integer", "lower": 3, "upper": 2}], "column 'n'"),
    "values of nothing": ([{"name": "a", "kind": "categorical", "values": []}], "column 'a'"),
    "value outside": ([{"name": "a", "kind": "categorical", "values": ["x"]}], "column 'a' must be within"),
    "number outside": (
        [{"name": "n", "kind": "integer", "lower": 0, "upper": 9, "missing": False}],
        "column 'n' must be within its declared bounds",
    ),
    "text for a number": (
        [{"name": "a", "kind": "integer", "lower": 0, "upper": 9, "missing": True}],
        "column 'a' must be made of numbers",
    ),
    "missing in quotes": (
        [{"name": "a", "kind": "integer", "missing": "no"}],
        "missing of column 'a' must be",
    ),
    "repeats": ([{"name": "a", "kind": "integer"}] * 2, "columns must be uniquely named"),
}


@pytest.mark.parametrize("kind", BAD_SCHEMAS)
def test_bad_schemas(tmp_path: Path, kind: str) -> None:
    columns, names = BAD_SCHEMAS[kind]
    data, known = table(tmp_path), schema_file(tmp_path, columns)
    refused(tmp_path, *synthesize(data, tmp_path, "--schema", known), names=names)


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"columns": null}', "\ufeffnonsense"])
def test_malformed_schemas(tmp_path: Path, text: str) -> None:
    (tmp_path / "schema.json").write_text(text, encoding="utf-8")
    data = table(tmp_path)
    for args in (synthesize(data, tmp_path), ["plan", data, "-e", 1], ["evaluate", data, data]):
        refused(tmp_path, *args, "--schema", tmp_path / "schema.json", names="must be")


def test_a_newer_schema(tmp_path: Path) -> None:
    known = schema_file(tmp_path, [{"name": "a", "kind": "categorical"}], margrave_schema=99)
    refused(
        tmp_path, *synthesize(table(tmp_path), tmp_path, "--schema", known), names="margrave_schema must be"
    )


def test_gaps(tmp_path: Path) -> None:
    gaps = [*GOOD, ["", CANARY, NUMBER], [CANARY, "", NUMBER]]
    data = table(tmp_path, gaps)
    known = schema_file(
        tmp_path, [{"name": "a", "kind": "categorical", "values": [CANARY], "missing": False}]
    )
    refused(
        tmp_path, *synthesize(data, tmp_path, "--schema", known), names="column 'a' must be without missing"
    )
    refused(
        tmp_path, *synthesize(data, tmp_path, "--owner", "id"), names="owner must be a column without missing"
    )
    # Nothing was spent, so nothing stands in the way of the next try.
    assert call(*synthesize(data, tmp_path)).code == 0
    assert len(read_ledger(tmp_path / "out.csv.ledger.jsonl")[1]) > 0


def test_an_existing_ledger_is_never_overwritten(tmp_path: Path) -> None:
    data = table(tmp_path)
    (tmp_path / "out.csv.ledger.jsonl").write_text("an older ledger\n", encoding="utf-8")
    refused(tmp_path, *synthesize(data, tmp_path), names="ledger must be a file that does not exist yet")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    data = people(folder / "people.csv", 2000)
    done = call(*synthesize(data, folder, "-e", 20, "--missing", "?", "--release", folder / "p.margrave"))
    assert done.code == 0
    return folder / "p.margrave"


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("select", "given must be of the form COLUMN=VALUE"),
        ("nothing=1", "column must be one of"),
        ("select=F", "given['select'] must be a value of the column"),
        ("pay=much", "given['pay'] must be a value of the column"),
        ("pay=1e99", "given['pay'] must be a value of the column"),
        ("select=", "given['select'] must be a value of the column"),
    ],
)
def test_bad_conditions(release: Path, tmp_path: Path, given: str, names: str) -> None:
    refused(tmp_path, "sample", release, "-o", tmp_path / "s.csv", "--given", given, names=names)


def test_damaged_and_newer_releases(release: Path, tmp_path: Path) -> None:
    import zipfile

    whole, path = release.read_bytes(), tmp_path / "r.margrave"
    for broken in (whole[: len(whole) // 2], b"", CANARY.encode(), whole[:300] + b"\0\0\0" + whole[303:]):
        path.write_bytes(broken)
        refused(tmp_path, "sample", path, "-o", tmp_path / "s.csv", names="release file must be")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("release.json", json.dumps({"margrave_release": 99}))
    refused(tmp_path, "sample", path, "-o", tmp_path / "s.csv", names="of version 2 or older, got 99")
    refused(tmp_path, "sample", tmp_path, "-o", tmp_path / "s.csv", names="release file must be")
    refused(tmp_path, "sample", tmp_path / "no", "-o", tmp_path / "s.csv", names="path must be an existing")
    path.write_bytes(whole)
    refused(tmp_path, "sample", path, "-o", tmp_path / "s.xls", names="out must be a file ending in")
    refused(tmp_path, "sample", path, "-o", tmp_path / "no" / "s.csv", names="out must be a file in")
    refused(tmp_path, "sample", path, "-o", tmp_path / "s.csv", "--report", tmp_path, names="report must be")


def test_evaluate_of_tables_that_differ(tmp_path: Path) -> None:
    data = table(tmp_path)
    other = table(tmp_path, [["a", "z"], *[[CANARY, NUMBER]] * 5], "other.csv")
    refused(tmp_path, "evaluate", data, other, "--report", tmp_path / "r.html", names="must be")
    refused(tmp_path, "evaluate", data, data, "--target", "zz", names="target must be one of")
    refused(tmp_path, "evaluate", data, data, "--target", "a", "--test", other, names="must be")
    refused(tmp_path, "evaluate", data, data, "--report", tmp_path / "no" / "r.html", names="report must be")


def test_the_demo_folder_is_a_file(tmp_path: Path) -> None:
    refused(tmp_path, "demo", "--out", table(tmp_path), names="out must be a folder")
    refused(tmp_path, "demo", "--out", tmp_path / "d", "--epsilon", 0, names="epsilon must be")


def test_no_private_value_in_what_is_printed_or_written(tmp_path: Path) -> None:
    """A value that one row alone holds stays in the table, whatever is asked for."""
    data = people(tmp_path / "people.csv", 2000, [CANARY, CANARY, NUMBER, NUMBER])
    out = [tmp_path / name for name in ("out.csv", "r.html", "p.margrave")]
    done = call(
        "synthesize", data, "-e", 1, "--method", "mst", "--missing", "?", "-o", out[0], "--owner", "person",
        "--report", out[1], "--release", out[2],
    )  # fmt: skip
    assert done.code == 0
    plan, schema = call("plan", data, "-e", 1), call("schema", data)
    for text in (done.out, done.err, plan.out, schema.out):
        assert CANARY not in text
        assert NUMBER not in text
    for path in tmp_path.iterdir():
        if path != data:
            assert CANARY.encode() not in path.read_bytes(), path.name
    import zipfile

    with zipfile.ZipFile(out[2]) as archive:
        assert all(CANARY.encode() not in archive.read(name) for name in archive.namelist())


def test_a_failure_nobody_foresaw_shows_neither_message_nor_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import margrave.run.synthesis

    def fail(*args: object, **more: object) -> None:
        raise ZeroDivisionError(CANARY)

    monkeypatch.setattr(margrave.run.synthesis.Synthesis, "sample_arrow", fail)
    done = call(*synthesize(table(tmp_path), tmp_path))
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "unexpected ZeroDivisionError" in done.err
    assert CANARY not in done.err
    assert files(tmp_path) == {"t.csv", "out.csv.ledger.jsonl", "out.csv.ledger.jsonl.answers"}


def test_a_disk_that_fills_up_while_rows_are_written_is_said_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import duckdb

    def fail(*args: object, **options: object) -> None:
        raise duckdb.IOException(f"Could not write file {CANARY}: No space left on device")

    with monkeypatch.context() as full:
        full.setattr(duckdb.DuckDBPyRelation, "write_csv", fail)
        done = call(*synthesize(table(tmp_path), tmp_path))
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "the disk is full" in done.err
    assert "--resume" in done.err
    assert CANARY not in done.err
    assert files(tmp_path) == {"t.csv", "out.csv.ledger.jsonl", "out.csv.ledger.jsonl.answers"}
    assert call(*synthesize(tmp_path / "t.csv", tmp_path, "--resume")).code == 0
    assert "out.csv" in files(tmp_path)


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import margrave.files

    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(margrave.files.os, "replace", fail)
    done = call(*synthesize(table(tmp_path), tmp_path))
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "No space left on device" in done.err
    assert files(tmp_path) == {"t.csv", "out.csv.ledger.jsonl", "out.csv.ledger.jsonl.answers"}
