"""Attributes that are missing or 0 as others say: when a pair shows it, what rows and marginals hold then."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from margrave.errors import ReleaseError
from margrave.models._base.pooling import pool
from margrave.models._determined import SENTENCE, Determined, DeterminedModel, restore_determined
from margrave.models._structural import find_changes
from margrave.models.auto import Auto
from margrave.models.independent import Independent
from margrave.release import NoisyMarginal
from margrave.schema.columns import Categorical, Column, Date, Integer, Real
from margrave.schema.constraints.rules import Forbidden
from margrave.schema.constraints.structural import (
    SENTENCES,
    Counted,
    StructuralValue,
    find_structural_pattern,
)
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

ROWS = 8000
NAMES = ("ever", "now", "sugar", "fat", "age", "mood")
SIZES = (2, 4, 9, 9, 8, 4)
MISSING = (-1, 3, 8, 8, -1, 3)
DOMAIN = Domain(NAMES, SIZES, missing=MISSING)
ZEROS = Domain(NAMES, SIZES, zeros=MISSING)
"""The same, where the code that stands for a missing value stands for 0."""


def draw(seed: int = 0, tied: bool = True) -> Encoded:
    """`now` is missing where `ever` is 0 and in a few rows more, `sugar` and `fat` together, `mood` alone.

    Not `tied` all are missing independently. `sugar` and `fat` depend on `age`.
    """
    rng = np.random.default_rng(seed)
    ever, age = rng.integers(0, 2, ROWS), rng.integers(0, 8, ROWS)
    apart = [rng.random(ROWS) < 0.15 for _ in range(3)]
    panel = [apart[0], apart[0] if tied else apart[1]]
    quiet = (ever == 0 if tied else rng.random(ROWS) < 0.5) | (rng.random(ROWS) < 0.2)
    lab = [np.where(rng.random(ROWS) < 0.5, age, rng.integers(0, 8, ROWS)) for _ in panel]
    columns = (
        ever,
        np.where(quiet, 3, rng.integers(0, 3, ROWS)),
        *(np.where(absent, 8, values) for absent, values in zip(panel, lab, strict=True)),
        age,
        np.where(apart[2], 3, rng.integers(0, 3, ROWS)),
    )
    return Encoded(DOMAIN, tuple(part.astype(np.uint8) for part in columns))


def count(rows: Encoded, *clique: str) -> np.ndarray:
    table = np.zeros(rows.domain.shape(clique))
    np.add.at(table, tuple(rows.column(name) for name in clique), 1.0)
    return table


def measure(rows: Encoded, sigma: float, seed: int = 1) -> list[NoisyMarginal]:
    rng = np.random.default_rng(seed)
    cliques = [*((name,) for name in NAMES), *combinations(NAMES, 2)]
    tables = [(clique, count(rows, *clique), sigma / (1 + 2 * (len(clique) == 1))) for clique in cliques]
    return [NoisyMarginal(c, t + s * rng.standard_normal(t.shape), s) for c, t, s in tables]


def find(rows: Encoded, sigma: float, seed: int = 1, domain: Domain = DOMAIN) -> set[tuple[str, ...]]:
    """What is found over a model that knows one-ways alone."""
    tables = measure(rows, sigma, seed)
    model = Independent().fit(domain, tables, total=ROWS)
    found = [one.found_rule for one in find_changes(model, pool(domain, tables), {})]
    return {(one.words, *sorted(one.names)) for one in found if isinstance(one, StructuralValue)}


def test_a_panel_and_a_skipped_question_are_found_and_nothing_else() -> None:
    found = find(draw(), 25.0)
    assert {frozenset(one[1:]) for one in found} == {
        frozenset(("ever", "now")),
        frozenset(("sugar", "fat")),
    }
    words = {one[0] for one in found}
    assert "now is missing where ever says so" in words
    assert words & {
        f"{a} is missing where {b} is, and nowhere else" for a, b in (("sugar", "fat"), ("fat", "sugar"))
    }


def test_zeros_are_found_as_missing_values_are() -> None:
    zeros, missing = find(draw(), 25.0, domain=ZEROS), find(draw(), 25.0)
    assert {(one[0].replace("is 0", "is missing"), *one[1:]) for one in zeros} == missing
    assert "now is 0 where ever says so" in {one[0] for one in zeros}
    # With a code for neither there is nothing to say.
    assert find(draw(), 25.0, domain=Domain(NAMES, SIZES)) == set()


@pytest.mark.parametrize("domain", [DOMAIN, ZEROS])
@pytest.mark.parametrize("sigma", [3.0, 25.0, 60.0, 200.0])
def test_independent_missing_values_and_zeros_are_no_find(sigma: float, domain: Domain) -> None:
    for seed in range(10):
        assert find(draw(seed, tied=False), sigma, seed, domain) == set()


@pytest.mark.parametrize("domain", [DOMAIN, ZEROS])
def test_in_noise_that_hides_it_nothing_is_found(domain: Domain) -> None:
    for seed in range(10):
        assert find(draw(seed), 500.0, seed, domain) == set()


def test_what_tells_both_ways_comes_before_what_tells_one() -> None:
    # The old never work and some others do not: where status says so, and nowhere else, wages are 0.
    rng = np.random.default_rng(0)
    age = rng.integers(0, 4, ROWS)
    status = np.where(age == 3, 0, rng.choice(3, ROWS, p=[0.1, 0.5, 0.4]))
    wage = np.where(status == 0, 0, rng.integers(1, 4, ROWS))
    domain = Domain(("age", "status", "wage"), (4, 3, 4), zeros=(-1, -1, 0))
    rows = Encoded(domain, tuple(part.astype(np.uint8) for part in (age, status, wage)))
    cliques = [*((name,) for name in domain.names), *combinations(domain.names, 2)]
    # By its noise the pair that says all is the less sure one.
    sigmas = [95.0 if one == ("status", "wage") else 5.0 for one in cliques]
    tables = [
        NoisyMarginal(one, count(rows, *one), sigma) for one, sigma in zip(cliques, sigmas, strict=True)
    ]
    model = Independent().fit(domain, tables, total=ROWS)
    found = [one for one in find_changes(model, pool(domain, tables), {}) if one.name == "wage"]
    assert [one.found_rule.words for one in found] == ["wage is 0 where status says so, and nowhere else"]


def test_attributes_that_rules_speak_of_are_left_alone() -> None:
    columns = [
        Categorical(name=name, values=tuple(map(str, range(size - (absent >= 0)))), missing=absent >= 0)
        for name, size, absent in zip(NAMES, SIZES, MISSING, strict=True)
    ]
    domain = Schema(tuple(columns), (Forbidden(("sugar", "age"), [("0", "0")]),)).domain
    assert domain.missing == MISSING
    assert {one[0] for one in find(draw(), 25.0, domain=domain)} == {"now is missing where ever says so"}


def test_a_schema_says_which_code_is_the_missing_one() -> None:
    schema = Schema(
        (
            Categorical(name="plain", values=("a", "b"), missing=False),
            Integer(name="number", lower=0, upper=9, bins=5, missing=True),
        )
    )
    assert schema.domain.missing == (-1, 5)
    assert Domain(("a",), (2,)).missing == (-1,)


@pytest.mark.parametrize(
    ("column", "code"),
    [
        (Integer(name="x", edges=(0, 1, 5, 9), missing=False), 0),
        (Integer(name="x", edges=(-4, 0, 1, 9), missing=False), 1),
        (Integer(name="x", edges=(0, 2, 9), missing=False), None),  # 1 is in the bin as well
        (Integer(name="x", edges=(-1, 1, 9), missing=False), None),
        (Integer(name="x", edges=(1, 2, 9), missing=False), None),
        (Integer(name="x", edges=(0, 10, 90), grids=((10, 1.0),), missing=False), 0),
        (Integer(name="x", edges=(0, 10, 90), grids=((10, 0.9),), missing=False), None),
        (Real(name="x", edges=(0.0, 5e-324, 9.0), missing=False), 0),
        (Real(name="x", edges=(0.0, 0.1, 9.0), missing=False), None),
        (Real(name="x", edges=(0.0, 0.1, 9.0), grids=((0.1, 1.0),), missing=False), 0),
        (Date(name="x", edges=(0, 1, 9), missing=False), None),  # the first day of 1970 is no 0
        (Categorical(name="x", values=("0", "1"), missing=False), None),
    ],
)
def test_a_schema_says_which_code_is_0_alone(column: Column, code: int | None) -> None:
    assert column.zero_code == code
    assert Schema((column,)).domain.zeros == (-1 if code is None else code,)


def test_rows_of_auto_keep_the_pattern_and_it_comes_back() -> None:
    rows = draw()
    tables = measure(rows, 25.0)
    model = Auto().fit(DOMAIN, tables, total=ROWS)
    assert isinstance(model, DeterminedModel)
    drawn = model.sample(ROWS, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn.column("sugar") == 8, drawn.column("fat") == 8)
    assert (drawn.column("now")[drawn.column("ever") == 0] == 3).all()
    # Where `ever` says nothing of it, it is missing as often as measured.
    asked = drawn.column("ever") == 1
    assert (drawn.column("now")[asked] == 3).mean() == pytest.approx(0.2, abs=0.05)
    again = Auto().restore(DOMAIN, tables, model.state())
    assert again.found_rules == model.found_rules
    said = {rule.words: rule.to_json() for rule in again.found_rules}["now is missing where ever says so"]
    assert (said["kind"], said["of"], said["by"]) == ("structural_value", "now", "ever")
    for clique in combinations(NAMES, 2):
        np.testing.assert_allclose(again.project(clique), model.project(clique), rtol=1e-6, atol=1e-6)
        assert 0.5 * np.abs(model.project(clique) - count(drawn, *clique)).sum() < 0.03 * ROWS


def test_values_come_into_the_same_rows_where_too_many_are_missing_together() -> None:
    domain, rng = Domain(("asked", "a", "b"), (2, 3, 3), missing=(-1, 2, 2)), np.random.default_rng(0)
    asked, quiet = rng.integers(0, 2, ROWS), rng.random(ROWS) < 0.5
    columns = (asked, *(np.where(quiet, 2, rng.integers(0, 2, ROWS)) for _ in range(2)))
    inner = Drawn(Encoded(domain, tuple(part.astype(np.uint8) for part in columns)))
    # Of those asked a tenth is missing, of the others all.
    shares = np.array([[0.0, 0.0, 1.0], [0.45, 0.45, 0.1]])
    made = [Determined(name, "asked", shares, sentence=SENTENCES[3]) for name in ("a", "b")]
    drawn = DeterminedModel(inner, made).sample(ROWS, np.random.default_rng(0))
    assert (drawn.column("a")[drawn.column("asked") == 0] == 2).all()
    # But for one that is left by rounding.
    assert ((drawn.column("a") == 2) != (drawn.column("b") == 2)).sum() <= 2
    assert (drawn.column("a")[drawn.column("asked") == 1] == 2).mean() == pytest.approx(0.1, abs=0.01)


class Drawn(DeterminedModel):
    """A model whose rows are some table's, and its marginals theirs."""

    def __init__(self, rows: Encoded) -> None:
        tables = [NoisyMarginal((name,), count(rows, name), 1.0) for name in rows.domain.names]
        super().__init__(Independent().fit(rows.domain, tables, total=rows.rows), ())
        self.rows = rows

    def project(self, clique):  # type: ignore[no-untyped-def]
        return count(self.rows, *clique)

    def sample(self, rows, rng, given=None, deadline=None):  # type: ignore[no-untyped-def]
        return self.rows


def test_without_the_finds_the_pattern_is_lost_and_pairs_are_no_nearer() -> None:
    rows = draw()
    model = Auto().fit(DOMAIN, measure(rows, 25.0), total=ROWS)
    assert isinstance(model, DeterminedModel)
    plain = DeterminedModel(model.inner, [one for one in model.determined if not one.sentence])
    drawn = plain.sample(ROWS, np.random.default_rng(0))
    assert ((drawn.column("sugar") == 8) != (drawn.column("fat") == 8)).mean() > 0.005
    for clique in (("sugar", "fat"), ("sugar", "age"), ("fat", "age"), ("ever", "now"), ("now", "mood")):
        exact = count(rows, *clique)
        errors = [np.abs(one.project(clique) - exact).sum() for one in (model, plain)]
        assert errors[0] <= errors[1] + 0.002 * ROWS


@pytest.mark.parametrize("given", [{"fat": 8}, {"sugar": 8}, {"fat": 2}, {"sugar": 8, "age": 3}])
def test_given_codes_stay_and_the_others_follow(given: dict[str, int]) -> None:
    model = Auto().fit(DOMAIN, measure(draw(), 25.0), total=ROWS)
    drawn = model.sample(500, np.random.default_rng(0), given)
    for name, code in given.items():
        assert set(drawn.column(name).tolist()) == {code}
    np.testing.assert_array_equal(drawn.column("sugar") == 8, drawn.column("fat") == 8)


def test_a_damaged_sentence_is_refused() -> None:
    model = Auto().fit(DOMAIN, measure(draw(), 25.0), total=ROWS)
    state = model.state()
    assert (state[SENTENCE] >= 0).any()
    for damage in (
        np.zeros(9, dtype=np.int64),
        np.full_like(state[SENTENCE], len(SENTENCES)),
        np.array([0.5]),
    ):
        with pytest.raises(ReleaseError, match="damaged"):
            restore_determined(DOMAIN, {**state, SENTENCE: damage})
    old, _ = restore_determined(DOMAIN, {key: part for key, part in state.items() if key != SENTENCE})
    assert {one.sentence for one in old} == {""}


def read(
    cells: list[float], lines: list[float], sigma: float = 10.0, absent: int | None = None
) -> str | None:
    """The sentence that a column of cells and the rows of its lines make."""
    rows = np.array(lines)
    exact = Counted(rows, np.full(len(rows), 2.0))
    missing = Counted(np.asarray(sum(cells)), np.asarray(2.0))
    found = find_structural_pattern(Counted(np.array(cells), np.full(len(rows), sigma)), exact, missing)
    return None if found is None else found.say(absent)


@pytest.mark.parametrize(
    ("cells", "absent", "sentence"),
    [
        ([0.0, 5.0, 1000.0], 2, 0),
        ([0.0, 800.0, 1000.0], 2, 1),
        ([0.0, 5.0, 1000.0], None, 2),
        ([0.0, 2000.0, 1000.0], 2, 2),
        ([500.0, 800.0, 1000.0], None, 3),
        ([700.0, 800.0, 0.0], 2, None),  # where it is not missing, nothing is said
        ([500.0, 500.0, 500.0], None, None),
        ([0.0, 20.0, 500.0], 2, None),  # missing in half of a line is not missing where that is
        ([500.0, 500.0, 920.0], 2, None),  # an eighth of the rows that chance would have are too many
    ],
)
def test_what_cells_say(cells: list[float], absent: int | None, sentence: int | None) -> None:
    expected = None if sentence is None else SENTENCES[sentence]
    assert read(cells, [2000.0, 2000.0, 1000.0], absent=absent) == expected


@pytest.mark.parametrize(
    ("missing", "share", "elsewhere"),
    [
        (1000.0, 1.0, 0.0),  # as many are missing as in the line: all together
        (950.0, 0.95, 0.0),  # fewer: some of the line are not
        (1060.0, 1.0, 60.0),  # more: some others are
    ],
)
def test_one_ways_tell_what_cells_hide(missing: float, share: float, elsewhere: float) -> None:
    lines = Counted(np.array([4000.0, 1000.0]), np.array([3.0, 3.0]))
    cells = Counted(np.array([20.0, 990.0]), np.array([60.0, 60.0]))
    found = find_structural_pattern(cells, lines, Counted(np.asarray(missing), np.asarray(3.0)))
    assert found is not None
    assert (found.share, found.elsewhere) == (share, elsewhere)


def test_noise_that_chooses_lines_makes_no_find() -> None:
    rng = np.random.default_rng(0)
    lines = Counted(np.full(30, 300.0), np.full(30, 3.0))
    # Of fifteen lines a sixth is not missing, which noise hides in some of them.
    exact = np.repeat([250.0, 100.0], 15)
    missing = Counted(np.asarray(exact.sum()), np.asarray(3.0))
    sigma = np.full(30, 20.0)
    found = [
        find_structural_pattern(Counted(exact + sigma * rng.standard_normal(30), sigma), lines, missing)
        for _ in range(200)
    ]
    assert sum(one is not None for one in found) <= 2
