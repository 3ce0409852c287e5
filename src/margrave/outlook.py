"""outlook: fill in a Plan from a configured Synthesizer and the public part of a table."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from margrave.measure.discover import declare, needs, searches_values
from margrave.measure.gaussian import sigma_for
from margrave.measure.looking import SHARES
from margrave.methods.splits import ONE, PAIR, marginal_shares, stage_shares
from margrave.models.memory import A_CELL, A_SQUARE, PROGRAM
from margrave.plan import Plan, noise_error
from margrave.privacy.ledger import Ledger
from margrave.schema.columns import Column

if TYPE_CHECKING:
    from margrave._api import Synthesizer
    from margrave.protocols import Source, Strategy

__all__ = ["outlook"]

WORDS = {
    "profile": "kind and missing values",
    "bounds": "least and greatest value",
    "detail": "bins",
    "grids": "round numbers",
    "spelling": "spelling",
    "marks": "marks of missing values",
    "values": "values that occur",
    "shapes": "patterns of texts",
    "distinct": "number of distinct texts",
    "prefixes": "beginnings of codes",
}
GUESSED_SIZE = 33
"""Codes assumed of a column not known yet, for the expected error, time and memory."""
PACE = {
    "aim": (3.5e-3, 1.7),
    "all_kway": (1e-3, 0.0),
    "all_pairs": (1e-3, 0.0),
    "batched": (1.2e-2, 0.3),
    "fixed": (1e-3, 0.0),
    "mean_embedding": (1e-3, 0.0),
    "mst": (2e-3, 0.0),
    "privmrf": (5e-3, 0.7),
    "privsyn": (2e-3, 0.0),
    "residual_planner": (4e-3, 0.0),
    "top_q": (2e-3, 0.0),
    "training": (1e-3, 0.0),
}
"""Seconds a squared column at epsilon 1, and the power of epsilon they grow with, of a strategy with a fitter
of FITTING's 0: bench/LEADERBOARD.md, bench/runs/adult.py."""
FITTING = {
    "auto": 4e-3,
    "compressed": 0.0,
    "diffusion": 3e-1,
    "genetic": 2e-2,
    "gum": 4e-3,
    "independent": 0.0,
    "merf": 1e-2,
    "mixture": 4e-3,
    "network": 3e-2,
    "particles": 1.5e-1,
    "pgm": 0.0,
    "pmw": 2e-3,
    "relaxed": 1.5e-2,
    "relaxed_points": 4e-2,
    "residual": 2e-2,
}
"""Seconds a squared column that a fitter adds to that, with the strategy of its method: bench/runs/adult.py
and the pages of docs/methods; compressed is a guess."""
PACED_ROWS = 32_561
"""Rows of the table that pace was measured on."""
GROWN, GROWTH = 1.2e5, 2.2
"""Junction-tree cells AIM grows to at epsilon 1 on those rows, and the power of both they grow with."""
REACH = 6.0
"""Epsilon, at those rows, from which AIM's limit on the junction tree keeps the time from growing."""


def outlook(synthesizer: Synthesizer, source: Source, rows: int | None) -> Plan:
    """What a fit would do, from column names, storage types and the declared schema alone."""
    unit = synthesizer.neighbours.unit
    schema = declare(tuple(c for c in source.columns if c.name != unit.owner), synthesizer.schema)
    ledger = synthesizer.new_ledger(searches_values(schema))
    share = synthesizer.discovery_share(schema)
    sizes = [column.size if column.known else GUESSED_SIZE for column in schema.attributes]
    sigma = _sigma(ledger, share, len(sizes), synthesizer.strategy)
    counted = synthesizer.neighbours.adjacency == "replace_one"
    mean = sum(sizes) / len(sizes)
    cells = {ONE: mean, PAIR: mean**2}
    error = (
        {}
        if rows is None
        else {what: noise_error(round(cells[what]), value, rows) for what, value in sigma.items()}
    )
    return Plan(
        method=synthesizer.method,
        guarantee=str(synthesizer.promise(ledger)),
        rho=float(ledger.total),
        declared=tuple(column.name for column in schema.columns if column.known),
        discovered={c.name: _looks(c) for c in schema.columns if not c.known},
        shares=_shares(synthesizer.strategy, share, counted),
        sigma=sigma,
        error=error,
        seconds=_seconds(synthesizer, len(sizes), rows or PACED_ROWS),
        memory=_memory(synthesizer, sizes, rows),
        limits=synthesizer.limits.words(),
    )


def _looks(column: Column) -> str:
    looks = needs(column)
    return ", ".join(WORDS[look] for look in SHARES if look in looks)


def _shares(strategy: Strategy, discovery: Fraction, counted: bool) -> dict[str, float]:
    shares = {"discover": float(discovery)} if discovery else {}
    stages = stage_shares(strategy, counted or bool(discovery))
    return shares | {stage: float(part * (1 - discovery)) for stage, part in stages.items()}


def _sigma(ledger: Ledger, discovery: Fraction, columns: int, strategy: Strategy) -> dict[str, float]:
    """Noise of what each strategy typically measures."""
    rho = ledger.total * (1 - discovery)
    shares = marginal_shares(strategy, columns)
    return {what: sigma_for(ledger, rho * share) for what, share in shares.items()}


def _seconds(synthesizer: Synthesizer, columns: int, rows: int) -> tuple[float, float]:
    """Low and high; what an adaptive method can afford, and so its model, grows with epsilon times rows.

    A time limit bounds what grows with the columns, which is nearly all post-processing. Opening and reading
    the table, which it does not count, are in the first terms.
    """
    pace, power = PACE.get(synthesizer.strategy.name, (5e-4, 0.0))
    reach = min(synthesizer.epsilon * rows / PACED_ROWS, REACH)
    middle = columns**2 * (pace * reach**power + FITTING.get(synthesizer.fitter.name, 0.0))
    most = math.inf if synthesizer.limits.max_seconds is None else synthesizer.limits.max_seconds
    return 0.5 + min(0.4 * middle, most), 5.0 + min(3.0 * middle, most)


def _memory(synthesizer: Synthesizer, sizes: list[int], rows: int | None) -> float:
    """Expected peak in MiB: the program, all candidates, the table, and the junction tree to expect."""
    strategy, cells = synthesizer.strategy, 0.0
    if strategy.name == "aim":
        reach = synthesizer.epsilon * (rows or PACED_ROWS) / PACED_ROWS
        most = min(getattr(strategy, "max_cells", math.inf), float(math.prod(sizes)))
        cells = min(GROWN * reach**GROWTH, most)
    elif strategy.name == "mst":
        cells = float(sum(sorted(sizes)[-1] * size for size in sizes))
    cells = min(cells, float(getattr(synthesizer.fitter, "most_cells", math.inf)))
    candidates = _all_cells(sizes, getattr(strategy, "degree", 2))
    table = 16 * len(sizes) * (rows or 0)
    square = A_SQUARE * float(sum(sizes)) ** 2 if strategy.name == "all_pairs" else 0.0
    return (PROGRAM + A_CELL * cells + 16 * candidates + square + table) / 2**20


def _all_cells(sizes: list[int], degree: int) -> float:
    """Cells of the tables of all cliques of `degree` attributes together."""
    found = [1.0] + [0.0] * degree
    for size in sizes:
        for k in range(degree, 0, -1):
            found[k] += size * found[k - 1]
    return found[degree]
