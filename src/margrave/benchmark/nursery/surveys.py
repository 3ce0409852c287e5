"""Tables of answers: survey scales, and values that are missing because of what they are.

`SURVEYS` hold answers on a few points, which lean on hidden traits, and the sums that are made of them. A sum
is a function of its items that no pair shows whole; an identifier in a few bins means nothing.
`GAPS` hold values that are missing because of what they are, and questions that only some are asked.
"""

from __future__ import annotations

import numpy as np

from margrave.benchmark.nursery.table import Columns, Draws, NurseryTable, name_codes

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
    columns["treated"] = draws.flags(1 / (1 + np.exp(2.5 + 1.2 * health)), rows)
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
    hidden = draws.flags(1 / (1 + np.exp(4.0 - 1.6 * (np.log(income) - 9.8) * 2)), rows)
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
        gone = gone | draws.flags(1 / (1 + np.exp(2.2 - leave_load[wave] * 2 * mood)), rows)
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
