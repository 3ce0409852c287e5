"""A mixture with refined attributes: which they are, their conditionals, marginals, given refined attributes,
and what is saved."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from margrave.errors import ReleaseError, SchemaError
from margrave.limits import FULL, Effort
from margrave.models._base.pooling import pool
from margrave.models._mixture import refinements
from margrave.models._mixture.model import MixtureModel
from margrave.models.mixture import Mixture
from margrave.release import InferredMarginal, NoisyMarginal, RankProduct
from margrave.schema.domain import Domain

DOMAIN = Domain(("a", "b", "c", "y"), (5, 4, 6, 2))
EFFECTS = (np.linspace(-2, 2, 5), np.array([1.0, -1.0, 0.5, 0.0]), np.linspace(1.5, -1.5, 6))


def joint() -> np.ndarray:
    """An additive refined attribute over three dependent attributes, in proportions."""
    rng = np.random.default_rng(2)
    tables = [rng.dirichlet(np.full(n, 2.0), 3) for n in DOMAIN.sizes[:3]]
    others = np.einsum("k,ka,kb,kc->abc", np.array([0.5, 0.3, 0.2]), *tables)
    logit = EFFECTS[0][:, None, None] + EFFECTS[1][None, :, None] + EFFECTS[2][None, None, :] - 0.5
    share = 1 / (1 + np.exp(-logit))
    return np.stack([others * (1 - share), others * share], axis=-1)


def measurements(sigma: float = 5.0, rows: float = 20_000.0) -> list[NoisyMarginal]:
    rng = np.random.default_rng(0)
    made = []
    for clique in [c for k in (1, 2) for c in itertools.combinations(range(4), k)]:
        table = rows * joint().sum(axis=tuple(i for i in range(4) if i not in clique))
        noisy = table + sigma * rng.standard_normal(table.shape)
        made.append(NoisyMarginal(tuple(DOMAIN.names[i] for i in clique), noisy, sigma))
    return made


@pytest.fixture(scope="module")
def fitted() -> MixtureModel:
    return Mixture(components=40, refinements=0, target="y").fit(DOMAIN, measurements())


def test_the_label_is_closer_to_the_truth_than_the_mixture_s(fitted: MixtureModel) -> None:
    plain = Mixture(components=40, refinements=0).fit(DOMAIN, measurements())
    assert plain.refinements is None
    clique = DOMAIN.names
    errors = []
    for model in (plain, fitted):
        table = model.project(clique)
        held = np.maximum(table.sum(axis=-1), 1e-9)
        share = joint()[..., 1] / joint().sum(axis=-1)
        errors.append(float((joint().sum(axis=-1) * np.abs(table[..., 1] / held - share)).sum()))
    assert errors[1] < 0.8 * errors[0]


def test_the_first_rows_are_like_all_others() -> None:
    """A refined attribute of five codes that depends on one attribute of four: many rows have the same
    probabilities."""
    domain = Domain(("a", "b", "c", "y"), (3, 4, 2, 5))
    rng = np.random.default_rng(4)
    table = rng.dirichlet(np.ones(120)).reshape(domain.sizes) * 20_000
    made = [
        NoisyMarginal(pair, table.sum(axis=tuple(i for i in range(4) if domain.names[i] not in pair)), 5.0)
        for pair in (("a", "b"), ("b", "c"), ("b", "y"))
    ]
    model = Mixture(components=6, refinements=0, target="y").fit(domain, made)
    for seed in range(6):
        drawn = model.sample(40_000, np.random.default_rng(seed)).columns
        cells = np.ravel_multi_index([column.astype(int) for column in drawn], domain.sizes)
        counts = np.stack([np.bincount(part, minlength=120) for part in np.array_split(cells, 4)])
        assert chi2_contingency(counts[:, counts.sum(axis=0) >= 20]).pvalue > 1e-5


def test_marginals_with_the_target_are_those_of_the_rows(fitted: MixtureModel) -> None:
    rows = fitted.sample(60_000, np.random.default_rng(0))
    for clique in (("y",), ("y", "a"), ("c", "y"), ("b", "y", "a"), ("a", "b")):
        counts = np.zeros(DOMAIN.shape(clique))
        np.add.at(counts, tuple(rows.column(name) for name in clique), 1 / rows.rows)
        model = fitted.project(clique) / fitted.total
        assert model.shape == DOMAIN.shape(clique)
        assert model.sum() == pytest.approx(1.0)
        assert 0.5 * np.abs(counts - model).sum() < 0.01
    many = fitted.project_many([("y", "a"), ("a", "b"), ("b", "c"), ("a", "c"), ("y",)])
    assert np.array_equal(many[0], fitted.project(("y", "a")))


def test_rows_given_the_target_follow_bayes(fitted: MixtureModel) -> None:
    rows = fitted.sample(20_000, np.random.default_rng(1), {"y": 1, "b": 2})
    assert (rows.column("y") == 1).all()
    assert (rows.column("b") == 2).all()
    wanted = fitted.project(("a", "b", "y"))[:, 2, 1]
    found = np.bincount(rows.column("a"), minlength=5) / rows.rows
    assert 0.5 * np.abs(found - wanted / wanted.sum()).sum() < 0.02


def test_rows_given_others_draw_the_target_from_its_conditional(fitted: MixtureModel) -> None:
    rows = fitted.sample(20_000, np.random.default_rng(1), {"a": 4, "b": 0, "c": 0})
    assert fitted.refinements is not None
    given = {"a": np.array([4]), "b": np.array([0]), "c": np.array([0])}
    share = fitted.refinements.steps[-1].probabilities(given)[0, 1]
    assert rows.column("y").mean() == pytest.approx(share, abs=1e-3)


def test_restored_models_are_the_same(fitted: MixtureModel) -> None:
    again = Mixture().restore(DOMAIN, [], fitted.state())
    assert np.allclose(again.project(("y", "a")), fitted.project(("y", "a")), rtol=1e-12)
    one, two = (model.sample(100, np.random.default_rng(3)) for model in (again, fitted))
    assert np.array_equal(one.column("y"), two.column("y"))
    for wrong in (np.array([9.0]), np.array([np.nan]), np.zeros((1, 1)), np.array([0.5])):
        with pytest.raises(ReleaseError, match="damaged"):
            Mixture().restore(DOMAIN, [], fitted.state() | {"labels": wrong})
    with pytest.raises(ReleaseError, match="damaged"):
        Mixture().restore(DOMAIN, [], fitted.state() | {"labels_seed": np.asarray(-1.0)})


def test_edges_of_the_domain() -> None:
    with pytest.raises(SchemaError):
        Mixture(target="nobody").admit(DOMAIN, [])
    alone = Domain(("y",), (2,))
    model = Mixture(components=3, target="y").fit(alone, [NoisyMarginal(("y",), np.array([30.0, 70.0]), 1.0)])
    assert model.sample(10, np.random.default_rng(0)).rows == 10
    nothing = Mixture(components=3, target="y").fit(DOMAIN, [])
    assert nothing.sample(4, np.random.default_rng(0)).rows == 4
    assert nothing.sample(0, np.random.default_rng(0), {"y": 1}).rows == 0


WIDE = Domain(("u", "p", "q", "big", "v"), (2, 3, 2, 12, 2))


def wide_joint() -> np.ndarray:
    """p, q and big from three classes; u and v follow p and big, v more closely."""
    rng = np.random.default_rng(5)
    parts = [rng.dirichlet(np.full(n, 1.0), 3) for n in (3, 2, 12)]
    others = np.einsum("k,kp,kq,kb->pqb", np.array([0.5, 0.3, 0.2]), *parts)
    logit = np.linspace(-2, 2, 12)[None, None, :] + np.array([0.5, 0.0, -0.5])[:, None, None] + 0 * others
    shares = [1 / (1 + np.exp(-slope * logit)) for slope in (0.5, 2.0)]
    u, v = (np.stack([1 - share, share], axis=-1) for share in shares)
    return np.einsum("pqb,pqbu,pqbv->upqbv", others, u, v)


def wide_measurements(rows: float = 50_000.0, sigma: float = 3.0) -> list[NoisyMarginal]:
    rng, made = np.random.default_rng(1), []
    for clique in itertools.combinations(range(5), 2):
        table = rows * wide_joint().sum(axis=tuple(i for i in range(5) if i not in clique))
        noisy = table + sigma * rng.standard_normal(table.shape)
        made.append(NoisyMarginal(tuple(WIDE.names[i] for i in clique), noisy, sigma))
    return made


@pytest.fixture(scope="module")
def wide() -> MixtureModel:
    return Mixture(components=40).fit(WIDE, wide_measurements())


def test_labels_have_few_codes_and_the_most_dependent_comes_last(wide: MixtureModel) -> None:
    assert wide.refinements is not None
    assert wide.refinements.names[-1] == "v"
    assert set(wide.refinements.names) == {"u", "q", "v"}
    told = Mixture(components=40, refinements=4, target="p").fit(WIDE, wide_measurements())
    assert told.refinements is not None
    assert told.refinements.names[-1] == "p"
    assert sum(WIDE[name] for name in told.refinements.names[:-1]) <= 4
    rough = Mixture().fit(WIDE, wide_measurements(), effort=Effort(rough=True))
    assert rough.refinements is None


@pytest.mark.parametrize(("ranked", "refined"), [(2, True), (3, False)])
def test_an_attribute_known_by_rank_products_is_left_to_the_mixture(
    wide: MixtureModel, ranked: int, refined: bool
) -> None:
    """All four pairs with "v" have rank products; where most have nothing else an additive model would lose
    what is known."""
    product = RankProduct((np.zeros(2), np.zeros(2)), 0.0, 0.1)
    made = wide_measurements()
    own = [table for table in made if "v" in table.clique and len(table.clique) == 2]
    gone = {table.clique for table in own[:ranked]}
    tables = [table for table in made if table.clique not in gone]
    tables += [InferredMarginal(t.clique, t.values, t.sigma, product=product) for t in own]
    names = refinements.choose_refinements(wide, pool(WIDE, tables, inferred=True), 8, None)
    assert ("v" in names) == refined


def test_rows_keep_all_pairs(wide: MixtureModel) -> None:
    rows = wide.sample(50_000, np.random.default_rng(0))
    for a, b in itertools.combinations(WIDE.names, 2):
        counts = np.zeros(WIDE.shape((a, b)))
        np.add.at(counts, (rows.column(a), rows.column(b)), 1 / rows.rows)
        gone = tuple(i for i, n in enumerate(WIDE.names) if n not in (a, b))
        assert 0.5 * float(np.abs(counts - wide_joint().sum(axis=gone)).sum()) < 0.002


def test_swapping_codes_brings_pairs_closer_to_their_expectations(
    wide: MixtureModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wide.refinements is not None
    wanted = {(n, "v"): wide.project((n, "v")) / wide.total for n in ("u", "p", "q", "big")}
    apart = []
    for passes in (0, 4):
        monkeypatch.setattr(refinements, "PASSES", passes)
        rows = wide.sample(2_000, np.random.default_rng(0))
        miss = 0.0
        for clique, table in wanted.items():
            counts = np.zeros(table.shape)
            np.add.at(counts, tuple(rows.column(name) for name in clique), 1 / rows.rows)
            miss += 0.5 * float(np.abs(counts - table).sum())
        apart.append(miss)
    assert apart[1] < 0.9 * apart[0]


def test_marginals_of_several_labels_are_those_of_the_rows(wide: MixtureModel) -> None:
    rows = wide.sample(60_000, np.random.default_rng(3))
    for clique in (("u", "v"), ("v", "u", "p"), ("q", "u"), ("big", "v"), ("p", "big")):
        counts = np.zeros(WIDE.shape(clique))
        np.add.at(counts, tuple(rows.column(name) for name in clique), 1 / rows.rows)
        model = wide.project(clique) / wide.total
        assert 0.5 * np.abs(counts - model).sum() < 0.01


@pytest.mark.parametrize("codes", [{"u": 1, "v": 0}, {"v": 1, "q": 0, "p": 2}, {"u": 0, "q": 1, "v": 1}])
def test_rows_given_several_labels_follow_bayes(wide: MixtureModel, codes: dict[str, int]) -> None:
    rows = wide.sample(20_000, np.random.default_rng(4), codes)
    assert all((rows.column(name) == code).all() for name, code in codes.items())
    table = wide.project(("big", *codes))
    wanted = table[(slice(None), *codes.values())]
    found = np.bincount(rows.column("big"), minlength=12) / rows.rows
    assert 0.5 * np.abs(found - wanted / wanted.sum()).sum() < 0.03


def test_labels_given_one_a_row_keep_their_rows(wide: MixtureModel) -> None:
    rng = np.random.default_rng(5)
    given = {"v": rng.integers(0, 2, 3000), "big": rng.integers(0, 12, 3000), "u": rng.integers(0, 2, 3000)}
    rows = wide.sample(3000, np.random.default_rng(6), given)
    for name, codes in given.items():
        assert np.array_equal(rows.column(name), codes)


def test_restored_labels_are_the_same(wide: MixtureModel) -> None:
    again = Mixture().restore(WIDE, [], wide.state())
    assert np.array_equal(again.project(("u", "v")), wide.project(("u", "v")))
    one, two = (model.sample(500, np.random.default_rng(3)) for model in (again, wide))
    assert all(np.array_equal(a, b) for a, b in zip(one.columns, two.columns, strict=True))


def flags(sigma: float) -> tuple[Domain, list[NoisyMarginal]]:
    """Twelve flags of 3 % of 20,000 rows that know nothing of each other, and noise."""
    rng, names, made = np.random.default_rng(7), tuple("abcdefghijkl"), []
    share = np.array([0.97, 0.03])
    for clique in [c for k in (1, 2) for c in itertools.combinations(names, k)]:
        exact = 20_000.0 * (share if len(clique) == 1 else np.outer(share, share))
        made.append(NoisyMarginal(clique, exact + sigma * rng.standard_normal(exact.shape), sigma))
    return Domain(names, (2,) * 12), made


@pytest.mark.parametrize(("sigma", "refinements"), [(10.0, True), (600.0, False)])
def test_labels_under_much_noise_have_to_be_better_than_the_mixture(sigma: float, refinements: bool) -> None:
    domain, made = flags(sigma)
    choice = Mixture().choose(domain, pool(domain, made), 20_000.0)
    assert choice.setting.refinements == refinements
    model = Mixture(components=20, steps=20).fit_at(choice, domain, made, None, FULL)
    assert isinstance(model, MixtureModel)
    assert (model.refinements is not None) == refinements
    told = Mixture(components=20, steps=20, target="c")
    asked = told.fit_at(choice, domain, made, None, FULL)
    assert isinstance(asked, MixtureModel)
    assert asked.refinements is not None
    assert asked.refinements.names[-1] == "c"
    assert (len(asked.refinements.names) > 1) == refinements


def test_labels_that_are_better_stay_under_noise() -> None:
    # Twelve attributes of nine codes move a refined attribute's log-odds, each by itself, which no few
    # products follow.
    rng, names = np.random.default_rng(3), tuple("abcdefghijkl")
    columns = {name: rng.integers(9, size=20_000) for name in names}
    logit = sum(rng.standard_normal(9)[column] for column in columns.values())
    columns["y"] = (rng.random(20_000) < 1 / (1 + np.exp(-logit))).astype(np.int64)
    domain, made = Domain((*names, "y"), (9,) * 12 + (2,)), []
    for clique in [c for k in (1, 2) for c in itertools.combinations(domain.names, k)]:
        counts = np.zeros(domain.shape(clique))
        np.add.at(counts, tuple(columns[name] for name in clique), 1.0)
        # More than the chance of the reference rows, 39 rows, so the judge is asked.
        made.append(NoisyMarginal(clique, counts + 50.0 * rng.standard_normal(counts.shape), 50.0))
    assert Mixture().choose(domain, pool(domain, made), 20_000.0).setting.refinements
