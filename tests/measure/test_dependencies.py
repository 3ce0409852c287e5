"""Functional dependencies: found where columns follow from others, paid for, and none made where none do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_relations import discover

import margrave as mg
from margrave.engines.opening import open_source
from margrave.measure.discovery.between.dependencies import (
    Dependencies,
    Side,
    _ranges,
    choose_parents,
    find_pairs,
    read_function,
    separate_values,
)
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.columns import Categorical, Integer
from margrave.schema.constraints.rules import Determines, Within
from margrave.schema.schema import Schema

ROWS = 12_000
TRUE = {("county", "state"), ("degree", "years"), ("age", "group")}


def people(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """Counties in states, a degree with its number of years, ages with their group, and columns beside."""
    rng = np.random.default_rng(seed)
    county, degree = rng.integers(0, 12, rows), rng.integers(0, 8, rows)
    age = rng.integers(20, 50, rows)
    return pd.DataFrame(
        {
            "county": [f"k{one}" for one in county],
            "state": [f"s{one}" for one in county // 4],
            "degree": [f"d{one}" for one in degree],
            "years": (degree * 5) % 8 + 9,
            "age": age,
            "group": np.where(age < 27, "young", np.where(age < 40, "mid", "old")),
            "colour": rng.choice(["red", "green", "blue"], rows),
            "rare": rng.choice(["yes", "no"], rows, p=[0.01, 0.99]),
        }
    )


def found(schema: Schema) -> set[tuple[str, str]]:
    """Pairs (determining, following) of the rules that were found."""
    rules = [rule for rule in schema.rules if isinstance(rule, Determines | Within) and rule.share]
    return {("age", "group") if rule.names == ("group", "age") else rule.names for rule in rules}  # type: ignore[misc]


@pytest.mark.parametrize("epsilon", [6.0, 12.0])
def test_dependencies_are_found(epsilon: float) -> None:
    schema, ledger, curator = discover(people(), epsilon)
    assert found(schema) == TRUE
    for rule in schema.rules:
        assert rule.found is not None
        assert rule.found[0] > 0.97
    (determines,) = [rule for rule in schema.rules if isinstance(rule, Determines)]
    assert dict(determines.pairs) == {f"k{one}": f"s{one // 4}" for one in range(12)}
    assert ledger.planned >= ledger.total * 2 / 3
    assert all(m.values.shape == (schema[m.clique[0]].size,) for m in curator.measurements)
    assert "found and not promised" in str(schema)


@pytest.mark.parametrize("method", ["independent", "mst"])
def test_synthetic_rows_keep_them(method: str, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    people().to_csv(path, index=False)
    synthesis = mg.Synthesizer(method, epsilon=6.0, delta=1e-6).fit(path)
    made = synthesis.sample_arrow(rng=0).to_pandas()
    real = people()
    for by, of in TRUE:
        lookup = real.drop_duplicates(by).set_index(by)[of]
        known = made[by].isin(lookup.index)
        assert known.mean() > 0.9
        assert (lookup.reindex(made[by][known]).to_numpy() == made[of][known].to_numpy()).mean() > 0.995
    again = Schema.from_json(synthesis.schema.to_json())
    assert again == synthesis.schema


def test_rows_off_the_function_leave_their_value_free() -> None:
    data = people()
    data.loc[(data["county"] == "k3") & (np.arange(ROWS) % 2 == 0), "state"] = "s2"
    schema, _, _ = discover(data, 20.0)
    (rule,) = [rule for rule in schema.rules if isinstance(rule, Determines)]
    assert rule.names == ("county", "state")
    assert set(dict(rule.pairs)) == {f"k{one}" for one in range(12)} - {"k3"}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_none_are_made_where_there_are_none(seed: int, epsilon: float) -> None:
    """Columns that depend on each other, none wholly: one in four rows is off the function."""
    rng = np.random.default_rng(seed)
    data = people(seed=seed).drop(columns=["group", "years"])
    data["state"] = np.where(rng.random(ROWS) < 0.25, rng.permutation(data["state"]), data["state"])
    data["code"] = rng.integers(0, 9, ROWS)
    schema, _, _ = discover(data, epsilon, seed)
    assert not found(schema)


def test_no_look_is_taken_of_what_single_columns_rule_out() -> None:
    """The more frequent value of a flag cannot follow from a column of which no values hold so many rows."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame({f"n{i}": rng.choice(["a", "b"], 5000, p=[0.1, 0.9]) for i in range(5)})
    data["even"] = rng.choice(["c", "d"], 5000)
    _, ledger, _ = discover(data, 3.0)
    assert not [event for event in ledger.events if "dependency" in event.what]


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("k", [1, 3])
def test_a_unit_moves_the_looks_by_no_more_than_is_declared(
    adjacency: Adjacency, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one run counted, counted of two neighbours of which one holds an owner's k odd rows."""
    asked: list[Any] = []
    true = Dependencies._count

    def note(self: Dependencies, columns: Any, cliques: Any) -> Any:
        asked.append((dict(columns), list(cliques)))
        return true(self, columns, cliques)

    monkeypatch.setattr(Dependencies, "_count", note)
    data, unit = people().assign(who=np.arange(ROWS) // k), Unit("who", k)
    _, ledger, _ = discover(data, 6.0, unit=unit, adjacency=adjacency)
    events = [event for event in ledger.events if event.what.startswith("dependenc")]
    assert len(events) == len(asked) >= 2
    odd = data.iloc[[0] * k].assign(county="k11", state="s0", age=10**6, who=-1)
    other = data.iloc[[1] * k].assign(county="k0", state="elsewhere", age=None, who=-1)
    frames = [pd.concat([data, odd]), data if adjacency == "add_remove" else pd.concat([data, other])]
    sources = [open_source(table)[0].bound_owners("who", k) for table in frames]
    monkeypatch.undo()
    for event, (columns, cliques) in zip(events, asked, strict=True):
        assert isinstance(event, GaussianEvent)
        assert event.l2_squared == len(cliques) * Neighbours(unit, adjacency).marginal_l2_squared
        sides = [Dependencies(source, None, None)._count(columns, cliques) for source in sources]  # type: ignore[arg-type]
        moved = sum(int(((a - b) ** 2).sum()) for a, b in zip(*sides, strict=True))
        assert 0 < moved <= event.l2_squared


def side(name: str, rows: list[float]) -> Side:
    column = Categorical(name=name, values=tuple(f"{name}{i}" for i in range(len(rows))), missing=False)
    return Side(column, np.array(rows), 1.0)


def test_pairs_that_single_columns_rule_out_are_not_open() -> None:
    fine, coarse = side("a", [300.0, 300.0, 200.0, 200.0]), side("b", [600.0, 400.0])
    pairs = find_pairs([fine, coarse], lambda most: 1.0)
    assert [(by.column.name, of.column.name) for by, of in pairs] == [("a", "b")]
    assert not find_pairs([fine, coarse], lambda most: 100.0)  # nothing could be told


def test_a_function_is_read_off_and_what_is_not_evident_is_left_free() -> None:
    by, of = side("a", [500.0, 400.0, 100.0, 3.0]), side("b", [603.0, 400.0])
    table = np.array([[500.0, 0.0], [0.0, 400.0], [99.0, 1.0], [1.0, 2.0]])
    one = read_function(by, of, table, 2.0)
    assert one is not None
    assert one.lookup.tolist() == [0, 1, 0, -1]
    assert read_function(by, of, np.array([[300.0, 200.0], [200, 200], [50, 50], [1, 2]]), 2.0) is None


def test_each_column_follows_from_the_nearest_and_none_from_itself() -> None:
    town, county, state = side("t", [1.0] * 8), side("c", [2.0] * 4), side("s", [4.0] * 2)
    twin = side("u", [1.0] * 8)

    def made(by: Side, of: Side) -> Any:
        table = np.zeros((len(by.rows), len(of.rows)))
        step = len(by.rows) // len(of.rows)
        table[np.arange(len(by.rows)), np.arange(len(by.rows)) // step] = by.rows
        return read_function(by, of, table, 1e-6)

    pairs = [(town, county), (town, state), (county, state), (town, twin), (twin, town), (twin, county)]
    links = choose_parents([made(*pair) for pair in pairs])
    assert [(one.by.column.name, one.of.column.name) for one in links] == [("t", "u"), ("u", "c"), ("c", "s")]


def test_numbers_are_separated_value_by_value() -> None:
    column = Integer(
        name="n", edges=(0, 5, 9), missing=False, fine=(0, 1, 2, 3, 5, 8, 9), weights=(0, 4, 2, 0, 0, 3)
    )
    alone = separate_values(column)
    assert alone is not None
    assert alone.edges == (1, 2, 8, 9)
    assert separate_values(Integer(name="n", lower=0, upper=9, missing=False)) is None


def test_a_public_column_follows_from_none() -> None:
    sides = [side("a", [50.0] * 8), side("b", [100.0] * 4)]
    both = find_pairs(sides, lambda m: 0.1)
    assert [(by.column.name, of.column.name) for by, of in both] == [("a", "b")]
    assert find_pairs(sides, lambda m: 0.1, fixed=("b",)) == []
    assert find_pairs(sides, lambda m: 0.1, fixed=("a",)) == both


def test_numbers_of_which_nothing_is_left_make_no_ranges() -> None:
    """A second look may leave no code whose label is told."""
    assert _ranges(np.zeros(0), np.zeros(0, dtype=np.int64), 3) == []
    assert _ranges(np.array([1.0, 5.0]), np.array([2, 0]), 3) == [(2, None, 4), (0, 2, None)]
