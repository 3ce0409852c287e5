"""What an ibis expression gives, and nothing of what its backend says about it. Not private."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from margrave.engines.batches import guarded

__all__ = ["fetched", "quiet"]


def quiet(run: Callable[[], Any], constraint: str) -> Any:
    """What run returns; backends' errors and warnings quote values, so neither is passed on.

    Raises:
        InputError: It raised.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return guarded(run, constraint)


def fetched(expression: Any) -> Any:
    """The rows of an ibis table expression as a pyarrow.Table. **Not private.**

    Raises:
        InputError: The backend could not give them.
    """
    return quiet(expression.to_pyarrow, "a table that its backend can count")
