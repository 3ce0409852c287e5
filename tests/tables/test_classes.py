"""Classes of numbers that measured tables show, and rows that keep to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.release import NoisyMarginal
from margrave.schema.columns import Binned, Boolean, Categorical, Date, Integer, Real, Relative
from margrave.schema.columns.base import Column
from margrave.schema.constraints.rules import Determines, Rule, Within
from margrave.schema.encode import decode
from margrave.schema.encoded import Encoded, code_dtype
from margrave.schema.schema import Schema
from margrave.tables.classes import add_classes

ROWS = 20_000
CELLS: dict[str, Any] = {
    "edges": (0, 20, 40, 60, 100),
    "fine": tuple(range(101)),
    "weights": (1.0,) * 100,
}
AGES = Integer(name="age", missing=False, **CELLS)
GROUPS = ("65+", "18-24", "under 18", "25-64")
STARTS = {"under 18": 0, "18-24": 18, "25-64": 25, "65+": 65}


def classes(values: Sequence[str] = GROUPS, name: str = "group") -> Categorical:
    return Categorical(name=name, values=tuple(values), missing=False)


def measured(
    number: Binned, by: Categorical, told: Any, sigma: float = 3.0, seed: int = 0, rows: int = ROWS
) -> list[NoisyMarginal]:
    """The noisy table of a number, spread evenly in its cells, by the class that `told` says of it."""
    rng = np.random.default_rng(seed)
    fine = np.asarray(number.fine, dtype=float)
    place = np.linspace(0.0, len(fine) - 1.0, rows, endpoint=False)
    cells = place.astype(int)
    values = fine[cells] + (place - cells) * np.diff(fine)[cells]
    bins = np.clip(np.searchsorted(number.edge_array, values, side="right") - 1, 0, number.present - 1)
    codes = np.array([(by.values or ()).index(one) for one in told(values)])
    table = np.zeros((number.size, by.size))
    np.add.at(table, (bins, codes), 1.0)
    return [NoisyMarginal((number.name, by.name), table + rng.normal(0.0, sigma, table.shape), sigma)]


def age_groups(values: np.ndarray) -> list[str]:
    ends = sorted(STARTS, key=STARTS.__getitem__)
    place = np.searchsorted([STARTS[one] for one in ends], values, side="right") - 1
    return [ends[one] for one in place]


def found(columns: Sequence[Column], tables: Sequence[NoisyMarginal], **options: Any) -> list[Rule]:
    return list(add_classes(Schema(tuple(columns), options.pop("rules", ())), tables, **options).rules)


def test_where_classes_end_inside_of_bins_is_told_by_their_rows_and_their_labels() -> None:
    by = classes()
    for seed in range(5):
        (rule,) = found((AGES, by), measured(AGES, by, age_groups, seed=seed))
        assert isinstance(rule, Within)
        assert (rule.column, rule.by) == ("age", "group")
        assert rule.ranges == (
            ("under 18", None, 17),
            ("18-24", 18, 24),
            ("25-64", 25, 64),
            ("65+", 65, None),
        )
        assert rule.found is not None
        assert rule.found[0] > 0.95
        assert not rule.about_codes


def test_names_with_numbers_are_those_numbers_where_bins_hold_several() -> None:
    cells: dict[str, Any] = {"edges": (1, 4, 6, 9, 13), "fine": tuple(range(1, 14)), "weights": (1.0,) * 12}
    ward, by = Integer(name="ward", missing=False, **cells), classes([f"Ward {one}" for one in range(1, 13)])
    for seed in range(5):
        tables = measured(ward, by, lambda values: [f"Ward {int(one)}" for one in values], seed=seed)
        (rule,) = found((ward, by), tables)
        assert isinstance(rule, Within)
        assert rule.ranges[4] == ("Ward 5", 5, 5)


def test_many_classes_are_found_where_each_ends_a_little_off() -> None:
    # Years are not spread in their bins as the cells say.
    cells: dict[str, Any] = {
        "edges": (*range(1930, 2012, 8), 2016),
        "fine": tuple(range(1930, 2017)),
        "weights": tuple(1.0 + 0.2 * (-1) ** (year // 3) for year in range(1930, 2016)),
    }
    born = Integer(name="born", missing=False, **cells)

    def told(values: np.ndarray) -> list[str]:
        ages = (2022 - np.floor(values)).astype(int)
        return [f"{one // 5 * 5}-{one // 5 * 5 + 4}" for one in ages]

    by = classes(sorted(set(told(np.arange(1930.0, 2016.0)))))
    for seed in range(3):
        (rule,) = found((born, by), measured(born, by, told, sigma=15.0, seed=seed))
        assert isinstance(rule, Within)


def test_labels_without_numbers_are_placed_by_bins_and_end_at_round_numbers() -> None:
    by = classes(("old", "young", "middle"))

    def told(values: np.ndarray) -> list[str]:
        return ["young" if one < 30 else "middle" if one < 70 else "old" for one in values]

    (rule,) = found((AGES, by), measured(AGES, by, told))
    assert isinstance(rule, Within)
    assert rule.ranges == (("young", None, 29), ("middle", 30, 69), ("old", 70, None))


def test_classes_may_fall_with_the_number_and_be_of_real_numbers_or_dates() -> None:
    fine = tuple(np.linspace(0.0, 8.0, 81))
    real = Real(name="x", edges=(0.0, 2.0, 4.0, 6.0, 8.0), fine=fine, weights=(1.0,) * 80, missing=False)
    by = classes(("A (best)", "B", "C"))

    def told(values: np.ndarray) -> list[str]:
        return ["C" if one < 2.5 else "B" if one < 5.0 else "A (best)" for one in values]

    (rule,) = found((real, by), measured(real, by, told))
    assert isinstance(rule, Within)
    ends = {value: (low, high) for value, low, high in rule.entries}
    assert ends["B"][0] == 2.5
    assert ends["A (best)"] == (5.0, None)
    assert ends["C"][1] == np.nextafter(2.5, -1.0)
    days = Date(
        name="day",
        edges=tuple(range(18_000, 18_750, 150)),
        fine=tuple(range(18_000, 18_601)),
        weights=(1.0,) * 600,
        missing=False,
    )
    by = classes(("before", "after"))
    (rule,) = found(
        (days, by), measured(days, by, lambda d: ["before" if x < 18_300 else "after" for x in d])
    )
    assert isinstance(rule, Within)
    last = rule.ranges[0][2]
    assert isinstance(last, str)
    assert abs((np.datetime64(last) - np.datetime64("1970-01-01")).astype(int) - 18_299) <= 3


def smeared(values: np.ndarray) -> list[str]:
    """Groups of what differs from the number by some tens."""
    return age_groups(np.clip(values + np.random.default_rng(3).normal(0.0, 15.0, len(values)), 0.0, 99.0))


def apart(values: np.ndarray) -> list[str]:
    return [GROUPS[one] for one in np.random.default_rng(3).integers(0, 4, len(values))]


@pytest.mark.parametrize("told", [smeared, apart])
def test_columns_that_hang_together_loosely_or_not_are_no_classes(told: Any) -> None:
    by = classes()
    assert found((AGES, by), measured(AGES, by, told)) == []


def test_classes_whose_order_a_bin_hides_are_left_alone() -> None:
    by = classes(("a", "b", "c"))

    def told(values: np.ndarray) -> list[str]:
        return ["a" if one < 45 else "b" if one < 55 else "c" for one in values]

    assert found((AGES, by), measured(AGES, by, told)) != []
    # Two classes within one bin: which comes first is not to be seen.
    hidden = classes(("a", "b", "c", "d"))

    def inside(values: np.ndarray) -> list[str]:
        return ["a" if one < 40 else "b" if one < 50 else "c" if one < 60 else "d" for one in values]

    assert found((AGES, hidden), measured(AGES, hidden, inside)) == []
    # Nor where all rows are in one bin, whatever labels say.
    by_label = classes(("10-19", "20-29"))
    table = np.zeros((4, 2))
    table[2] = 5_000.0, 4_000.0
    assert found((AGES, by_label), [NoisyMarginal(("age", "group"), table, 3.0)]) == []
    # Nor with noise that hides all.
    assert found((AGES, by), measured(AGES, by, told, sigma=3_000.0)) == []


def test_classes_that_share_a_number_are_none() -> None:
    """Two programmes of one fee: the fee between them was moved for one of them."""
    fees = Integer(
        name="fee",
        edges=(8500, 8550, 9050, 9250, 9300),
        fine=tuple(range(8500, 9350, 50)),
        weights=tuple(1000.0 * (one in (8500, 9000, 9100, 9250)) for one in range(8500, 9300, 50)),
        missing=False,
        grids=((50.0, 1.0),),
    )
    by = classes(("his", "law", "phy", "bio", "art"))
    table = np.zeros((4, 5))
    table[[0, 1, 2, 3, 3], [0, 1, 4, 2, 3]] = 1_791.73, 1_848.6, 1_000.4, 2_727.9, 1_790.1
    for seed in range(4):
        noisy = table + np.random.default_rng(seed).normal(0.0, 20.0, table.shape)
        assert found((fees, by), [NoisyMarginal(("fee", "group"), noisy, 20.0)]) == []
    apart = np.delete(table, 3, axis=1)
    by = classes(("his", "law", "phy", "art"))
    (rule,) = found((fees, by), [NoisyMarginal(("fee", "group"), apart + 1e-3, 20.0)])
    assert isinstance(rule, Within)
    assert all(one is None or one % 50 == 0 for _, one, _ in rule.entries)


def test_rules_public_columns_flags_and_columns_without_cells_are_left_alone() -> None:
    by = classes()
    tables = measured(AGES, by, age_groups)
    other = classes(("x", "y"), "other")
    assert found((AGES, by), tables, left_alone=["group"]) == []
    assert found((AGES, by), tables, left_alone=["age"]) == []
    ruled = (Determines("other", "group"),)
    assert found((AGES, by, other), tables, rules=ruled) == list(ruled)
    once = add_classes(Schema((AGES, by)), tables)
    assert add_classes(once, tables).rules == once.rules  # a schema that a release had
    bare = Integer(name="age", edges=(0, 20, 40, 60, 100), missing=False)
    assert found((bare, by), tables) == []
    flag = Boolean(name="group", missing=False)
    table = NoisyMarginal(("age", "group"), tables[0].values[:, :2], 3.0)
    assert found((AGES, flag), [table]) == []


def test_each_number_that_says_a_class_has_a_rule() -> None:
    by = classes()
    days = Date(name="born", missing=False, **CELLS)
    tables = [*measured(days, by, age_groups), *measured(AGES, by, age_groups, sigma=9.0)]
    rules = found((days, AGES, by), tables)
    assert [rule.names for rule in rules] == [("group", "age"), ("group", "born")]
    schema = add_classes(Schema((days, AGES, by)), tables)
    made = decode(encoded_of(schema), schema, np.random.default_rng(1))
    groups = made["group"].to_pylist()
    assert age_groups(made["age"].to_numpy()) == groups
    days_of = made["born"].cast(pa.int32()).to_numpy()
    assert np.mean([one == other for one, other in zip(age_groups(days_of), groups, strict=True)]) > 0.9


RULE = Within(
    "age",
    "group",
    {"under 18": (None, 17), "18-24": (18, 24), "25-64": (25, 64), "65+": (65, None)},
    share=(0.99, 0.01),
)


def encoded_of(schema: Schema, rows: int = ROWS) -> Encoded:
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, c.size, rows).astype(code_dtype(c.size)) for c in schema.attributes]
    return Encoded(schema.domain, tuple(codes))


def test_numbers_are_drawn_in_their_class_and_in_their_bin_where_it_has_some() -> None:
    schema = Schema((AGES, classes()), (RULE,))
    encoded = encoded_of(schema)
    made = decode(encoded, schema, np.random.default_rng(1))
    ages, groups = made["age"].to_numpy(), np.array(made["group"].to_pylist())
    assert (np.array(age_groups(ages)) == groups).all()
    assert (groups == np.array(GROUPS)[encoded.column("group")]).all()
    bins = np.searchsorted(AGES.edge_array, ages, side="right") - 1
    same = bins == encoded.column("age")
    able = {(0, "under 18"), (0, "18-24"), (1, "18-24"), (1, "25-64"), (2, "25-64"), (3, "25-64"), (3, "65+")}
    fits = np.array([(int(b), g) in able for b, g in zip(encoded.column("age"), groups, strict=True)])
    assert same[fits].all()
    # Inside of both all numbers come.
    assert set(ages[(encoded.column("age") == 1) & (groups == "18-24")]) == set(range(20, 25))


def test_missing_numbers_stay_missing_and_unlisted_classes_leave_any() -> None:
    number = Integer(name="age", missing=True, **CELLS)
    by = Categorical(name="group", values=GROUPS, other="(other)", missing=True)
    schema = Schema((number, by), (RULE,))
    encoded = encoded_of(schema)
    made = decode(encoded, schema, np.random.default_rng(1))
    absent = encoded.column("age") >= number.present
    assert (np.array(made["age"].is_null().to_pylist()) == absent).all()
    free = ~absent & (encoded.column("group") >= len(GROUPS))
    ages = made["age"].to_numpy(zero_copy_only=False)[free].astype(int)
    assert (np.searchsorted(number.edge_array, ages, side="right") - 1 == encoded.column("age")[free]).all()


def test_a_number_that_follows_from_another_column_keeps_and_the_class_changes() -> None:
    base = Integer(name="base", lower=0, upper=49, bins=5, missing=False)
    part = Integer(name="age", lower=0, upper=49, bins=5, missing=False)
    coded = Relative(name="age", base="base", base_read="number", own=AGES, part=part, missing=False)
    schema = Schema((base, coded, classes()), (RULE,))
    encoded = encoded_of(schema)
    made = decode(encoded, schema, np.random.default_rng(1))
    plain = decode(encoded, Schema(schema.columns), np.random.default_rng(1))
    assert made["age"].equals(plain["age"])
    assert np.array(age_groups(made["age"].to_numpy())).tolist() == made["group"].to_pylist()
    # Classes that are given stay.
    given = decode(encoded, schema, np.random.default_rng(1), given=["group"])
    assert given["group"].to_pylist() == np.array(GROUPS)[encoded.column("group")].tolist()


def people(rows: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    born = rng.integers(1_934, 2_013, rows)
    age = 2_024 - born
    mass = np.round(rng.normal(26.0, 5.0, rows), 1)
    return pa.table(
        {
            "born": born,
            "group": age_groups(age),
            "mass": mass,
            "weight": [
                ["under", "normal", "over", "obese"][int(one)]
                for one in np.searchsorted([18.5, 25.0, 30.0], mass, "right")
            ],
            "score": rng.normal(50.0, 10.0, rows).round(1),
            "city": rng.choice(["Rome", "Oslo", "Bonn"], rows),
        }
    )


def test_rows_of_a_release_keep_to_the_classes_that_its_tables_show() -> None:
    for seed in range(2):
        synthesis = mg.Synthesizer("auto", epsilon=3.0, delta=1e-9, not_private_test_seed=seed).fit(
            people(8_000)
        )
        rules = {rule.by: rule.column for rule in synthesis.schema.rules if isinstance(rule, Within)}
        assert rules == {"group": "born", "weight": "mass"}
        made = synthesis.sample_arrow(rng=np.random.default_rng(0))
        groups = np.array(age_groups(2_024 - made["born"].to_numpy()))
        # Without the rule .6 to .9 of the rows do.
        assert (groups == np.array(made["group"].to_pylist())).mean() > 0.94
        loaded = Schema.from_json(synthesis.schema.to_json())
        assert loaded.rules == synthesis.schema.rules
