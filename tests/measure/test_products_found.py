"""Products of two columns: which are looked at, which are found, and what they cost."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from margrave import Synthesizer, Unit
from margrave.measure.discovery.between.links import Candidate, choose_sums
from margrave.measure.discovery.between.products import find_products
from margrave.privacy.accounting.events import GaussianEvent
from margrave.schema.columns import Binned, Integer, Real, Relative
from margrave.schema.schema import Schema


def orders(rows: int, seed: int = 0) -> pa.Table:
    """A price, a number, their product to the cent, and others that have nothing to do with them."""
    rng = np.random.default_rng(seed)
    cents = (rng.choice([499, 950, 1200, 1995, 2500, 4990, 9900], rows) * rng.uniform(0.9, 1.1, rows)).astype(
        int
    )
    count = 1 + rng.poisson(2.0, rows)
    return pa.table(
        {
            "count": count,
            "price": cents / 100,
            "amount": count * cents / 100,
            "age": rng.integers(18, 80, rows),
            "score": np.round(rng.normal(50, 9, rows), 1),
            "region": rng.choice(list("abcd"), rows),
        }
    )


def fit(
    table: pa.Table, epsilon: float = 2.0, **options: object
) -> tuple[Schema, list[GaussianEvent], pa.Table]:
    """The schema, the looks at sums and products, and some rows."""
    synthesizer = Synthesizer("independent", epsilon=epsilon, not_private_test_seed=0, **options)  # type: ignore[arg-type]
    synthesis = synthesizer.fit(table)
    asked = [event for event in synthesis.release.events if "sums or products" in event.what]
    return synthesis.schema, asked, synthesis.sample_arrow(3_000, rng=np.random.default_rng(0))


def test_an_amount_is_a_price_times_a_number_in_every_row() -> None:
    schema, asked, made = fit(orders(20_000))
    amount = schema["amount"]
    assert isinstance(amount, Relative)
    assert {amount.base, *amount.others} == {"count", "price"}
    assert amount.joint == "product"
    assert "amount is count * price" in amount.sentence or "amount is price * count" in amount.sentence
    cents = np.rint(100 * made["price"].to_numpy()).astype(int) * made["count"].to_numpy()
    assert (np.rint(100 * made["amount"].to_numpy()).astype(int) == cents).mean() > 0.98
    assert len(asked) == 1


def test_numbers_apart_are_no_product() -> None:
    table = orders(20_000)
    rng = np.random.default_rng(1)
    table = table.set_column(2, "amount", table["amount"].take(pa.array(rng.permutation(20_000))))
    schema, asked, _ = fit(table)
    assert not [column for column in schema.columns if isinstance(column, Relative)]
    assert len(asked) == 1  # by their sizes it may have been


@pytest.mark.parametrize("k", [0, 3])
def test_the_look_is_priced_for_all_tables_together(k: int) -> None:
    table = orders(20_000)
    options: dict[str, object] = {}
    if k:
        table = table.append_column("who", pa.array(np.arange(20_000) // 3))
        options = {"unit": Unit("who", k)}
    _, (event,), _ = fit(table, 4.0, **options)
    assert isinstance(event, GaussianEvent)
    count = int(event.what.split()[2])
    assert event.l2_squared == count * max(k, 1) ** 2


def test_steps_and_sizes_say_what_may_be_a_product() -> None:
    table = orders(20_000)
    schema, _, _ = fit(table.drop_columns(["amount"]).append_column("amount", table["amount"]), 20.0)
    plain = [column.own if isinstance(column, Relative) else column for column in schema.columns]
    columns = [column for column in plain if isinstance(column, Binned)]
    found = {
        (one.total.name, *sorted(part.name for part in one.parts))
        for one in find_products(columns, [], [], 99)
    }
    assert ("amount", "count", "price") in found
    assert ("count", "amount", "price") not in found  # whole numbers are no product of cents
    assert not [entry for entry in found if entry[0] == "age"]
    fixed = find_products(columns, [], [], 99, ("amount",))
    assert "amount" not in {one.total.name for one in fixed}
    assert find_products(columns, [], [], 0) == []


def test_columns_of_zeros_are_no_products_of_each_other() -> None:
    rng = np.random.default_rng(0)
    rows = 12_000
    rare = {name: np.where(rng.random(rows) < share, rng.integers(1, 6, rows), 0) for name, share in
            (("babies", 0.04), ("changes", 0.15), ("requests", 0.4), ("children", 0.08))}  # fmt: skip
    ones = {name: np.where(rng.random(rows) < 0.12, rng.integers(2, 5, rows), 1) for name in ("a", "b", "c")}
    table = pa.table({**rare, **ones, "kind": rng.choice(list("xyz"), rows)})
    for epsilon in (1.0, 4.0):
        schema, _, _ = fit(table, epsilon)
        assert not [
            column.name for column in schema.columns if isinstance(column, Relative) and column.others
        ]


def column(name: str, quantiles: tuple[float, ...], step: float) -> Binned:
    """A column of equal cells between the quantiles, all on a step."""
    if step == 1:
        return Integer(name=name, edges=quantiles, fine=quantiles, weights=(1.0,) * 4, missing=False)
    grids = ((step, 1.0),)
    return Real(name=name, edges=quantiles, fine=quantiles, weights=(1.0,) * 4, grids=grids, missing=False)


def test_a_product_is_on_no_finer_step_than_its_factors() -> None:
    factors = [column("a", (10, 20, 30, 40, 60), 1), column("b", (5, 8, 10, 12, 20), 1)]
    ends = (80, 170, 300, 460, 900)
    assert len(find_products([*factors, column("c", ends, 1)], [], [], 9)) == 1
    assert find_products([*factors, column("c", ends, 0.01)], [], [], 9) == []
    halves = [factors[0], column("b", (5, 8, 10, 12, 20), 0.01)]
    assert len(find_products([*halves, column("c", ends, 0.01)], [], [], 9)) == 1


@pytest.mark.parametrize(
    ("joint", "exact", "held"), [("sum", 0.7, 1), ("product", 0.7, 0), ("product", 0.9, 1)]
)
def test_a_product_has_to_hold_in_more_rows_than_a_sum(joint: str, exact: float, held: int) -> None:
    factors = [column("a", (10, 20, 30, 40, 60), 1), column("b", (5, 8, 10, 12, 20), 1)]
    total = column("c", (80, 170, 300, 460, 900), 1)
    counts = np.array([1000 * (1 - exact), 1000 * exact, 0.0, 0.0, 0.0, 0.0])
    assert len(choose_sums([Candidate(total, tuple(factors), 0.0, joint)], [counts], 5.0)) == held
