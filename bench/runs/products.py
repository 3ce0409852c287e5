"""Products of two columns that discovery finds where nothing is declared: insured * rate / 100, hours * wage.

    python bench/runs/products.py [--quotients] [--rows 2000 8000 30000] [--epsilon 1 3] [--repeats 3]
                                  [--apart] [--without] [--words]

A made-up table of twelve products, six beside the columns that they are made of and six at the end, and
eight columns that have nothing to do with them (45 in all) is released by `independent` with nothing
declared, delta 1e-9. A line a size and epsilon: how many of the products each release's schema holds in the
mean, the share of synthetic rows in which a column is the product (to its rounding; with --without, when none
is looked at), how many columns were coded by a product that is none, how many sums and products were looked
at, and seconds that it took to choose those. The table is seeded; noise is not. --quotients takes a
table of nine quotients and two squares in place of the products (40 columns in all).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave import Synthesizer
from margrave.measure.discovery.between import relations
from margrave.schema.columns import Relative

Array = NDArray[np.float64]
Products = dict[str, tuple[tuple[str, ...], Callable[..., NDArray[np.float64]]]]

PRODUCTS: Products = {
    "amount": (("price", "quantity"), lambda price, quantity: price * quantity),
    "premium": (("insured", "rate"), lambda insured, rate: insured * rate / 100),
    "bonus_paid": (("salary", "bonus"), lambda salary, bonus: salary * bonus / 100),
    "interest": (("balance", "yearly"), lambda balance, yearly: balance * yearly / 1200),
    "pay": (("minutes", "wage"), lambda minutes, wage: minutes * wage / 60),
    "salary_paid": (("salary_full", "employed"), lambda salary, employed: salary * employed),
    "net_price": (("list_price", "discount"), lambda price, discount: price * (1 - discount)),
    "due": (("invoice", "rebate"), lambda invoice, rebate: invoice * (1 - rebate / 100)),
    "cost": (("energy", "tariff"), lambda energy, tariff: energy * tariff / 100),
    "duty": (("customs", "levy"), lambda customs, levy: customs * levy / 1000),
    "total": (("each", "pieces", "off"), lambda each, pieces, off: each * pieces * (1 - off / 100)),
    "gross": (("net", "vat"), lambda net, vat: net * (1 + vat / 100)),
}
"""Products to the cent: of which columns, and how."""
QUOTIENTS: Products = {
    "bmi": (("weight", "height"), lambda weight, height: weight / (height / 100) ** 2),
    "unit_price": (("amount", "quantity"), lambda amount, quantity: amount / quantity),
    "speed": (("distance", "hours"), lambda distance, hours: distance / hours),
    "metre_price": (("price", "area"), lambda price, area: price / area),
    "incidence": (("events", "population"), lambda events, population: events / population * 1000),
    "average": (("points", "games"), lambda points, games: points / games),
    "percent": (("part", "whole"), lambda part, whole: part / whole * 100),
    "consumption": (("litres", "driven"), lambda litres, driven: litres / driven * 100),
    "pace": (("seconds", "run"), lambda seconds, run: seconds / run / 60),
    "floor": (("side",), lambda side: side**2),
    "energy": (("mass", "velocity"), lambda mass, velocity: mass * velocity**2),
}
"""Quotients and squares: of which columns, and how."""
DIGITS = {"bmi": 1, "speed": 1, "metre_price": 0, "percent": 1, "consumption": 1, "floor": 1, "energy": 0}
"""Decimals of them where they are not two."""


def make_table(rows: int, seed: int) -> pa.Table:
    """The products, what they are products of, and columns apart, of sizes alike."""
    rng = np.random.default_rng(seed)

    def wide(middle: float, spread: float, digits: int = 2) -> Array:
        return np.round(rng.lognormal(np.log(middle), spread, rows), digits)

    def some(values: list[float], weights: list[float]) -> Array:
        return rng.choice(values, rows, p=np.asarray(weights) / sum(weights))

    held: dict[str, Any] = {
        "price": wide(25.0, 0.8),
        "quantity": 1 + rng.poisson(2.0, rows),
        "insured": 1000 * wide(100.0, 0.6, 0),
        "rate": some([0.25, 0.35, 0.5, 0.75], [4, 3, 2, 1]),
        "salary": 100 * wide(480.0, 0.3, 0),
        "bonus": some([0, 5, 10, 12, 15, 20], [3, 2, 2, 1, 1, 1]).astype(np.int64),
        "balance": wide(8_000.0, 1.2),
        "yearly": some([1.9, 2.5, 3.9, 5.9, 8.9], [1, 3, 3, 2, 1]),
        "minutes": 15 * rng.integers(4, 40, rows),
        "wage": np.round(rng.normal(19.0, 4.0, rows).clip(9.0), 2),
        "salary_full": 100 * wide(380.0, 0.35, 0),
        "employed": some([0.5, 0.6, 0.8, 1.0], [1, 1, 3, 15]),
        "list_price": wide(60.0, 0.7),
        "discount": some([0, 0.05, 0.1, 0.15, 0.25, 0.4], [6, 3, 4, 3, 2, 1]),
        "invoice": wide(900.0, 0.9),
        "rebate": some([0, 2, 3, 5, 10, 30], [6, 4, 4, 3, 2, 1]).astype(np.int64),
        "energy": rng.gamma(4.0, 700.0, rows).astype(np.int64),
        "tariff": np.round(rng.normal(31.0, 4.0, rows), 1),
        "customs": wide(2_500.0, 0.8),
        "levy": some([3, 12, 25, 47, 65], [1, 2, 3, 2, 1]).astype(np.int64),
    }
    held |= {
        "each": wide(12.0, 0.9),
        "pieces": 1 + rng.poisson(4.0, rows),
        "net": wide(150.0, 0.8),
        "vat": some([0, 7, 19], [1, 3, 6]).astype(np.int64),
        "off": some([0, 3, 5, 10, 20], [5, 3, 3, 2, 1]).astype(np.int64),
    }
    return _put_together(held, _make_apart(rng, rows), PRODUCTS)


def make_quotients(rows: int, seed: int) -> pa.Table:
    """The quotients, what they are made of, which goes together, and the same columns apart."""
    rng = np.random.default_rng(seed)

    def wide(middle: float, spread: float, digits: int = 2) -> Array:
        return np.round(rng.lognormal(np.log(middle), spread, rows), digits)

    height = rng.normal(171.0, 9.0, rows).clip(140.0).round()
    count, games = 1 + rng.poisson(3.0, rows), 1 + rng.poisson(12.0, rows)
    hours, area, population = wide(1.5, 0.6), wide(80.0, 0.4, 0), wide(4e4, 1.0, 0)
    whole, driven, run = wide(900.0, 1.0), wide(450.0, 0.5, 0), wide(8.0, 0.5)
    held: dict[str, Any] = {
        "weight": np.round(rng.normal(26.0, 4.0, rows).clip(16.0) * (height / 100) ** 2, 1),
        "height": height.astype(np.int64),
        "amount": np.round(count * wide(20.0, 0.7) * rng.uniform(0.8, 1.0, rows), 2),
        "quantity": count,
        "distance": np.round(hours * rng.normal(70.0, 15.0, rows).clip(10.0), 1),
        "hours": hours,
        "price": 1000 * np.round(area * wide(3.5, 0.35)).astype(np.int64),
        "area": area.astype(np.int64),
        "events": rng.poisson(population * rng.gamma(4.0, 0.002, rows)),
        "population": population.astype(np.int64),
        "points": rng.poisson(games * rng.gamma(8.0, 1.5, rows)),
        "games": games,
        "part": np.round(whole * rng.beta(2.0, 3.0, rows), 2),
        "whole": whole,
        "litres": np.round(driven * rng.normal(7.0, 1.2, rows).clip(3.0) / 100, 1),
        "driven": driven.astype(np.int64),
        "seconds": np.round(run * rng.normal(340.0, 40.0, rows)).astype(np.int64),
        "run": run,
        "side": np.round(rng.gamma(9.0, 1.2, rows) + 1, 2),
        "mass": wide(70.0, 0.4, 1),
        "velocity": np.round(rng.gamma(9.0, 0.5, rows) + 0.3, 2),
    }
    return _put_together(held, _make_apart(rng, rows), QUOTIENTS)


def _make_apart(rng: np.random.Generator, rows: int) -> dict[str, Any]:
    def wide(middle: float, spread: float, digits: int = 2) -> Array:
        return np.round(rng.lognormal(np.log(middle), spread, rows), digits)

    return {
        "fee": wide(70.0, 0.8),
        "claimed": wide(800.0, 0.9),
        "load": np.round(rng.normal(80.0, 15.0, rows), 1),
        "age": rng.integers(18, 95, rows),
        "score": rng.integers(0, 101, rows),
        "visits": rng.poisson(2.0, rows),
        "share": np.round(rng.beta(2.0, 5.0, rows), 2),
        "income": 100 * wide(450.0, 0.4, 0),
    }


def _put_together(held: dict[str, Any], apart: dict[str, Any], products: Products) -> pa.Table:
    for name, (bases, make) in products.items():
        held[name] = np.round(make(*(held[base] for base in bases)) + 1e-9, DIGITS.get(name, 2))
    # Every second product stands behind what it is made of, the others at the end.
    near = {bases[-1]: name for name, (bases, _) in list(products.items())[::2]}
    parts = [name for name in held if name not in products]
    order = [one for name in parts for one in (name, near.get(name)) if one]
    order += [*apart, *(name for name in products if name not in order)]
    return pa.table({name: (held | apart)[name] for name in order})


def part_products(table: pa.Table, products: Products, seed: int) -> pa.Table:
    """The table with each product in rows of others: all sizes fit, and nothing holds."""
    rng = np.random.default_rng(seed)
    turned = {name: table[name].take(pa.array(rng.permutation(table.num_rows))) for name in products}
    return pa.table({name: turned.get(name, table[name]) for name in table.column_names})


def share_of_products(made: pa.Table, products: Products) -> Array:
    """Share of the rows in which each column is the product, to its last digit: shape [products]."""
    rows = {name: np.asarray(made[name].to_pylist(), dtype=np.float64) for name in made.column_names}
    with np.errstate(divide="ignore", invalid="ignore"):
        made_of = {name: make(*(rows[base] for base in bases)) for name, (bases, make) in products.items()}
    shares = [(np.abs(rows[name] - found) <= find_slack(name)).mean() for name, found in made_of.items()]
    return np.asarray(shares, dtype=np.float64)


def find_slack(name: str) -> float:
    """Half of the last digit of a product."""
    return 0.5 / 10 ** DIGITS.get(name, 2) + 1e-6


def is_true(column: Relative, products: Products) -> bool:
    """Whether a column and what it is a product of are one of them."""
    bases, _ = products.get(column.name, ((), None))
    return set(column.bases) == set(bases)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", nargs="*", type=int, default=[2_000, 8_000, 30_000])
    parser.add_argument("--epsilon", nargs="*", type=float, default=[1.0, 3.0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--apart", action="store_true", help="Put the products in rows of others.")
    parser.add_argument("--words", action="store_true", help="Print what is none of them.")
    parser.add_argument("--without", action="store_true", help="Look at no products.")
    parser.add_argument("--quotients", action="store_true", help="Take quotients and squares.")
    options = parser.parse_args()
    products, make = (QUOTIENTS, make_quotients) if options.quotients else (PRODUCTS, make_table)
    choose, seconds = relations.find_products, [0.0]

    def timed(*asked: Any) -> Any:
        began = time.perf_counter()
        found = [] if options.without else choose(*asked)
        seconds[0] = time.perf_counter() - began
        return found

    relations.find_products = timed
    print("| rows | epsilon | products found | rows on products | false products | looked at | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for rows in options.rows:
        table = make(rows, options.seed)
        if options.apart:
            table = part_products(table, products, options.seed)
        for epsilon in options.epsilon:
            found = []
            for _ in range(options.repeats):
                synthesis = Synthesizer("independent", epsilon=epsilon, delta=1e-9).fit(table)
                coded = [c for c in synthesis.schema.columns if isinstance(c, Relative)]
                joined = [c for c in coded if c.comparison.joint == "product"]
                true = sum(is_true(c, products) for c in joined)
                if options.words:
                    print(sorted(c.relation for c in joined if not is_true(c, products)), flush=True)
                looks = [e.what for e in synthesis.release.events if "sums or products" in e.what]
                looked = sum(int(what.split()[2]) for what in looks)
                share = float(share_of_products(synthesis.sample_arrow(10_000), products).mean())
                found.append((true, share, len(joined) - true, looked, seconds[0]))
            mean = np.mean(found, axis=0)
            cells = f"{mean[0]:.1f} | {mean[1]:.3f} | {mean[2]:.1f} | {mean[3]:.0f} | {mean[4]:.2f}"
            print(f"| {rows:,} | {epsilon:g} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
