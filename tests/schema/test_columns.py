from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from margrave.errors import SchemaError
from margrave.schema.columns import Boolean, Categorical, Integer, Ordinal, Real, Unknown
from margrave.schema.schema import Schema

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "arguments",
    [
        *[{"lower": 0, "upper": bad} for bad in (INF, NAN, -1, "9", None.__class__)],
        *[{"lower": 0, "upper": 9, "bins": bad} for bad in (0, -1, 2.5, NAN)],
        *[{"edges": bad} for bad in ((0,), (1, 0), (0, 0), (0, NAN), (0, INF))],
        *[{"edges": (0, 4), "fine": bad, "weights": (1.0, 1.0)} for bad in ((0, 2), (1, 2, 4), (0, 2, 5))],
        *[{"edges": (0, 4), "fine": (0, 2, 4), "weights": bad} for bad in ((1.0,), (1.0, -1.0), (1.0, NAN))],
    ],
)
@pytest.mark.parametrize("kind", [Integer, Real])
def test_bins_that_make_no_sense(kind: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="of column 'x' must be"):
        kind(name="x", **arguments)


@pytest.mark.parametrize("values", ["abc", (), (NAN,), (None,), ((1,),), ("a", "a"), (1, True), ("other",)])
def test_values_that_make_no_sense(values: Any) -> None:
    other = "other" if values == ("other",) else None
    with pytest.raises(SchemaError, match="of column 'x' must be"):
        Categorical(name="x", values=values, other=other)


def test_numpy_scalars_become_plain() -> None:
    column = Categorical(name="x", values=(np.int64(3), np.str_("a"), np.float32(0.5)), missing=False)
    assert [type(value) for value in column.values or ()] == [int, str, float]
    assert Integer(name="x", lower=np.int64(0), upper=np.int16(3)).edges == (0, 1, 2, 3, 4)


def test_sizes_and_labels() -> None:
    age = Integer(name="x", lower=0, upper=9, bins=3, missing=True)
    assert (age.edges, age.size, age.missing_code) == ((0, 3, 6, 10), 4, 3)
    assert age.labels == ("0 to 2", "3 to 5", "6 to 9", "missing")
    assert Integer(name="x", lower=7, upper=7, missing=False).labels == ("7",)
    real = Real(name="x", lower=0, upper=1, bins=2, missing=False)
    assert (real.labels, real.size, real.missing_code) == (("0 to 0.5", "0.5 to 1"), 2, None)
    text = Categorical(name="x", values=("a",), other="rest", missing=True)
    assert (text.labels, text.size, text.other_code) == (("a", "rest", "missing"), 3, 1)
    assert Boolean(name="x", missing=False).labels == ("False", "True")


def test_what_is_not_known_yet() -> None:
    for column in (Unknown(name="x"), Ordinal(name="x", missing=False), Real(name="x"), Boolean(name="x")):
        assert not column.known
    with pytest.raises(SchemaError, match="known before it is encoded"):
        Schema((Unknown(name="x"),)).domain


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (lambda: Integer(name="age", lower="abc"), "bounds of column 'age'"),
        (lambda: Integer(name="age", upper="0"), "bounds of column 'age'"),
        (lambda: Real(name="age", lower=NAN), "bounds of column 'age'"),
        (lambda: Schema([Integer(name=3)]), "name of a column"),
        (lambda: Schema([Integer(name="age", missing="yes")]), "missing of column 'age'"),
        (lambda: Schema([Integer(name="age", strict=None)]), "strict of column 'age'"),
    ],
)
def test_what_no_column_can_be_is_refused_where_it_is_declared(
    column: Callable[[], object], said: str
) -> None:
    """Discovery would find it out after it has spent."""
    with pytest.raises(SchemaError, match=said):
        column()
