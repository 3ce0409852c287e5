"""An extension as somebody else would write it: a selector, a generator, a metric, a column kind and a verb.

It imports public names of margrave only. `register` is what its entry point names.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from margrave.errors import InputError, ReleaseError, invalid
from margrave.evaluation.metrics.registry import register_metric
from margrave.evaluation.score import Facts
from margrave.limits import Effort
from margrave.measure.mechanisms.verb import Verb
from margrave.methods import Method, register_method
from margrave.models import Estimator, Model
from margrave.models.registry import register_estimator
from margrave.progress import Step
from margrave.schema.columns import Listed
from margrave.schema.schema import register_column
from margrave.select import Strategy
from margrave.select.strategy import MEASURE, ONE, ONE_WAYS, PAIR, Holdings, Shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating(Listed):
    """Stars from 1 to `stars`, in order: a kind of columns."""

    kind: ClassVar[str] = "rating"
    derived: ClassVar[frozenset[str]] = frozenset({"values"})
    stars: int = 5

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(range(1, self.stars + 1)))
        Listed.__post_init__(self)

    @property
    def ordered(self) -> int:
        """All stars stand in order."""
        return self.stars


@dataclass(frozen=True)
class RowsAbove(Verb):
    """How many rows have a code of an attribute of at least `code`: a verb.

    **Privacy.** A row counts 0 or 1. Under add_remove a unit brings or takes up to k rows, so the number
    moves by k at most; under replace_one each of up to k rows may change from 0 to 1 or back: k again. So
    k^2 in squared L2 in both cases.
    """

    attribute: str
    code: int

    @property
    def words(self) -> str:
        return f"rows with {self.attribute} of {self.code} or more"

    @property
    def cliques(self) -> Sequence[tuple[str, ...]]:
        return [(self.attribute,)]

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def l2_squared(self, neighbours: Any) -> int:
        return int(neighbours.unit.max_rows**2)

    def exact(self, tables: Sequence[Any]) -> Any:
        return np.asarray(tables[0][self.code :].sum())


@dataclass(frozen=True)
class Chain(Strategy):
    """One-ways, one number, and the pairs of neighbouring columns: a selector."""

    ones: Fraction = Fraction(1, 4)
    name: ClassVar[str] = "chain"
    gaussian_only: ClassVar[bool] = True

    def split_rho(self, counted: bool) -> Shares:
        return {ONE_WAYS: self.ones, "a number": Fraction(1, 20), MEASURE: Fraction(19, 20) - self.ones}

    def share_marginal(self, columns: int) -> Shares:
        split = self.split_rho(True)
        return {ONE: split[ONE_WAYS] / columns, PAIR: split[MEASURE] / max(columns - 1, 1)}

    def expect_holdings(self, sizes: Sequence[int], signal: float) -> Holdings:
        cells = float(sum(sizes) + sum(a * b for a, b in itertools.pairwise(sizes)))
        return Holdings(cells, 2 * len(sizes) - 1, cells)

    def run(self, curator: Any, fitter: Any, on_step: Any, deadline: Any = None) -> Any:
        domain, split, rho = curator.domain, self.split_rho(True), curator.remaining
        pairs = list(itertools.pairwise(domain.names)) or [(domain.names[0],)]
        fitter.admit(domain, pairs)
        curator.measure([(name,) for name in domain.names], rho * split[ONE_WAYS] / len(domain))
        number, sigma = curator.answer(RowsAbove(domain.names[0], 1), rho * split["a number"])
        on_step(Step("measure", f"{float(number):.0f} rows, give or take {sigma:.0f}", 0, curator.progress))
        curator.measure(pairs, curator.remaining / len(pairs))
        effort = Effort(deadline=deadline)
        return fitter.fit(domain, curator.measurements, total=curator.public_rows, effort=effort)


class JointTable(Model):
    """Every cell of a small domain: a model."""

    def __init__(self, domain: Any, table: Any) -> None:
        self._domain, self._table = domain, table

    @property
    def domain(self) -> Any:
        return self._domain

    @property
    def total(self) -> float:
        return float(self._table.sum())

    def project(self, clique: Sequence[str]) -> Any:
        if len(set(clique)) < len(clique):
            raise InputError(invalid("clique", "without repeats", "Name each attribute once.", got=clique))
        places = [self.domain.index(name) for name in clique]
        gone = tuple(place for place in range(len(self.domain)) if place not in places)
        order = sorted(places)
        return self._table.sum(axis=gone).transpose([order.index(place) for place in places])

    def draw_rows(self, rows: int, given: Mapping[str, Any], rng: Any, deadline: Any = None) -> Any:
        names, found = self.domain.names, np.zeros((len(self.domain), rows), dtype=np.int64)
        asked = np.array([np.broadcast_to(given[name], rows) for name in given]).reshape(len(given), rows)
        distinct, group = np.unique(asked, axis=1, return_inverse=True)
        for place in range(distinct.shape[1]):
            mine = np.flatnonzero(group.ravel() == place)
            index: list[Any] = [slice(None)] * len(names)
            for name, code in zip(given, distinct[:, place], strict=True):
                index[names.index(name)] = slice(int(code), int(code) + 1)
            part = self._table[tuple(index)] + 1e-12
            cells = rng.choice(part.size, size=len(mine), p=part.ravel() / part.sum())
            found[:, mine] = np.array(np.unravel_index(cells, part.shape))
            for name, code in zip(given, distinct[:, place], strict=True):
                found[names.index(name), mine] = code
        return list(found)

    def state(self) -> dict[str, Any]:
        return {"table": self._table}


@dataclass(frozen=True, slots=True)
class Scaling(Estimator[JointTable]):
    """Iterative proportional fitting of a whole small table: a generator."""

    rounds: int = 20
    max_cells: int = 100_000
    name: ClassVar[str] = "scaling"

    def fit_tables(self, domain: Any, tables: Any, rows: float, warm: Any, effort: Any) -> JointTable:
        self.admit(domain, [])
        joint = np.full(domain.sizes, rows / domain.size(domain.names))
        for _ in range(self.rounds):
            for table in tables:
                model = JointTable(domain, joint).project(table.clique)
                wanted = np.maximum(table.values, 0.0) + 1e-9
                ratio = wanted * (rows / wanted.sum()) / np.maximum(model, 1e-300)
                joint = joint * ratio.reshape(_spread(domain, table.clique))
        return JointTable(domain, joint)

    def restore_model(self, domain: Any, measurements: Any, state: Mapping[str, Any]) -> JointTable:
        table = np.asarray(state.get("table", ()), dtype=np.float64)
        if table.shape != domain.sizes or not (np.isfinite(table).all() and (table >= 0).all()):
            raise ReleaseError(invalid("state", "a table over the domain", "The release is damaged."))
        return JointTable(domain, table)

    def admit(self, domain: Any, cliques: Any) -> None:
        cells = domain.size(domain.names)
        if cells > self.max_cells:
            raise InputError(invalid("cells", f"at most {self.max_cells}", "Use fewer bins.", got=cells))


def _spread(domain: Any, clique: Sequence[str]) -> list[int]:
    """The shape of a table over a clique, in the domain's order, beside the whole table."""
    return [size if name in clique else 1 for name, size in zip(domain.names, domain.sizes, strict=True)]


@dataclass(frozen=True)
class CodesLost:
    """The share of codes with real rows that no synthetic row has: a metric."""

    facts: ClassVar[Facts] = Facts(
        "codes_lost",
        "Share of the codes of all columns that real rows have and no synthetic row has.",
        title="Codes lost",
        group="Single columns",
        source="folklore",
        cost="one table of counts a column",
        reads="rows",
        single_columns=True,
    )

    def run(self, task: Any) -> Any:
        cliques = [(name,) for name in task.schema.domain.names]
        pairs = zip(task.real.count(cliques), task.synthetic.count(cliques), strict=True)
        lost = [(int(((a > 0) & (b == 0)).sum()), int((a > 0).sum())) for a, b in pairs]
        had = sum(there for _, there in lost)
        return self.facts.score(sum(gone for gone, _ in lost) / max(had, 1), f"{len(lost)} columns")


def register() -> None:
    """Make all of it known by name."""
    register_column(Rating)
    register_estimator("scaling", __name__, "Scaling")
    register_method(
        Method("toy", Chain, "scaling", "Neighbouring pairs, and the whole table scaled to them.", "folklore")
    )
    register_metric(CodesLost())
