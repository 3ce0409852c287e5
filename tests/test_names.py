"""Functions are verbs: no bare participle names a function, but a property may say what is so."""

from __future__ import annotations

import ast
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
        "coded",
        "damaged",
        "denoised",
        "descended",
        "determined",
        "drawn",
        "eliminated",
        "encoded",
        "finished",
        "fitted",
        "fitting",
        "found",
        "gated",
        "generated",
        "held",
        "kept",
        "measured",
        "mixed",
        "moved",
        "pooled",
        "reading",
        "settled",
        "solved",
        "spelt",
        "standing",
        "suggested",
        "summed",
        "told",
        "turned",
    ]
)
"""Names from before this law. The list may only become shorter."""


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
    assert _bare_participles() <= EXCEPTIONS


def test_exceptions_that_are_gone_are_taken_off_the_list() -> None:
    assert _bare_participles() >= EXCEPTIONS
