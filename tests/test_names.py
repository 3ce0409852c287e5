"""Functions are verbs: no bare participle names a function, but a property may say what is so."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import margrave

SRC = Path(margrave.__file__).parent
ENDING = re.compile(r"(ed|ing)$")
IRREGULAR = frozenset(
    [
        "told",
        "held",
        "kept",
        "found",
        "drawn",
        "known",
        "shown",
        "seen",
        "spent",
        "spelt",
        "left",
        "made",
        "given",
        "chosen",
    ]
)
VERBS = frozenset(["embed", "need", "seed", "bring", "feed", "speed", "string", "exceed", "proceed"])
"""Words that end alike and are verbs or nouns."""
EXCEPTIONS = frozenset(
    [
        "damaged",
        "denoised",
        "descended",
        "encoded",
        "finished",
        "gated",
        "generated",
        "held",
        "kept",
        "mixed",
        "moved",
        "pooled",
        "solved",
        "standing",
        "suggested",
        "summed",
        "told",
    ]
)
"""Names from before this law. The list may only become shorter."""


@functools.cache
def _bare_participles() -> set[str]:
    found = set()
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                name = node.name.strip("_")
                is_property = any("property" in ast.unparse(one) for one in node.decorator_list)
                if "_" in name or name in VERBS or is_property:
                    continue
                if name in IRREGULAR or ENDING.search(name):
                    found.add(name)
    return found


def test_no_function_is_named_by_a_bare_participle() -> None:
    new = sorted(_bare_participles() - EXCEPTIONS)
    assert not new, f"functions are verbs (CONTRIBUTING.md): give {new} names that say what they do"


def test_exceptions_that_are_gone_are_taken_off_the_list() -> None:
    gone = sorted(EXCEPTIONS - _bare_participles())
    assert not gone, f"take {gone} off EXCEPTIONS in {__file__}"


HEADED = re.compile(r"(\w+): ")


def _names_of_what_is_gone() -> set[str]:
    """What docstrings of modules introduce as `Name: ...` behind their first paragraph, and do not hold."""
    found = set()
    for path in SRC.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        introduction = ast.get_docstring(ast.parse(text)) or ""
        code = text[text.index('"""', 3) :]
        for part in introduction.split("\n\n")[1:]:
            head = HEADED.match(part)
            if head and head[1] not in ("Source", "Sources") and not re.search(rf"\b{head[1]}\b", code):
                found.add(f"{path.relative_to(SRC).as_posix()}: {head[1]}")
    return found


def test_a_module_introduces_what_it_holds() -> None:
    """Modules that were merged are introduced in sentences, not by the first lines of what they were."""
    assert not _names_of_what_is_gone()
