"""The book: caps hold, crashes give nothing back, runs are resumed by one process at a time."""

from __future__ import annotations

import contextlib
import math
from fractions import Fraction
from pathlib import Path

import pytest
from booking import ROWS, book, opened, spend
from hypothesis import given, settings
from hypothesis import strategies as st

from margrave.errors import BudgetError, InputError
from margrave.privacy.accounting.accountants import GDP, ZCDP, Accountant, Renyi
from margrave.privacy.accounting.composition import Charge, find_standing, fits, steps
from margrave.privacy.ledger.book import Book
from margrave.privacy.unit import Neighbours, Unit

# Runs that are alike and open stand beside each other here.
pytestmark = pytest.mark.filterwarnings("ignore::margrave.errors.PlanWarning")


def test_runs_that_fit_are_opened_and_no_more(tmp_path: Path) -> None:
    kept = book(tmp_path)
    for _ in range(4):
        opened(kept)
    assert [run.state for run in kept.runs()] == ["open"] * 4
    left = kept.accounts()[0].left
    assert 0.5 < left < 0.9  # by rho there is room, though the sum of epsilons is used up
    with pytest.raises(BudgetError, match="within what the cap of data set 'people' leaves"):
        opened(kept, 0.95)
    assert len(kept.runs()) == 4
    opened(kept, 0.98 * left)
    with pytest.raises(BudgetError):
        opened(kept, 0.25)


def test_many_small_runs_go_by_rho(tmp_path: Path) -> None:
    kept, count = book(tmp_path), 0
    with contextlib.suppress(BudgetError):
        while True:
            opened(kept, 0.2)
            count += 1
    assert 20 < count < 30  # five by the sum of epsilons
    account = kept.accounts()[0]
    assert 0.9 < account.reserved.together <= 1.0
    assert account.spent.together == 0.0


@pytest.mark.parametrize("accountant", [ZCDP(), GDP()])
def test_one_run_may_take_all_of_epsilon(tmp_path: Path, accountant: Accountant) -> None:
    kept = book(tmp_path)
    opened(kept, 1.0, accountant=accountant).close()  # gives all back: it asked nothing
    opened(kept, 1.0, accountant=accountant)
    with pytest.raises(BudgetError):
        opened(kept, 0.1)


def test_delta_is_capped_in_both_accounts(tmp_path: Path) -> None:
    kept = book(tmp_path, 1.0, 2e-9)
    with pytest.raises(BudgetError, match="smaller delta"):
        opened(kept, 1.0, 1.5e-9)
    opened(kept, 1.0, 1e-9)
    other = Book.create(tmp_path / "c.book")
    other.cap("people", 1.0, 1e-9, ROWS)
    opened(other, 0.1, 6e-10)  # by rho: its own delta does not count there
    opened(other, 0.1, 6e-10, partition=Fraction(2, 10**10))
    with pytest.raises(BudgetError):
        opened(other, 0.1, 6e-10, partition=Fraction(1, 10**10))


def test_a_closed_run_counts_what_it_spent_by_rho_and_in_full_by_epsilon(tmp_path: Path) -> None:
    kept = book(tmp_path)
    ledger = opened(kept, 0.5)
    spend(ledger, Fraction(1, 10))
    before = kept.accounts()[0]
    assert (before.spent.together, float(before.reserved.total.rho)) == (0.0, float(ledger.total))
    ledger.close()
    after = kept.accounts()[0]
    assert after.reserved == after.spent
    assert Fraction(after.spent.total.rho) >= ledger.spent
    assert float(after.spent.total.rho) == pytest.approx(0.1 * float(ledger.total))
    assert after.spent.total.epsilon == Fraction(1, 2)
    assert after.spent.together == pytest.approx(0.5 * math.sqrt(0.1), rel=0.1)
    (run,) = kept.runs()
    assert (run.state, run.events, run.ended is None) == ("closed", 1, False)


def test_an_unused_run_gives_all_back_and_a_crashed_one_nothing(tmp_path: Path) -> None:
    kept = book(tmp_path)
    opened(kept, 1.0).discard()
    opened(kept, 1.0).close()
    unused = opened(kept, 1.0)
    assert kept.accounts()[0].left < 0.5
    unused.discard()
    assert kept.accounts()[0].left == 1.0
    crashed = opened(kept, 1.0)
    spend(crashed, Fraction(1, 100))
    crashed.release()
    held = kept.accounts()[0].reserved.total
    kept.give_up(kept.runs()[-1].run)
    assert kept.runs()[-1].state == "crashed"
    assert kept.accounts()[0].reserved.total == held
    with pytest.raises(InputError, match="an open run"):
        kept.give_up(kept.runs()[-1].run)
    with pytest.raises(InputError, match="resume"):
        opened(kept, 1.0, resume=True)


def test_a_discarded_run_that_has_spent_stays_open(tmp_path: Path) -> None:
    kept = book(tmp_path)
    ledger = opened(kept)
    spend(ledger, Fraction(1, 2))
    ledger.discard()
    assert kept.runs()[0].state == "open"
    with pytest.raises(InputError, match="this process's own"):
        spend(ledger, Fraction(1, 4))


def test_caps_of_analysts_come_on_top(tmp_path: Path) -> None:
    kept = book(tmp_path, 3.0)
    kept.cap("people", 1.0, 1e-6, ROWS, analyst="ann")
    opened(kept, 0.9, analyst="ann")
    with pytest.raises(BudgetError, match="analyst 'ann'"):
        opened(kept, 0.9, analyst="ann")
    opened(kept, 0.9, analyst="bob")
    assert {a.cap.analyst: a.reserved.total.epsilon for a in kept.accounts()} == {
        "": 2 * Fraction(0.9),
        "ann": Fraction(0.9),
    }
    kept.cap("people", 2.0, 1e-6, ROWS, analyst="ann")
    opened(kept, 0.9, analyst="ann")
    assert [c.epsilon for c in kept.caps("people")] == [3.0, 2.0]


def test_data_sets_are_apart_and_need_a_cap(tmp_path: Path) -> None:
    kept = book(tmp_path)
    kept.cap("other", 1.0, 1e-6, ROWS)
    opened(kept, 1.0)
    opened(kept, 1.0, dataset="other")
    with pytest.raises(InputError, match="dataset must be one with a cap, got 'third'"):
        opened(kept, dataset="third")
    kept.cap("third", 1.0, 1e-6, ROWS, analyst="ann")
    with pytest.raises(InputError, match="dataset must be one with a cap"):
        opened(kept, dataset="third", analyst="ann")


OWNERS = Neighbours(Unit("id", 3))
SWAPS = Neighbours(Unit("id", 5), "replace_one")


@pytest.mark.parametrize(
    ("run", "cap", "count"),
    [
        (ROWS, ROWS, 1),
        (OWNERS, Neighbours(Unit("id")), 1),
        (OWNERS, SWAPS, 2),
        (SWAPS, OWNERS, None),
        (ROWS, OWNERS, None),
        (OWNERS, ROWS, None),
        (OWNERS, Neighbours(Unit("name")), None),
        (ROWS, Neighbours(adjacency="replace_one"), 2),
    ],
)
def test_neighbours_convert_or_are_refused(
    tmp_path: Path, run: Neighbours, cap: Neighbours, count: int | None
) -> None:
    assert steps(run, cap) == count
    kept = Book.create(tmp_path / "b.book")
    kept.cap("people", 1.0, 1e-6, cap)
    if count is None:
        with pytest.raises(InputError, match="unit and adjacency must be those of data set 'people'"):
            opened(kept, neighbours=run)
        assert kept.runs() == []
        return
    ledger = opened(kept, neighbours=run)
    (charge,) = (run.charge for run in kept.runs())
    assert charge is not None
    total = kept.accounts()[0].reserved.total
    assert (total.epsilon, total.rho) == (count * charge.epsilon, count**2 * ledger.total)
    assert total.delta >= charge.delta * (1 if count == 1 else Fraction(1 + math.exp(0.25)))


@pytest.mark.parametrize(
    "neighbours", [Neighbours(Unit(), "zero_out"), Neighbours(Unit(), "replace_private", ("a",))]
)
def test_a_cap_is_for_rows_that_come_go_or_are_replaced_alone(tmp_path: Path, neighbours: Neighbours) -> None:
    kept = Book.create(tmp_path / "caps.book")
    with pytest.raises(InputError, match=r"one of \['add_remove', 'replace_one'\] for a cap"):
        kept.cap("people", 1.0, 1e-6, neighbours)
    assert not kept.accounts()


def test_a_cap_that_says_nothing_about_old_runs_is_refused(tmp_path: Path) -> None:
    kept = book(tmp_path)
    opened(kept)
    with pytest.raises(InputError, match="unit and adjacency"):
        kept.cap("people", 1.0, 1e-6, OWNERS)
    assert len(kept.caps()) == 1


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.floats(1e-3, 3.0), st.sampled_from([1e-9, 1e-8])), min_size=1, max_size=12),
    st.floats(0.1, 5.0),
)
def test_what_fits_is_within_an_account_and_order_does_not_matter(
    runs: list[tuple[float, float]], epsilon: float
) -> None:
    charges = [
        Charge(Fraction(e), Fraction(d), ZCDP().total(e, Fraction(d) * 3 / 4), Fraction(d) / 4)
        for e, d in runs
    ]
    allowed = fits(charges, epsilon, 1e-7)
    assert allowed == fits(charges[::-1], epsilon, 1e-7)
    found = find_standing(charges, epsilon, 1e-7)
    assert allowed == (found.together <= epsilon * (1 + 1e-9)) or math.isclose(found.together, epsilon)
    if allowed:
        assert all(fits(charges[:i], epsilon, 1e-7) for i in range(len(charges)))
        assert fits(charges, epsilon * 1.5, 1e-7)
    basic = sum(e for e, _ in runs) <= epsilon and sum(Fraction(d) for _, d in runs) <= Fraction(1e-7) / 2
    assert allowed or not basic


def test_a_run_towards_a_cap_two_steps_away_counts_in_every_account() -> None:
    one = Charge(Fraction(1, 2), Fraction(1, 10**9), Fraction(1, 50), Fraction(1, 10**10))
    two = one.over(2)
    assert (two.epsilon, two.rho, two.searches) == (2 * one.epsilon, 4 * one.rho, 2 * one.searches)
    assert float(two.delta / one.delta) == pytest.approx(1 + math.exp(0.5))
    assert one.over(1) is one


@pytest.mark.parametrize("end", ["closed", "given up"])
def test_a_run_that_has_ended_can_spend_nothing_more(tmp_path: Path, end: str) -> None:
    kept = book(tmp_path)
    run = opened(kept)
    spend(run, Fraction(1, 3))
    run.close() if end == "closed" else kept.give_up(1)
    with pytest.raises(InputError, match="still open and this process's own"):
        spend(run, Fraction(1, 3))
    assert len(kept.events(1)) == 1


def test_no_run_is_opened_without_a_price_in_rho_or_in_a_retired_book(tmp_path: Path) -> None:
    kept = book(tmp_path)
    with pytest.raises(InputError, match="no book for this method"):
        opened(kept, accountant=Renyi(20))
    opened(kept).close()
    header, rho = kept.runs()[0].header, kept.runs()[0].rho
    kept.retire()
    with pytest.raises(InputError, match="not retired"):
        kept.open_run("people", "", header, rho)
    assert len(kept.runs()) == 1


def test_a_run_is_resumed_with_the_rho_that_it_reserved_alone(tmp_path: Path) -> None:
    kept = book(tmp_path)
    spend(opened(kept), Fraction(1, 3))
    (run,) = kept.runs()
    with pytest.raises(InputError, match="version that began it"):
        kept.resume_run("people", "", run.header, run.rho * 2)


def test_a_run_is_resumed_and_the_old_process_is_shut_out(tmp_path: Path) -> None:
    kept = book(tmp_path)
    old = opened(kept, 0.5)
    spend(old, Fraction(1, 3))
    new = opened(Book(kept.path), 0.5, resume=True)
    with pytest.raises(InputError, match="resumed by another process"):
        spend(old, Fraction(1, 3))
    assert len(kept.events(1)) == 1
    with pytest.raises(InputError, match="resume must be of the run"):
        spend(new, Fraction(1, 2))
    spend(new, Fraction(1, 3))  # the stored answer
    assert len(kept.events(1)) == 1
    spend(new, Fraction(2, 3))
    assert new.remaining <= Fraction(1, 10**6)
    with pytest.raises(BudgetError):
        spend(new, Fraction(1, 3))
    new.close()
    again = opened(kept, 0.5, resume=True)  # a closed run answers again, and spends nothing
    spend(again, Fraction(1, 3))
    assert len(kept.events(1)) == 2
    assert len(kept.runs()) == 1


def test_alike_runs_have_to_be_named(tmp_path: Path) -> None:
    kept = book(tmp_path, 5.0)
    for _ in range(2):
        spend(opened(kept), Fraction(1, 2))
    with pytest.raises(InputError, match="these are alike: 1, 2"):
        opened(kept, resume=True)
    assert opened(kept, resume=2).spent == 0  # its answers have not been asked for again yet
    with pytest.raises(InputError, match="another epsilon"):
        opened(kept, 0.3, resume=True)
    with pytest.raises(InputError, match="There is none"):
        opened(kept, analyst="bob", resume=True)


def test_the_file_is_its_owners_alone_and_never_overwritten(tmp_path: Path) -> None:
    kept = book(tmp_path)
    opened(kept)
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600, path
    with pytest.raises(InputError, match="never overwritten"):
        Book.create(kept.path)
    with pytest.raises(InputError, match="can be written"):
        Book.create(tmp_path / "no" / "b.book")
    with pytest.raises(InputError, match="an existing book"):
        Book(tmp_path / "none.book")
    kept.close()


def test_a_copy_of_the_file_alone_counts_every_run(tmp_path: Path) -> None:
    kept = book(tmp_path)
    opened(kept, 0.9)
    (tmp_path / "copy.book").write_bytes(kept.path.read_bytes())
    assert [run.header.epsilon for run in Book(tmp_path / "copy.book").runs()] == [0.9]
