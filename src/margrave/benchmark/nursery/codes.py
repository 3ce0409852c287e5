"""Codes: many rare ones, one that nearly every row has, near-unique ones, and flags that few rows have."""

from __future__ import annotations

import numpy as np

from margrave.benchmark.nursery.draws import Draws
from margrave.benchmark.nursery.table import Columns, NurseryTable, name_codes, zipf_weights

RARE = "many rare codes"
DOMINANT = "one dominant code"
UNIQUE = "identifiers"
SPARSE = "sparse flags"


def make_diagnoses(rows: int, draws: Draws, *, diagnoses: int, drugs: int, wards: int) -> Columns:
    """Diagnoses and drugs by Zipf's law: the chapter of a diagnosis decides its ward, each has its drugs."""
    chapters = 20
    chapter_of = draws.codes(draws.gamma(1.5, chapters), diagnoses)
    liking = 1.5 * draws.normal(chapters, wards)
    first, second = draws.below(drugs, diagnoses), draws.below(drugs, diagnoses)
    risk = draws.normal(diagnoses) - 2.5

    diagnosis = draws.codes(zipf_weights(diagnoses, 1.05), rows)
    chapter = chapter_of[diagnosis]
    way = draws.codes((5, 3, 2), rows)
    drug = np.where(way == 0, first[diagnosis], second[diagnosis])
    drug = np.where(way == 2, draws.codes(zipf_weights(drugs, 0.8), rows), drug)
    age = np.clip(np.round(35 + 2 * chapter + 14 * draws.normal(rows)), 0, 99).astype(np.int64)
    chance = 1 / (1 + np.exp(-risk[diagnosis] - 0.03 * (age - 50)))
    return {
        "age": age,
        "chapter": name_codes(chapter, "chapter", chapters),
        "diagnosis": name_codes(diagnosis, "d", diagnoses),
        "died": draws.flags(chance, rows),
        "drug": name_codes(drug, "drug", drugs),
        "sex": np.where(draws.flags(0.48 + 0.01 * (chapter - 10), rows), "f", "m"),
        "ward": name_codes(draws.codes_by_row(liking[chapter]), "ward", wards),
    }


def make_dominant(rows: int, draws: Draws, *, width: int, least: float, most: float) -> Columns:
    """Columns of which nearly every row has one code; exceptions come together, by a hidden trouble."""
    shares = draws.between(least, most, width)
    troubles = draws.below(4, width)
    sizes = 3 + draws.below(10, width)

    trouble = draws.codes((88, 5, 4, 3), rows)
    columns: Columns = {}
    for place in range(width):
        # Rows of the column's own trouble hold most of its exceptions.
        own = trouble == troubles[place]
        rate = np.where(own, np.minimum(0.95, (1 - shares[place]) * (6 if troubles[place] else 1)), 0.002)
        other = 1 + draws.codes(zipf_weights(int(sizes[place]) - 1), rows)
        code = np.where(draws.flags(rate, rows), other, 0)
        columns[f"c{place + 1:02}"] = name_codes(code, "v", int(sizes[place]))
    columns["trouble"] = trouble > 0
    return columns


def make_accounts(rows: int, draws: Draws, *, branches: int, per_customer: float, names: bool) -> Columns:
    """Accounts with a serial number, customers of one account or a few, and a branch."""
    manager_of = draws.below(max(2, branches // 4), branches)
    rate_of = draws.normal(branches)

    branch = draws.codes(zipf_weights(branches, 0.5), rows)
    customer = np.cumsum(draws.flags(1 / per_customer, rows)).astype(np.int64)
    opened = np.datetime64("1998-01-01") + np.sort(draws.below(9_000, rows)).astype("timedelta64[D]")
    balance = np.round(np.exp(7 + 1.1 * draws.normal(rows) + 0.5 * rate_of[branch]), 2)
    columns: Columns = {
        "account": 4_000_000 + 17 * np.arange(rows) + draws.below(17, rows),
        "balance": balance,
        "branch": name_codes(branch, "branch", branches),
        "customer": np.char.mod("C%07d", 1_000_003 * customer % 9_999_991),
        "manager": name_codes(manager_of[branch], "manager", max(2, branches // 4)),
        "opened": opened,
        "premium": draws.flags(1 / (1 + np.exp(9.5 - np.log(balance))), rows),
        "routing": 7_000 + 13 * branch,
    }
    if names:
        syllables = np.array(["an", "bel", "cor", "da", "el", "fin", "gar", "hol", "im", "jo", "kel", "lor"])
        parts = [syllables[draws.below(12, rows)] for _ in range(3)]
        columns["surname"] = np.char.add(np.char.add(parts[0], parts[1]), parts[2])
    return columns


def make_flags(rows: int, draws: Draws, *, width: int, classes: int, least: float, most: float) -> Columns:
    """Flags that few rows have, more in some hidden classes than in others; the class itself is not shown."""
    rates = np.exp(draws.between(np.log(least), np.log(most), width))
    lifts = np.exp(1.5 * draws.normal(classes, width))
    weights = draws.gamma(1.5, classes)
    lifts /= (weights / weights.sum()) @ lifts

    group = draws.codes(weights, rows)
    columns: Columns = {}
    for place in range(width):
        columns[f"f{place + 1:02}"] = draws.flags(np.minimum(rates * lifts[group], 0.9)[:, place], rows)
    count = np.sum(list(columns.values()), axis=0)
    columns["label"] = draws.flags(1 / (1 + np.exp(3.0 - 0.8 * count - 0.5 * (group == 0))), rows)
    columns["months"] = 1 + np.minimum(draws.geometric(0.08 + 0.02 * (group % 3), rows), 59)
    return columns


TABLES = (
    NurseryTable(
        *("diagnoses-a", RARE, "choosing", make_diagnoses, 30_000, 41),
        "300 diagnoses and 150 drugs by Zipf's law",
        parameters={"diagnoses": 300, "drugs": 150, "wards": 12},
        target="died",
    ),
    NurseryTable(
        *("diagnoses-b", RARE, "reporting", make_diagnoses, 80_000, 42),
        "2,000 diagnoses and 600 drugs by Zipf's law",
        parameters={"diagnoses": 2_000, "drugs": 600, "wards": 30},
        target="died",
    ),
    NurseryTable(
        *("dominant-a", DOMINANT, "reporting", make_dominant, 20_000, 43),
        "24 columns of which nearly every row has the same code; no table of this family is for choosing",
        parameters={"width": 24, "least": 0.85, "most": 0.995},
        target="trouble",
    ),
    NurseryTable(
        *("accounts-a", UNIQUE, "choosing", make_accounts, 12_000, 44),
        "a serial number, near-unique customers, a branch that decides manager and routing number",
        parameters={"branches": 40, "per_customer": 1.3, "names": False},
        target="premium",
        cut="quantile",
    ),
    NurseryTable(
        *("accounts-b", UNIQUE, "reporting", make_accounts, 25_000, 45),
        "as accounts-a, with surnames and 150 branches",
        parameters={"branches": 150, "per_customer": 1.8, "names": True},
        target="premium",
        cut="quantile",
    ),
    NurseryTable(
        *("flags-a", SPARSE, "choosing", make_flags, 20_000, 46),
        "40 flags held by 0.3 to 10 % of the rows, in five hidden classes",
        parameters={"width": 40, "classes": 5, "least": 0.003, "most": 0.1},
        target="label",
    ),
    NurseryTable(
        *("flags-b", SPARSE, "reporting", make_flags, 60_000, 47),
        "80 flags held by 0.1 to 8 % of the rows, in nine hidden classes",
        parameters={"width": 80, "classes": 9, "least": 0.001, "most": 0.08},
        target="label",
    ),
)
