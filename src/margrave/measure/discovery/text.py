"""TextSearch: what a column of text holds: values, beginnings or patterns of others, keys, or free text.

**Privacy.** Unit and adjacency: the ledger's; k rows an owner. Which of these looks follow, and with which
delta, depends on released numbers only; all are recorded in the ledger before their noise is drawn.

1. *values*: `margrave.measure.mechanisms.partition`. What passes is listed from here on.
2. *shapes*: rows that are not listed, by the classes of signs in their text
   (`margrave.schema.columns.identifier`). A row is in one cell at most, which depends on its own text and on
   the released list alone, so the histogram over all shapes moves as one marginal does; an owner holds at
   most k shapes that nobody else has. So it is one more search for values, with its own threshold: the proof
   at the head of `partition` holds for it.
3. *distinct values*: how many different texts that are not listed are in at least 1, 2, 3, ... rows, with a
   marginal's sensitivity and no delta: proof at the head of `margrave.measure.discovery.keys`.
4. *keys*: as 2, by the shape that keeps what stands in front of the digits; *patterns*: by that which keeps
   all letters; *signs*: by marks and the number of signs between. Either patterns follow, with the delta kept
   for it, or signs, or keys and maybe both of the first, half each.
5. *beginnings*: rows that are not listed, and whose text begins with none of the beginnings released before,
   by their first letters, over all texts of a released shape cut to that length. The cells are fixed before
   the look, and a row is in one at most: a marginal's sensitivity, no threshold and no delta.
6. *values together*: columns whose values are still open, all at once. Cells are a column with a text each.
   A row in which m of their texts are not listed adds w(m), the whole part of WEIGHT / sqrt(m), to the cell
   of each of these m texts. So its part is a vector without negative numbers of length sqrt(m) w(m) <=
   WEIGHT, which depends on that row and on released lists alone. By the triangle inequality the k rows of an
   owner add up to at most k WEIGHT where they come or go. Where they are exchanged for k others, what is
   taken and what is put have no negative numbers, so their inner product is not below 0 and the squared
   length of the difference is at most the sum of both squares, 2 k^2 WEIGHT^2. Where values are erased, the
   row's own part alone goes. So the squared sensitivity is WEIGHT^2 times that of a marginal in each case. An
   owner alone holds at most k c new cells, c the number of columns, of at most k WEIGHT each: with that
   threshold the proof at the head of `partition` holds. A first search of each column finds what is frequent,
   so that few of a row's texts are left and each of them counts for more, as in the iterative search of
   Swanberg, Desfontaines and Haney 2023 (arXiv 2301.01998).
7. *counts*: rows by their text over listed texts, which are released by then or on a public list, and rows
   without a text: each row is in one cell at most. Which public list is taken is post-processing: one that
   released values fit (`margrave.schema.columns.public_lists`), or which 8 has told. Its other values need no
   threshold and no delta: the names are public, and only noisy counts tell whether a row has one.
8. *public lists*: rows by the public lists that their text is on. A row adds 1 to at most MOST_LISTS cells,
   and which follows from its own text alone: a vector without negative numbers of length at most the root of
   MOST_LISTS. As in 6, the squared sensitivity is MOST_LISTS times that of a marginal. No threshold and no
   delta: the lists are public. Asked where too few values are released to say which list fits.
9. *first digits*: rows by the shape of their text and the digits at some places of it, over released shapes
   and all digits, or those that 10 has told (`margrave.measure.discovery.beginnings`). Shapes, places and
   digits follow from released counts alone, so the cells are fixed before the look. A text has one shape and
   one sign at a place, so a row is in one cell at most: as 5, a marginal's sensitivity, no delta.
10. *digits place by place*: rows by the shape of their text, a place of it and the digit there, over shapes
   released by 2 and 4 and all digits. Shapes and their places are fixed before the look. The first places of
   all shapes are a marginal, in which a row is in one cell at most, so are the second ones, and so on: as
   many marginals as the most places of a shape, told as one vector (`Gaussian.joint`), whose squared
   sensitivity is that number times a marginal's. No threshold and no delta: all cells are fixed before.

The exact answers of 2 to 5 and 7 to 10 are made from the values and their counts, so they are additive on
every engine on which `Source.value_parts` is; 6 is `Source.unlisted_parts`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.measure.discovery.beginnings import (
    choose_digits,
    choose_uneven,
    classes_of,
    complete_shape,
    count_beginnings,
    count_digits,
    count_signs,
    cut_lengths,
    find_numbers,
    leave_shapes,
    list_places,
    narrow_shapes,
    rarest_deviations,
    read_shape,
    split_patterns,
    tell_by_beginnings,
    texts_of,
    with_patterns,
    with_prefixes,
)
from margrave.measure.discovery.keys import KeyCounts, count_keys, keep_keys, list_steps, share_texts
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.measure.mechanisms.partition import FoundTexts, Parts, count_listed, find_texts, search_values
from margrave.privacy.ledger.ledger import Ledger
from margrave.release import NoisyMarginal
from margrave.schema.columns import Categorical, Column, Listed, Omitted
from margrave.schema.columns.base import Scalar
from margrave.schema.columns.identifier import find_rest_shape, has_letters, keep_letters, shape_of
from margrave.schema.columns.public_lists import (
    MOST_LISTS,
    choose_list,
    count_by_list,
    find_list,
    may_fit_list,
    name_counts,
)
from margrave.schema.queries import count_repeats

if TYPE_CHECKING:
    from margrave.measure.discovery.discover import DiscoveryBudget
    from margrave.protocols import Source

Counts = NDArray[np.int64]
Texts = Iterable[tuple[str, int]]
"""Texts and their rows."""

SHARES_OF_DELTA = {"values": Fraction(1, 2), "shapes": Fraction(1, 4), "keys": Fraction(1, 4)}
"""Parts of a column's delta for the search of each sort, where columns are searched one by one alone."""
SHARES_TOGETHER = {"values": Fraction(1, 4), "shapes": Fraction(1, 4), "keys": Fraction(1, 4)}
"""The same where they are searched together, too, for which the rest is left."""
LEAST_TOGETHER = 3
"""Columns of text from which they are searched together, too."""
FIRST, TOGETHER, COUNTED = Fraction(1, 4), Fraction(13, 20), Fraction(1, 10)
"""Parts of the rho for values: the search of each column alone, the search together, and the counts."""
WEIGHT = 1000
"""What a row adds to a text in the search together if it holds no other that is not listed."""
LEAST_REST = 0.02
"""Share of the rows without a code of their own from which more is asked about them."""
MOSTLY_LISTED = 0.5
"""Share of the rows with listed values from which a column is one of categories."""
LETTERS, MIN_SHAPED_SHARE = Fraction(1, 4), 0.8
"""Part of what the look at first digits of keys may cost for one at their letters or signs, not measured; and
share of the rows in released shapes from which these are the pattern of keys."""
MOST_OTHER = 0.8
"""Share of the texts that "(other)" may stand for: a column that says so in more than four of five rows that
have a text is left out, as whoever reads it learns nothing in nearly all of them. Not measured."""
MIN_CODED_SHARE = 0.5
"""Share of the rows without a code that has to be in released shapes for a look at beginnings."""
NO_VALUE = "no text in it is frequent enough to be told"
MOSTLY_OTHER = "fewer than one in five of its texts are frequent enough to be told"
NO_PATTERN = "nearly every row has a text of its own, without a common pattern"


@dataclasses.dataclass(slots=True)
class _Found:
    """What is known of a column by now.

    Args:
        asked: The column without values.
        texts: Its released texts.
        known: The column with these, or what else it turned out to be; `marginal`, the counts of its codes.
        attribute: Whether it has to stay an attribute.
        rest: Rows without a code after the first look, 0 where there are next to none.
        shapes: The shapes of their texts; `noise`, the standard deviation of their counts' noise.
        counted: In how many of them their texts are, where that was asked.
        unlike: Whether nearly every one of them has a text of its own; `coded`, whether most have a shape.
        torn: Whether beginnings would tear these, so that they fall back to patterns; `delta`, what is kept
            for the search of these.
        done: Whether it holds keys or is left out.
        list_name: The public list that its values are from; `fresh`, the other values of that list.
        weighed: Texts that the search of all columns found, with their noisy sum of weights and its noise.
        first: The values that were listed when shapes were counted.
    """

    asked: Listed
    texts: FoundTexts
    known: Column
    marginal: NoisyMarginal | None
    attribute: bool
    rest: float = 0.0
    shapes: dict[str, float] = dataclasses.field(default_factory=dict)
    noise: float = 0.0
    counted: KeyCounts | None = None
    unlike: bool = False
    coded: bool = False
    torn: bool = False
    delta: Fraction = Fraction(0)
    done: bool = False
    list_name: str = ""
    fresh: tuple[str, ...] = ()
    weighed: dict[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    first: frozenset[Scalar] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True)
class TextSearch:
    """The looks at the columns of text whose values are not declared.

    Args:
        source: The private table.
        gaussian: The mechanism.
        ledger: Where spends are recorded.
        budget: Shares out discovery's rho.
        weights: The weight of each sort of look.
        rows: A released guess of the row count and its variance; 0 rows where there is none.
        tell: Called with the name of each look before it.
    """

    source: Source
    gaussian: Gaussian
    ledger: Ledger
    budget: DiscoveryBudget
    weights: dict[str, Fraction]
    rows: tuple[float, float]
    tell: Callable[[str], None]

    def run(
        self, columns: Sequence[Listed], attributes: Collection[str] = ()
    ) -> list[tuple[Column, NoisyMarginal | None]]:
        """The known columns and their marginals; None for a column that is no attribute.

        Args:
            columns: Categorical without values; of another kind, only its values are looked for.
            attributes: Names of those that have to stay attributes, whatever they hold.
        """
        together = self._search_together(columns)
        # Each column's search has an even part of delta; what is left of it is for the search together.
        delta = self.ledger.planned_delta / len(columns) if columns else Fraction(0)
        first = FIRST if together else Fraction(1)
        shares = SHARES_TOGETHER if together else SHARES_OF_DELTA
        found = [
            self._search_alone(column, first, delta * shares["values"], column.name in attributes)
            for column in columns
        ]
        for one in found:
            self._sort_out(one, delta * shares["shapes"], delta * shares["keys"])
            if not one.coded and (together or not one.fresh):  # no beginnings will be asked for
                self.budget.pass_by(self.weights["prefixes"])
        if together:
            self._look_together(found)
        for one in found:
            self._count(one, together)
        return [self._end(one, together) for one in found]

    def _search_together(self, columns: Sequence[Listed]) -> bool:
        """Whether columns are searched together, too: several, all of one kind, and a row count is known."""
        alike = all(isinstance(column, Categorical) for column in columns)
        return alike and self.source.joins_texts and self.rows[0] > 0 and len(columns) >= LEAST_TOGETHER

    def _search_alone(self, column: Listed, share: Fraction, delta: Fraction, attribute: bool) -> _Found:
        """The frequent values of one column, by a search for it alone."""
        self.tell(f"values of {column.name}")
        rho = self.budget.unit * self.weights["values"] * share
        texts = search_values(column, self.source, self.gaussian, self.ledger, rho, delta)
        self.budget.pass_by(self.weights["values"] * share)
        known, marginal = texts.list_for(column, self.rows[0])
        return _Found(column, texts, known, marginal, attribute)

    def _sort_out(self, found: _Found, delta: Fraction, delta_of_keys: Fraction) -> None:
        """What the rows without a code hold: more of a public list, or texts of which shapes.

        Keys and free text are done with it.
        """
        looks = self.weights["lists"] + self.weights["shapes"] + self.weights["distinct"]
        rest, spread = self._rest_rows(found)
        known = found.known
        if not isinstance(known, Categorical) or rest < max(4.0 * spread, LEAST_REST * self.rows[0], 1.0):
            self.budget.pass_by(looks)
            return
        found.first = frozenset(known.values or ())
        found.rest, fitting = rest, None if known.rare else find_list(found.texts.texts)
        if fitting is None and not known.rare and may_fit_list(found.texts.texts):
            fitting = self._look_at_lists(found)
        if fitting is not None:
            found.list_name, members = fitting
            found.fresh = tuple(sorted(set(members) - set(found.texts.texts)))
        elif not found.attribute:
            found.shapes, found.noise = self._shapes(
                known, "shapes", self.budget.unit * self.weights["shapes"], delta
            )
            few = self.rows[0] - rest < MOSTLY_LISTED * rest
            if few or sum(found.shapes.values()) >= MIN_CODED_SHARE * rest:
                found.counted = self._count_keys(known, rest)
                found.unlike = few and found.counted.are_distinct(rest, spread)
        self.budget.pass_by(looks)
        if found.unlike and not known.values:
            found.known = self._keys(found, known, delta_of_keys)
            found.marginal, found.done = None, True
        shaped = not found.done and sum(found.shapes.values()) >= MIN_CODED_SHARE * rest
        # Texts of which nearly all differ have no frequent beginning that would be a code.
        found.torn = shaped and (found.unlike or not tell_by_beginnings(found.shapes))
        found.coded = found.torn or (shaped and not found.unlike)
        found.delta = delta_of_keys if found.torn else Fraction(0)

    def _look_at_lists(self, found: _Found) -> tuple[str, tuple[str, ...]] | None:
        """The public list that most rows with a text have a text of, or None.

        **Privacy.** Proof at the head of this file, 8.
        """
        name, what = found.asked.name, f"public lists of {found.asked.name}"
        self.tell(what)
        gaussian = self.gaussian.with_sensitivity(self.gaussian.l2_squared * MOST_LISTS)

        def exact() -> list[Counts]:
            parts = self.source.value_parts(name)
            held = [count_by_list(texts, counts.reveal()[:-1].tolist()) for texts, counts in parts]
            return [np.sum(held, axis=0)]

        (noisy,), sigma = gaussian.ask([what], self.budget.unit * self.weights["lists"], exact)
        return choose_list(noisy, sigma, self.rows[0] - max(float(found.texts.values[-1]), 0.0))

    def _rest_rows(self, found: _Found) -> tuple[float, float]:
        """Rows without a code of their own, about, and the standard deviation of that; 0 for no row count."""
        if self.rows[0] <= 0 or not isinstance(found.known, Categorical) or found.marginal is None:
            return 0.0, 0.0
        listed = len(found.known.values or ())
        # Missing rows have the last code, where the column has one for them.
        absent = float(found.marginal.values[-1]) if found.known.missing else 0.0
        # Noise of the row count and of all listed counts adds up in what is left.
        spread = math.sqrt(self.rows[1] + float((found.marginal.sigmas[:listed] ** 2).sum()))
        return self.rows[0] - float(found.marginal.values[:listed].sum()) - absent, spread

    def _look_together(self, found: Sequence[_Found]) -> None:
        """One more search for values, in all columns at once that have rows without a code.

        **Privacy.** Proof at the head of this file, 6.
        """
        searched = [one for one in found if not one.list_name]
        share = self.weights["values"] * TOGETHER * len(searched)
        columns = [one for one in searched if not one.done and not one.unlike]
        if columns:
            listed = {one.asked.name: frozenset(one.texts.texts) for one in columns}
            what = f"values of {len(listed)} columns of text together"
            self.tell(what)
            gaussian = self.gaussian.with_sensitivity(self.gaussian.l2_squared * WEIGHT**2)
            weights = [weight_of(held) for held in range(1, len(listed) + 1)]

            # The first part is read at once: what keeps a table from being read is found before the spend.
            def exact() -> Parts:
                parts = (
                    (texts, counts.reveal()) for texts, counts in self.source.unlisted_parts(listed, weights)
                )
                return itertools.chain([next(parts)], parts)

            rho = self.budget.unit * share
            # What is left of delta, but for the searches for patterns that follow.
            delta = self.ledger.planned_delta - sum((one.delta for one in found), Fraction(0))
            answer, sigma = find_texts(
                what, exact, gaussian, self.ledger, rho, delta, cells=len(listed), weight=WEIGHT
            )
            for name, weighed in zip(answer.texts, answer.arrays[0].tolist(), strict=False):
                # A cell is named by its column's place and the text, so that equal texts of two columns stay
                # apart.
                place, _, text = name.partition(":")
                columns[int(place)].weighed[text] = weighed / WEIGHT, sigma / WEIGHT
        self.budget.pass_by(share)

    def _count(self, found: _Found, together: bool) -> None:
        """Count the values of a column, those of a public list and of the search together among them.

        **Privacy.** Proof at the head of this file, 7.
        """
        share = self.weights["prefixes"]
        if together:
            share = self.weights["values"] * (COUNTED + (TOGETHER if found.list_name else 0))
        name, texts = found.asked.name, tuple(sorted({*found.texts.texts, *found.fresh, *found.weighed}))
        if (together and texts and not found.done) or found.fresh:
            what = name_counts(name, found.list_name)
            self.tell(what)
            (noisy,), sigma = self.gaussian.ask(
                [what], self.budget.unit * share, lambda: [count_listed(self.source, name, texts)]
            )
            found.texts = found.texts.merge(texts, noisy, sigma, found.weighed)
            found.known, found.marginal = found.texts.list_for(found.asked, self.rows[0])
        if together or found.fresh:
            self.budget.pass_by(share)

    def _end(self, found: _Found, together: bool) -> tuple[Column, NoisyMarginal | None]:
        """The column with codes for beginnings where many rows have none, and a shape for what is left."""
        known, marginal = found.known, found.marginal
        if not found.done and isinstance(known, Categorical) and marginal is not None:
            known, marginal = self._with_beginnings(found, known, marginal)
        if found.coded:
            self.budget.pass_by(self.weights["prefixes"])
        if not isinstance(known, Categorical) or found.done or found.marginal is None or marginal is None:
            return known, marginal
        known = dataclasses.replace(known, others=find_numbers(known.values or ()) or known.others)
        rest, spread = self._rest_rows(found)
        counts = dict(zip(known.values or (), found.marginal.values.tolist(), strict=False))
        drawn, wanted = known.grouped or known.others, found.attribute or known.rare
        if drawn and found.counted and not found.unlike:
            # Values that were listed after the look at keys are none of these.
            late = [count for text, count in counts.items() if text not in found.first]
            cells = share_texts(known, marginal.values, rest)
            known = dataclasses.replace(known, repeats=found.counted.fit_repeats(cells, spread, late))
        if not drawn and not wanted and rest > max(4.0 * spread, MOST_OTHER * (rest + sum(counts.values()))):
            return Omitted(name=known.name, reason=MOSTLY_OTHER), None
        return known, marginal

    def _with_beginnings(
        self, found: _Found, known: Categorical, marginal: NoisyMarginal
    ) -> tuple[Column, NoisyMarginal | None]:
        """The column with codes for frequent beginnings; left out where it has no code at all."""
        rest, spread = self._rest_rows(found)
        if found.attribute or rest < max(4.0 * spread, LEAST_REST * self.rows[0], 1.0):
            return known, marginal
        if found.torn:
            known, marginal = self._with_patterns(found, known, marginal)
        elif found.coded:
            known, marginal = self._beginnings(known, marginal, found.shapes)
        if known.values or known.grouped:
            return known, marginal
        return Omitted(name=known.name, reason=NO_PATTERN if found.unlike else NO_VALUE), None

    def _shapes(
        self, column: Categorical, sort: str, rho: Fraction, delta: Fraction
    ) -> tuple[dict[str, float], float]:
        """Frequent shapes of texts without a code of their own, their noisy counts and the noise of these.

        **Privacy.** Proof at the head of this file, 2 and 4.

        Args:
            column: What is known by now.
            sort: As in `read_shape`.
            rho: What it may cost of rho; `delta`, of delta.
        """
        what = f"{sort} of {column.name}"
        self.tell(what)

        def exact() -> Parts:
            found: Counter[str] = Counter()
            for text, count in self._rest(column):
                found[read_shape(text, sort)] += count
            names = tuple(sorted(found.keys() - {""}))
            return [(names, np.array([*(found[name] for name in names), 0], dtype=np.int64))]

        # A row is in one cell at most, so that its weight and cells are those of `search_values`.
        answer, sigma = find_texts(what, exact, self.gaussian, self.ledger, rho, delta)
        return dict(zip(answer.texts, answer.arrays[0][:-1].tolist(), strict=True)), sigma

    def _rest(self, column: Categorical) -> Texts:
        """Texts that are not listed and have no released beginning, and their rows. **Not private.**"""
        listed, prefixes = set(column.values or ()), set(column.prefixes)
        # Beginnings of a few lengths are looked up, which is faster than comparing each one.
        lengths = {len(prefix) for prefix in prefixes}
        for texts, counts in self.source.value_parts(column.name):
            for text, count in zip(texts, counts.reveal()[:-1].tolist(), strict=True):
                if text not in listed and not any(text[:length] in prefixes for length in lengths):
                    yield text, count

    def _count_keys(self, column: Categorical, rest: float) -> KeyCounts:
        """In how many of the rows that are not listed, about so many, each of their texts is.

        **Privacy.** Proof at the head of this file, 3.
        """
        self.tell(f"distinct values of {column.name}")
        rho, steps = self.budget.unit * self.weights["distinct"], list_steps(rest)

        def exact() -> Counts:
            return count_repeats(np.array([count for _, count in self._rest(column)], dtype=np.int64), steps)

        return count_keys(column.name, self.gaussian, rho, steps, exact)

    def _keys(self, found: _Found, column: Categorical, delta: Fraction) -> Column:
        """New keys of released shapes where these cover nearly all rows; else the column is left out."""
        # No beginnings of codes will be asked for, so that what these would cost is for both looks at keys.
        rho, least = self.budget.unit * self.weights["prefixes"] / 2, MIN_SHAPED_SHARE * found.rest
        if sum(found.shapes.values()) < least:
            mixed, _ = self._shapes(column, "signs", rho * LETTERS, delta)
            shaped = sum(mixed.values()) >= least
            return keep_keys(column, mixed) if shaped else Omitted(name=column.name, reason=NO_PATTERN)
        shapes, noise, read = found.shapes, found.noise, classes_of
        closer, spread = self._shapes(column, "keys", rho, delta / 2)
        if sum(closer.values()) >= least:
            shapes, noise, read = closer, spread, shape_of
        if sum(closer.values()) >= least and any(map(has_letters, closer)):
            # Letters behind the digits may be the same in all rows, as those of a domain are.
            exact, spread = self._shapes(column, "patterns", rho * LETTERS, delta / 2)
            rho *= 1 - LETTERS
            if sum(exact.values()) >= least:
                shapes, noise, read = exact, spread, keep_letters
        return keep_keys(column, self._narrow(column, shapes, noise, rho, read))

    def _narrow(
        self,
        column: Categorical,
        shapes: dict[str, float],
        noise: float,
        rho: Fraction,
        read: Callable[[str], str],
    ) -> dict[str, float]:
        """The shapes of keys with those of their first digits that are frequent, and their noisy counts.

        **Privacy.** Proof at the head of this file, 9.

        Args:
            column: What is known by now.
            shapes: Released shapes and their noisy counts; `noise`, the standard deviation of these.
            rho: What it may cost.
            read: The shape of a text, among these.
        """
        looks = choose_digits(shapes, self.gaussian.sigma(rho))
        if not looks:
            return shapes

        def count(rows: Texts) -> Counts:
            return count_digits(looks, ((text, read(text), held) for text, held in rows))

        noisy, sigma = self._look(column, f"first digits of {column.name}", rho, count)
        return narrow_shapes(shapes, looks, noisy, noise, sigma)

    def _look(
        self, column: Categorical, what: str, rho: Fraction, count: Callable[[Texts], Counts], cells: int = 1
    ) -> tuple[NDArray[np.float64], float]:
        """Noisy counts of rows without a code by their text, and the standard deviation of their noise.

        **Privacy.** Proof at the head of this file, 5, 9 and 10.

        Args:
            column: What is known by now.
            what: The look, in public words.
            rho: What it costs.
            count: Counts texts and their rows in cells that are fixed before the look.
            cells: In how many of them a row is at most.
        """
        self.tell(what)
        gaussian = self.gaussian.joint(cells)
        (noisy,), sigma = gaussian.ask([what], rho, lambda: [count(self._rest(column))])
        return noisy, sigma

    def _with_patterns(
        self, found: _Found, column: Categorical, marginal: NoisyMarginal
    ) -> tuple[Categorical, NoisyMarginal]:
        """The column with codes for frequent patterns, and the marginal with their counts.

        **Privacy.** Proof at the head of this file, 4 and 9.
        """
        rho = self.budget.unit * self.weights["prefixes"] / 2
        exact, noise = self._shapes(column, "patterns", rho, found.delta)
        counts = dict(zip(column.values or (), marginal.values.tolist(), strict=False))
        listed = {str(text): count for text, count in counts.items() if text not in found.first}
        shapes = leave_shapes(found.shapes, found.noise, exact, noise, listed)
        covered = sum(count for count, _ in shapes.values()) >= MIN_SHAPED_SHARE * self._rest_rows(found)[0]
        shapes = self._split(column, shapes, rho / 2, exact)
        least = column.rare * self.rows[0]
        kept = {shape: held for shape, held in shapes.items() if held[0] >= least}
        column, marginal = with_patterns(column, marginal, kept)
        # Nearly all rows have a pattern, so that what is left has one, too, and is drawn of the main one.
        others = max(kept, key=lambda shape: kept[shape], default="") if covered else ""
        return dataclasses.replace(column, others=others), marginal

    def _split(
        self,
        column: Categorical,
        shapes: dict[str, tuple[float, float]],
        rho: Fraction,
        exact: Collection[str],
    ) -> dict[str, tuple[float, float]]:
        """Patterns with those of their digits that are frequent, their noisy counts and variances.

        **Privacy.** Proof at the head of this file, 9 and 10.

        Args:
            column: What is known by now.
            shapes: Released shapes, their noisy counts and variances.
            rho: What each of two looks may cost.
            exact: Those of them that keep letters.
        """
        places = list_places(shapes)

        def read(rows: Texts) -> Iterable[tuple[str, str, int]]:
            for text, held in rows:
                shape = keep_letters(text)
                yield text, shape if shape in exact else classes_of(text), held

        most = max((len(look.places) for look in places), default=0)
        if not most:
            return shapes
        what = f"digits of {column.name}, place by place"
        noisy, spread = self._look(column, what, rho, lambda rows: count_signs(places, read(rows)), most)
        counts = {shape: count for shape, (count, _) in shapes.items()}
        looks = choose_uneven(counts, places, noisy, spread, self.gaussian.sigma(rho))
        if not looks:
            return shapes
        what = f"first digits of {column.name}"
        noisy, sigma = self._look(column, what, rho, lambda rows: count_digits(looks, read(rows)))
        return split_patterns(shapes, looks, noisy, sigma)

    def _beginnings(
        self, column: Categorical, marginal: NoisyMarginal, shapes: Mapping[str, float]
    ) -> tuple[Categorical, NoisyMarginal]:
        """The column with codes for frequent beginnings, and the marginal with their counts.

        **Privacy.** Proof at the head of this file, 5.
        """
        shape = max(shapes, key=shapes.__getitem__)
        lengths = cut_lengths(shape)
        for length in lengths:
            what = f"beginnings of {column.name}, {length} letters"
            cells = texts_of(shape, length)
            rho = self.budget.unit * self.weights["prefixes"] / len(lengths)
            noisy, sigma = self._look(column, what, rho, functools.partial(count_beginnings, cells, length))
            # None of the empty cells is to pass, but for one look in a hundred.
            bar = max(sigma * rarest_deviations(len(cells)), column.rare * self.rows[0])
            found = {cell: float(count) for cell, count in zip(cells, noisy, strict=True) if count >= bar}
            column, marginal = with_prefixes(column, marginal, found, sigma, complete_shape(shape, length))
        return dataclasses.replace(column, others=find_rest_shape(shapes, column, marginal.values)), marginal


def weight_of(held: int) -> int:
    """What a row that holds so many texts without a code adds to each: WEIGHT over the root, cut off."""
    return math.isqrt(WEIGHT**2 // held)
