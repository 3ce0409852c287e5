"""Plans: what is read for them, how large runs are refused, and what is said of time and memory."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from torch_fitters import NEEDS_TORCH, TINY, TRAINED

import margrave as mg
from command_line import call, usual_adjacency
from margrave.engines.opening import file_bytes, open_head, open_source
from margrave.errors import InputError, PlanWarning
from margrave.limits import machine_memory
from margrave.methods import METHODS, method
from margrave.models.registry import resolve
from margrave.run import planning
from margrave.run.costs import Work, expect_costs
from margrave.schema.storage.text import TextFormat
from margrave.select.strategy import count_cells

FIT_NAMES = [
    pytest.param(name, marks=NEEDS_TORCH if METHODS[name].fitter in {*TINY, *TRAINED, "merf"} else ())
    for name in sorted(METHODS)
]
WIDE = {f"c{i}": 40 for i in range(1200)}


def _table() -> pa.Table:
    return pa.table(
        {
            "age": [30, 41, None, 7] * 5,
            "name, first": pa.array(["a", "b", "b", "c"] * 5).dictionary_encode(),
            "paid": [1.5, 2.0, 3.25, None] * 5,
        }
    )


def _written(folder: Path, name: str) -> Any:
    table, path = _table(), folder / name
    if name == "pandas":
        return table.to_pandas()
    if name == "polars":
        return pl.from_arrow(table)
    if name == "arrow":
        return table
    if name.endswith(".parquet"):
        pq.write_table(table, path)
    elif name.endswith(".arrow"):
        pyarrow.feather.write_feather(table, path, compression="uncompressed")
    elif name.endswith(".xlsx"):
        table.to_pandas().to_excel(path, index=False)
    elif name.endswith(".duckdb"):
        import duckdb

        with duckdb.connect(str(path)) as base:
            base.register("held", table)
            base.sql("CREATE TABLE people AS SELECT * FROM held")
    else:
        frame = table.to_pandas()
        frame.columns = ["age", 'name,\n"first"', "paid"]
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in name else ",", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "name",
    ["pandas", "polars", "arrow", "t.parquet", "t.arrow", "t.xlsx", "t.duckdb", "t.csv", "t.tsv", "t.csv.gz"],
)
def test_a_head_says_what_the_whole_table_says(tmp_path: Path, name: str) -> None:
    data = _written(tmp_path, name)
    head, frame = open_head(data)
    whole, known = open_source(data)
    assert head.columns == whole.columns
    assert frame == known
    assert int(head.rows().reveal()[0]) == 0
    assert (file_bytes(data) is None) == (name in ("pandas", "polars", "arrow"))


@pytest.mark.parametrize("text", [TextFormat(header=False), TextFormat(header=False, names=("x", "y"))])
def test_the_head_of_a_file_without_names(tmp_path: Path, text: TextFormat) -> None:
    path = tmp_path / "t.csv"
    path.write_text("1,a\n2,b\n", "utf-8")
    assert open_head(path, text=text)[0].columns == open_source(path, text=text)[0].columns


def test_a_plan_reads_the_first_line_of_a_text_file_alone(tmp_path: Path) -> None:
    """What follows is broken in every way, which `fit` refuses and a plan does not see."""
    path = tmp_path / "t.csv"
    path.write_bytes(b"age,paid\n" + b"1,2\n" * 500_000 + b'3\n"4,\xff\xfe')
    run = mg.Synthesizer("independent", epsilon=1.0)
    plan = run.plan(path)
    assert set(plan.discovered) == {"age", "paid"}
    with pytest.raises(InputError, match="quote"):
        run.fit(path)
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes())[:-100])
    assert set(run.plan(packed).discovered) == {"age", "paid"}


def test_a_plan_of_a_frame_looks_at_no_value() -> None:
    frame = pd.DataFrame({"a": [b"bytes", 3], "b": [1, 2]})
    assert set(mg.Synthesizer(epsilon=1.0).plan(frame).discovered) == {"a", "b"}


@pytest.mark.parametrize("broken", [b'"never closed\n1,2\n', b"a,a\n1,2\n", b"", b"1,2\n3,4\n"])
def test_a_broken_first_line_is_refused_as_by_a_run(tmp_path: Path, broken: bytes) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(broken)
    run = mg.Synthesizer("independent", epsilon=1.0)
    with pytest.raises(InputError) as fitted:
        run.fit(path)
    with pytest.raises(InputError) as planned:
        run.plan(path)
    assert str(planned.value) == str(fitted.value)


@pytest.mark.parametrize(
    ("data", "word"),
    [("none.csv", "path"), ("none.parquet", "path"), ("none.xlsx", "path"), ("f.txt", "file")],
)
def test_what_is_no_table_is_refused(tmp_path: Path, data: str, word: str) -> None:
    (tmp_path / "f.txt").write_text("a,b\n", "utf-8")
    with pytest.raises(InputError, match=word):
        mg.Synthesizer(epsilon=1.0).plan(tmp_path / data)


@pytest.mark.parametrize("name", ["lake", "lake/*.parquet", "lake/a.parquet"])
def test_rows_are_guessed_from_the_files_of_a_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "lake").mkdir()
    for part in "abcd":
        table = pa.table({"x": np.random.default_rng(0).normal(size=30_000), "y": range(30_000)})
        pq.write_table(table, tmp_path / "lake" / f"{part}.parquet")
    plan = mg.Synthesizer("independent", epsilon=1.0).plan(tmp_path / name)
    assert plan.rows.startswith("about ")
    rows = int(plan.rows.split()[1].replace(",", ""))
    assert rows == (50_000 if name.endswith("a.parquet") else 200_000)


def test_rows_are_guessed_from_the_size_of_a_file_and_rounded(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1111,222\n" * 30_000, "utf-8")
    run = mg.Synthesizer("independent", epsilon=1.0)
    plan = run.plan(path)
    assert plan.rows.startswith("about 20,000, guessed from the size")
    assert plan.error == {}  # of the noise nothing is said that rests on a guess from the file
    with path.open("a", encoding="utf-8") as file:
        file.write("9,9\n")
    assert run.plan(path) == plan
    told = run.plan(path, rows=2_000_000)
    assert told.rows == "2,000,000, as given"
    assert told.seconds[1] > plan.seconds[1]
    assert told.memory > plan.memory
    assert "32,561" in run.plan(pa.table({"a": [1], "b": [2]})).rows


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_is_planned_on_any_number_of_columns(name: str) -> None:
    """Also where the cells of all columns together are more than a float holds."""
    for columns in (1, 2, 400):
        table = pa.table({f"c{i}": pa.array([], "int64") for i in range(columns)})
        run = mg.Synthesizer(name, epsilon=1.0, delta=1e-6, adjacency=usual_adjacency(name))
        plan = run.plan(table, rows=5000)
        assert 0 < plan.seconds[0] <= plan.seconds[1]
        assert 200 < plan.memory < 1e6
        assert json.loads(json.dumps(plan.to_json(), default=dict))["refused"] == plan.refused
        assert ("REFUSED" in str(plan)) == bool(plan.refused)
        assert columns < 100 or "time" in str(plan)


@pytest.mark.parametrize("name", FIT_NAMES)
def test_a_run_above_the_memory_is_refused_before_anything_is_spent(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the machine's memory, and with one that was asked for; every refusal is foretold by the plan."""
    monkeypatch.setattr(planning, "machine_memory", lambda: 10**9)
    table = pa.table({name: pa.array([0, 1], "int64") for name in WIDE})
    schema, path = mg.Schema.from_sizes(WIDE), tmp_path / "ledger.jsonl"
    run = mg.Synthesizer(
        name, epsilon=1.0, delta=1e-6, schema=schema, ledger=path, adjacency=usual_adjacency(name)
    )
    plan = run.plan(table)
    if "max_memory" not in plan.refused:
        assert expect_costs(method(name).strategy(), resolve(METHODS[name].fitter), _work()).model < 1e9
        light = ("independent", "tabddpm", "dp_merf", "dpsgd_gan", "pate_gan")
        assert name in light, "add the method here if it needs so little by design"
        return
    with pytest.raises(InputError, match=r"max_memory.*Use method 'independent'") as caught:
        run.fit(table)
    assert str(caught.value) == plan.refused
    assert not path.exists()


def _work() -> Work:
    return Work(tuple(WIDE.values()), 0, 1.0, 0.2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "mst"}, "mst"),
        ({"select": mg.select.AIM()}, "aim with auto"),
        ({"method": "mst", "model": "pgm"}, "mst with pgm"),
    ],
)
def test_a_plan_names_the_parts_of_a_method_put_together(options: dict[str, Any], said: str) -> None:
    planned = mg.Synthesizer(**options, epsilon=1.0)
    assert str(planned.plan(_table())).startswith(f"method      {said}\n")
    assert planned.get_params()["method"] == options.get("method", "auto")


def test_a_release_names_each_part_of_its_method_once(tmp_path: Path) -> None:
    table, schema = _table().select(["age"]), mg.Schema.from_sizes({"age": 50})
    table = table.set_column(0, "age", table.column(0).fill_null(0))
    for options, said in (
        ({"method": "independent"}, "method        independent: all_kway with independent\n"),
        ({"select": mg.select.AllKWay(degree=1)}, "method        all_kway with auto\n"),
    ):
        synthesis = mg.Synthesizer(**options, epsilon=1.0, schema=schema).fit(table)
        synthesis.save(tmp_path / "r.margrave")
        assert said in call("show", tmp_path / "r.margrave").out


def test_a_larger_limit_of_ones_own_overrides_that_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "machine_memory", lambda: 10**9)
    table = pa.table({name: pa.array([], "int64") for name in WIDE})
    schema = mg.Schema.from_sizes(WIDE)
    assert "more than this machine has" in mg.Synthesizer(epsilon=1.0, schema=schema).plan(table).refused
    assert mg.Synthesizer(epsilon=1.0, schema=schema, max_memory=10**12).plan(table).refused == ""
    less = mg.Synthesizer(epsilon=1.0, schema=schema, max_memory=10**10).plan(table).refused
    assert "got 10000000000" in less
    assert "machine" not in less


@pytest.mark.parametrize("model", ["independent", "compressed"])
def test_a_wide_column_is_not_paired_with_itself(model: str) -> None:
    """Before, a tree was taken to have as many cells as that, for models without one too: 10 GB."""
    sizes = {"a": 10_000, "b": 5, "c": 5, "d": 2}
    table = pa.table({name: pa.array([], "int64") for name in sizes})
    schema = mg.Schema.from_sizes(sizes)
    strategy = mg.select.MST()
    run = mg.Synthesizer(select=strategy, model=model, epsilon=1.0, schema=schema, max_memory=450_000_000)
    assert run.plan(table).refused == ""


def _undeclared(columns: int) -> pa.Table:
    return pa.table({f"c{i}": pa.array([], "int64") for i in range(columns)})


def test_undeclared_columns_are_said_to_be_guessed() -> None:
    refused = mg.Synthesizer("aim", epsilon=1.0, max_memory=10**9).plan(_undeclared(1_500)).refused
    assert "5 guessed for each column that is not declared" in refused
    assert "margrave schema" in refused


def test_wide_tables_are_cut_into_fewer_bins_where_more_would_pass_a_limit() -> None:
    """Few columns are left as they are, many get fewer bins, very many are refused; the plan says which."""
    assert choose(200) is None
    assert choose(300) in (24, 16)
    assert choose(600) == 12
    assert choose(600, max_memory=4 * 10**9) < 12
    assert choose(1_200, max_memory=2 * 10**9) == 4
    run = mg.Synthesizer(epsilon=1.0, max_memory=10**12)
    plan = run.plan(_undeclared(1_200), rows=20_000)
    assert plan.refused == ""
    assert plan.limits["bins"].startswith("at most 4 a column")
    refused = run.plan(_undeclared(2_000)).refused
    assert "of at most 8,192 codes in all" in refused
    assert "method 'independent'" in refused


def choose(columns: int, max_memory: int = 10**12) -> Any:
    run = mg.Synthesizer(epsilon=1.0, max_memory=max_memory)
    return planning.choose_fineness(run, run._declare_columns(open_source(_undeclared(columns))[0]))


def test_declared_columns_are_not_cut() -> None:
    declared = mg.Synthesizer(epsilon=1.0, max_memory=10**12, schema=mg.Schema.from_sizes(WIDE))
    table = pa.table({name: pa.array([], "int64") for name in WIDE})
    assert planning.choose_fineness(declared, declared._declare_columns(open_source(table)[0])) is None


def test_a_run_gets_no_more_bins_than_it_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.integers(0, 90, 3_000) for name in "abc"})
    sizes = []
    for bins in (None, 5):
        monkeypatch.setattr(planning, "choose_fineness", lambda *_, b=bins: b)
        schema = mg.Synthesizer("independent", epsilon=50.0, delta=1e-6).fit(table).schema
        sizes.append(max(column.size for column in schema.attributes))
    assert sizes[0] > 20
    assert sizes[1] <= 6


def test_the_plan_of_a_noisy_table_expects_coarse_bins() -> None:
    run = mg.Synthesizer(epsilon=1.0, max_memory=10**12)
    few, many = (run.plan(_undeclared(100), rows=rows) for rows in (2_000, 10**7))
    assert few.memory < many.memory
    assert few.seconds[0] < many.seconds[0]


def test_a_time_limit_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    sizes = {f"c{i}": 2 for i in range(400)}
    table = pa.table({name: pa.array([0, 1], "int64") for name in sizes})
    options: dict[str, Any] = {"epsilon": 1.0, "schema": mg.Schema.from_sizes(sizes)}
    path = tmp_path / "ledger.jsonl"
    with pytest.raises(InputError, match=r"max_seconds.*Use method 'auto'"):
        mg.Synthesizer("aim", **options, max_seconds=20.0, ledger=path).fit(table)
    assert not path.exists()
    assert mg.Synthesizer("aim", **options, max_seconds=20_000.0).plan(table).refused == ""
    assert mg.Synthesizer("auto", **options, max_seconds=20.0).plan(table).refused == ""


def test_estimates_grow_with_what_makes_runs_longer() -> None:
    def work(columns: int = 30, size: int = 12, rows: int = 10_000, epsilon: float = 1.0) -> Work:
        return Work((size,) * columns, rows, epsilon, 0.2 * epsilon)

    for name in ("auto", "aim", "batched", "mst", "independent"):
        strategy, fitter = method(name).strategy(), resolve(METHODS[name].fitter)
        plain = expect_costs(strategy, fitter, work())
        assert 0 < plain.least < plain.high
        assert plain.low < plain.high
        wider = expect_costs(strategy, fitter, work(columns=120))
        assert wider.high > plain.high
        assert wider.model > plain.model
        assert expect_costs(strategy, fitter, work(rows=10**6)).high > plain.high
        assert expect_costs(strategy, fitter, work(rows=10**6)).model >= plain.model
    strategy, fitter = method("aim").strategy(), resolve("pgm")
    few = [expect_costs(strategy, fitter, work(columns=20, epsilon=epsilon)).high for epsilon in (0.2, 10.0)]
    assert few[1] > 3 * few[0]


def test_aim_may_grow_its_tree_where_there_are_many_small_columns() -> None:
    """As many rows and cells of pairs say nothing of it: the tree's cliques grow with the columns."""
    strategy, fitter = method("aim").strategy(), resolve("pgm")
    many = expect_costs(strategy, fitter, Work((5,) * 30, 25_000, 1.0, 0.18))
    few = expect_costs(strategy, fitter, Work((5,) * 10, 25_000, 1.0, 0.18))
    assert many.high > 50.0 > 10.0 > few.high
    assert many.model - few.model > 2**28


def test_cells_of_all_cliques_are_counted() -> None:
    rng = np.random.default_rng(0)
    sizes = [int(size) for size in rng.integers(2, 9, 6)]
    pairs = sum(sizes[i] * sizes[j] for i in range(6) for j in range(i))
    assert count_cells(sizes, 2) == pairs
    assert count_cells([10**6] * 200, 60) == float("inf")


def test_the_machine_says_how_much_memory_it_has() -> None:
    found = machine_memory()
    assert found is None or 2**28 < found < 2**50


def test_the_command_says_that_a_run_would_be_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "machine_memory", lambda: 10**9)
    path = tmp_path / "wide.csv"
    path.write_text(",".join(f"c{i}" for i in range(1_500)) + "\n", "utf-8")
    planned = call("plan", path, "-e", "1", "--method", "aim")
    assert planned.code == 0
    assert "REFUSED     max_memory must be at least" in planned.out
    done = call("synthesize", path, "-e", "1", "--method", "aim", "--out", tmp_path / "out.csv")
    assert done.code == 2
    assert "max_memory must be at least" in done.err
    assert list(tmp_path.iterdir()) == [path]


def test_a_time_limit_that_leaves_a_model_no_step_is_told() -> None:
    table = pa.table({f"c{place}": [1, 2] for place in range(400)})
    columns = tuple(
        mg.Integer(name=name, lower=0, upper=49, bins=5, missing=False) for name in table.column_names
    )
    plans = {
        seconds: mg.Synthesizer(epsilon=1.0, max_seconds=seconds, schema=mg.Schema(columns)).plan(
            table, rows=20000
        )
        for seconds in (8.0, 60.0)
    }
    assert "columns come out independent" in plans[8.0].warnings[0]
    assert "WARNING     of a time limit of 8 s" in str(plans[8.0])
    assert plans[60.0].warnings == ()


def test_a_run_of_days_is_refused_with_faster_methods_before_anything_is_spent(tmp_path: Path) -> None:
    path, out = tmp_path / "wide.csv", tmp_path / "out.csv"
    path.write_text(",".join(f"c{i}" for i in range(1_200)) + "\n", "utf-8")
    planned = call("plan", path, "-e", "1", "--method", "aim")
    assert planned.code == 0
    assert "REFUSED     max_seconds must be given for a run that takes" in planned.out
    assert "Use method 'auto' (" in planned.out
    done = call("synthesize", path, "-e", "1", "--method", "aim", "--out", out)
    assert done.code == 2
    assert "days or more" in done.err
    assert "Use method 'auto' (" in done.err
    assert list(tmp_path.iterdir()) == [path]
    run = mg.Synthesizer("aim", epsilon=1.0)
    declared = run._declare_columns(open_source(path)[0])
    assert planning.find_refusal(run, declared, resumed=True) is None  # what was spent is not lost by it


def test_a_long_run_warns_before_it_begins_and_names_faster_methods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "LONG_SECONDS", 0.0)
    pq.write_table(pa.table({"a": [0, 1] * 200, "b": ["x", "y"] * 200}), tmp_path / "t.parquet")
    base = ["synthesize", tmp_path / "t.parquet", "-e", "9", "--method", "independent", "-o"]
    done = call(*base, tmp_path / "a.csv")
    assert done.code == 0
    assert done.err.startswith("warning: method 'independent' takes ")
    assert "discover" in done.err.partition("\n")[2]
    assert "takes" not in call(*base, tmp_path / "b.csv", "--quiet").err
    with pytest.warns(PlanWarning, match="or more here"):
        mg.Synthesizer("independent", epsilon=9.0).fit(tmp_path / "t.parquet")


def test_a_run_repeats_that_its_time_limit_leaves_no_step(tmp_path: Path) -> None:
    """The run is ended by its table, which the schema rules out, before anything is spent."""
    columns = tuple(
        mg.Integer(name=f"c{place}", lower=0, upper=49, bins=5, missing=False) for place in range(400)
    )
    schema = mg.Schema(columns)
    table = pa.table({column.name: ["no number"] for column in columns})
    run = mg.Synthesizer(epsilon=1.0, max_seconds=8.0, schema=schema)
    with pytest.warns(PlanWarning, match="columns come out independent"), pytest.raises(InputError):
        run.fit(table)


def test_a_split_that_released_tables_decide_is_said_so() -> None:
    plans = {name: mg.Synthesizer(name, epsilon=1.0).plan(_table()) for name in ("auto", "mst")}
    assert "where it would hide most of them" in plans["auto"].otherwise
    assert f"rho share   {plans['auto'].otherwise}" in str(plans["auto"])
    assert plans["auto"].to_json()["otherwise"] == plans["auto"].otherwise
    assert plans["mst"].otherwise == ""


def test_columns_alike_share_a_line_of_a_plan() -> None:
    few = str(mg.Synthesizer(epsilon=1.0).plan(pa.table({"a": [1, 2], "name": ["x", "y"], "b": [3, 4]})))
    assert [line.split(":")[0] for line in few.splitlines() if line.startswith("discovered")] == [
        "discovered  a, b",
        "discovered  name",
    ]
    table = pa.table({f"c{place}": [1, 2] for place in range(60)} | {"name": ["a", "b"]})
    lines = [
        line for line in str(mg.Synthesizer(epsilon=1.0).plan(table)).splitlines() if "discovered" in line
    ]
    assert [line.split(":")[0] for line in lines] == [
        "discovered  c0, c1, c2 and 57 more",
        "discovered  name",
    ]
    declared = mg.Synthesizer(
        epsilon=1.0, schema=mg.Schema.from_sizes(dict.fromkeys(table.column_names[:60], 2))
    )
    assert "declared    c0, c1, c2 and 57 more\n" in str(declared.plan(table))
