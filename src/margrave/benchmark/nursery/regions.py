"""Hierarchies and functional dependencies: county in state, price of a product, and what they decide exactly.

Nearly all that such tables hold is in a few pairs of many codes each, most of them rare.
"""

from __future__ import annotations

import numpy as np

from margrave.benchmark.nursery.draws import Draws
from margrave.benchmark.nursery.table import Columns, NurseryTable, name_codes, zipf_weights

NESTED = "hierarchies"
DECIDED = "functional dependencies"


def make_regions(
    rows: int, draws: Draws, *, regions: int, states: int, counties: int, towns: int, postcodes: bool
) -> Columns:
    """Households in a town of a county of a state of a region; incomes and fuels differ by place."""
    region_of = draws.below(regions, states)
    state_of = draws.codes(draws.gamma(1.2, states), counties)
    county_of = draws.codes(draws.gamma(1.0, counties), towns)
    wealth = 0.5 * draws.normal(counties) + 0.4 * draws.normal(states)[state_of]
    urban = draws.flags(0.35, towns)
    fuels = 1.2 * draws.normal(states, 6)

    town = draws.permutation(towns)[draws.codes(zipf_weights(towns, 0.9), rows)]
    county = county_of[town]
    state = state_of[county]
    persons = 1 + np.minimum(draws.geometric(0.42, rows), 8)
    log_income = 10.2 + wealth[county] + 0.25 * urban[town] + 0.15 * np.log(persons)
    income = np.round(np.exp(log_income + 0.7 * draws.normal(rows)), -1)
    owner = draws.flags(1 / (1 + np.exp(-1.1 * (np.log(income) - 10.2) + 1.2 * urban[town])), rows)
    columns: Columns = {
        "county": name_codes(county, "county", counties),
        "fuel": name_codes(draws.codes_by_row(fuels[state]), "fuel", 6),
        "income": income.astype(np.int64),
        "owns": owner,
        "persons": persons,
        "region": name_codes(region_of[state], "region", regions),
        "rent": np.where(owner, 0, np.round(income * draws.between(0.15, 0.4, rows) / 12)).astype(np.int64),
        "state": name_codes(state, "state", states),
        "urban": urban[town],
    }
    if postcodes:
        columns["postcode"] = np.char.mod("%05d", 10_000 + 37 * town)
    else:
        columns["town"] = name_codes(town, "town", towns)
    return columns


def make_orders(rows: int, draws: Draws, *, products: int, makers: int, clerks: int) -> Columns:
    """Orders: the product decides maker, category, price and tax; quantity, amount and due date follow."""
    maker_of = draws.codes(draws.gamma(1.0, makers), products)
    category_of = draws.below(9, products)
    price_of = np.round(np.exp(draws.normal(products) + 0.4 * category_of), 2)
    tax_of = np.array([0.0, 0.07, 0.19])[draws.codes((1, 2, 6), 9)][category_of]
    office_of = draws.below(12, clerks)
    office_taste = draws.normal(12, 9)

    clerk = draws.codes(zipf_weights(clerks, 0.6), rows)
    taste = np.log(zipf_weights(products, 1.0))[None, :] + office_taste[:, category_of]
    product = np.empty(rows, dtype=np.int64)
    for office in range(12):
        here = np.flatnonzero(office_of[clerk] == office)
        product[here] = draws.codes(np.exp(taste[office]), here.size)
    quantity = 1 + draws.geometric(0.3, rows)
    net = np.round(price_of[product] * quantity, 2)
    ordered = np.datetime64("2019-01-01") + draws.below(1461, rows).astype("timedelta64[D]")
    days = np.array([14, 30, 60])[draws.codes_by_row(draws.normal(makers, 3)[maker_of[product]])]
    return {
        "category": name_codes(category_of[product], "category", 9),
        "clerk": name_codes(clerk, "clerk", clerks),
        "due": ordered + days.astype("timedelta64[D]"),
        "gross": np.round(net * (1 + tax_of[product]), 2),
        "maker": name_codes(maker_of[product], "maker", makers),
        "net": net,
        "office": name_codes(office_of[clerk], "office", 12),
        "ordered": ordered,
        "price": price_of[product],
        "product": name_codes(product, "product", products),
        "quantity": quantity,
        "tax": tax_of[product],
    }


TABLES = (
    NurseryTable(
        *("regions-a", NESTED, "choosing", make_regions, 30_000, 21),
        "towns in counties in states in regions, by Zipf's law",
        parameters={"regions": 4, "states": 16, "counties": 120, "towns": 400, "postcodes": False},
        target="owns",
        cut="quantile",
    ),
    NurseryTable(
        *("regions-b", NESTED, "reporting", make_regions, 60_000, 22),
        "as regions-a, with 50 states, 900 counties and postcodes of digits",
        parameters={"regions": 9, "states": 50, "counties": 900, "towns": 2_500, "postcodes": True},
        target="owns",
        cut="quantile",
    ),
    NurseryTable(
        *("orders-a", DECIDED, "choosing", make_orders, 15_000, 23),
        "the product decides maker, category, price and tax; amounts are products of others",
        parameters={"products": 80, "makers": 14, "clerks": 30},
        cut="quantile",
    ),
    NurseryTable(
        *("orders-b", DECIDED, "reporting", make_orders, 40_000, 24),
        "as orders-a, with 240 products and 100 clerks",
        parameters={"products": 240, "makers": 45, "clerks": 100},
        cut="quantile",
    ),
)
