"""Near-copies: columns about loans, among them a pair of rank correlation 0.97 that noise may part."""

from __future__ import annotations

import numpy as np

from margrave.benchmark.nursery.draws import Draws, Floats
from margrave.benchmark.nursery.table import Columns, NurseryTable, grade, name_codes

FAMILY = "near-copies"
BUREAU = ("accounts", "balances", "cards", "limits", "months", "mortgages", "opened", "overdue")


def make_loans(rows: int, draws: Draws, *, bureau: int = 25, flags: int = 6) -> Columns:
    """Loans: what was asked, granted and paid, a grade nested in the rate, and `bureau` counts of a register.

    With the default numbers there are 55 columns, and 38 of them are numbers or dates.
    """
    loads = draws.normal(bureau, 4) * np.array([1.0, 0.8, 0.5, 0.3])
    spreads = draws.between(0.6, 2.5, bureau)
    levels = draws.between(0.5, 4.0, bureau)
    flag_levels, flag_loads = draws.between(-4.5, -1.0, flags), draws.normal(flags, 4)
    purpose_scores = draws.normal(12, 4)

    traits = draws.normal(rows, 4)  # means, thrift, age of the record, eagerness
    columns = _describe_contract(rows, draws, traits)
    columns |= _describe_borrower(rows, draws, traits, purpose_scores)
    for place in range(bureau):
        score = levels[place] + traits @ loads[place] + spreads[place] * draws.normal(rows)
        kind = BUREAU[place % len(BUREAU)]
        amount = np.exp(score) if place % 3 else np.exp(score + 5)
        values = np.round(amount).astype(np.int64)
        columns[f"{kind}_{place // len(BUREAU) + 1}"] = np.minimum(values, 2_000_000)
    for place in range(flags):
        chance = 1 / (1 + np.exp(-flag_levels[place] - 0.7 * traits @ flag_loads[place]))
        columns[f"flag_{place + 1}"] = draws.flags(chance, rows)
    return columns


def _describe_contract(rows: int, draws: Draws, traits: Floats) -> Columns:
    """Amounts, rate, grade, instalment, dates and how it ended."""
    wanted = np.exp(9.2 + 0.5 * traits[:, 0] + 0.5 * draws.normal(rows))
    asked = np.clip(25 * np.round(wanted / 25), 500, 40_000)
    cut = np.where(draws.flags(0.25, rows), draws.between(0.5, 1.0, rows), 1.0)
    granted = 25 * np.round(asked * cut / 25)
    held_back = np.where(draws.flags(0.2, rows), 0.05 * draws.uniform(rows), 0.0)
    funded = granted - np.round(granted * held_back)
    risk = -0.7 * traits[:, 1] - 0.3 * traits[:, 2] + 0.3 * traits[:, 3] + 0.5 * draws.normal(rows)
    subgrade = grade(risk, 35)
    rate = np.round(5.3 + 0.62 * subgrade + 0.01 * np.floor(20 * draws.uniform(rows)), 2)
    term = np.where(draws.flags(1 / (1 + np.exp(1.2 - np.log(granted / 9_000))), rows), 60, 36)
    monthly = rate / 1200
    instalment = granted * monthly / (1 - (1 + monthly) ** -term)
    issued = np.datetime64("2012-01") + draws.below(60, rows).astype("timedelta64[M]")
    ends = np.where(draws.flags(0.3, rows), 1.0, draws.uniform(rows))
    last = issued + np.maximum(1, np.round(term * ends)).astype("timedelta64[M]")
    bad = draws.flags(1 / (1 + np.exp(3.0 - 0.9 * risk)), rows)
    paid = np.round(instalment * term * ends * np.where(bad, 0.6, 1.0), 2)
    return {
        "amount": asked.astype(np.int64),
        "defaulted": bad,
        "funded": funded.astype(np.int64),
        "grade": np.array(list("ABCDEFG"))[subgrade // 5],
        "granted": granted.astype(np.int64),
        "instalment": np.round(instalment, 2),
        "issued": issued.astype("datetime64[D]"),
        "last_payment": last.astype("datetime64[D]"),
        "paid": paid,
        "principal": np.round(paid * (1 - rate / 60), 2),
        "rate": rate,
        "recovered": np.where(bad, np.round(0.1 * paid * draws.uniform(rows), 2), 0.0),
        "status": np.where(bad, "charged off", np.where(ends == 1.0, "paid", "current")),
        "subgrade": np.char.add(np.array(list("ABCDEFG"))[subgrade // 5], (subgrade % 5 + 1).astype(str)),
        "term": np.char.add(term.astype(str), " months"),
    }


def _describe_borrower(rows: int, draws: Draws, traits: Floats, purpose_scores: Floats) -> Columns:
    """Income, job, home, purpose and scores of the borrower."""
    income = np.round(np.exp(11 + 0.6 * traits[:, 0] + 0.3 * draws.normal(rows)), -2)
    points = 700 + 25 * traits[:, 1] + 12 * traits[:, 2] + 8 * draws.normal(rows)
    score = np.clip(5 * np.round(points / 5), 600, 850)
    years = np.minimum(np.floor(draws.exponential(rows) * 6), 10)
    home_scores = np.column_stack([traits[:, 0], 0.8 * traits[:, 2] - 1, np.zeros(rows)])
    return {
        "debt_share": np.round(np.clip(18 + 7 * traits[:, 3] + 5 * draws.normal(rows), 0, 60), 2),
        "employed_years": np.ma.masked_array(years.astype(np.int64), draws.flags(0.06, rows)),
        "home": np.array(["mortgage", "own", "rent"])[draws.codes_by_row(home_scores)],
        "income": income.astype(np.int64),
        "inquiries": draws.geometric(1 / (1 + np.exp(0.5 * traits[:, 3] - 0.4)), rows),
        "purpose": name_codes(draws.codes_by_row(traits @ purpose_scores.T), "purpose", 12),
        "score_high": (score + 4).astype(np.int64),
        "score_low": score.astype(np.int64),
        "state": name_codes(draws.codes(1.0 / np.arange(1, 51), rows), "state", 50),
    }


TABLES = (
    NurseryTable(
        *("loans-a", FAMILY, "choosing", make_loans, 10_000, 61),
        "55 columns, an amount granted and nearly the same asked for and funded",
        target="defaulted",
        cut="quantile",
    ),
    NurseryTable(
        *("loans-b", FAMILY, "reporting", make_loans, 10_000, 62),
        "as loans-a, with a register of other loadings",
        target="defaulted",
        cut="quantile",
    ),
    NurseryTable(
        *("loans-c", FAMILY, "reporting", make_loans, 40_000, 63),
        "as loans-b, longer, with 40 counts of the register and 12 flags",
        parameters={"bureau": 40, "flags": 12},
        target="defaulted",
        cut="quantile",
    ),
)
