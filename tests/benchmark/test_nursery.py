"""The nursery: its tables are the same everywhere, each shows what it says, and its halves stay apart."""

from __future__ import annotations

import json
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from margrave.benchmark.datasets import TableEntry, expand_words, table_entry
from margrave.benchmark.grid import read_grid
from margrave.benchmark.nursery import (
    HALVES,
    NURSERY,
    find_nursery_table,
    list_nursery_tables,
    load_nursery_table,
)
from margrave.benchmark.nursery.packaged import LOADERS
from margrave.benchmark.nursery.table import Draws, Half
from margrave.benchmark.prepared import prepare
from margrave.benchmark.results import Store
from margrave.errors import InputError, MissingExtraError

PINNED = json.loads((Path(__file__).parent / "nursery_fingerprints.json").read_text(encoding="utf-8"))
MADE = [word for word, table in NURSERY.items() if not table.needs]
REPORTING_ONLY = {"one dominant code", "order in time", "curves"}


def read(table: pa.Table, name: str) -> NDArray[Any]:
    return np.asarray(table[name].to_numpy(zero_copy_only=False))


def entropy(*columns: NDArray[Any]) -> float:
    parts = np.stack([np.unique(column, return_inverse=True)[1] for column in columns])
    shares = np.unique(parts, axis=1, return_counts=True)[1] / parts.shape[1]
    return float(-(shares * np.log2(shares)).sum())


def information(*columns: NDArray[Any]) -> float:
    """Of the last column and all others together, in bits."""
    return entropy(*columns[:-1]) + entropy(columns[-1]) - entropy(*columns)


def ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    return np.unique(values, return_inverse=True)[1].astype(float)


def test_there_are_forty_tables_and_more_and_a_seed_of_a_family_is_in_one_half() -> None:
    assert len(MADE) >= 40
    assert len({table.name for table in NURSERY.values()}) == len(NURSERY)
    sides = {(table.family, table.seed): table.half for table in NURSERY.values()}
    assert len(sides) == len(NURSERY)
    counts = [len(list_nursery_tables(half)) for half in HALVES]
    assert sum(counts) == len(NURSERY)
    assert min(counts) >= 20
    families = {half: {table.family for table in list_nursery_tables(half)} for half in HALVES}
    assert families["reporting"] >= families["choosing"]
    assert families["reporting"] - families["choosing"] >= REPORTING_ONLY


@pytest.mark.parametrize("word", MADE)
def test_a_table_is_the_same_everywhere(word: str) -> None:
    assert find_nursery_table(word).fingerprint() == PINNED[word]


@pytest.mark.parametrize("word", MADE)
def test_a_table_has_the_rows_and_columns_it_names(word: str) -> None:
    entry = find_nursery_table(word)
    table = entry.load(600)
    assert table.num_rows == 600
    assert all(name in table.column_names for name in (entry.target, entry.owner) if name)
    assert entry.shows
    assert all(len(np.unique(read(table, name).astype(str))) > 1 for name in table.column_names[:3])


def test_the_page_lists_every_table_with_its_half() -> None:
    page = (Path(__file__).parents[2] / "docs" / "nursery.md").read_text(encoding="utf-8")
    listed = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert sorted(listed) == sorted(NURSERY)
    for table in NURSERY.values():
        assert f"| `{table.word}` | {table.rows:,} | {table.family} | {table.shows} |" in page


def test_a_table_of_the_other_half_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"loans-b is for reporting, got .* Say reporting/loans-b"):
        load_nursery_table("choosing/loans-b")
    with pytest.raises(InputError, match="Say choosing/loans-a"):
        load_nursery_table("loans-a")
    with pytest.raises(InputError, match="one of"):
        load_nursery_table("choosing/nothing")
    with pytest.raises(InputError, match="half must be one of"):
        list_nursery_tables("both")  # type: ignore[arg-type]


def test_a_grid_and_a_folder_hold_tables_of_one_half(tmp_path: Path) -> None:
    given = {"methods": ["real"], "epsilon": [1.0], "repeats": 1, "metrics": ["average_tv"]}
    with pytest.raises(InputError, match="data must be tables of one half of the nursery"):
        read_grid(None, given | {"data": ["choosing/survey-b", "reporting/survey-d"]})
    with pytest.raises(InputError, match="survey-d is for reporting"):
        read_grid(None, given | {"data": ["choosing/survey-d"]})
    grids = [
        read_grid(None, given | {"data": ["parity", word]})
        for word in ("choosing/survey-b", "reporting/survey-d")
    ]
    store = Store(tmp_path / "out")
    store.declare(grids[0])
    store.declare(grids[0])
    with pytest.raises(InputError, match="out must be tables of one half of the nursery"):
        store.declare(grids[1])


@pytest.mark.parametrize("half", HALVES)
def test_a_word_stands_for_a_half(half: Half) -> None:
    made = expand_words([half])
    real = expand_words([f"{half}/real"])
    assert sorted(made + real) == sorted(table.word for table in list_nursery_tables(half))
    assert all(NURSERY[word].needs for word in real)
    assert expand_words(["parity", f"{half}+raw"]) == ["parity", *(word + "+raw" for word in made)]
    assert {table_entry(word, Path()).half for word in made} == {half}


def test_entries_declare_or_leave_all_to_be_discovered() -> None:
    declared, raw = (table_entry("choosing/visits-a" + end, Path()) for end in ("", "+raw"))
    assert (declared.domain, raw.domain) == ("public", "discovered")
    assert declared.name != raw.name
    assert (raw.owner, raw.max_rows, raw.target) == ("patient", 4, "died")
    assert TableEntry.from_json(json.loads(json.dumps(raw.to_json()))) == raw
    prepared = prepare(raw, 0.2, 0)
    assert prepared.public is None
    assert prepared.train.num_rows + prepared.held_rows.size == 20_000
    assert "patient" not in prepared.scoring.names


@pytest.mark.parametrize("word", [word for word, table in NURSERY.items() if table.needs])
def test_a_real_table_loads_or_says_what_to_install(word: str) -> None:
    table = NURSERY[word]
    if find_spec(LOADERS[table.needs].split(".")[0]) is None:
        with pytest.raises(MissingExtraError, match=r"margrave\[nursery\]"):
            table.load()
        return
    rows = table.load()
    assert rows.num_rows == table.rows
    assert {table.target, table.owner} - {""} <= set(rows.column_names)
    assert table.fingerprint() == PINNED[word]


def test_draws_are_those_of_the_raw_stream() -> None:
    draws = Draws(0, "test")
    raw = np.random.PCG64(np.random.SeedSequence([0, 3632233996])).random_raw(3)
    assert draws.uniform(3).tolist() == [(int(bits) // 4096 + 0.5) / 2**52 for bits in raw]
    normal = draws.normal(200_000)
    assert abs(normal.mean()) < 0.01
    assert abs(normal.std() - 1) < 0.01
    assert np.bincount(draws.codes((1, 0, 3), 40_000)).tolist() == pytest.approx([1e4, 0, 3e4], abs=400)
    assert draws.geometric(0.25, 100_000).mean() == pytest.approx(3, abs=0.05)
    assert (draws.pareto(2.0, 100_000) > 10).mean() == pytest.approx(0.01, abs=0.002)
    assert draws.gamma(3.0, 100_000).mean() == pytest.approx(3, abs=0.03)
    assert sorted(draws.permutation(50)) == list(range(50))
    scores = np.log(np.tile([0.2, 0.5, 0.3], (50_000, 1)))
    assert np.bincount(draws.codes_by_row(scores)) / 5e4 == pytest.approx([0.2, 0.5, 0.3], abs=0.01)


def test_sums_of_a_survey_are_those_of_its_items() -> None:
    table = load_nursery_table("choosing/survey-a", 3_000)
    total = np.zeros(3_000)
    for scale in range(1, 5):
        items = np.stack([read(table, f"s{scale}_q{item}") for item in range(1, 5)])
        found = read(table, f"s{scale}_sum")
        total += found
        # An item is as it was or reversed: one pattern of signs gives every sum.
        signs = [[(-1) ** (pattern >> item & 1) for item in range(4)] for pattern in range(16)]
        assert any(np.ptp(found - np.array(sign) @ items) == 0 for sign in signs)
    assert np.array_equal(read(table, "total"), total)


def test_hierarchies_and_dependencies_hold_exactly() -> None:
    regions = load_nursery_table("reporting/regions-b", 20_000)
    for lower, upper in (("postcode", "county"), ("county", "state"), ("state", "region")):
        assert entropy(read(regions, lower), read(regions, upper)) == entropy(read(regions, lower))
    orders = load_nursery_table("choosing/orders-a")
    for name in ("maker", "category", "price", "tax"):
        assert entropy(read(orders, "product"), read(orders, name)) == entropy(read(orders, "product"))
    assert np.array_equal(read(orders, "net"), np.round(read(orders, "price") * read(orders, "quantity"), 2))


@pytest.mark.slow
def test_parities_show_in_no_pair() -> None:
    table = load_nursery_table("choosing/parities-a")
    names = [name for name in table.column_names if not name.startswith("x2")]
    names.remove("y2")
    pairs = [information(read(table, a), read(table, b)) for a in names for b in names if a < b]
    assert max(pairs) < 0.002
    members = [read(table, f"x3_{place}") for place in (1, 2, 3)]
    assert information(*members, read(table, "label")) > 0.7


def test_loans_have_a_pair_of_rank_correlation_97() -> None:
    for word in ("choosing/loans-a", "reporting/loans-b"):
        table = load_nursery_table(word)
        assert table.shape == (10_000, 55)
        amount, granted = ranks(read(table, "amount")), ranks(read(table, "granted"))
        assert np.corrcoef(amount, granted)[0, 1] == pytest.approx(0.97, abs=0.01)


def test_time_keeps_its_order() -> None:
    stays = load_nursery_table("choosing/stays-a")
    days = [read(stays, name) for name in ("born", "admitted", "treated", "discharged", "billed")]
    for before, after in pairwise(days):
        assert (before <= after).all()
    assert np.array_equal(read(stays, "arrived").astype("datetime64[D]"), read(stays, "admitted"))
    assert np.corrcoef(ranks(read(stays, "charge")), ranks(read(stays, "paid")))[0, 1] > 0.97
    parcels = load_nursery_table("reporting/parcels-a")
    moments = [read(parcels, name) for name in ("ordered", "packed", "sent", "arrived", "signed")]
    for before, after in pairwise(moments):
        assert (before <= after).all()


def test_independent_columns_are_independent_and_factors_are_not() -> None:
    control = load_nursery_table("choosing/control-a")
    codes = [read(control, name) for name in control.column_names[::4]]
    assert max(information(a, b) for place, a in enumerate(codes) for b in codes[:place]) < 0.07
    factors = load_nursery_table("choosing/factors-a", 20_000)
    columns = np.stack([ranks(read(factors, name)) for name in factors.column_names[:-1]])
    sizes = np.abs(np.corrcoef(columns))
    assert np.median(sizes[np.triu_indices(60, 1)]) > 0.1
    assert read(factors, "target").mean() == pytest.approx(0.02, abs=1e-3)


def test_gaps_depend_on_what_is_missing_and_codes_are_rare() -> None:
    gaps = load_nursery_table("choosing/gaps-a")
    assert 0.05 < gaps["income"].null_count / gaps.num_rows - 0.4 < 0.4
    first, last = (read(gaps, f"wave{wave}_q1") for wave in (1, 3))
    missing = [np.array([value is None for value in column]) for column in (first, last)]
    assert information(*missing) > 0.05
    diagnoses = read(load_nursery_table("reporting/diagnoses-b"), "diagnosis")
    counts = np.unique(diagnoses, return_counts=True)[1]
    assert len(counts) > 1_900
    assert np.median(counts) < 20
