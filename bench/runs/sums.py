"""Sums of columns that discovery finds in tables of which nothing is declared, and whether they are true.

    python bench/runs/sums.py [--tables choosing/survey-a choosing/loans-a] [--epsilon 1 3] [--repeats 3]

Discovery alone is run, with the share of rho that it has by default. A line a table, epsilon and run:

    asked     how many sums the noise and the released means left open and were looked at; 0 is no look, and
              then nothing is spent
    rho       share of the run's rho that this look took
    found     each sum found, with the share of the real rows in which it is exact (NOT private)

Without --tables all made-up tables of the choosing half are taken. Needs margrave[test].
"""

from __future__ import annotations

import argparse
import time
from fractions import Fraction

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
from margrave.schema.columns import Relative
from margrave.schema.queries import readings

SHARE = Fraction(1, 3)
"""What discovery may spend by default."""


def exact_share(table: pa.Table, column: Relative) -> float:
    """The share of the rows with all values in which a column is the sum of its bases."""
    total, known = readings(table.column(column.name).combine_chunks(), "number")
    parts = [readings(table.column(name).combine_chunks(), "number") for name in column.bases]
    both = np.logical_and.reduce([known, *(there for _, there in parts)])
    gap = total - np.sum([values for values, _ in parts], axis=0)
    return float((np.abs(gap[both]) <= 1e-6 * (1 + np.abs(total[both]))).mean())


def run(word: str, epsilon: float) -> str:
    """One line."""
    table = load_nursery_table(word)
    partition = Fraction(1, 4_000_000)
    neighbours = Neighbours(Unit(), "add_remove")
    ledger = Ledger(
        epsilon=epsilon, delta=1e-6, neighbours=neighbours, accountant=ZCDP(), partition_delta=partition
    )
    begun = time.perf_counter()
    schema = Curator(open_source(table)[0], ledger, SecureSource()).discover(None, ledger.total * SHARE)
    took = time.perf_counter() - begun
    looks = [event for event in ledger.events if "columns with sums or products of others" in event.what]
    asked = sum(int(event.what.split()[2]) for event in looks)
    spent = sum(float(e.l2_squared / (2 * e.sigma_squared)) for e in looks if isinstance(e, GaussianEvent))
    found = [
        f"{column.relation} ({exact_share(table, column):.3f})"
        for column in schema.columns
        if isinstance(column, Relative) and column.others and not column.comparison.is_line
    ]
    share = spent / float(ledger.total)
    return f"{word} epsilon {epsilon:g}: asked {asked}, rho {share:.4f}, {took:.1f} s, found {found}"


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tables", nargs="*")
    parser.add_argument("--epsilon", nargs="*", type=float, default=[1.0, 3.0])
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    words = options.tables or [one.word for one in list_nursery_tables("choosing") if not one.needs]
    for word in words:
        for epsilon in options.epsilon:
            for _ in range(options.repeats):
                print(run(word, epsilon), flush=True)


if __name__ == "__main__":
    main()
