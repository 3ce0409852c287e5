"""The curves' scripts: one real point, and pictures and tables that say what the lines say."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from unittest import mock
from xml.etree import ElementTree

import numpy as np
import pytest

BENCH = Path(__file__).parents[1] / "bench"


def _load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"bench_{Path(path).stem}", BENCH / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _line(name: str, x: float, cpu: float, **more: object) -> dict[str, object]:
    return {
        "what": "rows",
        "name": name,
        "x": x,
        "status": "done",
        "run": "1",
        "cpu": cpu,
        "peak": 300.0,
    } | more


@pytest.mark.slow
def test_a_point_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    out = tmp_path / "scale.jsonl"
    words = ["--what", "cells", "--points", "1e3", "--repeats", "1", "--out", str(out)]
    subprocess.run([sys.executable, str(BENCH / "runs" / "scale.py"), *words], check=True, env=os.environ)
    (line,) = [json.loads(text) for text in out.read_text(encoding="utf-8").splitlines()]
    assert line["status"] == "done"
    assert line["cells"] == 1000
    # The processor's clock may stand still for the few milliseconds of one fit.
    assert line["inference_cpu"] >= 0
    assert 0 <= line["cpu"] < line["process_cpu"]
    assert 0 < line["inference_wall"] < line["wall"] < line["process_wall"]
    assert line["peak"] > 50


def test_a_killed_point_is_a_result(tmp_path: Path) -> None:
    out = tmp_path / "scale.jsonl"
    words = ["--what", "cells", "--points", "1e6", "--repeats", "1", "--limit", "1", "--out", str(out)]
    subprocess.run([sys.executable, str(BENCH / "runs" / "scale.py"), *words], check=True, env=os.environ)
    (line,) = [json.loads(text) for text in out.read_text(encoding="utf-8").splitlines()]
    assert line["status"] == "limit"
    assert "cpu" not in line


def test_columns_follow_their_left_neighbour() -> None:
    scale = _load("runs/scale.py")
    a, b, again = (scale.chain((6, 5), 20_000, seed) for seed in (0, 1, 0))
    assert all(np.array_equal(x, y) for x, y in zip(a, again, strict=True))
    assert not np.array_equal(a[0], b[0])
    table = np.zeros((6, 5))
    np.add.at(table, (a[0], a[1]), 1)
    assert (table.max(axis=1) / table.sum(axis=1)).min() > 0.6


def test_the_latest_run_of_a_point_counts() -> None:
    plots = _load("plots.py")
    lines = [_line("mst", 1e4, 9.0), *(_line("mst", 1e4, cpu, run="2") for cpu in (1.0, 2.0, 4.0))]
    points = plots.latest(lines)
    assert plots.middle(points["rows", "mst", 1e4], "cpu") == 2.0
    assert "| 10,000 | mst | 2.00 [1.00, 4.00] |" in plots.table("rows", points)


@pytest.mark.parametrize("spans", [(1.0,), (1.0, 2.0), (1e-5, 1e3)])
def test_a_picture_shows_every_point_inside_its_frame(spans: tuple[float, ...]) -> None:
    plots = _load("plots.py")
    lines = [_line("mst", 10.0 ** (4 + k), cpu) for k, cpu in enumerate(spans)]
    drawn = plots.figure("rows & time", plots.panels("rows", plots.latest(lines)))
    root = ElementTree.fromstring(drawn)  # noqa: S314
    width, height = (float(n) for n in root.attrib["viewBox"].split()[2:])
    marks = root.findall(".//{*}circle")
    assert len(marks) == 1 + 2 * len(spans)  # the legend's, and one a point in the panels of time and memory
    assert all(0 < float(m.attrib["cx"]) < width and 0 < float(m.attrib["cy"]) < height for m in marks)
    assert "prefers-color-scheme:dark" in drawn
    assert not re.search(r"<script|href|url\(", drawn)


def test_a_point_cut_short_is_hollow_and_marked() -> None:
    plots = _load("plots.py")
    killed = {"what": "rows", "name": "mst", "x": 1e5, "status": "limit", "run": "1", "limit": 60.0}
    points = plots.latest([_line("mst", 1e4, 1.0, ended_early=True), killed | {"process_cpu": 59.0}])
    first = plots.panels("rows", points)[0].series[0]
    assert first.points == ((1e4, 1.0), (1e5, 59.0))
    assert first.hollow == {1e4, 1e5}
    assert "| 100,000 | mst | over 60 |" in plots.table("rows", points)
    assert "| 10,000 | mst | 1.00 * |" in plots.table("rows", points)


def test_what_an_ablation_leaves_out_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that was renamed would be found out after an hour of runs."""
    monkeypatch.syspath_prepend(str(BENCH / "runs"))
    parts = _load("runs/ablation.py").PARTS
    assert len(parts) > 10
    for patches in parts.values():
        for place, value in patches.items():
            with mock.patch(place, value):
                pass
