"""Attributes that are missing, or 0, as another one says: rows change as for determined attributes.

A mixture that pays for every nat of dependence holds that two columns are missing together in .98 of the rows
where the measured pair shows it in all, and that hours of work are 0 in .98 of the rows without any work.
`margrave.schema.constraints.structural` says what such a pair shows of either value. Rows drawn from the
model then get a table of the pair in which the attribute has the value in all certain lines' rows, or in the
share of them that the measured pair has; in other lines as many rows have it as its one-way leaves, shared
out as the model has it. Beside that all codes keep the model's shares.

Changes are those of `margrave.models._determined`, and none is made that leaves measured pairs of either
attribute clearly further off. An attribute changes for one other at most, those that are fixed entirely come
before, and what says it never changes in its place: rows of which all answers are missing would be told from
those of one that is. Where too many rows of a line have the value, others come into the same rows for all
attributes, so that those that are missing together stay so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.pooling import Pooled, one_ways
from margrave.models._determined import (
    DOUBTS,
    LEAST_CHANGED,
    Determined,
    choose_changes,
    find_determined,
    list_changeable,
)
from margrave.schema.constraints.structural import Counted, StructuralPattern, find_structural_pattern

if TYPE_CHECKING:
    from margrave import protocols

Floats = NDArray[np.float64]


def find_changes(
    model: protocols.Model, tables: Sequence[Pooled], public: Mapping[str, NDArray[np.floating]]
) -> list[Determined]:
    """What measured pairs show to be fixed, entirely or where it is missing or 0, in the order of changing.

    Attributes that rules speak of are left alone. Surer patterns come before others, and then those by which
    more rows change.

    **Privacy.** Looks at released tables, the model that was fitted to them, and public rows.

    Args:
        model: What was fitted.
        tables: What was measured, a table a clique.
        public: How many rows have each code of a public attribute, shape [codes] each.
    """
    determined = find_determined(model, tables, public)
    rules = model.domain.rules
    ruled = frozenset[str]() if rules is None else frozenset(rules.names)
    pairs, ways = list_changeable(tables, public), one_ways(tables)
    counted = {name: Counted(np.maximum(way.values, 0.0), way.sigma) for name, way in ways.items()}
    for name, counts in public.items():
        counted[name] = Counted(np.asarray(counts, dtype=np.float64), np.zeros(len(counts)))
    found: list[tuple[tuple[float, ...], _Found]] = []
    for table in pairs:
        for by, name in (table.clique, table.clique[::-1]):
            if name in public or not ruled.isdisjoint(table.clique):
                continue
            for zero in (False, True):
                one = _Found.read(model, table, by, counted, zero)
                if one is not None and one.changed > LEAST_CHANGED:
                    sure = math.ceil(one.pattern.doubt / DOUBTS)
                    found.append(((by not in public, not one.pattern.alone, sure, -one.changed), one))
    found.sort(key=lambda entry: entry[0])
    return choose_changes(model, [(one.change,) for _, one in found], pairs, public, determined)


@dataclass(frozen=True, slots=True)
class _Found:
    """A pattern that a measured pair shows.

    Args:
        change: What has the value changes.
        pattern: What the pair shows.
        changed: Share of the rows by which the model's table of the pair would change.
    """

    change: Determined
    pattern: StructuralPattern
    changed: float

    @classmethod
    def read(
        cls, model: protocols.Model, table: Pooled, by: str, counted: Mapping[str, Counted], zero: bool
    ) -> _Found | None:
        """What a measured pair shows of where the attribute beside `by` is missing, or 0; None if nothing."""
        turned = by != table.clique[0]
        name = table.clique[0] if turned else table.clique[1]
        values, sigma = (part.T if turned else part for part in (table.values, table.sigma))
        domain, lines = model.domain, counted[by]
        codes = domain.zeros if zero else domain.missing
        code, like = codes[domain.index(name)], codes[domain.index(by)]
        if code < 0:
            return None
        value = Counted(counted[name].rows[code], counted[name].sigma[code])
        pattern = find_structural_pattern(Counted(values[:, code], sigma[:, code]), lines, value)
        if pattern is None:
            return None
        modelled = model.project(table.clique)
        expected = np.maximum(modelled.T if turned else modelled, 0.0)
        shares = _share_codes(pattern, expected, code)
        changed = 0.5 * float(np.abs(shares * expected.sum(axis=1, keepdims=True) - expected).sum())
        sentence = pattern.say(like if like >= 0 else None, zero)
        one = Determined(name, by, shares, held=pattern.held, sentence=sentence)
        return cls(one, pattern, changed / float(expected.sum()))


def _share_codes(pattern: StructuralPattern, expected: Floats, code: int) -> Floats:
    """The distribution in each line, shape [lines, codes]: the model's but for how often the code occurs."""
    lines = np.maximum(expected.sum(axis=1), 1e-300)
    held = expected[:, code] / lines
    rest = float(expected[~pattern.lines, code].sum())
    held = np.minimum(held * pattern.elsewhere / max(rest, 1e-300), 1.0)
    held = np.where(pattern.lines, pattern.share, held)
    others = np.delete(expected, code, axis=1)
    # A line in which the model has nothing else is filled as all others are.
    usual = others.sum(axis=0) / max(float(others.sum()), 1e-300)
    sums = others.sum(axis=1, keepdims=True)
    others = np.where(sums > 0.0, others / np.maximum(sums, 1e-300), usual)
    return np.asarray(np.insert(others * (1.0 - held)[:, None], code, held, axis=1))
