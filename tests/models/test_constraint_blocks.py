"""Rules inside the mixture's descent: the objective of tied attributes, and what comes of fitting it."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from margrave.limits import Deadline, Effort
from margrave.models._base.constraints import find_allowed, resolve_dependencies, zero_forbidden
from margrave.models._base.pooling import pool
from margrave.models._mixture.constraint_blocks import (
    ConstraintBlock,
    condition_block,
    constraint_blocks,
    rake_block,
)
from margrave.models._mixture.model import condition_blocks
from margrave.models._mixture.stacked import Stacked, stack
from margrave.models._torch.device import open_device
from margrave.models.mixture import Mixture
from margrave.models.mixture.descent import descend
from margrave.models.mixture.objective import Objective, Point, point
from margrave.models.mixture.tensor import TensorObjective, TensorPoint, descend_tensors
from margrave.release import NoisyMarginal
from margrave.schema.columns import Categorical, Integer
from margrave.schema.constraints.rules import Determines, Forbidden, Ordered
from margrave.schema.domain import Domain
from margrave.schema.schema import Schema

ROWS = 10_000.0
COLUMNS = (
    Categorical(name="zip", values=tuple("abcdef"), missing=False),
    Categorical(name="state", values=("X", "Y", "Z"), missing=False),
    Integer(name="low", lower=0, upper=11, bins=4, missing=False),
    Integer(name="high", lower=0, upper=11, bins=3, missing=True),
    Categorical(name="sex", values=("F", "M"), missing=False),
    Categorical(name="free", values=("p", "q", "r"), missing=False),
)
STATES = Determines("state", "zip", dict(zip("abcdef", "XXYYZZ", strict=True)))
RULES = (STATES, Ordered("low", "high"), Forbidden(("sex", "free"), (("F", "p"), ("M", "q"))))
DOMAIN = Schema(COLUMNS, RULES).domain
CLIQUES = [(name,) for name in DOMAIN.names] + list(itertools.combinations(DOMAIN.names, 2))


def truth(domain: Domain, seed: int = 0) -> np.ndarray:
    """Rows that obey: a mixture of three products on the cells that the rules allow."""
    rng, joint = np.random.default_rng(seed), np.zeros(domain.sizes)
    for _ in range(3):
        part = np.ones(())
        for size in domain.sizes:
            part = part[..., None] * rng.dirichlet(np.full(size, 1.5))
        joint += part
    codes = np.unravel_index(np.arange(joint.size), domain.sizes)
    assert domain.rules is not None
    allowed = domain.rules.possible(dict(zip(domain.names, codes, strict=True)), joint.size)
    joint *= allowed.reshape(domain.sizes)
    return ROWS * joint / joint.sum()


def summed(joint: np.ndarray, clique: tuple[str, ...]) -> np.ndarray:
    return joint.sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in clique))


def measured(sigma: float, cliques=CLIQUES, seed: int = 1) -> list[NoisyMarginal]:
    rng, joint = np.random.default_rng(seed), truth(DOMAIN)
    tables = [(clique, summed(joint, clique)) for clique in cliques]
    return [NoisyMarginal(c, t + sigma * rng.standard_normal(t.shape), sigma) for c, t in tables]


def stacked(cliques=CLIQUES, domain: Domain = DOMAIN) -> Stacked:
    tables = pool(domain, measured(60.0, cliques))
    return stack(domain, zero_forbidden(resolve_dependencies(domain, tables), tables, 1.0), ROWS)


def exact(tables: Stacked, information: float, smoothness: float, components: int = 5) -> Objective:
    """The objective with feasible share in double precision; the kernels take either."""
    made = Objective(tables, components, information, smoothness)
    made.gradient, made._scaled, made._model = (
        np.zeros(part.shape) for part in (made.gradient, made._scaled, made._model)
    )
    return made


def start(tables: Stacked, precision: type = np.float64, components: int = 5) -> Point:
    rng = np.random.default_rng(2)
    logs = rng.standard_normal((tables.codes, components)).astype(precision)
    return point(logs, rng.standard_normal(components), tables.starts)


PARTIAL = [("zip",), ("low",), ("low", "high"), ("zip", "free"), ("high", "sex")]  # nothing of state


@pytest.mark.parametrize("cliques", [CLIQUES, PARTIAL], ids=["all", "some"])
@pytest.mark.parametrize("penalties", [(0.0, 0.0), (200.0, 0.0), (0.0, 300.0), (200.0, 300.0)])
def test_the_gradient_under_rules_is_that_of_the_value(penalties: tuple[float, float], cliques) -> None:
    tables = stacked(cliques)
    at, objective = start(tables), exact(tables, *penalties)
    _, by_weight = objective(at)
    objective.centre()
    gradient, shares, step = objective.gradient.copy(), objective.shares.copy(), 1e-5
    for code, k in itertools.product(range(tables.codes), range(5)):
        ends = []
        for sign in (1.0, -1.0):
            logs = at.logs.copy()
            logs[code, k] += sign * step
            ends.append(objective(point(logs, at.weigh, tables.starts))[0])
        slope = (ends[0] - ends[1]) / (2.0 * step)
        expected = at.weights[k] * shares[code, k] * gradient[code, k]
        assert slope == pytest.approx(expected, rel=2e-4, abs=1e-2), (code, k)
    for k in range(5):
        ends = []
        for sign in (1.0, -1.0):
            weigh = at.weigh.copy()
            weigh[k] += sign * step
            ends.append(objective(point(at.logs, weigh, tables.starts))[0])
        pull = at.weights[k] * (by_weight[k] - at.weights @ by_weight)
        assert (ends[0] - ends[1]) / (2.0 * step) == pytest.approx(pull, rel=1e-4, abs=1e-2)


def test_cells_are_allowed_where_some_row_that_obeys_may_be() -> None:
    """Held against all rows there are, for every set of attributes; a forbidden cell is a 0 that is known."""
    assert DOMAIN.rules is not None
    codes = np.unravel_index(np.arange(np.prod(DOMAIN.sizes)), DOMAIN.sizes)
    rows = DOMAIN.rules.possible(dict(zip(DOMAIN.names, codes, strict=True)), len(codes[0]))
    for clique, allowed in zip(CLIQUES, find_allowed(DOMAIN, CLIQUES), strict=True):
        assert (allowed == (summed(rows.reshape(DOMAIN.sizes).astype(int), clique) > 0)).all(), clique
    tables = pool(DOMAIN, measured(60.0))
    for table, known, allowed in zip(
        tables,
        zero_forbidden(DOMAIN, tables, 10.0),
        find_allowed(DOMAIN, [table.clique for table in tables]),
        strict=True,
    ):
        assert (known.values == np.where(allowed, table.values, 0.0)).all()
        assert (known.sigma == np.where(allowed, table.sigma, table.sigma / 10.0)).all()


def test_the_objective_looks_at_the_tables_that_rows_will_have() -> None:
    tables = stacked()
    at, objective = start(tables), exact(tables, 0.0, 0.0)
    value, _ = objective(at)
    blocks = dict(zip(DOMAIN.names, np.split(at.shares, tables.starts[1:-1]), strict=True))
    expected = 0.0
    for measurement in zero_forbidden(DOMAIN, pool(DOMAIN, measured(60.0)), 1.0):
        joint, names = np.ones((1, 5)), []
        for group in condition_blocks(DOMAIN, blocks):
            if own := group.told(dict.fromkeys(measurement.clique, 0)):
                joint = np.einsum("ak,bk->abk", joint, group.summed(own)).reshape(-1, 5)
                names += own
        table = (joint @ at.weights).reshape([DOMAIN[name] for name in names])
        table = table.transpose([names.index(name) for name in measurement.clique])
        expected += float((((ROWS * table - measurement.values) / measurement.sigma) ** 2).sum())
    assert value == pytest.approx(expected, rel=1e-4)  # measurements are held in single precision


def test_an_attribute_that_follows_from_another_is_paid_for_once() -> None:
    rest = tuple(name for name in DOMAIN.names if name != "state")
    cliques = [clique for clique in CLIQUES if "state" not in clique]
    plain = Schema([column for column in COLUMNS if column.name != "state"], RULES[1:]).domain
    with_it, without = stacked(cliques), stacked(cliques, plain)
    at = start(without)
    split = np.split(at.logs, without.starts[1:-1])
    logs = dict(zip(rest, split, strict=True)) | {"state": np.full((3, 5), -np.log(3.0))}
    there = point(np.concatenate([logs[name] for name in DOMAIN.names]), at.weigh, with_it.starts)
    values = [exact(t, 300.0, 0.0)(p)[0] for t, p in ((without, at), (with_it, there))]
    assert values[1] == pytest.approx(values[0], rel=1e-6)


def test_conditioning_is_that_of_the_product_on_the_allowed_cells() -> None:
    rng = np.random.default_rng(0)
    for constraint in constraint_blocks(DOMAIN):
        blocks = [rng.dirichlet(np.ones(size), size=4).T for size in constraint.sizes]
        found = condition_block(constraint, blocks)
        expected = constraint.feasible_shares[:, None] * np.prod(
            [b[c] for b, c in zip(blocks, constraint.codes, strict=True)], axis=0
        )
        np.testing.assert_allclose(found, expected / expected.sum(axis=0), rtol=1e-12)
    assert {constraint.names for constraint in constraint_blocks(DOMAIN)} == {
        ("zip", "state"),
        ("low", "high"),
        ("sex", "free"),
    }
    assert constraint_blocks(dataclasses.replace(DOMAIN, rules=None)) == ()


def test_conditioning_of_a_component_that_no_allowed_cell_likes_stays_finite() -> None:
    constraint = ConstraintBlock(("a", "b"), (2, 2), np.array([[0, 1], [1, 0]]), np.ones(2))
    none = [np.array([[1.0], [0.0]]), np.array([[1.0], [0.0]])]
    np.testing.assert_allclose(condition_block(constraint, none), 0.5)


def test_raking_keeps_one_ways_that_the_rules_allow() -> None:
    constraint = next(
        constraint for constraint in constraint_blocks(DOMAIN) if constraint.names == ("low", "high")
    )
    cells = np.random.default_rng(3).dirichlet(np.ones(constraint.codes.shape[1]), size=6).T
    wanted = [
        np.stack([np.bincount(code, weights=cell, minlength=size) for cell in cells.T], axis=1)
        for code, size in zip(constraint.codes, constraint.sizes, strict=True)
    ]
    before, after = (
        condition_block(constraint, wanted),
        condition_block(constraint, rake_block(constraint, wanted, np.full(6, 1 / 6))),
    )
    gaps = [
        np.abs(np.bincount(constraint.codes[0], weights=table[:, k], minlength=4) - wanted[0][:, k]).sum()
        for table in (before, after)
        for k in range(6)
    ]
    assert max(gaps[6:]) < 0.01 < max(gaps[:6])


@pytest.mark.parametrize("sigma", [20.0, 100.0])
def test_rules_bring_the_model_nearer_to_the_rows_inside_and_outside(sigma: float) -> None:
    joint, off = truth(DOMAIN), []
    groups = [set(constraint.names) for constraint in constraint_blocks(DOMAIN)]
    for domain in (dataclasses.replace(DOMAIN, rules=None), DOMAIN):
        errors: dict[bool, list[float]] = {True: [], False: []}
        for seed in range(2):
            model = Mixture(components=20).fit(domain, measured(sigma, seed=seed), total=ROWS)
            for clique in itertools.combinations(DOMAIN.names, 2):
                tied = any(set(clique) <= group for group in groups)
                errors[tied].append(np.abs(model.project(clique) - summed(joint, clique)).sum() / 2 / ROWS)
        off.append({tied: np.mean(found) for tied, found in errors.items()})
    assert off[1][True] < 0.7 * off[0][True]
    assert off[1][False] < off[0][False]


def test_without_a_step_one_ways_are_those_measured_within_the_rules() -> None:
    late, joint = Mixture().fit(DOMAIN, measured(20.0), effort=Effort(deadline=Deadline(0.0))), truth(DOMAIN)
    for name in DOMAIN.names:
        assert np.abs(late.project((name,)) - summed(joint, (name,))).sum() / 2 < 0.02 * ROWS
    assert late.project(("zip", "state"))[0, 1:].sum() == 0.0


needs_torch = pytest.mark.needs_extra("torch")


@needs_torch
@pytest.mark.parametrize("cliques", [CLIQUES, PARTIAL], ids=["all", "some"])
def test_tied_attributes_on_a_device_are_those_of_the_kernels(cliques) -> None:
    tables, on = stacked(cliques), open_device("torch-cpu")
    assert on is not None
    at, ours = start(tables), exact(tables, 200.0, 300.0)
    theirs = TensorObjective(tables, 200.0, 300.0, on, double=True)
    value, by_weight = ours(at)
    there = TensorPoint(*(on.put(p, on.torch.float64) for p in (at.logs, at.weigh, at.shares, at.weights)))
    found, pulls, gradient = theirs(there)
    assert float(found) == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(pulls.numpy(), by_weight, rtol=1e-8, atol=1e-6)
    np.testing.assert_allclose(gradient.numpy(), ours.gradient, rtol=1e-8, atol=1e-6)
    one, two = start(tables), start(tables)
    first = descend(exact(tables, 300.0, 100.0), one, 60, 0.1)
    second = descend_tensors(TensorObjective(tables, 300.0, 100.0, on, double=True), two, 60, 0.1)
    assert second.value == pytest.approx(first.value, rel=1e-5)
    assert second.gap == pytest.approx(first.gap, rel=1e-3)
    np.testing.assert_allclose(two.shares, one.shares, rtol=1e-4, atol=1e-9)
