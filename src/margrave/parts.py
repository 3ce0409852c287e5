"""The strategy and the fitter of a run, with what the run's arguments add to them: a target, limits."""

from __future__ import annotations

import dataclasses
import inspect
from typing import TYPE_CHECKING, Any

from margrave.errors import InputError, invalid
from margrave.limits import Limits
from margrave.privacy.accounting import GDP, ZCDP, Accountant, Renyi
from margrave.privacy.subsampled import best_order, check_sampled
from margrave.privacy.unit import Neighbours

if TYPE_CHECKING:
    from margrave.protocols import Fitter, Source, Strategy

__all__ = [
    "accountant",
    "aimed",
    "bounded",
    "check_libraries",
    "check_pricing",
    "named_columns",
    "shown",
    "timed",
]


def check_pricing(strategy: Strategy, fitter: Fitter, neighbours: Neighbours) -> None:
    """Check, from arguments alone, that a run has an accountant: before the table is opened.

    Raises:
        InputError: Only one of both is for training, or samples of rows do not protect these neighbours.
    """
    training = getattr(strategy, "training", None)
    if (training is not None) != hasattr(fitter, "learner"):
        able, remedy = "is trained by gradients", "Use model='diffusion'."
        if training is None:
            able, remedy = "learns from marginals", "Use select=Training()."
        raise InputError(invalid("model", f"one that {able}", remedy, got=fitter.name))
    if training is not None:
        check_sampled(neighbours)


def accountant(
    strategy: Strategy, fitter: Fitter, epsilon: float, delta: float, neighbours: Neighbours
) -> Accountant:
    """What prices the strategy's run: GDP where it only measures, Renyi where it samples rows, else zCDP.

    Raises:
        InputError: As `check_pricing`.
    """
    check_pricing(strategy, fitter, neighbours)
    training: Any = getattr(strategy, "training", None)
    if training is not None:
        steps, rate, share = training
        return Renyi(best_order(epsilon, delta, rate, steps, share))
    return GDP() if strategy.gaussian_only else ZCDP()


def timed(strategy: Strategy, limits: Limits) -> Strategy:
    """The strategy, found to keep a deadline where there is one.

    Raises:
        InputError: It takes none, or it trains on the rows, in a number of steps that no clock may decide.
    """
    if limits.max_seconds is None:
        return strategy
    with_it = f"left out with strategy {strategy.name!r}"
    if getattr(strategy, "training", None) is not None:
        remedy = "It takes a public number of steps, however long they take: set select=Training(steps=...)."
        raise InputError(invalid("max_seconds", with_it, remedy))
    if "deadline" not in inspect.signature(strategy.run).parameters:
        raise InputError(invalid("max_seconds", with_it, "It keeps no deadline."))
    return strategy


def aimed(strategy: Strategy, fitter: Fitter, target: str) -> tuple[Strategy, Fitter]:
    """The strategy and the fitter with the target, where they have a field for it.

    Raises:
        InputError: Neither has.
    """
    parts: list[Any] = [strategy, fitter]
    able = [hasattr(part, "target") for part in parts]
    if not any(able):
        with_it = f"left out with {strategy.name!r} and {fitter.name!r}"
        raise InputError(invalid("target", with_it, "Use method='auto'.", got=target))
    with_target = [
        dataclasses.replace(part, target=target) if fit else part
        for part, fit in zip(parts, able, strict=True)
    ]
    return with_target[0], with_target[1]


def named_columns(strategy: Strategy, fitter: Fitter) -> frozenset[str]:
    """The columns that a strategy or a fitter was told of by name: a target, the cliques to measure."""
    targets = {getattr(part, "target", None) for part in (strategy, fitter)} - {None}
    cliques = getattr(strategy, "cliques", ())
    return frozenset({str(target) for target in targets} | {name for clique in cliques for name in clique})


def bounded(fitter: Fitter, limits: Limits) -> Fitter:
    """The fitter with the memory limit, which every fitter with a field `max_memory` takes.

    Raises:
        InputError: It has none, and its models may be large.
    """
    if limits.max_memory is None or fitter.name == "independent":  # its model is a few hundred numbers
        return fitter
    asked: Any = fitter
    if not hasattr(asked, "max_memory"):
        raise InputError(
            invalid("max_memory", f"left out with model {fitter.name!r}", "It has no limit of its own.")
        )
    least = min(m for m in (limits.max_memory, asked.max_memory) if m is not None)
    limited: Fitter = dataclasses.replace(asked, max_memory=least)
    return limited


def check_libraries(fitter: Fitter) -> None:
    """Check that the libraries and the device a fitter computes with are there.

    It is called where computing starts, before a table is opened: a plan computes nothing and needs neither.

    Raises:
        InputError: The fitter's device is not on this machine.
        MissingExtraError: A library is not installed.
    """
    within: Any = getattr(fitter, "fitter", fitter)
    if hasattr(within, "prepare"):
        within.prepare()


def shown(source: Source, strategy: Strategy) -> Source:
    """The table, found to let the strategy look at its rows where it has to.

    Raises:
        InputError: The table is counted where it lies, and the strategy needs more than counts.
    """
    if getattr(strategy, "needs_rows", False) and not source.holds_rows:
        remedy = "Pass a frame or a file, or use a method that asks for marginals only."
        with_it = f"in memory or a file with strategy {strategy.name!r}"
        raise InputError(invalid("table", with_it, remedy))
    return source
