"""The rules for skipping: a missing extra skips what is marked, and fails it where extras are required."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import extras

TESTS = Path(__file__).parent
MODULE = """
import os
import pytest
from margrave import entropy

@pytest.mark.needs_extra("nowhere")
def test_marked():
    raise AssertionError("it ran without its extra")

@pytest.mark.oracle("nowhere_to_be_found")
def test_compares():
    raise AssertionError("it ran without its oracle")

def test_imports_by_itself():
    pytest.importorskip("nowhere_to_be_found")

@pytest.mark.needs_extra("here")
def test_marked_for_another_extra():
    pytest.skip("nowhere_to_be_found is not installed")

def test_machine():
    pytest.skip("this machine has no wings")

def test_threads():
    assert os.environ["OMP_NUM_THREADS"] == os.environ["NUMBA_NUM_THREADS"] == "1"

def test_kernels():
    assert os.environ["NUMBA_CACHE_DIR"].endswith("gw7")

def test_noise():
    assert entropy.system_bytes.__module__ == "conftest"
"""
PLUGIN = """
import extras
extras.EXTRAS["nowhere"] = extras.Extra("margrave[nowhere]", ("nowhere_to_be_found",))
extras.EXTRAS["here"] = extras.Extra("margrave[here]", ("sys",))
extras.ENGINES["one"] = "nowhere"
"""
WHOLE = """
from extras import import_extra
nowhere = import_extra("nowhere", __name__)

def test_one():
    pass
"""
ENGINES = """
import pytest

@pytest.mark.parametrize("engine", ["memory", "one", "one-again"])
def test_engine(engine):
    pass
"""
ITSELF = """
import pytest
pytest.importorskip("nowhere_to_be_found")
"""


def _outcomes(folder: Path, *options: str, **env: str) -> dict[str, str]:
    """The outcome of each test in files of a folder, and of files that have none, in a pytest of its own."""
    (folder / "named_extras.py").write_text(PLUGIN, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "named_extras",
        "-p",
        "conftest",
        "-p",
        "no:cacheprovider",
    ]
    command += [
        "-c",
        str(TESTS.parent / "pyproject.toml"),
        "--rootdir",
        str(folder),
        "-rA",
        "--no-fold-skipped",
    ]
    command += options
    path = os.pathsep.join([str(folder), str(TESTS), os.environ.get("PYTHONPATH", "")])
    ours = re.compile("MARGRAVE_|PYTEST_|NUMBA_|.*_THREADS$")
    plain = {name: value for name, value in os.environ.items() if not ours.match(name)}
    done = subprocess.run(
        [*command, str(folder)], env=plain | {"PYTHONPATH": path} | env, capture_output=True, text=True
    )
    lines = re.findall(r"^(PASSED|FAILED|ERROR|SKIPPED) (\S+)", done.stdout, re.MULTILINE)
    assert lines, done.stdout + done.stderr
    return {re.split("/|::", place)[-1]: outcome for outcome, place in lines}


def test_only_what_is_marked_may_skip(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(MODULE, encoding="utf-8")
    found = _outcomes(tmp_path, PYTEST_XDIST_WORKER="gw7")
    assert found == {
        "test_marked": "SKIPPED",
        "test_compares": "SKIPPED",
        "test_machine": "SKIPPED",
        "test_imports_by_itself": "FAILED",
        "test_marked_for_another_extra": "FAILED",
        "test_threads": "PASSED",
        "test_kernels": "PASSED",
        "test_noise": "PASSED",
    }


def test_the_second_pass_runs_what_is_marked_and_fails_it_without_its_extra(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(MODULE, encoding="utf-8")
    found = _outcomes(tmp_path, "-m", "needs_extra and not slow", MARGRAVE_REQUIRE_EXTRAS="1")
    assert found == {"test_marked": "ERROR", "test_marked_for_another_extra": "FAILED"}


@pytest.mark.parametrize(
    ("text", "required", "outcome"), [(WHOLE, "", "SKIPPED"), (WHOLE, "1", "ERROR"), (ITSELF, "", "ERROR")]
)
def test_a_module_skips_as_a_whole_for_an_extra_only(
    text: str, required: str, outcome: str, tmp_path: Path
) -> None:
    (tmp_path / "test_whole.py").write_text(text, encoding="utf-8")
    (tmp_path / "test_other.py").write_text("def test_other():\n    pass\n", encoding="utf-8")
    found = _outcomes(tmp_path, MARGRAVE_REQUIRE_EXTRAS=required)
    assert found["test_whole.py"] == outcome


def test_a_module_and_an_engine_mark_the_tests_that_need_their_extra(tmp_path: Path) -> None:
    (tmp_path / "test_whole.py").write_text(WHOLE.replace('"nowhere"', '"here"'), encoding="utf-8")
    (tmp_path / "test_engines.py").write_text(ENGINES, encoding="utf-8")
    found = _outcomes(tmp_path, "-m", "needs_extra and not slow")
    assert found == {"test_one": "PASSED", "test_engine[one]": "SKIPPED", "test_engine[one-again]": "SKIPPED"}


@pytest.mark.parametrize("name", extras.EXTRAS)
def test_an_extra_is_there_or_says_what_is_missing(name: str) -> None:
    reason = extras.absence(name)
    assert reason is None or "is not installed" in reason
