"""Determined attributes: private ones that another attribute fixes, as a measured pair shows.

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

In rows drawn from the model, `name` is then drawn anew given `by` alone: the code of the largest cell with
the share of rows that these cells hold together, or all where noise explains what is missing; else, and in
lines that noise hides, as the model's pair has it. Where a table of `by` with a third attribute is exact, as
of two public ones, that of `name` with it is nearly so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_letters
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.limits import Deadline
from margrave.models._base.model import DelegatingModel
from margrave.models._base.pooling import Pooled, one_ways
from margrave.models._sampling.rounding import draw_column, order_by_group
from margrave.schema.constraints.certain_lines import EXACT, HIDDEN, FixedCodes, find_fixed_codes
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Codes, Encoded, code_dtype

if TYPE_CHECKING:
    from margrave import protocols

Floats = NDArray[np.float64]

PREFIX = "determined_"
"""How the names of a state's arrays begin that the inner model's do not have."""
EXPLAINED = 2.0
"""Standard deviations that squared residuals may be above what noise makes of them."""
WORTH = 2.0
"""What the model's pair would change by, over the share of the rows that may not be in largest cells, from
which on an attribute is taken for determined against a model that is as close. On the choosing half .21 to
.28 would change of true ones and .04 to .08 of false ones, where that share is .06 to .08 (bench/LOG.md)."""
KEY = PREFIX + "pairs"
"""An array that the state of a `DeterminedModel` has and that of no other model of `PublicAuto`."""


@dataclass(frozen=True, slots=True)
class Determined:
    """An attribute that another one fixes.

    Args:
        name: The attribute.
        by: The one that fixes it.
        shares: The distribution of `name` in each code of `by`, shape [codes of by, codes of name].
    """

    name: str
    by: str
    shares: Floats


class DeterminedModel(DelegatingModel["protocols.Model"]):
    """A model in whose rows some attributes are drawn anew, each given one other attribute alone.

    Args:
        inner: The model.
        determined: In the order of drawing: what fixes one comes before it.
    """

    def __init__(self, inner: protocols.Model, determined: Sequence[Determined]) -> None:
        super().__init__(inner)
        self.determined = tuple(determined)

    def project(self, clique: Clique) -> Floats:
        """The marginal of any clique, in rows, shape domain.shape(clique).

        Raises:
            InputError: The clique repeats an attribute.
        """
        if len(set(clique)) != len(clique):
            raise InputError(invalid("clique", "without repeats", "Name each attribute once.", got=clique))
        last = next((one for one in reversed(self.determined) if one.name in clique), None)
        if last is None:
            return self.inner.project(clique)
        rest = tuple(name for name in clique if name != last.name)
        held = rest if last.by in rest else (*rest, last.by)
        letters = dict(zip((*held, last.name), ascii_letters, strict=False))
        joint, wanted = ("".join(letters[name] for name in names) for names in (held, clique))
        # Given `by`, the attribute depends on nothing else.
        line = f"{joint},{letters[last.by]}{letters[last.name]}->{wanted}"
        found = np.einsum(line, self.project(held), last.shares)
        return np.asarray(found)

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
        """The inner model's rows, conditioned on the codes in `given`, with determined attributes drawn anew.

        Raises:
            InputError: rows is negative or a code is outside its attribute.
        """
        drawn = self.inner.sample(rows, rng, given, deadline)
        columns = {name: drawn.column(name) for name in self.domain.names}
        for one in self.determined:
            if one.name in (given or {}):
                continue
            keys = columns[one.by].astype(np.int64)
            codes = draw_column(keys, order_by_group(keys, len(one.shares)), one.shares, rng)
            columns[one.name] = codes.astype(code_dtype(self.domain[one.name]))
        return Encoded(self.domain, tuple(columns.values()))

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which `PublicAuto.restore` builds the same model again."""
        places = [(self.domain.index(one.name), self.domain.index(one.by)) for one in self.determined]
        shares = {f"{PREFIX}{place}": one.shares for place, one in enumerate(self.determined)}
        return self.inner.state() | shares | {KEY: np.asarray(places, dtype=np.int64)}


def restore_determined(domain: Domain, state: Mapping[str, NDArray[Any]]) -> list[Determined]:
    """The determined attributes whose `state` was saved.

    Raises:
        ReleaseError: The state is not that of determined attributes of this domain.
    """
    places, found = np.asarray(state[KEY]), list[Determined]()
    whole = places.ndim == 2 and places.shape[1] == 2 and places.dtype.kind in "iu"
    if not whole or (places.size and not 0 <= places.min() <= places.max() < len(domain)):
        raise ReleaseError(invalid("state", "with pairs of attributes", "The release is damaged."))
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
        found.append(Determined(domain.names[name], domain.names[by], shares))
    return found


def find_determined(
    model: protocols.Model, tables: Sequence[Pooled], public: Mapping[str, NDArray[np.floating]]
) -> list[Determined]:
    """The private attributes that measured pairs show to be fixed by another one, in the order of drawing.

    Of what fixes an attribute a public one is taken before a private one, then that by whose table the
    measured one is met best. Of two that fix each other, that of fewer measured pairs is drawn. Nothing is
    looked for where rules hold: a code that is drawn anew might break one.

    **Privacy.** Looks at released tables, the model that was fitted to them, and public rows.

    Args:
        model: What was fitted.
        tables: What was measured, a table a clique.
        public: How many rows have each code of a public attribute, shape [codes] each.
    """
    if model.domain.rules is not None:
        return []
    pairs = [
        table
        for table in tables
        if len(table.clique) == 2 and not table.inferred and not set(table.clique) <= set(public)
    ]
    partners, ways = Counter(name for table in pairs for name in table.clique), one_ways(tables)
    found: list[tuple[bool, int, float, Determined]] = []

    def is_likely(one: Determined, fixed: FixedCodes, expected: Floats) -> bool:
        held = expected.sum(axis=1, keepdims=True)
        changed = 0.5 * float(np.abs(one.shares * held - expected).sum()) / float(held.sum())
        return changed > WORTH * EXACT * fixed.deviation and _explains_pairs(one, model, pairs)

    for table in pairs:
        for turned, (by, name) in ((False, table.clique), (True, table.clique[::-1])):
            if name in public:
                continue
            values, sigma = (part.T if turned else part for part in (table.values, table.sigma))
            # The pair's own line sums would have the noise of many cells.
            held = public[by] if by in public else np.maximum(ways[by].values, 0.0)
            counts: Floats = np.asarray(held, dtype=np.float64)
            fixed = find_fixed_codes(values, sigma, counts)
            if fixed is None:
                continue
            modelled = model.project(table.clique)
            expected = modelled.T if turned else modelled
            shares = _share_codes(fixed, expected)
            gain = _compare_tables(values, sigma, expected, shares * counts[:, None])
            one = Determined(name, by, shares)
            if gain > 1.0 or (fixed.exact and (partners[name] == 1 or is_likely(one, fixed, expected))):
                found.append((by in public, -partners[name], gain, one))
    found.sort(key=lambda entry: entry[:3], reverse=True)
    return _order_acyclic([one for *_, one in found])


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
    implied = DeterminedModel(model, [one]).project_many([table.clique for table in own])
    squares = sum(
        float((((table.values - values) / table.sigma) ** 2).sum())
        for table, values in zip(own, implied, strict=True)
    )
    # A sum of n squares of standard normals has mean n and variance 2 n.
    cells = sum(table.values.size for table in own)
    return squares <= cells + EXPLAINED * math.sqrt(2.0 * cells)


def _order_acyclic(found: Sequence[Determined]) -> list[Determined]:
    """The first that fixes each attribute and closes no circle, what fixes before what is fixed."""
    fixed: dict[str, Determined] = {}
    for one in found:
        over, name = {one.name}, one.by
        while name not in over and name in fixed:
            over.add(name)
            name = fixed[name].by
        if one.name not in fixed and name not in over:
            fixed[one.name] = one
    ordered: list[Determined] = []
    while fixed:
        # One at least is fixed by an attribute that is drawn already, as there is no circle.
        for name in [name for name, one in fixed.items() if one.by not in fixed]:
            ordered.append(fixed.pop(name))
    return ordered
