"""Public names: sorted, present, and light to import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import margrave

SRC = Path(margrave.__file__).parent


def test_all_is_sorted_and_resolves() -> None:
    assert margrave.__all__ == sorted(margrave.__all__)
    for name in margrave.__all__:
        assert getattr(margrave, name) is not None
    assert dir(margrave) == sorted(margrave.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = margrave.nothing


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_every_module_says_what_it_exports(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree)
    exports = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    defines = any(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in tree.body)
    if defines or exports:
        assert exports, "defines names but has no __all__"
        names = ast.literal_eval(exports[0])
        assert sorted(names) == sorted(set(names))


def test_import_is_light() -> None:
    heavy = ("numba", "scipy", "pyarrow", "duckdb", "pandas", "polars", "narwhals", "typer", "rich", "numpy")
    code = f"import sys, margrave; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
