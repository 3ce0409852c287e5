"""Interactions of higher order: parities of 2 to 7 columns, and structural models whose causes act together.

A method that buys pairs only is blind to a parity of three columns or more: each of its pairs is independent.
The structural models follow the idea of the data of Tab-PE (arXiv 2606.08259): every column is a random
function of a few earlier ones.
"""

from __future__ import annotations

import numpy as np

from margrave.benchmark.nursery.draws import Draws
from margrave.benchmark.nursery.table import Columns, NurseryTable, name_codes

PARITIES = "parities"
STRUCTURAL = "structural models"


def make_parities(
    rows: int, draws: Draws, *, widths: tuple[int, ...], codes: int = 2, wrong: float = 0.05, idle: int = 2
) -> Columns:
    """For each width, as many free columns and their sum modulo `codes`, drawn anew in some rows.

    `label` is the sum of the first width; idle columns mean nothing.
    """
    columns: Columns = {}
    for place, width in enumerate(widths):
        members = draws.below(codes, rows, width)
        anew = draws.flags(wrong, rows)
        result = np.where(anew, draws.below(codes, rows), members.sum(axis=1) % codes)
        for member in range(width):
            columns[f"x{width}_{member + 1}"] = members[:, member]
        columns["label" if place == 0 else f"y{width}"] = result
    for place in range(idle):
        columns[f"idle_{place + 1}"] = draws.below(codes, rows)
    return {name: name_codes(values, "v", codes) for name, values in columns.items()}


def make_structural(
    rows: int, draws: Draws, *, width: int, parents: int, codes: tuple[int, int], noise: float = 0.15
) -> Columns:
    """Columns in order: each is a random table's answer to up to `parents` earlier ones, or drawn anew."""
    sizes = codes[0] + draws.below(codes[1] - codes[0] + 1, width)
    sizes[-1] = 2
    values = np.zeros((rows, width), dtype=np.int64)
    plans = []
    for place in range(width):
        count = min(place, 1 + int(draws.below(parents)), place)
        chosen = np.sort(draws.permutation(place)[:count]) if place else np.zeros(0, dtype=np.int64)
        cells = int(np.prod(sizes[chosen])) if count else 1
        plans.append((chosen, draws.codes(np.ones(sizes[place]), cells), draws.gamma(1.0, sizes[place])))
    for place, (chosen, answers, weights) in enumerate(plans):
        cell = np.zeros(rows, dtype=np.int64)
        for parent in chosen:
            cell = cell * sizes[parent] + values[:, parent]
        free = draws.codes(weights, rows)
        anew = draws.flags(1.0 if chosen.size == 0 else noise, rows)
        values[:, place] = np.where(anew, free, answers[cell])
    names = [f"c{place + 1:02}" for place in range(width - 1)] + ["label"]
    return {name: name_codes(values[:, place], "v", int(sizes[place])) for place, name in enumerate(names)}


TABLES = (
    NurseryTable(
        *("parities-a", PARITIES, "choosing", make_parities, 20_000, 31),
        "parities of two, three and four bits",
        parameters={"widths": (3, 2, 4)},
        target="label",
    ),
    NurseryTable(
        *("parities-b", PARITIES, "choosing", make_parities, 30_000, 32),
        "sums modulo five of two and of three columns",
        parameters={"widths": (2, 3), "codes": 5},
        target="label",
    ),
    NurseryTable(
        *("parities-c", PARITIES, "reporting", make_parities, 40_000, 33),
        "parities of 2, 3, 4, 5, 6 and 7 bits",
        parameters={"widths": (3, 2, 4, 5, 6, 7)},
        target="label",
    ),
    NurseryTable(
        *("parities-d", PARITIES, "reporting", make_parities, 20_000, 34),
        "sums modulo three of three and of four columns",
        parameters={"widths": (3, 4), "codes": 3, "idle": 4},
        target="label",
    ),
    NurseryTable(
        *("structural-a", STRUCTURAL, "choosing", make_structural, 25_000, 35),
        "18 columns of 2 to 6 codes, each a random function of up to three earlier ones",
        parameters={"width": 18, "parents": 3, "codes": (2, 6)},
        target="label",
    ),
    NurseryTable(
        *("structural-b", STRUCTURAL, "reporting", make_structural, 25_000, 36),
        "30 columns of 2 to 8 codes, each a random function of up to four earlier ones",
        parameters={"width": 30, "parents": 4, "codes": (2, 8)},
        target="label",
    ),
)
