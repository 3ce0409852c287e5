"""Every error margrave raises on purpose.

    MargraveError
    ├── InputError            (ValueError)    an argument, table or file that cannot be used
    │   └── SchemaError                       a schema that contradicts itself or the table
    ├── BudgetError           (RuntimeError)  a spend that would pass the declared (epsilon, delta)
    ├── UnsupportedEventError (TypeError)     a spend whose cost is not known: refused
    ├── ReleaseError          (ValueError)    a release file that is damaged or too new
    └── MissingExtraError     (ImportError)   an optional dependency, with the command that installs it

Messages follow one grammar, built by `invalid`: which parameter, which constraint, what to do.
They never hold a value taken from the private table; a category in a message is a leak.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

__all__ = [
    "BudgetError",
    "InputError",
    "MargraveError",
    "MissingExtraError",
    "NotPrivateWarning",
    "PlanWarning",
    "ReleaseError",
    "SchemaError",
    "UnsupportedEventError",
    "check_counts",
    "hide_sizes",
    "invalid",
    "locate_error",
]


class MargraveError(Exception):
    """Base of all errors raised on purpose by this package."""


class InputError(MargraveError, ValueError):
    """An argument, table or file that cannot be used as given."""


class SchemaError(InputError):
    """A schema that contradicts itself or the table it should describe."""


class BudgetError(MargraveError, RuntimeError):
    """A spend that would pass the declared privacy budget; nothing was released."""


class UnsupportedEventError(MargraveError, TypeError):
    """A spend whose cost the accountant cannot bound; it fails closed."""


class ReleaseError(MargraveError, ValueError):
    """A release file that is damaged, incomplete or written by a newer version."""


class MissingExtraError(MargraveError, ImportError):
    """An optional dependency that is not installed."""


class NotPrivateWarning(UserWarning):
    """Rows were drawn from a test run, whose noise comes from a seed: they are not private."""


class PlanWarning(UserWarning):
    """A run takes very long, has no time for its model, or repeats one that could be resumed; nothing is
    spent before it is said."""


def locate_error(error: BaseException) -> str:
    """Where in the code an error was raised, as " at file.py:12"; empty if unknown. It quotes no message."""
    trace = traceback.extract_tb(error.__traceback__)
    return f" at {Path(trace[-1].filename).name}:{trace[-1].lineno}" if trace else ""


Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


def hide_sizes(call: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """The call, whose errors about memory say nothing of how much was asked for.

    NumPy names the shape that did not fit, Arrow and PyTorch the number of bytes, which hold the number of
    rows; PyTorch's is a RuntimeError, and Arrow has one for arrays that are too long for their type. The new
    error is raised once the old one has been left, so that it has no context that quotes it.

    Raises:
        MemoryError: The call ran out of memory.

    Example:
        >>> hide_sizes(len)("abc")
        3
    """

    @functools.wraps(call)
    def run_call(*args: Arguments.args, **named: Arguments.kwargs) -> Returned:
        try:
            return call(*args, **named)
        except Exception as error:
            if not _tells_a_size(error):
                raise
        raise MemoryError("out of memory")

    return run_call


def _tells_a_size(error: Exception) -> bool:
    if isinstance(error, RuntimeError):
        return "allocate" in str(error)
    # By its name, since whoever raised it has imported Arrow and nobody else has to.
    return isinstance(error, MemoryError) or type(error).__name__ == "ArrowCapacityError"


_NOTHING = object()


def invalid(param: str, constraint: str, remedy: str, *, got: object = _NOTHING) -> str:
    """The one sentence every argument error says.

    Args:
        param: The parameter as the caller spelt it.
        constraint: What it must be, as in "a finite number above 0".
        remedy: What the caller can do about it, a whole sentence.
        got: The offending value. Pass it only when the caller typed it: never a value of the table.

    Example:
        >>> invalid("epsilon", "a finite number above 0", "Try epsilon=1.0.", got=0)
        'epsilon must be a finite number above 0, got 0. Try epsilon=1.0.'
    """
    shown = "" if got is _NOTHING else f", got {got!r}"
    return f"{param} must be {constraint}{shown}. {remedy}"


def check_counts(**values: int | None) -> None:
    """Check that numbers of things are at least 1, by the name of their parameter; None is left out.

    Raises:
        InputError: One is not.

    Example:
        >>> check_counts(steps=3, rows=None)
    """
    for param, value in values.items():
        if value is not None and value < 1:
            raise InputError(invalid(param, "at least 1", "Try the default.", got=value))
