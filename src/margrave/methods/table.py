"""The named methods: which strategy goes with which model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from margrave.errors import InputError, invalid
from margrave.select.aim import AIM
from margrave.select.all_kway import AllKWay
from margrave.select.all_pairs import AllPairs
from margrave.select.batched import Batched
from margrave.select.mst import MST

if TYPE_CHECKING:
    from margrave.protocols import Strategy

__all__ = ["METHODS", "Method", "method"]


@dataclass(frozen=True, slots=True)
class Method:
    """A named recipe.

    Args:
        name: The name it is asked for under.
        strategy: Makes the selection strategy.
        fitter: Name of the model family.
        summary: What it is, in a sentence.
        source: Where it comes from.
    """

    name: str
    strategy: Callable[[], Strategy]
    fitter: str
    summary: str
    source: str


METHODS: dict[str, Method] = {
    entry.name: entry
    for entry in (
        Method(
            "auto",
            AllPairs,
            "mixture",
            "Every pair, dependent ones twice; information-regularised mixture of products.",
            "docs/auto.md",
        ),
        Method("aim", AIM, "pgm", "Adaptive choice of marginals, graphical model.", "arXiv 2201.12677"),
        Method(
            "batched",
            Batched,
            "pgm",
            "All pairs appraised at once and bought in a few batches, graphical model.",
            "margrave, after arXiv 2201.12677",
        ),
        Method(
            "mst",
            MST,
            "pgm",
            "One-ways and a private spanning tree of pairs, graphical model.",
            "McKenna, Miklau and Sheldon 2021",
        ),
        Method(
            "independent",
            lambda: AllKWay(degree=1),
            "independent",
            "One-way marginals only; columns independent. A baseline.",
            "folklore",
        ),
    )
}


def method(name: str) -> Method:
    """The method of a name.

    Raises:
        InputError: There is none.
    """
    if name not in METHODS:
        raise InputError(invalid("method", f"one of {sorted(METHODS)}", "Pick one.", got=name))
    return METHODS[name]
