"""The twin audit of the looks at numbers that count flags."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from twin_runs import LookAudit, count_rules_twice, price_as_one_table

from margrave.engines.counts import Counts
from margrave.engines.memory import MemorySource
from margrave.measure.discovery.between.flag_counts import FlagCounts
from margrave.privacy.unit import Adjacency
from margrave.schema.constraints.rules import FlagCount

COLUMNS = ("fever", "cough", "rash", "cold", "symptoms", "visits")
Row = dict[str, Any]
ODD: dict[str, Row] = {
    "a row as all others": {},
    "a number that is wrong": {"symptoms": 3, "fever": "No"},
    "a flag of another spelling": {"fever": "yes", "cold": 2},
    "no value at all": dict.fromkeys(COLUMNS),
    "no number": {"symptoms": None},
    "a far number": {"symptoms": 2**62, "visits": -(2**62)},
}
TYPES = {"rash": pa.bool_(), "cold": pa.int64(), "symptoms": pa.int64(), "visits": pa.int64()}


def row(owner: int) -> Row:
    """The row of an owner, by a fixed rule: flags of four spellings, how many say yes, and another number."""
    said = [owner * step % 97 < bar for step, bar in ((31, 40), (57, 60), (13, 30), (71, 50))]
    fever, cough, rash, cold = said
    return {
        "fever": "Yes" if fever else "No",
        "cough": "X" if cough else None,
        "rash": rash,
        "cold": int(cold),
        "symptoms": sum(said),
        "visits": owner * 7 % 4,
    }


AUDIT = LookAudit(COLUMNS, row, ODD, TYPES, epsilon=60.0)


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 2)])
def test_the_looks_lose_no_more_than_they_declare(
    adjacency: Adjacency, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules: list[FlagCount] = []
    true = FlagCounts.find_candidates

    def watch(*asked: Any) -> Any:
        found = true(*asked)
        rules.extend(found[0])
        return found

    monkeypatch.setattr(FlagCounts, "find_candidates", watch)
    asked, found = AUDIT.run(list(ODD), adjacency, k)
    assert ("symptoms", ("fever", "cough", "rash", "cold")) in {(rule.number, rule.flags) for rule in rules}
    # What the first look leaves open is asked about once more.
    assert len([what for what in asked if what.startswith("flags counted by")]) == 2
    assert found == []


def by_others(patch: pytest.MonkeyPatch) -> None:
    """Whether a row obeys hangs on how many rows there are."""
    true = MemorySource.agreements

    def agree(self: Any, rules: Any, reads: Any) -> Any:
        answers = [counts.reveal() for counts in true(self, rules, reads)]
        return [Counts(counts[::-1].copy() if counts.sum() % 2 else counts) for counts in answers]

    patch.setattr(MemorySource, "agreements", agree)


def for_nothing(patch: pytest.MonkeyPatch) -> None:
    """An exact count decides whether flags are asked about."""
    true = FlagCounts.find_candidates

    def find(self: Any, *asked: Any) -> Any:
        rules, commonest = true(self, *asked)
        rule = FlagCount("symptoms", ("fever", "cough", "rash", "cold"), ("Yes", "X", "true", "1"))
        agreed = self._source.agreements([rule], {})[0].reveal()[0]
        return (rules if agreed % 2 else []), commonest

    patch.setattr(FlagCounts, "find_candidates", find)


@pytest.mark.parametrize("fault", [price_as_one_table, count_rules_twice, by_others, for_nothing])
def test_planted_faults_are_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    assert AUDIT.run(["a row as all others", "a number that is wrong"], "add_remove", 0)[1] != []
