"""Where codes and keys are cut, and how they begin: what the looks at beginnings ask and what they tell.

`margrave.measure.discovery.text` asks; all here but what counts texts is post-processing of released
counts.

*Codes* fall back to beginnings that many rows share: `cut_lengths` and `texts_of` give the cells of a look,
`with_prefixes` the codes of those found.

*Texts that repeat*, such as 120/80 or u0123@example.com, fall back to patterns where beginnings would tear
them (`tell_by_beginnings`): `leave_shapes` says which shapes they have, `list_places` where their digits are
counted place by place, `choose_uneven` which of them are looked at together, `split_patterns` writes out
frequent ones, and `with_patterns` gives the codes.

*Keys* begin with what is constant or frequent in them: the code of a country, a year, the zeros of running
numbers. `choose_digits` says which digits of which released shapes are looked at, `count_digits` counts
them, and `narrow_shapes` writes those out that are clearly more frequent than if digits were even.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtri

from margrave.measure.mechanisms.partition import MIN_DEVIATIONS
from margrave.release import NoisyMarginal
from margrave.schema.columns import Categorical
from margrave.schema.columns.identifier import (
    CLASSES,
    LEAST_NUMBER,
    MAX_CODE_DIGITS,
    code_places,
    cut_shape,
    digit_runs,
    fix_signs,
    keep_letters,
    mix_signs,
    shape_of,
    shape_parts,
    shape_space,
    widen_shape,
)

MOST_BEGINNINGS = 1 << 16
"""Most cells of a look at beginnings; where there were more, a shorter one is looked at."""
MOST_DIGITS = MAX_CODE_DIGITS
"""First digits of a key that are looked at."""
MOST_PLACES = 6
"""Digits of a text that repeats whose signs are counted one by one."""
EVIDENT_SIGN, LEAST_PART = 2.0, 1 / 5
"""Standard deviations from which a digit counts as held at a place; and the part of a shape's rows that has
to be evident where they have one digit, for one more place to be looked at together with it. Of 2, 3 and 4,
and of a tenth, a fifth and three tenths, by the likelihood of made-up texts (bench/LOG.md)."""
MIN_EXCESS = 0.5
"""What a beginning of keys has beyond the even part of those that differ from it in the last digit, over that
part, to be written out: with a half, six digits of ten that are alike frequent are told from those that there
are not."""
MOST_CODED = 64
"""Most codes in front of a number that are written out however even they are. Not measured."""
NUMBERS = re.compile(r"\[0-9\]\{([5-9]|[1-9][0-9])\}")
"""The shape of listed values, all of five digits or more, from which other texts are drawn as well."""
ROOM = 4
"""Texts of a shape for each row from which its keys are drawn: `keys` makes longer ones from two on, and as
many rows again may be drawn."""


@dataclasses.dataclass(frozen=True, slots=True)
class Digits:
    """The digits of a shape of keys that are looked at.

    Args:
        shape: A released shape.
        places: Where they stand in a text, those first by which others are split.
        signs: Which digits are looked at, for each place.
        code: How many of the first places hold a code in front of a number, as 08 in S-08-1234: each code
            that is evident is written out, since it may say something of a row however even codes are.
        number: The first place of that number with the class of its digits there, where it has not all.
    """

    shape: str
    places: tuple[int, ...]
    signs: tuple[str, ...]
    code: int = 0
    number: tuple[int, str] | None = None

    def write_out(self, text: str) -> str:
        """The shape of texts that begin with some digits at these places."""
        shape = fix_signs(self.shape, self.places, text)
        return fix_signs(shape, (self.number[0],), (self.number[1],)) if self.number else shape

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many digits are looked at, for each place."""
        return tuple(len(signs) for signs in self.signs)

    @property
    def texts(self) -> tuple[str, ...]:
        """What may stand there: [cells]."""
        return tuple("".join(signs) for signs in itertools.product(*self.signs))


def look_at(shape: str, places: Sequence[int]) -> Digits:
    """All digits that there may be at some places of a shape."""
    parts = shape_parts(shape)
    return Digits(shape, tuple(places), tuple(parts[place] for place in places))


def choose_digits(shapes: Mapping[str, float], sigma: float) -> list[Digits]:
    """Which digits of keys to look at, the most frequent shapes first; none where noise hides all.

    A first run of up to MOST_DIGITS digits is looked at whole, since a mark or a letter ends it: a year, the
    code of a country. Of a longer run, such as a running number, so many first digits are looked at that one
    digit, in which all cells that begin with it add their noise, would be evident if half of the rows had it.

    Args:
        shapes: Released shapes and their noisy counts.
        sigma: Standard deviation of the look's noise in a cell.
    """
    looks = []
    for shape, rows in shapes.items():
        run = next(iter(digit_runs(shape)), ())
        places = run[:MOST_DIGITS]
        while len(run) > MOST_DIGITS and len(places) > 1:
            if _is_evident(look_at(shape, places), rows / 2, sigma):
                break
            places = places[:-1]
        looks.append(dataclasses.replace(look_at(shape, places), code=len(code_places(shape))))
    return _fitting_looks(looks, shapes, sigma)


def _is_evident(look: Digits, rows: float, sigma: float) -> bool:
    """Whether so many rows of one first digit would be evident, in all cells that begin with it together."""
    return rarest_deviations(look.sizes[0]) * sigma * math.sqrt(math.prod(look.sizes[1:])) <= rows


def _fitting_looks(looks: Iterable[Digits], shapes: Mapping[str, float], sigma: float) -> list[Digits]:
    """Those of the most frequent shapes that have few cells enough together, and are not hidden by noise."""
    chosen, cells = [], 0
    for look in sorted(looks, key=lambda one: -shapes[one.shape]):
        more = math.prod(look.sizes)
        hidden = not look.places or shapes[look.shape] <= rarest_deviations(more) * sigma
        if not hidden and cells + more <= MOST_BEGINNINGS:
            chosen.append(look)
            cells += more
    return chosen


def list_places(shapes: Iterable[str]) -> list[Digits]:
    """The places of texts that repeat whose digits are counted one by one: MOST_PLACES in a shape at most.

    The first two digits of a text come first, then the first ones of each other run, and so on: each run may
    be a number by itself.
    """
    looks = []
    for shape in sorted(shapes):
        # By how many digits of its run stand in front of a place; the first run is one digit ahead.
        ranked = sorted(
            (number - (run == 0), run, place)
            for run, places in enumerate(digit_runs(shape))
            for number, place in enumerate(places)
        )
        if ranked:
            looks.append(look_at(shape, [place for _, _, place in ranked[:MOST_PLACES]]))
    return looks


def count_signs(looks: Sequence[Digits], rows: Iterable[tuple[str, str, int]]) -> NDArray[np.int64]:
    """Rows by shape, place and digit, the cells of all places one after another: [cells]. **Not private.**

    A row is in one cell for each place of its shape.

    Args:
        looks: As `list_places` gives them.
        rows: Texts, the shape of each, and how many rows have it.
    """
    each = [
        Digits(look.shape, (place,), (signs,))
        for look in looks
        for place, signs in zip(look.places, look.signs, strict=True)
    ]
    return count_digits(each, rows)


def choose_uneven(
    shapes: Mapping[str, float],
    looks: Sequence[Digits],
    noisy: NDArray[np.float64],
    spread: float,
    sigma: float,
) -> list[Digits]:
    """Which digits of texts that repeat to look at together: those of places where digits are not even.

    A code in front of a number is looked at alone where codes that are alike frequent would all be evident.
    Else the least even place of a shape comes first, so that what is constant or frequent stays however even
    the digits at others are; of each only those digits that are evident. More places follow as long as a
    digit of the first would be evident if LEAST_PART of the rows had it.

    Args:
        shapes: Released shapes and their noisy counts.
        looks: As `list_places` gives them.
        noisy: The counts of their cells, as `count_signs` has them; `spread`, the noise's standard deviation.
        sigma: Standard deviation of the next look's noise in a cell.
    """
    chosen, start = [], 0
    for look in looks:
        uneven, evident, greatest = [], dict[int, str](), dict[int, str]()
        for place, signs in zip(look.places, look.signs, strict=True):
            counts = noisy[start : start + len(signs)]
            start += len(signs)
            far = counts - counts.mean()
            held = "".join(itertools.compress(signs, counts >= EVIDENT_SIGN * spread))
            evident[place] = held
            sure = counts >= rarest_deviations(len(signs)) * spread
            greatest[place] = max(itertools.compress(signs, sure), default="9")
            # A sum of squares that noise alone would have at one place in a thousand.
            if held and float((far**2).sum()) > spread**2 * chdtri(len(signs) - 1, 0.001):
                uneven.append((-float(np.abs(far).sum()), place, held))
        narrow = _look_at_code(look.shape, evident, greatest, shapes[look.shape], sigma)
        for _, place, held in sorted(uneven if not narrow.code else ()):
            more = Digits(look.shape, (*narrow.places, place), (*narrow.signs, held))
            if narrow.places and not _is_evident(more, shapes[look.shape] * LEAST_PART, sigma):
                break
            narrow = more
        chosen.append(narrow)
    return _fitting_looks(chosen, shapes, sigma)


def _look_at_code(
    shape: str, evident: Mapping[int, str], greatest: Mapping[int, str], rows: float, sigma: float
) -> Digits:
    """The evident digits of a shape's code; no place where there is none, or too few rows of each.

    Args:
        shape: The shape, and `rows`, how many rows have it.
        evident: The digits that are evident, by place; `greatest`, the greatest one beyond doubt.
        sigma: Standard deviation of the next look's noise in a cell.
    """
    places = code_places(shape)
    signs = tuple(evident.get(place, "") for place in places)
    codes = math.prod(map(len, signs)) if places else 0
    if not 0 < codes <= MOST_CODED or rarest_deviations(codes) * sigma > rows / codes:
        return Digits(shape, (), ())
    behind = next(run[0] for run in digit_runs(shape) if run[0] > places[-1] and len(run) >= LEAST_NUMBER)
    digits = f"[0-{greatest.get(behind, '9')}]"
    number = (behind, digits) if digits in CLASSES and digits != "[0-9]" else None
    return Digits(shape, places, signs, len(places), number)


def count_beginnings(
    cells: tuple[str, ...], length: int, rows: Iterable[tuple[str, int]]
) -> NDArray[np.int64]:
    """Rows by the first letters of their text: [cells]. **Not private.**"""
    places = {cell: place for place, cell in enumerate(cells)}
    result = np.zeros(len(cells), dtype=np.int64)
    for text, count in rows:
        place = places.get(text[:length])
        if place is not None:
            result[place] += count
    return result


def count_digits(looks: Sequence[Digits], rows: Iterable[tuple[str, str, int]]) -> NDArray[np.int64]:
    """Rows by shape and digits, the cells of all looks one after another: [cells]. **Not private.**

    Args:
        looks: As `choose_digits` gives them.
        rows: Texts, the shape of each, and how many rows have it.
    """
    named = [(number, text) for number, one in enumerate(looks) for text in one.texts]
    cells = {cell: place for place, cell in enumerate(named)}
    asked: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
    for number, one in enumerate(looks):
        asked.setdefault(one.shape, []).append((number, one.places))
    result = np.zeros(len(named), dtype=np.int64)
    for text, shape, count in rows:
        for number, places in asked.get(shape, ()):
            cell = cells.get((number, "".join(text[place] for place in places)))
            # Digits that are not looked at are in no cell.
            if cell is not None:
                result[cell] += count
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
    result, parts = dict(shapes), dict[str, dict[str, float]]()
    for look, cells in _cells_of(looks, noisy):
        found = _frequent_digits(look, cells, sigma, ROOM)
        if found:
            parts[look.shape] = _share_out(look, shapes[look.shape], found, noise)
    for shape, split in parts.items():
        del result[shape]
        result |= split
    return result


def _cells_of(
    looks: Sequence[Digits], noisy: NDArray[np.float64]
) -> Iterable[tuple[Digits, NDArray[np.float64]]]:
    """Each look with the counts of its cells, shape `look.sizes`."""
    start = 0
    for look in looks:
        cells = noisy[start : start + math.prod(look.sizes)].reshape(look.sizes)
        start += cells.size
        yield look, cells


def _frequent_digits(
    look: Digits, cells: NDArray[np.float64], sigma: float, room: float
) -> dict[str, tuple[float, float]]:
    """Beginnings that are clearly more frequent than if their last digit were even: count and variance.

    Codes are among them however even they are, as long as they are not more than MOST_CODED.

    The longest come first, and what they leave is for the shorter ones. A beginning is passed by, for a
    shorter one, where its shape would have too few texts for its rows.

    Args:
        look: The digits.
        cells: Noisy counts of all digits, shape `look.sizes`.
        sigma: Standard deviation of their noise.
        room: Texts that a shape has to have for each of its rows.
    """
    texts = np.array(look.texts).reshape(look.sizes)
    left, parts = cells.copy(), np.ones(look.sizes)
    found: dict[str, tuple[float, float]] = {}
    for length in range(len(look.sizes), 0, -1):
        least = rarest_deviations(left.size) * sigma * np.sqrt(parts)
        roomy = room * left <= shape_space(look.shape) / math.prod(look.sizes[:length])
        # Digits of the last place that are not looked at are next to none.
        beside = len(look_at(look.shape, look.places).signs[length - 1]) - left.shape[-1]
        wide = [(0, 0)] * (length - 1) + [(0, beside)]
        allowed = roomy & (parts > 0)
        passing = allowed & (left >= least)
        if length != look.code or passing.sum() > MOST_CODED:
            passing = _stand_out(*(np.pad(one, wide) for one in (left, least, allowed)))
            passing = passing[..., : left.shape[-1]]
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
    counts = {look.write_out(text): count for text, (count, _) in found.items()}
    total = sum(counts.values())
    spread = math.sqrt(noise**2 + sum(variance for _, variance in found.values()))
    if rows - total > MIN_DEVIATIONS * spread:
        return {**counts, look.shape: rows - total}
    return {shape: rows * count / total for shape, count in counts.items()}


def classes_of(text: str) -> str:
    """The shape of a text by classes of signs, a mark for one that is no code."""
    return widen_shape(shape_of(text) or "-")


def read_shape(text: str, sort: str) -> str:
    """The shape of a text, "" for one that is no code.

    sort: "shapes" by classes of signs, "keys" with what stands in front of the digits, "patterns" with all
        letters, "signs" by marks and the number of signs between them.
    """
    if sort in ("patterns", "signs"):
        return keep_letters(text) if sort == "patterns" else mix_signs(text)
    shape = shape_of(text)
    return widen_shape(shape) if shape and sort == "shapes" else shape


def leave_shapes(
    shapes: Mapping[str, float],
    noise: float,
    patterns: Mapping[str, float],
    sigma: float,
    listed: Mapping[str, float],
) -> dict[str, tuple[float, float]]:
    """Shapes that rows without a code have, and their noisy counts and the variance of these.

    Patterns that keep letters come first. What is left of a shape of classes, besides these and the values
    that have been listed since it was counted, is one more where it is evident.

    Args:
        shapes: Released shapes of classes and their noisy counts, of which `noise` is the standard deviation.
        patterns: Released shapes that keep letters and their noisy counts, of which `sigma` is that.
        listed: Values listed since, and their noisy counts.
    """
    left = dict(shapes)
    taken = [(widen_shape(shape), rows) for shape, rows in patterns.items()]
    taken += [(classes_of(text), rows) for text, rows in listed.items()]
    parts = dict.fromkeys(shapes, 0)
    for shape, rows in taken:
        if shape in left:
            left[shape] -= rows
            parts[shape] += 1
    variances = {shape: noise**2 + parts[shape] * sigma**2 for shape in left}
    found = {shape: (rows, sigma**2) for shape, rows in patterns.items()}
    for shape, rows in left.items():
        if rows > MIN_DEVIATIONS * math.sqrt(variances[shape]):
            found.setdefault(shape, (rows, variances[shape]))
    return found


def split_patterns(
    shapes: Mapping[str, tuple[float, float]],
    looks: Sequence[Digits],
    noisy: NDArray[np.float64],
    sigma: float,
) -> dict[str, tuple[float, float]]:
    """Patterns with frequent digits written out, and their noisy counts and the variance of these.

    What is left of a shape keeps it where it is evident, with the digits of places of which one alone was
    held; else the counts of its parts add up to its own.

    Args:
        shapes: Released shapes, their noisy counts and the variance of these.
        looks: Which digits were looked at.
        noisy: The counts of all their cells, [cells]; `sigma`, the standard deviation of their noise.
    """
    result = dict(shapes)
    for look, cells in _cells_of(looks, noisy):
        found = _frequent_digits(look, cells, sigma, 0.0)
        if not found:
            continue
        rows, variance = result.pop(look.shape)
        parts = _share_out(look, rows, found, math.sqrt(variance))
        for text, (_, doubt) in found.items():
            shape = look.write_out(text)
            held = result.get(shape, (0.0, 0.0))
            result[shape] = held[0] + parts.pop(shape), held[1] + doubt
        if parts:
            alone = {
                place: signs for place, signs in zip(look.places, look.signs, strict=True) if len(signs) == 1
            }
            shape = fix_signs(look.write_out(""), tuple(alone), "".join(alone.values()))
            held = result.get(shape, (0.0, 0.0))
            variance += sum(doubt for _, doubt in found.values())
            result[shape] = held[0] + parts[look.shape], held[1] + variance
    return result


def with_patterns(
    column: Categorical, marginal: NoisyMarginal, found: Mapping[str, tuple[float, float]]
) -> tuple[Categorical, NoisyMarginal]:
    """The column and its marginal with codes for patterns, those of few texts first."""
    ranked = sorted(found, key=lambda shape: (shape_space(shape), shape))
    at = len(column.values or ()) + column.grouped
    counts, variances = [found[shape][0] for shape in ranked], [found[shape][1] for shape in ranked]
    values = np.insert(marginal.values, [at] * len(ranked), counts)
    sigmas = np.insert(marginal.sigmas, [at] * len(ranked), np.sqrt(variances))
    wider = dataclasses.replace(column, patterns=(*column.patterns, *ranked))
    return wider, NoisyMarginal((column.name,), values, sigmas)


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
    """What is written behind a beginning: nothing where a point parts the code there or later, else digits.

    A beginning such as I21 of I21.9 is a code by itself. One such as 015 of 01591, or C of C-01234, is none,
    so that its last places are drawn, as the shape has them.
    """
    return "" if "." in shape_parts(shape)[length:] else cut_shape(shape, length)


def find_numbers(values: Iterable[object]) -> str:
    """The common shape of released values that are numbers of five digits or more; "" where there is none."""
    shapes = {widen_shape(shape_of(str(value)) or "-") for value in values}
    return min(shapes) if len(shapes) == 1 and NUMBERS.fullmatch(min(shapes)) else ""


def tell_by_beginnings(shapes: Mapping[str, float]) -> bool:
    """Whether beginnings tell what most rows of some shapes are, so that their texts are not torn.

    They do where the longest that is looked for reaches into the digits, and either no mark or letter is
    left behind it, or a point alone parts the code and digits stand behind it, as in E11.9, or no mark is in
    the code. Else there is a number, a name or a domain behind, as in 120/80, of which it says nothing; nor
    does it of 30x20x10.

    Args:
        shapes: Released shapes of classes and their noisy counts.
    """
    told = sum(rows for shape, rows in shapes.items() if _is_told(shape))
    return told > sum(shapes.values()) / 2


def _is_told(shape: str) -> bool:
    parts = shape_parts(shape)
    sorts = [_sort(signs) for signs in parts]
    length = max(cut_lengths(shape), default=0)
    if "digit" not in sorts[:length]:
        return False
    runs = [sort for sort, _ in itertools.groupby(sorts)]
    if runs[1:-1].count("letter") > 1:  # three numbers with letters between them
        return False
    marks = [signs for sort, signs in zip(sorts, parts, strict=True) if sort == "mark"]
    if marks == ["."]:
        return set(sorts[parts.index(".") + 1 :]) == {"digit"}
    return not marks or set(sorts[length:]) == {"digit"}
