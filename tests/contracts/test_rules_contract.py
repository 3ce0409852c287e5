"""Rules, for every model: no row breaks one, and what the rules leave open is drawn as it should be."""

from __future__ import annotations

import dataclasses
import functools
import itertools

import numpy as np
import pytest
from families import DELEGATING, PUBLIC, add_estimators
from scipy.stats import chi2
from torch_fitters import SMALL, SMALL_NAMES

from margrave.errors import InputError
from margrave.models._base.constraints import sample_consistent
from margrave.models.independent import Independent
from margrave.models.mixture.fitter import Mixture
from margrave.models.pgm.fitter import PGM
from margrave.models.pgm.multiplicative_weights import PMW
from margrave.models.rowwise.genetic import Genetic
from margrave.models.rowwise.gum import GUM
from margrave.models.rowwise.residual import Residual
from margrave.release import NoisyMarginal
from margrave.schema.columns import Categorical, Integer
from margrave.schema.constraints.rules import Allowed, Determines, Forbidden, Ordered, Sum, Within
from margrave.schema.domain import Domain
from margrave.schema.schema import Schema

COLUMNS = (
    Categorical(name="zip", values=tuple("abcdef"), missing=False),
    Categorical(name="state", values=("X", "Y", "Z"), missing=True),
    Integer(name="low", lower=0, upper=11, bins=4, missing=False),
    Integer(name="high", lower=0, upper=11, bins=3, missing=True),
    Integer(name="sum", lower=0, upper=22, bins=5, missing=False),
    Categorical(name="sex", values=("F", "M"), missing=False),
    Categorical(name="free", values=("p", "q", "r"), missing=False),
)
STATES = dict(zip("abcdef", "XXYYZZ", strict=True))
SETS = {
    "zeros": [Forbidden(("sex", "free"), [("F", "p"), ("M", "q")])],
    "combinations": [Allowed(("sex", "state"), [("F", "X"), ("M", "Y"), ("M", "Z"), ("F", None)])],
    "dependency": [Determines("state", "zip", STATES)],
    "order": [Ordered("low", "high")],
    "sum": [Sum("sum", ("low", "high"))],
    "range": [Within("low", "zip", {"a": (0, 2), "b": (9, None)})],
    "all": [
        Forbidden(("sex", "free"), [("F", "p"), ("M", "q")]),
        Determines("state", "zip", STATES),
        Ordered("low", "high"),
        Sum("sum", ("low", "high")),
        Within("low", "zip", {"a": (0, 2), "b": (6, None)}),
        Allowed(("sex", "state"), [("F", "X"), ("M", "Y"), ("M", "Z"), ("M", "X")]),
    ],
}
ALIKE = [name for name in SETS if name not in ("dependency", "all")]
"""Sets of one rule each, of the kinds that "all" has together."""
ELSEWHERE = {
    **DELEGATING,
    **PUBLIC,
    **dict.fromkeys(SMALL, "needs PyTorch: added to each test below"),
    "merf": "needs PyTorch, and what it learns beside tables; see test_merf_contract.py",
}
OWN = {
    "pmw": PMW(),
    "residual": Residual(),
    "genetic": Genetic(),
    "gum": GUM(),
    "independent": Independent(),
    "pgm": PGM(),
    "mixture": Mixture(components=12, steps=120),
    "grouped": Mixture(components=12, steps=120, largest=4),
    "targeted": Mixture(components=12, steps=120, target="sex"),
}
FITTERS = add_estimators(OWN, ELSEWHERE)
"""Every estimator of the registry that learns from marginals, but for those of ELSEWHERE."""
PAIRS = [("zip", "state"), ("low", "high"), ("low", "sum"), ("zip", "low"), ("sex", "free"), ("sex", "state")]


def measured(domain, cliques, seed=0, sigma=8.0):
    """Noisy counts of rows that know nothing of rules, so that all of the obedience is the model's."""
    rng = np.random.default_rng(seed)
    ways = [rng.dirichlet(np.full(size, 2.0)) for size in domain.sizes]
    made = []
    for clique in cliques:
        table = np.asarray(3000.0)
        for name in clique:
            table = table[..., None] * ways[domain.index(name)]
        made.append(NoisyMarginal(clique, table + rng.normal(size=table.shape) * sigma, sigma))
    return made


def broken(domain, found):
    columns = dict(zip(domain.names, found.columns, strict=True))
    return int((~domain.rules.possible(columns, found.rows)).sum())


@pytest.fixture(scope="module", params=[*FITTERS, *SMALL_NAMES])
def fitter(request):
    return SMALL[request.param]() if request.param in SMALL else FITTERS[request.param]


def fit_under(fitter, rules):
    domain = Schema(COLUMNS, rules).domain
    cliques = [*PAIRS, *((name,) for name in domain.names)]
    return fitter.fit(domain, measured(domain, cliques)), domain, cliques


@pytest.fixture(scope="module")
def fitted(fitter):
    """A function from one of the SETS to the model fitted under it, once, its domain and its cliques.

    For what must hold however rough the fit: a shorter one leaves more to the rules.
    """
    rough = fitter
    if isinstance(fitter, PMW):
        rough = dataclasses.replace(fitter, passes=20)
    elif isinstance(fitter, Mixture):
        rough = dataclasses.replace(fitter, steps=30)
    return functools.cache(lambda rules: fit_under(rough, SETS[rules]))


@pytest.mark.parametrize("rules", SETS)
def test_no_row_breaks_a_rule(fitter, fitted, rules):
    model, domain, cliques = fitted(rules)
    for rows in (0, 1, 5000):
        found = model.sample(rows, np.random.default_rng(rows))
        assert found.rows == rows
        assert broken(domain, found) == 0
    again = fitter.restore(domain, measured(domain, cliques), model.state())
    one, two = (m.sample(200, np.random.default_rng(1)) for m in (model, again))
    assert all((a == b).all() for a, b in zip(one.columns, two.columns, strict=True))


@pytest.mark.parametrize(
    "names", [("sex",), ("state", "high"), ("zip", "free"), ("low", "sum")], ids="+".join
)
def test_no_row_breaks_a_rule_with_codes_of_its_own(fitted, names):
    model, domain, _ = fitted("all")
    source = model.sample(3000, np.random.default_rng(0))
    given = {name: source.column(name).astype(np.int64) for name in names}
    found = model.sample(3000, np.random.default_rng(1), given)
    assert broken(domain, found) == 0
    assert all((found.column(name) == codes).all() for name, codes in given.items())
    one = {name: int(codes[0]) for name, codes in given.items()}
    assert broken(domain, model.sample(50, np.random.default_rng(2), one)) == 0


def test_given_codes_that_no_row_has_are_refused(fitted):
    model = fitted("all")[0]
    for given in (
        {"sex": 0, "free": 0},
        {"zip": 0, "state": 2},
        {"state": 2, "sex": 0},
        {"low": 3, "high": 0},
    ):
        with pytest.raises(InputError, match="rules"):
            model.sample(10, np.random.default_rng(0), given)
        by_row = {name: np.array([code, code]) for name, code in given.items()}
        with pytest.raises(InputError, match="rules"):
            model.sample(2, np.random.default_rng(0), by_row)


def test_numbers_known_beside_their_codes_leave_room(fitted):
    model = fitted("order")[0]
    numbers = {"high": np.repeat([4.0, 7.0], 300)}  # the first and the last number of the bin 4 to 7
    found = sample_consistent(model, 600, np.random.default_rng(0), {"high": 1}, numbers)
    assert found.column("low")[:300].max() == 1  # 3 to 5, of which 4
    assert found.column("low")[300:].max() == 2
    with pytest.raises(InputError, match="rules"):
        sample_consistent(
            model,
            1,
            np.random.default_rng(0),
            {"high": 1, "low": 1},
            {"high": np.array([4.0]), "low": np.array([5.0])},
        )


def joint_of(model):
    """The joint of a graphical model, from its potentials and the rules."""
    domain = model.domain
    logs = np.zeros(domain.sizes)
    for clique, table in model.potentials().items():
        logs = logs + table.reshape([domain[n] if n in clique else 1 for n in domain.names])
    codes = np.unravel_index(np.arange(domain.size()), domain.sizes)
    allowed = domain.rules.possible(dict(zip(domain.names, codes, strict=True)), domain.size())
    allowed = allowed.reshape(domain.sizes)
    joint = np.where(allowed, np.exp(np.where(allowed, logs - logs[allowed].max(), 0.0)), 0.0)
    return joint / joint.sum()


def test_the_graphical_model_is_the_log_linear_one_on_the_allowed_cells():
    model, domain, _ = fit_under(PGM(), SETS["all"])
    joint = joint_of(model)
    for clique in itertools.combinations(domain.names, 2):
        gone = tuple(i for i, name in enumerate(domain.names) if name not in clique)
        np.testing.assert_allclose(model.project(clique) / model.total, joint.sum(axis=gone), atol=1e-9)
    assert (model.project(domain.names)[joint == 0] < 1e-9).all()


def test_rows_are_the_conditional_given_the_rules():
    model, domain, _ = fit_under(PGM(), SETS["all"])
    joint, rows = joint_of(model), 60_000
    given = {"free": np.random.default_rng(0).integers(0, 3, rows)}
    found = model.sample(rows, np.random.default_rng(1), given)
    held = np.bincount(given["free"], minlength=3)
    expected = joint / joint.sum(axis=tuple(range(6)), keepdims=True) * held
    counts = np.bincount(
        np.ravel_multi_index([c.astype(int) for c in found.columns], domain.sizes), minlength=domain.size()
    ).reshape(domain.sizes)
    enough = expected >= 5
    statistic = float(((counts - expected)[enough] ** 2 / expected[enough]).sum())
    assert chi2.sf(statistic, int(enough.sum())) > 1e-6


def test_a_mixture_under_rules_projects_what_it_samples():
    model, domain, _ = fit_under(FITTERS["mixture"], SETS["all"])
    rows = 60_000
    found = model.sample(rows, np.random.default_rng(1))
    for clique in itertools.combinations(domain.names, 2):
        expected = model.project(clique) * rows / model.total
        counts = np.zeros(domain.shape(clique))
        np.add.at(counts, tuple(found.column(name) for name in clique), 1)
        assert np.abs(counts - expected).max() < 6 * np.sqrt(expected.max()) + 5
        assert (counts[expected == 0] == 0).all()
    many = model.project_many(list(itertools.combinations(domain.names, 2)))
    for clique, table in zip(itertools.combinations(domain.names, 2), many, strict=True):
        np.testing.assert_allclose(table, model.project(clique))


def obedient(domain, cliques, rows=3000.0, sigma=8.0):
    """Noisy counts of rows that obey: four kinds, each of independent attributes but for the rules."""
    rng = np.random.default_rng(0)
    joint = np.zeros(domain.sizes)
    for _ in range(4):
        kind = np.ones(())
        for size in domain.sizes:
            kind = kind[..., None] * rng.dirichlet(np.full(size, 2.0))
        joint += kind
    codes = np.unravel_index(np.arange(domain.size()), domain.sizes)
    columns = dict(zip(domain.names, codes, strict=True))
    allowed = domain.rules.possible(columns, domain.size())
    # Values lie evenly in their bins, so that a cell holds what part of its values obeys.
    joint *= (allowed * domain.rules.feasible_shares(columns, domain.size())).reshape(domain.sizes)
    joint *= rows / joint.sum()
    made = []
    for clique in cliques:
        table = joint.sum(axis=tuple(i for i, name in enumerate(domain.names) if name not in clique))
        made.append(NoisyMarginal(clique, table + rng.normal(size=table.shape) * sigma, sigma))
    return made


@pytest.mark.parametrize(
    "rules", ["dependency", "all", *(pytest.param(name, marks=pytest.mark.slow) for name in ALIKE)]
)
def test_where_rows_obey_the_tables_are_no_further_off_than_without_rules(fitter, rules):
    domain = Schema(COLUMNS, SETS[rules]).domain
    cliques = [tuple(sorted(pair, key=domain.index)) for pair in PAIRS] + [(name,) for name in domain.names]
    truth = {m.clique: m.values for m in obedient(domain, cliques, sigma=1e-6)}
    off = []
    for own in (domain, dataclasses.replace(domain, rules=None)):
        model = fitter.fit(own, obedient(domain, cliques), total=3000.0)
        found = model.sample(20_000, np.random.default_rng(0))
        tables = []
        for clique, exact in truth.items():
            counts = np.zeros(domain.shape(clique))
            np.add.at(counts, tuple(found.column(name) for name in clique), 1)
            tables.append(np.abs(counts / 20_000 - exact / 3000).sum() / 2)
        off.append(np.mean(tables))
    # Particles meet rules at the end, when each takes the nearest codes that are allowed together; numbers
    # as points make forty rows coarse.
    grouping = fitter.name in ("particles", "relaxed_points")
    # Groups of codes know little of rules about single codes while they are fitted; they are asked for rank
    # correlations of the groups, which drawing codes by a rule changes (0.0058 with a sum, four groups).
    grouped = getattr(fitter, "largest", 512) < 5
    most = 1.05 * off[1] + (0.025 if grouping else 0.006 if grouped else 0.002)
    assert off[0] < most, "rows under rules are further off than without: see docs/extending.md, Rules"


def test_a_dependency_without_a_table_is_read_off_the_noisy_pair():
    schema = Schema(COLUMNS[:2], [Determines("state", "zip")])
    domain = schema.domain
    counts = np.full((6, 4), 0.0)
    counts[np.arange(6), [0, 0, 1, 1, 2, 2]] = 200.0
    rng = np.random.default_rng(0)
    noisy = [NoisyMarginal(("zip", "state"), counts + rng.normal(size=counts.shape) * 20, 20.0)]
    for name in ("independent", "pgm", "mixture", "pmw"):
        model = FITTERS[name].fit(domain, noisy)
        found = model.sample(3000, rng)
        present = found.column("state") < 3
        np.testing.assert_array_equal(found.column("state")[present], found.column("zip")[present] // 2)
        again = FITTERS[name].restore(domain, noisy, model.state()).sample(3000, rng)
        present = again.column("state") < 3
        np.testing.assert_array_equal(again.column("state")[present], again.column("zip")[present] // 2)
    bare = PGM().fit(domain, [NoisyMarginal(("zip",), counts.sum(axis=1), 20.0)])
    assert bare.sample(100, rng).rows == 100


def test_what_rules_forbid_is_known_without_noise():
    """Pairs with half of their cells forbidden come out nearer to the truth than without the rule."""
    columns = [Integer(name=name, lower=0, upper=29, bins=10, missing=False) for name in ("low", "high")]
    rng = np.random.default_rng(0)
    truth = np.triu(rng.dirichlet(np.full(100, 0.5)).reshape(10, 10)) * 3000
    errors = {}
    for rules in ((), (Ordered("low", "high"),)):
        domain = Schema(columns, rules).domain
        off = []
        for seed in range(6):
            noise = np.random.default_rng(seed).normal(size=truth.shape) * 25
            model = PGM().fit(
                domain, [NoisyMarginal(("low", "high"), truth + noise, 25.0)], total=truth.sum()
            )
            off.append(np.abs(model.project(("low", "high")) - truth).sum())
        errors[rules] = np.mean(off)
    assert errors[(Ordered("low", "high"),)] < 0.9 * errors[()]


def test_the_tree_pays_for_the_rules_beforehand():
    domain = Schema(COLUMNS, SETS["all"]).domain
    plain = Domain(domain.names, domain.sizes)
    cliques, more = [("zip", "free")], [("low",), ("low", "free")]
    assert (PGM().cells(domain, cliques, more) > PGM().cells(plain, cliques, more)).all()
    most = int(PGM().cells(plain, cliques, [("low",)])[0])
    PGM(max_cells=most).admit(plain, cliques)
    with pytest.raises(InputError, match="max_cells"):
        PGM(max_cells=most).admit(domain, cliques)


@pytest.mark.slow
@pytest.mark.parametrize("rules", SETS)
def test_a_million_rows_obey(fitted, rules):
    model, domain, _ = fitted(rules)
    assert broken(domain, model.sample(1_000_000, np.random.default_rng(0))) == 0
