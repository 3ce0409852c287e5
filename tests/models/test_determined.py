"""Determined attributes: when a pair shows one, what rows and marginals hold then, and their state."""

from __future__ import annotations

import dataclasses
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from margrave.errors import InputError, ReleaseError
from margrave.limits import Effort
from margrave.models._base.model import DelegatingModel
from margrave.models._base.pooling import pool
from margrave.models._determined import (
    KEY,
    Determined,
    DeterminedModel,
    find_determined,
    restore_determined,
)
from margrave.models.auto import Auto
from margrave.models.gated.public_auto import PublicAuto
from margrave.models.independent import Independent
from margrave.release import NoisyMarginal
from margrave.schema.constraints.certain_lines import HIDDEN, find_fixed_codes
from margrave.schema.constraints.codes import CodeRules
from margrave.schema.constraints.rules import Determines, Forbidden
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

DOMAIN = Domain(("p", "q", "copy", "name", "other"), (8, 3, 8, 4, 3))
ROWS = 8000


def draw(seed: int = 0) -> Encoded:
    """`copy` is p but for one row in a hundred, `name` follows from `copy`, q and `other` depend on p."""
    rng = np.random.default_rng(seed)
    p = rng.integers(0, 8, ROWS)
    copy = np.where(rng.random(ROWS) < 0.01, rng.integers(0, 8, ROWS), p)
    q = np.where(rng.random(ROWS) < 0.5, p % 3, rng.integers(0, 3, ROWS))
    other = np.where(rng.random(ROWS) < 0.5, p // 3, rng.integers(0, 3, ROWS))
    return Encoded(DOMAIN, tuple(part.astype(np.uint8) for part in (p, q, copy, copy // 2, other)))


def count(rows: Encoded, *clique: str) -> np.ndarray:
    table = np.zeros(rows.domain.shape(clique))
    np.add.at(table, tuple(rows.column(name) for name in clique), 1.0)
    return table


def release(rows: Encoded, sigma: float, *cliques: tuple[str, ...]) -> list[NoisyMarginal]:
    rng = np.random.default_rng(1)
    tables = [(clique, count(rows, *clique)) for clique in cliques]
    return [NoisyMarginal(c, t + sigma * rng.standard_normal(t.shape), sigma) for c, t in tables]


ONES = tuple((name,) for name in DOMAIN.names)
PAIRS = (("p", "copy"), ("copy", "name"), ("p", "other"), ("q", "other"))


def find(sigma: float, domain: Domain = DOMAIN) -> list[tuple[str, str]]:
    """What is found over a model that knows one-ways alone."""
    rows = draw()
    tables = release(rows, sigma, *ONES, *PAIRS)
    model = Independent().fit(domain, tables, total=ROWS)
    public = {"p": count(rows, "p"), "q": count(rows, "q")}
    return [(one.name, one.by) for one in find_determined(model, pool(domain, tables), public)]


def test_what_a_visible_pair_fixes_is_found_in_the_order_of_drawing_and_nothing_else() -> None:
    assert find(40.0) == [("copy", "p"), ("name", "copy")]


def test_counts_of_what_fixes_are_those_of_all_tables_and_not_of_noisy_lines() -> None:
    domain, rng = Domain(("code", "title"), (16, 16)), np.random.default_rng(0)
    code = rng.integers(0, 16, ROWS).astype(np.uint8)
    rows = Encoded(domain, (code, (code + 3) % 16))
    for seed in range(10):
        noise = np.random.default_rng(seed)
        tables = [
            NoisyMarginal(clique, table + sigma * noise.standard_normal(table.shape), sigma)
            for clique, sigma in ((("code",), 15.0), (("title",), 15.0), (("code", "title"), 60.0))
            for table in [count(rows, *clique)]
        ]
        model = Independent().fit(domain, tables, total=ROWS)
        found = find_determined(model, pool(domain, tables), {})
        # Line sums have a noise of 240 rows, which are held by largest cells or not as chance has it.
        assert len(found) == 1
        assert found[0].shares.max(axis=1).min() == 1.0


@pytest.mark.parametrize(("known", "drawn"), [("code", "title"), ("title", "code")])
def test_of_two_that_fix_each_other_that_of_fewer_pairs_is_drawn(known: str, drawn: str) -> None:
    domain, rng = Domain(("code", "title", "other"), (8, 8, 3)), np.random.default_rng(0)
    code = rng.integers(0, 8, ROWS).astype(np.uint8)
    other = np.where(rng.random(ROWS) < 0.5, code % 3, rng.integers(0, 3, ROWS)).astype(np.uint8)
    rows = Encoded(domain, (code, 7 - code, other))
    for seed in range(3):
        noise = np.random.default_rng(seed)
        tables = [
            NoisyMarginal(clique, count(rows, *clique) + 40.0 * noise.standard_normal(size), 40.0)
            for clique in (("code",), ("title",), ("other",), ("code", "title"), (known, "other"))
            for size in [domain.shape(clique)]
        ]
        model = Independent().fit(domain, tables, total=ROWS)
        found = find_determined(model, pool(domain, tables), {})
        assert [(one.name, one.by) for one in found] == [(drawn, known)]


def test_in_noise_that_hides_the_lines_nothing_is_found() -> None:
    assert find(600.0) == []


def test_attributes_that_rules_speak_of_are_left_alone() -> None:
    assert find(40.0, dataclasses.replace(DOMAIN, rules=CodeRules(()))) == [("copy", "p"), ("name", "copy")]
    plain = Schema.from_sizes(dict(zip(DOMAIN.names, DOMAIN.sizes, strict=True)))
    ruled = Schema(plain.columns, (Forbidden(("name", "other"), [(0, 0)]),)).domain
    assert find(40.0, ruled) == [("copy", "p")]


def test_a_model_that_holds_the_pair_is_left_alone() -> None:
    rows = draw()
    tables = release(rows, 40.0, ("p", "copy"), ("copy", "other"))

    class Exact(DeterminedModel):
        def project(self, clique):  # type: ignore[no-untyped-def]
            return count(rows, *clique)

    model = Exact(Independent().fit(DOMAIN, release(rows, 1.0, *ONES), total=ROWS), ())
    assert find_determined(model, pool(DOMAIN, tables), {"p": count(rows, "p")}) == []


class Overfitted(DeterminedModel):
    """A model whose marginals of measured pairs are nearly what was measured, and of others exact."""

    def __init__(self, rows: Encoded, tables: list[NoisyMarginal]) -> None:
        super().__init__(Independent().fit(rows.domain, release(rows, 1.0, *ONES), total=ROWS), ())
        self.rows = rows
        self.tables = {t.clique: 0.9 * t.values + 0.1 * self.inner.project(t.clique) for t in tables}

    def project(self, clique):  # type: ignore[no-untyped-def]
        return self.tables[clique] if clique in self.tables else count(self.rows, *clique)


@pytest.mark.parametrize(
    ("copied", "found"),
    [
        (1.0, [("copy", "p")]),
        # Two rows in five have another value, which one table's largest cells hide no longer.
        (0.6, []),
    ],
)
def test_a_model_that_was_fitted_to_the_noise_does_not_outdo_what_is_fixed(
    copied: float, found: list[tuple[str, str]]
) -> None:
    rng, drawn = np.random.default_rng(3), draw()
    p = drawn.column("p")
    copy = np.where(rng.random(ROWS) < copied, p, rng.integers(0, 8, ROWS)).astype(np.uint8)
    rows = Encoded(DOMAIN, (*drawn.columns[:2], copy, *drawn.columns[3:]))
    tables = release(rows, 150.0, ("p", "copy"), ("copy", "other"), ("q", "copy"))
    public = {"p": count(rows, "p"), "q": count(rows, "q")}
    model = Overfitted(rows, tables)
    assert [(one.name, one.by) for one in find_determined(model, pool(DOMAIN, tables), public)] == found


def test_what_another_pair_contradicts_is_not_taken() -> None:
    rows = draw()
    own, other = release(rows, 150.0, ("p", "copy"), ("copy", "other"))
    wrong = dataclasses.replace(other, values=np.roll(other.values, 400, axis=0) + 1500.0 * np.eye(8, 3))
    public = {"p": count(rows, "p"), "q": count(rows, "q")}
    for second, found in ((other, [("copy", "p")]), (wrong, [])):
        tables = [own, second]
        model = Overfitted(rows, tables)
        assert [(one.name, one.by) for one in find_determined(model, pool(DOMAIN, tables), public)] == found


@pytest.mark.parametrize(
    ("table", "fixed"),
    [
        (np.diag([300.0, 300, 300]), [0, 1, 2]),
        (np.diag([300.0, 300, 40]), [0, 1, HIDDEN]),  # the last line is within three standard deviations
        (np.diag([300.0, 300, 300]) + 40.0, None),  # four fifths of a line in one cell are too few
        (np.array([[300.0, 0, 0]] * 3), None),  # nearly constant
        (np.diag([100.0, 10, 10]) + np.array([[0, 0, 0], [0, 0, 200], [200, 0, 0]]), None),  # few rows seen
    ],
)
def test_lines_are_certain_where_noise_shows_that_one_code_has_their_rows(
    table: np.ndarray, fixed: list[int] | None
) -> None:
    sigma = np.full(table.shape, 20.0)
    if fixed is None and table[1, 2] == 200:
        sigma[1:] = 100.0
    found = find_fixed_codes(table, sigma, table.sum(axis=1))
    assert (None if found is None else found.codes.tolist()) == fixed
    assert found is None or found.exact


def test_what_is_missing_is_noise_or_not() -> None:
    table = np.diag([290.0, 290, 290])
    found = [find_fixed_codes(table, np.full((3, 3), sigma), np.full(3, 300.0)) for sigma in (40.0, 1.0)]
    assert [one is not None and one.exact for one in found] == [True, False]
    assert found[1] is not None
    assert found[1].held == pytest.approx(29 / 30)


def determine() -> DeterminedModel:
    rows = draw()
    inner = Independent().fit(DOMAIN, release(rows, 1.0, *ONES), total=ROWS)
    shares = np.eye(8)
    shares[7] = 1 / 8  # a line that noise hid
    names = np.repeat(np.eye(4), 2, axis=0)
    held = (0.98, 0.01)
    return DeterminedModel(
        inner, [Determined("copy", "p", shares), Determined("name", "copy", names, turned=True, held=held)]
    )


def test_rows_hold_what_is_fixed_and_keep_everything_else() -> None:
    model = determine()
    given = {"p": draw().column("p")}
    rows = model.sample(ROWS, np.random.default_rng(0), given)
    np.testing.assert_array_equal(rows.column("p"), given["p"])
    seen = rows.column("p") != 7
    np.testing.assert_array_equal(rows.column("copy")[seen], rows.column("p")[seen])
    np.testing.assert_array_equal(rows.column("name"), rows.column("copy") // 2)
    hidden = np.bincount(rows.column("copy")[~seen], minlength=8)
    assert hidden.max() - hidden.min() <= 1  # systematic, not a draw for each row


def test_marginals_of_any_order_are_those_of_rows() -> None:
    model = determine()
    rows = model.sample(ROWS, np.random.default_rng(0))
    for clique in (
        ("copy",),
        ("name", "p"),
        ("p", "name"),
        ("other", "copy", "q"),
        ("name", "copy", "p"),
        ("q",),
    ):
        expected = model.project(clique)
        assert expected.shape == DOMAIN.shape(clique)
        assert np.abs(expected - count(rows, *clique)).sum() < 0.1 * ROWS
    for one, many in zip(PAIRS, model.project_many(PAIRS), strict=True):
        np.testing.assert_allclose(model.project(one), many)
    with pytest.raises(InputError, match="repeats"):
        model.project(("copy", "copy"))


def test_given_codes_of_a_determined_attribute_stay() -> None:
    rows = determine().sample(50, np.random.default_rng(0), {"copy": 5})
    assert set(rows.column("copy")) == {5}
    assert set(rows.column("name")) == {2}


def test_public_auto_finds_what_is_fixed_and_it_come_back() -> None:
    rows = draw()
    pairs = [("p", "copy"), ("p", "other"), ("q", "other"), ("copy", "other"), ("q", "copy")]
    tables = release(rows, 60.0, ("copy",), ("other",), ("name",), *pairs, ("copy", "name"))
    given = Encoded(DOMAIN.project(("p", "q")), (rows.column("p"), rows.column("q")))
    model = PublicAuto(given=given).fit(DOMAIN, tables)
    assert isinstance(model, DeterminedModel)
    assert ("name", "copy") in [(one.name, one.by) for one in model.determined]
    (seen,) = [rule for rule in model.found_rules if rule.names == ("copy", "name")]
    assert seen.found is not None
    assert seen.found[0] == pytest.approx(1.0, abs=4 * seen.found[1])
    known = {name: given.column(name) for name in ("p", "q")}
    drawn = model.sample(ROWS, np.random.default_rng(0), known)
    np.testing.assert_array_equal(drawn.column("name"), drawn.column("copy") // 2)
    again = PublicAuto().restore(DOMAIN, tables, model.state())
    for clique in (("p", "copy"), ("copy", "other"), ("q",)):
        np.testing.assert_allclose(again.project(clique), model.project(clique), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "damage",
    [
        {KEY: np.array([[2, 9], [3, 2]])},
        {KEY: np.array([2, 0])},
        {KEY: np.array([[2, 0], [0, 2]])},  # a circle
        {"determined_0": np.ones((2, 2))},
        {"determined_1": np.full((8, 4), np.nan)},
        {"determined_held": np.zeros((2, 2))},
    ],
)
def test_a_damaged_state_is_refused(damage: dict[str, np.ndarray]) -> None:
    state = determine().state()
    determined, inner = restore_determined(DOMAIN, state)
    assert not any(key.startswith("determined") for key in inner)
    assert [(one.name, one.by) for one in determined] == [
        ("copy", "p"),
        ("name", "copy"),
    ]
    with pytest.raises(ReleaseError, match="damaged"):
        restore_determined(DOMAIN, {**state, **damage})


def test_findings_are_told_and_come_back() -> None:
    model = determine()
    # Of the first change nothing is known; the second one changes what fixes the other.
    assert model.found_rules == (Determines("copy", "name", share=(0.98, 0.01)),)
    determined, _ = restore_determined(DOMAIN, model.state())
    assert [(one.turned, one.held) for one in determined] == [(False, None), (True, (0.98, 0.01))]
    assert DelegatingModel(model).found_rules == model.found_rules
    old = {key: part for key, part in model.state().items() if key != "determined_held"}
    assert [one.held for one in restore_determined(DOMAIN, old)[0]] == [None, None]


FINE = Domain(("fine", "coarse", "near", "far"), (40, 4, 4, 5))


def draw_fine(exceptions: float = 0.0) -> Encoded:
    """`fine` fixes `coarse`, on which `near` depends strongly and `fine` itself hardly more."""
    rng = np.random.default_rng(5)
    fine = rng.integers(0, 40, ROWS)
    coarse = np.where(rng.random(ROWS) < exceptions, rng.integers(0, 4, ROWS), fine // 10)
    near = np.where(rng.random(ROWS) < 0.8, coarse, rng.integers(0, 4, ROWS))
    columns = (fine, coarse, near, rng.integers(0, 5, ROWS))
    return Encoded(FINE, tuple(part.astype(np.uint8) for part in columns))


def measure(rows: Encoded, sigma: float) -> list[NoisyMarginal]:
    names = rows.domain.names
    return release(rows, sigma, *((name,) for name in names), *combinations(names, 2))


def test_auto_makes_rows_agree_where_a_pair_shows_it_and_it_comes_back() -> None:
    rows = draw_fine()
    tables = measure(rows, 20.0)
    model = Auto().fit(FINE, tables, total=ROWS)
    assert isinstance(model, DeterminedModel)
    assert [{one.name, one.by} for one in model.determined] == [{"fine", "coarse"}]
    drawn = model.sample(ROWS, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn.column("coarse"), drawn.column("fine") // 10)
    for clique in combinations(FINE.names, 2):
        expected = model.project(clique)
        assert 0.5 * np.abs(expected - count(drawn, *clique)).sum() < 0.03 * ROWS
    again = Auto().restore(FINE, tables, model.state())
    for clique in combinations(FINE.names, 2):
        np.testing.assert_allclose(again.project(clique), model.project(clique), rtol=1e-6, atol=1e-6)


def test_a_rule_that_one_row_in_five_breaks_is_no_find() -> None:
    model = Auto().fit(FINE, measure(draw_fine(0.3), 20.0), total=ROWS)
    assert not isinstance(model, DeterminedModel)


def test_a_few_rows_off_are_seen_by_one_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    domain, rng = Domain(("ill", "bed", "other"), (2, 2, 3)), np.random.default_rng(4)
    ill = rng.random(ROWS) < 0.4
    bed = ill & (rng.random(ROWS) < 0.92)  # 3 % of all rows are off
    rows = Encoded(domain, tuple(part.astype(np.uint8) for part in (ill, bed, rng.integers(0, 3, ROWS))))
    tables = pool(domain, [*release(rows, 10.0, ("ill",), ("bed",)), *release(rows, 60.0, ("ill", "bed"))])
    model = Independent().fit(domain, release(rows, 1.0, *((n,) for n in domain.names)), total=ROWS)
    assert find_determined(model, tables, {}) == []
    monkeypatch.setattr("margrave.models._determined.CONSISTENT", np.inf)
    assert len(find_determined(model, tables, {})) == 1


def test_surer_finds_come_before_nearer_ones() -> None:
    domain, rng = Domain(("cause", "dead", "bed"), (3, 2, 2)), np.random.default_rng(6)
    cause = rng.choice(3, ROWS, p=[0.5, 0.4, 0.1])
    columns = cause, cause > 0, cause == 1
    rows = Encoded(domain, tuple(np.asarray(part).astype(np.uint8) for part in columns))
    # `bed` and `dead` differ in a tenth of the rows, and `cause` tells both.
    tables = pool(domain, measure(rows, 25.0))
    model = Independent().fit(domain, release(rows, 1.0, *((n,) for n in domain.names)), total=ROWS)
    found = find_determined(model, tables, {})
    assert {frozenset((one.name, one.by)) for one in found} == {
        frozenset(("cause", "dead")),
        frozenset(("cause", "bed")),
    }


def test_a_rough_fit_looks_for_nothing() -> None:
    model = Auto().fit(FINE, measure(draw_fine(), 20.0), total=ROWS, effort=Effort(rough=True))
    assert not isinstance(model, DeterminedModel)


@pytest.mark.parametrize("given", [{"coarse": 2}, {"fine": 25}, {"coarse": 2, "near": 0}])
def test_what_goes_with_a_given_code_changes_in_its_place(given: dict[str, int]) -> None:
    model = Auto().fit(FINE, measure(draw_fine(), 20.0), total=ROWS)
    drawn = model.sample(2_000, np.random.default_rng(0), given)
    for name, code in given.items():
        assert set(drawn.column(name).tolist()) == {code}
    np.testing.assert_array_equal(drawn.column("coarse"), drawn.column("fine") // 10)
    # Those that go with it all occur, about as often as each other.
    assert given.keys() == {"fine"} or np.bincount(drawn.column("fine"), minlength=40)[20:30].min() > 50


class Knows(DeterminedModel):
    """Independent codes of `fine`, but the exact table of all others."""

    def __init__(self, rows: Encoded) -> None:
        super().__init__(Independent().fit(FINE, release(rows, 1.0, *((n,) for n in FINE.names))), ())
        self.rows = rows

    def project(self, clique):  # type: ignore[no-untyped-def]
        rest = tuple(name for name in clique if name != "fine")
        table = count(self.rows, *rest) / ROWS
        if "fine" in clique:
            table = np.moveaxis(np.multiply.outer(np.full(40, 1 / 40), table), 0, clique.index("fine"))
        return ROWS * table


def test_of_both_attributes_that_changes_which_leaves_measured_pairs_nearer() -> None:
    rows = draw_fine()
    tables = pool(FINE, measure(rows, 20.0))
    # This model knows what goes with `coarse` and nothing of `fine`, so that `fine` had better change.
    found = find_determined(Knows(rows), tables, {})
    assert [(one.name, one.by) for one in found] == [("fine", "coarse")]


def test_a_change_that_ruins_other_pairs_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    fine, coarse = rng.integers(0, 40, ROWS), rng.integers(0, 4, ROWS)
    near = np.where(rng.random(ROWS) < 0.9, coarse, rng.integers(0, 4, ROWS))
    far = np.where(rng.random(ROWS) < 0.9, fine // 8, rng.integers(0, 5, ROWS))
    apart = Encoded(FINE, tuple(part.astype(np.uint8) for part in (fine, coarse, near, far)))
    # One pair says that `fine` fixes `coarse`, and all others that they have nothing to do with each other.
    own = [t for t in measure(draw_fine(), 20.0) if t.clique == ("fine", "coarse")]
    others = [t for t in measure(apart, 2.0) if t.clique != ("fine", "coarse")]

    class Exact(DeterminedModel):
        def project(self, clique):  # type: ignore[no-untyped-def]
            return count(apart, *clique)

    model = Exact(Independent().fit(FINE, others, total=ROWS), ())
    monkeypatch.setattr("margrave.models._determined.CONSISTENT", np.inf)
    assert find_determined(model, pool(FINE, [*own, *others]), {}) == []
    monkeypatch.setattr("margrave.models._determined.MOST_RUINED", np.inf)
    assert len(find_determined(model, pool(FINE, [*own, *others]), {})) == 1


def test_large_tables_take_what_changes_to_depend_on_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    model = determine()
    exact = model.project(("copy", "other"))
    monkeypatch.setattr("margrave.models._determined.MOST_CELLS", 1)
    rough = DeterminedModel(model.inner, model.determined)
    # The inner model is one of independent attributes, for which both are the same.
    np.testing.assert_allclose(rough.project(("copy", "other")), exact, rtol=1e-9)


def test_long_chains_of_changes_ask_for_no_large_tables_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    model = determine()
    seen: list[int] = []
    project = type(model.inner).project

    def count_names(inner: Any, clique: Any) -> Any:
        seen.append(len(clique))
        return project(inner, clique)

    monkeypatch.setattr(type(model.inner), "project", count_names)
    exact = model.project(("name", "other"))
    assert max(seen) == 4
    seen.clear()
    monkeypatch.setattr("margrave.models._determined.MOST_CHAINED", 1)
    rough = DeterminedModel(model.inner, model.determined).project(("name", "other"))
    assert max(seen) == 3
    np.testing.assert_allclose(rough.sum(axis=1), exact.sum(axis=1), rtol=0.05)
