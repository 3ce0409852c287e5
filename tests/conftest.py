"""Threads, caches, noise and skipped tests.

**Threads.** One for every library that would start as many as there are cores: threads that wait for each
other spin, and on a machine with other work a test then takes many times as long. Processes that tests start
inherit it.

**Noise of the fast tier**: the same at every run, so that no run fails by the luck of a draw. Each test and
each fixture draws from a generator of its own, begun from its name: the order of the tests, what ran before
and how many processes share the tests change nothing. The slow tier, which tests the noise itself, keeps the
operating system's. MARGRAVE_TEST_NOISE=system has the fast tier draw from it too; a number instead is another
draw of everything.

**Skipped tests.** The markers `needs_extra` and `oracle` skip a test whose library is not installed; see
`extras`. A test that skips in another way fails, so that no test is left out of every run unseen. With
MARGRAVE_REQUIRE_EXTRAS=1 a missing extra fails the tests that need it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeAlias, final

# Libraries read these when they are loaded, so they are set before the first import of one.
os.environ |= dict.fromkeys(
    (
        "MKL_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "POLARS_MAX_THREADS",
        "RAYON_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ),
    "1",
)
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    # Processes that save kernels in one cache at once may mix up each other's: each has a cache of its own,
    # begun with what `make test` has compiled before.
    kernels = Path(__file__).parents[1] / ".pytest_cache" / "kernels"
    if (kernels / "first").is_dir() and not (kernels / worker).is_dir():
        shutil.copytree(kernels / "first", kernels / worker)
    os.environ["NUMBA_CACHE_DIR"] = str(kernels / worker)

import numpy as np
import pytest
from hypothesis import settings

import extras
from margrave import entropy

Began: TypeAlias = Generator[None, Any, Any]
CHOICE = os.environ.get("MARGRAVE_TEST_NOISE", "0")


@final
class Noise:
    """Stands where the operating system's bytes are asked for."""

    def __init__(self) -> None:
        self.begin("")
        self._process = os.getpid()

    def begin(self, name: str) -> None:
        digest = hashlib.sha256(f"{CHOICE} {name}".encode()).digest()
        self._generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))

    def system_bytes(self, size: int) -> bytes:
        # A forked child would draw its parent's bytes again.
        return self._generator.bytes(size) if os.getpid() == self._process else os.urandom(size)


NOISE = Noise()


def pytest_configure(config: pytest.Config) -> None:
    known = CHOICE != "system" and "not slow" in config.option.markexpr
    if known:
        entropy.system_bytes = NOISE.system_bytes
    # No deadline: a busy machine is no failure.
    settings.register_profile("margrave", derandomize=known, deadline=None)
    settings.load_profile("margrave")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Began:
    NOISE.begin(f"{request.node.nodeid} {fixturedef.argname} {getattr(request, 'param_index', 0)}")
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Began:
    NOISE.begin(item.nodeid)
    return (yield)


@pytest.fixture(autouse=True)
def few_reference_rows(request: pytest.FixtureRequest) -> None:
    """Fast tests of whole runs fit refined attributes on an eighth of the rows of the mixture.

    What a run buys, spends, keeps and says does not hang on it; how good its model is, is asked elsewhere.
    """
    room = request.path.parent.name
    if room in ("run", "regression", "cli") and not request.node.get_closest_marker("slow"):
        patch = request.getfixturevalue("monkeypatch")
        patch.setattr("margrave.models._mixture.refinements.MIN_SAMPLE_ROWS", 1 << 13)


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item, pytest.Function):
        for name in extras.needed_by(item):
            item.add_marker(pytest.mark.needs_extra(name))


def _absences(item: pytest.Item, marker: str, absence: Callable[[str], str | None]) -> list[str]:
    """Why what a test names with a marker cannot be used here, where that is so."""
    named = [name for mark in item.iter_markers(marker) for name in mark.args]
    return [reason for name in named if (reason := absence(name))]


def pytest_runtest_setup(item: pytest.Item) -> None:
    for reason in _absences(item, "needs_extra", extras.absence):
        if extras.REQUIRED:
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    for reason in _absences(item, "oracle", extras.oracle_absence):
        pytest.skip(reason)


def _is_declared(item: pytest.Item, reason: str) -> bool:
    """Whether a marker of the test, or the machine, accounts for a skip."""
    return (
        reason.startswith(extras.THIS_MACHINE)
        or reason in _absences(item, "needs_extra", extras.absence)
        or reason in _absences(item, "oracle", extras.oracle_absence)
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    raised = None if call.excinfo is None else call.excinfo.value
    if isinstance(raised, pytest.skip.Exception) and not _is_declared(item, str(raised.msg)):
        report.outcome = "failed"
        report.longrepr = f"skipped without the marker needs_extra or oracle: {raised.msg}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    report = yield
    declared = {f"Skipped: {extras.absence(name)}" for name in extras.EXTRAS}
    if report.outcome == "skipped" and report.longrepr[2] not in declared:
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} skips itself without extras.import_extra"
    return report
