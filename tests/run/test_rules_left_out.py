"""Rules that what was discovered leaves no row: the run ends well, keeps the others and names those left out.

Before, such a run ended with an error after it had spent its budget.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import margrave as mg
from command_line import call
from margrave.privacy.ledger.journal import read_ledger
from margrave.run import buying
from margrave.schema.columns import Column
from margrave.schema.constraints.rules import (
    Allowed,
    Determines,
    Forbidden,
    Ordered,
    Rule,
    Sum,
    Within,
)
from margrave.schema.schema import apply_rules

RNG = np.random.default_rng(0)
ROWS = 1500
TABLE = pa.table(
    {
        "start": RNG.integers(500, 600, ROWS),
        "end": RNG.integers(100, 200, ROWS),
        "age": RNG.integers(0, 90, ROWS),
        "ward": RNG.choice(["a", "b"], ROWS),
        "code": RNG.choice(["x", "y", "z"], ROWS),
    }
)
KINDS: dict[str, Column] = {
    **{name: mg.Integer(name=name) for name in ("start", "end", "age")},
    **{name: mg.Categorical(name=name) for name in ("ward", "code")},
}
WRONG: dict[str, Rule] = {
    "order": Ordered("start", "end"),
    "sum": Sum("age", ("start", "end")),
    "range": Within("age", "ward", {"a": (500, None), "b": (500, None)}),
    "no numbers": Ordered("age", "code"),
    "all forbidden": Forbidden(("ward", "code"), [(one, two) for one in "ab" for two in "xyz"]),
    "none allowed": Allowed(("ward", "code"), [("k", "l")]),
}
RIGHT: tuple[Rule, ...] = (
    Ordered("end", "start"),
    Determines("ward", "code"),
    Forbidden(("ward", "code"), [("a", "x")]),
    Within("age", "ward", {"a": (18, None)}),
)


def fit(rules: tuple[Rule, ...], **options: Any) -> mg.Synthesis:
    names = [name for name in KINDS if any(name in rule.names for rule in rules)]
    schema = mg.Schema(tuple(KINDS[name] for name in names), rules)
    options = {"epsilon": 30.0, "schema": schema, **options}
    return mg.Synthesizer(**{"method": "independent", **options}).fit(TABLE.select(names))


@pytest.mark.parametrize("name", WRONG)
def test_a_rule_that_no_row_can_obey_is_left_out(name: str, tmp_path: Path) -> None:
    synthesis = fit((WRONG[name],))
    assert synthesis.release.rules_left_out == (WRONG[name],)
    assert synthesis.schema.rules == ()
    assert "rule left out" in synthesis._repr_html_()
    rows = synthesis.sample_arrow(200, rng=0)
    assert rows.num_rows == 200
    assert not any(column.null_count > 20 for column in rows.columns)
    synthesis.save(tmp_path / "r.margrave")
    assert mg.load(tmp_path / "r.margrave").release.rules_left_out == (WRONG[name],)


def test_rules_that_hold_are_kept_and_nothing_is_said(tmp_path: Path) -> None:
    synthesis = fit(RIGHT, method="mst")
    assert synthesis.schema.rules == RIGHT
    assert synthesis.release.rules_left_out == synthesis.release.rules_not_read == ()
    synthesis.report(tmp_path / "r.html")
    assert "Rules that rows may break" not in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("said", [True, False])
def test_a_dependency_whose_pair_is_too_large_to_be_bought_is_named_everywhere(
    said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if said:
        monkeypatch.setattr(buying, "MAX_CELLS", 1)
    rule, words = Determines("ward", "code"), "rows may break the rule determines (code, ward)"
    mg.Schema((KINDS["code"], KINDS["ward"]), (rule,)).save(tmp_path / "schema.json")
    pa.csv.write_csv(TABLE.select(["code", "ward"]), tmp_path / "t.csv")
    release, report = tmp_path / "r.margrave", tmp_path / "r.html"
    run = (tmp_path / "t.csv", "-e", "30", "--schema", tmp_path / "schema.json", "--method", "independent")
    done = call("synthesize", *run, "--out", tmp_path / "s.csv", "--release", release, "--report", report)
    assert done.code == 0, done.err
    assert (f"warning: {words}" in done.err) == said
    assert (words in call("show", release).out) == said
    assert len(json.loads(call("show", release, "--json").out)["rules not read"]) == said
    assert ("Rules that rows may break" in report.read_text(encoding="utf-8")) == said
    made = mg.load(release)
    assert ("rule not read" in made._repr_html_()) == said
    assert made.release.rules_not_read == ((rule,) if said else ())
    rows = made.sample_arrow(500, rng=0)
    values = zip(rows["code"].to_pylist(), rows["ward"].to_pylist(), strict=True)
    pairs = {pair for pair in values if not {None, "(other)"} & set(pair)}
    assert (len(pairs) > len({code for code, _ in pairs})) == said


def test_only_the_rules_that_are_impossible_go_and_first_ones_outlive_later_ones() -> None:
    known = (
        mg.Integer(name="a", lower=0, upper=9, missing=False),
        mg.Integer(name="b", lower=20, upper=29, missing=False),
        mg.Integer(name="c", lower=0, upper=99, missing=False),
    )
    first, second, wrong = Ordered("a", "c"), Sum("c", ("a", "b")), Ordered("b", "a")
    assert apply_rules(known, (wrong, first, second), {"a"}).rules == (first, second)
    one, other = Ordered("c", "a"), Ordered("b", "c")
    assert apply_rules(known, (one, other), {"a"}).rules == (one,)
    assert apply_rules(known, (other, one), {"a"}).rules == (other,)


def test_missing_and_other_values_do_not_keep_a_rule_unless_it_names_them() -> None:
    ward = mg.Categorical(name="ward", values=("a", "b"), other="(other)", missing=True, strict=False)
    code = mg.Categorical(name="code", values=("x",), missing=True, strict=False)
    forbidden = Forbidden(("ward", "code"), [("a", "x"), ("b", "x")])
    assert apply_rules((ward, code), (forbidden,), {"ward", "code"}).rules == ()
    # What was declared counts as it stands: nobody doubts that there are other values.
    assert apply_rules((ward, code), (forbidden,), {"code"}).rules == (forbidden,)
    spoken = Allowed(("ward", "code"), [("a", None)])
    assert apply_rules((ward, code), (spoken,), {"ward", "code"}).rules == (spoken,)
    silent = dataclasses.replace(spoken, combinations=(("a", "q"),))
    assert apply_rules((ward, code), (silent,), {"ward", "code"}).rules == ()


def test_it_is_said_wherever_the_release_is_spoken_of(tmp_path: Path) -> None:
    schema = mg.Schema((KINDS["start"], KINDS["end"]), (WRONG["order"],))
    schema.save(tmp_path / "schema.json")
    pa.csv.write_csv(TABLE.select(["start", "end"]), tmp_path / "t.csv")
    release, report = tmp_path / "r.margrave", tmp_path / "r.html"
    done = call(
        *("synthesize", tmp_path / "t.csv", "-e", "30", "--schema", tmp_path / "schema.json"),
        *("--method", "independent", "--out", tmp_path / "s.csv", "--release", release, "--report", report),
    )
    words = "the rule ordered (start, end) is left out"
    assert done.code == 0
    assert f"warning: {words}" in done.err
    assert f"warning: {words}" in call("show", release).out
    assert json.loads(call("show", release, "--json").out)["rules left out"][0]["kind"] == "ordered"
    page = report.read_text(encoding="utf-8")
    assert page.index("Rules that rows may break") < page.index("Twenty questions")


def test_the_run_spends_its_budget_once_and_resumes_alike(tmp_path: Path) -> None:
    ledger = tmp_path / "l.jsonl"
    synthesis = fit((WRONG["order"],), ledger=ledger)
    assert len(read_ledger(ledger)[1]) == len(synthesis.release.events)
    again = fit_again(ledger)
    assert again.release.rules_left_out == synthesis.release.rules_left_out
    assert again.schema == synthesis.schema


def fit_again(ledger: Path) -> mg.Synthesis:
    """The run resumed from the answers that it keeps until its outputs are written."""
    names = ["start", "end"]
    schema = mg.Schema(tuple(KINDS[name] for name in names), (WRONG["order"],))
    run = mg.Synthesizer("independent", epsilon=30.0, schema=schema, ledger=ledger)
    return run.fit(TABLE.select(names), resume=True)
