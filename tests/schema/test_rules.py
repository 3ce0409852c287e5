"""Rules on a schema: what is refused, what schema.json keeps, and which cells are allowed, value by value."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from margrave.errors import SchemaError
from margrave.schema.columns import (
    Boolean,
    Categorical,
    Date,
    Identifier,
    Integer,
    Moment,
    Ordinal,
    Real,
)
from margrave.schema.constraints.rules import Allowed, Determines, Forbidden, Ordered, Sum, Within
from margrave.schema.schema import Schema

COLUMNS = (
    Categorical(name="sex", values=("F", "M"), missing=True),
    Categorical(name="role", values=("wife", "husband", "child"), missing=False, other="rest"),
    Integer(name="a", lower=0, upper=9, bins=4, missing=True),
    Integer(name="b", lower=0, upper=9, bins=5, missing=False),
    Integer(name="t", lower=0, upper=18, bins=6, missing=False),
    Real(name="x", lower=0, upper=1, bins=4, missing=False),
    Date(name="from", lower="2020-01-01", upper="2020-12-31", bins=6, missing=False),
    Date(name="to", lower="2020-01-01", upper="2021-12-31", bins=6, missing=True),
    Moment(name="at", lower="2020-01-01T00:00", upper="2020-12-31T00:00", bins=6, missing=False),
    Identifier(name="id"),
)
DAMAGED = [
    {"kind": "forbidden", "columns": ["sex", "role"], "combinations": [[{}, "wife"]]},
    {"kind": "forbidden", "columns": 3, "combinations": [["F", "wife"]]},
    {"kind": "forbidden", "columns": ["sex", ["role"]], "combinations": [["F", "wife"]]},
    {"kind": "allowed", "columns": ["sex", "role"], "combinations": ["Fw", 3]},
    {"kind": "determines", "of": "sex", "by": "role", "table": [[[1], "F"]]},
    {"kind": "determines", "of": "sex", "by": "role", "table": 3},
    {"kind": "within", "column": "a", "by": "role", "ranges": [["wife", {}, 3]]},
    {"kind": "within", "column": "a", "by": "role", "ranges": [[]]},
    {"kind": "within", "column": "a", "by": {}, "ranges": [["wife", 1, 3]]},
    {"kind": "ordered", "low": "a", "high": "b", "strict": "no"},
    {"kind": "ordered", "low": ["a"], "high": {}, "more": 1},
]
RULES = (
    Forbidden(("sex", "role"), [("F", "husband"), ("M", "wife"), (None, "child")]),
    Ordered("from", "to"),
    Ordered("a", "b", strict=True),
    Sum("t", ("a", "b")),
    Within("b", "role", {"wife": (3, None), "child": (None, 4)}),
    Determines("sex", "role", {"wife": "F"}),
)


def table(columns, *rules):
    """What each cell of all columns says, over the columns of the rules in order."""
    domain = Schema(columns, rules).domain
    codes = np.unravel_index(np.arange(domain.size()), domain.sizes)
    return domain.rules.possible(dict(zip(domain.names, codes, strict=True)), domain.size()).reshape(
        domain.sizes
    )


def test_a_schema_with_rules_comes_back_from_json(tmp_path):
    schema = Schema(COLUMNS, RULES)
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    schema.save(tmp_path / "schema.json")
    again = Schema.load(tmp_path / "schema.json")
    assert again.rules == schema.rules
    assert schema.to_json()["margrave_schema"] == 2
    assert "rules" not in Schema(COLUMNS).to_json()
    assert Schema(COLUMNS).to_json()["margrave_schema"] == 1


def test_rules_stay_when_columns_are_exchanged_and_do_not_change_the_domain():
    schema = Schema(COLUMNS, RULES)
    assert schema.replace([COLUMNS[3]]).rules == RULES
    assert schema.domain == Schema(COLUMNS).domain
    assert Schema(COLUMNS).domain.rules is None


def test_listed_rules_speak_of_codes():
    sex, role = COLUMNS[:2]
    forbidden = table((sex, role), Forbidden(("role", "sex"), [("husband", "F"), ("child", None)]))
    assert forbidden.tolist() == [[1, 0, 1, 1], [1, 1, 1, 1], [1, 1, 0, 1]]
    allowed = table((sex, role), Allowed(("sex", "role"), [("F", "wife"), ("M", "husband"), ("M", "aunt")]))
    assert allowed.tolist() == [
        [1, 0, 0, 0],
        [0, 1, 0, 1],
        [1, 1, 1, 1],
    ]  # aunt is in the rest; missing is free
    told = table((sex, role), Allowed(("sex", "role"), [("F", "wife"), (None, "child")]))
    assert told.tolist() == [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]]
    follows = table((sex, role), Determines("sex", "role", {"wife": "F", "husband": "M"}))
    assert follows.tolist() == [[1, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]]


NUMBERS = (
    Integer(name="a", edges=(0, 1, 4, 6, 9), missing=True),
    Integer(name="b", edges=(0, 3, 5, 7), missing=False),
    Integer(name="c", edges=(-2, 0, 2, 4, 8), missing=True),
    Ordinal(name="n", values=(1, 4, 9), missing=False),
    Boolean(name="flag", missing=False),
)
SETS = {
    "order": [Ordered("a", "b")],
    "strict": [Ordered("a", "b", strict=True)],
    "chain": [Ordered("a", "b"), Ordered("b", "c", strict=True)],
    "sum": [Sum("a", ("b", "c"))],
    "sum and order": [Sum("a", ("b", "c")), Ordered("c", "b")],
    "sum and both orders": [Sum("a", ("b", "c")), Ordered("c", "b"), Ordered("b", "a")],
    "listed": [Ordered("n", "a"), Ordered("b", "n", strict=True)],
    "range": [Within("a", "flag", {True: (2, 5), False: (None, 0)})],
    "all": [
        Ordered("a", "b"),
        Sum("a", ("b", "c")),
        Within("b", "flag", {False: (1, 4)}),
        Ordered("c", "n"),
        Forbidden(("n", "flag"), [(4, True)]),
    ],
}


def values_of(column):
    if isinstance(column, Integer):
        found = [(v, i) for i in range(column.present) for v in range(column.edges[i], column.edges[i + 1])]
    else:
        found = [(v, i) for i, v in enumerate(column.values)]
    return [*found, *([(None, column.present)] if column.missing else [])]


def obeys(row, rule):
    held = [row[name] for name in rule.names]
    if isinstance(rule, Forbidden):
        return tuple(held) not in rule.combinations
    if None in held:
        return True
    if isinstance(rule, Ordered):
        return held[0] < held[1] if rule.strict else held[0] <= held[1]
    if isinstance(rule, Sum):
        return held[0] == sum(held[1:])
    bounds = {value: (low, high) for value, low, high in rule.ranges}
    low, high = bounds.get(held[0], (None, None))
    return (low is None or low <= held[1]) and (high is None or held[1] <= high)


@pytest.mark.parametrize("rules", SETS.values(), ids=SETS)
def test_a_cell_is_allowed_just_when_some_values_in_it_obey(rules):
    used = [c for c in NUMBERS if any(c.name in rule.names for rule in rules)]
    found = table(tuple(used), *rules)
    expected = np.zeros(found.shape, dtype=bool)
    for entries in itertools.product(*(values_of(column) for column in used)):
        row = {column.name: value for column, (value, _) in zip(used, entries, strict=True)}
        if all(obeys(row, rule) for rule in rules):
            expected[tuple(code for _, code in entries)] = True
    assert 0 < expected.sum() < expected.size
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("rules", SETS.values(), ids=SETS)
def test_a_part_of_a_row_is_possible_where_some_whole_row_is(rules):
    used = tuple(c for c in NUMBERS if any(c.name in rule.names for rule in rules))
    domain = Schema(used, rules).domain
    whole = table(used, *rules)
    for name in domain.names:
        axes = tuple(i for i, other in enumerate(domain.names) if other != name)
        part = domain.rules.possible({name: np.arange(domain[name])}, domain[name])
        assert (part | ~whole.any(axis=axes)).all()


def test_a_search_finds_only_rows_that_obey_and_all_of_them():
    domain = Schema(NUMBERS, SETS["all"]).domain
    whole = table(NUMBERS, *SETS["all"])
    weights = {name: np.ones(domain[name]) for name in domain.names}
    rng = np.random.default_rng(0)
    rows = [domain.rules.complete({}, weights, rng) for _ in range(600)]
    found = {tuple(row[name] for name in domain.names) for row in rows}
    assert all(whole[row] for row in found)
    assert len(found) > 0.8 * whole.sum()
    assert domain.rules.complete({"flag": 0, "b": 2}, weights, rng) is None
    row = domain.rules.complete({"flag": 1}, weights, rng, {"b": 6.0})
    assert row is None or whole[tuple({**row, "flag": 1}[n] for n in domain.names)]


def test_numbers_on_a_line_and_dates():
    low = (
        Real(name="l", edges=(0.0, 1.0, 2.0), missing=False),
        Real(name="h", edges=(0.0, 1.0, 2.0), missing=False),
    )
    assert table(low, Ordered("l", "h")).tolist() == [[1, 1], [0, 1]]
    point = (
        Real(name="l", edges=(0.0, np.nextafter(0, 1), 2.0), missing=False),
        Real(name="h", edges=(0.0, np.nextafter(0, 1), 2.0), missing=False),
        Real(name="s", edges=(0.0, np.nextafter(0, 1), 4.0), missing=False),
    )
    zeros = table(point, Sum("s", ("l", "h")))
    assert zeros[0, 0].tolist() == [1, 0]  # nothing and nothing are nothing
    assert zeros[1, 1].tolist() == [0, 1]
    days = (
        Date(name="f", edges=("2020-01-01", "2020-07-01", "2021-01-01"), missing=False),
        Categorical(name="y", values=("early", "late"), missing=False),
    )
    assert table(
        days, Within("f", "y", {"early": (None, "2020-06-30"), "late": ("2020-07-01", None)})
    ).tolist() == [
        [1, 0],
        [0, 1],
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda: (Ordered("a", "z"),),
        lambda: (Ordered("a", "a"),),
        lambda: (Ordered("a", "id"),),
        lambda: (Ordered("a", "sex"),),
        lambda: (Ordered("from", "at"),),
        lambda: (Ordered("from", "a"),),
        lambda: (Sum("t", ("a",)),),
        lambda: (Forbidden(("a", "sex"), [(1, "F")]),),
        lambda: (Forbidden(("sex",), [("F",)]),),
        lambda: (Forbidden(("sex", "role"), []),),
        lambda: (Forbidden(("sex", "role"), [("F", "wife", "M")]),),
        lambda: (Forbidden(("sex", "role"), [("X", "wife")]),),
        lambda: (Determines("sex", "role", {}),),
        lambda: (Determines("a", "role", {"wife": 3}),),
        lambda: (Within("a", "role", {"wife": (5, 2)}),),
        lambda: (Within("a", "b", {1: (5, 8)}),),
        lambda: (Within("from", "role", {"wife": ("spring", None)}),),
        lambda: (Within("b", "role", dict.fromkeys(("wife", "husband", "child", "rest"), (20, None))),),
        lambda: (Ordered("b", "t", strict=True), Ordered("t", "b")),
        lambda: (
            Sum("b", ("t", "x")),
            Ordered("b", "t", strict=True),
            Within("x", "role", {"wife": (0.5, None)}),
        ),
        lambda: ("a <= b",),
    ],
)
def test_rules_that_do_not_fit_are_refused_with_a_reason(make):
    with pytest.raises(SchemaError, match=r"must be"):
        Schema(COLUMNS, make())


@pytest.mark.parametrize(
    "entry",
    [
        {"kind": "magic"},
        {"kind": "ordered", "low": "a"},
        {"kind": "sum", "total": 3, "parts": 4},
        7,
        *DAMAGED,
    ],
)
def test_json_that_is_no_rule_is_refused(entry):
    document = Schema(COLUMNS).to_json() | {"rules": [entry]}
    with pytest.raises(SchemaError):
        Schema.from_json(document)


def test_a_rule_may_wait_for_columns_that_are_not_known_yet():
    waiting = Schema((Integer(name="a"), Integer(name="b", lower=0, upper=5)), (Ordered("a", "b"),))
    assert not waiting.known
    known = waiting.replace(
        [
            Integer(name="a", lower=4, upper=9, missing=False, strict=False),
            Integer(name="b", lower=0, upper=5, missing=False),
        ]
    )
    assert known.domain.rules is not None
    with pytest.raises(SchemaError, match="rules"):
        waiting.replace(
            [
                Integer(name="a", lower=6, upper=9, missing=False),
                Integer(name="b", lower=0, upper=5, missing=False),
            ]
        )
