"""Rules on codes: which cells of which attributes a row may lie in, and rows that obey found code by code."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid
from margrave.schema.columns import Column, Listed, Unknown
from margrave.schema.constraints.numbers import (
    Columns,
    NumberRules,
    Truths,
    check_calendar,
    check_flags,
    check_numbers,
    code_of,
    is_own,
    number_rules,
)
from margrave.schema.constraints.rules import Allowed, CalendarRule, Combinations, Determines, FlagCount, Rule
from margrave.schema.domain import Clique

Longs = NDArray[np.int64]

MOST_CELLS = 1 << 22
"""Cells of a clique that are written out as a table, at most."""
MAX_LOOKUP_CELLS = 1 << 20
"""Cells of a clique whose table is looked up instead of being worked out for each row, at most."""
WITNESSES = 64
"""Rows of codes that are tried, at most, for one that whole numbers in its bins obey the rules with."""
LOOKS = 20_000
"""Codes tried in the search for one row, at most."""


class Restriction(ABC):
    """What rules say about the codes of a few attributes.

    Args:
        clique: The attributes, in the schema's order.
        sizes: Codes of each.
    """

    def __init__(self, clique: Clique, sizes: Sequence[int]) -> None:
        self.clique = clique
        self.sizes = tuple(sizes)
        self._parts: dict[tuple[str, ...], Truths] = {}

    @property
    def cells(self) -> int:
        """Cells of the clique."""
        return math.prod(self.sizes)

    @abstractmethod
    def judge_rows(self, columns: Columns, rows: int, exact: Columns | None = None) -> Truths:
        """As `possible`, worked out anew; never too strict where attributes are left open."""

    def possible(self, columns: Columns, rows: int, exact: Columns | None = None) -> Truths:
        """Whether each row, whose other attributes are left open, can obey, [rows].

        Args:
            columns: Codes of some attributes of the clique.
            rows: How many.
            exact: Numbers that are known beside their codes, NaN where not.
        """
        known = tuple(name for name in self.clique if name in columns)
        # A table that is small enough is looked up; numbers beside the codes tell more than a table of codes.
        if self.cells > MAX_LOOKUP_CELLS or any(name in (exact or {}) for name in known):
            return self.judge_rows(columns, rows, exact)
        found: Truths = self.parts(known)[tuple(columns[name] for name in known)]
        return found

    def parts(self, known: tuple[str, ...]) -> Truths:
        """Which cells of some attributes, in the clique's order, have an allowed cell of the clique."""
        if known not in self._parts:
            table = self.table
            assert table is not None  # noqa: S101 - MAX_LOOKUP_CELLS is below MOST_CELLS
            # Open attributes are summed out: a cell is possible if any completion of it is allowed.
            gone = tuple(i for i, name in enumerate(self.clique) if name not in known)
            self._parts[known] = np.asarray(table.any(axis=gone))
        return self._parts[known]

    @functools.cached_property
    def table(self) -> Truths | None:
        """Which cells are allowed, in the clique's shape; None where there are too many of them."""
        if self.cells > MOST_CELLS:
            return None
        codes = np.unravel_index(np.arange(self.cells), self.sizes)
        return self.judge_rows(dict(zip(self.clique, codes, strict=True)), self.cells).reshape(self.sizes)


class Listing(Restriction):
    """Combinations of listed values, forbidden or the only ones allowed."""

    def __init__(self, columns: Mapping[str, Column], rule: Combinations) -> None:
        clique = tuple(name for name in columns if name in rule.names)
        super().__init__(clique, [columns[name].size for name in clique])
        # A cell's number in mixed radix has to fit into 64 bits.
        if self.cells >= 1 << 62:
            raise SchemaError(invalid("rules", "about fewer values at a time", "Split the rule."))
        self.only = isinstance(rule, Allowed)
        places = [rule.columns.index(name) for name in clique]
        parts = [columns[name] for name in clique]
        entries = [[found[place] for place in places] for found in rule.combinations]
        coded = [[code_of(c, v) for c, v in zip(parts, entry, strict=True)] for entry in entries]
        # A whole `other` cannot be forbidden because of one value in it.
        kept = [
            codes
            for codes, entry in zip(coded, entries, strict=True)
            if None not in codes and (self.only or all(map(is_own, parts, entry)))
        ]
        # Each combination once, so that looking them up takes one sorted array.
        self.combinations = np.unique(np.asarray(kept, dtype=np.int64).reshape(-1, len(clique)), axis=0)
        # A list of allowed combinations that never mentions a missing value says nothing of rows that lack
        # it.
        speaks = [any(entry[i] is None for entry in entries) for i in range(len(clique))]
        self.silent = [None if spoken else c.missing_code for c, spoken in zip(parts, speaks, strict=True)]

    def judge_rows(self, columns: Columns, rows: int, exact: Columns | None = None) -> Truths:
        """See `Restriction.judge_rows`."""
        known = [i for i, name in enumerate(self.clique) if name in columns]
        # With an attribute left open some combination is always free: only a few are forbidden.
        if not self.only and len(known) < len(self.clique):
            return np.ones(rows, dtype=np.bool_)
        # Only the attributes that are known are compared; allowed combinations are cut down to them.
        listed = np.unique(self._keys([self.combinations[:, i] for i in known], known))
        keys = self._keys([np.asarray(columns[self.clique[i]]) for i in known], known)
        found: Truths = np.isin(np.broadcast_to(keys, rows), listed)
        if not self.only:
            return ~found
        for i, silent in enumerate(self.silent):
            if silent is not None:
                found |= np.asarray(columns[self.clique[i]]) == silent if i in known else True
        return found

    def _keys(self, codes: Sequence[NDArray[Any]], known: Sequence[int]) -> Longs:
        keys = np.zeros(len(codes[0]) if len(codes) else 1, dtype=np.int64)
        for i, column in zip(known, codes, strict=True):
            # The cells' numbers in mixed radix over the known attributes.
            keys = keys * self.sizes[i] + column
        return keys


class Dependency(Restriction):
    """One attribute that follows from another, by a table or by one that is still to be read off counts.

    Args:
        columns: The table's columns by name.
        rule: The rule.
        lookup: The code that follows from each, -1 where it is free; the rule's own table when None.
    """

    def __init__(self, columns: Mapping[str, Column], rule: Determines, lookup: Longs | None = None) -> None:
        clique = tuple(name for name in columns if name in rule.names)
        super().__init__(clique, [columns[name].size for name in clique])
        self.of, self.by = columns[rule.of], columns[rule.by]
        self.rule = rule
        for column in (self.of, self.by):
            code_of(column, None if column.missing_code is not None else _any(column))
        self.public = rule.table is not None
        self.lookup = self._declared_lookup() if lookup is None else lookup

    def judge_rows(self, columns: Columns, rows: int, exact: Columns | None = None) -> Truths:
        """See `Restriction.judge_rows`."""
        if self.of.name not in columns or self.by.name not in columns:
            return np.ones(rows, dtype=np.bool_)
        # -1 marks a cause of which the rule says nothing.
        follows, codes = self.lookup[columns[self.by.name]], np.asarray(columns[self.of.name])
        found: Truths = (follows < 0) | (follows == codes)
        # A missing value obeys unless the table itself speaks of missing ones.
        if self.of.missing_code is not None and not self._speaks():
            found |= codes == self.of.missing_code
        return found

    def read(self, counts: NDArray[np.float64]) -> Dependency:
        """The rule with each line's largest of noisy counts as its table, [codes of by, codes of `of`]."""
        lookup = counts[:, : self.of.present].argmax(axis=1).astype(np.int64)
        lookup[self.by.present :] = -1
        # Values behind `other` and missing ones are many or unknown, so that nothing follows from them.
        if isinstance(self.by, Listed) and self.by.other_code is not None:
            lookup[self.by.other_code] = -1
        return Dependency(self._columns(), self.rule, lookup)

    def _columns(self) -> dict[str, Column]:
        return {name: self.of if name == self.of.name else self.by for name in self.clique}

    def _speaks(self) -> bool:
        return self.public and any(value is None for _, value in self.rule.pairs)

    def _declared_lookup(self) -> Longs:
        lookup = np.full(self.by.size, -1, dtype=np.int64)
        for cause, value in self.rule.pairs:
            code, follows = code_of(self.by, cause), code_of(self.of, value)
            if code is not None and follows is not None and is_own(self.by, cause):
                # A rule about one value must not bind all values that share its code.
                lookup[code] = follows
        return lookup


class Numbers(Restriction):
    """Rules about numbers, as bins that may meet."""

    def __init__(self, joint: NumberRules) -> None:
        super().__init__(joint.clique, [joint.sizes[name] for name in joint.clique])
        self.joint = joint

    def judge_rows(self, columns: Columns, rows: int, exact: Columns | None = None) -> Truths:
        """See `Restriction.judge_rows`."""
        return self.joint.possible({n: c for n, c in columns.items() if n in self.clique}, rows, exact)


class CodeRules:
    """All rules of a schema, on codes.

    Args:
        restrictions: One or more.
        numbers: The rules about numbers, those that share columns together.
        counted: Noisy counts of cliques, for models to see what of them the rules leave true.
        noise: Standard deviation of each count.
    """

    def __init__(
        self,
        restrictions: Sequence[Restriction],
        numbers: Sequence[NumberRules] = (),
        counted: Mapping[Clique, NDArray[np.float64]] | None = None,
        noise: Mapping[Clique, NDArray[np.float64]] | None = None,
    ) -> None:
        self.restrictions = tuple(restrictions)
        self.numbers = tuple(numbers)
        self.counted, self.noise = dict(counted or {}), dict(noise or {})
        names = [name for one in restrictions for name in one.clique]
        self.names = tuple(dict.fromkeys(names))
        self.sizes = {n: s for one in restrictions for n, s in zip(one.clique, one.sizes, strict=True)}

    def tables(self, most: int = MOST_CELLS) -> list[tuple[Clique, Truths]]:
        """What is allowed, by clique, for restrictions of at most so many cells, small ones first."""
        # Small tables first: they forbid most for the least work.
        small = sorted((one for one in self.restrictions if one.cells <= most), key=lambda one: one.cells)
        return [(one.clique, one.table) for one in small if one.table is not None]

    def possible(self, columns: Columns, rows: int, exact: Columns | None = None) -> Truths:
        """Whether each row, whose other attributes are left open, can obey each rule, [rows]."""
        found = np.ones(rows, dtype=np.bool_)
        for one in self.restrictions:
            known = {name: columns[name] for name in one.clique if name in columns}
            if known:
                found &= one.possible(known, rows, exact)
        return found

    def groups(self) -> list[tuple[str, ...]]:
        """Attributes that hang together by rules, each group in an order of rules that share some."""
        left, found = list(self.restrictions), []
        while left:
            names = dict.fromkeys(left.pop(0).clique)
            # Attributes join a group as long as any rule links them to it.
            while near := [one for one in left if any(name in names for name in one.clique)]:
                names |= dict.fromkeys(name for one in near for name in one.clique)
                left = [one for one in left if one not in near]
            found.append(tuple(names))
        return found

    def without(self, names: Iterable[str]) -> CodeRules | None:
        """The rules that speak of none of some attributes; None if there are none."""
        gone = set(names)
        kept = [one for one in self.restrictions if not gone.intersection(one.clique)]
        return CodeRules(kept, self.numbers, self.counted, self.noise) if kept else None

    def feasible_shares(self, columns: Columns, rows: int) -> NDArray[np.float64]:
        """About the share of the values in each row's bins that obey the rules about numbers, [rows]."""
        found = np.ones(rows)
        for joint in self.numbers:
            if set(joint.clique) <= set(columns):
                found *= joint.feasible_shares({name: columns[name] for name in joint.clique}, rows)
        return found

    def pair(self, one: str, two: str) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Noisy counts of two attributes and their variances, [codes, codes], from the smallest clique."""
        counts = _pair(self.counted, one, two)
        variance = _pair({clique: sigma**2 for clique, sigma in self.noise.items()}, one, two)
        return None if counts is None or variance is None else (counts, variance)

    def read(
        self,
        tables: Mapping[Clique, NDArray[np.float64]],
        noise: Mapping[Clique, NDArray[np.float64]] | None = None,
    ) -> CodeRules:
        """The rules with dependencies whose table is not public read off noisy counts, and the counts.

        Args:
            tables: Noisy counts of cliques, axes in the clique's order.
            noise: Standard deviation of each count.
        """
        return CodeRules([_read(one, tables) for one in self.restrictions], self.numbers, tables, noise)

    def complete(
        self,
        given: Mapping[str, int],
        weights: Mapping[str, NDArray[np.float64]],
        rng: np.random.Generator,
        exact: Mapping[str, float] | None = None,
    ) -> dict[str, int] | None:
        """Codes of all attributes under rules that obey them all, or None where there are none.

        Attributes are drawn one after another by weight among the codes that each rule, given those drawn
        before, still allows; a dead end goes back one step.

        Args:
            given: Codes that are fixed.
            weights: Of each attribute's codes, [codes].
            rng: Source of randomness.
            exact: Numbers that are fixed beside their codes.

        Raises:
            SchemaError: No answer after LOOKS attempts.
        """
        fixed = {name: np.asarray([number]) for name, number in (exact or {}).items()}
        start = {name: int(code) for name, code in given.items() if name in self.sizes}
        one = {name: np.asarray([code]) for name, code in start.items()}
        # Given codes that already break a rule leave nothing to search for.
        if not self.possible(one, 1, fixed)[0]:
            return None
        left = [name for name in self.names if name not in start]
        return self._search(start, left, weights, rng, fixed, [LOOKS])

    def _search(
        self,
        found: dict[str, int],
        left: Sequence[str],
        weights: Mapping[str, NDArray[np.float64]],
        rng: np.random.Generator,
        exact: Columns,
        looks: list[int],
    ) -> dict[str, int] | None:
        if not left:
            return found
        name, size = left[0], self.sizes[left[0]]
        # One row for each code of the attribute, all of which continue what was found before.
        columns: dict[str, NDArray[Any]] = {n: np.full(size, code) for n, code in found.items()}
        columns[name] = np.arange(size)
        known = {n: np.broadcast_to(number, size) for n, number in exact.items()}
        near = [one for one in self.restrictions if name in one.clique]
        open_ = np.ones(size, dtype=np.bool_)
        for one in near:
            open_ &= one.possible({n: columns[n] for n in one.clique if n in columns}, size, known)
        codes = np.flatnonzero(open_)
        # The order of exponential variables over weights is that of draws without replacement.
        # A code of weight 0 may be the only one that obeys, so that none is ruled out by weight.
        heavy = np.maximum(weights[name][codes], 1e-12 * max(float(weights[name].max(initial=0.0)), 1e-300))
        for code in codes[np.argsort(rng.exponential(size=len(codes)) / heavy)].tolist():
            looks[0] -= 1
            if looks[0] < 0:
                remedy = "Leave out rules that follow from others."
                raise SchemaError(invalid("rules", "less entangled", remedy))
            done = self._search({**found, name: code}, left[1:], weights, rng, exact, looks)
            if done is not None:
                return done
        return None


def check_rules(columns: Iterable[Column], rules: Sequence[Rule]) -> None:
    """Check all that can be known of rules while some of their columns are still to be discovered.

    Columns whose kind is not known are passed over; a run refuses rules about them.

    Raises:
        SchemaError: A rule does not fit the kind of a column or names a value that the column does not list;
            or rules whose columns are all known contradict each other.
    """
    named = {column.name: column for column in columns}
    for rule in rules:
        own = {name: named[name] for name in rule.names}
        if isinstance(rule, Combinations | Determines):
            _check_listed(own, rule)
        elif isinstance(rule, CalendarRule):
            check_calendar(own, rule)
        elif isinstance(rule, FlagCount):
            check_flags(own, rule)
        else:
            check_numbers(own, rule)
    # Rules whose columns are all known can be checked together already; the others once discovery has
    # completed theirs.
    whole = [rule for rule in rules if all(named[name].known for name in rule.names)]
    if len(whole) < len(rules):
        used = {name for rule in whole for name in rule.names}
        code_rules(tuple(column for column in named.values() if column.name in used), tuple(whole))


def _check_listed(columns: Mapping[str, Column], rule: Combinations | Determines) -> None:
    """Check a rule on listed values, column by column."""
    pairs = rule.combinations if isinstance(rule, Combinations) else rule.pairs
    names = rule.columns if isinstance(rule, Combinations) else (rule.by, rule.of)
    for place, name in enumerate(names):
        column = columns[name]
        if isinstance(column, Unknown):
            continue
        values = {entry[place] for entry in pairs} - {None}
        if not isinstance(column, Listed):
            code_of(column, 0)
        elif column.values is not None:
            for value in values:
                code_of(column, value)


@functools.lru_cache(maxsize=16)
def code_rules(columns: tuple[Column, ...], rules: tuple[Rule, ...]) -> CodeRules | None:
    """The rules on the codes of known columns; None where no rule is about codes.

    Raises:
        SchemaError: A rule contradicts the schema, or the rules each other: no row could obey them.
    """
    if not rules:
        return None
    named = {column.name: column for column in columns}
    joints = number_rules(named, rules)
    made: list[Restriction] = [Listing(named, rule) for rule in rules if isinstance(rule, Combinations)]
    made += [Dependency(named, rule) for rule in rules if isinstance(rule, Determines)]
    made += [one for joint in joints for one in _told_apart(named, joint)]
    if not made:
        return None
    # That rules can be obeyed at all is shown by a row that obeys them; the seed is fixed, so the answer is
    # the same each time.
    found = CodeRules(made, joints)
    weights = {name: np.ones(size) for name, size in found.sizes.items()}
    rng = np.random.default_rng(0)
    for _ in range(WITNESSES):
        codes = found.complete({}, weights, rng)
        # If no codes obey, no numbers inside them can.
        if codes is None:
            break
        if all(joint.is_solvable(codes) for joint in joints):
            return found
    raise SchemaError(invalid("rules", "such that some row obeys them all", "They contradict each other."))


def _told_apart(columns: Mapping[str, Column], joint: NumberRules) -> list[Restriction]:
    """Rules about numbers each by itself, and all together where they say more together."""
    whole = Numbers(joint)
    alone = [Numbers(NumberRules(columns, [rule])) for rule in joint.rules]
    if len(alone) == 1:
        return [whole]
    # Two small rules are cheaper to obey than their joint table, which is kept only if it forbids something
    # that neither forbids alone.
    if whole.table is not None:
        codes = dict(zip(whole.clique, np.ogrid[tuple(slice(size) for size in whole.sizes)], strict=True))
        both = np.ones(whole.sizes, dtype=np.bool_)
        for one in alone:
            both &= one.parts(one.clique)[tuple(codes[name] for name in one.clique)]
        if (both == whole.table).all():
            return [*alone]
    return [*alone, whole]


def _read(one: Restriction, tables: Mapping[Clique, NDArray[np.float64]]) -> Restriction:
    if not isinstance(one, Dependency) or one.public:
        return one
    pair = _pair(tables, one.by.name, one.of.name)
    return one if pair is None else one.read(pair)


def _pair(tables: Mapping[Clique, NDArray[np.float64]], one: str, two: str) -> NDArray[np.float64] | None:
    # The smallest clique that holds both has summed the least noise.
    for clique, counts in sorted(tables.items(), key=lambda item: len(item[0])):
        if one in clique and two in clique:
            gone = tuple(i for i, name in enumerate(clique) if name not in (one, two))
            pair = np.asarray(counts.sum(axis=gone))
            return pair if clique.index(one) < clique.index(two) else pair.T
    return None


def _any(column: Column) -> Any:
    """Some value of a listed column, for its checks; None for another."""
    return (*(column.values or ()), column.other)[0] if isinstance(column, Listed) else None
