"""Runs whose noise comes from a seed: repeatable, and marked as not private wherever they are spoken of.

Each way round: no seeded noise without the mark, no mark without seeded noise, and nothing drops it.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import math
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import margrave as mg
from command_line import call
from margrave import archive
from margrave.archive import guarantee_to_json, load_release
from margrave.auditing import audit, generated
from margrave.engines.opening import open_source
from margrave.errors import InputError, NotPrivateWarning, ReleaseError
from margrave.measure.curator import Curator
from margrave.measure.mechanisms.owner_sizes import owner_sizes
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import RepeatableSource, SecureSource
from margrave.privacy.unit import Neighbours, Unit
from margrave.release import Guarantee, check_marked_name
from margrave.run.without_table import stated_guarantee

SRC = Path(mg.__file__).parent
MARK = "NOT PRIVATE"
RNG = np.random.default_rng(0)
TABLE = pa.table(
    {
        "who": np.arange(600) // 3,
        "sex": RNG.choice(["F", "M"], 600),
        "age": RNG.integers(0, 90, 600),
    }
)


def run(seed: int | None = 7, data: Any = TABLE, **options: Any) -> mg.Synthesis:
    options = {"epsilon": 2.0, "delta": 1e-6, **options}
    return mg.Synthesizer("independent", not_private_test_seed=seed, **options).fit(data)


def released(synthesis: mg.Synthesis) -> list[list[float]]:
    return [marginal.values.ravel().tolist() for marginal in synthesis.measurements]


@pytest.fixture(scope="module")
def marked() -> mg.Synthesis:
    return run()


@pytest.fixture(scope="module")
def private() -> mg.Synthesis:
    return run(None)


def test_a_seed_repeats_the_release_and_another_does_not(marked: mg.Synthesis) -> None:
    assert released(run()) == released(marked)
    assert run().schema == marked.schema
    assert released(run(8)) != released(marked)


@pytest.mark.parametrize("engine", ["memory", "stream"])
def test_a_seed_settles_which_rows_of_an_owner_stay(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(TABLE, path)
    runs = [run(seed, path, engine=engine, unit=mg.Unit("who", 1)) for seed in (7, 7, 8)]
    assert released(runs[0]) == released(runs[1]) != released(runs[2])


def test_a_seed_settles_rows_where_the_table_lies(tmp_path: Path) -> None:
    import duckdb

    place = tmp_path / "t.duckdb"
    duckdb.connect(str(place)).execute(
        "CREATE TABLE t AS SELECT i // 3 AS who, i % 7 AS v FROM range(60) r(i)"
    )
    key = bytes(range(32))
    kept = [
        open_source(f"{place}::t")[0].bound_owners("who", 1, key=key).kinds("v").reveal().tolist()
        for _ in "ab"
    ]
    assert kept[0] == kept[1]


def test_rows_of_the_front_door_repeat() -> None:
    options: dict[str, Any] = {"epsilon": 2.0, "method": "independent", "not_private_test_seed": 7}
    with pytest.warns(NotPrivateWarning):
        first, second = (mg.synthesize(TABLE, rows=20, **options) for _ in "ab")
    assert first.equals(second)


def test_one_place_decides_both(marked: mg.Synthesis, private: mg.Synthesis) -> None:
    """A ledger's noise comes from a seed exactly if what it promises is nothing."""
    shared: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "neighbours": Neighbours(), "accountant": ZCDP()}
    seeded, plain = Ledger(**shared, test_seed=3), Ledger(**shared)
    assert isinstance(seeded.choose_noise(), RepeatableSource)
    assert isinstance(plain.choose_noise(), SecureSource)
    assert Guarantee.of(seeded).known_noise is not None
    assert Guarantee.of(seeded).epsilon == math.inf
    assert Guarantee.of(seeded).delta == 1.0
    assert Guarantee.of(plain).known_noise is None
    assert Guarantee.of(plain).epsilon == 1.0
    assert marked.guarantee.warning.startswith(MARK)
    assert private.guarantee.warning == ""


def calls_of(function: str, *, keyword: str = "") -> set[str]:
    """The files in which something of this name is called, with a keyword if one is given."""
    texts = {path: path.read_text(encoding="utf-8") for path in SRC.rglob("*.py")}
    return {
        path.relative_to(SRC).as_posix()
        for path, text in texts.items()
        if function in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).split(".")[-1] == function
        and (not keyword or keyword in {one.arg for one in node.keywords})
    }


def test_only_ledger_and_options_make_repeatable_bits() -> None:
    """The options only to check the seed; which rows an owner keeps is settled by the curator alone."""
    assert calls_of("RepeatableSource") == {"privacy/ledger/ledger.py", "run/options.py"}
    assert calls_of("bound_owners", keyword="key") == {"measure/door.py"}


def test_a_private_ledger_takes_no_repeatable_bits() -> None:
    source = open_source(TABLE)[0]
    ledger = Ledger(epsilon=1.0, delta=1e-6, neighbours=Neighbours(Unit("who")), accountant=ZCDP())
    with pytest.raises(InputError, match="where it comes from a seed"):
        Curator(source, ledger, RepeatableSource(7))
    with pytest.raises(InputError, match="where it comes from a seed"):
        owner_sizes(source, 4, ledger, RepeatableSource(7))
    assert not ledger.events


def test_a_guarantee_has_the_mark_or_an_epsilon(marked: mg.Synthesis, private: mg.Synthesis) -> None:
    with pytest.raises(ReleaseError, match="Known noise promises nothing"):
        dataclasses.replace(marked.guarantee, epsilon=1.0)
    with pytest.raises(ReleaseError, match="Known noise promises nothing"):
        dataclasses.replace(marked.guarantee, known_noise=None)
    with pytest.raises(ReleaseError, match="Known noise promises nothing"):
        dataclasses.replace(private.guarantee, known_noise=marked.guarantee.known_noise)


@pytest.mark.parametrize("name", ["run.jsonl", "all.book"])
def test_no_ledger_records_it(name: str, tmp_path: Path) -> None:
    place = tmp_path / name
    names = {"dataset": "d", "analyst": "a"} if name.endswith("book") else {}
    if names:
        mg.Book.create(place).cap("d", 5.0, 1e-5)
    with pytest.raises(InputError, match="left out with a ledger"):
        mg.Synthesizer(epsilon=1.0, ledger=place, not_private_test_seed=7, **names)
    with pytest.raises(InputError, match="left out with a ledger"):
        Ledger(
            epsilon=1.0,
            delta=1e-6,
            neighbours=Neighbours(),
            accountant=ZCDP(),
            path=tmp_path / "l.jsonl",
            test_seed=7,
        )
    assert not (tmp_path / "l.jsonl").exists()
    with pytest.raises(InputError, match="given to resume"):
        mg.Synthesizer("independent", epsilon=1.0, not_private_test_seed=7).fit(TABLE, resume=True)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "7"])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(InputError, match="not_private_test_seed must be a whole number"):
        mg.Synthesizer(epsilon=1.0, not_private_test_seed=seed)


def test_everything_that_speaks_says_so(marked: mg.Synthesis, private: mg.Synthesis) -> None:
    said = [
        str(marked.guarantee),
        repr(marked),
        marked._repr_html_(),
        marked.guarantee._repr_html_(),
        json.dumps(guarantee_to_json(marked.guarantee)),
        repr(mg.Synthesizer(epsilon=1.0, not_private_test_seed=7)),
        str(mg.Synthesizer(epsilon=1.0, not_private_test_seed=7).plan(TABLE)),
        repr(mg.Synthesizer(epsilon=1.0, not_private_test_seed=7).clone()),
    ]
    assert all(MARK in text for text in said)
    assert "epsilon = " not in str(marked.guarantee)
    assert "epsilon" not in dict(marked.guarantee.facts)
    assert guarantee_to_json(marked.guarantee)["epsilon"] is None
    for text in (str(private.guarantee), repr(private), private._repr_html_()):
        assert MARK not in text
    assert "NOT PRIVATE" not in guarantee_to_json(private.guarantee)


def test_drawing_rows_warns_and_marks_the_table(private: mg.Synthesis) -> None:
    for data in (TABLE, TABLE.to_pandas(), pl.from_arrow(TABLE)):
        synthesis = run(data=data)
        with pytest.warns(NotPrivateWarning, match=MARK):
            rows = synthesis.sample(5, rng=0)
        if isinstance(rows, pd.DataFrame):
            assert MARK in rows.attrs["margrave"]
        if isinstance(rows, pa.Table):
            assert MARK in rows.schema.metadata[b"margrave"].decode()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = private.sample(5, rng=0)
        assert b"margrave" not in (rows.schema.metadata or {})


def test_the_release_file_keeps_it(marked: mg.Synthesis, private: mg.Synthesis, tmp_path: Path) -> None:
    marked.save(tmp_path / "m.margrave")
    private.save(tmp_path / "p.margrave")
    again = mg.load(tmp_path / "m.margrave")
    assert again.guarantee == marked.guarantee
    assert mg.load(tmp_path / "p.margrave").guarantee == private.guarantee
    versions = {}
    for name in ("m", "p"):
        with zipfile.ZipFile(tmp_path / f"{name}.margrave") as file:
            versions[name] = json.loads(file.read("release.json"))["margrave_release"]
    assert versions == {"m": 2, "p": 1}


def test_older_programs_refuse_the_file(
    marked: mg.Synthesis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked.save(tmp_path / "m.margrave")
    monkeypatch.setattr(archive, "VERSION", 1)
    with pytest.raises(ReleaseError, match="of version 1 or older"):
        load_release(tmp_path / "m.margrave")
    # One that does not look at the version either finds no number where it wants the epsilon.
    with pytest.raises(TypeError):
        float(guarantee_to_json(marked.guarantee)["epsilon"])


def test_the_report_says_so_first(marked: mg.Synthesis, private: mg.Synthesis, tmp_path: Path) -> None:
    marked.report(tmp_path / "m.html")
    private.report(tmp_path / "p.html")
    page, other = (Path(tmp_path / name).read_text(encoding="utf-8") for name in ("m.html", "p.html"))
    body = page[page.index("<body") :]
    assert page.index("<title>NOT PRIVATE: ") > 0
    assert body.index('class="banner"') < body.index("<h1>")
    assert body.count(MARK) > 20  # each of twenty answers begins with it
    assert "differential privacy, " not in body
    assert "may be published" not in body
    assert "∞" not in body
    assert "inf" not in {word.strip(".,;:=<>") for word in body.split()}
    assert MARK not in other[other.index("<body") :]


def test_tables_carry_it(marked: mg.Synthesis, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not-private"):
        marked.write_tables(tmp_path / "t.json")
    marked.write_tables(tmp_path / "not-private.json")
    again = mg.fit_tables(tmp_path / "not-private.json", model="independent")
    assert again.guarantee == marked.guarantee
    with pytest.raises(InputError, match="nothing can be promised"):
        mg.fit_tables(tmp_path / "not-private.json", guarantee=stated_guarantee(1.0, 1e-9))


@pytest.mark.parametrize("name", ["not-private.csv", "x.NOT_PRIVATE.csv", "Not Private rows.parquet"])
def test_names_that_say_so(name: str) -> None:
    check_marked_name(Path("private") / name)


@pytest.mark.parametrize("name", ["rows.csv", "not-private/rows.csv", "private.csv"])
def test_names_that_do_not(name: str) -> None:
    with pytest.raises(InputError, match=r"Try not-private-"):
        check_marked_name(name)


def test_audits_refuse_it() -> None:
    world = generated(rows=30)

    def method(table: Any) -> mg.Synthesis:
        return run(7, table, schema=world.schema, unit=world.neighbours.unit)

    with pytest.raises(InputError, match="no claim to audit"):
        audit(method, epsilon=2.0, runs=8, world=world)


def test_the_command_line_says_so(tmp_path: Path) -> None:
    table, out = tmp_path / "t.parquet", tmp_path / "not-private.csv"
    pq.write_table(TABLE, table)
    seed = ["--not-private-test-seed", "7"]
    asked = ["synthesize", table, "-e", "2", "--method", "independent", *seed]
    refused = call(*asked, "--out", tmp_path / "rows.csv")
    assert (refused.code, "not-private" in refused.err) == (2, True)
    refused = call(*asked, "--out", out, "--ledger", tmp_path / "l.jsonl")
    assert (refused.code, "left out with a ledger" in refused.err) == (2, True)
    release, report = tmp_path / "r.margrave", tmp_path / "r.html"
    done = call(*asked, "--out", out, "--release", release, "--report", report, "--quiet")
    assert (done.code, done.out) == (0, "")
    assert done.err.startswith(f"warning: {MARK}")
    first = out.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "not-private.csv", "r.html", "r.margrave", "t.parquet"
    ]  # fmt: skip
    assert call(*asked, "--out", out, "--force", "--quiet").code == 0
    assert out.read_bytes() == first
    assert call("show", release).out.startswith(MARK)
    assert json.loads(call("show", release, "--json").out)["NOT PRIVATE"].startswith(MARK)
    refused = call("sample", release, "--out", tmp_path / "more.csv")
    assert (refused.code, "not-private" in refused.err) == (2, True)
    assert not (tmp_path / "more.csv").exists()
    done = call("sample", release, "--out", tmp_path / "not-private-more.parquet", "--quiet")
    assert (done.code, MARK in done.err) == (0, True)
    assert MARK in pq.read_schema(tmp_path / "not-private-more.parquet").metadata[b"margrave"].decode()
    planned = call("plan", table, "-e", "2", *seed)
    assert (planned.code, MARK in planned.out) == (0, True)
