"""Lines between columns: which are looked at, which are found, and what they cost."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from command_line import call
from margrave import Between, Synthesizer, Unit
from margrave.errors import InputError
from margrave.measure.discovery.between.lines import (
    Z_PEAK,
    Line,
    _find_peak,
    ask_beyond_equality,
    choose_constants,
    choose_lines,
    find_lines,
    find_means,
    list_round,
    list_tables,
)
from margrave.measure.discovery.between.links import Candidate, choose_sums
from margrave.privacy.accounting.events import GaussianEvent
from margrave.schema.columns import Binned, Integer, Real, Relative
from margrave.schema.columns.relative import count_relation
from margrave.schema.schema import Schema

ROWS = 20_000
CENTS = ((0.01, 1.0),)
Array = NDArray[np.float64]


def school(rows: int, seed: int = 0) -> pa.Table:
    """Levels and years of entry, temperatures, a tax, three marks and their mean, and two numbers apart."""
    rng = np.random.default_rng(seed)
    level, warmth = rng.integers(1, 13, rows), np.round(rng.normal(11, 8, rows), 1)
    net = np.round(rng.lognormal(4.0, 0.8, rows), 2)
    marks = [rng.integers(0, 101, rows) for _ in range(3)]
    return pa.table(
        {
            "level": level,
            "entered": 2025 - level,
            "celsius": warmth,
            "fahrenheit": np.round(1.8 * warmth + 32.0, 1),
            "net": net,
            "tax": np.round(net * 0.19, 2),
            "first": marks[0],
            "second": marks[1],
            "third": marks[2],
            "mean": np.round(sum(marks) / 3, 2),
            "height": rng.integers(150, 200, rows),
            "score": np.round(rng.normal(50, 9, rows), 1),
        }
    )


def fit(table: pa.Table, epsilon: float, **options: object) -> tuple[Schema, list[GaussianEvent], pa.Table]:
    """The schema, the looks at lines, and some rows."""
    synthesizer = Synthesizer("independent", epsilon=epsilon, not_private_test_seed=0, **options)  # type: ignore[arg-type]
    synthesis = synthesizer.fit(table)
    asked = [event for event in synthesis.release.events if event.what.startswith(("lines", "constants"))]
    rows = synthesis.sample_arrow(3_000, rng=np.random.default_rng(0))
    return synthesis.schema, [event for event in asked if isinstance(event, GaussianEvent)], rows


def relations(schema: Schema) -> dict[str, str]:
    """What is said of each column that is coded by others."""
    return {c.name: c.base_words for c in schema.columns if isinstance(c, Relative)}


def test_lines_hold_in_every_row_that_is_drawn() -> None:
    schema, asked, made = fit(school(ROWS), 4.0)
    said = relations(schema)
    assert said.get("entered") == "2025 - level" or said.get("level") == "2025 - entered"
    assert said["tax"] == "0.19 * net"
    assert {"celsius", "fahrenheit"} & set(said)  # whichever way, as a step of the one is not found
    assert said["mean"] == "(first + second + third) / 3"
    assert not {"height", "score"} & set(said)
    rows = {name: made[name].to_numpy() for name in made.column_names}
    assert (rows["entered"] + rows["level"] == 2025).mean() > 0.98
    assert (np.abs(rows["tax"] - 0.19 * rows["net"]) < 0.0051).mean() > 0.97
    assert (np.abs(rows["fahrenheit"] - 1.8 * rows["celsius"] - 32) < 0.15).mean() > 0.97
    thirds = (rows["first"] + rows["second"] + rows["third"]) / 3
    assert (np.abs(rows["mean"] - thirds) < 0.0051).mean() > 0.97
    assert len(asked) == 2


@pytest.mark.parametrize("gaps", ["pay", "age"])
def test_a_column_with_gaps_is_drawn_by_one_without(gaps: str) -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, ROWS)
    columns = {"pay": pa.array(age * 20.5), "age": pa.array(age)}
    columns[gaps] = pc.if_else(pa.array(rng.random(ROWS) < 0.3), None, columns[gaps])
    schema, _, made = fit(pa.table(columns), 4.0)
    assert list(relations(schema)) == [gaps]
    (whole,) = {"pay", "age"} - {gaps}
    assert made[whole].null_count == 0
    assert 0.2 < made[gaps].null_count / made.num_rows < 0.4


def test_a_missing_value_needs_no_base() -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, ROWS)
    pay = pa.array(age * 20.5, mask=rng.random(ROWS) < 0.3)
    synthesis = Synthesizer("auto", epsilon=4.0, not_private_test_seed=0).fit(
        pa.table({"pay": pay, "age": age})
    )
    assert relations(synthesis.schema) == {"pay": "20.5 * age"}
    made = synthesis.sample_arrow(50, given={"pay": None})
    assert made["pay"].null_count == 50
    assert made["age"].null_count == 0


def test_a_value_on_an_exact_line_says_its_bases_value(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    level = rng.integers(1, 13, ROWS)
    table = pa.table({"level": level, "entered": 2025 - level, "other": rng.integers(0, 50, ROWS)})
    synthesis = Synthesizer("independent", epsilon=30.0, not_private_test_seed=0).fit(table)
    (name,) = relations(synthesis.schema)
    base = "level" if name == "entered" else "entered"
    value, other = {"entered": (2020, 5), "level": (5, 2020)}[name]
    made = synthesis.sample_arrow(50, given={name: value})
    assert set(made[name].to_pylist()) == {value}
    assert set(made[base].to_pylist()) == {other}
    made = synthesis.sample_arrow(200, given={name: Between(value, value + 2)})
    assert set(made[name].to_pylist()) == {value, value + 1, value + 2}
    assert (made["level"].to_numpy() + made["entered"].to_numpy() == 2025).all()
    release, out = tmp_path / "NOT-PRIVATE.margrave", tmp_path / "NOT-PRIVATE.parquet"
    synthesis.save(release)
    done = call("sample", release, "-o", out, "--rows", 200, "--given", f"{name}={value}..{value + 2}")
    assert done.code == 0, done.err
    assert set(pq.read_table(out)[name].to_pylist()) == {value, value + 1, value + 2}
    made = synthesis.sample_arrow(50, given={name: value, base: other})
    assert set(made[base].to_pylist()) == {other}
    with pytest.raises(InputError, match="a value of the column"):
        synthesis.sample_arrow(5, given={name: "much"})


def test_columns_apart_are_on_no_line() -> None:
    table = school(ROWS)
    rng = np.random.default_rng(1)
    for name in ("entered", "fahrenheit", "tax", "mean"):
        place = table.column_names.index(name)
        table = table.set_column(place, name, table[name].take(pa.array(rng.permutation(ROWS))))
    schema, asked, _ = fit(table, 4.0)
    assert not relations(schema)
    assert len(asked) == 1  # by their quantiles they may have been, and none was near


def test_a_column_of_classes_is_no_line_of_what_it_classes() -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, ROWS)
    schema, asked, _ = fit(pa.table({"age": age, "band": age // 20}), 4.0)
    assert "band" not in relations(schema)
    assert asked == []


def test_a_flag_is_on_no_line() -> None:
    """It is .4536 times the stage, rounded, in every row; and as well half of it, or any share in between."""
    stage = np.random.default_rng(0).integers(1, 4, ROWS)
    schema, asked, _ = fit(pa.table({"stage": stage, "late": (stage > 1).astype(int)}), 4.0)
    assert asked == []
    assert not relations(schema)


def test_rows_off_a_line_leave_it() -> None:
    """Half of the rows have another year: that is no rule of the table."""
    rng = np.random.default_rng(0)
    level = rng.integers(1, 13, ROWS)
    entered = np.where(rng.random(ROWS) < 0.5, rng.integers(2013, 2025, ROWS), 2025 - level)
    schema, _, _ = fit(pa.table({"level": level, "entered": entered}), 4.0)
    assert not relations(schema)


def test_a_frequent_value_of_both_is_no_line() -> None:
    """Three rows of four have 0 and 0, which are on every line through them."""
    rng = np.random.default_rng(0)
    some = rng.random(ROWS) < 0.3
    table = pa.table(
        {
            "gain": np.where(some, rng.integers(1, 400, ROWS), 0),
            "loss": np.where(some, rng.integers(1, 400, ROWS) * 2, 0),
        }
    )
    schema, _, _ = fit(table, 4.0)
    assert not [
        column for column in schema.columns if isinstance(column, Relative) and column.comparison.is_line
    ]


@pytest.mark.parametrize("k", [0, 3])
def test_the_looks_are_priced_for_all_tables_together(k: int) -> None:
    table = school(ROWS)
    options: dict[str, object] = {}
    if k:
        table = table.append_column("who", pa.array(np.arange(ROWS) // 3))
        options = {"unit": Unit("who", k)}
    _, asked, _ = fit(table, 4.0, **options)
    for event in asked:
        count = int(next(word for word in event.what.split() if word.isdigit()))
        assert event.l2_squared == count * max(k, 1) ** 2
    assert asked


def column(name: str, values: Array, whole: bool) -> Binned:
    """A column with a cell for each 256th of its values, and their exact weights."""
    unit = 1.0 if whole else 0.01
    low, high = np.floor(values.min()), np.ceil(values.max()) + 1
    fine = np.unique(np.round(np.linspace(low, high, 257))) if whole else np.linspace(low, high, 257)
    weights = np.histogram(values, fine)[0].astype(float)
    kind, grids = (Integer, ()) if whole else (Real, ((unit, 1.0),))
    ends = (int(low), int(high)) if whole else (float(low), float(high))
    return kind(
        name=name,
        edges=ends,
        fine=tuple(fine.astype(int).tolist()) if whole else tuple(fine.tolist()),
        weights=tuple(weights.tolist()),
        missing=False,
        grids=grids,
    )


def looked(table: pa.Table, found: list[Line]) -> list[Array]:
    """The exact answers, as floats."""
    return [
        count_relation(table[one.column.name], table[one.base.name], one.comparison, one.edges).astype(float)
        for one in found
    ]


@pytest.mark.parametrize(
    ("name", "values", "factor", "offset"),
    [
        ("line", lambda x: np.round(2.54 * x, 2), 2.54, 0.0),
        ("line", lambda x: np.round(x / 1.19, 2), 1 / 1.19, 0.0),
        ("line", lambda x: np.round(x * 1.0725, 2), 1.0725, 0.0),
        ("line", lambda x: np.round(100 - x / 1.8, 2), -5 / 9, 100.0),
        ("line", lambda x: np.round(x - 17, 2), 1.0, -17.0),
        ("line", lambda x: np.round(x * 0.5 + 3.5, 2), 0.5, 3.5),
    ],
)
def test_without_noise_constants_are_named_exactly(
    name: str, values: object, factor: float, offset: float
) -> None:
    rng = np.random.default_rng(3)
    base = np.round(rng.lognormal(4.0, 0.5, ROWS), 2)
    line = values(base)  # type: ignore[operator]
    table = pa.table({"base": base, "line": line})
    columns = [column("base", base, False), column("line", line, False)]
    near = find_lines(columns, 10)
    tables = list_tables(choose_lines(near, looked(table, near), 1.0), 60)
    candidates = choose_constants(tables, looked(table, tables), 1.0)
    counts = [
        count_relation(table[c.total.name], table[c.parts[0].name], c.comparison, c.edges).astype(float)
        for c in candidates
    ]
    (link,) = choose_sums(candidates, counts, 1.0)
    if link.column == "base":  # the other way round says the same
        factor, offset = 1 / factor, -offset / factor
    assert link.line == pytest.approx((factor, offset), rel=1e-9)


def test_fixed_columns_are_no_line_of_any() -> None:
    rng = np.random.default_rng(3)
    base = rng.integers(0, 500, ROWS).astype(float)
    columns = [column("base", base, True), column("line", 2 * base, True)]
    assert find_lines(columns, 10)
    assert find_lines(columns, 10, {"base", "line"}) == []
    assert find_lines(columns, 0) == []
    table = pa.table({"base": base, "line": 2 * base})
    tables = list_tables(find_lines(columns, 10), 60)
    for fixed in ("base", "line"):
        candidates = choose_constants(tables, looked(table, tables), 1.0, {fixed})
        assert candidates
        assert {one.total.name for one in candidates} == {"base", "line"} - {fixed}
    marks = [column(name, rng.integers(0, 100, ROWS).astype(float), True) for name in "abc"]
    means = find_means(marks, {"a", "b"})
    assert {one.total.name for one in means} <= {"c"}


@pytest.mark.parametrize(
    ("low", "high", "held"),
    [
        (0.18, 0.2, [0.19, 0.2]),
        (2.5, 2.58, [2.54, 2.5]),
        (0.55, 0.56, [5 / 9]),
        (0.8402, 0.8405, [1 / 1.19]),
        (0.33, 0.335, [1 / 3]),
        (11.5, 12.5, [12.0]),
        (950.0, 1050.0, [1000.0]),
    ],
)
def test_round_numbers_are_among_those_that_are_asked_for(low: float, high: float, held: list[float]) -> None:
    found = list_round(low, high, 3)
    assert all(low * (1 - 1e-9) <= one <= high * (1 + 1e-9) for one in found)
    assert len(set(found)) == len(found) <= 12
    for one in held:
        assert any(np.isclose(one, x, rtol=1e-12) for x in found), (one, found)


def test_noise_alone_shows_no_constants() -> None:
    rng = np.random.default_rng(4)
    base = np.round(rng.lognormal(4.0, 0.5, 500), 2)
    columns = [column("base", base, False), column("line", np.round(2.54 * base, 2), False)]
    tables = list_tables(find_lines(columns, 10), 60)
    noisy = [rng.normal(0.0, 2_000.0, len(one.edges) + 2) for one in tables]
    # Of some thirty thousand windows one may exceed four and a half deviations by chance, and not three.
    assert len({one.parts for one in choose_constants(tables, noisy, 2_000.0)}) <= 2
    peaks = [_find_peak(one, seen[:-3], 1, Z_PEAK * 2_000.0) for one, seen in zip(tables, noisy, strict=True)]
    assert sum(peak is not None for peak in peaks) <= 2


def test_equal_rows_prove_no_line_and_discovery_asks_for_more() -> None:
    """Pregnancies are as many as children in four rows of five, and 7 / 8 of a few rounds to as many."""
    rng = np.random.default_rng(0)
    children = rng.geometric(0.35, ROWS) - 1
    more = np.where(rng.random(ROWS) < 0.2, rng.integers(1, 4, ROWS), 0)
    base, total = (column(name, np.arange(9.0), True) for name in ("children", "pregnancies"))
    (asked,) = ask_beyond_equality(
        [Candidate(total, (base,), 0.1, "sum", (0.875, 0.0))], {frozenset(("children", "pregnancies")): 0.8}
    )
    assert asked.equal == 0.8
    schema, _, _ = fit(pa.table({"children": children, "pregnancies": children + more}), 4.0)
    coded = [one for one in schema.columns if isinstance(one, Relative)]
    assert not [one for one in coded if one.comparison.is_line]


def test_rows_of_one_frequent_value_prove_no_line() -> None:
    """Nine rows of ten are on the line; seven of them are of one value, which is on any line through it."""
    base, total = (column(name, np.arange(100.0), True) for name in ("base", "total"))
    rows = np.array([50.0, 900.0, 50.0, 0.0, 0.0, 0.0])
    for equal, found in ((0.7, 0), (0.0, 1)):
        candidate = Candidate(total, (base,), equal, "sum", (2.0, 0.0))
        assert len(choose_sums([candidate], [rows], 1.0)) == found


def test_of_lines_that_hold_as_well_the_rounder_one_is_taken() -> None:
    base, total = (column(name, np.arange(100.0), True) for name in ("base", "total"))
    rows = [np.array([0.0, 1000.0, 0.0, 0.0, 0.0, 0.0]), np.array([0.0, 1010.0, 0.0, 0.0, 0.0, 0.0])]
    constants = ((2.54, 0.0), (2.55, 0.0)), ((2.5, 3.0), (2.54, 0.0))
    for lines, wanted in zip(constants, ((2.54, 0.0), (2.54, 0.0)), strict=True):
        candidates = [Candidate(total, (base,), 0.1, "sum", one) for one in lines]
        (link,) = choose_sums(candidates, rows, 20.0)
        assert link.line == wanted
    # Far above the noise the exact one is.
    candidates = [Candidate(total, (base,), 0.1, "sum", one) for one in constants[0]]
    (link,) = choose_sums(candidates, rows, 1.0)
    assert link.line == (2.55, 0.0)


def test_columns_whose_quantiles_are_a_hair_apart_are_on_no_line() -> None:
    """A column of fractions of which noise puts nearly all rows right above 0: the slope was infinite."""
    hair, weights = 50 * 5e-324, (*[100.0] * 40, 1.0)
    found = [
        Real(name=name, missing=False, lower=0.0, upper=edges[-1], edges=edges, fine=edges, weights=weights)
        for name, edges in (
            ("close", (*(place * hair for place in range(41)), 1.0)),
            ("far", tuple(float(place) for place in range(42))),
        )
    ]
    assert find_lines(found, 5) == []
    assert len(find_lines([found[1], dataclasses.replace(found[1], name="again")], 5)) > 0
