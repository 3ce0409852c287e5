"""The import graph shows that there is one door: arrows between rooms only go down."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "margrave"
ROOMS = {
    "errors": set(),
    "entropy": set(),
    "html_card": set(),
    "progress": set(),
    "limits": {"errors"},
    "threads": set(),
    "plan": {"html_card"},
    "protocols": set(),
    "files": {"errors", "schema"},
    "schema": {"errors"},
    "privacy": {"entropy", "errors"},
    "release": {"errors", "html_card", "schema", "privacy"},
    "engines": {"entropy", "errors", "schema"},
    "measure": {"errors", "limits", "progress", "schema", "privacy", "release"},
    "select": {"errors", "limits", "progress", "schema", "release"},
    "models": {"errors", "limits", "schema", "release", "threads"},
    "methods": {"errors", "select", "models"},
    "evaluation": {"errors", "schema"},
    "report": {"errors", "schema", "privacy", "release", "evaluation"},
    "datasets": {"errors"},
    "regression": {"archive", "errors", "files", "models", "release", "schema", "tables"},
    "tables": {"archive", "errors", "files", "models", "release", "schema"},
    "archive": {"errors", "files", "privacy", "release", "schema"},
}
PRIVATE = {"engines", "measure"}


def _imports(path: Path) -> set[str]:
    """Rooms a file imports at run time, those under TYPE_CHECKING left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        node
        for branch in tree.body
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for inner in branch.body
        for node in ast.walk(inner)
    }
    names = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("margrave"):
            parts = node.module.split(".")
            names |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {a.name.split(".")[1] for a in node.names if a.name.startswith("margrave.")}
    return names - {"__version__"}


@functools.cache
def _graph() -> dict[str, set[str]]:
    graph: dict[str, set[str]] = {}
    for path in SRC.rglob("*.py"):
        room = path.relative_to(SRC).parts[0].removesuffix(".py")
        graph.setdefault(room, set()).update(_imports(path) - {room})
    return graph


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_room_imports_only_what_the_house_allows(room: str) -> None:
    assert _graph().get(room, set()) <= ROOMS[room]


def test_every_room_has_a_rule_or_is_a_front_door() -> None:
    doors = {
        "__init__", "__main__", "_api", "auditing", "benchmark", "cli", "cli_audit", "cli_bench",
        "cli_dummy", "cli_evaluate", "cli_example", "cli_ledger", "cli_regress", "cli_release",
        "cli_sample", "cli_schema", "cli_show", "cli_tables", "cli_text", "console", "declarations", "demo",
        "dummy", "fitting", "notebook", "origin", "outlook", "owners", "parts", "resuming", "reviewing",
        "specification", "synthesis",
    }  # fmt: skip
    assert set(_graph()) <= set(ROOMS) | doors


def test_no_cycle_between_rooms() -> None:
    graph = {room: needs for room, needs in _graph().items() if room != "__init__"}
    seen: set[str] = set()
    while graph.keys() - seen:
        free = {room for room in graph.keys() - seen if graph[room] & graph.keys() <= seen}
        assert free, f"cycle among {sorted(graph.keys() - seen)}"
        seen |= free


@pytest.mark.parametrize("room", ["select", "models", "regression", "report", "tables"])
def test_nothing_beyond_the_door_reaches_back(room: str) -> None:
    graph, reached, todo = _graph(), set(), [room]
    while todo:
        current = todo.pop()
        todo += list(graph.get(current, set()) - reached)
        reached |= graph.get(current, set())
    assert not reached & PRIVATE


def test_exact_counts_are_revealed_only_at_the_door_and_in_evaluation() -> None:
    for path in SRC.rglob("*.py"):
        room = path.relative_to(SRC).parts[0]
        if room not in {"measure", "evaluation"} and path.name != "counts.py":
            assert ".reveal(" not in path.read_text(encoding="utf-8"), path


def test_protocols_hold_no_code() -> None:
    assert _imports(SRC / "protocols.py") == set()


def test_no_room_without_a_subject() -> None:
    names = {path.stem for path in SRC.rglob("*")}
    assert not names & {"utils", "util", "helpers", "common", "misc"}


def test_files_and_functions_stay_small() -> None:
    for path in [*SRC.rglob("*.py"), *Path(__file__).parent.rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 600, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                assert lines <= 60, f"{path}:{node.name} has {lines} lines"
