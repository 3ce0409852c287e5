"""What some tests need beyond what `make test` installs, whether it is here, and how to get it.

A test that needs an optional part of margrave says so with `@pytest.mark.needs_extra("torch")`; one that
compares with another library says so with `@pytest.mark.oracle("sdmetrics")`. The markers do the skipping
(`tests/conftest.py`), so that `pytest -m needs_extra` runs all that an installation without extras skips.
A test whose parameter `engine` names an engine that has an extra is marked by that.
Nothing else may skip a test, except for what a machine is: such a reason begins with THIS_MACHINE.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

__all__ = [
    "ENGINES",
    "EXTRAS",
    "REQUIRED",
    "THIS_MACHINE",
    "absence",
    "import_extra",
    "needed_by",
    "oracle_absence",
    "postgres_folder",
]

REQUIRED = bool(os.environ.get("MARGRAVE_REQUIRE_EXTRAS"))
"""Whether a missing extra fails the tests that need it, as in continuous integration."""
THIS_MACHINE = "this machine "
"""How the reason of a skip begins that no installation of a package would undo."""


@dataclass(frozen=True, slots=True)
class Extra:
    """An optional part of margrave.

    Args:
        install: The extra that installs its packages.
        modules: What those packages are imported as.
        programs: Programs that have to be installed beside them.
    """

    install: str
    modules: tuple[str, ...]
    programs: tuple[str, ...] = ()


EXTRAS = {
    "torch": Extra("margrave[gpu]", ("torch",)),
    "ibis": Extra("margrave[ibis]", ("ibis", "sqlglot")),
    "spark": Extra("margrave[spark]", ("ibis", "pyspark"), ("java",)),
    "postgres": Extra("margrave[postgres]", ("ibis", "psycopg"), ("postgres",)),
    "docs": Extra("margrave[docs]", ("mkdocs", "material", "mkdocstrings")),
    "boost": Extra("margrave[boost]", ("catboost", "xgboost")),
}
"""Every name that the marker `needs_extra` takes."""

ENGINES = {"ibis-duckdb": "ibis", "postgres": "postgres", "spark": "spark"}
"""The extra of each engine that has one: a test needs it if its parameter `engine` begins with the name."""


def absence(name: str) -> str | None:
    """Why an extra cannot be used here; None where it can.

    Raises:
        KeyError: There is no such extra.
    """
    extra = EXTRAS[name]
    for module in extra.modules:
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed: pip install '{extra.install}'"
    for program in extra.programs:
        if (postgres_folder() if program == "postgres" else shutil.which(program)) is None:
            return f"the program {program} is not installed"
    return None


def oracle_absence(module: str) -> str | None:
    """Why a library to compare with cannot be used here; None where it can."""
    found = importlib.util.find_spec(module.partition(".")[0])
    return f"{module} is not installed, a library to compare with" if found is None else None


_IMPORTED: dict[str, str] = {}
"""The extra that a test module was imported with, by the module's name."""


def import_extra(name: str, module: str) -> Any:
    """The first package of an extra, for a test module that cannot be imported without it.

    All tests of the module get the marker `needs_extra`. Where the extra is missing the module is skipped,
    or fails if extras are required.

    Args:
        name: The extra.
        module: The `__name__` of the test module.
    """
    _IMPORTED[module] = name
    reason = absence(name)
    if reason is None:
        return importlib.import_module(EXTRAS[name].modules[0])
    if REQUIRED:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason, allow_module_level=True)


def needed_by(test: pytest.Function) -> list[str]:
    """The extras that a test needs without a marker of its own: its module's, and that of its engine."""
    found = [_IMPORTED[test.module.__name__]] if test.module.__name__ in _IMPORTED else []
    call = getattr(test, "callspec", None)  # only a test with parameters has one
    engine = "" if call is None else str(call.params.get("engine", ""))
    return [*found, *(extra for name, extra in ENGINES.items() if engine.startswith(name))]


def postgres_folder() -> Path | None:
    """The folder of PostgreSQL's programs, where there is one."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    named = shutil.which("postgres")
    if found:
        return found[-1].parent
    return None if named is None else Path(named).parent
