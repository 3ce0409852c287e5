"""Keys that refer to keys: a manager's number among the employees', or the case that one was infected by.

Of a table with nothing declared discovery finds that one column is a key of which each row has its own, and
that another has keys that come back. Whether the second one refers to the first cannot be seen in what is
released, only that both are written alike, and their names say the rest. A column refers to the key where

- both are texts of the same letters, three or more, in front of the same number of digits, as in EMP0123;
- or they are texts with fewer letters in front, such as E1023, and the column's name has a word of
  `SAME_KIND`, `STAFF` or `REFERRALS`;
- or they are texts without any (digits alone, hashes, UUIDs), or whole numbers in the range of the key's
  numbers or digits. Then the name has nothing but such a word, words of the key's name and fillers; and a
  manager or a referrer is one of the key's only where that names people of this sort: the manager of a
  project is no project.

Rows are drawn as without this, so that missing values stay, and each value is in as many rows as before. Then
each different value becomes one key of the same rows: a number the nearest one at or below it that no other
one has, where there are enough, a text any one. Texts that are not listed become as many keys as their rows
have. A row that would refer to itself gets another key that is referred to.

**Privacy.** Post-processing: names, and columns as they were released.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from margrave.schema.columns import Categorical, Column, Identifier, Integer
from margrave.schema.columns.base import split_words
from margrave.schema.columns.identifier import MEANING, shape_of, shape_parts, widen_shape
from margrave.schema.columns.relative import take_own
from margrave.schema.schema import Schema

Places = NDArray[np.intp]

SAME_KIND = frozenset(
    [
        *("parent", "predecessor", "successor", "previous", "prev", "replaces", "replaced", "supersedes"),
        *("reply", "infected", "infector", "reports"),
    ]
)
"""Words of names that speak of another one of whatever the key is of."""
STAFF = frozenset(("manager", "mgr", "supervisor", "boss", "superior"))
"""The same, where the key is of EMPLOYEES."""
REFERRALS = frozenset(("referred", "referrer", "recruited", "recruiter", "invited", "inviter"))
"""The same, where the key is of EMPLOYEES or CUSTOMERS: patients are referred by doctors."""
EMPLOYEES = frozenset(("employee", "emp", "staff", "person", "personnel", "worker", "associate"))
CUSTOMERS = frozenset(("customer", "client", "member", "user", "subscriber", "participant", "respondent"))
CHILDREN = frozenset(("child", "kid", "pupil", "student", "patient"))
"""People whose parents have no such key."""
FILLERS = frozenset(("id", "ids", "key", "no", "nr", "num", "number", "code", "ref", "by", "to"))
"""Words that names of keys have besides."""
LEAST_LETTERS = 3
"""Letters in front from which texts that are written alike are keys of the same. Not measured."""
LEAST_INSIDE = 0.9
"""Share of a column's numbers that lie in the range of the keys that they refer to. Not measured."""

MOST_DIGITS = 17
"""Of keys that are numbers written as text: with one more they are numbers of 64 bits."""

Form = tuple[str, str]
"""What texts begin with before their first digit, and the classes of all of their signs."""


def find_references(schema: Schema) -> dict[str, str]:
    """The columns whose values are keys of another one, and that one, by name: of several the first.

    What was declared stays as it is: strict columns, and those that declared rules speak of.
    """
    columns = [take_own(column) for column in schema.columns]
    own = [column for column in columns if _has_own_keys(column)]
    # Noise may hide that keys come back: those that refer to others are none of their own.
    keys = [key for key in own if not any(_refers(key, other) for other in own if other.name != key.name)]
    declared = {name for rule in schema.rules if rule.found is None for name in rule.names}
    found = dict[str, str]()
    for of in columns:
        if of.strict or of.name in declared:
            continue
        fitting = [key.name for key in keys if key.name != of.name and _refers(of, key)]
        if fitting:
            found[of.name] = fitting[0]
    return found


def describe_references(schema: Schema) -> list[str]:
    """What was found, in words."""
    return [
        f"{of} holds keys of {key}, as names and spellings say, found and not promised"
        for of, key in find_references(schema).items()
    ]


def refer_to_numbers(values: NDArray[np.int64], keys: NDArray[np.int64]) -> Places:
    """The key that stands for each number, the same for all that are equal: places among keys, shape [rows].

    Args:
        values: Numbers, shape [rows].
        keys: Different numbers, one or more, shape [keys].
    """
    order = np.argsort(keys, kind="stable")
    different, owners = np.unique(values, return_inverse=True)
    places = np.maximum(np.searchsorted(keys[order], different, side="right") - 1, 0)
    count = np.arange(len(different))
    if len(different) <= len(keys):
        # Each at least one above the one before, then each low enough for those behind it.
        places = count + np.maximum.accumulate(places - count)
        places = np.minimum(places, len(keys) - 1 - count[::-1])
    found: Places = order[places][owners]
    return found


def refer_to_texts(values: Sequence[str], keys: int, rng: np.random.Generator) -> Places:
    """The key that stands for each text, the same for all that are equal: places among keys, shape [rows].

    Args:
        values: Texts, shape [rows].
        keys: How many keys there are.
        rng: Says which is which.
    """
    owners = np.unique(np.asarray(values, dtype=np.str_), return_inverse=True)[1]
    different = int(owners.max(initial=-1)) + 1
    chosen: Places = rng.permutation(keys) if different <= keys else rng.integers(keys, size=different)
    found: Places = chosen[:different][owners]
    return found


def avoid_self(places: Places, own: Places) -> Places:
    """Places of keys of which none is the row's own, if there are two that are referred to.

    Args:
        places: The key that each row refers to, shape [rows].
        own: The row's own key, -1 where it has none, shape [rows].
    """
    used = np.unique(places)
    rows = np.flatnonzero(places == own)
    changed: Places = places.copy()
    changed[rows] = used[np.searchsorted(used, places[rows]) - 1]
    return changed


def _has_own_keys(column: Column) -> bool:
    """Whether discovery found that each row has a key of its own."""
    if isinstance(column, Identifier):
        return column.pattern == "shape"
    return isinstance(column, Categorical | Integer) and column.unique


def _refers(of: Column, key: Column) -> bool:
    """Whether a column refers to a key."""
    if isinstance(of, Integer):
        ends = _find_range(key)
        return ends is not None and _share_inside(of, ends) >= LEAST_INSIDE and _says_so(of.name, key.name)
    if not isinstance(of, Categorical) or of.unique or not isinstance(key, Categorical | Identifier):
        return False
    forms, keys = set(_list_forms(of)), set(_list_forms(key))
    if not forms or not forms <= keys:
        return False
    letters = min(sum(sign.isalpha() for sign in beginning) for beginning, _ in forms)
    if 0 < letters < LEAST_LETTERS:
        return bool((SAME_KIND | STAFF | REFERRALS).intersection(split_words(of.name)))
    return letters > 0 or _says_so(of.name, key.name)


def _says_so(of: str, key: str) -> bool:
    """Whether a name speaks of another one of what the key is of, and of nothing else."""
    words, own = set(split_words(of)), set(split_words(key))
    allowed = SAME_KIND - ({"parent"} if own & CHILDREN else frozenset())
    allowed |= STAFF if own & EMPLOYEES else frozenset()
    allowed |= REFERRALS if own & (EMPLOYEES | CUSTOMERS) else frozenset()
    # A word alone may be a flag: is it a parent, or not?
    return bool(words & allowed) and len(words) > 1 and words <= allowed | own | FILLERS


def _find_range(key: Column) -> tuple[float, float] | None:
    """The least and greatest number that a key may be; None for keys that are no whole numbers."""
    if isinstance(key, Integer):
        return None if key.lower is None or key.upper is None else (key.lower, key.upper)
    parts = [shape_parts(shape) for shape in (key.shapes if isinstance(key, Identifier) else ())]
    if not parts or any(len(one) > MOST_DIGITS or not "".join(one).isdigit() for one in parts):
        return None
    least, most = ([int("".join(map(end, one))) for one in parts] for end in (min, max))
    return min(least), max(most)


def _share_inside(of: Integer, ends: tuple[float, float]) -> float:
    """The share of a column's rows whose cell reaches into a range, of those that are not 0."""
    cells = of.edge_array if of.fine is None else np.asarray(of.fine, dtype=np.float64)
    if of.weights is None:
        return 0.0
    weights = np.array(of.weights, dtype=np.float64)
    if of.zero_code is not None:  # no key, but none
        weights[cells[:-1] == 0] = 0.0
    inside = (cells[:-1] <= ends[1]) & (cells[1:] > ends[0])
    return float(weights[inside].sum() / max(weights.sum(), 1e-300))


def _list_forms(column: Categorical | Identifier) -> Iterator[Form]:
    """How the texts of a column are written; ("", "") for one that is no code."""
    for shape in column.shapes if isinstance(column, Identifier) else _list_shapes(column):
        signs = shape_parts(shape) if shape else ()
        fixed = takewhile(lambda held: len(held) == 1 and not held.isdigit(), signs)
        yield "".join(fixed), widen_shape(shape) if shape else ""


def _list_shapes(column: Categorical) -> Iterator[str]:
    yield from (shape_of(str(value)) for value in column.values or ())
    for beginning, ending in zip(column.stems, column.rests, strict=True):
        yield "".join(f"\\{sign}" if sign in MEANING else sign for sign in beginning) + ending
    yield from column.patterns
    if column.other_shape:
        yield column.other_shape
