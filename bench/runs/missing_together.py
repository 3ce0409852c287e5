"""Values that are missing together, or missing or 0 only where another column says so, in rows of `auto`.

    python bench/runs/missing_together.py [--rows 8000 30000] [--epsilon 1 3] [--repeats 3] [--zeros] [--show]

A made-up survey is released by `auto` with nothing declared, delta 1e-9. It has a panel of three laboratory
values and one of a second contact, each missing together but for a few rows; skip patterns (if one smokes
now is missing where one never did, hours of work where there is no work, a cause of death but for the dead,
of whom one in five has none either); and three columns that are missing independently of all others.

With --zeros it is a table of clients in which nothing is missing: hours of work and wages are 0 where the
status says that one does not work, the amount of claims where their number is, cigarettes where one does not
smoke, a discount where there is no coupon, births of men; and six columns are 0 by chance, some of them more
often for the young.

Of each release rows are drawn twice from the same model: with what it found of missing values and zeros, and
without. A line a size and epsilon, means of all releases:

    agree     the share of the rows that keep to each relation, mean over relations and the least of them:
              missing (or 0) in both or in neither, or where that is said; then the same without
    off       rows that break a relation, over those that would if the columns were independent; the same
    pairs     mean total variation of all pairs from the table's, in the release's codes; the same
    found     relations that were found, and how many of them are none

With --show each find is written out. Tables are seeded; noise is not.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave import Synthesis, Synthesizer
from margrave.models._determined import DeterminedModel
from margrave.protocols import Model
from margrave.schema.domain import Domain
from margrave.schema.encode import encode
from margrave.schema.encoded import Encoded

Texts = NDArray[np.object_]
Truths = NDArray[np.bool_]

PANELS = (("glucose", "lipids", "enzyme"), ("contact_kind", "contact_city", "contact_since"))
"""Columns that are missing together."""
SKIPS = (
    ("smokes_now", "ever_smoked", "no"),
    ("a_day", "ever_smoked", "no"),
    ("hours", "employed", "no"),
    ("cause", "died", "no"),
)
"""A column that is missing where another one has a value."""


def make_table(rows: int, seed: int) -> pa.Table:
    """The survey."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    ever = rng.random(rows) < 0.25 + 0.004 * (age - 18)
    work = rng.random(rows) < np.where(age < 66, 0.75, 0.08)
    dead = rng.random(rows) < 0.02 + 0.2 * (age > 75)
    tested = rng.random(rows) < 0.8 + 0.002 * (age - 18)
    contact = rng.random(rows) < 0.35 + 0.3 * (age > 60)
    few = [np.where(rng.random(rows) < 0.998, tested, ~tested) for _ in PANELS[0]]
    smokes = rng.choice(["every day", "some days", "not at all"], rows, p=[0.35, 0.15, 0.5])
    return pa.table(
        {
            "age": age,
            "region": rng.choice(["north", "south", "east", "west"], rows, p=[0.4, 0.3, 0.2, 0.1]),
            "ever_smoked": np.where(ever, "yes", "no"),
            "smokes_now": _blank(smokes, ever),
            "a_day": _blank(rng.poisson(11, rows), ever),
            "employed": np.where(work, "yes", "no"),
            "hours": _blank(np.clip(rng.normal(36, 9, rows), 4, 70).round(), work),
            "glucose": _blank(rng.normal(88 + 0.3 * age, 12).round(), few[0]),
            "lipids": _blank(rng.normal(160 + 0.6 * age, 30).round(), few[1]),
            "enzyme": _blank(rng.gamma(4.0, 8.0, rows).round(1), few[2]),
            "contact_kind": _blank(
                rng.choice(["partner", "child", "friend"], rows, p=[0.5, 0.3, 0.2]), contact
            ),
            "contact_city": _blank(rng.choice([f"city {k}" for k in range(12)], rows), contact),
            "contact_since": _blank(rng.integers(1960, 2024, rows), contact),
            "died": np.where(dead, "yes", "no"),
            "cause": _blank(rng.choice(["heart", "cancer", "other"], rows), dead & (rng.random(rows) < 0.8)),
            "income": _blank(rng.lognormal(10.3, 0.5, rows).round(-2), rng.random(rows) < 0.85),
            "weight": _blank(rng.normal(76, 13, rows).round(), rng.random(rows) < 0.9),
            "mood": _blank(
                rng.choice(["good", "fair", "bad"], rows, p=[0.6, 0.3, 0.1]), rng.random(rows) < 0.8
            ),
        }
    )


def _blank(values: NDArray[np.generic], known: Truths) -> pa.Array:
    return pa.array(values.tolist(), mask=~known)


def make_clients(rows: int, seed: int) -> pa.Table:
    """The table of clients."""
    rng = np.random.default_rng(seed)
    age = rng.integers(16, 90, rows)
    grown = rng.choice(["employed", "own firm", "unemployed", "homemaker"], rows, p=[0.68, 0.13, 0.1, 0.09])
    young = rng.choice(["student", "employed"], rows, p=[0.6, 0.4])
    status = np.where(age < 22, young, np.where(age > 66, "retired", grown))
    works, smokes = np.isin(status, ["employed", "own firm"]), rng.random(rows) < 0.27
    claims = rng.poisson(np.exp(0.01 * (age - 40) - 1.6))
    coupon = rng.choice(["none", "SPRING", "VIP", "NEW10"], rows, p=[0.7, 0.12, 0.08, 0.1])
    total, woman = rng.gamma(2.0, 60.0, rows).round(2), rng.random(rows) < 0.5
    off = (total * rng.choice([0.05, 0.1, 0.2], rows)).round(2)
    return pa.table(
        {
            "age": age,
            "status": status,
            "hours": np.where(works, np.clip(rng.normal(36, 9, rows), 4, 70).round(), 0).astype(np.int64),
            "wage": np.where(works, rng.lognormal(10.2, 0.5, rows).round(2), 0.0),
            "claims": claims,
            "amount": np.where(claims > 0, 50 + rng.gamma(1.4, 900.0, rows).round(2), 0.0),
            "smoker": np.where(smokes, "yes", "no"),
            "cigarettes": np.where(smokes, 1 + rng.poisson(12, rows), 0),
            "coupon": coupon,
            "total": total,
            "discount": np.where(coupon == "none", 0.0, off),
            "sex": np.where(woman, "f", "m"),
            "births": np.where(woman, rng.poisson(np.where(age > 30, 1.8, 0.3)), 0),
            "years_away": np.where(rng.random(rows) < 0.3, rng.integers(1, 30, rows), 0),
            "gain": np.where(rng.random(rows) < 0.9, 0, rng.lognormal(7, 1, rows).round()).astype(np.int64),
            "visits": rng.poisson(np.exp(0.015 * (age - 40) - 0.7)),
            "rain": np.where(rng.random(rows) < 0.55, 0, rng.gamma(0.8, 6, rows).round(1)),
            "donated": np.where(rng.random(rows) < 0.004 * age, rng.choice([5, 10, 20, 50], rows), 0),
            "awards": (rng.random(rows) < 0.04).astype(np.int64),
        }
    )


ZEROS = (
    ("hours", "wage", (0,), True),
    ("hours", "status", ("student", "unemployed", "homemaker", "retired"), True),
    ("wage", "status", ("student", "unemployed", "homemaker", "retired"), True),
    ("amount", "claims", (0,), True),
    ("cigarettes", "smoker", ("no",), True),
    ("discount", "coupon", ("none",), True),
    ("births", "sex", ("m",), False),
)
"""A column of clients that is 0 where another one has some values, and whether nowhere else."""


def list_breaks(table: pa.Table, zeros: bool) -> dict[str, tuple[float, float]]:
    """For each relation the share of the rows that break it, and that of independent columns."""
    found: dict[str, tuple[float, float]] = {}

    def add(name: str, held: Truths, said: Truths, both: bool) -> None:
        p, q = held.mean(), said.mean()
        broken = said != held if both else said & ~held
        found[name] = float(broken.mean()), q * (1 - p) + (p * (1 - q) if both else 0.0)

    def read(name: str, values: Sequence[object]) -> Truths:
        kind = table[name].type
        said = pc.is_in(table[name].combine_chunks(), value_set=pa.array(list(values)).cast(kind))
        return np.asarray(said, dtype=np.bool_)

    if zeros:
        for of, by, values, both in ZEROS:
            add(f"{of}, {by}", read(of, (0,)), read(by, values), both)
        return found
    absent = {name: np.asarray(table[name].is_null()) for name in table.column_names}
    for panel in PANELS:
        for a, b in itertools.combinations(panel, 2):
            add(f"{a}, {b}", absent[a], absent[b], True)
    for of, by, value in SKIPS:
        add(f"{of}, {by}", absent[of], read(by, (value,)), of != "cause")
    return found


def drop_finds(model: Model) -> Model:
    """The same model without what it found of missing values and zeros."""
    if not isinstance(model, DeterminedModel):
        return model
    return DeterminedModel(model.inner, [one for one in model.determined if not one.sentence])


def measure_pairs(real: Encoded, drawn: Encoded) -> float:
    """Mean total variation of all pairs."""

    def tabulate(rows: Encoded, domain: Domain, a: str, b: str) -> NDArray[np.float64]:
        cells = rows.column(a).astype(np.int64) * domain[b] + rows.column(b)
        return np.bincount(cells, minlength=domain[a] * domain[b]) / rows.rows

    pairs = list(itertools.combinations(real.domain.names, 2))
    apart = [tabulate(real, real.domain, *pair) - tabulate(drawn, real.domain, *pair) for pair in pairs]
    return float(np.mean([0.5 * np.abs(one).sum() for one in apart]))


def score(table: pa.Table, synthesis: Synthesis, codes: Encoded, zeros: bool) -> list[float]:
    """Mean agreement, the least, mean of breaks over chance, and pairs."""
    drawn = synthesis.sample_arrow()
    real, own = list_breaks(table, zeros), list_breaks(drawn, zeros)
    shares = [share for share, _ in own.values()]
    ratio = np.mean([max(own[key][0] - real[key][0], 0.0) / real[key][1] for key in real])
    return [
        1 - float(np.mean(shares)),
        1 - max(shares),
        float(ratio),
        measure_pairs(codes, encode(drawn, synthesis.schema)),
    ]


def is_true(names: Sequence[str]) -> bool:
    """Whether columns have to do with each other in what is missing or 0."""
    groups = [
        *map(set, PANELS),
        {"age", "status", "hours", "wage"},
        *(set(pair[:2]) for pair in ZEROS),
        {"ever_smoked", "smokes_now", "a_day"},
        {"hours", "employed"},
        {"cause", "died"},
    ]
    return any(set(names) <= group for group in groups)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", nargs="*", type=int, default=[8_000, 30_000])
    parser.add_argument("--epsilon", nargs="*", type=float, default=[1.0, 3.0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--zeros", action="store_true", help="The table of clients.")
    parser.add_argument("--show", action="store_true", help="Write out what is found.")
    options = parser.parse_args()
    print("| rows | epsilon | agree | least | off | pairs | agree | least | off | pairs | found | false |")
    print(f"|{' --- |' * 12}")
    for rows in options.rows:
        for epsilon in options.epsilon:
            lines = []
            for seed in range(options.repeats):
                table = (make_clients if options.zeros else make_table)(rows, seed)
                synthesis = Synthesizer("auto", epsilon=epsilon, delta=1e-9).fit(table)
                codes = encode(table, synthesis.schema)
                model = synthesis.model
                kept = model.determined if isinstance(model, DeterminedModel) else ()
                finds = [one for one in kept if one.sentence]
                without = Synthesis(synthesis.release, drop_finds(model))
                scores = [
                    number
                    for one in (synthesis, without)
                    for number in score(table, one, codes, options.zeros)
                ]
                false = [one for one in finds if not is_true((one.name, one.by))]
                lines.append([*scores, len(finds), len(false)])
                for one in finds if options.show else ():
                    print(f"{one.found_rule.words}: {one.held} {'turned' * one.turned}")
            shown = " | ".join(f"{value:.4f}" for value in np.mean(lines, axis=0))
            print(f"| {rows:,} | {epsilon:g} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
