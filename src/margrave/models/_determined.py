"""Determined attributes: those that another attribute fixes, as a measured pair shows.

A copy, the name beside a code, or a country beside its city. A model that pays for every nat of dependence
holds the less of it the larger the noise is, though a table of near-certainties is plain to see in noise that
hides all else: each line of it has one cell far above the noise, with all of the line's rows.

In a measured pair of `by` and `name` with noise of standard deviation s, `name` is determined by `by` where
nearly all rows of the lines that noise lets one see are in one cell a line
(`margrave.schema.constraints.certain_lines`), and the table that has all of them there is closer to the
measured one than the model's is. For either table T, sum (y - T)^2 - s^2 estimates the sum of its squared
errors, and the difference of both has a standard deviation of at most 2 sqrt(sum s^2 (T - T')^2), which it
has to exceed (`find_determined`). But the model was fitted to the same noise, and its rows are further off
than its pair. So it need not where all rows are in these cells as far as noise lets one see, if `name` has no
other measured pair; or if noise explains what is off in all of them, those with third attributes as `by`
implies them, and the model's pair would change by much more than such a find may be wrong by.

Rows drawn from the model then get a table of the pair in which the largest cells have the share of rows that
they hold together, or all where noise explains what is missing; the rest, and lines that noise hides, are as
the model's pair has them. As few rows change as that takes. Either attribute may be the one that changes: the
fixed one takes the code that goes with the other, or the fixing one a code that goes with the fixed one, in
the shares that the model has. What was measured of either with third attributes says which is better.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_letters
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.limits import Deadline
from margrave.models._base.model import DelegatingModel
from margrave.models._base.pooling import Pooled, one_ways
from margrave.models._sampling.rounding import order_by_group, round_counts
from margrave.schema.constraints.certain_lines import EXACT, HIDDEN, FixedCodes, find_fixed_codes
from margrave.schema.constraints.rules import Determines, Rule
from margrave.schema.constraints.structural import SENTENCES, StructuralValue
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Codes, Encoded

if TYPE_CHECKING:
    from margrave import protocols

Floats = NDArray[np.float64]

PREFIX = "determined_"
"""How the names of a state's arrays begin that the inner model's do not have."""
EXPLAINED = 2.0
"""Standard deviations that squared residuals may be above what noise makes of them."""
CONSISTENT = 5.0
"""The same of one-ways that one attribute implies of another: lines that noise hides are as the model has
them, so that true finds are off by more. Of fifteen in orders-a at epsilon 1 eight were left with 2, eleven
with 5; of cricketer a false one, 3 % of the rows off, went with either (bench/LOG.md)."""
WORTH = 2.0
"""What the model's pair would change by, over the share of the rows that may not be in largest cells, from
which on an attribute is taken for determined against a model that is as close. On the choosing half .21 to
.28 would change of true ones and .04 to .08 of false ones, where that share is .06 to .08 (bench/LOG.md)."""
LEAST_CHANGED = 0.001
"""Share of the rows by which the model's table of a pair has to change for a change to be made. Not
measured."""
TOLERATED, DOUBTS = 0.25, 0.1
"""Share of the rows that the commonest code does not have which may be off at most, noise included; and steps
of this share by which surer finds come before others. With .35 pairs of 5 and 6 % exceptions were found, in
the order of entropies alone cricketer at 1 was 31 % further off in pairs (bench/LOG.md)."""
MOST_RUINED = 0.3
"""How much further a change may leave measured pairs, as a part of the variance of their noise. With a tenth
orders-a at epsilon 5 is 3 % further off, with no limit diagnoses-a is 8 %."""
TURNED = 1.0
"""Standard deviations by which measured pairs have to be met better for what fixes an attribute to change.
Not measured."""
MOST_CELLS = 1 << 17
"""Cells up to which tables of three attributes say what changes: a few milliseconds each."""
MOST_CHAINED = 1 << 13
"""The same of more attributes, which chains of changes ask for in great numbers: with 1 << 17 a table of 47
columns, many missing together, takes more than twice as long (bench/LOG.md, 2026-11-30, end)."""
HELD = PREFIX + "held"
"""For each pair whether it is turned, the share of the rows in largest cells, and its deviation."""
SENTENCE = PREFIX + "sentence"
"""For each pair the place among SENTENCES of what it says, -1 where all codes are fixed."""
KEY = PREFIX + "pairs"
"""An array that the state of a `DeterminedModel` has and that of no other model."""


@dataclass(frozen=True, slots=True)
class Determined:
    """An attribute that changes in rows until a pair has the table it should have.

    Args:
        name: The attribute that changes.
        by: The other one.
        shares: The distribution of `name` in each code of `by`, shape [codes of by, codes of name].
        turned: Whether `name` is what fixes the other one.
        held: The share of the rows in largest cells, and its standard deviation; None where it is not known,
            as in releases from before it was kept.
        sentence: What is said of missing values or of 0, one of SENTENCES, where that alone is fixed
            (`margrave.models._structural`).
    """

    name: str
    by: str
    shares: Floats
    turned: bool = False
    held: tuple[float, float] | None = None
    sentence: str = ""

    @property
    def found_rule(self) -> Determines | StructuralValue:
        """What was seen, as the rule that it would be if it were promised."""
        of, by = (self.by, self.name) if self.turned else (self.name, self.by)
        if self.sentence:
            return StructuralValue(of, by, self.sentence.format(of=of, by=by), self.held)
        return Determines(of, by, share=self.held)


@dataclass(frozen=True, slots=True)
class _Moves:
    """Which rows of a pair change, by what it is before.

    Args:
        stay: The part of the rows of each cell that keeps its code, shape [codes of by, codes of name].
        codes: The distribution of the new codes of the others in each line, same shape.
    """

    stay: Floats
    codes: Floats

    @classmethod
    def of(cls, before: Floats, shares: Floats) -> _Moves:
        """The fewest moves that bring a table to other shares of its lines."""
        held = np.maximum(before, 0.0)
        wanted = shares * held.sum(axis=1, keepdims=True)
        stay = np.where(held > wanted, wanted / np.maximum(held, 1e-300), 1.0)
        lacking = np.maximum(wanted - held, 0.0)
        return cls(stay, lacking / np.maximum(lacking.sum(axis=1, keepdims=True), 1e-300))

    def apply(self, rows: NDArray[np.int64]) -> Floats:
        """What becomes of a table of rows, [codes of by, codes of name]: what need not change stays."""
        stayed = rows * self.stay
        return np.asarray(stayed + (rows - stayed).sum(axis=1, keepdims=True) * self.codes)


class DeterminedModel(DelegatingModel["protocols.Model"]):
    """A model in whose rows some attributes change, as few as it takes, until each goes with another one.

    Args:
        inner: The model.
        determined: In the order of changing: an attribute that another one follows comes before it.
    """

    def __init__(self, inner: protocols.Model, determined: Sequence[Determined]) -> None:
        super().__init__(inner)
        self.determined = tuple(determined)

    @property
    def found_rules(self) -> tuple[Rule, ...]:
        """Which attribute follows from which, in the share of the rows that was measured."""
        own = tuple(one.found_rule for one in self.determined if one.held is not None)
        return (*self.inner.found_rules, *own)

    @functools.cached_property
    def _moves(self) -> list[_Moves]:
        """Those of each determined attribute, after what comes before it."""
        found: list[_Moves] = []
        for place, one in enumerate(self.determined):
            found.append(_Moves.of(self._project((one.by, one.name), place, found), one.shares))
        return found

    def project(self, clique: Clique) -> Floats:
        """The marginal of any clique, in rows, shape domain.shape(clique).

        Of an attribute that changed in a table of too many cells, with what it goes with, the new
        codes are taken to depend on nothing else.

        Raises:
            InputError: The clique repeats an attribute.
        """
        if len(set(clique)) != len(clique):
            raise InputError(invalid("clique", "without repeats", "Name each attribute once.", got=clique))
        return self._project(clique, len(self.determined), None)

    def _project(self, clique: Clique, changed: int, moves: Sequence[_Moves] | None) -> Floats:
        """The marginal of a clique after the first changes, whose moves are known or looked up."""
        last = next((i for i in reversed(range(changed)) if self.determined[i].name in clique), None)
        if last is None:
            return self.inner.project(clique)
        one = self.determined[last]
        rest = tuple(name for name in clique if name != one.name)
        held = rest if one.by in rest else (*rest, one.by)
        letters = dict(zip((*held, one.name), ascii_letters, strict=False))
        joint, wanted = ("".join(letters[name] for name in names) for names in (held, clique))
        pair = letters[one.by] + letters[one.name]
        if self.domain.size((*held, one.name)) > (MOST_CELLS if len(held) <= 2 else MOST_CHAINED):
            table = self._project(held, last, moves)
            return np.asarray(np.einsum(f"{joint},{pair}->{wanted}", table, one.shares))
        own = (self._moves if moves is None else moves)[last]
        table = self._project((*held, one.name), last, moves)
        whole = joint + letters[one.name]
        stayed = np.einsum(f"{whole},{pair}->{wanted}", table, own.stay)
        moved = np.einsum(f"{whole},{pair}->{joint}", table, 1.0 - own.stay)
        return np.asarray(stayed + np.einsum(f"{joint},{pair}->{wanted}", moved, own.codes))

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The marginals of many cliques."""
        drawn = {one.name for one in self.determined}
        plain = [clique for clique in cliques if drawn.isdisjoint(clique)]
        found = dict(zip(plain, self.inner.project_many(plain), strict=True))
        return [found[clique] if clique in found else self.project(clique) for clique in cliques]

    def sample(
        self,
        rows: int,
        rng: np.random.Generator,
        given: Mapping[str, int | Codes] | None = None,
        deadline: Deadline | None = None,
    ) -> Encoded:
        """The inner model's rows, conditioned on the codes in `given`, with determined attributes changed.

        Codes that are given stay. What should go with one of them changes in its place.

        Raises:
            InputError: rows is negative or a code is outside its attribute.
        """
        drawn = self.inner.sample(rows, rng, given, deadline)
        columns = {name: drawn.column(name) for name in self.domain.names}
        fixed = set(given or {})
        for place in reversed(range(len(self.determined))):
            one = self.determined[place]
            if one.name in fixed and one.by not in fixed:
                columns[one.by] = self._change_back(place, columns, rng)
                fixed.add(one.by)
        # Values that are missing together in too many rows come into the same ones.
        order = rng.permutation(rows) if any(one.sentence for one in self.determined) else None
        for place, one in enumerate(self.determined):
            if one.name not in fixed:
                lines, codes = columns[one.by], columns[one.name]
                if one.sentence:
                    wanted = self._moves[place].apply(_tabulate(lines, codes, one.shares.shape))
                    columns[one.name] = _change_codes(lines, codes, wanted, rng, order)
                else:
                    columns[one.name] = _change_codes(lines, codes, one.shares, rng)
        return Encoded(self.domain, tuple(columns.values()))

    def _change_back(self, place: int, columns: Mapping[str, Codes], rng: np.random.Generator) -> Codes:
        """The codes of `by`, changed where they do not go with those of a determined attribute: [rows]."""
        one = self.determined[place]
        before = np.maximum(self._project((one.by, one.name), place, None), 0.0)
        lines = before.sum(axis=1, keepdims=True)
        # Cells are as likely as before, times by how much the pair's own shares differ from the model's.
        factors = one.shares * lines / np.maximum(before, 1e-300)
        names, codes = columns[one.name].astype(np.int64), columns[one.by]
        wanted = _tabulate(names, codes, before.T.shape) * np.where(before > 0.0, factors, 0.0).T
        # Where none of the codes goes with the given one, those are taken that usually do.
        lost = wanted.sum(axis=1) <= 0.0
        wanted[lost] = (one.shares * lines).T[lost]
        return _change_codes(columns[one.name], codes, wanted, rng)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which the estimator's `restore` builds the same model again."""
        places = [(self.domain.index(one.name), self.domain.index(one.by)) for one in self.determined]
        shares = {f"{PREFIX}{place}": one.shares for place, one in enumerate(self.determined)}
        held = [(one.turned, *(one.held or (math.nan, math.nan))) for one in self.determined]
        said = [SENTENCES.index(one.sentence) if one.sentence else -1 for one in self.determined]
        found = {KEY: np.asarray(places, dtype=np.int64), HELD: np.asarray(held, dtype=np.float64)}
        return self.inner.state() | shares | found | {SENTENCE: np.asarray(said, dtype=np.int64)}


def _change_codes(
    keys: Codes,
    codes: Codes,
    table: Floats,
    rng: np.random.Generator,
    order: NDArray[np.int64] | None = None,
) -> Codes:
    """Codes of which as few are changed as gives each line the shares of a table, shape [rows].

    Args:
        keys: The line of each row, shape [rows].
        codes: The rows' codes, shape [rows].
        table: Weights of the codes in each line, shape [lines, codes].
        rng: Says which of like rows change, and to what.
        order: Says which of like rows stay in its place, the first ones: shape [rows].
    """
    lines = keys.astype(np.int64)
    found = round_counts(lines, order_by_group(lines, len(table)), table, rng)
    wanted = _tabulate(np.repeat(found.keys, np.diff(found.firsts)), found.codes, table.shape)
    held = _tabulate(lines, codes, table.shape)
    order = rng.permutation(len(codes)) if order is None else order
    cells = (lines * table.shape[1] + codes)[order]
    by = order_by_group(cells, table.size)
    order, cells = order[by], cells[by]
    # The first rows of each cell stay, as many as it may have.
    rank = np.arange(len(cells)) - np.searchsorted(cells, cells)
    moved = rng.permutation(order[rank >= wanted.ravel()[cells]])
    moved = moved[order_by_group(lines[moved], len(table))]
    lacking = np.maximum(wanted - held, 0)
    result: Codes = codes.copy()
    result[moved] = np.repeat(np.tile(np.arange(table.shape[1]), len(table)), lacking.ravel())
    return result


def _tabulate(lines: NDArray[Any], codes: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """How many rows have each line and code, of a shape [lines, codes]."""
    cells = lines.astype(np.int64) * shape[1] + codes
    return np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)


def restore_determined(
    domain: Domain, state: Mapping[str, NDArray[Any]]
) -> tuple[list[Determined], dict[str, NDArray[Any]]]:
    """The determined attributes whose `state` was saved, and the state of the inner model.

    Raises:
        ReleaseError: The state is not that of determined attributes of this domain.
    """
    places, found = np.asarray(state[KEY]), list[Determined]()
    whole = places.ndim == 2 and places.shape[1] == 2 and places.dtype.kind in "iu"
    if not whole or (places.size and not 0 <= places.min() <= places.max() < len(domain)):
        raise ReleaseError(invalid("state", "with pairs of attributes", "The release is damaged."))
    # Releases from before they were kept have none.
    held = np.asarray(state.get(HELD, np.full((len(places), 3), math.nan)), dtype=np.float64)
    said = np.asarray(state.get(SENTENCE, np.full(len(places), -1)))
    whole = said.shape == (len(places),) and said.dtype.kind in "iu" and bool((said < len(SENTENCES)).all())
    if held.shape != (len(places), 3) or not whole:
        raise ReleaseError(invalid("state", "with a share of each pair", "The release is damaged."))
    for place, (name, by) in enumerate(places.tolist()):
        shares = np.asarray(state.get(f"{PREFIX}{place}", ()), dtype=np.float64)
        known = {domain.names[by]} | {one.name for one in found}
        sound = (
            shares.shape == (domain.sizes[by], domain.sizes[name])
            and bool(np.isfinite(shares).all() and (shares >= 0).all())
            and domain.names[name] not in known
        )
        if not sound:
            raise ReleaseError(invalid("state", "with shares of each code", "The release is damaged."))
        turned, share, deviation = held[place].tolist()
        seen = (share, deviation) if math.isfinite(share + deviation) else None
        sentence = SENTENCES[said[place]] if said[place] >= 0 else ""
        found.append(Determined(domain.names[name], domain.names[by], shares, turned == 1.0, seen, sentence))
    return found, {key: part for key, part in state.items() if not key.startswith(PREFIX)}


def find_determined(
    model: protocols.Model, tables: Sequence[Pooled], public: Mapping[str, NDArray[np.floating]]
) -> list[Determined]:
    """What measured pairs show to be fixed, as changes of the private attributes, in the order of changing.

    What a public attribute fixes comes first, then of two that fix each other that of fewer measured pairs,
    then what is surer, then what is nearest in entropy to what fixes it: of town, county and state the state
    follows from the county. An attribute changes for one other at most: the fixed one, unless measured pairs
    of both are met clearly better if the other does. Attributes that rules speak of are left alone: a code
    that changes might break one.

    **Privacy.** Looks at released tables, the model that was fitted to them, and public rows.

    Args:
        model: What was fitted.
        tables: What was measured, a table a clique.
        public: How many rows have each code of a public attribute, shape [codes] each.
    """
    rules = model.domain.rules
    ruled = frozenset[str]() if rules is None else frozenset(rules.names)
    pairs = list_changeable(tables, public)
    partners, ways = Counter(name for table in pairs for name in table.clique), one_ways(tables)
    found: list[tuple[tuple[float, ...], _Fixed]] = []
    for table in pairs:
        for by, name in (table.clique, table.clique[::-1]):
            if name in public or not ruled.isdisjoint(table.clique):
                continue
            # The pair's own line sums would have the noise of many cells.
            counts = public[by] if by in public else np.maximum(ways[by].values, 0.0)
            one = _Fixed.read(model, table, by, np.asarray(counts, dtype=np.float64))
            if one is None:
                continue
            if one.is_likely(model, pairs) if by in public else one.is_evident(ways[by], ways[name]):
                sure = math.ceil(one.doubt / DOUBTS)
                found.append(((by not in public, partners[name], sure, one.entropy_apart), one))
    found.sort(key=lambda entry: entry[0])
    return choose_changes(model, [one.ways for _, one in found], pairs, public)


def list_changeable(tables: Sequence[Pooled], public: Collection[str]) -> list[Pooled]:
    """The measured pairs of which an attribute may change."""
    return [
        table
        for table in tables
        if len(table.clique) == 2 and not table.inferred and not set(table.clique) <= set(public)
    ]


@dataclass(frozen=True, slots=True)
class _Fixed:
    """An attribute that another one seems to fix.

    Args:
        change: The fixed one changes.
        counts: Rows with each code of what fixes it, shape [codes].
        fixed: What the lines of the measured pair hold.
        changed: Share of the rows by which the model's table of the pair would change.
        gain: By how many standard deviations the table is then closer to the measured one.
    """

    change: Determined
    counts: Floats
    fixed: FixedCodes
    changed: float
    gain: float

    @classmethod
    def read(cls, model: protocols.Model, table: Pooled, by: str, counts: Floats) -> _Fixed | None:
        """What a measured pair shows of the attribute beside `by`; None where its lines are not certain."""
        turned = by != table.clique[0]
        values, sigma = (part.T if turned else part for part in (table.values, table.sigma))
        fixed = find_fixed_codes(values, sigma, counts)
        if fixed is None:
            return None
        modelled = model.project(table.clique)
        expected = modelled.T if turned else modelled
        shares = _share_codes(fixed, expected)
        held = expected.sum(axis=1, keepdims=True)
        changed = 0.5 * float(np.abs(shares * held - expected).sum()) / float(held.sum())
        gain = _compare_tables(values, sigma, expected, shares * counts[:, None])
        name = table.clique[0] if turned else table.clique[1]
        one = Determined(name, by, shares, held=(min(fixed.held, 1.0), fixed.deviation))
        return cls(one, counts, fixed, changed, gain)

    @property
    def ways(self) -> tuple[Determined, ...]:
        """Either may change: the fixed one, or what fixes it, in the same table of the pair."""
        table = (self.counts[:, None] * self.change.shares).T
        shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1e-300)
        one = self.change
        return one, replace(one, name=one.by, by=one.name, shares=shares, turned=True)

    @property
    def entropy_apart(self) -> float:
        """By how many nats the entropy of what fixes it is larger."""
        return _entropy(self.counts) - _entropy(self.counts @ self.change.shares)

    @property
    def doubt(self) -> float:
        """Share of the rows that may be off the largest cells, over that which the commonest code lacks."""
        off = max(1.0 - self.fixed.held, 0.0) + EXACT * self.fixed.deviation
        return off / max(self.fixed.minority, 1e-300)

    def is_evident(self, by: Pooled, name: Pooled) -> bool:
        """Whether few rows can be off the largest cells, and the model has others there.

        One row in thirty that is off is hard to see in a pair, but not in how many rows have each code: what
        the one-way of `by` implies may not differ from that of `name` by more than noise explains.

        Args:
            by, name: The pooled one-ways of both attributes.
        """
        if self.changed <= LEAST_CHANGED or self.doubt > TOLERATED:
            return False
        apart = name.values - by.values @ self.change.shares
        variances = name.sigma**2 + by.sigma**2 @ self.change.shares**2
        codes = len(apart)
        return float((apart**2 / variances).sum()) <= codes + CONSISTENT * math.sqrt(2.0 * codes)

    def is_likely(self, model: protocols.Model, pairs: Sequence[Pooled]) -> bool:
        """Whether it is worth changing by an attribute whose own tables with third ones are exact."""
        if self.gain > 1.0:
            return True
        alone = sum(self.change.name in table.clique for table in pairs) == 1
        worth = self.changed > WORTH * EXACT * self.fixed.deviation
        return self.fixed.exact and (alone or (worth and _explains_pairs(self.change, model, pairs)))


def _entropy(counts: Floats) -> float:
    share = counts[counts > 0] / counts[counts > 0].sum()
    return float(-(share * np.log(share)).sum())


def choose_changes(
    model: protocols.Model,
    found: Sequence[Sequence[Determined]],
    pairs: Sequence[Pooled],
    public: Collection[str],
    before: Sequence[Determined] = (),
) -> list[Determined]:
    """For each find in turn the change that is made, if one may be: in the order of changing.

    Args:
        model: What was fitted.
        found: The changes that each find would do with, the first one that of what follows.
        pairs: What was measured of pairs.
        public: Names of attributes that never change.
        before: Changes that were chosen already.
    """
    chosen = list(before)
    for ways in found:
        if ways[0].by in public:
            best = ways[0] if _may_change(ways[0], chosen) else None
        else:
            best = _find_closest(model, ways, pairs, chosen)
        chosen = _order_changes([*chosen, best]) if best is not None else chosen
    return chosen


def _find_closest(
    model: protocols.Model, ways: Sequence[Determined], pairs: Sequence[Pooled], chosen: Sequence[Determined]
) -> Determined | None:
    """The change that meets the measured pairs of both attributes best, or None where all ruin them."""
    able = [way for way in ways if _may_change(way, chosen)]
    if not able:
        return None
    own = [table for table in pairs if not {ways[0].name, ways[0].by}.isdisjoint(table.clique)]
    before = _project_changed(model, chosen, own)
    best, least = None, before
    for way in able:
        tables = _project_changed(model, [*chosen, way], own)
        if best is None or _compare_all(least, tables, own) > TURNED:
            best, least = way, tables
    # A model that was fitted to the noise is nearer than the noise is, which is no merit.
    cells = sum(table.values.size for table in own)
    usual = max(_measure_misfit(before, own), float(cells))
    ruined = _measure_misfit(least, own) > usual + MOST_RUINED * cells
    return None if ruined else best


def _project_changed(
    model: protocols.Model, changes: Sequence[Determined], own: Sequence[Pooled]
) -> list[Floats]:
    """The tables of some pairs after changes."""
    return DeterminedModel(model, _order_changes(changes)).project_many([table.clique for table in own])


def _measure_misfit(tables: Sequence[Floats], own: Sequence[Pooled]) -> float:
    """How far tables are from measured ones: the sum of their squared distances in standard deviations."""
    return sum(
        float((((table.values - values) / table.sigma) ** 2).sum())
        for table, values in zip(own, tables, strict=True)
    )


def _compare_all(first: Sequence[Floats], second: Sequence[Floats], own: Sequence[Pooled]) -> float:
    """By how many standard deviations the second tables are closer to measured ones than the first."""
    squares = sum(
        float((((one - other) / table.sigma) ** 2).sum())
        for table, one, other in zip(own, first, second, strict=True)
    )
    closer = _measure_misfit(first, own) - _measure_misfit(second, own)
    return closer / max(2.0 * math.sqrt(squares), 1e-300)


def _may_change(one: Determined, chosen: Sequence[Determined]) -> bool:
    """Whether an attribute may change by another: it does not yet, and no circle comes of it."""
    by = {other.name: other.by for other in chosen}
    over, name = {one.name}, one.by
    while name not in over and name in by:
        over.add(name)
        name = by[name]
    return one.name not in by and name not in over


def _order_changes(found: Sequence[Determined]) -> list[Determined]:
    """Changes without a circle, each after that of what it follows."""
    left = {one.name: one for one in found}
    ordered: list[Determined] = []
    while left:
        for name in [name for name, one in left.items() if one.by not in left]:
            ordered.append(left.pop(name))
    return ordered


def _share_codes(fixed: FixedCodes, expected: Floats) -> Floats:
    """The distribution in each line, shape [lines, codes]: of what is not in largest cells, the model's."""
    whole = np.maximum(expected, 0.0)
    shares = whole / np.maximum(whole.sum(axis=1, keepdims=True), 1e-300)
    held = 1.0 if fixed.exact else min(fixed.held, 1.0)
    seen = np.flatnonzero(fixed.codes != HIDDEN)
    top = seen, fixed.codes[seen]
    shares[top] = 0.0
    shares[seen] *= (1.0 - held) / np.maximum(shares[seen].sum(axis=1, keepdims=True), 1e-300)
    shares[top] = 1.0 - shares[seen].sum(axis=1)
    return np.asarray(shares)


def _compare_tables(values: Floats, sigma: Floats, expected: Floats, certain: Floats) -> float:
    """By how many standard deviations one table is closer to a measured one than the model's is."""
    difference = float(((values - expected) ** 2 - (values - certain) ** 2).sum())
    spread = 2.0 * math.sqrt(float((sigma**2 * (certain - expected) ** 2).sum()))
    return difference / max(spread, 1e-300)


def _explains_pairs(one: Determined, model: protocols.Model, pairs: Sequence[Pooled]) -> bool:
    """Whether noise explains how far all measured pairs of an attribute are from what its fixing implies."""
    own = [table for table in pairs if one.name in table.clique]
    squares = _measure_misfit(_project_changed(model, [one], own), own)
    # A sum of n squares of standard normals has mean n and variance 2 n.
    cells = sum(table.values.size for table in own)
    return squares <= cells + EXPLAINED * math.sqrt(2.0 * cells)
