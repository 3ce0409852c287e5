"""Gaps: values that are missing because of what they are, and questions that only some are asked."""

from __future__ import annotations

import numpy as np

from margrave.benchmark.nursery.draws import Draws
from margrave.benchmark.nursery.table import Columns, NurseryTable, name_codes

FAMILY = "missing not at random"


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


TABLES = (
    NurseryTable(
        *("gaps-a", FAMILY, "choosing", make_gaps, 15_000, 101),
        "incomes hidden because they are high, questions put to some, three waves that people leave",
        parameters={"questions": 4, "waves": 3},
        target="stayed",
        cut="quantile",
    ),
    NurseryTable(
        *("gaps-b", FAMILY, "reporting", make_gaps, 25_000, 102),
        "as gaps-a, with six questions in five waves",
        parameters={"questions": 6, "waves": 5},
        target="stayed",
        cut="quantile",
    ),
)
