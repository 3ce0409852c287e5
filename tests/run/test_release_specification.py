"""One file for a whole release: what it says is done, what it requires is checked, slips are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import margrave as mg
from command_line import call, files
from margrave.errors import InputError
from margrave.privacy.ledger.journal import read_ledger
from margrave.run.specification import check_release, read_specification

SPEC = """
[data]
table = "visits.csv"
schema = "schema.json"
owner = "patient"
max_rows = 4

[privacy]
epsilon = 2
delta = 1e-7

[method]
name = "independent"

[outputs]
rows = "out/synthetic.csv"
release = "out/visits.margrave"
report = "out/report.html"
tables = "out/counts.csv"
count = 200
seed = 1

[checks]
usable_tables = 0.5
rows = 1000
"""


def test_moments_of_the_target_are_asked_for_in_the_file(tmp_path: Path) -> None:
    schema = mg.Schema((mg.Categorical(name="sex", values=("F", "M"), missing=False),))
    schema.save(tmp_path / "schema.json")
    cases = (("moments = true", "1/10"), ("moments = false", "0"), ("", "1/20"))
    for line, share in (*cases, ("moments_share = 0.25", "1/4")):
        method = f'name = "auto"\ntarget = "cost"\n{line}'
        (tmp_path / "spec.toml").write_text(SPEC.replace('name = "independent"', method), encoding="utf-8")
        said = read_specification(tmp_path / "spec.toml")
        assert str(said.synthesizer().moment_share) == share
    for line in ("moments = 1", "moments_share = true"):
        (tmp_path / "spec.toml").write_text(SPEC.replace('name = "independent"', line), encoding="utf-8")
        with pytest.raises(InputError, match="moments"):
            read_specification(tmp_path / "spec.toml")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    call("example", "hospital", "--rows", 2000, "--out", tmp_path / "visits.csv")
    schema = mg.Schema((mg.Categorical(name="sex", values=("F", "M"), missing=False),))
    schema.save(tmp_path / "schema.json")
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    (tmp_path / "out").mkdir()
    return tmp_path


def test_all_that_the_file_says_is_done(folder: Path) -> None:
    done = call("release", folder / "spec.toml")
    assert (done.code, "NOT MET" in done.out) == (0, False), done.err
    assert "check: met: rows" in done.out
    written = {"synthetic.csv", "visits.margrave", "report.html", "counts.csv", "synthetic.csv.ledger.jsonl"}
    assert files(folder / "out") == written
    loaded = mg.load(folder / "out" / "visits.margrave")
    assert (loaded.guarantee.epsilon, loaded.guarantee.delta) == (2.0, 1e-7)
    assert loaded.guarantee.neighbours.unit == mg.Unit("patient", 4)
    assert loaded.release.declared == ("sex",)
    assert len((folder / "out" / "synthetic.csv").read_text(encoding="utf-8").splitlines()) == 201
    before = {name: (folder / "out" / name).read_bytes() for name in written}
    again = call("release", folder / "spec.toml")
    assert (again.code, "--force" in again.err) == (2, True)
    assert {name: (folder / "out" / name).read_bytes() for name in written} == before


def test_a_release_that_does_not_reach_what_is_required_ends_with_three(folder: Path) -> None:
    (folder / "spec.toml").write_text(SPEC.replace("epsilon = 2", "epsilon = 0.05"), encoding="utf-8")
    done = call("release", folder / "spec.toml", "--fail-under", 1, "--json")
    assert done.code == 3
    told = json.loads(done.out)
    assert told["met"] is False
    usable = next(one for one in told["checks"] if one["name"] == "usable_tables")
    assert (usable["bound"], usable["met"], usable["private"]) == (1, False, False)
    assert "synthetic.csv" in files(folder / "out")


def test_a_plan_spends_and_writes_nothing(folder: Path) -> None:
    done = call("release", folder / "spec.toml", "--plan")
    assert (done.code, "spent       nothing" in done.out) == (0, True)
    assert files(folder / "out") == set()
    assert done.err == ""
    (folder / "spec.toml").write_text(SPEC.replace("max_rows = 4", ""), encoding="utf-8")
    noted = call("release", folder / "spec.toml", "--plan")
    assert "one row of each 'patient' is used" in noted.err
    assert call("release", folder / "spec.toml", "--plan", "--quiet").err == ""


def test_a_comparison_has_to_say_that_it_is_not_private(folder: Path) -> None:
    bounds = "[comparison.at_most]\ntv_1_mean = 0.0\n"
    (folder / "bad.toml").write_text(f"{SPEC}\n{bounds}", encoding="utf-8")
    refused = call("release", folder / "bad.toml")
    assert (refused.code, "not_private = true" in refused.err) == (2, True)
    assert files(folder / "out") == set()
    said = f'{SPEC}\n[comparison]\nnot_private = true\npage = "comparison.html"\n{bounds}'
    (folder / "said.toml").write_text(said, encoding="utf-8")
    done = call("release", folder / "said.toml")
    assert done.code == 3, done.err
    assert "check: NOT MET: tv_1_mean" in done.out
    assert "NOT PRIVATE" in done.out
    assert "not private" in (folder / "comparison.html").read_text(encoding="utf-8").lower()


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("epsilon = 2", "", "epsilon of [privacy]"),
        ("epsilon = 2", "epsilons = 2", "[privacy]"),
        ("epsilon = 2", 'epsilon = "2"', "epsilon of [privacy]"),
        ("epsilon = 2", "epsilon = -2", "epsilon"),
        ("[method]", "[methods]", "spec"),
        ('"independent"', '"none"', "method"),
        ("usable_tables = 0.5", "usable_tables = 5", "usable_tables of [checks]"),
        ('"out/synthetic.csv"', '"out/synthetic.docx"', "rows"),
        ('"out/report.html"', '"visits.csv"', "report"),
        ('"schema.json"', '"none.json"', "schema"),
        ("[data]", "[comparison]\nnot_private = true\nat_most = {tv = 1}\n[data]", "[comparison]"),
        ("max_rows = 4", 'text = {separators = ";"}', "text of [data]"),
    ],
)
def test_what_is_misspelt_or_cannot_be_is_refused_before_a_spend(
    folder: Path, old: str, new: str, named: str
) -> None:
    (folder / "spec.toml").write_text(SPEC.replace(old, new, 1), encoding="utf-8")
    done = call("release", folder / "spec.toml")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"margrave: {named}"), done.err
    assert files(folder / "out") == set()


def test_a_run_that_was_stopped_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stopping import Killed, killing

    spec = read_specification(folder / "spec.toml")
    with killing(monkeypatch, 3, "stored"), pytest.raises(Killed):
        spec.synthesizer().fit(str(folder / "visits.csv"))
    spent = len(read_ledger(spec.ledger)[1])
    assert call("release", folder / "spec.toml", "--resume").code == 0
    assert len(read_ledger(spec.ledger)[1]) > spent > 0


def test_json_says_the_same_as_toml(folder: Path) -> None:
    document: dict[str, Any] = {
        "data": {"table": "visits.csv", "text": {"locale": "de", "names": ["a"]}, "missing": ["?"]},
        "privacy": {"epsilon": 1},
        "outputs": {"rows": "rows.csv"},
    }
    (folder / "spec.json").write_text(json.dumps(document), encoding="utf-8")
    spec = read_specification(folder / "spec.json")
    assert spec.missing == ["?", ""]
    assert spec.ledger == folder / "rows.csv.ledger.jsonl"
    assert spec.synthesizer().text.separator == ";"
    with pytest.raises(InputError, match="spec"):
        read_specification(folder / "none.toml")


def test_checks_are_of_released_quantities() -> None:
    schema = mg.Schema((mg.Categorical(name="x", values=("a", "b"), other="(other)", missing=False),))
    import pandas as pd

    frame = pd.DataFrame({"x": ["a"] * 400 + ["b"] * 400 + ["c"] * 200})
    synthesis = mg.Synthesizer("independent", epsilon=20.0, schema=schema).fit(frame)
    found = {
        one.name: one for one in check_release(synthesis, {"other": 0.1, "rows": 900, "usable_tables": 1})
    }
    assert found["other"].value == pytest.approx(0.2, abs=0.02)
    assert {name: one.met for name, one in found.items()} == {
        "other": False,
        "rows": True,
        "usable_tables": True,
    }
