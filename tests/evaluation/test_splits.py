from __future__ import annotations

import numpy as np
import pytest
from people import SCHEMA, made

from margrave.errors import InputError
from margrave.evaluation.rows import REFERENCES, bootstrap_rows, references, shuffled_rows, split


def _pairs(rows) -> list[tuple[float, int]]:  # type: ignore[no-untyped-def]
    return sorted(zip(rows.numbers["pay"].tolist(), rows.encoded.column("town").tolist(), strict=True))


def test_a_split_parts_the_rows() -> None:
    rows = made(100, 0)
    train, test = split(rows, 0.2, np.random.default_rng(0))
    assert (train.size, test.size) == (80, 20)
    assert sorted(_pairs(train) + _pairs(test)) == _pairs(rows)
    again, _ = split(rows, 0.2, np.random.default_rng(0))
    assert _pairs(again) == _pairs(train)
    assert _pairs(split(rows, 0.2, np.random.default_rng(1))[0]) != _pairs(train)


def test_both_sides_of_a_split_have_a_row() -> None:
    rows = made(2, 0)
    for share in (0.01, 0.99):
        assert [side.size for side in split(rows, share, np.random.default_rng(0))] == [1, 1]
    with pytest.raises(InputError, match="rows must be of two rows or more"):
        split(made(1, 0), 0.5, np.random.default_rng(0))
    for share in (0, 1, float("nan")):
        with pytest.raises(InputError, match="share must be between 0 and 1"):
            split(rows, share, np.random.default_rng(0))


def test_a_bootstrap_draws_rows_and_a_shuffle_columns() -> None:
    rows = made(500, 0)
    drawn, shuffled = (
        bootstrap_rows(rows, np.random.default_rng(0)),
        shuffled_rows(rows, np.random.default_rng(0)),
    )
    assert drawn.size == shuffled.size == 500
    assert set(_pairs(drawn)) < set(_pairs(rows))
    assert 0.55 < len(set(_pairs(drawn))) / 500 < 0.72
    for name in SCHEMA.names:
        assert sorted(shuffled.encoded.column(name)) == sorted(rows.encoded.column(name))
    assert sorted(shuffled.numbers["pay"]) == sorted(rows.numbers["pay"])
    assert _pairs(shuffled) != _pairs(rows)


def test_references_have_the_names_that_pages_know() -> None:
    assert set(references(made(10, 0), np.random.default_rng(0))) == set(REFERENCES)
