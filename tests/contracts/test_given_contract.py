"""Rows given codes of their own, for every model: a whole table of them, against the joint written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from families import DELEGATING, PUBLIC, add_estimators
from scipy.stats import chi2
from torch_fitters import SMALL, SMALL_NAMES

from margrave.errors import InputError, SchemaError
from margrave.models.independent import Independent
from margrave.models.mixture.fitter import Mixture
from margrave.models.pgm.fitter import PGM
from margrave.models.pgm.multiplicative_weights import PMW
from margrave.models.rowwise.genetic import Genetic
from margrave.models.rowwise.gum import GUM
from margrave.models.rowwise.residual import Residual
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

DOMAIN = Domain(("a", "b", "one", "c", "d"), (3, 4, 1, 2, 5))
CLIQUES = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("a",)]
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
    "pgm tree": PGM(),
    "mixture": Mixture(components=6, refinements=0),
    "grouped": Mixture(components=6, refinements=0, largest=3),
}
FITTERS = add_estimators(OWN, ELSEWHERE)
"""Every estimator of the registry that learns from marginals, but for those of ELSEWHERE."""
GIVEN = [("d",), ("a", "c"), ("one",), ("b", "c", "d"), ("a", "b", "one", "d"), DOMAIN.names]


def measured(cliques):
    rng = np.random.default_rng(5)
    joint = 400 * rng.dirichlet(np.full(120, 0.4)).reshape(DOMAIN.sizes)
    made = []
    for clique in cliques:
        gone = tuple(i for i, name in enumerate(DOMAIN.names) if name not in clique)
        kept = DOMAIN.canonical(clique)
        made.append(
            NoisyMarginal(clique, joint.sum(axis=gone).transpose([kept.index(n) for n in clique]), 1.0)
        )
    return made


@pytest.fixture(scope="module", params=[*FITTERS, *SMALL_NAMES])
def model(request):
    tree = request.param == "pgm tree"
    fitter = SMALL[request.param]() if request.param in SMALL else FITTERS[request.param]
    return fitter.fit(DOMAIN, measured(CLIQUES[:3] if tree else CLIQUES))


def given_rows(names, rows, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, DOMAIN[name], rows) for name in names}


def worst(model, names, rows, seed):
    """The p-value of all rows' counts against the conditionals, and whether the given codes came back."""
    given = given_rows(names, rows, seed)
    found = model.sample(rows, np.random.default_rng(seed + 1), given)
    same = all((found.column(name) == codes).all() for name, codes in given.items())
    joint = model.project(DOMAIN.names)
    places = [DOMAIN.index(name) for name in names]
    gone = tuple(i for i in range(len(DOMAIN)) if i not in places)
    held = np.bincount(
        np.ravel_multi_index([given[n] for n in names], DOMAIN.shape(names)), minlength=DOMAIN.size(names)
    ).reshape(DOMAIN.shape(names))
    shape = [held.shape[names.index(n)] if n in names else 1 for n in DOMAIN.names]
    axes = np.argsort(places)
    asked = held.transpose(axes).reshape(shape)
    expected = conditional(joint, gone) * asked
    cells = np.ravel_multi_index([column.astype(int) for column in found.columns], DOMAIN.sizes)
    counts = np.bincount(cells, minlength=DOMAIN.size()).reshape(DOMAIN.sizes)
    enough = expected >= 5
    statistic = float(((counts - expected)[enough] ** 2 / expected[enough]).sum())
    freedom = max(int(enough.sum()) - int((held > 0).sum()), 1)
    assert (counts[(expected == 0) & (joint.sum(axis=gone, keepdims=True) > 0)] == 0).all()
    return float(chi2.sf(statistic, freedom)), same


def conditional(joint, gone):
    """The joint given the attributes that stay; 0 where what is given has no probability."""
    whole = joint.sum(axis=gone, keepdims=True)
    return joint / np.where(whole > 0, whole, 1.0)


@pytest.mark.parametrize("names", GIVEN, ids="+".join)
def test_each_row_has_its_own_codes_and_the_rest_is_conditional(model, names):
    likely, same = worst(model, names, 20_000, 3)
    assert same
    assert likely > 1e-6


def test_one_code_for_all_and_codes_by_row_go_together(model):
    own = np.arange(600) % 5
    found = model.sample(600, np.random.default_rng(0), {"a": 1, "d": own})
    assert (found.column("a") == 1).all()
    assert (found.column("d") == own).all()
    assert len(set(zip(*[c.tolist() for c in found.columns], strict=True))) > 20


def test_no_rows_and_one_row(model):
    assert model.sample(0, np.random.default_rng(0), {"d": np.zeros(0, dtype=int)}).rows == 0
    assert model.sample(1, np.random.default_rng(0), {"d": np.array([4])}).column("d").tolist() == [4]


@pytest.mark.parametrize(
    "codes", [np.array([0, 5, 1]), np.array([0, -1, 1]), np.array([0, 1]), np.array([0.0, 1.0, 2.0])]
)
def test_codes_that_do_not_fit_are_refused(model, codes):
    with pytest.raises(InputError, match="given"):
        model.sample(3, np.random.default_rng(0), {"d": codes})
    with pytest.raises(SchemaError):
        model.sample(3, np.random.default_rng(0), {"z": np.array([0, 1, 2])})


@pytest.mark.slow
def test_every_set_of_given_columns(model):
    for width in range(1, 6):
        for names in itertools.combinations(DOMAIN.names, width):
            likely, same = worst(model, names, 60_000, width)
            assert same
            assert likely > 1e-7, names


@pytest.mark.parametrize("names", [("d",), ("a", "d"), ("b",)], ids="+".join)
def test_a_target_is_given_exactly(names):
    fitter = Mixture(components=6, refinements=0, target="d")
    model = fitter.fit(DOMAIN, measured(CLIQUES))
    rows = 20_000
    given = given_rows(names, rows)
    found = model.sample(rows, np.random.default_rng(1), given)
    for name, codes in given.items():
        np.testing.assert_array_equal(found.column(name), codes)
    # The joint of a targeted mixture: the mixture's others, times the additive model of the target.
    others = tuple(name for name in DOMAIN.names if name != "d")
    cells = np.unravel_index(np.arange(DOMAIN.size(others)), DOMAIN.shape(others))
    shares = model.refinements.steps[-1].probabilities(dict(zip(others, cells, strict=True)))
    joint = (model.project(others).ravel()[:, None] * shares).reshape(DOMAIN.sizes)
    places = [DOMAIN.index(name) for name in names]
    gone = tuple(i for i in range(len(DOMAIN)) if i not in places)
    held = np.bincount(np.ravel_multi_index([given[n] for n in names], DOMAIN.shape(names)))
    shape = [DOMAIN[n] if n in names else 1 for n in DOMAIN.names]
    expected = joint / joint.sum(axis=gone, keepdims=True) * held.reshape(shape)
    counts = np.zeros(DOMAIN.size())
    np.add.at(counts, np.ravel_multi_index([c.astype(int) for c in found.columns], DOMAIN.sizes), 1)
    enough = expected.ravel() >= 5
    statistic = float(((counts - expected.ravel())[enough] ** 2 / expected.ravel()[enough]).sum())
    if "d" in names:
        assert chi2.sf(statistic, int(enough.sum())) > 1e-6
    else:
        # Codes of a target that is not given are swapped between rows of like probabilities until its pairs
        # fit. So its cells are off by more than chance, by little: in chi-square less than 1 % of the rows.
        assert statistic - enough.sum() < 0.01 * rows
