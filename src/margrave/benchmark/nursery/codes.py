"""Tables of codes: rare and dominant ones, codes inside codes, columns that act only together, and answers.

`CODES` have many rare codes, one that nearly every row has, near-unique ones, or flags that few rows have.
`REGIONS` have hierarchies and functional dependencies: county in state, price of a product, and what they
decide exactly. Nearly all that such tables hold is in a few pairs of many codes each, most of them rare.
`INTERACTIONS` have dependence of higher order: parities of 2 to 7 columns, and structural models whose causes
act together. A method that buys pairs only is blind to a parity of three columns or more: each of its pairs
is independent. The structural models follow the idea of the data of Tab-PE (arXiv 2606.08259): every column
is a random function of a few earlier ones.
`SURVEYS` hold answers on a few points, which lean on hidden traits, and the sums that are made of them. A sum
is a function of its items that no pair shows whole; an identifier in a few bins means nothing.
`GAPS` hold values that are missing because of what they are, and questions that only some are asked.
"""

from __future__ import annotations

import numpy as np

from margrave.benchmark.nursery.table import Columns, Draws, NurseryTable, logistic, name_codes, zipf_weights

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
    chance = logistic(risk[diagnosis] + 0.03 * (age - 50))
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
        many = np.minimum(0.95, (1 - shares[place]) * (6 if troubles[place] else 1))
        rate = np.where(own, many, 0.002)
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
        "premium": draws.flags(logistic(np.log(balance) - 9.5), rows),
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
    columns["label"] = draws.flags(logistic(0.8 * count - 3.0 + 0.5 * (group == 0)), rows)
    columns["months"] = 1 + np.minimum(draws.geometric(0.08 + 0.02 * (group % 3), rows), 59)
    return columns


CODES = (
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


NESTED = "hierarchies"
DECIDED = "functional dependencies"


def make_regions(
    rows: int, draws: Draws, *, regions: int, states: int, counties: int, towns: int, postcodes: bool
) -> Columns:
    """Households in a town of a county of a state of a region; incomes and fuels differ by place."""
    region_of = draws.below(regions, states)
    state_of = draws.codes(draws.gamma(1.2, states), counties)
    county_of = draws.codes(draws.gamma(1.0, counties), towns)
    wealth = 0.5 * draws.normal(counties) + 0.4 * draws.normal(states)[state_of]
    urban = draws.flags(0.35, towns)
    fuels = 1.2 * draws.normal(states, 6)

    town = draws.permutation(towns)[draws.codes(zipf_weights(towns, 0.9), rows)]
    county = county_of[town]
    state = state_of[county]
    persons = 1 + np.minimum(draws.geometric(0.42, rows), 8)
    log_income = 10.2 + wealth[county] + 0.25 * urban[town] + 0.15 * np.log(persons)
    income = np.round(np.exp(log_income + 0.7 * draws.normal(rows)), -1)
    owner = draws.flags(logistic(1.1 * (np.log(income) - 10.2) - 1.2 * urban[town]), rows)
    columns: Columns = {
        "county": name_codes(county, "county", counties),
        "fuel": name_codes(draws.codes_by_row(fuels[state]), "fuel", 6),
        "income": income.astype(np.int64),
        "owns": owner,
        "persons": persons,
        "region": name_codes(region_of[state], "region", regions),
        "rent": np.where(owner, 0, np.round(income * draws.between(0.15, 0.4, rows) / 12)).astype(np.int64),
        "state": name_codes(state, "state", states),
        "urban": urban[town],
    }
    if postcodes:
        columns["postcode"] = np.char.mod("%05d", 10_000 + 37 * town)
    else:
        columns["town"] = name_codes(town, "town", towns)
    return columns


def make_orders(rows: int, draws: Draws, *, products: int, makers: int, clerks: int) -> Columns:
    """Orders: the product decides maker, category, price and tax; quantity, amount and due date follow."""
    maker_of = draws.codes(draws.gamma(1.0, makers), products)
    category_of = draws.below(9, products)
    price_of = np.round(np.exp(draws.normal(products) + 0.4 * category_of), 2)
    tax_of = np.array([0.0, 0.07, 0.19])[draws.codes((1, 2, 6), 9)][category_of]
    office_of = draws.below(12, clerks)
    office_taste = draws.normal(12, 9)

    clerk = draws.codes(zipf_weights(clerks, 0.6), rows)
    taste = np.log(zipf_weights(products, 1.0))[None, :] + office_taste[:, category_of]
    product = np.empty(rows, dtype=np.int64)
    for office in range(12):
        here = np.flatnonzero(office_of[clerk] == office)
        product[here] = draws.codes(np.exp(taste[office]), here.size)
    quantity = 1 + draws.geometric(0.3, rows)
    net = np.round(price_of[product] * quantity, 2)
    ordered = np.datetime64("2019-01-01") + draws.below(1461, rows).astype("timedelta64[D]")
    days = np.array([14, 30, 60])[draws.codes_by_row(draws.normal(makers, 3)[maker_of[product]])]
    return {
        "category": name_codes(category_of[product], "category", 9),
        "clerk": name_codes(clerk, "clerk", clerks),
        "due": ordered + days.astype("timedelta64[D]"),
        "gross": np.round(net * (1 + tax_of[product]), 2),
        "maker": name_codes(maker_of[product], "maker", makers),
        "net": net,
        "office": name_codes(office_of[clerk], "office", 12),
        "ordered": ordered,
        "price": price_of[product],
        "product": name_codes(product, "product", products),
        "quantity": quantity,
        "tax": tax_of[product],
    }


REGIONS = (
    NurseryTable(
        *("regions-a", NESTED, "choosing", make_regions, 30_000, 21),
        "towns in counties in states in regions, by Zipf's law",
        parameters={"regions": 4, "states": 16, "counties": 120, "towns": 400, "postcodes": False},
        target="owns",
        cut="quantile",
    ),
    NurseryTable(
        *("regions-b", NESTED, "reporting", make_regions, 60_000, 22),
        "as regions-a, with 50 states, 900 counties and postcodes of digits",
        parameters={"regions": 9, "states": 50, "counties": 900, "towns": 2_500, "postcodes": True},
        target="owns",
        cut="quantile",
    ),
    NurseryTable(
        *("orders-a", DECIDED, "choosing", make_orders, 15_000, 23),
        "the product decides maker, category, price and tax; amounts are products of others",
        parameters={"products": 80, "makers": 14, "clerks": 30},
        cut="quantile",
    ),
    NurseryTable(
        *("orders-b", DECIDED, "reporting", make_orders, 40_000, 24),
        "as orders-a, with 240 products and 100 clerks",
        parameters={"products": 240, "makers": 45, "clerks": 100},
        cut="quantile",
    ),
)


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
        answers = draws.codes(np.ones(sizes[place]), cells)
        plans.append((chosen, answers, draws.gamma(1.0, sizes[place])))
    for place, (chosen, answers, weights) in enumerate(plans):
        cell = np.zeros(rows, dtype=np.int64)
        for parent in chosen:
            cell = cell * sizes[parent] + values[:, parent]
        free = draws.codes(weights, rows)
        anew = draws.flags(1.0 if chosen.size == 0 else noise, rows)
        values[:, place] = np.where(anew, free, answers[cell])
    names = [f"c{place + 1:02}" for place in range(width - 1)] + ["label"]
    return {name: name_codes(values[:, place], "v", int(sizes[place])) for place, name in enumerate(names)}


INTERACTIONS = (
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


SURVEY_SCALES = "survey scales"


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
    columns["treated"] = draws.flags(logistic(-2.5 - 1.2 * health), rows)
    return columns


SURVEYS = (
    NurseryTable(
        *("survey-a", SURVEY_SCALES, "choosing", make_survey, 20_000, 11),
        "four scales of five points with sums of sums, states, a serial number",
        parameters={"scales": 4, "items": 4, "points": 5},
        target="treated",
    ),
    NurseryTable(
        *("survey-b", SURVEY_SCALES, "choosing", make_survey, 4_000, 12),
        "few rows: two scales of four points with their sums",
        parameters={"scales": 2, "items": 5, "points": 4, "states": 12, "serial": False},
        target="treated",
    ),
    NurseryTable(
        *("survey-c", SURVEY_SCALES, "reporting", make_survey, 51_680, 13),
        "three scales of five points with sums of sums, states, a serial number",
        parameters={"scales": 3, "items": 4, "points": 5},
        target="treated",
    ),
    NurseryTable(
        *("survey-d", SURVEY_SCALES, "reporting", make_survey, 8_000, 14),
        "eight scales of seven points with their sums",
        parameters={"scales": 8, "items": 5, "points": 7, "states": 20},
        target="treated",
    ),
)


NOT_AT_RANDOM = "missing not at random"


def make_gaps(rows: int, draws: Draws, *, questions: int, waves: int) -> Columns:
    """A panel: high incomes are not told, parts of the questions are put to some only, people leave.

    Who leaves after a wave has no answers in any later one, so that gaps come together.
    """
    loads, points = draws.normal(questions), 3 + draws.below(5, questions)
    leave_load = draws.between(-0.8, 0.8, waves)

    mood = draws.normal(rows)
    sex = draws.flags(0.5, rows)
    age = 18 + draws.below(70, rows)
    job = draws.flags(np.where(age < 65, 0.7, 0.1), rows)
    income = np.round(np.exp(9.8 + 0.3 * mood + 0.5 * draws.normal(rows)), -2)
    hidden = draws.flags(logistic(1.6 * (np.log(income) - 9.8) * 2 - 4.0), rows)
    hours = np.clip(np.round(38 + 8 * draws.normal(rows)), 1, 80)
    children = draws.geometric(0.45, rows)
    columns: Columns = {
        "age": age,
        "children": np.ma.masked_array(children, age < 20),
        "hours": np.ma.masked_array(hours, ~job),
        "income": np.ma.masked_array(income, hidden | ~job),
        "job": job,
        "pregnancies": np.ma.masked_array(children + draws.geometric(0.8, rows), ~sex),
        "sex": np.where(sex, "f", "m"),
    }
    gone = np.zeros(rows, dtype=np.bool_)
    for wave in range(waves):
        gone = gone | draws.flags(logistic(leave_load[wave] * 2 * mood - 2.2), rows)
        for question in range(questions):
            score = loads[question] * mood + draws.normal(rows)
            size = int(points[question])
            answer = np.clip(np.floor(size / 2 + score), 0, size - 1).astype(np.int64)
            refused = gone | draws.flags(np.where(answer == size - 1, 0.15, 0.02), rows)
            texts = name_codes(answer, "v", size).astype(object)
            columns[f"wave{wave + 1}_q{question + 1}"] = np.ma.masked_array(texts, refused)
    return columns | {"stayed": ~gone}


GAPS = (
    NurseryTable(
        *("gaps-a", NOT_AT_RANDOM, "choosing", make_gaps, 15_000, 101),
        "incomes hidden because they are high, questions put to some, three waves that people leave",
        parameters={"questions": 4, "waves": 3},
        target="stayed",
        cut="quantile",
    ),
    NurseryTable(
        *("gaps-b", NOT_AT_RANDOM, "reporting", make_gaps, 25_000, 102),
        "as gaps-a, with six questions in five waves",
        parameters={"questions": 6, "waves": 5},
        target="stayed",
        cut="quantile",
    ),
)
