"""Values that are missing together, or only where another column says so, in rows of a release by `auto`.

    python bench/runs/missing_together.py [--rows 8000 30000] [--epsilon 1 3] [--repeats 3] [--show]

A made-up survey is released by `auto` with nothing declared, delta 1e-9. It has a panel of three laboratory
values and one of a second contact, each missing together but for a few rows; skip patterns (if one smokes
now is missing where one never did, hours of work where there is no work, a cause of death but for the dead,
of whom one in five has none either); and three columns that are missing independently of all others. Of each
release rows are drawn twice from the same model: with what it found of missing values, and without. A line a
size and epsilon, means of all releases:

    agree     the share of the rows that keep to each relation, mean over relations and the least of them:
              missing in both or in neither, or missing where that is said; then the same without
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
FREE = ("income", "weight", "mood")
"""Columns that are missing independently of all others."""


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


def list_breaks(table: pa.Table) -> dict[str, tuple[float, float]]:
    """For each relation the share of the rows that break it, and that of independent columns."""
    absent = {name: np.asarray(table[name].is_null()) for name in table.column_names}
    found: dict[str, tuple[float, float]] = {}
    for panel in PANELS:
        for a, b in itertools.combinations(panel, 2):
            p, q = absent[a].mean(), absent[b].mean()
            found[f"{a}, {b}"] = float((absent[a] != absent[b]).mean()), p * (1 - q) + q * (1 - p)
    for of, by, value in SKIPS:
        said, p = np.asarray(table[by].to_pylist(), dtype=object) == value, absent[of].mean()
        alone = of == "cause"
        broken = said & ~absent[of] if alone else said != absent[of]
        q = said.mean()
        found[f"{of}, {by}"] = float(broken.mean()), q * (1 - p) + (0.0 if alone else p * (1 - q))
    return found


def drop_finds(model: Model) -> Model:
    """The same model without what it found of missing values."""
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


def score(table: pa.Table, synthesis: Synthesis, codes: Encoded) -> list[float]:
    """Mean agreement, the least, mean of breaks over chance, and pairs."""
    drawn = synthesis.sample_arrow()
    real, own = list_breaks(table), list_breaks(drawn)
    shares = [share for share, _ in own.values()]
    ratio = np.mean([max(own[key][0] - real[key][0], 0.0) / real[key][1] for key in real])
    return [
        1 - float(np.mean(shares)),
        1 - max(shares),
        float(ratio),
        measure_pairs(codes, encode(drawn, synthesis.schema)),
    ]


def is_true(names: Sequence[str]) -> bool:
    """Whether columns have to do with each other in what is missing."""
    groups = [
        *map(set, PANELS),
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
    parser.add_argument("--show", action="store_true", help="Write out what is found.")
    options = parser.parse_args()
    print("| rows | epsilon | agree | least | off | pairs | agree | least | off | pairs | found | false |")
    print(f"|{' --- |' * 12}")
    for rows in options.rows:
        for epsilon in options.epsilon:
            lines = []
            for seed in range(options.repeats):
                table = make_table(rows, seed)
                synthesis = Synthesizer("auto", epsilon=epsilon, delta=1e-9).fit(table)
                codes = encode(table, synthesis.schema)
                model = synthesis.model
                kept = model.determined if isinstance(model, DeterminedModel) else ()
                finds = [one for one in kept if one.sentence]
                without = Synthesis(synthesis.release, drop_finds(model))
                scores = [*score(table, synthesis, codes), *score(table, without, codes)]
                false = [one for one in finds if not is_true((one.name, one.by))]
                lines.append([*scores, len(finds), len(false)])
                for one in finds if options.show else ():
                    print(f"{one.found_rule.words}: {one.held} {'turned' * one.turned}")
            shown = " | ".join(f"{value:.4f}" for value in np.mean(lines, axis=0))
            print(f"| {rows:,} | {epsilon:g} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
