"""The pages about noisy copies are what their commands make of the stored results, byte by byte."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("pandas")

ROOT = Path(__file__).parents[1]
PAGES = {
    "slicing": "benchmark-001.md",
    "images": "benchmark-001-images.md",
    "noisy_copies": "benchmark-001-numbers.md",
}


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"bench_{name}", ROOT / "bench" / "runs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_its_command_makes(name: str) -> None:
    script, page = _load(name), ROOT / "docs" / PAGES[name]
    made = script.write_page(script.OUT)
    assert "(table" not in made
    assert made == page.read_text(encoding="utf-8"), f"run: python bench/runs/{name}.py --page {page}"


def test_the_paper_s_figures_are_those_of_its_two_tables() -> None:
    script = _load("slicing")
    assert script.PAPER[5.1]["SliceFDiv"][:2] == (0.83, 0.64)
    assert script.PAPER[8.1]["SliceWass"][:2] == (0.81, 0.6)
    assert all(0 < one < 1 for table in script.PAPER.values() for scores in table.values() for one in scores)


def test_signal_over_noise_is_that_of_its_formula() -> None:
    """Ten classes of 10, one pixel that is 0 in five of them and 1 in the others."""
    script = _load("images")
    labels = [str(k) for k in range(10) for _ in range(10)]
    images = np.repeat([0, 255], 50).reshape(-1, 1, 1).astype(np.uint8)
    mu = script.gdp_mu(3.0, script.DELTA)
    found = script.measure_signal(3.0, images, labels, 2)
    one, other = 2 / mu**2 * 0.9, 2 / mu**2 * 0.5
    noise = 20 * (10 * other + 50 * one + 100 * one * other)
    assert found["cells"] == pytest.approx(20 * 5**2 / noise)
    assert found["means"] == pytest.approx(10 * 0.5**2 / (10 * 0.25 / mu**2 / 10))


def test_moments_asked_directly_have_the_noise_that_their_proof_says() -> None:
    """Emptying the longest row moves the products by sqrt(3) c^2 and no further."""
    script = _load("noisy_copies")
    cut = 2.5
    x = np.array([cut, 0.0, 0.0])
    full, empty = (np.outer(z, z) for z in (np.append(cut, x), np.array([cut, 0.0, 0.0, 0.0])))
    assert np.linalg.norm(full - empty) == pytest.approx(np.sqrt(3) * cut**2)
    drawn = script.draw_normal(np.zeros(2), np.array([[4.0, 1.0], [1.0, 0.0]]), 0.5, 100.0, 200_000)
    values = np.linalg.eigvalsh(np.array([[4.0, 1.0], [1.0, 0.0]]))
    np.testing.assert_allclose(np.linalg.eigvalsh(np.cov(drawn.T))[1], values[1], rtol=0.02)


def test_stored_lines_are_of_known_methods() -> None:
    for name in PAGES:
        script = _load(name)
        known = {"real rows", *script.METHODS} | set(getattr(script, "BY_CLASS", ()))
        lines = [json.loads(line) for line in script.OUT.read_text(encoding="utf-8").splitlines()]
        assert {line["method"] for line in lines if "method" in line} <= known
