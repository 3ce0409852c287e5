"""Products of two columns: which are looked at, which are found, and what they cost."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from margrave import Synthesizer, Unit
from margrave.measure.discovery.between.links import Candidate, choose_sums, pair_up
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
    table: pa.Table, epsilon: float = 2.0, seed: int = 0, **options: object
) -> tuple[Schema, list[GaussianEvent], pa.Table]:
    """The schema, the looks at sums and products, and some rows."""
    synthesizer = Synthesizer("independent", epsilon=epsilon, not_private_test_seed=seed, **options)  # type: ignore[arg-type]
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


def test_sums_leave_room_for_products_in_a_wide_table() -> None:
    rng = np.random.default_rng(2)
    table = orders(20_000)
    for place in range(16):
        table = table.append_column(
            f"other{place}", pa.array(rng.lognormal(1 + place / 4, 0.9, 20_000).round(2))
        )
    schema, (event,), _ = fit(table, 3.0)
    assert int(event.what.split()[2]) > 190  # sums alone would fill the look
    amount = schema["amount"]
    assert isinstance(amount, Relative)
    assert amount.base_words in ("count * price", "price * count")


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
        for one in find_products(columns, [], [], 1.0, 99)
        if not one.powers
    }
    assert ("amount", "count", "price") in found
    assert ("count", "amount", "price") not in found  # whole numbers are no product of cents
    assert not [entry for entry in found if entry[0] == "age"]
    fixed = find_products(columns, [], [], 1.0, 99, ("amount",))
    assert "amount" not in {one.total.name for one in fixed}
    assert find_products(columns, [], [], 1.0, 0) == []


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


def plain_products(columns: list[Binned]) -> set[tuple[str, ...]]:
    """Totals and parts of the candidates without a factor."""
    found = find_products(columns, [], [], 1.0, 99)
    plain = [one for one in found if one.line == (1.0, 0.0) and not one.powers]
    return {(one.total.name, *(part.name for part in one.parts)) for one in plain}


def test_a_product_is_on_no_finer_step_than_its_factors() -> None:
    factors = [column("a", (10, 20, 30, 40, 60), 1), column("b", (5, 8, 10, 12, 20), 1)]
    ends = (80, 170, 300, 460, 900)
    assert plain_products([*factors, column("c", ends, 1)]) == {("c", "a", "b")}
    assert plain_products([*factors, column("c", ends, 0.01)]) == set()
    halves = [factors[0], column("b", (5, 8, 10, 12, 20), 0.01)]
    assert plain_products([*halves, column("c", ends, 0.01)]) == {("c", "a", "b")}


def test_the_first_look_says_which_products_there_are_none() -> None:
    factors = [column("a", (10, 20, 30, 40, 60), 1), column("b", (5, 8, 10, 12, 20), 1)]
    columns = [*factors, column("c", (80, 170, 300, 460, 900), 1)]
    pair = next(one for one in pair_up(columns, 9) if {one.base.name, one.column.name} == {"a", "c"})
    starts = pair.edges[:-1]
    beyond = starts > 0.0 if pair.column.name == "c" else starts < 0.0
    for rows, held in ((beyond, 1), (starts == 0.0, 0)):
        # The product is above its first part in each row, as b is above 1.
        counts = np.append(1000.0 * rows / rows.sum(), np.zeros(3))
        found = find_products(columns, [pair], [counts], 1.0, 99)
        same = [one for one in found if one.total.name == "c" and one.line == (1.0, 0.0)]
        assert len(same) == held


def test_what_one_frequent_value_explains_is_no_product() -> None:
    factors = [column("a", (10, 20, 30, 40, 60), 1), column("b", (5, 8, 10, 12, 20), 1)]
    total = column("c", (80, 170, 300, 460, 900), 1)
    for exact, held in ((0.85, 0), (0.98, 1)):
        counts = np.array([1000 * (1 - exact), 1000 * exact, 0.0, 0.0, 0.0, 0.0])
        assert len(choose_sums([Candidate(total, tuple(factors), 0.7, "product")], [counts], 5.0)) == held


def sales(rows: int, seed: int = 0) -> pa.Table:
    """A premium by its rate, a bonus often 0, a discount, a tax put on, three parts, minutes of hours."""
    rng = np.random.default_rng(seed)
    insured = 1000 * rng.lognormal(4.6, 0.6, rows).round()
    rate = rng.choice([0.25, 0.35, 0.5, 0.75], rows)
    salary, bonus = 100 * rng.normal(480, 90, rows).round(), rng.choice([0, 0, 5, 10, 12, 15], rows)
    price, discount = rng.lognormal(4.0, 0.7, rows).round(2), rng.choice([0, 0, 0.05, 0.1, 0.25], rows)
    each, pieces = rng.lognormal(2.5, 0.9, rows).round(2), 1 + rng.poisson(4.0, rows)
    off, minutes = rng.choice([0, 0, 3, 5, 10, 20], rows), 15 * rng.integers(4, 40, rows)
    wage, vat = rng.normal(19, 4, rows).clip(9).round(2), rng.choice([0, 7, 19, 19], rows)
    net = rng.lognormal(5.0, 0.8, rows).round(2)
    held = {
        "insured": insured.astype(int), "rate": rate, "premium": insured * rate / 100,
        "salary": salary.astype(int), "bonus": bonus, "paid": salary * bonus / 100,
        "list": price, "discount": discount, "price": price * (1 - discount),
        "each": each, "pieces": pieces, "off": off, "total": each * pieces * (100 - off) / 100,
        "minutes": minutes, "wage": wage, "pay": minutes * wage / 60,
        "net": net, "vat": vat, "gross": net * (100 + vat) / 100,
    }  # fmt: skip
    made = ("premium", "paid", "price", "total", "pay", "gross")
    return pa.table({n: np.round(v + 1e-9, 2) if n in made else v for n, v in held.items()})


def test_factors_zeros_and_shares_are_found_and_kept_to_the_cent() -> None:
    schema, _, made = fit(sales(20_000), 3.0, seed=4)
    words = {
        "premium": "insured * rate / 100",
        "paid": "salary * bonus / 100",
        "price": "list * (1 - discount)",
        "total": "each * pieces * (100 - off) / 100",
        "pay": "minutes * wage / 60",
        "gross": "net * (100 + vat) / 100",
    }
    found = {c.name: c.base_words for c in schema.columns if isinstance(c, Relative) and c.others}
    assert found == words
    for name, text in words.items():
        values = {n: made[n].to_numpy().astype(float) for n in made.column_names}
        exact = eval(text, {}, values)  # noqa: S307 - of the words above
        assert (np.abs(values[name] - exact) <= 0.005 + 1e-6).mean() > 0.9


def test_columns_of_the_same_sizes_in_other_rows_are_no_products() -> None:
    table, rng = sales(20_000), np.random.default_rng(1)
    made = ("premium", "paid", "price", "total", "pay", "gross")
    table = pa.table(
        {
            n: table[n].take(pa.array(rng.permutation(20_000))) if n in made else table[n]
            for n in table.column_names
        }
    )
    for epsilon in (1.0, 3.0):
        schema, asked, _ = fit(table, epsilon)
        assert len(asked) == 1
        assert not [c.sentence for c in schema.columns if isinstance(c, Relative) and c.others]


def health(rows: int, seed: int = 0) -> pa.Table:
    """A body mass index, a speed, a price of a square metre, a square; and others apart."""
    rng = np.random.default_rng(seed)
    height = rng.normal(171.0, 9.0, rows).clip(140.0).round()
    weight = (rng.normal(26.0, 4.0, rows).clip(16.0) * (height / 100) ** 2).round(1)
    hours, area = rng.lognormal(0.4, 0.6, rows).round(2).clip(0.1), rng.lognormal(4.4, 0.4, rows).round()
    distance = (hours * rng.normal(70.0, 15.0, rows).clip(10.0)).round(1)
    price, side = (
        1000 * (area * rng.lognormal(1.2, 0.35, rows)).round(),
        (1 + rng.gamma(9.0, 1.2, rows)).round(2),
    )
    return pa.table({
        "weight": weight, "height": height.astype(int), "bmi": (weight / (height / 100) ** 2).round(1),
        "distance": distance, "hours": hours, "speed": (distance / hours).round(1),
        "price": price, "area": area.astype(int), "metre": (price / area).round(),
        "side": side, "floor": (side**2).round(1),
        "age": rng.integers(18, 80, rows), "score": np.round(rng.normal(50, 9, rows), 1),
    })  # fmt: skip


QUOTIENTS = {
    "bmi": "10000 * weight / height^2",
    "speed": "distance / hours",
    "metre": "price / area",
    "floor": "side^2",
}


def test_quotients_and_squares_are_found_and_kept_to_the_last_digit() -> None:
    schema, asked, made = fit(health(20_000), 3.0, seed=1)
    assert len(asked) == 1
    coded = {c.name: c.base_words for c in schema.columns if isinstance(c, Relative) and c.joint == "product"}
    assert coded == QUOTIENTS
    for name, step in (("bmi", 0.1), ("speed", 0.1), ("metre", 1.0), ("floor", 0.1)):
        values = {n: made[n].to_numpy().astype(float) for n in made.column_names}
        with np.errstate(all="ignore"):
            exact = eval(QUOTIENTS[name].replace("^", "**"), {}, values)  # noqa: S307 - of the words above
        assert (np.abs(values[name] - exact) <= step / 2 + 1e-6).mean() > 0.9


def test_quotients_of_other_rows_are_none() -> None:
    table, rng = health(20_000), np.random.default_rng(1)
    for name in QUOTIENTS:
        place = table.column_names.index(name)
        table = table.set_column(place, name, table[name].take(pa.array(rng.permutation(20_000))))
    for epsilon in (1.0, 3.0):
        schema, _, _ = fit(table, epsilon)
        assert not [c.sentence for c in schema.columns if isinstance(c, Relative) and c.joint == "product"]


def test_of_a_product_and_its_quotients_the_finest_is_taken() -> None:
    """An amount to the cent is a product; a mean to hundredths of whole points is a quotient."""
    price, count = column("price", (10.0, 20.0, 30.0, 40.0, 60.0), 0.01), column("count", (1, 3, 5, 8, 12), 1)
    for step, holds in ((0.01, "total"), (1, "price")):
        total = column("total", (40, 90, 160, 260, 400), step)
        forms = [
            Candidate(total, (price, count), 0.0, "product"),
            Candidate(price, (total, count), 0.0, "product", powers=(1, -1)),
            Candidate(count, (total, price), 0.0, "product", powers=(1, -1)),
        ]
        counts = [np.array([0.0, 1000.0, 0.0, 0.0, 0.0, 0.0])] * 3
        for order in (forms, forms[::-1]):
            (link,) = choose_sums(order, counts, 5.0)
            assert link.column == holds


@pytest.mark.parametrize(
    ("joint", "exact", "held"), [("sum", 0.7, 1), ("product", 0.7, 0), ("product", 0.9, 1)]
)
def test_a_product_has_to_hold_in_more_rows_than_a_sum(joint: str, exact: float, held: int) -> None:
    factors = [column("a", (10, 20, 30, 40, 60), 1), column("b", (5, 8, 10, 12, 20), 1)]
    total = column("c", (80, 170, 300, 460, 900), 1)
    counts = np.array([1000 * (1 - exact), 1000 * exact, 0.0, 0.0, 0.0, 0.0])
    assert len(choose_sums([Candidate(total, tuple(factors), 0.0, joint)], [counts], 5.0)) == held
