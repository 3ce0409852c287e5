"""The adjacency replace_private: what moves between neighbours, and who may use it."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from margrave.errors import InputError
from margrave.privacy.accounting.composition import steps
from margrave.privacy.ledger.history import LedgerHeader
from margrave.privacy.ledger.journal import header_from_json, header_to_json
from margrave.privacy.unit import Neighbours, Unit
from margrave.release import Guarantee

NAMES, PUBLIC = ("a", "b", "x", "y"), ("a", "b")


@pytest.mark.parametrize("k", [1, 3])
def test_no_marginal_moves_further_than_the_proof_says(k: int) -> None:
    unit = Unit("id", k) if k > 1 else Unit()
    neighbours = Neighbours(unit, "replace_private", PUBLIC)
    rng, reached = np.random.default_rng(0), 0.0
    for _ in range(200):
        table = rng.integers(0, 2, (12, 4))
        if rng.random() < 0.5:
            table[:k] = table[0]
        other = table.copy()
        other[:k, 2:] = rng.integers(0, 2, 2) if rng.random() < 0.5 else rng.integers(0, 2, (k, 2))
        for size in (1, 2, 3, 4):
            for clique in combinations(range(4), size):
                one, two = (_count(rows[:, clique]) for rows in (table, other))
                l1, squared = np.abs(one - two).sum(), ((one - two) ** 2).sum()
                if {NAMES[place] for place in clique} <= set(PUBLIC):
                    assert l1 == 0
                assert l1 <= neighbours.marginal_l1
                assert squared <= neighbours.marginal_l2_squared
                reached = max(reached, squared / neighbours.marginal_l2_squared)
    assert reached == 1.0


def _count(rows: np.ndarray) -> np.ndarray:
    return np.bincount(rows @ (2 ** np.arange(rows.shape[1])), minlength=16).astype(int)


@pytest.mark.parametrize(
    ("adjacency", "public", "owner"),
    [
        ("add_remove", ("a",), None),
        ("replace_one", ("a",), None),
        ("replace_private", (), None),
        ("replace_private", ("a", "a"), None),
        ("replace_private", ("a", "id"), "id"),
        ("replace_all", (), None),
    ],
)
def test_other_promises_are_refused(adjacency, public, owner) -> None:
    with pytest.raises(InputError):
        Neighbours(Unit(owner), adjacency, public)


def test_the_reason_for_a_refusal_names_the_way_out() -> None:
    with pytest.raises(InputError, match="replace_private"):
        Neighbours(Unit(), "add_remove", ("age",))


def test_rows_are_public_and_words_say_what_is_promised() -> None:
    neighbours = Neighbours(Unit("id", 2), "replace_private", PUBLIC)
    assert neighbours.rows_are_public
    told = str(Guarantee(1.0, 1e-6, 0.1, neighbours, "zcdp"))
    assert "its private columns replaced (public: a, b)" in told
    facts = Guarantee(1.0, 1e-6, 0.1, neighbours, "zcdp").facts
    assert ("protects", f"{neighbours.unit}, its private columns replaced (public: a, b)") in facts


def test_a_run_counts_towards_caps_that_it_implies() -> None:
    few, many = (Neighbours(Unit(), "replace_private", p) for p in (("a",), ("a", "b")))
    assert steps(few, few) == 1
    assert steps(few, many) == 1
    assert steps(many, few) is None
    assert steps(Neighbours(adjacency="replace_one"), few) == 1
    assert steps(Neighbours(), few) == 2
    assert steps(few, Neighbours()) is None
    assert steps(few, Neighbours(adjacency="replace_one")) is None


def test_the_ledger_keeps_the_public_columns() -> None:
    neighbours = Neighbours(Unit(), "replace_private", PUBLIC)
    header = LedgerHeader(1.0, 1e-6, Fraction(0), neighbours, "zcdp")
    assert header_from_json(header_to_json(header)).neighbours == neighbours


def test_an_erased_row_is_two_steps_from_one_with_other_private_values() -> None:
    erased, private = Neighbours(Unit(), "zero_out"), Neighbours(Unit(), "replace_private", ("a",))
    assert steps(erased, private) == 2
    assert steps(private, erased) is None
