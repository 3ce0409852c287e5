"""What the share of rho is worth that buys the pair of a dependency declared without its table.

    python bench/runs/open_rules.py --tables choosing/regions-a choosing/diagnoses-a [--methods independent
        mst aim auto] [--epsilon 0.2 1] [--shares 0 0.02 0.05 0.1] [--repeats 1] [--out FILE]

In each table of the nursery (docs/nursery.md) up to --rules exact dependencies between listed columns are
looked for, those whose determining column has the most codes first, and declared without a table; all values
are declared. A share of rho (`margrave.run.buying.DEPENDENCY`) buys the pair of each, 0 none; then the
method runs. A line a setting: mean total variation of all pairs, the share of synthetic rows whose two
values do not stand together in any real row, and how many rules were left unread, in which case such rows
are drawn at random. Delta 1e-6.

No figure here is private: the real table is looked at to judge.
"""

from __future__ import annotations

import argparse
import json
import statistics
from fractions import Fraction
from itertools import combinations, permutations, product
from pathlib import Path

import numpy as np
import pyarrow as pa

import margrave as mg
from margrave.benchmark.nursery import find_nursery_table
from margrave.benchmark.prepared import read_schema
from margrave.engines.frames import read_table
from margrave.run import buying
from margrave.schema.columns import Listed
from margrave.schema.constraints.rules import Determines
from margrave.schema.encode import encode


def find_dependencies(table: pa.Table, schema: mg.Schema, most: int) -> list[Determines]:
    """Exact dependencies between listed columns, those of the finest determining columns first."""
    codes = encode(table, schema)
    listed = [c.name for c in schema.columns if isinstance(c, Listed) and 2 < schema.domain[c.name] <= 1000]
    listed.sort(key=lambda name: -schema.domain[name])
    found: list[Determines] = []
    for by, of in permutations(listed, 2):
        sizes = schema.domain[by], schema.domain[of]
        seen = np.unique(codes.column(by).astype(np.int64) * sizes[1] + codes.column(of)) // sizes[1]
        taken = {name for rule in found for name in rule.names}
        if sizes[0] > sizes[1] and len(seen) == len(np.unique(seen)) and not {by, of} & taken:
            found.append(Determines(of, by))
    return found[:most]


def judge(real: pa.Table, made: pa.Table, schema: mg.Schema, rules: list[Determines]) -> dict[str, float]:
    """Mean total variation of pairs, and the share of rows that break the dependencies of the real rows."""
    a, b, domain = encode(real, schema), encode(made, schema), schema.domain
    errors = []
    for one, two in combinations(domain.names, 2):
        size = domain[one] * domain[two]
        tables = [
            np.bincount(x.column(one).astype(np.int64) * domain[two] + x.column(two), minlength=size) / x.rows
            for x in (a, b)
        ]
        errors.append(0.5 * float(np.abs(tables[0] - tables[1]).sum()))
    wrong = []
    for rule in rules:
        keys = [x.column(rule.by).astype(np.int64) * domain[rule.of] + x.column(rule.of) for x in (a, b)]
        wrong.append(1.0 - float(np.isin(keys[1], np.unique(keys[0])).mean()))
    return {"pairs": statistics.mean(errors), "wrong": statistics.mean(wrong)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", default=["choosing/regions-a"])
    parser.add_argument("--methods", nargs="+", default=["independent", "mst", "aim", "auto"])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.2, 1.0])
    parser.add_argument("--shares", nargs="+", type=float, default=[0.0, 0.02, 0.05, 0.1])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--rules", type=int, default=2)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    look = buying.find_open_dependencies
    for name in given.tables:
        entry = find_nursery_table(name)
        table = read_table(entry.load())[0]
        schema = read_schema(table, 32, entry.cut)
        rules = find_dependencies(table, schema, given.rules)
        ruled = mg.Schema(schema.columns, tuple(rules))
        print(
            name, table.num_rows, "rows;", ", ".join(f"{rule.by} -> {rule.of}" for rule in rules), flush=True
        )
        for epsilon, method, share in product(given.epsilon, given.methods, given.shares):
            buying.DEPENDENCY = Fraction(share).limit_denominator(1000)
            buying.find_open_dependencies = look if share else lambda *_: ()
            for _ in range(given.repeats):
                made = mg.Synthesizer(method, epsilon=epsilon, delta=1e-6, schema=ruled).fit(table)
                found = judge(table, made.sample_arrow(table.num_rows, rng=0), schema, rules)
                line = {"table": name, "epsilon": epsilon, "method": method, "share": share, **found}
                line["unread"] = len(made.release.rules_not_read)
                print(json.dumps(line), flush=True)
                if given.out:
                    with given.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
