"""Refined attributes: a mixture whose attributes of few codes are drawn, each given all others, from additive
models.

A mixture spends components on what a refined attribute owes to each attribute, and refined attributes are
what people train classifiers on. The log-odds of one are nearly additive, and the released pairs with it say
what each attribute adds. So rows come from the mixture, and then one refined attribute after another is drawn
anew from p(y | x) of `margrave.models._mixture.additive`, fitted to rows of the mixture in which the refined
attributes before it are drawn already. Each step keeps the pairs of all other attributes, and brings those of
its own to what was released.

An additive model knows how each attribute moves a refined attribute, not that two of them do so together, as
in c = a xor b. Where the table of all three was measured, (a, b) is one more attribute of the additive model,
whose codes are the pairs of codes, and the table is its pair with the refined attribute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.limits import Deadline
from margrave.models._base.constraints import Evidence, by_row, pick_evidence
from margrave.models._base.pooling import Pooled, dependence, one_ways
from margrave.models._mixture.additive import (
    MOST_ROWS,
    Additive,
    drawn_from,
    extend_domain,
    fit_additive,
    join_pairs,
    rank_alike,
)
from margrave.models._mixture.latent_blocks import CHUNK, LatentBlock
from margrave.models._mixture.model import MixtureModel
from margrave.models._mixture.rows import PASSES
from margrave.models._sampling.balance import balance_column, sum_by_code
from margrave.models._sampling.rounding import order_by_group
from margrave.models._sampling.triples import expect_triples
from margrave.release import project_simplex
from margrave.schema.domain import Clique, Domain

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Columns = dict[str, Longs]
CodeColumns = Mapping[str, NDArray[np.integer[Any]]]
T = TypeVar("T")


MIN_SAMPLE_ROWS, ROWS_A_CODE = 1 << 16, 1 << 12
"""Rows of the mixture that the additive models are fitted on and expectations are taken over:
MIN_SAMPLE_ROWS, or ROWS_A_CODE for every attribute if more, as each has potentials of its own; never more
than a fit looks at. A part of more rows would not have the pairs of the whole: refined attributes' pairs were
then a fifth further off on a large table. So many rows need no balancing."""
CELLS, MIN_CAPPED_ROWS = 6 << 20, 1 << 15
"""Where so many rows had more than CELLS codes: CELLS over the attributes, or MIN_CAPPED_ROWS."""
TOLERANCE = 3e-4
"""Of the additive fits: the L1 norm of the gradient over one table, in probability."""
WIDTH, MIN_REFINEMENTS = 64, 4
"""At most WIDTH / attributes refined attributes are chosen, or MIN_REFINEMENTS if more: each costs time
as the attributes grow."""
PROPOSALS = 32
"""Rows drawn for each row that is chosen by importance."""
ROUNDS, MAX_PROPOSAL_ROWS = 12, 1 << 20
"""How often rows are drawn for given refined attributes, every time twice as many for each, and how many at
most."""


def fit_conditional(
    domain: Domain,
    target: str,
    tables: Sequence[Pooled],
    total: float,
    columns: CodeColumns,
) -> tuple[Additive, Floats]:
    """The conditional that explains the refined attribute's pairs and triples, with the refined attribute's
    own measured shares; and its probabilities in the rows, shape [rows, refined attribute's codes].

    See `fit_additive`; the shares are the nearest distribution to all that was measured of the refined
    attribute's own counts, with one row for each code at least.

    Args:
        domain: Names and sizes of all attributes.
        target: The refined attribute.
        tables: Noisy counts, of which the refined attribute's own, its pairs and its triples count.
        total: Rows the tables stand for.
        columns: Codes of the other attributes in rows that stand for their distribution, shape [rows] each.
    """
    triples = [table for table in tables if len(table.clique) == 3 and target in table.clique]
    pairs = tuple(tuple(name for name in table.clique if name != target) for table in triples)
    extended = extend_domain(domain, pairs)
    joint = extended.names[len(domain) :]
    own = [_as_pair(table, target, name) for table, name in zip(triples, joint, strict=True)]
    rows = join_pairs(extended, pairs, columns)
    fitted = fit_additive(extended, target, [*tables, *own], total, rows, tolerance=TOLERANCE)
    fitted = replace(fitted, pairs=pairs)
    counts = one_ways(tables).get(target)
    if counts is None:
        return fitted, fitted.probabilities(columns)
    sum_of_counts = max(float(counts.values.sum()), 1.0)
    nearest = project_simplex(counts.values / sum_of_counts, (counts.sigma / sum_of_counts) ** 2)
    wanted = np.maximum(nearest, 1.0 / max(total, 2.0))
    return fitted.with_shares(columns, wanted / wanted.sum())


def _as_pair(table: Pooled, target: str, joint: str) -> Pooled:
    """A triple's table as that of the joint pair and the refined attribute."""
    axis = table.clique.index(target)
    width = table.values.shape[axis]
    values, sigma = (np.moveaxis(part, axis, -1).reshape(-1, width) for part in (table.values, table.sigma))
    return Pooled((joint, target), values, sigma)


class Refinable(Protocol):
    """A model some of whose attributes may be drawn anew given the others."""

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""

    @property
    def total(self) -> float:
        """The number of rows that the model stands for."""

    @property
    def latent_blocks(self) -> Sequence[LatentBlock]:
        """Attributes that share states of their own: they are not refined."""

    def project(self, clique: Clique) -> Floats:
        """The marginal of a clique, in rows."""

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The marginals of many cliques."""

    def draw_unrefined(
        self,
        rows: int,
        rng: np.random.Generator,
        evidence: Evidence,
        deadline: Deadline | None = None,
        balanced: bool = True,
    ) -> list[Longs]:
        """Rows in which nothing is drawn anew, each column of shape [rows].

        balanced: whether they are moved towards the model's tables of pairs.
        """

    def find_probability(self, columns: Mapping[str, Longs], asked: Mapping[str, Longs]) -> Floats:
        """p(attributes asked for | all other codes) of each row without refinements, shape [rows]."""


class Refinements:
    """How some attributes are drawn given the others, one after another.

    Args:
        model: What the others are drawn from.
        steps: p(refined attribute | all others) of each refined attribute, in the order of drawing.
        seed: Of the reference rows.
    """

    def __init__(self, model: Refinable, steps: Sequence[Additive], seed: int) -> None:
        self.steps: tuple[Additive, ...] = ()
        self.seed = seed
        self._domain = model.domain
        self._columns = _reference(model, seed)
        self._shares: list[NDArray[np.float32]] = []
        self._follow(steps, lambda step: (step, step.probabilities(_without(self._columns, step.target))))

    @classmethod
    def learn(
        cls, model: Refinable, names: Sequence[str], tables: Sequence[Pooled], seed: int
    ) -> Refinements:
        """Refined attributes, each with an additive model of its released pairs over the reference rows.

        Args:
            model: What the others are drawn from.
            names: The refined attributes, in the order of drawing.
            tables: What was measured.
            seed: Of the reference rows.
        """
        found = cls(model, (), seed)

        def fit(name: str) -> tuple[Additive, Floats]:
            later = {*names[names.index(name) + 1 :]}
            # A triple is kept by the last of its attributes to be drawn.
            own = [table for table in tables if len(table.clique) != 3 or later.isdisjoint(table.clique)]
            rest = _without(found._columns, name)
            return fit_conditional(model.domain, name, own, model.total, rest)

        found._follow(names, fit)
        return found

    def _follow(self, wanted: Sequence[T], fit: Callable[[T], tuple[Additive, Floats]]) -> None:
        """Take in refined attributes one after another; `fit` gives each with its probabilities in the
        reference rows, in which those before it are drawn anew. Nothing asks for the last one's own codes."""
        exact: Floats = np.empty((0, 0))
        for place, one in enumerate(wanted):
            if place > 0:
                generator = np.random.default_rng([self.seed, MIN_SAMPLE_ROWS, place - 1])
                self._columns = _redraw(self.steps[-1], self._columns, exact, generator)
            step, exact = fit(one)
            self._shares.append(exact.astype(np.float32))
            self.steps += (step,)

    @property
    def names(self) -> tuple[str, ...]:
        """The refined attributes, in the order of drawing."""
        return tuple(step.target for step in self.steps)

    def project(self, clique: Clique) -> Floats:
        """The marginal of a clique with a refined attribute, in proportions, over the reference rows.

        The refined attribute drawn last counts by its probabilities, all else by the rows' codes.
        """
        refined = self.names
        place = max(refined.index(name) for name in clique if name in refined)
        last, shares = refined[place], self._shares[place]
        others = [name for name in clique if name != last]
        shape = self._domain.shape(others)
        cells = np.zeros(len(shares), np.int64) + self._key(self._columns, others)
        size = int(np.prod(shape))
        [table] = sum_by_code(cells[None], [size], shares)
        full = table.reshape(*shape, -1) / len(shares)
        return np.asarray(np.moveaxis(full, -1, clique.index(last)))

    def draw(
        self,
        model: Refinable,
        rows: int,
        rng: np.random.Generator,
        evidence: Evidence,
        deadline: Deadline | None = None,
    ) -> list[Longs]:
        """Rows of the mixture with the refined attributes drawn anew; `deadline` as for `rows.draw`.

        Where refined attributes are given, rows are drawn without them until theirs are those that are
        wanted, which is exact. What is left after ROUNDS, rows with refined attributes that are rare given
        the rest, is chosen among PROPOSALS each by importance, which is exact in the limit of many.
        """
        asked = [name for name in self.names if name in evidence]
        if not asked:
            return self._joint(model, rows, rng, evidence, deadline)
        wanted = self._key({name: np.broadcast_to(evidence[name], rows) for name in asked}, asked)
        rest = {name: codes for name, codes in evidence.items() if name not in asked}
        found = [np.zeros(rows, dtype=np.int64) for _ in self._domain.names]
        left = np.arange(rows)
        for turn in range(ROUNDS):
            if not len(left):
                break
            owners = np.resize(left, min(len(left) << (turn + 1), MAX_PROPOSAL_ROWS + len(left)))
            fresh = self._joint(model, len(owners), rng, pick_evidence(rest, owners), deadline)
            have = self._key(dict(zip(self._domain.names, fresh, strict=True)), asked)
            if not by_row(rest):
                owners = _owners(have, left, wanted)
            good = np.flatnonzero((owners >= 0) & (have == wanted[owners]))
            mended, first = np.unique(owners[good], return_index=True)
            for column, values in zip(found, fresh, strict=True):
                column[mended] = values[good[first]]
            left = np.setdiff1d(left, mended, assume_unique=True)
        for start in range(0, len(left), CHUNK):
            some = left[start : start + CHUNK]
            mended_rows = self._weigh_proposals(model, rng, pick_evidence(evidence, some), len(some))
            for column, values in zip(found, mended_rows, strict=True):
                column[some] = values
        return found

    def _key(self, columns: Mapping[str, NDArray[Any]], names: Sequence[str]) -> Longs:
        """One number for the codes of some attributes, shape [rows], or [1] for none."""
        key = np.zeros(1, dtype=np.int64)
        for name in names:
            key = key * self._domain[name] + columns[name]
        return key

    def _joint(
        self,
        model: Refinable,
        rows: int,
        rng: np.random.Generator,
        evidence: Evidence,
        deadline: Deadline | None,
    ) -> list[Longs]:
        """Rows of the mixture with all refined attributes drawn given the others."""
        drawn = model.draw_unrefined(rows, rng, evidence, deadline)
        columns, _ = self._redraw_all(drawn, {}, rng)
        return [columns[name] for name in self._domain.names]

    def _redraw_all(
        self, drawn: Sequence[Longs], asked: Mapping[str, Longs], rng: np.random.Generator
    ) -> tuple[Columns, Floats]:
        """Rows of the mixture with all refined attributes drawn given the others but those that are asked
        for, and the log-likelihood of the codes of these, shape [rows]."""
        columns, logs = dict(zip(self._domain.names, drawn, strict=True)), np.zeros(len(drawn[0]))
        for step in self.steps:
            shares = step.probabilities(_without(columns, step.target))
            if step.target in asked:
                own = np.take_along_axis(shares, asked[step.target][:, None], axis=1)[:, 0]
                logs += np.log(np.maximum(own, 1e-300))
            else:
                columns = _redraw(step, columns, shares, rng)
        return columns, logs

    def _weigh_proposals(
        self, model: Refinable, rng: np.random.Generator, evidence: Evidence, rows: int
    ) -> list[Longs]:
        """Rows with given refined attributes: the mixture's own given them, chosen by importance."""
        owners = np.repeat(np.arange(rows), PROPOSALS)
        given = {name: np.broadcast_to(own, rows)[owners] for name, own in evidence.items()}
        proposed = model.draw_unrefined(len(owners), rng, given)
        asked = {name: given[name] for name in self.names if name in given}
        # Importance weights: the conditionals of the given codes over the mixture's own, by which rows came.
        own = model.find_probability(dict(zip(self._domain.names, proposed, strict=True)), asked)
        columns, logs = self._redraw_all(proposed, asked, rng)
        logs -= np.log(own)
        # The largest of log weight plus Gumbel noise is a draw in proportion to the weights.
        best = (logs + rng.gumbel(size=len(logs))).reshape(rows, PROPOSALS).argmax(axis=1)
        kept = np.arange(rows) * PROPOSALS + best
        return [columns[name][kept] for name in self._domain.names]

    def state(self) -> dict[str, Floats]:
        """Arrays for `restore_refinements`."""
        found: dict[str, Floats] = {
            "labels": np.array([self._domain.index(name) for name in self.names], dtype=np.float64),
            "labels_seed": np.asarray(float(self.seed)),
        }
        for place, step in enumerate(self.steps):
            found |= {f"label_{place}_{key}": value for key, value in step.state().items()}
        return found


def choose_refinements(
    model: Refinable, tables: Sequence[Pooled], codes: int, target: str | None, given: Collection[str] = ()
) -> list[str]:
    """Which attributes are refined attributes, in the order of drawing: those with the fewest codes, the
    target last.

    Among attributes of as many codes, those that depend most on others come first when they are chosen and
    are drawn last.

    Args:
        model: The mixture.
        tables: What was measured, and inferred. An attribute of which no pair was measured, of which a rule
            speaks, or that is in a latent block, is no refined attribute; nor is one of more pairs of which
            nothing but the rank product was measured, as an additive model of the others would lose these.
            Of each triple one attribute is, however many codes it has, unless all have rules; see
            `with_triples`.
        codes: How many codes the refined attributes may have together, the target's not counted.
        target: The attribute that rows are meant to predict, if it is known.
        given: Attributes whose codes rows have already: no refined attributes.
    """
    domain = model.domain
    pairs = [table for table in tables if len(table.clique) == 2]
    paired = Counter(name for table in pairs if not table.inferred for name in table.clique)
    ranked = [table for table in pairs if table.inferred and table.product is not None]
    alone = Counter(name for table in ranked for name in table.clique)
    known = {name for name, count in paired.items() if count >= alone[name]}
    nested = {name for latent_block in model.latent_blocks for name in latent_block.names}
    ruled = set(given) if domain.rules is None else {*given, *domain.rules.names}
    able = [n for n in domain.names if n in known - nested - ruled and n != target and 1 < domain[n] <= codes]
    tied = _dependence(model, able)
    able.sort(key=lambda name: (domain[name], -tied[name]))
    picked_: list[str] = []
    for name in able[: max(WIDTH // len(domain), MIN_REFINEMENTS)]:
        if domain[name] + sum(domain[n] for n in picked_) <= codes:
            picked_.append(name)
    triples = [table.clique for table in tables if len(table.clique) == 3]
    later = {name: (name in nested, domain[name]) for name in domain.names if name not in ruled}
    # Those chosen first are drawn last, so that they see all others as they finally are.
    return with_triples(picked_[::-1] + ([] if target is None else [target]), triples, later)


def with_triples(
    order: Sequence[str], triples: Sequence[Clique], allowed: Mapping[str, tuple[bool, int]]
) -> list[str]:
    """The refined attributes in the order of drawing, with one more for each triple that has no refined
    attribute to itself.

    A triple is held by the last of its attributes to be drawn. One refined attribute cannot hold two triples:
    what two pairs of attributes say about it, each by itself, need not go together.

    Args:
        order: Refined attributes in the order of drawing.
        triples: Attributes of each measured triple.
        allowed: Which attributes may become refined attributes, the lowest first.
    """
    found, holders = list(order), set[str]()
    for triple in triples:
        drawn = [name for name in found if name in triple]
        new = sorted((n for n in triple if n in allowed and n not in found), key=lambda n: allowed[n])
        if new and not drawn:
            # Drawn first: the refined attributes that follow see it as it is.
            found.insert(0, new[0])
        elif new and drawn[-1] in holders:
            found.insert(found.index(drawn[-1]) + 1, new[0])
        holders.update([name for name in found if name in triple][-1:])
    return found


def add_refinements(
    model: MixtureModel, names: Sequence[str], tables: Sequence[Pooled], seed: int
) -> MixtureModel:
    """The mixture with some attributes drawn from additive models of the released pairs."""
    if not names:
        return model
    return model.with_refinements(Refinements.learn(model, names, tables, seed))


def restore_refinements(model: Refinable, state: Mapping[str, Floats]) -> Refinements | None:
    """How attributes are drawn given the others by a model whose state this is; None for a plain one.

    Raises:
        ReleaseError: The state is not that of refined attributes in the domain.
    """
    if "labels" not in state:
        return None
    places, seed = np.asarray(state["labels"]), np.asarray(state.get("labels_seed", np.nan))
    sound = places.ndim == 1 and seed.shape == () and np.isfinite(seed) and seed >= 0
    if not (sound and set(places.tolist()) <= set(range(len(model.domain)))):
        raise ReleaseError(invalid("state", "of labels in the domain", "The release is damaged."))
    steps = []
    for place, index in enumerate(places.astype(int)):
        head = f"label_{place}_"
        own = {key.removeprefix(head): value for key, value in state.items() if key.startswith(head)}
        steps.append(Additive.restore(model.domain, model.domain.names[index], own))
    return Refinements(model, steps, int(seed)) if steps else None


def _dependence(model: Refinable, names: Sequence[str]) -> dict[str, float]:
    """How much each attribute depends on the others: the sum of total variations from independence.

    Each over what an attribute with such shares can have at most, about: rare codes say little in rows.
    """
    found = {}
    for name in names:
        pairs = [(name, other) for other in model.domain.names if other != name]
        whole = sum(dependence(table / model.total) for table in model.project_many(pairs))
        shares = model.project((name,)) / model.total
        # Shares of mostly one code cannot depend much; 1 - sum of squares scales that out.
        found[name] = whole / max(1.0 - float(shares @ shares), 1e-6)
    return found


def reference_rows(width: int) -> int:
    """How many rows of a mixture of so many attributes refined attributes are fitted on."""
    return min(max(MIN_SAMPLE_ROWS, ROWS_A_CODE * width), max(CELLS // width, MIN_CAPPED_ROWS), MOST_ROWS)


def _reference(model: Refinable, seed: int) -> Columns:
    rows = reference_rows(len(model.domain))
    rng = np.random.default_rng([seed, MIN_SAMPLE_ROWS])
    columns = model.draw_unrefined(rows, rng, {}, balanced=False)
    return dict(zip(model.domain.names, columns, strict=True))


def _without(columns: Mapping[str, Longs], name: str) -> Columns:
    return {other: column for other, column in columns.items() if other != name}


def _redraw(
    step: Additive, columns: Mapping[str, Longs], shares: Floats, rng: np.random.Generator
) -> Columns:
    """The rows with one refined attribute drawn anew by its probabilities in each row, `shares`.

    Its codes are then swapped between rows of like probabilities, with the Metropolis rule for the
    probabilities, while that brings the counts of its pairs closer to their expectations.
    """
    rest = _without(columns, step.target)
    alike = rank_alike(shares)
    drawn = drawn_from(shares, alike, rng)
    if len(rest) and len(drawn) > 1:
        drawn = _settle_codes(step.domain, step.with_pairs(rest), shares, alike, drawn, rng)
    return rest | {step.target: drawn}


def _settle_codes(
    domain: Domain, rest: CodeColumns, shares: Floats, alike: Longs, drawn: Longs, rng: np.random.Generator
) -> Longs:
    codes = np.stack([*rest.values(), drawn], dtype=np.int32, casting="same_kind")
    width, alone = len(rest), np.arange(len(drawn))
    sizes = [domain[name] for name in rest]
    expected = sum_by_code(codes[:width], sizes, shares)
    pairs, tables = expect_triples(codes, range(width), sizes, alone, shares)
    others = [*((u,) for u in range(width)), *pairs]
    # Swaps mend most where they begin, so rows of the same probabilities must not stand there in their order:
    # who takes the first rows with a refined attribute would get those.
    order = np.empty(len(drawn), dtype=np.int64)
    order[rng.permutation(len(drawn))] = np.arange(len(drawn))
    order = order[order_by_group(alike[order], int(alike.max()) + 1)]
    balance_column(codes, width, others, order, alone, shares, [*expected, *tables], PASSES, rng)
    settled: Longs = codes[width].astype(np.int64)
    return settled


def _owners(have: Longs, left: Longs, wanted: Longs) -> Longs:
    """For rows that may go to anyone, who gets each: one of `left` that wants its refined attributes; -1 for
    none."""
    owners = np.full(len(have), -1, dtype=np.int64)
    for key in np.unique(wanted[left]):
        able, asking = np.flatnonzero(have == key), left[wanted[left] == key]
        count = min(len(able), len(asking))
        owners[able[:count]] = asking[:count]
    return owners
