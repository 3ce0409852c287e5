"""The command line when all is well: every command, every format, what is printed and what is written."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
import typer.main

import margrave as mg
import margrave.cli
from command_line import call, files, people, write_csv
from margrave.cli.app import app
from margrave.methods import METHODS
from margrave.privacy.ledger.journal import read_ledger

SIZE = 'my "größe", cm'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, its synthetic rows, release, report and ledger, made by one command."""
    folder = tmp_path_factory.mktemp("cli")
    people(folder / "people.csv")
    done = call(
        "synthesize", folder / "people.csv", "--epsilon", 20, "--delta", "1e-6", "--method", "mst",
        "--owner", "person", "--max-rows", 2, "--missing", "?", "--out", folder / "out.csv",
        "--report", folder / "report.html", "--release", folder / "people.margrave", "--seed", 1,
    )  # fmt: skip
    assert (done.code, done.err.count("Traceback")) == (0, 0)
    (folder / "printed").write_text(done.out, encoding="utf-8")
    return folder


def rows_of(path: Path, delimiter: str = ",") -> list[list[str]]:
    opened: Any = gzip.open if path.name.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter=delimiter))


def test_synthesize_writes_all_it_was_asked_for(folder: Path) -> None:
    header, *rows = rows_of(folder / "out.csv")
    assert header == ["select", SIZE, "pay"]
    assert abs(len(rows) - 3000) < 200
    assert {row[0] for row in rows} <= {"Ä'\"x", "M, or so", "(other)"}
    assert 0.2 < sum(row[2] == "?" for row in rows) / len(rows) < 0.4
    assert "" not in {row[2] for row in rows}
    # Noise may add a thin tail of a range that is not declared, once in some dozens of runs.
    assert sum(18 - 5 <= int(row[1]) <= 80 + 5 for row in rows) > 0.95 * len(rows)
    _, events = read_ledger(folder / "out.csv.ledger.jsonl")
    loaded = mg.load(folder / "people.margrave")
    assert events == loaded.release.events
    assert loaded.guarantee.neighbours.unit == mg.Unit("person", 2)
    printed = (folder / "printed").read_text(encoding="utf-8")
    assert str(loaded.guarantee) in printed
    assert "<html" in (folder / "report.html").read_text(encoding="utf-8")
    for name in ("out.csv", "out.csv.ledger.jsonl", "people.margrave", "report.html"):
        assert str(folder / name) in printed
    assert not [name for name in files(folder) if name.startswith(".")]


def test_a_missing_text_makes_the_round_trip(folder: Path, tmp_path: Path) -> None:
    done = call(
        "synthesize", folder / "out.csv", "-e", 20, "--method", "mst", "--missing", "?",
        "-o", tmp_path / "again.csv", "-q",
    )  # fmt: skip
    assert done.code == 0
    pay = [row[2] for row in rows_of(tmp_path / "again.csv")[1:]]
    assert 0.2 < pay.count("?") / len(pay) < 0.4
    assert all(text == "?" or float(text) > 0 for text in pay)


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".parquet", ".arrow", ".feather"])
def test_every_output_format_reads_back(folder: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"rows{suffix}"
    done = call("sample", folder / "people.margrave", "-o", out, "--rows", 200, "--seed", 3, "--missing", "?")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{out}: 200 synthetic rows, 3 columns; nothing was spent\n"
    if suffix in (".csv", ".csv.gz", ".tsv"):
        header, *rows = rows_of(out, "\t" if suffix == ".tsv" else ",")
        assert len(rows) == 200
        assert {len(row) for row in rows} == {3}
        assert "?" in {row[2] for row in rows}
    else:
        table = pq.read_table(out) if suffix == ".parquet" else feather.read_table(out)
        header = table.column_names
        assert table.num_rows == 200
        assert pa.types.is_integer(table.schema.field(SIZE).type)
        assert pa.types.is_floating(table.schema.field("pay").type)
        assert table["pay"].null_count > 0
    assert header == ["select", SIZE, "pay"]
    again = call("evaluate", folder / "out.csv", out, "--missing", "?", "--json")
    assert again.code == 0
    assert json.loads(again.out)


def test_sample_is_reproducible_and_conditions_exactly(folder: Path, tmp_path: Path) -> None:
    release, given = folder / "people.margrave", ["--given", "select=M, or so", "--given", f"{SIZE}=40"]
    for name in ("a.csv", "b.csv"):
        done = call("sample", release, "-o", tmp_path / name, "--rows", 50, "--seed", 7, *given)
        assert done.code == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    rows = rows_of(tmp_path / "a.csv")[1:]
    assert {(row[0], row[1]) for row in rows} == {("M, or so", "40")}
    gone = call("sample", release, "-o", tmp_path / "c.csv", "--given", "pay=", "--rows", 20)
    assert gone.code == 0
    assert {row[2] for row in rows_of(tmp_path / "c.csv")[1:]} == {""}
    none = call("sample", release, "-o", tmp_path / "d.csv", "--rows", 0, "--report", tmp_path / "d.html")
    assert none.code == 0
    assert len(rows_of(tmp_path / "d.csv")) == 1
    assert "<html" in (tmp_path / "d.html").read_text(encoding="utf-8")


def test_json_is_one_document_and_quiet_is_silent(folder: Path, tmp_path: Path) -> None:
    base = ["synthesize", folder / "people.csv", "-e", 1, "--method", "independent", "--missing", "?"]
    done = call(*base, "-o", tmp_path / "a.parquet", "--json", "--release", tmp_path / "a.margrave")
    assert (done.code, done.err) == (0, "")
    told = json.loads(done.out)
    assert told["guarantee"]["epsilon"] == 1.0
    assert told["files"] == {
        "out": str(tmp_path / "a.parquet"),
        "ledger": str(tmp_path / "a.parquet.ledger.jsonl"),
        "release": str(tmp_path / "a.margrave"),
    }
    silent = call(*base, "-o", tmp_path / "b.csv", "--quiet", "--ledger", tmp_path / "book.jsonl")
    assert (silent.code, silent.out, silent.err) == (0, "", "")
    assert files(tmp_path) >= {"b.csv", "book.jsonl"}
    assert "b.csv.ledger.jsonl" not in files(tmp_path)


def test_plan_spends_and_writes_nothing(folder: Path) -> None:
    before = files(folder)
    args = ["plan", folder / "people.csv", "-e", 1, "--owner", "person", "--max-rows", 3, "--rows", 3000]
    told = call(*args)
    assert (told.code, told.err) == (0, "")
    assert "spent       nothing" in told.out
    assert "at most 3 row(s)" in told.out
    document = json.loads(call(*args, "--json").out)
    assert set(document["discovered"]) == {"select", SIZE, "pay"}
    assert sum(document["shares"].values()) == pytest.approx(1)
    assert files(folder) == before


def test_a_schema_is_written_filled_in_and_used(folder: Path, tmp_path: Path) -> None:
    printed = call("schema", folder / "people.csv")
    written = call("schema", folder / "people.csv", "-o", tmp_path / "schema.json")
    assert (printed.code, written.code) == (0, 0)
    assert str(tmp_path / "schema.json") in written.out
    assert (tmp_path / "schema.json").read_text(encoding="utf-8") == printed.out
    document = json.loads(printed.out)
    assert [column["name"] for column in document["columns"]] == ["person", "select", SIZE, "pay"]
    document["columns"] = [
        {"name": "select", "kind": "categorical", "values": ["Ä'\"x", "M, or so"], "missing": False},
        {"name": SIZE, "kind": "integer", "lower": 18, "upper": 79, "bins": 31, "missing": False},
    ]
    (tmp_path / "schema.json").write_text(json.dumps(document), encoding="utf-8")
    done = call(
        "synthesize", folder / "people.csv", "-e", 5, "--method", "independent", "--missing", "?", "--json",
        "--schema", tmp_path / "schema.json", "--owner", "person", "-o", tmp_path / "out.csv",
    )  # fmt: skip
    assert done.code == 0
    rows = rows_of(tmp_path / "out.csv")[1:]
    assert {row[0] for row in rows} == {"Ä'\"x", "M, or so"}
    assert all(18 <= int(row[1]) <= 79 for row in rows)
    plan = json.loads(
        call("plan", folder / "people.csv", "-e", 5, "--schema", tmp_path / "schema.json", "--json").out
    )
    assert plan["declared"] == ["select", SIZE]


@pytest.mark.slow
def test_evaluate_says_that_it_is_not_private(folder: Path, tmp_path: Path) -> None:
    done = call(
        "evaluate", folder / "people.csv", folder / "out.csv", "--missing", "?",
        "--report", tmp_path / "comparison.html", "--target", "select", "--test", folder / "people.csv",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    assert "NOT PRIVATE" in done.out
    assert "not private" in (tmp_path / "comparison.html").read_text(encoding="utf-8").lower()


def test_evaluate_of_one_column_is_json_that_all_can_read(tmp_path: Path) -> None:
    one = write_csv(tmp_path / "one.csv", [["a"], *[[x] for x in "xyxxyx" * 20]])
    done = call("evaluate", one, one, "--json", "--separator", ",")
    assert done.code == 0

    def refuse(text: str) -> None:
        raise AssertionError(text)

    json.loads(done.out, parse_constant=refuse)


@pytest.mark.slow
def test_the_demo_leaves_its_files(tmp_path: Path) -> None:
    done = call("demo", "--out", tmp_path / "made" / "demo", "--method", "mst")
    assert done.code == 0
    made = {"synthetic.csv", "report.html", "comparison.html", "adult.margrave", "ledger.jsonl"}
    assert files(tmp_path / "made" / "demo") == made
    assert "differential privacy" in done.out
    header, *rows = rows_of(tmp_path / "made" / "demo" / "synthetic.csv")
    assert len(header) == 15
    assert abs(len(rows) - 32_561) < 1000
    refused = call("demo", "--out", tmp_path / "made" / "demo", "--method", "independent", "--quiet")
    assert (refused.code, "--force" in refused.err) == (2, True)
    again = call("demo", "--out", tmp_path / "made" / "demo", "--method", "independent", "--quiet", "--force")
    assert (again.code, again.out, again.err) == (0, "", "")


def test_as_a_program(tmp_path: Path) -> None:
    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "margrave", *args]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)

    version = run("--version")
    assert (version.returncode, version.stdout, version.stderr) == (0, f"{mg.__version__}\n", "")
    absent = run("synthesize", "absent.csv", "--epsilon", "1", "--out", "out.csv")
    lines = absent.stderr.splitlines()  # a busy machine may say before that it is reading
    assert (absent.returncode, absent.stdout, len([line for line in lines if "margrave: " in line])) == (
        2,
        "",
        1,
    )
    assert files(tmp_path) == set()


def test_help_is_complete() -> None:
    group: Any = typer.main.get_command(app)
    free = {"plan", "schema", "sample", "evaluate", "demo", "tables", "fit", "ledger", "bench", "audit"}
    free |= {"dummy", "example", "images", "regress", "show"}
    assert set(group.commands) == {"synthesize", "owners", "release"} | free
    for name, command in group.commands.items():
        assert command.help, name
        for parameter in command.params:
            assert getattr(parameter, "help", None), (name, parameter.name)
    assert call().code == 2
    assert "synthesize" in call("--help").out
    text = " ".join(call("synthesize", "--help").out.split())
    assert call("synthesize", "--help").code == 0
    assert "OUT.ledger.jsonl" in text
    assert "--owner" in text
    assert "whose row it is" in text


def test_help_names_every_method() -> None:
    for command in ("synthesize", "plan"):
        text = " ".join(call(command, "--help").out.split())
        assert f"One of {', '.join(sorted(METHODS))}" in text


def test_a_schema_file_that_names_the_owners_column_can_be_used_as_it_is(
    folder: Path, tmp_path: Path
) -> None:
    table = tmp_path / "people.csv"
    people(table, rows=400)
    schema = tmp_path / "schema.json"
    assert call("schema", table, "--out", schema).code == 0
    assert "person" in schema.read_text(encoding="utf-8")
    base = [*("synthesize", table, "-e", 1, "--method", "independent", "--owner", "person", "-q")]
    done = call(*base, "--schema", schema, "-o", tmp_path / "a.csv")
    assert (done.code, done.err) == (0, "")
    assert rows_of(tmp_path / "a.csv")[0] == ["select", SIZE, "pay"]
    assert call("schema", table, "--owner", "person", "--out", schema, "--force").code == 0
    assert "person" not in schema.read_text(encoding="utf-8")
    assert call(*base, "--schema", schema, "-o", tmp_path / "b.csv").code == 0
    refused = call("schema", table, "--owner", "nobody")
    assert (refused.code, refused.out) == (2, "")


def test_show_says_what_a_release_holds(folder: Path) -> None:
    done = call("show", folder / "people.margrave")
    assert (done.code, done.err) == (0, "")
    synthesis = mg.load(folder / "people.margrave")
    assert str(synthesis.guarantee) in done.out
    assert f"rows          about {synthesis.rows:,}" in done.out
    for name in synthesis.schema.names:
        assert f"  {name}" in done.out
    document = json.loads(call("show", folder / "people.margrave", "--json").out)
    assert document["guarantee"]["owner"] == "person"
    assert document["rows"] == synthesis.rows
    assert len(document["measurements"]) == len(synthesis.measurements)
    missing = call("show", folder / "nothing.margrave")
    assert (missing.code, missing.out) == (2, "")


def test_nothing_is_written_over_without_being_asked(folder: Path, tmp_path: Path) -> None:
    release, table = folder / "people.margrave", folder / "people.csv"
    taken = tmp_path / "taken.csv"
    commands: list[list[object]] = [
        ["synthesize", table, "-e", 1, "--method", "independent", "--missing", "?", "--out", taken],
        ["synthesize", table, "-e", 1, "-o", tmp_path / "new.csv", "--missing", "?", "--release", taken],
        ["sample", release, "--out", taken, "--rows", 5],
        ["tables", release, "--out", taken],
        ["schema", table, "--out", taken],
        ["example", "hospital", "--rows", 5, "--out", taken],
        ["evaluate", table, folder / "out.csv", "--missing", "?", "--report", taken],
    ]
    for command in commands:
        taken.write_text("kept", encoding="utf-8")
        refused = call(*command)
        assert refused.code == 2, command
        assert "--force" in refused.err
        assert taken.read_text(encoding="utf-8") == "kept"
        assert files(tmp_path) == {"taken.csv"}
    done = call(*commands[2], "--force")
    assert done.code == 0
    assert len(taken.read_text(encoding="utf-8").splitlines()) == 6


def test_a_table_that_was_not_measured_shows_how_far_it_is(tmp_path: Path) -> None:
    rows = pa.table({"a": [0, 1] * 200, "b": [0, 0, 1, 1] * 100})
    schema = mg.Schema.from_sizes({"a": 2, "b": 2})
    mg.Synthesizer("independent", epsilon=1.0, schema=schema).fit(rows).save(tmp_path / "r.margrave")
    done = call("tables", tmp_path / "r.margrave", "-o", tmp_path / "t.csv", "--columns", "a,b")
    assert done.code == 0
    assert done.err.splitlines()[1:] == [f"refit {number} of 20" for number in range(1, 21)]
    quiet = call("tables", tmp_path / "r.margrave", "-o", tmp_path / "u.csv", "--columns", "a,b", "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    measured = call("tables", tmp_path / "r.margrave", "-o", tmp_path / "v.csv", "--columns", "a")
    assert (measured.code, measured.err) == (0, "")


def test_an_owner_without_a_cap_is_told_that_one_row_each_is_used(folder: Path, tmp_path: Path) -> None:
    base = [*("synthesize", folder / "people.csv", "-e", 1, "--method", "independent", "--missing", "?")]
    told = call(*base, "-o", tmp_path / "a.csv", "--owner", "person")
    assert told.code == 0
    assert "one row of each 'person' is used" in told.err
    assert "at most 1 row(s)" in told.out
    for number, options in enumerate([("--max-rows", 1), ("--quiet",), ("--json",)]):
        silent = call(*base, "-o", tmp_path / f"b{number}.csv", "--owner", "person", *options)
        assert (silent.code, "one row of each" in silent.err) == (0, False)
    plan = call("plan", folder / "people.csv", "-e", 1, "--owner", "person")
    assert "one row of each" in plan.err


def test_a_finished_run_that_is_resumed_is_said_to_be_finished(folder: Path, tmp_path: Path) -> None:
    base = ["synthesize", folder / "people.csv", "-e", 1, "--method", "independent", "--missing", "?"]
    assert call(*base, "-o", tmp_path / "a.csv").code == 0
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    again = call(*base, "-o", tmp_path / "a.csv", "--resume")
    assert again.code == 2
    assert "this one has finished" in again.err
    assert "Use its output, or start a new run" in again.err
    assert again.err.count("\n") == 1
    assert {name: (tmp_path / name).read_bytes() for name in files(tmp_path)} == before


def test_columns_may_be_called_by_numbers(tmp_path: Path) -> None:
    pq.write_table(pa.table({"4": [1, 2] * 200, "5": ["a", "b"] * 200}), tmp_path / "n.parquet")
    out = tmp_path / "n.csv"
    done = call("synthesize", tmp_path / "n.parquet", "-e", 9, "--method", "independent", "-o", out, "-q")
    assert (done.code, done.err) == (0, "")
    assert rows_of(out)[0] == ["4", "5"]
    refused = call("evaluate", tmp_path / "n.parquet", out)
    assert refused.code == 2
    assert "--header" in refused.err
    assert call("evaluate", tmp_path / "n.parquet", out, "--header", "--json").code == 0


def test_schema_reads_the_first_line_and_no_row(tmp_path: Path) -> None:
    """A quote that is never closed behind the first line is no matter, since nobody looks there."""
    table = tmp_path / "t.csv"
    table.write_text('a,b\n1,"never closed\n2,x\n', encoding="utf-8")
    done = call("schema", table)
    assert done.code == 0, done.err
    assert [column["name"] for column in json.loads(done.out)["columns"]] == ["a", "b"]


def test_stopped_while_it_is_loaded_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Stopped(types.ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "margrave.cli.app", Stopped("margrave.cli.app"))
    with pytest.raises(SystemExit) as ended:
        margrave.cli.main()
    assert "run the same command again" in str(ended.value)
    assert capsys.readouterr().err == ""


def test_a_quiet_run_prints_nothing_where_there_is_no_terminal(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", [["a", "b"], *([i % 2, i % 3] for i in range(600))])
    done = call(
        "synthesize", tmp_path / "t.csv", "--epsilon", 20, "--method", "independent",
        "--out", tmp_path / "o.csv", "--quiet",
    )  # fmt: skip
    assert (done.code, done.out, done.err) == (0, "", "")
