"""Step: what a long run says about itself while it works, and what shows it. Released quantities only."""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

from margrave.html_card import html_card

TICK = 0.5
"""Seconds between two looks at whether something has been told: after two without, it is told again. So a
listener that passes over a step within a second of another still has something to say every two seconds."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a run.

    Args:
        stage: "read", "discover", "measure", "select", "train", "fit" or "sample".
        message: What is happening, in public words.
        round: Rounds finished, from 0.
        spent: Share of the run's rho spent so far, in [0, 1].
        waiting: Seconds since the step was told first, where it is told again because it goes on; else 0.
    """

    stage: str
    message: str
    round: int = 0
    spent: float = 0.0
    waiting: float = 0.0


OnStep = Callable[[Step], None]


def silent(step: Step) -> None:
    """Ignore the step: the default listener."""


@contextmanager
def keep_telling(on_step: OnStep) -> Iterator[OnStep]:
    """A listener for a `with` block that hears something at least every two seconds.

    Steps are passed on as they come. While none comes, the last one is told again from a thread of its own,
    with the seconds that it has taken (`Step.waiting`); two calls never overlap. The time goes to the
    listener alone: nothing of the run may follow from it.

    Args:
        on_step: Told about each step. What it raises ends the run at its next step, or with the block.

    Example:
        >>> heard = []
        >>> with keep_telling(heard.append) as tell:
        ...     tell(Step("fit", "a model"))
        >>> heard
        [Step(stage='fit', message='a model', round=0, spent=0.0, waiting=0.0)]
    """
    if on_step is silent:
        yield silent
        return
    teller = _Teller(on_step)
    thread = threading.Thread(target=teller.repeat, name="margrave-progress", daemon=True)
    thread.start()
    try:
        yield teller.tell
    finally:
        teller.over.set()
        thread.join()
    teller.check()


class _Teller:
    """Passes steps on to a listener, and tells the last one again.

    Args:
        on_step: The listener.
    """

    def __init__(self, on_step: OnStep) -> None:
        self.over = threading.Event()
        self._on_step = on_step
        self._lock = threading.RLock()
        self._latest: Step | None = None
        self._ticks = 0
        self._failure: Exception | None = None

    def tell(self, step: Step) -> None:
        """Pass a step on."""
        with self._lock:
            self.check()
            self._latest, self._ticks = step, 0
            self._on_step(step)

    def repeat(self) -> None:
        """Tell the last step again after each whole tick without another, until it is over."""
        while not self.over.wait(TICK):
            with self._lock:
                self._ticks += 1
                if self._latest is None or self._ticks < 2 or self.over.is_set():
                    continue
                try:
                    self._on_step(dataclasses.replace(self._latest, waiting=self._ticks * TICK))
                except Exception as error:
                    self._failure = error
                    return

    def check(self) -> None:
        """Raise what the listener has raised while a step was told again."""
        if self._failure is not None:
            raise self._failure


UPDATE_SECONDS = 0.2
"""Least time between two updates of a cell: a browser need not keep up with every step."""


@final
class NotebookProgress:
    """A listener for `on_step`: one card a run in a notebook, one line a stage elsewhere.

    Only what a run says about itself is shown, which holds released quantities and public names.
    """

    def __init__(self) -> None:
        self._display: Any = None
        self._stage = ""
        self._shown = 0.0

    def __call__(self, step: Step) -> None:
        """Show a step."""
        last = step.stage == "fit" and step.spent >= 1.0 and step.message == "done"
        show = _notebook_display()
        if show is None:
            if step.stage != self._stage:
                sys.stderr.write(f"{step.stage}: {step.spent:.0%} of the budget spent\n")
        elif last or step.stage != self._stage or time.monotonic() - self._shown > UPDATE_SECONDS:
            self._update(show, step)
        self._stage = "" if last else step.stage
        if last:
            self._display = None

    def _update(self, show: Any, step: Step) -> None:
        card = show.HTML(
            html_card(
                "margrave",
                [
                    ("stage", step.stage),
                    ("doing", step.message),
                    ("rounds done", str(step.round)),
                    ("budget spent", f"{step.spent:.0%}"),
                ],
            )
        )
        self._shown = time.monotonic()
        if self._display is None:
            self._display = show.display(card, display_id=True)
        else:
            self._display.update(card)


def _notebook_display() -> Any:
    """IPython's display module where this process is the kernel of a notebook, else None."""
    module: Any = sys.modules.get("IPython")
    shell = None if module is None else module.get_ipython()
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from importlib import import_module

    return import_module("IPython.display")


show_progress = NotebookProgress()
"""The listener that most notebooks want: `Synthesizer(..., on_step=mg.show_progress)`."""
