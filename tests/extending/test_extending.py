"""A selector, a generator, a metric, a column kind and a verb from outside the package, used as its own."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import toy_extension as toy
from pyarrow import csv

import margrave as mg
from command_line import call
from margrave import extensions
from margrave.engines.memory import open_source
from margrave.errors import InputError, ReleaseError
from margrave.measure.curator import Curator
from margrave.measure.mechanisms.verb import Verb
from margrave.methods import Method, register_method
from margrave.models._base.memory import PROGRAM
from margrave.models.independent import Independent
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours, Unit
from margrave.run.planning import MIB
from margrave.schema.constraints.rules import Determines
from margrave.schema.schema import Schema, register_column
from margrave.select import Strategy
from margrave.select.strategy import Holdings

pytestmark = pytest.mark.usefixtures("own_tables")

SCHEMA = mg.Schema(
    (
        toy.Rating(name="stars", stars=4, missing=False),
        mg.Categorical(name="shop", values=("a", "b", "c"), missing=False),
        mg.Integer(name="price", lower=0, upper=99, bins=5, missing=False),
    )
)


def _table(rows: int = 600) -> pa.Table:
    rng = np.random.default_rng(0)
    stars = rng.integers(1, 5, rows)
    shop = np.where(rng.random(rows) < 0.7, stars % 3, rng.integers(0, 3, rows))
    return pa.table({"stars": stars, "shop": np.array(list("abc"))[shop], "price": shop * 30 + 5})


@pytest.fixture(autouse=True)
def registered(own_tables: None) -> None:
    toy.register()


def test_a_run_of_all_five_in_python(tmp_path: Path) -> None:
    table, path = _table(), tmp_path / "run.margrave"
    synthesizer = mg.Synthesizer("toy", epsilon=4.0, schema=SCHEMA)
    plan = synthesizer.plan(table, rows=600)
    assert plan.shares == {"one-way marginals": 0.25, "a number": 0.05, "measure": 0.7}
    assert plan.refused == ""
    made = synthesizer.fit(table)
    assert sum(event.what == "rows with stars of 1 or more" for event in made.release.events) == 1
    # Measured pairs of neighbours come through, with noise of a few rows.
    exact = np.zeros((4, 3))
    np.add.at(exact, (table["stars"].to_numpy() - 1, ["abc".index(s) for s in table["shop"].to_pylist()]), 1)
    assert np.abs(made.marginal("stars", "shop") - exact).sum() < 120
    made.save(path)
    again = mg.load(path)
    assert again.schema == SCHEMA
    assert isinstance(again.schema["stars"], toy.Rating)
    assert again.sample(50, rng=3).equals(made.sample(50, rng=3))
    assert set(again.sample(40, given={"stars": 2}, rng=1)["stars"].to_pylist()) == {2}
    assert again.table("stars", "price", source="model", replicates=2, rng=0).num_rows == 4 * 5
    again.report(tmp_path / "report.html")
    assert "stars" in (tmp_path / "report.html").read_text(encoding="utf-8")
    scores = mg.evaluate(table, made.sample(rng=0), metrics=["codes_lost"], schema=SCHEMA).scores
    assert next(score.value for score in scores if score.name == "codes_lost") < 0.2


def test_the_memory_of_the_plan_is_what_the_selector_says_it_holds() -> None:
    """A selector that says nothing is taken for one that may buy any of all pairs."""

    class Silent(toy.Chain):
        def expect_holdings(self, sizes: Sequence[int], signal: float) -> Holdings:
            return Strategy.expect_holdings(self, sizes, signal)

    schema = mg.Schema.from_sizes({f"c{i}": 100 for i in range(150)})
    table = pa.table({name: [0] * 10 for name in schema.names})
    told, silent = (
        mg.Synthesizer(select=strategy, model="scaling", epsilon=4.0, schema=schema).plan(table, rows=1000)
        for strategy in (toy.Chain(), Silent())
    )
    neighbours, pairs = 149 * 100**2, 150 * 149 / 2 * 100**2
    assert told.memory - PROGRAM / MIB == pytest.approx(40 * neighbours / MIB, rel=0.1)
    assert silent.memory - PROGRAM / MIB == pytest.approx(40 * pairs / MIB, rel=0.1)
    assert told.memory < 450 < 4000 < silent.memory


def test_the_shares_of_the_plan_are_what_the_run_spends() -> None:
    made = mg.Synthesizer("toy", epsilon=4.0, schema=SCHEMA).fit(_table())
    spent: dict[str, Fraction] = {}
    pairs = {"marginal stars x shop", "marginal shop x price"}
    for event in made.release.events:
        assert isinstance(event, GaussianEvent)
        stage = "measure" if event.what in pairs else "a number" if "rows with" in event.what else "one-ways"
        spent[stage] = spent.get(stage, Fraction(0)) + Fraction(event.l2_squared) / event.sigma_squared
    total = sum(spent.values())
    found = {stage: float(part / total) for stage, part in spent.items()}
    assert found == pytest.approx({"one-ways": 0.25, "a number": 0.05, "measure": 0.7}, rel=1e-6)


def test_rows_of_a_loaded_release_obey_a_rule_that_was_read_off_its_tables(tmp_path: Path) -> None:
    """A tenth of the private rows break it, so that the model alone would as well."""
    table = _table()
    usual = np.array(["a", "a", "b", "c"])[table["stars"].to_numpy() - 1]
    shop = np.where(np.random.default_rng(2).random(len(usual)) < 0.1, table["shop"].to_pylist(), usual)
    table = table.set_column(1, "shop", pa.array(shop))
    schema = mg.Schema(SCHEMA.columns, rules=(Determines("shop", "stars"),))
    made = mg.Synthesizer("toy", epsilon=20.0, schema=schema).fit(table)
    made.save(tmp_path / "run.margrave")
    for one in (made, mg.load(tmp_path / "run.margrave")):
        rows = one.sample(4000, rng=0)
        assert len(set(zip(rows["stars"].to_pylist(), rows["shop"].to_pylist(), strict=True))) == 4
        assert rows.equals(made.sample(4000, rng=0))


def test_the_command_line_knows_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    csv.write_csv(_table(), "t.csv")
    SCHEMA.save("schema.json")
    run = ("t.csv", "--method", "toy", "--schema", "schema.json", "--epsilon", 4)
    plan = json.loads(call("plan", *run, "--json").out)
    assert plan["shares"]["a number"] == pytest.approx(0.05)
    made = call("synthesize", *run, "-o", "o.csv", "--release", "r.margrave", "--report", "p.html", "-q")
    assert made.code == 0, made.err
    assert csv.read_csv("o.csv").column_names == ["stars", "shop", "price"]
    assert '"rating"' in call("show", "r.margrave", "--json").out
    assert call("sample", "r.margrave", "-o", "s.csv", "--rows", 20, "-q").code == 0
    scored = call(
        "evaluate", "t.csv", "o.csv", "--schema", "schema.json", "--metrics", "codes_lost", "--json"
    )
    assert "codes_lost" in scored.out, scored.err


def test_an_installed_extension_is_found_by_its_entry_point(tmp_path: Path) -> None:
    """In a process of its own, in which nothing was imported before."""
    info = tmp_path / "toy_extension-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-extension\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[margrave.extensions]\ntoy = toy_extension:register\n")
    (tmp_path / "toy_extension.py").write_text(Path(toy.__file__).read_text(encoding="utf-8"))
    csv.write_csv(_table(), tmp_path / "t.csv")
    SCHEMA.save(tmp_path / "schema.json")
    paths = [str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    lines = [
        "bench --methods toy --data t.csv --epsilon 4 --repeats 1 --out bench -q",
        "synthesize t.csv --method toy --schema schema.json -e 4 -o o.csv --release r.margrave -q",
        "sample r.margrave -o s.csv --rows 5 -q",
    ]
    for line in lines:
        command = [sys.executable, "-m", "margrave", *line.split()]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert csv.read_csv(tmp_path / "s.csv").num_rows == 5
    (cell,) = (tmp_path / "bench" / "cells").iterdir()
    assert json.loads(cell.read_text(encoding="utf-8"))["status"] == "done"


def test_an_extension_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        name = "broken"

        def load(self) -> Any:
            raise ValueError("a secret")

    monkeypatch.setattr(extensions, "entry_points", lambda group: [Broken()])
    extensions.load_extensions.cache_clear()
    try:
        with pytest.raises(InputError, match=r"extension 'broken'.*ValueError") as refused:
            mg.Synthesizer("nowhere", epsilon=1.0)
    finally:
        extensions.load_extensions.cache_clear()
    assert "secret" not in str(refused.value)


def test_an_estimator_that_is_not_registered_is_passed_to_load(tmp_path: Path) -> None:
    from margrave.models.registry import HOMES

    path, place = tmp_path / "run.margrave", "toy_extension:Scaling"
    made = mg.Synthesizer(select=toy.Chain(), model=toy.Scaling(), epsilon=2.0, schema=SCHEMA).fit(_table())
    made.save(path)
    del HOMES["scaling"]
    with pytest.raises(InputError, match=r"estimator.*scaling.*Install the extension"):
        mg.load(path)
    for given in (toy.Scaling(), place):
        assert mg.load(path, estimator=given).sample(9, rng=0).equals(made.sample(9, rng=0))
    with pytest.raises(InputError, match="'scaling', which made the model"):
        mg.load(path, estimator=Independent())
    for wrong in ("toy_extension:Chain", "toy_extension:Nothing", "nowhere_at_all:Scaling", "toy_extension:"):
        with pytest.raises(InputError, match="estimator must be"):
            mg.load(path, estimator=wrong)
    out = tmp_path / "o.csv"
    assert call("sample", path, "-o", out, "-q").code == 2
    assert call("sample", path, "-o", out, "-q", "--estimator", place).code == 0
    assert call("show", path, "--estimator", place).code == 0
    assert call("tables", path, "-o", tmp_path / "t.csv", "-q", "--estimator", place).code == 0


def test_a_file_never_has_a_module_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release that names a place instead of an estimator is refused, and the place is left alone."""
    trap = tmp_path / "trap_module.py"
    trap.write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    made = mg.Synthesizer("independent", epsilon=1.0, schema=SCHEMA).fit(_table())
    object.__setattr__(made.release, "fitter", "trap_module:Trap")
    made.save(tmp_path / "run.margrave")
    with pytest.raises(InputError, match="trap_module"):
        mg.load(tmp_path / "run.margrave")
    assert "trap_module" not in sys.modules


def test_what_is_no_strategy_estimator_or_kind_is_refused() -> None:
    with pytest.raises(InputError, match=r"select must be an object derived from margrave\.select\.Strategy"):
        mg.Synthesizer(select=object(), epsilon=1.0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"model must be an object derived from margrave\.models\.Estimator"):
        mg.Synthesizer(model=object(), epsilon=1.0)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="column kind"):
        register_column(mg.Identifier)
    with pytest.raises(InputError, match="not taken"):
        register_method(Method("auto", toy.Chain, "scaling", "", ""))
    with pytest.raises(InputError, match="max_memory"):
        mg.Synthesizer("toy", epsilon=1.0, max_memory=10**9)
    with pytest.raises(ReleaseError, match="damaged"):
        toy.Scaling().restore(SCHEMA.domain, [], {})


def _curator(rows: int, neighbours: Neighbours) -> Curator:
    ledger = Ledger(epsilon=5.0, delta=1e-6, neighbours=neighbours, accountant=ZCDP())
    table = pa.table({"a": np.arange(rows) % 3})
    curator = Curator(open_source(table)[0], ledger)
    curator.discover(Schema.from_sizes({"a": 3}))
    return curator


def _neighbours_of(table: tuple[int, ...], max_rows: int, adjacency: str) -> list[tuple[int, ...]]:
    """All tables of one attribute that a unit of up to max_rows rows makes of a table."""
    size = len(table)
    groups = [
        np.bincount(group, minlength=size) if group else np.zeros(size, dtype=np.int64)
        for k in range(max_rows + 1)
        for group in itertools.combinations_with_replacement(range(size), k)
    ]
    base = np.asarray(table)
    if adjacency == "add_remove":
        found = [base + group for group in groups] + [base - group for group in groups]
    else:
        found = [base - gone + come for gone in groups for come in groups]
    return [tuple(t.tolist()) for t in found if (t >= 0).all()]


def _largest_move(verb: Verb, max_rows: int, adjacency: str) -> int:
    tables = itertools.product(range(max_rows + 2), repeat=3)
    return max(
        int((verb.exact([np.asarray(one)]) - verb.exact([np.asarray(other)])) ** 2)
        for one in tables
        for other in _neighbours_of(one, max_rows, adjacency)
    )


class Careless(toy.RowsAbove):
    """The same with a fault: it forgets that an owner may have several rows."""

    def l2_squared(self, neighbours: Any) -> int:
        return 1


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("max_rows", [1, 2])
def test_the_verb_moves_by_what_it_claims_over_all_small_tables(max_rows: int, adjacency: Any) -> None:
    neighbours = Neighbours(Unit("id", max_rows), adjacency)
    moved = _largest_move(toy.RowsAbove("a", 1), max_rows, adjacency)
    assert moved == toy.RowsAbove("a", 1).l2_squared(neighbours)
    assert (moved <= Careless("a", 1).l2_squared(neighbours)) == (max_rows == 1)


def test_the_door_charges_a_verb_before_it_answers() -> None:
    curator = _curator(3000, Neighbours())
    rho = curator.remaining / 10
    before = curator.remaining
    found, sigma = curator.answer(toy.RowsAbove("a", 1), rho)
    assert float(found) == pytest.approx(2000, abs=8 * sigma)
    assert sigma == pytest.approx((1 / (2 * float(rho))) ** 0.5, rel=1e-6)
    assert float(before - curator.remaining) == pytest.approx(float(rho), rel=1e-6)


def test_a_verb_whose_answer_is_not_what_it_stated_is_refused() -> None:
    class Long(toy.RowsAbove):
        def exact(self, tables: Any) -> Any:
            return tables[0][tables[0] > 0]

    class Fractional(toy.RowsAbove):
        def exact(self, tables: Any) -> Any:
            return np.asarray(0.5)

    class Free(toy.RowsAbove):
        def l2_squared(self, neighbours: Any) -> int:
            return 0

    for verb, said in ((Long, "of its shape"), (Fractional, "of its shape"), (Free, "l2_squared")):
        curator = _curator(30, Neighbours())
        with pytest.raises(InputError, match=said):
            curator.answer(verb("a", 1), curator.remaining / 10)
