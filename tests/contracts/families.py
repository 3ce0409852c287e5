"""What a suite goes through: the package's own estimators or strategies, but for named exceptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import margrave.select as room
from margrave.models.registry import FITTERS, resolve

DELEGATING = {
    "auto": "its models are those of pgm and of mixture",
    "compressed": "pgm over fewer codes, see tests/models/test_compressed.py",
    "informed": "auto with public rows of another year, see tests/run/test_public_table.py",
    "conditional_pgm": "pgm with public columns, see tests/run/test_public_columns.py",
}
"""Estimators that fit another one, and where they are tested instead."""
PUBLIC = {
    "gated": "for public columns, see tests/models/test_gated.py",
    "public_auto": "for public columns, see tests/models/test_public_auto.py",
    "public_weights": "for public columns, see tests/faithful/test_vertical_sheet.py",
}
"""Estimators whose columns are mostly given, and where they are tested instead."""


def add_estimators(own: Mapping[str, Any], elsewhere: Mapping[str, str]) -> dict[str, Any]:
    """Estimators by name: those with settings for the suite, then all others as the registry makes them.

    Those that learn from no marginals are left out.

    Args:
        own: With settings for the suite.
        elsewhere: Names that are left out, with the reason or the place of their tests.
    """
    unknown = sorted(set(elsewhere) - set(FITTERS))
    assert not unknown, f"HOMES of models/registry.py has no {unknown}: take them out of the exceptions."
    others = [name for name in FITTERS if name not in own and name not in elsewhere]
    made = {name: resolve(name) for name in others}
    return {**own, **{name: one for name, one in made.items() if "marginals" in one.learns_from}}


def add_strategies(
    own: Mapping[str, Callable[[list[str]], Any]], elsewhere: Sequence[str]
) -> dict[str, Callable[[list[str]], Any]]:
    """Strategies by name, made for names of columns: those with settings, then all others of `select`.

    Those that buy something else than marginals are left out.

    Args:
        own: With settings for the suite, which may be several of a class.
        elsewhere: Names of classes that are left out.
    """
    classes = {name: getattr(room, name) for name in room.__all__ if name != "Strategy"}
    unknown = sorted(set(elsewhere) - set(classes))
    assert not unknown, f"margrave.select has no {unknown}: take them out of the exceptions."
    used = {type(make(["a", "b"])) for make in own.values()}
    others = [
        kind
        for name, kind in classes.items()
        if name not in elsewhere and kind not in used and kind.learns_by == "marginals"
    ]
    return {**own, **{kind.name: lambda names, kind=kind: kind() for kind in others}}
