"""The import graph shows that there is one door: arrows between rooms only go down."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "margrave"
PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
BELOW_RUN = {
    "archive", "engines", "errors", "evaluation", "extensions", "files", "html_card", "limits", "measure",
    "methods", "models", "privacy", "progress", "regression", "release", "report", "schema", "select",
    "tables",
}  # fmt: skip
ROOMS = {
    "errors": set(),
    "extensions": {"errors"},
    "entropy": set(),
    "html_card": set(),
    "progress": {"html_card"},
    "limits": {"errors"},
    "protocols": set(),
    "files": {"errors", "schema"},
    "schema": {"errors", "extensions"},
    "privacy": {"entropy", "errors"},
    "release": {"errors", "html_card", "schema", "privacy"},
    "engines": {"entropy", "errors", "limits", "schema"},
    "measure": {"errors", "limits", "progress", "schema", "privacy", "release"},
    "smoothing": {"release"},
    "select": {"errors", "limits", "progress", "schema", "release", "smoothing"},
    "models": {"errors", "extensions", "limits", "schema", "release", "smoothing"},
    "methods": {"errors", "extensions", "select", "models"},
    "evaluation": {"errors", "extensions", "schema"},
    "report": {"errors", "schema", "privacy", "release", "evaluation", "images"},
    "datasets": {"errors"},
    "images": {"errors", "files", "schema"},
    "regression": {"archive", "errors", "files", "limits", "models", "release", "schema", "tables"},
    "tables": {"archive", "errors", "files", "models", "release", "schema"},
    "archive": {"errors", "files", "privacy", "release", "schema"},
    "run": BELOW_RUN | {"protocols"},
    "auditing": BELOW_RUN | {"run"},
    "benchmark": BELOW_RUN | {"datasets", "run"},
    "cli": BELOW_RUN | {"auditing", "benchmark", "datasets", "images", "run"},
}
"""What each room may import of the others; the front doors `__init__` and `__main__` may import all."""

PICTURES = {"html", "pictures", "triangle"}
SHARED = {"_base", "_sampling", "_grouping", "_wide_pairs", "_torch", "_mixture", "_products"}
INSIDE: dict[str, dict[str, set[str]]] = {
    "privacy": {
        "unit": set(),
        "noise": set(),
        "accounting": {"unit"},
        "ledger": {"accounting", "noise", "unit"},
    },
    "measure": {
        "mechanisms": set(),
        "public": set(),
        "binding": set(),
        "discovery": {"mechanisms"},
        "door": {"binding", "discovery", "mechanisms", "public"},
        "curator": {"door", "mechanisms"},
    },
    "models": {
        "registry": {"_base"},
        "_base": set(),
        "_sampling": {"_base"},
        "_torch": {"_base", "_sampling"},
        "_wide_pairs": {"_base"},
        "_grouping": {"_base", "_sampling"},
        "_mixture": {"_base", "_grouping", "_sampling", "_wide_pairs"},
        "_determined": {"_base", "_sampling"},
        "_structural": {"_base", "_determined"},
        "_products": {"_base", "_grouping", "_mixture", "_torch"},
        "pgm": SHARED - {"_mixture", "_products"},
        "mixture": SHARED - {"_products"},
        "rowwise": SHARED - {"_mixture", "_products"},
        "independent": SHARED | {"pgm"},
        "compressed": SHARED | {"pgm"},
        "auto": SHARED | {"_determined", "_structural", "mixture", "pgm"},
        "gated": SHARED - {"_products"} | {"_determined", "_structural", "registry"},
        "informed": SHARED | {"registry"},
        "public_weights": SHARED - {"_products"},
    },
    "report": {
        "html": set(),
        "pictures": {"html"},
        "triangle": {"html"},
        "release": PICTURES,
        "comparison": PICTURES | {"release"},
    },
}
"""What the parts of a room may import of each other. A family of models in another's set is a debt: what two
families need belongs into a part that begins with an underscore, and no new family may import another. A
family that is not named here may import all parts that begin with one, and the registry, by which it finds
another family to fit: a new one needs no line."""

PRIVATE = {"engines", "measure"}


@functools.cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def _trees_are_thrown_away() -> Iterator[None]:
    """Millions of objects, which the garbage collector would go through at every other test."""
    yield
    _parse.cache_clear()


def _imports(path: Path, room: str = "") -> set[str]:
    """Rooms a file imports at run time, or parts of one room; those under TYPE_CHECKING are left out."""
    tree = _parse(path)
    skipped = {
        node
        for branch in tree.body
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for inner in branch.body
        for node in ast.walk(inner)
    }
    before = ["margrave", room] if room else ["margrave"]
    names = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            found = [f"{node.module}.{alias.name}".split(".") for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [alias.name.split(".") for alias in node.names]
        else:
            continue
        names |= {name[len(before)] for name in found if name[: len(before)] == before and name != before}
    return names - {"__version__"}


@functools.cache
def _graph(src: Path = SRC, room: str = "") -> dict[str, set[str]]:
    """What the rooms of `src` import of each other, or the parts of one room of each other."""
    graph: dict[str, set[str]] = {}
    for path in (src / room).rglob("*.py"):
        part = path.relative_to(src / room).parts[0].removesuffix(".py")
        graph.setdefault(part, set()).update(_imports(path, room) - {part})
    return graph


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_room_imports_only_what_the_house_allows(room: str) -> None:
    assert _graph().get(room, set()) <= ROOMS[room]


def test_every_room_has_a_rule_or_is_a_front_door() -> None:
    assert set(_graph()) == set(ROOMS) | {"__init__", "__main__"}


@pytest.mark.parametrize("room", sorted(INSIDE))
def test_a_part_of_a_room_imports_only_what_the_room_allows(room: str) -> None:
    graph = {part: needs for part, needs in _graph(room=room).items() if part != "__init__"}
    unnamed = set(graph) - set(INSIDE[room]) if room == "models" else set()
    families = {part for part in unnamed if not part.startswith("_")}
    assert set(graph) - families == set(INSIDE[room])
    for part, needs in graph.items():
        assert needs <= (SHARED | {"registry"} if part in families else INSIDE[room][part]), part


@pytest.mark.parametrize("room", ["", *sorted(INSIDE)])
def test_no_cycle_between_rooms_or_parts_of_one(room: str) -> None:
    graph = {part: needs for part, needs in _graph(room=room).items() if part != "__init__"}
    seen: set[str] = set()
    while graph.keys() - seen:
        free = {part for part in graph.keys() - seen if graph[part] & graph.keys() <= seen}
        assert free, f"cycle among {sorted(graph.keys() - seen)}"
        seen |= free


@pytest.mark.parametrize(
    ("room", "line", "forbidden"),
    [
        ("select", "from margrave.measure.curator import Curator", "measure"),
        ("models", "from margrave import engines", "engines"),
        ("report", "import margrave.measure.curator", "measure"),
        ("run", "    from margrave.cli.app import main", "cli"),
    ],
)
def test_a_forbidden_import_is_seen(room: str, line: str, forbidden: str, tmp_path: Path) -> None:
    (tmp_path / room).mkdir()
    (tmp_path / room / "file.py").write_text(f"def find() -> None:\n    {line.strip()}\n", encoding="utf-8")
    assert _graph(tmp_path) == {room: {forbidden}}
    assert forbidden not in ROOMS[room]


def test_a_family_that_imports_another_is_seen(tmp_path: Path) -> None:
    (tmp_path / "models" / "rowwise").mkdir(parents=True)
    line = "from margrave.models.pgm.fitter import PGM\n"
    (tmp_path / "models" / "rowwise" / "gum.py").write_text(line, encoding="utf-8")
    assert _graph(tmp_path, "models") == {"rowwise": {"pgm"}}
    assert "pgm" not in INSIDE["models"]["rowwise"]


def _drawn(page: str) -> set[str]:
    """Modules and packages in the tree that the page draws, each by its path below margrave."""
    block = page.split("src/margrave/\n")[1].split("```")[0]
    folders: list[str] = []
    found = set()
    for line in block.splitlines():
        word = line.split()[0]
        depth = (len(line) - len(line.lstrip())) // 2
        folders[depth - 1 :] = [word.rstrip("/")]
        found.add("/".join(folders))
    return found


def test_the_page_draws_the_tree_as_it_is() -> None:
    drawn = _drawn(PAGE.read_text(encoding="utf-8"))
    packages = {path.parent.relative_to(SRC).as_posix() for path in SRC.rglob("__init__.py")} - {"."}
    assert drawn == packages | {path.name for path in SRC.glob("*.py")}


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


def test_public_columns_are_read_by_one_path() -> None:
    """Only the curator makes a `PublicPart`, and rows are asked for there alone."""
    users = {
        path.relative_to(SRC).as_posix()
        for path in SRC.rglob("*.py")
        if "margrave.measure.public import" in path.read_text(encoding="utf-8")
    }
    assert users == {"measure/door.py", "run/public.py"}
    assert "if TYPE_CHECKING" in (SRC / "run" / "public.py").read_text(encoding="utf-8")
    asked = {
        path.relative_to(SRC).as_posix() for path in SRC.rglob("*.py") if ".read_rows(" in path.read_text()
    }
    assert asked == {"measure/public.py"}


def test_folders_stay_small() -> None:
    for folder in {path.parent for path in SRC.rglob("*.py")}:
        names = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
        most = 12 if folder == SRC else 15
        assert len(names) <= most, (
            f"{folder} has more than {most} modules: give those of one subject a folder"
        )


def test_protocols_hold_no_code() -> None:
    for path in (SRC / "protocols").glob("*.py"):
        assert _imports(path) <= {"protocols"}, path
        assert path.name == "__init__.py" or not _imports(path)


def test_no_room_without_a_subject() -> None:
    names = {path.stem for path in SRC.rglob("*")}
    assert not names & {"utils", "util", "helpers", "common", "misc"}


def test_files_and_functions_stay_small() -> None:
    for path in [*SRC.rglob("*.py"), *Path(__file__).parent.rglob("*.py")]:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 600, path
        tree = _parse(path) if path.is_relative_to(SRC) else ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                assert lines <= 60, f"{path}:{node.name} has {lines} lines"


def test_a_module_that_can_be_run_is_whole_before_it_begins() -> None:
    """What follows `if __name__ == "__main__"` in a file is not there yet when the program begins."""
    for path in SRC.rglob("*.py"):
        body = _parse(path).body
        starts = [
            i
            for i, node in enumerate(body)
            if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)
        ]
        assert all(place == len(body) - 1 for place in starts), path.name
