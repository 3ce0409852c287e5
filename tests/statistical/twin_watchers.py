"""Stands for tables, rows, learners and teachers of a run, and tells the audit what is read of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from margrave.schema.encoded import Encoded

__all__ = ["WatchedEnsemble", "WatchedLearner", "WatchedTable", "watched_rows"]

PUBLIC = frozenset({"columns", "comparable", "holds_rows", "domain"})
"""What the protocols of tables call public."""
TABLES = frozenset({"only", "bounded", "bind", "read_as"})
"""What gives another table, or the same one encoded."""


class WatchedTable:
    """A `Source` or an `Engine` whose answers are noted where no event pays for them."""

    def __init__(self, inner: Any, door: Any) -> None:
        self._inner, self._door = inner, door

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in PUBLIC:
            return found
        if callable(found):
            return self._noted(name, found)
        if isinstance(found, Encoded):
            return watched_rows(found, self._door)
        self._door.read(name, (), found)
        return found

    def _noted(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **more: Any) -> Any:
            try:
                found = method(*args, **more)
            except Exception as error:
                self._door.read(name, (args, more), f"{type(error).__name__}: {error}")
                raise
            self._door.read(name, (args, more), "a table" if name in TABLES else found)
            return WatchedTable(found, self._door) if name in TABLES else found

        return called

    def __repr__(self) -> str:
        return repr(self._inner)


def watched_rows(rows: Encoded, door: Any) -> Encoded:
    """Rows as codes, whose columns are noted when they are read where no event pays for it."""
    ready = False

    class Rows(Encoded):
        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            if ready and name in ("columns", "rows", "column"):
                door.read(name, (), rows.columns)
            return found

    found = Rows(rows.domain, rows.columns)
    ready = True
    return found


class WatchedLearner:
    """A `Learner` that goes along the noisy sums of the first run, and whose exact sums are noted."""

    def __init__(self, inner: Any, door: Any) -> None:
        self._inner, self._door, self._step = inner, door, 0
        self.shapes, self.uniforms = inner.shapes, inner.uniforms

    def start(self) -> Any:
        self._step = 0
        return self._inner.start()

    def factors(self, state: Any, codes: Any, uniform: Any) -> Any:
        question = self._door.tape.questions[-1]
        if self._door.stage == "measuring":
            question.taken += [0] * (self._step + 1 - len(question.taken))
            question.taken[self._step] += len(codes)
        return self._inner.factors(state, codes, uniform)

    def moved(self, state: Any, gradients: Any) -> Any:
        question = self._door.tape.questions[-1]
        if self._door.stage == "drawing":
            question.path.append([np.array(part) for part in gradients])
        else:
            question.sums.append([np.array(part) for part in gradients])
            gradients = question.path[self._step]
        self._step += 1
        return self._inner.moved(state, gradients)

    def finished(self, state: Any) -> Any:
        return self._inner.finished(state)


class WatchedEnsemble:
    """An `Ensemble` that goes along the noisy votes of the first run, and whose exact votes are noted."""

    def __init__(self, inner: Any, door: Any) -> None:
        self._inner, self._door, self._round = inner, door, 0
        self.questions, self.shown, self.uniforms = inner.questions, inner.shown, inner.uniforms

    def start(self) -> Any:
        self._round = 0
        return self._inner.start()

    def hire(self, place: int) -> Any:
        return self._inner.hire(place)

    def taught(self, state: Any, teacher: Any, codes: Any, uniform: Any) -> Any:
        return self._inner.taught(state, teacher, codes, uniform)

    def moved(self, state: Any, counts: Any, sigma: float) -> Any:
        question = self._door.tape.questions[-1]
        if self._door.stage == "drawing":
            question.path.append([np.array(counts)])
        else:
            question.sums.append([np.array(counts)])
            (counts,) = question.path[self._round]
        self._round += 1
        return self._inner.moved(state, counts, sigma)

    def finished(self, state: Any) -> Any:
        return self._inner.finished(state)
