"""Answer: what one call at the door released, and its bytes, so that a killed run can be resumed.

An answer has left the door: it is public, and keeping it costs nothing. What is still private (the noisy
counts of values that did not pass a threshold, say) is no part of it and must not be put here.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid

__all__ = ["Answer", "answer_from_bytes", "answer_to_bytes"]

_STORED = ("|i1", "<i2", "<i4", "<i8", "<f8")
_WHOLE = 2.0**53
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What one call released.

    Args:
        arrays: Tables of numbers, float64, of any shapes.
        texts: Names of values, where the call releases such.
    """

    arrays: tuple[NDArray[np.float64], ...]
    texts: tuple[str, ...] = ()


def answer_to_bytes(answer: Answer) -> bytes:
    """An answer as bytes, from which `answer_from_bytes` builds an equal one.

    Whole numbers, which noisy counts are, take the smallest integers that hold them.
    """
    arrays = [_narrow(np.asarray(array, dtype=np.float64)) for array in answer.arrays]
    shapes = [[array.dtype.str, list(array.shape)] for array in arrays]
    head = json.dumps({"arrays": shapes, "texts": list(answer.texts)}).encode("ascii")
    return b"".join([_LENGTH.pack(len(head)), head, *(array.tobytes() for array in arrays)])


def answer_from_bytes(data: bytes) -> Answer:
    """The answer that `answer_to_bytes` wrote.

    Raises:
        InputError: The bytes are damaged.
    """
    try:
        (length,) = _LENGTH.unpack_from(data)
        head = json.loads(data[_LENGTH.size : _LENGTH.size + length].decode("ascii"))
        texts = head["texts"]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError
        return Answer(_arrays(data, _LENGTH.size + length, head["arrays"]), tuple(texts))
    except (struct.error, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        remedy = "Count the whole epsilon of its run as spent, and start a new run."
        damaged = InputError(invalid("ledger", "one with intact answers", remedy))
    raise damaged


def _arrays(data: bytes, start: int, shapes: Sequence[Any]) -> tuple[NDArray[np.float64], ...]:
    """The arrays of these dtypes and shapes, which fill the bytes to their end."""
    arrays = []
    for kind, shape in shapes:
        if kind not in _STORED or any(type(size) is not int or size < 0 for size in shape):
            raise ValueError
        cells = math.prod(shape)
        found = np.frombuffer(data, dtype=kind, count=cells, offset=start) if cells else np.zeros(0)
        arrays.append(found.astype(np.float64).reshape(shape))
        start += cells * np.dtype(kind).itemsize
    if start != len(data):
        raise ValueError
    return tuple(arrays)


def _narrow(array: NDArray[np.float64]) -> NDArray[Any]:
    """The array in the smallest stored dtype that holds it exactly."""
    largest = float(np.abs(array).max(initial=0.0))
    if not largest <= _WHOLE or not bool((np.rint(array) == array).all()):
        return array.astype("<f8")
    size = next(size for size in (1, 2, 4, 8) if largest < 2.0 ** (8 * size - 1))
    return array.astype(f"<i{size}")
