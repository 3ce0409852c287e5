"""Survey scales: answers on a few points, which lean on hidden traits, and the sums that are made of them.

A sum is a function of its items that no pair shows whole; an identifier in a few bins means nothing.
"""

from __future__ import annotations

import numpy as np

from margrave.benchmark.nursery.draws import Draws
from margrave.benchmark.nursery.table import Columns, NurseryTable, name_codes

FAMILY = "survey scales"


def make_survey(
    rows: int, draws: Draws, *, scales: int, items: int, points: int, states: int = 51, serial: bool = True
) -> Columns:
    """Respondents with `scales` traits, correlated, and `items` answers of `points` points for each.

    Some items are reversed, so that they are negatively correlated with the rest of their scale; a sum adds
    the items up as they were before.
    """
    common = draws.between(0.3, 0.8, scales)
    loads = draws.between(0.5, 1.6, scales, items)
    turned = draws.flags(0.2, scales, items)
    cuts = np.sort(draws.normal(scales, items, points - 1), axis=2) * (1 + loads[:, :, None])
    lean = 0.6 * draws.normal(states, scales)
    weights = draws.gamma(1.5, states)

    state = draws.codes(weights, rows)
    age = np.minimum(18 + (draws.gamma(4.0, rows) * 8).astype(np.int64), 94)
    health = draws.normal(rows) - 0.02 * (age - 45)
    columns: Columns = {"age": age, "state": name_codes(state, "state", states)}
    if serial:
        columns["respondent"] = 100_000 + np.cumsum(1 + draws.below(3, rows))
    grand = np.zeros(rows, dtype=np.int64)
    for scale, share in enumerate(common):
        trait = share * health + np.sqrt(1 - share**2) * draws.normal(rows) + lean[state, scale]
        scores = trait[:, None] * loads[scale] + draws.normal(rows, items)
        answers = 1 + np.sum(scores[:, :, None] > cuts[scale], axis=2)
        shown = np.where(turned[scale], points + 1 - answers, answers)
        columns |= {f"s{scale + 1}_q{item + 1}": shown[:, item] for item in range(items)}
        columns[f"s{scale + 1}_sum"] = answers.sum(axis=1)
        grand += columns[f"s{scale + 1}_sum"]
    columns["total"] = grand
    columns["treated"] = draws.flags(1 / (1 + np.exp(2.5 + 1.2 * health)), rows)
    return columns


TABLES = (
    NurseryTable(
        *("survey-a", FAMILY, "choosing", make_survey, 20_000, 11),
        "four scales of five points with sums of sums, states, a serial number",
        parameters={"scales": 4, "items": 4, "points": 5},
        target="treated",
    ),
    NurseryTable(
        *("survey-b", FAMILY, "choosing", make_survey, 4_000, 12),
        "few rows: two scales of four points with their sums",
        parameters={"scales": 2, "items": 5, "points": 4, "states": 12, "serial": False},
        target="treated",
    ),
    NurseryTable(
        *("survey-c", FAMILY, "reporting", make_survey, 51_680, 13),
        "three scales of five points with sums of sums, states, a serial number",
        parameters={"scales": 3, "items": 4, "points": 5},
        target="treated",
    ),
    NurseryTable(
        *("survey-d", FAMILY, "reporting", make_survey, 8_000, 14),
        "eight scales of seven points with their sums",
        parameters={"scales": 8, "items": 5, "points": 7, "states": 20},
        target="treated",
    ),
)
