"""Tables of numbers: heavy tails, near-copies and dense dependence; and tables of unusual shapes.

`AMOUNTS` have heavy tails: amounts over many powers of ten, many zeros, negative ones, totals of their parts.
`LOANS` have near-copies: columns about loans, among them a pair of rank correlation 0.97 that noise may part.
`DENSE` are Gaussian copulas and factor models, in which nearly every pair of many columns depends: no tree
and no small set of pairs holds such a table; a few hidden factors do.
`SHAPES` are wide and short, narrow and long, of columns that know nothing of each other, and curves. The
independent columns are a control: whatever dependence a method makes there is invented.
"""

from __future__ import annotations

import numpy as np

from margrave.benchmark.nursery.table import (
    Columns,
    Draws,
    Floats,
    NurseryTable,
    grade,
    logistic,
    name_codes,
    zipf_weights,
)

HEAVY_TAILS = "heavy tails"


def make_tax_units(rows: int, draws: Draws, *, sources: int) -> Columns:
    """Tax units: `sources` kinds of income, most of them zero, their total, deductions, the tax."""
    levels = draws.between(6.5, 9.5, sources)
    tails = draws.between(1.1, 2.5, sources)
    chances = np.sort(draws.between(0.03, 0.5, sources))
    loads = 1.2 * draws.normal(sources)

    wealth = draws.normal(rows)
    married = draws.flags(logistic(0.3 + 0.4 * wealth), rows)
    wage = np.where(
        draws.flags(0.8, rows), np.exp(10 + 0.4 * married + 0.5 * wealth + 0.5 * draws.normal(rows)), 0
    )
    columns: Columns = {"married": married, "wage": np.round(wage, 0)}
    total = columns["wage"].copy()
    for place in range(sources):
        held = draws.flags(logistic(np.log(chances[place]) + loads[place] * wealth), rows)
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


AMOUNTS = (
    NurseryTable(
        *("tax-a", HEAVY_TAILS, "choosing", make_tax_units, 40_000, 51),
        "eight kinds of income, most zero, with tails of index 1.1 to 2.5, their total and the tax",
        parameters={"sources": 8},
        target="audited",
        cut="quantile",
    ),
    NurseryTable(
        *("claims-a", HEAVY_TAILS, "choosing", make_claims, 30_000, 52),
        "counts of claims with many zeros and Pareto claims",
        parameters={"makes": 25},
        target="claimed",
        cut="quantile",
    ),
    NurseryTable(
        *("tax-b", HEAVY_TAILS, "reporting", make_tax_units, 120_000, 53),
        "as tax-a, with thirty kinds of income",
        parameters={"sources": 30},
        target="audited",
        cut="quantile",
    ),
)


NEAR_COPIES = "near-copies"
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
        chance = logistic(flag_levels[place] + 0.7 * traits @ flag_loads[place])
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
    letter = np.array(list("ABCDEFG"))[subgrade // 5]
    rate = np.round(5.3 + 0.62 * subgrade + 0.01 * np.floor(20 * draws.uniform(rows)), 2)
    term = np.where(draws.flags(logistic(np.log(granted / 9_000) - 1.2), rows), 60, 36)
    monthly = rate / 1200
    instalment = granted * monthly / (1 - (1 + monthly) ** -term)
    issued = np.datetime64("2012-01") + draws.below(60, rows).astype("timedelta64[M]")
    ends = np.where(draws.flags(0.3, rows), 1.0, draws.uniform(rows))
    last = issued + np.maximum(1, np.round(term * ends)).astype("timedelta64[M]")
    bad = draws.flags(logistic(0.9 * risk - 3.0), rows)
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
        "subgrade": np.char.add(letter, (subgrade % 5 + 1).astype(str)),
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
        "inquiries": draws.geometric(logistic(0.4 - 0.5 * traits[:, 3]), rows),
        "purpose": name_codes(draws.codes_by_row(traits @ purpose_scores.T), "purpose", 12),
        "score_high": (score + 4).astype(np.int64),
        "score_low": score.astype(np.int64),
        "state": name_codes(draws.codes(1.0 / np.arange(1, 51), rows), "state", 50),
    }


LOANS = (
    NurseryTable(
        *("loans-a", NEAR_COPIES, "choosing", make_loans, 10_000, 61),
        "55 columns, an amount granted and nearly the same asked for and funded",
        target="defaulted",
        cut="quantile",
    ),
    NurseryTable(
        *("loans-b", NEAR_COPIES, "reporting", make_loans, 10_000, 62),
        "as loans-a, with a register of other loadings",
        target="defaulted",
        cut="quantile",
    ),
    NurseryTable(
        *("loans-c", NEAR_COPIES, "reporting", make_loans, 40_000, 63),
        "as loans-b, longer, with 40 counts of the register and 12 flags",
        parameters={"bureau": 40, "flags": 12},
        target="defaulted",
        cut="quantile",
    ),
)


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
        chance = logistic(1.5 * hidden[0] @ aim - 1.5)
        columns["label"] = draws.flags(chance, rows)
    return columns


def _shape_margin(score: Floats, kind: int, scale: float) -> Floats:
    """A rising function of standard normal numbers, two to four digits kept."""
    if kind == 0:
        return np.round(50 + 10 * scale * score, 2)
    if kind == 1:
        return np.round(100 * scale * np.exp(0.9 * score), 2)
    if kind == 2:
        return np.round(logistic(1.702 * score), 4)
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


DENSE = (
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


WIDE = "wide and short"
LONG = "narrow and long"
CONTROL = "independent columns"
CURVES = "curves"


def make_chains(rows: int, draws: Draws, *, width: int, length: int, stay: float) -> Columns:
    """Chains of `length` columns: each repeats the one before with a chance, or is drawn anew."""
    sizes = 2 + draws.below(6, -(-width // length))
    weights = [draws.gamma(1.5, int(size)) for size in sizes]
    columns: Columns = {}
    before = np.zeros(rows, dtype=np.int64)
    for place in range(width):
        chain = place // length
        anew = draws.codes(weights[chain], rows)
        keep = draws.flags(stay if place % length else 0.0, rows)
        before = np.where(keep, before, anew)
        columns[f"w{place + 1:03}"] = name_codes(before, "v", int(sizes[chain]))
    return columns


def make_meters(rows: int, draws: Draws, *, stations: int, curved: bool) -> Columns:
    """Readings of stations by hour and month: temperature, demand and a fault that needs both."""
    base = 3 * draws.normal(stations)
    station = draws.codes(zipf_weights(stations, 0.5), rows)
    hour, month = draws.below(24, rows), 1 + draws.below(12, rows)
    warmth = 11 + base[station] - 9 * np.cos(2 * np.pi * (month - 1) / 12)
    of_the_hour = 4 * np.cos(2 * np.pi * (hour - 3) / 24)
    temperature = np.round(warmth - of_the_hour + 2.5 * draws.normal(rows), 1)
    load = np.abs(temperature - 17) if curved else temperature
    demand = np.round(40 + 1.5 * load + 8 * (hour >= 8) + 5 * draws.normal(rows), 1)
    return {
        "demand": demand,
        "fault": draws.flags(np.where((demand > 65) & (temperature < 5), 0.05, 0.002), rows),
        "hour": hour,
        "month": month,
        "station": name_codes(station, "station", stations),
        "temperature": temperature,
    }


def make_independent(rows: int, draws: Draws, *, width: int) -> Columns:
    """Columns drawn each by itself: codes, flags, whole numbers and floats in turn."""
    sizes = 2 + draws.below(30, width)
    columns: Columns = {}
    for place in range(width):
        name, size = f"i{place + 1:02}", int(sizes[place])
        if place % 4 == 0:
            columns[name] = name_codes(draws.codes(zipf_weights(size), rows), "v", size)
        elif place % 4 == 1:
            columns[name] = draws.flags(1 / size, rows)
        elif place % 4 == 2:
            columns[name] = draws.geometric(1 / size, rows)
        else:
            columns[name] = np.round(np.exp(draws.normal(rows)) * size, 2)
    return columns


def make_curves(rows: int, draws: Draws, *, noise: float) -> Columns:
    """Numbers on curves: a ring, a parabola, a wave, two crossing lines, a checkerboard: no correlation."""
    turns = 2 * np.pi * draws.uniform(rows)
    radius = np.where(draws.flags(0.5, rows), 1.0, 2.0) + noise * draws.normal(rows)
    x, t, u = draws.between(-2, 2, rows), draws.between(0, 12, rows), draws.normal(rows)
    square, offset = draws.below(8, rows), draws.below(4, rows)
    inner = radius < 1.5
    columns: Columns = {
        "board_x": square + draws.uniform(rows),
        "board_y": 2 * offset + square % 2 + draws.uniform(rows),
        "cross_x": u,
        "cross_y": np.where(draws.flags(0.5, rows), u, -u) + noise * draws.normal(rows),
        "parabola_x": x,
        "parabola_y": x**2 + noise * draws.normal(rows),
        "ring_x": radius * np.cos(turns),
        "ring_y": radius * np.sin(turns),
        "wave_t": t,
        "wave_y": np.sin(t) + noise * draws.normal(rows),
    }
    rounded = {name: np.round(values, 3) for name, values in columns.items()}
    return rounded | {"inner": inner, "level": 1 + grade(np.abs(u) + 0.2 * draws.normal(rows), 5)}


SHAPES = (
    NurseryTable(
        *("wide-a", WIDE, "choosing", make_chains, 2_000, 91),
        "150 columns of 2 to 7 codes in chains of five",
        parameters={"width": 150, "length": 5, "stay": 0.7},
    ),
    NurseryTable(
        *("wide-b", WIDE, "reporting", make_chains, 2_000, 92),
        "200 columns of 2 to 7 codes in chains of eight",
        parameters={"width": 200, "length": 8, "stay": 0.6},
    ),
    NurseryTable(
        *("meters-a", LONG, "choosing", make_meters, 400_000, 93),
        "six columns, two of them waves of the month and the hour, and a rare fault",
        parameters={"stations": 20, "curved": False},
        target="fault",
    ),
    NurseryTable(
        *("meters-b", LONG, "reporting", make_meters, 1_000_000, 94),
        "as meters-a, with a demand that rises with cold and with heat",
        parameters={"stations": 50, "curved": True},
        target="fault",
    ),
    NurseryTable(
        *("control-a", CONTROL, "choosing", make_independent, 10_000, 95),
        "20 columns that know nothing of each other",
        parameters={"width": 20},
        cut="quantile",
    ),
    NurseryTable(
        *("control-b", CONTROL, "reporting", make_independent, 30_000, 96),
        "40 columns that know nothing of each other",
        parameters={"width": 40},
        cut="quantile",
    ),
    NurseryTable(
        *("curves-a", CURVES, "reporting", make_curves, 15_000, 97),
        "pairs of numbers on curves without correlation; no table of this family is for choosing",
        parameters={"noise": 0.1},
        target="inner",
    ),
)
