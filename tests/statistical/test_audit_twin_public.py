"""The twin audit of runs with public columns: tables that differ in the private columns of one unit alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from twin_runs import NAMES, SLICED, audited, columns_of, fitting
from twin_tables import KINDS, private_pair
from twins import Run

from margrave.engines.memory import MemorySource
from margrave.privacy.unit import Neighbours

REFUSED = (*SLICED, "dpsgd_gan", "tabddpm")
"""Methods that do not protect owners of several rows, or rows that are exchanged in part."""
WRITTEN = ("icd", "key", "pressure", "city", "code", "stamp")
"""Text of many forms, of which nothing is declared."""


def _audit(
    method: str, columns: Sequence[str], public: Sequence[str], k: int, whole: bool, kinds: Sequence[str]
) -> list[str]:
    """Findings of a method on a table and on its neighbours, and from one of these to the table."""
    pairs = [private_pair(kind, columns, public, k) for kind in kinds]
    pairs += [private_pair(kinds[0], columns, public, k, many=True)] if k else []

    def run(pair: int, side: int) -> Run:
        return fitting(pairs[pair][side], method, columns, "replace_private", k, whole=whole, public=public)

    # An owner with many rows of all kinds is a pair of its own: both of its tables have as many rows.
    alike = range(len(kinds))
    tape, found = audited(run(0, 0), *(run(place, 1) for place in alike))
    assert tape.error is None
    assert tape.questions
    for place in {len(kinds) - 1, len(pairs) - 1}:
        back, more = audited(run(place, 1), run(place, 0), seed=1)
        assert back.error is None
        found += more
    return found


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("whole", [True, False])
def test_a_run_with_a_public_column_loses_no_more_than_it_declares(whole: bool, k: int) -> None:
    kinds = ["a new category", "no value at all", "extreme numbers", "a very long text"]
    assert _audit("independent", columns_of("independent", True), ("city",), k, whole, kinds) == []
    if not whole:
        assert _audit("independent", WRITTEN, ("key", "pressure"), k, whole, kinds) == []


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("method", [case for case in NAMES if case.values[0] not in REFUSED])
def test_no_method_with_public_columns_loses_more_than_it_declares(method: str, whole: bool, k: int) -> None:
    columns = columns_of(method, whole)
    for public in (columns[:1], columns[1:2]):
        assert _audit(method, columns, public, k, whole, list(KINDS)) == []


def test_the_price_of_a_row_that_is_removed_is_found_to_be_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Neighbours, "marginal_l2_squared", property(lambda self: self.unit.max_rows**2))
    found = _audit("independent", ("city", "age"), ("city",), 0, True, ["extreme numbers"])
    assert any(one.startswith("sensitivity") for one in found)


def test_a_private_column_among_the_public_ones_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    only = MemorySource.only
    monkeypatch.setattr(MemorySource, "only", lambda self, names: only(self, [*names, "age"]))
    found = _audit("independent", ("city", "age"), ("city",), 0, True, ["extreme numbers"])
    assert any(one.startswith(("read", "release")) for one in found)
