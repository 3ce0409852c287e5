"""TextSearch: what a column of text holds: values, beginnings of codes, keys of a pattern, or free text.

**Privacy.** Unit and adjacency: the ledger's; k rows an owner. Which of these looks follow, and with which
delta, depends on released numbers only; all are recorded in the ledger before their noise is drawn.

1. *values*: `margrave.measure.mechanisms.partition`. What passes is listed from here on.
2. *shapes*: rows that are not listed, by the classes of signs in their text
(`margrave.schema.columns.identifier`). A
   row is in one cell at most, which depends on its own text and on the released list alone, so the histogram
   over all shapes moves as one marginal does; an owner holds at most k shapes that nobody else has. So it is
   one more search for values, with its own threshold: the proof at the head of `partition` holds for it.
3. *distinct values*: how many different texts the rows hold that are not listed. Put an owner's rows in one
   after another: each adds 1 or 0 to the number. So it moves by at most k where they come or go. Where k rows
   are exchanged for k others, taking them out lowers it by 0 to k and putting the others in raises it by 0 to
   k, so it moves by at most k again: squared L2 sensitivity k^2 under both adjacencies, for one number.
4. *keys*: as 2, by the shape that keeps what stands in front of the digits.
5. *beginnings*: rows that are not listed, and whose text begins with none of the beginnings released before,
   by their first letters, over all texts of a released shape cut to that length. The cells are fixed before
   the look, and a row is in one at most: a marginal's sensitivity, no threshold and no delta.

The exact answers of 2 to 5 are made from the values and their counts, so they are additive on every engine on
which `Source.value_parts` is.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.measure.mechanisms.partition import Parts, find_texts, listed_values
from margrave.privacy.ledger.ledger import Ledger
from margrave.release import NoisyMarginal
from margrave.schema.columns import Categorical, Column, Identifier, Listed, Omitted
from margrave.schema.columns.identifier import cut_shape, shape_of, shape_parts, widen_shape

if TYPE_CHECKING:
    from margrave.protocols import Source

Counts = NDArray[np.int64]


SHARES_OF_DELTA = {"values": Fraction(1, 2), "shapes": Fraction(1, 4), "keys": Fraction(1, 4)}
"""Parts of a column's delta for the search of each sort."""
MOST_BEGINNINGS = 1 << 16
"""Most cells of a look at beginnings; where there were more, a shorter one is looked at."""
LEAST_REST = 0.02
"""Share of the rows without a code of their own from which more is asked about them."""
MOSTLY_LISTED = 0.5
"""Share of the rows with listed values from which a column is taken for one of categories."""
MIN_DISTINCT_SHARE, MIN_SHAPED_SHARE = 0.9, 0.8
"""Different texts a row from which a column holds keys or free text, and share of the rows in released shapes
from which these are the pattern of keys."""
MIN_CODED_SHARE = 0.5
"""Share of the rows without a code that has to be in released shapes for a look at beginnings."""
NUMBERS = re.compile(r"\[0-9\]\{([5-9]|[1-9][0-9])\}")
"""The shape of listed values, all of five digits or more, from which other texts are drawn as well."""
NO_VALUE = "no text in it is frequent enough to be told"
NO_PATTERN = "nearly every row has a text of its own, without a common pattern"


@dataclasses.dataclass(frozen=True, slots=True)
class TextSearch:
    """The looks at one column of text whose values are not declared.

    Args:
        source: The private table.
        gaussian: The mechanism.
        ledger: Where spends are recorded.
        unit: rho of a look of weight 1.
        weights: The weight of each sort of look.
        delta: What all searches of the column may cost of delta.
        rows: A released guess of the row count and its variance; 0 rows where there is none.
        tell: Called with the name of each look before it.
    """

    source: Source
    gaussian: Gaussian
    ledger: Ledger
    unit: Fraction
    weights: dict[str, Fraction]
    delta: Fraction
    rows: tuple[float, float]
    tell: Callable[[str], None]

    def run(self, column: Listed, *, attribute: bool = False) -> tuple[Column, NoisyMarginal | None]:
        """The known column and its marginal; None for a column that is no attribute.

        Args:
            column: Categorical without values; of another kind, only its values are looked for.
            attribute: Whether it has to stay an attribute, whatever it holds.
        """
        known, marginal = self._find(column, attribute)
        if not isinstance(known, Categorical) or not known.values:
            return known, marginal
        shapes = {widen_shape(shape_of(str(value)) or "-") for value in known.values}
        alike = len(shapes) == 1 and NUMBERS.fullmatch(min(shapes)) is not None
        return dataclasses.replace(known, others=min(shapes) if alike else ""), marginal

    def _find(self, column: Listed, attribute: bool) -> tuple[Column, NoisyMarginal | None]:
        """As `run`, without a shape for other texts."""
        self.tell(f"values of {column.name}")
        known, marginal = self._values(column)
        if not isinstance(known, Categorical) or attribute or self.rows[0] <= 0:
            return known, marginal
        listed = len(known.values or ())
        counted = float(marginal.values[:listed].sum())
        absent = float(marginal.values[-1]) if known.missing else 0.0
        spread = math.sqrt(self.rows[1] + float((marginal.sigmas[:listed] ** 2).sum()))
        rest = self.rows[0] - counted - absent
        if rest < max(4.0 * spread, LEAST_REST * self.rows[0]):
            return known, marginal
        shapes = self._shapes(f"shapes of {known.name}", known, "shapes")
        unlike = counted < MOSTLY_LISTED * rest and self._are_unlike(known, rest, spread)
        if unlike and not listed:
            return self._keys(known, shapes, rest), None
        covered = sum(shapes.values())
        if shapes and not unlike and covered >= MIN_CODED_SHARE * rest:
            known, marginal = self._beginnings(known, marginal, max(shapes, key=lambda one: shapes[one]))
        if known.values or known.prefixes:
            return known, marginal
        return Omitted(name=known.name, reason=NO_PATTERN if unlike else NO_VALUE), None

    def _values(self, column: Listed) -> tuple[Listed, NoisyMarginal]:
        rho, delta = self.unit * self.weights["values"], self.delta * SHARES_OF_DELTA["values"]
        return listed_values(column, self.source, self.gaussian, self.ledger, rho, delta, self.rows[0])

    def _shapes(self, what: str, column: Categorical, sort: str) -> dict[str, float]:
        """Frequent shapes of texts without a code of their own, and their noisy counts.

        **Privacy.** Proof at the head of this file, 2 and 4.

        Args:
            what: The look, in public words.
            column: What is known by now.
            sort: "shapes" by classes of signs, "keys" with what stands in front of the digits.
        """
        self.tell(what)

        def exact() -> Parts:
            found: Counter[str] = Counter()
            for text, count in self._rest(column):
                shape = shape_of(text)
                if shape:
                    found[widen_shape(shape) if sort == "shapes" else shape] += count
            names = tuple(sorted(found))
            return [(names, np.array([*(found[name] for name in names), 0], dtype=np.int64))]

        rho = self.unit * self.weights["shapes" if sort == "shapes" else "prefixes"]
        delta = self.delta * SHARES_OF_DELTA[sort]
        answer, _ = find_texts(what, exact, self.gaussian, self.ledger, rho, delta)
        return dict(zip(answer.texts, answer.arrays[0][:-1].tolist(), strict=True))

    def _rest(self, column: Categorical) -> Iterable[tuple[str, int]]:
        """Texts that are not listed and have no released beginning, and their rows. **Not private.**"""
        listed, prefixes = set(column.values or ()), set(column.prefixes)
        lengths = {len(prefix) for prefix in prefixes}
        for texts, counts in self.source.value_parts(column.name):
            for text, count in zip(texts, counts.reveal()[:-1].tolist(), strict=True):
                if text not in listed and not any(text[:length] in prefixes for length in lengths):
                    yield text, count

    def _are_unlike(self, column: Categorical, rest: float, spread: float) -> bool:
        """Whether nearly every row that is not listed has a text of its own; not where noise hides it."""
        what, k = f"distinct values of {column.name}", self.ledger.neighbours.unit.max_rows
        self.tell(what)
        gaussian = self.gaussian.with_sensitivity(k * k)

        def exact() -> list[Counts]:
            return [np.array([sum(1 for _ in self._rest(column))], dtype=np.int64)]

        (found,), sigma = gaussian.ask([what], self.unit * self.weights["distinct"], exact)
        doubt = 2.0 * math.hypot(sigma, spread)
        return doubt < MIN_DISTINCT_SHARE / 2 * rest and float(found[0]) >= MIN_DISTINCT_SHARE * rest - doubt

    def _keys(self, column: Categorical, shapes: dict[str, float], rest: float) -> Column:
        """New keys of released shapes where these cover nearly all rows; else the column is left out."""
        if sum(shapes.values()) < MIN_SHAPED_SHARE * rest:
            return Omitted(name=column.name, reason=NO_PATTERN)
        closer = self._shapes(f"keys of {column.name}", column, "keys")
        if sum(closer.values()) >= MIN_SHAPED_SHARE * rest:
            shapes = closer
        total = sum(shapes.values())
        shares = {shape: round(count / total, 4) for shape, count in shapes.items()}
        kept = {shape: share for shape, share in shares.items() if share > 0}
        return Identifier(name=column.name, pattern="shape", shapes=tuple(kept), shares=tuple(kept.values()))

    def _beginnings(
        self, column: Categorical, marginal: NoisyMarginal, shape: str
    ) -> tuple[Categorical, NoisyMarginal]:
        """The column with codes for frequent beginnings, and the marginal with their counts.

        **Privacy.** Proof at the head of this file, 5.
        """
        lengths = _cuts(shape)
        for length in lengths:
            what = f"beginnings of {column.name}, {length} letters"
            cells = _texts_of(shape, length)
            self.tell(what)
            exact = functools.partial(self._begun, column, cells, length)
            rho = self.unit * self.weights["prefixes"] / len(lengths)
            (noisy,), sigma = self.gaussian.ask([what], rho, exact)
            bar = max(sigma * _rarest(len(cells)), column.rare * self.rows[0])
            found = {cell: float(count) for cell, count in zip(cells, noisy, strict=True) if count >= bar}
            column, marginal = _with_prefixes(column, marginal, found, sigma, _complete_shape(shape, length))
        return column, marginal

    def _begun(self, column: Categorical, cells: tuple[str, ...], length: int) -> list[Counts]:
        """Rows without a code of their own by the first letters of their text. **Not private.**"""
        places = {cell: place for place, cell in enumerate(cells)}
        result = np.zeros(len(cells), dtype=np.int64)
        for text, count in self._rest(column):
            place = places.get(text[:length])
            if place is not None:
                result[place] += count
        return [result]


def _with_prefixes(
    column: Categorical, marginal: NoisyMarginal, found: dict[str, float], sigma: float, ending: str
) -> tuple[Categorical, NoisyMarginal]:
    """The column and its marginal with codes for more beginnings, behind those that it has."""
    at = len(column.values or ()) + len(column.prefixes)
    values = np.insert(marginal.values, [at] * len(found), list(found.values()))
    sigmas = np.insert(marginal.sigmas, [at] * len(found), [sigma] * len(found))
    prefixes, endings = (*column.prefixes, *found), (*column.endings, *([ending] * len(found)))
    wider = dataclasses.replace(column, prefixes=prefixes, endings=endings)
    return wider, NoisyMarginal((column.name,), values, sigmas)


def _rarest(cells: int) -> float:
    """Standard deviations that the noise of none of so many cells exceeds, but for one look in a hundred."""
    return float(-ndtri(0.01 / cells))


def _texts_of(shape: str, length: int) -> tuple[str, ...]:
    """All beginnings of some length that texts of a shape may have."""
    return tuple("".join(signs) for signs in itertools.product(*shape_parts(shape)[:length]))


def _cuts(shape: str) -> tuple[int, ...]:
    """Lengths of beginnings to look for, the longer first: where the kind of sign changes, else by thirds."""
    sorts = [_sort(signs) for signs in shape_parts(shape)]
    length = len(sorts)
    spaces = np.cumprod([float(len(signs)) for signs in shape_parts(shape)])
    changes = [place for place, (a, b) in enumerate(pairwise(sorts), 1) if a != b and a != "mark"]
    if len(changes) == 1 and length - changes[0] > 3:
        changes.append((changes[0] + length) // 2)
    if not changes:
        changes = [length // 3, 2 * length // 3]
    most = int(np.searchsorted(spaces, MOST_BEGINNINGS, side="right"))
    ends = {min(changes[0], most), min(changes[-1], most)} - {0, length}
    return tuple(sorted(ends, reverse=True))


def _sort(signs: str) -> str:
    """What sort of sign a place of a shape holds."""
    if signs[0].isdigit():
        return "digit"
    return "letter" if signs[0].isalpha() else "mark"


def _complete_shape(shape: str, length: int) -> str:
    """What is written behind a beginning: nothing where a mark parts the code there or later, else digits.

    A beginning such as I21 of I21.9 is a code by itself. One such as 015 of 01591 is none, so that its last
    places are drawn, as the shape has them.
    """
    marked = any(_sort(signs) == "mark" for signs in shape_parts(shape)[length:])
    return "" if marked else cut_shape(shape, length)
