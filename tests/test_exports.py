"""Public names: sorted, present, and light to import."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

import margrave

SRC = Path(margrave.__file__).parent
FRONT_DOORS = {SRC / "errors.py", SRC / "schema/constraints/rules.py", SRC / "run/slicing.py"}
"""Modules that users import by name, `margrave.errors`, `margrave.rules` and `margrave.slicing`."""


@functools.cache
def read_module(path: Path) -> tuple[str | None, list[list[str]]]:
    """What a module says it is, and its lists of exports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    exports = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return ast.get_docstring(tree), exports


def test_all_is_sorted_and_resolves() -> None:
    assert margrave.__all__ == sorted(margrave.__all__)
    for name in margrave.__all__:
        assert getattr(margrave, name) is not None
    assert dir(margrave) == sorted(margrave.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = margrave.nothing


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_every_module_says_what_it_is(path: Path) -> None:
    assert read_module(path)[0]


@pytest.mark.parametrize("path", sorted(SRC.rglob("*.py")), ids=lambda p: str(p.relative_to(SRC)))
def test_lists_of_exports_stand_at_front_doors_only(path: Path) -> None:
    """Elsewhere a name without an underscore is one that other modules may use; a list would say it twice."""
    exports = read_module(path)[1]
    assert path.name == "__init__.py" or path in FRONT_DOORS or not exports
    assert all(sorted(names) == sorted(set(names)) for names in exports)


def test_import_is_light() -> None:
    heavy = ("numba", "scipy", "pyarrow", "duckdb", "pandas", "polars", "narwhals", "typer", "rich", "numpy")
    code = f"import sys, margrave; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_table_of_arrow_needs_no_library_of_frames() -> None:
    """Neither its head nor its rows: loading narwhals takes a tenth of a second."""
    code = """if True:
        import sys, pyarrow as pa, margrave as mg
        schema = mg.Schema.from_sizes({"a": 3})
        run = mg.Synthesizer("independent", epsilon=1.0, delta=1e-6, schema=schema)
        run.fit(pa.table({"a": [0, 1, 2]})).sample(2)
        print([name for name in ("narwhals", "polars") if name in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command_line_starts_light() -> None:
    """Help, a misspelt option and the completion of a word in the shell wait for no large library."""
    heavy = ("numba", "scipy", "pyarrow", "duckdb", "pandas", "polars", "numpy", "margrave.methods")
    code = f"import sys, margrave.cli; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
