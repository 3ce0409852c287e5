"""Heavy tails: amounts over many powers of ten, many zeros, negative ones, totals of their parts."""

from __future__ import annotations

import numpy as np

from margrave.benchmark.nursery.draws import Draws
from margrave.benchmark.nursery.table import Columns, NurseryTable, name_codes

FAMILY = "heavy tails"


def make_tax_units(rows: int, draws: Draws, *, sources: int) -> Columns:
    """Tax units: `sources` kinds of income, most of them zero, their total, deductions, the tax."""
    levels = draws.between(6.5, 9.5, sources)
    tails = draws.between(1.1, 2.5, sources)
    chances = np.sort(draws.between(0.03, 0.5, sources))
    loads = 1.2 * draws.normal(sources)

    wealth = draws.normal(rows)
    married = draws.flags(1 / (1 + np.exp(-0.3 - 0.4 * wealth)), rows)
    wage = np.where(
        draws.flags(0.8, rows), np.exp(10 + 0.4 * married + 0.5 * wealth + 0.5 * draws.normal(rows)), 0
    )
    columns: Columns = {"married": married, "wage": np.round(wage, 0)}
    total = columns["wage"].copy()
    for place in range(sources):
        held = draws.flags(1 / (1 + np.exp(-np.log(chances[place]) - loads[place] * wealth)), rows)
        size = np.exp(levels[place] + 0.4 * wealth) * (draws.pareto(tails[place], rows) - 1)
        amount = np.where(held, size, 0)
        if place % 3 == 2:  # gains may be losses
            amount = np.where(draws.flags(0.35, rows), -0.5 * amount, amount)
        columns[f"source_{place + 1}"] = np.round(np.clip(amount, -3e6, 1e8), 0)
        total += columns[f"source_{place + 1}"]
    deduction = np.round(np.where(married, 25_000, 12_500) + 0.05 * np.maximum(total, 0), 0)
    taxable = np.maximum(total - deduction, 0)
    columns |= {
        "deduction": deduction,
        "tax": np.round(0.12 * taxable + 0.18 * np.maximum(taxable - 60_000, 0), 0),
        "total": total,
        "audited": draws.flags(np.where(np.abs(total) > 2e5, 0.2, 0.01), rows),
    }
    return columns


def make_claims(rows: int, draws: Draws, *, makes: int) -> Columns:
    """Insurance: exposures, counts of claims with many zeros, claims with heavy tails, premiums."""
    risk_of = 0.4 * draws.normal(makes)
    value_of = np.exp(9.5 + 0.6 * draws.normal(makes))

    make = draws.codes(draws.gamma(1.0, makes), rows)
    age = np.clip(np.round(18 + draws.gamma(3.0, rows) * 9), 18, 95).astype(np.int64)
    exposure = np.round(np.where(draws.flags(0.7, rows), 1.0, draws.between(0.01, 1, rows)), 3)
    danger = np.exp(risk_of[make] + 0.9 * np.exp(-(age - 18) / 8) + 0.4 * draws.normal(rows))
    claims = draws.geometric(1 / (1 + 0.1 * exposure * danger), rows)
    severity = np.where(claims > 0, 400 * claims * draws.pareto(1.4, rows), 0)
    value = value_of[make] * np.exp(0.3 * draws.normal(rows))
    return {
        "age": age,
        "bonus": np.clip(np.round(50 + 40 * danger - age / 2), 50, 350).astype(np.int64),
        "claimed": claims > 0,
        "claims": claims,
        "exposure": exposure,
        "make": name_codes(make, "make", makes),
        "paid": np.round(np.minimum(severity, 5e6), 2),
        "premium": np.round(exposure * (150 + 220 * danger + 0.004 * value), 2),
        "value": np.round(value, -2).astype(np.int64),
    }


TABLES = (
    NurseryTable(
        *("tax-a", FAMILY, "choosing", make_tax_units, 40_000, 51),
        "eight kinds of income, most zero, with tails of index 1.1 to 2.5, their total and the tax",
        parameters={"sources": 8},
        target="audited",
        cut="quantile",
    ),
    NurseryTable(
        *("claims-a", FAMILY, "choosing", make_claims, 30_000, 52),
        "counts of claims with many zeros and Pareto claims",
        parameters={"makes": 25},
        target="claimed",
        cut="quantile",
    ),
    NurseryTable(
        *("tax-b", FAMILY, "reporting", make_tax_units, 120_000, 53),
        "as tax-a, with thirty kinds of income",
        parameters={"sources": 30},
        target="audited",
        cut="quantile",
    ),
)
