"""Relations that discovery finds where nothing is declared, and whether they are true.

    python bench/runs/relations.py [--tables choosing/visits-a choosing/tax-a] [--epsilon 1 3] [--repeats 1]

Discovery alone is run, with the share of rho that it has by default. A line a table, epsilon and run, and
below it a line for each relation that was found: what it says, the noisy share that the release states, and
the share of the real rows (NOT private) that obey it.

Without --tables all made-up tables of the choosing half are taken. Needs margrave[test].
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from margrave.benchmark.nursery import list_nursery_tables, load_nursery_table
from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import SecureSource
from margrave.privacy.unit import Neighbours, Unit
from margrave.schema.columns import Binned, Relative
from margrave.schema.columns.relative import count_relation, take_own
from margrave.schema.constraints.rules import CalendarRule, Ordered
from margrave.schema.queries import readings
from margrave.schema.schema import Schema

SHARE = Fraction(1, 3)
"""What discovery may spend by default."""
FIRST_WORDS = ("comparisons", "relation", "lines", "constants", "days", "times")


def share_of_relation(table: pa.Table, column: Relative) -> float:
    """The share of the rows with all values that lie within the bins of a relative column."""
    edges = column.part.edge_array
    within = np.concatenate([[-(2.0**62)], edges, [2.0**62]])
    base, *others = (table.column(name) for name in column.bases)
    counts = count_relation(table.column(column.name), base, column.comparison, within, others)
    cells = counts[: len(within) - 1]
    return float(cells[1:-1].sum() / max(cells.sum(), 1))


def findings(table: pa.Table, schema: Schema) -> Iterator[str]:
    """A line for each relation."""
    for column in schema.columns:
        if isinstance(column, Relative) and column.share is not None:
            true = share_of_relation(table, column)
            yield f"    {column.relation}: {column.share[0]:.3f}, real {true:.3f}"

    for rule in schema.rules:
        if isinstance(rule, CalendarRule | Ordered) and rule.found is not None:
            yield f"    {rule.words}: {rule.found[0]:.3f}, real {share_of_dates(table, schema, rule):.3f}"


def share_of_dates(table: pa.Table, schema: Schema, rule: CalendarRule | Ordered) -> float:
    """The share of the rows with all values that obey a rule about dates."""
    reads = {}
    for name in rule.names:
        column = schema[name]
        own = take_own(column)
        reads[name] = own.read if isinstance(own, Binned) else "number"
    if isinstance(rule, CalendarRule):
        agree, differ, _ = open_source(table)[0].agreements([rule], reads)[0].reveal()
        return float(agree / max(agree + differ, 1))
    low, high = (readings(table.column(name), reads[name]) for name in rule.names)
    both = low[1] & high[1]
    return float((low[0] <= high[0])[both].mean())


def discovered(table: pa.Table, epsilon: float) -> tuple[Schema, Ledger]:
    """The schema that discovery completes, and what it spent."""
    partition = Fraction(1, 4_000_000)
    neighbours = Neighbours(Unit(), "add_remove")
    ledger = Ledger(
        epsilon=epsilon, delta=1e-6, neighbours=neighbours, accountant=ZCDP(), partition_delta=partition
    )
    schema = Curator(open_source(table)[0], ledger, SecureSource()).discover(None, ledger.total * SHARE)
    return schema, ledger


def share_spent(ledger: Ledger) -> float:
    """The share of rho that looks at several columns took."""
    looks: list[Any] = [event for event in ledger.events if event.what.split()[0] in FIRST_WORDS]
    spent = sum(float(e.l2_squared / (2 * e.sigma_squared)) for e in looks if isinstance(e, GaussianEvent))
    return spent / float(ledger.total)


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--epsilon", nargs="*", type=float, default=[1.0, 3.0])
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    words = options.tables or [one.word for one in list_nursery_tables("choosing") if not one.needs]
    for word in words:
        table = load_nursery_table(word)
        for epsilon in [e for e in options.epsilon for _ in range(options.repeats)]:
            begun = time.process_time()
            schema, ledger = discovered(table, epsilon)
            took = time.process_time() - begun
            print(f"{word} epsilon {epsilon:g}: {share_spent(ledger):.4f} of rho, {took:.1f} s", flush=True)
            for line in findings(table, schema):
                print(line, flush=True)


if __name__ == "__main__":
    main()
