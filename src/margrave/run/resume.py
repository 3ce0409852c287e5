"""Resuming a run that was stopped: how it is known again, and how it ends if the stop cost what was left."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from margrave import __version__
from margrave.errors import BudgetError, InputError, invalid
from margrave.models.registry import resolve
from margrave.privacy.ledger.history import DAY
from margrave.progress import OnStep, Step

if TYPE_CHECKING:
    from margrave.limits import Deadline
    from margrave.privacy.ledger.ledger import Ledger
    from margrave.protocols import Curator, Fitter, Model, Strategy
    from margrave.run.synthesizer import Synthesizer
    from margrave.schema.columns import Column
    from margrave.schema.schema import Schema


def facts(synthesizer: Synthesizer, columns: Sequence[Column], declared: Schema) -> dict[str, str]:
    """What is public about a run and must be the same when it is resumed: arguments, column names and types.

    The day is that of the first start: a resumed run goes by the one that was recorded.

    A stored answer answers one question; these facts and the answers decide which questions are asked.
    They hold nothing that was read from the rows: that the table is the same is up to the caller.
    """
    return {
        DAY: datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "version of margrave": __version__,
        "set of columns": _digest([repr(column) for column in columns]),
        "strategy": _describe_part(synthesizer.strategy),
        "model": _describe_part(synthesizer.fitter),
        "share for discovery": str(synthesizer.discovery),
        "share for moments": str(synthesizer.moment_share),
        "schema": _digest(declared.to_json()),
        "text for missing values": _digest(list(synthesizer.missing)),
        "format of text files": _digest(synthesizer.text.to_json()),
    }


def check_clockless(synthesizer: Synthesizer) -> None:
    """Check that no clock decides what a run that is to be resumed asks for.

    The clock counts post-processing, which takes another time when it is done again: the resumed run might
    ask for something else than was recorded.

    Raises:
        InputError: There is a time limit.
    """
    limits = (synthesizer.limits.max_seconds, synthesizer.strategy.max_seconds)
    if any(limit is not None for limit in limits):
        remedy = "What a clock decided cannot be repeated; without it the run goes on to its planned end."
        raise InputError(invalid("max_seconds", "left out when a run is resumed", remedy))


def check_unfinished(ledger: Ledger) -> None:
    """Check that a run to be resumed can go on, as it is when its ledger was opened.

    A run that has finished keeps no answers, so that all its spends would have to be made again; so it is of
    one that was stopped between its last spend and the answer.

    Raises:
        InputError: All was spent, and no answer is kept.
    """
    if ledger.events and ledger.exhausted:
        constraint = "of a run with budget left; this one has finished, or was stopped after its last spend"
        remedy = "Use its output, or start a new run, which spends anew, with a ledger file of its own."
        raise InputError(invalid("resume", constraint, remedy))


def run_strategy(
    strategy: Strategy,
    curator: Curator,
    ledger: Ledger,
    deadline: Deadline | None,
    on_step: OnStep,
    fitter: Fitter,
) -> tuple[Model, Fitter]:
    """Run the strategy with a fitter; where a stop has cost all that was left of rho, fit what had been
    released by then.

    A fitter that does not learn from marginals cannot do that: the columns are independent then.

    Returns:
        The model, and the fitter that made it.

    Raises:
        BudgetError: A spend would pass the budget; or what was released does not speak of every column.
    """
    try:
        return strategy.run(curator, fitter, on_step, deadline), fitter
    except BudgetError:
        measured = {name for marginal in curator.measurements for name in marginal.clique}
        if not ledger.exhausted or measured != set(curator.domain.names):
            raise
    note = "what was left was spent when the run was stopped: fitted to what had been released"
    on_step(Step("fit", note, 0, 1.0))
    if "marginals" not in fitter.learns_from:
        fitter = resolve("independent")
    return fitter.fit(curator.domain, curator.measurements, total=curator.public_rows), fitter


def _describe_part(part: object) -> str:
    """A strategy or fitter in words that are the same in another process."""
    kind = type(part)
    plain = kind.__repr__ is object.__repr__  # would show an address
    return f"{kind.__module__}.{kind.__qualname__}" if plain else repr(part)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
