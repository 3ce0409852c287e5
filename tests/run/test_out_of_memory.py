"""A front door that runs out of memory does not say how much was asked for, which holds the row count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.engines import opening
from margrave.run.regressor import Regressor

TABLE = pa.table({"who": ["p", "q"] * 50, "n": list(range(100))})
DOORS: dict[str, Callable[[], Any]] = {
    "fit": lambda: mg.Synthesizer("independent", epsilon=1.0).fit(TABLE),
    "synthesize": lambda: mg.synthesize(TABLE, epsilon=1.0, method="independent"),
    "regress": lambda: Regressor(target="n", epsilon=1.0).fit(TABLE),
    "owner sizes": lambda: mg.owner_sizes(TABLE, "who", epsilon=1.0),
    "slicing": lambda: mg.slicing.release(np.ones((100, 2)), epsilon=1.0, delta=1e-6),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "error",
    [
        MemoryError("shape (123,)"),
        pa.ArrowMemoryError("malloc of size 123"),
        pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes, have 123"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 123 bytes"),
        RuntimeError("CUDA out of memory. Tried to allocate 123 MiB"),
    ],
)
def test_no_size_is_told(door: str, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(opening, "open_source", fail)
    with pytest.raises(MemoryError) as found:
        DOORS[door]()
    assert type(found.value) is MemoryError
    assert str(found.value) == "out of memory"
    assert found.value.__context__ is None
    assert found.value.__cause__ is None


def test_another_error_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no such device")

    monkeypatch.setattr(opening, "open_source", fail)
    with pytest.raises(RuntimeError, match="no such device"):
        DOORS["fit"]()
