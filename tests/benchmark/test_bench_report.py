"""The report: figures checked by hand, pictures that stay in their frame, the same bytes again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from bench_cases import outcome

from margrave.benchmark.markdown import figure, latex, table
from margrave.benchmark.page import write_page
from margrave.benchmark.results import Findings, read_results, write_results
from margrave.errors import InputError


def scored(tv: float, f1: float = 0.75) -> dict[str, object]:
    return {"scores": {"average_tv": tv, "fidelity_error": 2 * tv, "logistic_f1": f1}}


def outcomes() -> list[dict[str, object]]:
    made = [
        outcome("toy", method, epsilon, repeat, **scored(base * (1 + 0.1 * repeat) / epsilon))
        for method, base in (("mst", 0.2), ("aim", 0.1), ("mine", 0.4))
        for epsilon in (1.0, 4.0)
        for repeat in range(3)
    ]
    made += [outcome("toy", "shuffled", None, repeat, **scored(0.3, 0.5)) for repeat in range(2)]
    made.append(outcome("toy", "real", None, 0, **scored(0.0, 0.875)))
    failed = {"status": "time", "reason": "over 60 s", "stage": "synthesize", "scores": {}}
    made.append(outcome("toy", "aim", 4.0, 3, **failed, fit_seconds=None, synthesis_cpu_seconds=None))
    return made


def folder(path: Path) -> Path:
    path.mkdir()
    write_results(outcomes(), path / "results.parquet")
    settings = {"delta": 1e-5, "share": 0.2, "seed": 0, "metrics": ["average_tv"]}
    told = {"toy": {"title": "A toy | of ours", "digest": "", "source": "made up"}}
    text = json.dumps({"format": 1, "settings": settings, "data": told, "methods": {}})
    (path / "benchmark.json").write_text(text, encoding="utf-8")
    return path


def test_results_come_back_as_they_went(tmp_path: Path) -> None:
    path = tmp_path / "results.parquet"
    write_results(outcomes(), path)
    found = {one["key"]: one for one in read_results(path)}
    for one in outcomes():
        back = found[str(one["key"])]
        assert {name: back[name] for name in one if name != "scores"} == {
            name: value for name, value in one.items() if name != "scores"
        }
        assert {name: value for name, value in back["scores"].items() if value is not None} == one["scores"]
    first = (path.read_bytes(), path.stat().st_mtime_ns)
    write_results(read_results(path)[::-1], path)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == first
    write_results(outcomes()[1:], path)
    assert path.read_bytes() != first[0]


def test_findings_are_means_of_done_runs_in_a_fixed_order() -> None:
    found = Findings(outcomes())
    assert found.methods == ("aim", "mst", "mine")
    assert found.references == ("real", "shuffled")
    assert found.epsilons == (1.0, 4.0)
    summary = found.score("toy", "aim", 1.0, "average_tv")
    assert summary is not None
    assert summary.mean == pytest.approx(0.11)
    assert summary.interval[1] - summary.mean == pytest.approx(4.302653 * 0.01 / 3**0.5, rel=1e-6)
    assert found.ratio("toy", "mst", 4.0, "average_tv", "aim") == pytest.approx(1.0)
    assert found.error("toy", "aim", 1.0, "logistic_f1") == pytest.approx(0.25)
    assert found.ratio("toy", "real", 4.0, "average_tv", "aim") is None
    assert [one["repeat"] for one in found.failures] == [3]
    with pytest.raises(InputError, match="metrics must be among"):
        Findings(outcomes(), ["l1_3way"])
    with pytest.raises(InputError, match="with outcomes"):
        Findings([])


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.012345, "0.0123"), (0.0, "0"), (123.4, "123"), (-0.5, "-0.500"), (None, ""), (1.5e-9, "1.50e-09")],
)
def test_figures_have_three_digits(value: float | None, text: str) -> None:
    assert figure(value) == text


def test_a_table_keeps_its_cells() -> None:
    assert table(["a"], [["x | y\nz"]]) == "| a |\n| --- |\n| x \\| y z |"


def test_the_page_says_what_was_found(tmp_path: Path) -> None:
    made = write_page(folder(tmp_path / "bench"), tmp_path / "docs.md", against="aim")
    page = made[0].read_text(encoding="utf-8")
    assert "| 1 | aim | 0.110 ± 0.025 | 0.220 ± 0.050 | 0.750 |" in page
    assert "|  | *real* | 0 | 0 | 0.875 |" in page
    assert "| average_tv | +0.00 (2) | +1.00 (2) | +2.00 (2) |" in page
    assert "| toy | aim | 4 | 3 | time | synthesize | over 60 s |" in page
    assert "A toy \\| of ours" in page
    assert "average_tv ↓ | fidelity_error ↓ | logistic_f1 ↑" in page
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert len(links) == len(made) - 2 > 4
    assert all((tmp_path / link).is_file() for link in links)
    assert str(tmp_path) not in page


def test_the_page_says_when_cells_ran_how_many_and_under_which_limits(tmp_path: Path) -> None:
    home = folder(tmp_path / "bench")
    made = [one | {"max_seconds": 60.0, "versions": {"commit": "abc"}} for one in outcomes()]
    later = outcome("toy", "aim", 4.0, 4, day="2026-02-03", **scored(0.1))
    write_results([*made, later], home / "results.parquet")
    (home / "words.md").write_text("It was a hot day.\n", encoding="utf-8")
    page = write_page(home, tmp_path / "docs.md")[0].read_text(encoding="utf-8")
    assert "| aim | 2026-01-01 | abc | 1 of 1 | 6 of 7 | 60 |" in page
    assert "| aim | 2026-02-03 | not recorded | 1 of 1 | 1 of 1 |  |" in page
    assert "inside the intervals for the most part" in page
    assert "\n\nIt was a hot day.\n\n## Tables" in page


def test_a_page_of_single_runs_says_that_it_has_no_intervals(tmp_path: Path) -> None:
    home = folder(tmp_path / "bench")
    write_results([one for one in outcomes() if one["repeat"] == 0], home / "results.parquet")
    page = write_page(home, tmp_path / "docs.md")[0].read_text(encoding="utf-8")
    assert "One run a cell: no figure has an interval" in page
    assert "for the most part" not in page
    assert "Whiskers" not in page


def test_a_page_without_the_method_to_divide_by_names_the_option(tmp_path: Path) -> None:
    page = write_page(folder(tmp_path / "bench"), tmp_path / "docs.md", against="gem")[0]
    assert "`margrave bench report FOLDER --against aim`" in page.read_text(encoding="utf-8")


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    home = folder(tmp_path / "bench")
    first = write_page(home, tmp_path / "docs.md")
    before = [path.read_bytes() for path in first]
    assert write_page(home, tmp_path / "docs.md") == first
    assert [path.read_bytes() for path in first] == before


def test_pictures_are_plain_and_stay_in_their_frame(tmp_path: Path) -> None:
    for path in write_page(folder(tmp_path / "bench"), tmp_path / "docs.md")[2:]:
        text = path.read_text(encoding="utf-8")
        root = ElementTree.fromstring(text)  # noqa: S314
        width, height = (float(n) for n in root.attrib["viewBox"].split()[2:])
        assert root.find("{*}title") is not None
        assert root.find("{*}desc") is not None
        assert "prefers-color-scheme:dark" in text
        assert not re.search(r"<script|href|url\(|NaN|nan|inf", text)
        for group in root.findall("{*}g"):
            shift = [float(n) for n in re.findall(r"[-\d.]+", group.attrib["transform"])]
            for mark in group.iter():
                for name, most, moved in (("x", width, shift[0]), ("y", height, shift[1])):
                    if name in mark.attrib:
                        assert 0 <= float(mark.attrib[name]) + moved <= most, (path.name, mark.attrib)


def test_both_axes_say_what_they_are(tmp_path: Path) -> None:
    write_page(folder(tmp_path / "bench"), tmp_path / "docs.md")
    for name, across in (("error-average_tv", "epsilon"), ("efficiency", "processor seconds")):
        text = (tmp_path / "pictures" / "docs" / f"{name}.svg").read_text(encoding="utf-8")
        panels = text.count('class="h"')
        assert text.count(f">{across}</text>") == panels > 0
        assert len(re.findall(r'transform="rotate\(-90 [^"]*" class="m">[a-z_]+</text>', text)) == panels


def test_points_stand_where_their_values_are(tmp_path: Path) -> None:
    home = folder(tmp_path / "bench")
    write_page(home, tmp_path / "docs.md")
    text = (tmp_path / "pictures" / "docs" / "error-average_tv.svg").read_text(encoding="utf-8")
    lines = re.findall(r'd="(M[\d. L]+)" class="k n s(\d)"', text)
    heights = {place: [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", path)] for path, place in lines}
    aim, mst, mine = heights["0"], heights["1"], heights["2"]
    assert aim[0] < aim[1]
    assert aim[0] > mst[0] > mine[0]
    assert mst[0] - mine[0] == pytest.approx(aim[0] - mst[0], abs=0.2)
    assert aim[1] - aim[0] == pytest.approx(2 * (aim[0] - mst[0]), abs=0.3)


def test_latex_has_a_row_a_method_and_every_column(tmp_path: Path) -> None:
    text = latex(Findings(outcomes()))
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 3
    assert r"aim & $0.110_{\pm 0.025}$ & $0.0275_{\pm 0.0062}$ \\" in text
    assert r"\multicolumn{2}{c}{toy}" in text
    assert r"average\_tv" in text
    for line in text.splitlines():
        if line.startswith(("aim", "mst", "mine", "real", "shuffled")):
            assert line.count("&") == 2


def test_what_cannot_be_reported_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="written by margrave bench"):
        write_page(tmp_path, tmp_path / "docs.md")
    (tmp_path / "results.parquet").write_text("no", encoding="utf-8")
    with pytest.raises(InputError, match="written by margrave bench"):
        write_page(tmp_path, tmp_path / "docs.md")
    with pytest.raises(InputError, match=r"ending in \.md"):
        write_page(tmp_path, tmp_path / "docs.html")
    assert not (tmp_path / "pictures").exists()
