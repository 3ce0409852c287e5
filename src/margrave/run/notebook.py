"""show_progress: what a run says about itself, in a notebook's cell or on a terminal."""

from __future__ import annotations

import sys
import time
from typing import Any, final

from margrave.html_card import html_card
from margrave.progress import Step

SECONDS = 0.2
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
        elif last or step.stage != self._stage or time.monotonic() - self._shown > SECONDS:
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
