"""The commands `margrave bench` and `margrave bench report`, through the true entrance."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path

import pytest

from command_line import call, files, people
from margrave import Synthesizer
from margrave.benchmark.grid import Grid
from margrave.benchmark.results import read_results
from margrave.cli.bench import _repeat_options


def test_values_follow_their_option() -> None:
    assert _repeat_options(["--methods", "a", "b", "--epsilon", "1", "2", "--out", "x"]) == [
        *("--methods", "a", "--methods", "b", "--epsilon", "1", "--epsilon", "2", "--out", "x")
    ]
    assert _repeat_options(["folder", "--out", "x", "y"]) == ["folder", "--out", "x", "y"]
    assert _repeat_options(["--methods"]) == ["--methods"]


def test_a_grid_runs_resumes_and_is_reported(tmp_path: Path) -> None:
    table, out, page = people(tmp_path / "people.csv", 300), tmp_path / "out", tmp_path / "page.md"
    words = ["--methods", "independent", "real", "--data", table, "--epsilon", "1", "--repeats", 1]
    words += ["--metrics", "average_tv", "l1_3way", "--out", out]
    first = call("bench", *words)
    assert first.code == 0, first.err
    assert first.out == "2 cells run, 2 in the grid\n"
    assert "[2/2] people__independent__eps1.0__0 done in" in first.err
    assert "p1" not in first.err
    before = {name: (out / name).read_bytes() for name in ("results.parquet", "benchmark.json")}
    again = call("bench", *words)
    assert (again.code, again.out, again.err) == (0, "0 cells run, 2 in the grid\n", "")
    assert {name: (out / name).read_bytes() for name in before} == before
    found = read_results(out / "results.parquet")
    assert [one["status"] for one in found] == ["done"] * 2
    assert {one["scores"]["average_tv"] > 0 for one in found if one["method"] == "independent"} == {True}
    assert call("bench", *words, "--report", page).code == 0
    whole = page.read_bytes()
    (tmp_path / "taken.tex").write_text("kept", encoding="utf-8")
    for refused in (
        call("bench", *words, "--report", page),
        call("bench", "report", out, "--out", page),
        call("bench", "report", out, "--out", tmp_path / "taken.md"),
        call("bench", "standing", out, "--out", page, "--method", "independent", "--rivals", "mst"),
    ):
        assert (refused.code, "--force" in refused.err) == (2, True)
    assert (tmp_path / "taken.tex").read_text(encoding="utf-8") == "kept"
    (tmp_path / "taken.tex").unlink()
    assert page.read_bytes() == whole
    assert call("bench", *words, "--report", page, "--force").code == 0
    assert page.read_bytes() == whole
    shown = ["--against", "independent", "--metrics", "l1_3way", "--force"]
    done = call("bench", "report", out, "--out", page, *shown)
    assert done.code == 0, done.err
    assert page.read_text(encoding="utf-8").startswith("# Benchmark")
    assert page.read_bytes() != whole
    assert files(tmp_path) == {"people.csv", "out", "page.md", "page.tex", "pictures"}


def test_standings_are_written_and_the_nursery_is_listed(tmp_path: Path) -> None:
    out, page = tmp_path / "out", tmp_path / "page.md"
    words = [
        "--methods",
        "independent",
        "mst",
        "--data",
        people(tmp_path / "people.csv", 200),
        "--epsilon",
        "1",
    ]
    done = call(
        "bench", *words, "--repeats", 1, "--metrics", "dependence", "average_tv", "--out", out, "--quiet"
    )
    assert done.code == 0, done.err
    done = call("bench", "standing", out, "--out", page, "--method", "independent", "--rivals", "mst", "aim")
    assert done.code == 0, done.err
    assert "independent is worse than the best of the others in" in done.out
    assert page.read_text(encoding="utf-8").startswith("# How independent stands")
    listed = call("bench", "tables")
    assert listed.code == 0
    assert "choosing/loans-a" in listed.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--methods", "aim", "--data", "parity", "--epsilon", "1"], "out must be given"),
        (["--methods", "aim", "--epsilon", "1", "--out", "o"], "data must be given"),
        (
            ["--methods", "aim", "x", "--data", "parity", "--epsilon", "1", "--out", "o"],
            "methods must be one of",
        ),
        (["--spec", "no.toml", "--out", "o"], "spec must be a file that can be read"),
        (["--methods", "aim", "--data", "rare", "-e", "1", "--out", "o", "--retry", "all"], "retry must be"),
        (["--methods", "aim", "--data", "rare", "-e", "one", "--out", "o"], "should be a valid number"),
        (
            ["--methods", "aim", "--data", "rare", "-e", "1", "--out", "o", "--report", "p.html"],
            "report must be",
        ),
        (["report", "no", "--out", "page.md"], "results must be a file"),
        (["standing", "no", "--out", "page.md"], "results must be a file"),
        (
            [
                "--methods",
                "real",
                "--data",
                "choosing/survey-b",
                "reporting/survey-d",
                "-e",
                "1",
                "--out",
                "o",
            ],
            "data must be tables of one half of the nursery",
        ),
    ],
)
def test_what_cannot_be_run_ends_with_two_and_leaves_nothing(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call("bench", *words)
    assert done.code == 2
    assert message in done.err
    assert files(tmp_path) == set()


def test_the_default_delta_is_that_of_the_main_command() -> None:
    default = {field.name: field.default for field in dataclasses.fields(Grid)}["delta"]
    usual = inspect.signature(Synthesizer).parameters["delta"].default
    assert (default, usual) == (1e-9, 1e-9)
    said = " ".join(call("bench", "--help").out.replace("│", " ").split())
    assert "1e-9 by default, as `synthesize` takes it" in said
