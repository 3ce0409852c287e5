"""Rows: synthetic rows of a mixture, with far less noise than independent draws."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, permutations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.limits import Deadline
from margrave.models._base.constraints import Evidence, by_row, pick_evidence
from margrave.models._mixture.latent_blocks import CHUNK
from margrave.models._sampling.balance import balance, balance_column
from margrave.models._sampling.rounding import draw_column, order_by_group
from margrave.models._sampling.triples import TRIPLE_PASSES, choose_triples

if TYPE_CHECKING:
    from margrave.models._mixture.latent_blocks import LatentBlock
    from margrave.models._mixture.model import ConditionedBlock, MixtureModel

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

PASSES, SWAPS_A_ROW, MIN_SWAPS, MAX_SWAPS = 4, 1 << 16, 1 << 14, 20 << 16
"""Swaps tried for each row and attribute, refined attributes too, to bring pair counts to the model's, and
how many for an attribute in one pass at most: where rows are many, twice as many gain a thousandth of the
error. MAX_SWAPS is for all attributes together, but MIN_SWAPS for each, as a swap looks at all others."""

LITTLE_WORK, MORE_PASSES = 1 << 22, 4
"""Rows times squared attributes up to which so many times as many swaps are tried and states of latent
blocks are balanced before codes are drawn from them. Both take a tenth of a second at most there. With more
swaps pairs of 944 and 2,000 rows of the choosing half come 1 to 2 % nearer, with balanced states those of
accounts-a at epsilon 5 3 %, others none (bench/LOG.md)."""

MIN_WIDE_CODES = 512
"""Codes from which on attributes under rules are not looked at while others are balanced."""


def condition_weights(model: MixtureModel, evidence: Mapping[str, int]) -> Floats:
    """Component weights given codes for all rows: w_k prod_i Q_ki(x_i), normalised, shape [components]."""
    # Attributes of a group are explained by the group as a whole, not one by one.
    logs = np.log(np.maximum(model.weights, 1e-300))
    tied = {name for group in model.groups for name in group.names}
    for group in model.groups:
        if group.told(evidence):
            logs = logs + np.log(np.maximum(group.likelihood(evidence, 1)[1][0], 1e-300))
    for name, code in evidence.items():
        if name not in tied:
            logs = logs + np.log(np.maximum(model.block(name)[code], 1e-300))
    # The largest logarithm is taken out before exp, so that the weights cannot all underflow.
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


@dataclass(frozen=True, slots=True)
class Chosen:
    """Components that rows with codes of their own have been given already.

    Args:
        keys: The component of each row, shape [rows].
        sums: Of the probabilities of the components over the rows, in rows, by code of each attribute that
            is given, shape [codes, components].
    """

    keys: Longs
    sums: Mapping[str, Floats]


def draw(
    model: MixtureModel,
    rows: int,
    rng: np.random.Generator,
    evidence: Evidence,
    *,
    passes: int = PASSES,
    deadline: Deadline | None = None,
    chosen: Chosen | None = None,
) -> list[Longs]:
    """Codes of every attribute, each of shape [rows], in random order, or in that of codes given one a row.

    Components get rows by systematic sampling of their weights, and codes in a component by that of its
    conditionals, so that each count is within 1 of its expectation. Codes are then swapped inside components,
    where any pairing is as likely, until the counts of pairs come close to the model's; where that is little
    work, states of latent blocks are before. Rows with codes of
    their own get a component each, by its weight given them, and the rest is the same. `passes`: swaps tried
    for each row and attribute; after the deadline none is. `chosen`: the components, where somebody else has
    drawn them so that attributes have the model's tables with the given ones as well.
    """
    domain = model.domain
    if chosen is None:
        weights, keys = _components(model, rows, rng, evidence)
    else:
        weights, keys = model.weights, chosen.keys
    # Codes under rules come first, as whole cells, so that no later draw can break a rule.
    tied = {
        name: codes
        for constraint in model.constraint_blocks
        for name, codes in constraint.draw(keys, evidence, rng).items()
    }
    states = {
        latent_block.names: latent_block.draw_states(keys, evidence, rng)
        for latent_block in model.latent_blocks
    }
    columns = dict(zip(domain.names, _make_columns(len(domain), rows), strict=True))
    drawing = _Drawing(model, columns, keys, {*tied}, states, rng, deadline)
    _draw_loose(drawing, tied, evidence)
    # Rounding has met the one-ways already; swaps only bring the pairs nearer, so they may be left out.
    swaps = passes > 0 and not drawing.is_late()
    if rows * len(columns) ** 2 <= LITTLE_WORK:
        passes *= MORE_PASSES
        if swaps and states and not evidence:
            _balance_states(drawing, passes)
    for latent_block in model.latent_blocks:
        for name, codes in latent_block.draw_codes(states[latent_block.names], evidence, rng).items():
            columns[name][:] = codes
    if swaps:
        _balance(drawing, weights, {*evidence}, {} if chosen is None else chosen.sums, passes)
        # Given codes would change what the model says of triples.
        if not evidence:
            _balance_triples(drawing)
    # Rows that were given codes keep their places; all others lie sorted by component so far.
    if not by_row(evidence):
        order = rng.permutation(rows)
        for column in columns.values():
            column[:] = column[order]
    return [*columns.values()]


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Rows that are being drawn.

    Args:
        model: What they are drawn from.
        columns: Codes by attribute, in the domain's order, shape [rows] each.
        keys: The component of each row, shape [rows].
        tied: Attributes that rules tie together, which stay as they were drawn.
        states: Of the rows, by the names of each latent block, shape [rows] each.
        rng: Source of randomness.
        deadline: When no more codes are swapped.
    """

    model: MixtureModel
    columns: dict[str, Longs]
    keys: Longs
    tied: set[str]
    states: dict[tuple[str, ...], Longs]
    rng: np.random.Generator
    deadline: Deadline | None

    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and self.deadline.passed


def _make_columns(count: int, rows: int) -> list[Longs]:
    """Columns in one piece of memory, which the system gets back as a whole.

    Freed one by one they would stay with the process while the rows are decoded: 30 of 670 MB for 160,000
    rows of 41 columns.
    """
    held = mmap.mmap(-1, max(8 * count * rows, 1))
    return list(np.frombuffer(held, dtype=np.int64, count=count * rows).reshape(count, rows))


def _draw_loose(drawing: _Drawing, tied: Mapping[str, Longs], evidence: Evidence) -> None:
    """Write the codes of all attributes but those of latent blocks: those under rules and given ones as they
    are, the others drawn given each row's component."""
    model, keys = drawing.model, drawing.keys
    # Rows of one component lie together in this order; each column is drawn along it.
    by = order_by_group(keys, len(model.weights))
    inside = {name for latent_block in model.latent_blocks for name in latent_block.names}
    for name, column in drawing.columns.items():
        if name in tied:
            column[:] = tied[name]
        elif name in evidence:
            column[:] = evidence[name]
        elif name not in inside:
            column[:] = draw_column(keys, by, np.ascontiguousarray(model.block(name).T), drawing.rng)


def _balance_states(drawing: _Drawing, passes: int) -> None:
    """Swap states between rows of a component, in place, before codes are drawn from them.

    Codes of a latent block move among rows of one state only, and mostly follow from it. So its pairs with
    attributes outside, those of another block above all, are brought near to the model's as tables of states.
    """
    model, columns, states = drawing.model, drawing.columns, drawing.states
    blocks = model.latent_blocks
    out = {name for group in model.groups for name in group.names}
    free = [name for name in columns if name not in out]
    shares = [block.state_weights for block in blocks] + [model.block(name) for name in free]
    stacked = np.concatenate(shares)
    expected = len(drawing.keys) * ((stacked * model.weights) @ stacked.T)
    drawn = [states[block.names] for block in blocks] + [columns[name] for name in free]
    sizes = [len(share) for share in shares]
    found = balance(drawn, drawing.keys, expected, sizes, passes, drawing.rng)
    for block, column in zip(blocks, found[: len(blocks)], strict=True):
        states[block.names] = column
    for name, column in zip(free, found[len(blocks) :], strict=True):
        columns[name][:] = column


def _balance(
    drawing: _Drawing, weights: Floats, given: set[str], sums: Mapping[str, Floats], passes: int
) -> None:
    """Swap codes inside components, or states, in place: not those that are given or tied to others by rules.

    What is given of a latent block changes its states' shares, so that the others' pairs are no longer the
    model's: none of such a latent block is looked at. Attributes with `sums` are given so that they are.
    """
    model, keys, tied = drawing.model, drawing.keys, drawing.tied
    told = {
        name
        for latent_block in model.latent_blocks
        if latent_block.told(given - {*sums})
        for name in latent_block.names
    }
    # Columns that are far are neither moved nor compared: the model's tables are not those of these rows.
    far = (given - {*sums}) | told | {name for name in tied if model.domain[name] > MIN_WIDE_CODES}
    near = [name for name in drawing.columns if name not in far]
    loose = [place for place, name in enumerate(near) if name not in tied and name not in sums]
    if len(near) < 2 or len(keys) < 2 or not loose:
        return
    expected = _expect_pairs(model, near, weights, len(keys), sums)
    sizes = [model.domain[name] for name in near]
    starts = np.cumsum([0, *sizes])
    place = {name: p for p, name in enumerate(near)}
    apart = {}
    for latent_block in model.latent_blocks:
        inside = [name for name in latent_block.names if name in place]
        apart.update({place[name]: drawing.states[latent_block.names] for name in inside})
        # Inside a latent block pairs come from its states, not from the components alone.
        for one, two in permutations(inside, 2):
            a, b = (slice(starts[place[n]], starts[place[n] + 1]) for n in (one, two))
            table = len(keys) * latent_block.mixed((one, two), weights)
            margins = {name: table.sum(axis=1 - axis) for axis, name in enumerate((one, two))}
            for axis, (name, margin) in enumerate(margins.items()):
                # Given columns have other one-ways than the model, so the block's table is scaled to theirs.
                if name in sums:
                    factors = sums[name].sum(axis=1) / np.maximum(margin, 1e-300)
                    table = table * np.expand_dims(factors, 1 - axis)
            expected[a, b] = table
    moved = [drawing.columns[name] for name in near]
    most = max(min(SWAPS_A_ROW, MAX_SWAPS // len(near)), MIN_SWAPS)
    swapped = balance(
        moved, keys, expected, sizes, passes, drawing.rng,
        most=most, movable=loose, apart=apart, deadline=drawing.deadline,
    )  # fmt: skip
    drawing.columns.update(zip(near, swapped, strict=True))


def _balance_triples(drawing: _Drawing) -> None:
    """Swap codes inside components, or states, in place, for the model's tables of three attributes.

    Attributes that are drawn anew afterwards are left out, and those tied to others by rules stay.
    """
    model, keys = drawing.model, drawing.keys
    anew = set() if model.refinements is None else {*model.refinements.names}
    near = {name: column for name, column in drawing.columns.items() if name not in anew}
    names, sizes = [*near], [model.domain[name] for name in near]
    loose = {place for place, name in enumerate(names) if name not in drawing.tied}
    triples = choose_triples(sizes, len(keys), loose, len(model.weights))
    if not triples:
        return
    cliques = [*combinations(range(len(names)), 2), *triples]
    found = model.project_many([tuple(names[place] for place in clique) for clique in cliques])
    tables = {clique: table * (len(keys) / model.total) for clique, table in zip(cliques, found, strict=True)}
    blocks = {name: block for block in model.latent_blocks for name in block.names}
    codes = np.stack([*near.values()], dtype=np.int32, casting="same_kind")
    for v in sorted(loose.intersection(chain.from_iterable(triples))):
        if drawing.is_late():
            return
        # An attribute of a latent block moves among rows of one state.
        block = blocks.get(names[v])
        groups = keys if block is None else drawing.states[block.names]
        shares = np.ascontiguousarray((model if block is None else block).block(names[v]).T)
        mine = [clique for clique in cliques if v in clique]
        others = [tuple(place for place in clique if place != v) for clique in mine]
        expected = [np.moveaxis(tables[clique], clique.index(v), -1).reshape(-1, sizes[v]) for clique in mine]
        by = order_by_group(groups, len(shares))
        balance_column(codes, v, others, by, groups, shares, expected, TRIPLE_PASSES, drawing.rng)
        near[names[v]][:] = codes[v]


def _expect_pairs(
    model: MixtureModel, names: Sequence[str], weights: Floats, rows: int, sums: Mapping[str, Floats]
) -> Floats:
    """Tables of pairs that only components tie together, in rows, shape [codes, codes].

    Those of two attributes that are given, of which nothing can be moved, are 0.
    """
    shares = np.concatenate([model.block(name) for name in names])
    expected = rows * ((shares * weights) @ shares.T)
    if sums:
        own = np.concatenate([np.full(model.domain[name], name in sums) for name in names])
        known = np.concatenate([sums[name] for name in names if name in sums])
        # Given columns' own sums of components replace the model's: the rest follows from its component
        # alone.
        mixed = known @ shares[~own].T
        expected[np.ix_(own, own)] = 0.0
        expected[np.ix_(own, ~own)], expected[np.ix_(~own, own)] = mixed, mixed.T
    return np.asarray(expected)


def _components(
    model: MixtureModel, rows: int, rng: np.random.Generator, evidence: Evidence
) -> tuple[Floats, Longs]:
    """Shares of the components among the rows, [components], and each row's component, [rows]."""
    # A group's given codes are explained together, so one that differs by row takes the whole group along.
    apart: set[str] = set()
    for group in model.groups:
        if by_row({name: evidence[name] for name in group.told(evidence)}):
            apart.update(group.names)
    own_groups = [group for group in model.groups if apart.intersection(group.told(evidence))]
    alike = {n: code for n, code in evidence.items() if isinstance(code, int) and n not in apart}
    weights = condition_weights(model, alike)
    # All rows share one distribution of components; the keys are sorted, as rows are shuffled at the end.
    if not by_row(evidence):
        keys = draw_column(np.zeros(rows, np.int64), np.arange(rows), weights[None, :], rng)
        keys.sort()
        return weights, keys
    tied = {name for group in model.groups for name in group.names}
    own = {n: codes for n, codes in evidence.items() if not isinstance(codes, int) and n not in tied}
    keys = np.empty(rows, dtype=np.int64)
    for part, table in _weigh_components(model, weights, own, own_groups, evidence, rows):
        each = np.arange(len(table))
        keys[part] = draw_column(each, each, table.astype(np.float64), rng)
    # The components' shares among these rows stand for the weights where pairs are expected.
    return np.bincount(keys, minlength=len(weights)) / max(rows, 1), keys


def _weigh_components(
    model: MixtureModel,
    weights: Floats,
    columns: Mapping[str, Longs],
    groups: Sequence[ConditionedBlock | LatentBlock],
    evidence: Evidence,
    rows: int,
) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Weights of the components in each row, given its codes, up to a factor.

    Args:
        model: The mixture.
        weights: Of the components before the codes are looked at, shape [components].
        columns: Codes of attributes that only the components tie to others, shape [rows] each.
        groups: Of whose attributes some are given.
        evidence: The codes of these.
        rows: How many.

    Yields:
        Which rows, and their weights, shape [these rows, components].
    """
    logs_of = {n: np.log(np.maximum(model.block(n), 1e-30)).astype(np.float32) for n in columns}
    start = np.log(np.maximum(weights, 1e-300)).astype(np.float32)
    # Chunks bound the table of rows by components.
    for first in range(0, rows, CHUNK):
        part = slice(first, min(first + CHUNK, rows))
        logs = np.repeat(start[None, :], part.stop - part.start, axis=0)
        for name, codes in columns.items():
            logs += logs_of[name][codes[part]]
        for group in groups:
            some = pick_evidence(evidence, np.arange(part.start, part.stop))
            lines, likely = group.likelihood(some, len(logs))
            logs += np.log(np.maximum(likely.astype(np.float32), 1e-30))[lines]
        yield part, np.exp(logs - logs.max(axis=1, keepdims=True))


def find_probability(model: MixtureModel, columns: Mapping[str, Longs], asked: Mapping[str, Longs]) -> Floats:
    """The mixture's own p(attributes asked for | all other codes) of each row, shape [rows]."""
    rows = len(next(iter(columns.values())))
    tied = {name for group in model.groups for name in group.names}
    rest = {name: column for name, column in columns.items() if name not in asked}
    alone = {name: column for name, column in rest.items() if name not in tied}
    groups = [group for group in model.groups if group.told(rest)]
    found = np.empty(rows)
    for part, weights in _weigh_components(model, model.weights, alone, groups, rest, rows):
        joint = weights.copy()
        for name, codes in asked.items():
            joint *= model.block(name)[codes[part]]
        # The norm of the weights cancels, so they were never normalised.
        found[part] = joint.sum(axis=1) / weights.sum(axis=1)
    return np.maximum(found, 1e-12)
