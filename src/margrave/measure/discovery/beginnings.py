"""Where codes and keys are cut, and how they begin: what the looks at beginnings ask and what they tell.

`margrave.measure.discovery.text` asks; all here but `count_digits` is post-processing of released counts.

*Codes* fall back to beginnings that many rows share: `cut_lengths` and `texts_of` give the cells of a look,
`with_prefixes` the codes of those found.

*Keys* begin with what is constant or frequent in them: the code of a country, a year, the zeros of running
numbers. `choose_digits` says which digits of which released shapes are looked at, `count_digits` counts
them, and `narrow_shapes` writes those out that are clearly more frequent than if digits were even.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from margrave.measure.mechanisms.partition import MIN_DEVIATIONS
from margrave.release import NoisyMarginal
from margrave.schema.columns import Categorical
from margrave.schema.columns.identifier import cut_shape, first_digits, fix_signs, shape_parts, shape_space

MOST_BEGINNINGS = 1 << 16
"""Most cells of a look at beginnings; where there were more, a shorter one is looked at."""
MOST_DIGITS = 4
"""First digits of a key that are looked at: a year has four."""
MIN_EXCESS = 0.5
"""What a beginning of keys has beyond the even part of those that differ from it in the last digit, over that
part, to be written out: with a half, six digits of ten that are alike frequent are told from those that there
are not."""
ROOM = 4
"""Texts of a shape for each row from which its keys are drawn: `keys` makes longer ones from two on, and as
many rows again may be drawn."""


@dataclasses.dataclass(frozen=True, slots=True)
class Digits:
    """The digits of a shape of keys that are looked at.

    Args:
        shape: A released shape.
        start: The place of the first of them in a text.
        sizes: How many signs there may be at each place.
    """

    shape: str
    start: int
    sizes: tuple[int, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """What may stand there: [cells]."""
        places = shape_parts(self.shape)[self.start : self.start + len(self.sizes)]
        return tuple("".join(signs) for signs in itertools.product(*places))


def choose_digits(shapes: Mapping[str, float], sigma: float) -> list[Digits]:
    """Which digits to look at in which shapes, the most frequent shapes first; none where noise hides all.

    A first run of up to MOST_DIGITS digits is looked at whole, since a mark or a letter ends it: a year, the
    code of a country. Of a longer run, such as a running number, so many first digits are looked at that one
    digit, in which all cells that begin with it add their noise, would be evident if half of the rows had it.

    Args:
        shapes: Released shapes and their noisy counts.
        sigma: Standard deviation of the look's noise in a cell.
    """
    chosen, cells = [], 0
    for shape, rows in sorted(shapes.items(), key=lambda one: -one[1]):
        start, end = first_digits(shape)
        sizes = tuple(len(signs) for signs in shape_parts(shape)[start:end][:MOST_DIGITS])
        while end - start > MOST_DIGITS and len(sizes) > 1:
            noise = sigma * math.sqrt(math.prod(sizes[1:]))
            if rarest_deviations(sizes[0]) * noise <= rows / 2:
                break
            sizes = sizes[:-1]
        more = math.prod(sizes)
        hidden = not sizes or rows <= rarest_deviations(more) * sigma
        if not hidden and cells + more <= MOST_BEGINNINGS:
            chosen.append(Digits(shape, start, sizes))
            cells += more
    return chosen


def count_digits(looks: Sequence[Digits], rows: Iterable[tuple[str, str, int]]) -> NDArray[np.int64]:
    """Rows by shape and digits, the cells of all looks one after another: [cells]. **Not private.**

    Args:
        looks: As `choose_digits` gives them.
        rows: Texts, the shape of each, and how many rows have it.
    """
    named = [(one.shape, text) for one in looks for text in one.texts]
    places = {cell: place for place, cell in enumerate(named)}
    spans = {one.shape: slice(one.start, one.start + len(one.sizes)) for one in looks}
    result = np.zeros(len(named), dtype=np.int64)
    for text, shape, count in rows:
        if shape in spans:
            result[places[shape, text[spans[shape]]]] += count
    return result


def narrow_shapes(
    shapes: Mapping[str, float],
    looks: Sequence[Digits],
    noisy: NDArray[np.float64],
    noise: float,
    sigma: float,
) -> dict[str, float]:
    """Shapes of keys with frequent first digits written out, and their noisy counts.

    What is left of a shape keeps it, and is left out where it is within the noise; the counts of its parts
    add up to its own.

    Args:
        shapes: Released shapes and their noisy counts, of which `noise` is the standard deviation.
        looks: Which digits were looked at.
        noisy: The counts of all their cells, [cells]; `sigma`, the standard deviation of their noise.
    """
    result, parts, start = dict(shapes), dict[str, dict[str, float]](), 0
    for look in looks:
        cells = noisy[start : start + math.prod(look.sizes)].reshape(look.sizes)
        start += cells.size
        found = _frequent_digits(look, cells, sigma)
        if found:
            parts[look.shape] = _share_out(look, shapes[look.shape], found, noise)
    for shape, split in parts.items():
        del result[shape]
        result |= split
    return result


def _frequent_digits(
    look: Digits, cells: NDArray[np.float64], sigma: float
) -> dict[str, tuple[float, float]]:
    """Beginnings that are clearly more frequent than if their last digit were even: count and variance.

    The longest come first, and what they leave is for the shorter ones. A beginning is passed by, for a
    shorter one, where its shape would have too few texts for its rows.

    Args:
        look: The digits.
        cells: Noisy counts of all digits, shape `look.sizes`.
        sigma: Standard deviation of their noise.
    """
    texts = np.array(look.texts).reshape(look.sizes)
    left, parts = cells.copy(), np.ones(look.sizes)
    found: dict[str, tuple[float, float]] = {}
    for length in range(len(look.sizes), 0, -1):
        least = rarest_deviations(left.size) * sigma * np.sqrt(parts)
        roomy = ROOM * left <= shape_space(look.shape) / math.prod(look.sizes[:length])
        passing = _stand_out(left, least, roomy & (parts > 0))
        for place in map(tuple, np.argwhere(passing).tolist()):
            text = str(texts[place].flat[0])[:length]
            found[text] = float(left[place]), float(sigma**2 * parts[place])
        left, parts = (np.where(passing, 0.0, one).sum(axis=-1) for one in (left, parts))
    return found


def _stand_out(
    counts: NDArray[np.float64], least: NDArray[np.float64], allowed: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which counts stand out from the even part of those along the last axis that do not: as `counts`.

    Args:
        counts: Noisy counts.
        least: By how much they have to at least, for their noise.
        allowed: Which may.
    """
    passing = np.zeros(counts.shape, dtype=np.bool_)
    # What stands out makes the even part of the others less, so that more may stand out.
    for _ in range(counts.shape[-1]):
        others = np.where(passing, 0.0, counts).sum(axis=-1, keepdims=True)
        number = np.maximum((~passing).sum(axis=-1, keepdims=True), 1)
        even = np.maximum(others / number, 0.0)
        more = allowed & (passing | (counts - even >= np.maximum(least, MIN_EXCESS * even)))
        if (more == passing).all():
            break
        passing = more
    return passing


def _share_out(
    look: Digits, rows: float, found: Mapping[str, tuple[float, float]], noise: float
) -> dict[str, float]:
    """The shapes that a shape falls into, and their counts, which add up to its own.

    Args:
        look: The digits.
        rows: Rows of the shape; `noise`, the standard deviation of that.
        found: Count and variance of each beginning.
    """
    counts = {fix_signs(look.shape, look.start, text): count for text, (count, _) in found.items()}
    total = sum(counts.values())
    spread = math.sqrt(noise**2 + sum(variance for _, variance in found.values()))
    if rows - total > MIN_DEVIATIONS * spread:
        return {**counts, look.shape: rows - total}
    return {shape: rows * count / total for shape, count in counts.items()}


def with_prefixes(
    column: Categorical, marginal: NoisyMarginal, found: dict[str, float], sigma: float, ending: str
) -> tuple[Categorical, NoisyMarginal]:
    """The column and its marginal with codes for more beginnings, behind those that it has."""
    # Codes of beginnings stand behind those of values and of earlier beginnings.
    at = len(column.values or ()) + len(column.prefixes)
    values = np.insert(marginal.values, [at] * len(found), list(found.values()))
    sigmas = np.insert(marginal.sigmas, [at] * len(found), [sigma] * len(found))
    prefixes, endings = (*column.prefixes, *found), (*column.endings, *([ending] * len(found)))
    wider = dataclasses.replace(column, prefixes=prefixes, endings=endings)
    return wider, NoisyMarginal((column.name,), values, sigmas)


def rarest_deviations(cells: int) -> float:
    """Standard deviations that the noise of none of so many cells exceeds, but for one look in a hundred."""
    # The normal quantile that one of so many cells exceeds by chance once in a hundred looks.
    return float(-ndtri(0.01 / cells))


def texts_of(shape: str, length: int) -> tuple[str, ...]:
    """All beginnings of some length that texts of a shape may have."""
    return tuple("".join(signs) for signs in itertools.product(*shape_parts(shape)[:length]))


def cut_lengths(shape: str) -> tuple[int, ...]:
    """Lengths of beginnings to look for, the longer first: where the kind of sign changes, else by thirds."""
    sorts = [_sort(signs) for signs in shape_parts(shape)]
    length = len(sorts)
    spaces = np.cumprod([float(len(signs)) for signs in shape_parts(shape)])
    # Lengths at which letters turn into digits, say, which is where codes are structured.
    changes = [place for place, (a, b) in enumerate(pairwise(sorts), 1) if a != b and a != "mark"]
    if len(changes) == 1 and length - changes[0] > 3:
        changes.append((changes[0] + length) // 2)
    if not changes:
        changes = [length // 3, 2 * length // 3]
    # The longest beginning whose cells are few enough to be counted.
    most = int(np.searchsorted(spaces, MOST_BEGINNINGS, side="right"))
    ends = {min(changes[0], most), min(changes[-1], most)} - {0, length}
    return tuple(sorted(ends, reverse=True))


def _sort(signs: str) -> str:
    """What sort of sign a place of a shape holds."""
    if signs[0].isdigit():
        return "digit"
    return "letter" if signs[0].isalpha() else "mark"


def complete_shape(shape: str, length: int) -> str:
    """What is written behind a beginning: nothing where a mark parts the code there or later, else digits.

    A beginning such as I21 of I21.9 is a code by itself. One such as 015 of 01591 is none, so that its last
    places are drawn, as the shape has them.
    """
    marked = any(_sort(signs) == "mark" for signs in shape_parts(shape)[length:])
    return "" if marked else cut_shape(shape, length)
