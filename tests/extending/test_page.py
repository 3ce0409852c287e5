"""The blocks of docs/extending.md run, from its top to its end."""

from __future__ import annotations

import ast
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import margrave as mg
from command_line import call

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def test_the_page_runs_from_its_top_to_its_end(
    own_tables: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = types.ModuleType("extending_page")
    monkeypatch.setitem(sys.modules, "extending_page", page)
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), page.__dict__)  # noqa: S102  # the page is ours
    said = capsys.readouterr().out
    assert "a number: 5.0%" in said
    assert ast.literal_eval(said.splitlines()[-2]) == {
        "one-way marginals": 0.25,
        "a number": 0.05,
        "measure": 0.7,
    }
    synthesis, again = page.__dict__["synthesis"], page.__dict__["again"]
    np.testing.assert_array_equal(again.marginal("stars", "shop"), synthesis.marginal("stars", "shop"))
    assert call("show", "own.margrave").code == 0  # the name is registered by now
    assert mg.load("own.margrave").sample(5, given={"shop": "b"}, rng=0)["shop"].to_pylist() == ["b"] * 5


def test_the_page_is_on_the_site() -> None:
    assert "extending.md" in (PAGE.parents[1] / "mkdocs.yml").read_text(encoding="utf-8")
