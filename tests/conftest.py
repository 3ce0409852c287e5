"""Noise of the fast tier: the same at every run, so that no run fails by the luck of a draw.

Each test and each fixture draws from a generator of its own, begun from its name:
the order of the tests and what ran before change nothing. The slow tier, which tests the noise itself,
keeps the operating system's. MARGRAVE_TEST_NOISE=system has the fast tier draw from it too; a number
instead is another draw of everything.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from typing import Any, TypeAlias, final

import numpy as np
import pytest
from hypothesis import settings

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
    known = CHOICE != "system" and config.option.markexpr == "not slow"
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
