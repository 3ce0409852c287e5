"""Planted faults: each kind of break in the claim that the twin audit is there for has to be a finding."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from torch_fitters import NEEDS_TORCH
from twin_losses import delta_of
from twin_runs import COLUMNS, audited, fitting
from twin_tables import declared, pair
from twins import Run

import margrave.engines.memory as memory
import margrave.measure.mechanisms.choose as choosing
import margrave.measure.mechanisms.partition as partition
import margrave.measure.mechanisms.votes as voting
from margrave.engines.counts import Counts
from margrave.engines.memory import MemoryEngine, MemorySource
from margrave.errors import InputError
from margrave.measure.curator import Curator
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.privacy.accounting.accountants import GDP, ZCDP, Accountant, Renyi
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours
from margrave.progress import Step
from margrave.schema.schema import Schema
from margrave.select.fixed import AllKWay
from margrave.select.strategy import Strategy

Patch = pytest.MonkeyPatch


def _findings(
    kind: str = "the same row again",
    method: str = "independent",
    adjacency: Adjacency = "add_remove",
    k: int = 0,
    *,
    whole: bool = True,
    many: bool = False,
    **more: Any,
) -> set[str]:
    """The kinds of findings of one pair of runs."""
    tables = pair(kind, COLUMNS, adjacency, k, many=many)
    first, second = (fitting(table, method, COLUMNS, adjacency, k, whole=whole, **more) for table in tables)
    tape, found = audited(first, second, rows=tables[0].num_rows + 1)
    assert tape.error is None
    return {finding.split(":")[0] for finding in found}


def _count_twice(patch: Patch, *, as_many: bool = False) -> None:
    """A join that fans out: rows of one code of the first attribute are counted twice.

    as_many: whether as many rows are left out of the next code, so that there are as many in all.
    """
    count = MemoryEngine.count

    def fanned(engine: MemoryEngine, cliques: Any) -> list[Counts]:
        found = []
        for clique, counts in zip(cliques, count(engine, cliques), strict=True):
            table = np.moveaxis(counts._values.copy(), clique.index("city"), 0) if "city" in clique else None
            if table is not None:
                table[1] -= table[0] * as_many
                table[0] *= 2
                counts = Counts(np.moveaxis(table, 0, clique.index("city")))
            found.append(counts)
        return found

    patch.setattr(MemoryEngine, "count", fanned)


def _name_groups_by_a_row(patch: Patch) -> None:
    """Texts that are equal but for their case are one group, named by the last of them."""
    parts = MemorySource.value_parts

    def grouped(source: MemorySource, column: str) -> Any:
        ((names, counts),) = parts(source, column)
        held = counts._values.tolist()
        groups: dict[str, tuple[str, int]] = {}
        last = [text for text in source._table.column(column).to_pylist() if isinstance(text, str)]
        for name, rows in zip(names, held, strict=False):
            shown = next((text for text in reversed(last) if text.lower() == name.lower()), name)
            groups[name.lower()] = (shown, rows + groups.get(name.lower(), ("", 0))[1])
        listed = sorted(groups.values())
        found = [rows for _, rows in listed] + held[len(names) :]
        yield tuple(name for name, _ in listed), Counts(np.array(found))

    patch.setattr(MemorySource, "value_parts", grouped)


def _halve_l2(patch: Patch) -> None:
    patch.setattr(Neighbours, "marginal_l2_squared", property(lambda self: self.unit.max_rows**2))


def _halve_l1(patch: Patch) -> None:
    honest = Neighbours.marginal_l1.fget  # type: ignore[attr-defined]
    patch.setattr(Neighbours, "marginal_l1", property(lambda self: max(honest(self) // 3, 1)))


def _halve_the_noise(patch: Patch) -> None:
    noisy = Gaussian.noisy
    patch.setattr(Gaussian, "noisy", lambda self, table, variance: noisy(self, table, variance / 4))


def _leave_out_the_noise(patch: Patch) -> None:
    def exact(self: Gaussian, table: Any, variance: Fraction) -> Any:
        return table.astype(np.float64)

    patch.setattr(Gaussian, "noisy", exact)


def _use_one_draw_for_all(patch: Patch) -> None:
    noisy = Gaussian.noisy

    def shared(self: Gaussian, table: Any, variance: Fraction) -> Any:
        return (table + noisy(self, np.zeros(1, dtype=np.int64), variance)[0]).astype(np.float64)

    patch.setattr(Gaussian, "noisy", shared)


def _keep_too_many_rows(patch: Patch) -> None:
    honest = memory._bounded_rows
    patch.setattr(memory, "_bounded_rows", lambda codes, most, *key: honest(codes, most + 1, *key))


def _lower_the_threshold(patch: Patch) -> None:
    patch.setattr(partition, "threshold", lambda k, sigma, delta, most=None: 1)


def _sharpen_the_choice(patch: Patch) -> None:
    honest = choosing.exponential
    patch.setattr(choosing, "exponential", lambda scores, e, s, source: honest(scores, 4 * e, s, source))


def _draw_before_the_record(patch: Patch) -> None:
    ask = Ledger.ask

    def early(ledger: Ledger, events: Any, exact: Any, answer: Any) -> Any:
        def drawn() -> Any:
            return answer(exact())

        return ask(ledger, events, drawn, lambda found: found)

    patch.setattr(Ledger, "ask", early)


def _count_in_public(patch: Patch) -> None:
    """The number of rows is told for nothing, whatever the adjacency."""

    def rows(curator: Curator) -> float:
        return float(curator._open.count([()])[0].reveal().sum())

    patch.setattr(Curator, "public_rows", property(rows))


def _return_exact_counts(patch: Patch) -> None:
    """The question is paid for, but what the strategy gets is not the answer."""
    measure = Curator.measure

    def leaking(curator: Curator, cliques: Any, rho: Fraction) -> Any:
        found = measure(curator, cliques, rho)
        exact = [counts._values for counts in curator._open.count(cliques)]
        replaced = [dataclasses.replace(m, values=t) for m, t in zip(found, exact, strict=True)]
        curator._measurements[-len(found) :] = replaced
        return replaced

    patch.setattr(Curator, "measure", leaking)


def _spend_by_the_rows(patch: Patch) -> None:
    """The name of an event tells how many rows there are."""
    measure = Curator.measure

    def telling(curator: Curator, cliques: Any, rho: Fraction) -> Any:
        rows = len(curator._rows().columns[0])
        patch.setattr("margrave.measure.curator._name", lambda clique: f"marginal of {rows} rows of {clique}")
        return measure(curator, cliques, rho)

    patch.setattr(Curator, "measure", telling)


FAULTS: dict[str, tuple[Callable[[Patch], None], str, dict[str, Any]]] = {
    "a join that fans out and loses as many rows": (
        functools.partial(_count_twice, as_many=True), "sensitivity", {},
    ),
    "a group named by a row": (
        _name_groups_by_a_row, "sensitivity", {"kind": "another case", "whole": False},
    ),
    "L2 sensitivity of half the size": (_halve_l2, "sensitivity", {"adjacency": "replace_one"}),
    "L1 sensitivity of a third": (
        _halve_l1, "sensitivity", {"kind": "a new category", "method": "aim", "k": 3},
    ),
    "noise of half the size": (_halve_the_noise, "noise", {}),
    "no noise": (_leave_out_the_noise, "noise", {}),
    "one draw for a whole table": (_use_one_draw_for_all, "noise", {}),
    "a row too many of an owner": (_keep_too_many_rows, "sensitivity", {"k": 1, "many": True}),
    "a threshold that all pass": (
        _lower_the_threshold, "delta", {"kind": "a new category", "whole": False},
    ),
    "a choice too sharp": (_sharpen_the_choice, "noise", {"method": "mst"}),
    "noise before the record": (_draw_before_the_record, "stray", {}),
    "a count told for nothing": (_count_in_public, "release", {}),
    "exact counts beside the answer": (_return_exact_counts, "release", {}),
    "a name that follows the rows": (_spend_by_the_rows, "structure", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, monkeypatch: Patch) -> None:
    plant, kind, options = FAULTS[name]
    assert _findings(**options) == set()
    plant(monkeypatch)
    assert kind in _findings(**options)


def test_a_join_that_fans_out_is_found_unless_the_door_refuses_it(monkeypatch: Patch) -> None:
    """The door counts the rows of an answer where its engine is held to their number."""
    _count_twice(monkeypatch)
    tables = pair("the same row again", COLUMNS)
    first, second = (fitting(table, "independent", COLUMNS, "add_remove", 0, whole=True) for table in tables)
    tape, found = audited(first, second)
    refused = (tape.error or "").startswith("InputError: table must be")
    assert refused or any(finding.startswith("sensitivity") for finding in found)


def test_losses_are_also_held_against_the_promise_as_a_whole(monkeypatch: Patch) -> None:
    """One attribute takes the whole budget: what it moves too far is too much for epsilon and delta."""
    _halve_l2(monkeypatch)
    tables = pair("a new category", ("city",), "replace_one")
    runs = [fitting(table, "independent", ("city",), "replace_one", 0, whole=True) for table in tables]
    losses = [finding for finding in audited(*runs)[1] if finding.startswith("loss")]
    assert len(losses) == 2  # by margrave's accountant, and by the formulas of the audit


@pytest.mark.parametrize("accountant", [ZCDP(), GDP(), Renyi(18)], ids=lambda found: found.name)
def test_the_formulas_of_the_audit_agree_with_the_accountants(accountant: Accountant) -> None:
    """All of the budget in one event: the delta that is found is the promised one."""
    for epsilon in (0.1, 1.0, 8.0, 100.0):
        ledger = Ledger(epsilon=epsilon, delta=1e-6, neighbours=Neighbours(), accountant=accountant)
        if ledger.total:
            event = GaussianEvent("all", 1, 1 / (2 * ledger.total), rounded=True)
            assert delta_of([event], ledger) == pytest.approx(1e-6, rel=1e-5)


@dataclasses.dataclass(frozen=True)
class Hasty(Strategy):
    """Measures pairs until a clock has gone too far, which stands still but for counting.

    Args:
        clock: Seconds.
    """

    clock: list[float]
    name: str = "hasty"
    gaussian_only: bool = True

    def run(self, curator: Any, fitter: Any, on_step: Any, deadline: Any = None) -> Any:
        share = curator.remaining / 20
        for clique in combinations(curator.domain.names, 2):
            if self.clock[0] < 1000.0:
                curator.measure([clique], share)
        return AllKWay(degree=1).run(curator, fitter, on_step)


def _clocked(data: Any, patch: Patch) -> Run:
    """A run in which each count takes a second for each letter of the longest text."""

    def run(on_step: Any) -> Any:
        clock, count = [0.0], MemoryEngine.count
        longest = max(len(text or "") for text in data.column("city").to_pylist())

        def slow(engine: MemoryEngine, cliques: Any) -> list[Counts]:
            clock[0] += longest
            return count(engine, cliques)

        with patch.context() as inside:
            inside.setattr(MemoryEngine, "count", slow)
            more = {"whole": True, "select": Hasty(clock)}
            return fitting(data, "independent", COLUMNS, "add_remove", 0, **more)(on_step)

    return run


def test_a_clock_over_counting_is_found(monkeypatch: Patch) -> None:
    same, short = pair("the same row again", COLUMNS)
    _, long = pair("a very long text", COLUMNS)
    assert audited(_clocked(same, monkeypatch), _clocked(short, monkeypatch))[1] == []
    _, found = audited(_clocked(same, monkeypatch), _clocked(long, monkeypatch))
    assert "structure" in {finding.split(":")[0] for finding in found}


def test_a_free_refusal_is_found(monkeypatch: Patch) -> None:
    """A source that refuses a row where no event has been recorded, as strict declarations do."""
    bind = MemorySource.bind

    def picky(source: MemorySource, schema: Schema) -> Any:
        if "Zug" in source._table.to_pydict().get("city", ()):
            raise InputError("city has to be one that is known")
        return bind(source, schema)

    monkeypatch.setattr(MemorySource, "bind", picky)
    assert _findings("the same row again") == set()
    assert {"error", "read"} <= _findings("a new category")


def test_a_strict_declaration_is_an_oracle() -> None:
    """Documented in docs/privacy/limits.md: a row outside a strict declaration ends the run with an error."""
    columns = tuple(
        dataclasses.replace(column, strict=True, other=None) if column.name == "city" else column
        for column in declared(COLUMNS).columns
    )
    assert _findings("the same row again", schema=Schema(columns)) == set()
    assert "error" in _findings("a new category", schema=Schema(columns))


def test_progress_that_tells_of_rows_is_found(monkeypatch: Patch) -> None:
    run = AllKWay.run

    def rows_told(self: Any, curator: Any, fitter: Any, on_step: Any, deadline: Any = None) -> Any:
        on_step(Step("measure", f"{curator._rows().rows} rows"))
        return run(self, curator, fitter, on_step)

    monkeypatch.setattr(AllKWay, "run", rows_told)
    assert {"read", "said"} <= _findings()


@NEEDS_TORCH
@pytest.mark.parametrize(
    ("name", "kind"), [("clip", "sensitivity"), ("sample", "sampling"), ("noise", "noise")]
)
def test_a_training_that_is_no_longer_clipped_or_sampled_is_found(
    name: str, kind: str, monkeypatch: Patch
) -> None:
    import margrave.measure.mechanisms.gradients as door

    assert _findings("extreme numbers", "tabddpm") == set()
    if name == "clip":
        honest = door.clip_factors

        def longer(factors: Any) -> Any:
            return [(left * 64, right) for left, right in honest(factors)]

        monkeypatch.setattr(door, "clip_factors", longer)
    elif name == "sample":
        monkeypatch.setattr(door, "sample_places", lambda rows, rate, noise: np.arange(rows))
    else:
        drawn = door.rounded_gaussian
        monkeypatch.setattr(door, "rounded_gaussian", lambda v, size, source: drawn(v / 4, size, source))
    assert kind in _findings("extreme numbers", "tabddpm")


def _claim_less_for_votes(patch: Patch) -> None:
    """As if a count of votes moved by a sixteenth of what one teacher moves it by."""
    moved = voting.bound_votes
    patch.setattr(
        voting, "bound_votes", lambda teachers, neighbours: Fraction(moved(teachers, neighbours), 16)
    )


@NEEDS_TORCH
@pytest.mark.parametrize(
    ("plant", "kind"), [(_halve_the_noise, "noise"), (_claim_less_for_votes, "sensitivity")]
)
def test_votes_with_too_little_noise_are_found(
    plant: Callable[[Patch], None], kind: str, monkeypatch: Patch
) -> None:
    assert _findings(method="pate_gan") == set()
    plant(monkeypatch)
    assert kind in _findings(method="pate_gan")
