"""Dense dependence: Gaussian copulas and factor models, in which nearly every pair of many columns depends.

No tree and no small set of pairs holds such a table; a few hidden factors do.
"""

from __future__ import annotations

import numpy as np

from margrave.benchmark.nursery.draws import Draws, Floats
from margrave.benchmark.nursery.table import Columns, NurseryTable, grade

COPULAS = "Gaussian copulas"
FACTORS = "factor models"


def make_copula(
    rows: int, draws: Draws, *, width: int, rank: int, noise: float, blocks: int = 1, target: bool = True
) -> Columns:
    """Numbers of many margins under a Gaussian copula of low rank plus noise, or one a block.

    Margins in turn: normal, lognormal, uniform, exponential, whole numbers, and a mixture of two normals.
    """
    loads = draws.normal(width, rank) / np.sqrt(rank)
    block_of = np.arange(width) * blocks // width
    scale = np.exp(draws.normal(width))
    aim = draws.normal(rank)

    columns: Columns = {}
    hidden = [draws.normal(rows, rank) for _ in range(blocks)]
    for place in range(width):
        score = hidden[block_of[place]] @ loads[place] + noise * draws.normal(rows)
        score /= np.sqrt(loads[place] @ loads[place] + noise**2)
        columns[f"n{place + 1:02}"] = _shape_margin(score, place % 6, float(scale[place]))
    if target:
        chance = 1 / (1 + np.exp(1.5 - 1.5 * hidden[0] @ aim))
        columns["label"] = draws.flags(chance, rows)
    return columns


def _shape_margin(score: Floats, kind: int, scale: float) -> Floats:
    """A rising function of standard normal numbers, two to four digits kept."""
    if kind == 0:
        return np.round(50 + 10 * scale * score, 2)
    if kind == 1:
        return np.round(100 * scale * np.exp(0.9 * score), 2)
    if kind == 2:
        return np.round(1 / (1 + np.exp(-1.702 * score)), 4)
    if kind == 3:
        return np.round(scale * np.log1p(np.exp(2 * score)), 4)
    if kind == 4:
        return np.floor(20 + 6 * score).clip(0, 45)
    return np.round(np.where(score > 0.3, 8 + score, score) * scale, 3)


def make_factors(
    rows: int, draws: Draws, *, width: int, factors: int, codes: int, rare: float, noise: tuple[float, float]
) -> Columns:
    """Columns of `codes` codes that lean on hidden factors, some in curves, and a target of a rare code.

    Args:
        rows: Number of rows.
        draws: The stream.
        width: Columns beside the target.
        factors: Hidden normal numbers a row.
        codes: Of each column, of like many rows; 0 for numbers with two decimals.
        rare: Share of the rows that have the target: those whose score is highest.
        noise: Least and greatest standard deviation of a column's own part.
    """
    loads = draws.normal(width, factors) * np.exp(-0.35 * np.arange(factors))
    loads /= np.linalg.norm(loads, axis=1, keepdims=True)
    own = draws.between(*noise, width)
    curved = draws.flags(0.15, width)
    aim = draws.normal(factors) * np.exp(-0.2 * np.arange(factors))

    hidden = draws.normal(rows, factors)
    columns: Columns = {}
    for place in range(width):
        score = hidden @ loads[place]
        score = (np.abs(score) if curved[place] else score) + own[place] * draws.normal(rows)
        columns[f"v{place + 1:02}"] = grade(score, codes) if codes else np.round(10 * score, 2)
    score = hidden @ (aim / np.linalg.norm(aim)) + 0.4 * draws.normal(rows)
    columns["target"] = score > np.quantile(score, 1 - rare)
    return columns


TABLES = (
    NurseryTable(
        *("copula-a", COPULAS, "choosing", make_copula, 20_000, 71),
        "30 numbers of six kinds of margins, rank 4",
        parameters={"width": 30, "rank": 4, "noise": 0.6},
        target="label",
        cut="quantile",
    ),
    NurseryTable(
        *("copula-b", COPULAS, "reporting", make_copula, 10_000, 72),
        "50 numbers of six kinds of margins, rank 10",
        parameters={"width": 50, "rank": 10, "noise": 0.4},
        target="label",
        cut="quantile",
    ),
    NurseryTable(
        *("copula-c", COPULAS, "reporting", make_copula, 30_000, 73),
        "24 numbers in four blocks that know nothing of each other",
        parameters={"width": 24, "rank": 2, "noise": 0.5, "blocks": 4, "target": False},
        cut="quantile",
    ),
    NurseryTable(
        *("factors-a", FACTORS, "choosing", make_factors, 50_000, 74),
        "60 columns of 24 codes on five factors, a target held by 2 %",
        parameters={"width": 60, "factors": 5, "codes": 24, "rare": 0.02, "noise": (0.2, 0.9)},
        target="target",
    ),
    NurseryTable(
        *("factors-b", FACTORS, "choosing", make_factors, 80_000, 75),
        "70 numbers on eight factors, close together, a target held by 1 %",
        parameters={"width": 70, "factors": 8, "codes": 0, "rare": 0.01, "noise": (0.1, 0.6)},
        target="target",
    ),
    NurseryTable(
        *("factors-c", FACTORS, "reporting", make_factors, 100_000, 76),
        "80 columns of 32 codes on six factors, a target held by 1 %",
        parameters={"width": 79, "factors": 6, "codes": 32, "rare": 0.01, "noise": (0.2, 0.9)},
        target="target",
    ),
    NurseryTable(
        *("factors-d", FACTORS, "reporting", make_factors, 116_600, 77),
        "76 numbers on ten factors, close together, a target held by 0.9 %",
        parameters={"width": 76, "factors": 10, "codes": 0, "rare": 0.009, "noise": (0.1, 0.5)},
        target="target",
    ),
)
