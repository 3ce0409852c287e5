"""Public maps from the codes of a row to a vector, of which sums over rows are released at the door.

`Embedding` makes random Fourier features of a row's codes, in whole numbers. `RowNumbers` gives the vector
whose products are summed: for each attribute the numbers that stand for its code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid
from margrave.schema.domain import Clique, Domain

TURN = 1 << 16
"""A full turn of a phase."""
MIN_ORDERED_CODES = 3
"""Codes that have to stand in order for an attribute to be a number."""


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """At which phase each code of some attributes stands, for many frequencies.

    A row has for every frequency the sum of its codes' phases, modulo TURN, and so the point
    exp(2 pi i phase / TURN) of the unit circle: a random Fourier feature (Rahimi and Recht 2007), all in
    whole numbers. Sums over rows are kept apart by the codes of `label`.

    Args:
        names: The attributes, distinct.
        phases: For each of them, in 1 / TURN of a turn: shape [codes, frequencies], uint16.
        label: Another attribute, or None.

    Raises:
        SchemaError: The fields do not fit each other.
    """

    names: Clique
    phases: tuple[NDArray[np.uint16], ...]
    label: str | None = None

    def __post_init__(self) -> None:
        alike = {table.shape[1:] for table in self.phases}
        sound = (
            len(self.names) == len(self.phases) == len(set(self.names)) > 0
            and all(table.dtype == np.uint16 and table.ndim == 2 and table.size for table in self.phases)
            and len(alike) == 1
        )
        if not sound or self.label in self.names:
            remedy = "Make it with `fourier`."
            raise SchemaError(invalid("embedding", "one table of phases for each of its names", remedy))

    @property
    def frequencies(self) -> int:
        """How many features, each of two numbers."""
        return int(self.phases[0].shape[1])

    def shape(self, domain: Domain) -> tuple[int, int]:
        """Codes of the label (1 without one), and numbers for each: cosines, then sines.

        Raises:
            SchemaError: The domain has other attributes, or other sizes.
        """
        sizes = tuple(len(table) for table in self.phases)
        if domain.shape(self.names) != sizes:
            raise SchemaError(invalid("embedding", "of the domain's sizes", "Make it for this domain."))
        return (1 if self.label is None else domain[self.label]), 2 * self.frequencies


def numbers(domain: Domain, label: str | None = None) -> Clique:
    """The attributes whose codes stand in order, three or more of them, without the label."""
    ranks = zip(domain.names, domain.ordered, strict=True)
    return tuple(name for name, ordered in ranks if ordered >= MIN_ORDERED_CODES and name != label)


def fourier(
    domain: Domain,
    label: str | None,
    frequencies: int,
    width: float | None,
    rng: np.random.Generator,
) -> Embedding:
    """Random Fourier features of the attributes that are numbers.

    Codes in order stand at 0 to 1, evenly; W ~ N(0, 1 / width^2), so that the mean over frequencies of the
    product of two rows' points is near exp(-distance^2 / (2 width^2)). A code outside the order (missing,
    other) has a phase of its own at every frequency, uniform: it is far from everything.

    Args:
        domain: With one attribute or more that `numbers` finds.
        label: Kept apart by its codes; None for no label.
        frequencies: At least 1.
        width: Of the kernel, above 0; None for sqrt(attributes / 6), the root mean square distance of two
            rows that are uniform on the cube.
        rng: Of the frequencies, which are public.
    """
    names = numbers(domain, label)
    spread = math.sqrt(len(names) / 6) if width is None else width
    phases = []
    for name in names:
        ordered = domain.ordered[domain.index(name)]
        # The scale of a feature is spread over the columns, so that the kernel is as wide however many
        # there are.
        turns = rng.standard_normal(frequencies) / (2 * math.pi * spread)
        places = np.arange(ordered)[:, None] / (ordered - 1) * turns
        # Codes behind the ordered ones, such as missing, have no place on the line: each gets a phase of
        # its own, and so is like no other.
        table = rng.integers(0, TURN, (domain[name], frequencies))
        table[:ordered] = np.rint(places * TURN).astype(np.int64) % TURN
        phases.append(table.astype(np.uint16))
    return Embedding(names, tuple(phases), label)


@dataclass(frozen=True, slots=True, eq=False)
class RowNumbers:
    """Numbers of each code of some attributes; a row's vector z has those of its codes, side by side.

    Every number is within -1 and 1 and public: it may come from a schema or a release, never from rows.

    Args:
        names: The attributes, distinct.
        numbers: For each of them, shape [numbers, codes].
        constant: Whether z begins with a 1.

    Raises:
        SchemaError: The fields do not fit each other, or a number is not within -1 and 1.

    Example:
        >>> import numpy as np
        >>> from margrave.schema.features import RowNumbers
        >>> RowNumbers(("age", "ill"), (np.array([[-1.0, 0.0, 1.0]]), np.array([[0.0, 1.0]]))).size
        3
    """

    names: Clique
    numbers: tuple[NDArray[np.float64], ...]
    constant: bool = True

    def __post_init__(self) -> None:
        sound = len(self.names) == len(self.numbers) == len(set(self.names)) > 0
        if not sound or any(matrix.ndim != 2 or not matrix.size for matrix in self.numbers):
            remedy = "Give each of the names an array of shape [numbers, codes]."
            raise SchemaError(invalid("numbers", "one matrix for each of the distinct names", remedy))
        if any(not (np.abs(matrix) <= 1.0).all() for matrix in self.numbers):
            remedy = "Divide a column's numbers by its declared bounds."
            raise SchemaError(invalid("numbers", "within -1 and 1", remedy))

    @classmethod
    def indicate_codes(cls, domain: Domain) -> RowNumbers:
        """One indicator a code: a row's vector has a 1 for each attribute, at its code, and 0 elsewhere."""
        return cls(domain.names, tuple(np.eye(size) for size in domain.sizes), constant=False)

    @classmethod
    def scale_codes(cls, domain: Domain) -> RowNumbers:
        """One number an attribute, its code over the largest: for codes evenly in order, as grey values."""
        rows = tuple(np.arange(size)[None, :] / max(size - 1, 1) for size in domain.sizes)
        return cls(domain.names, rows, constant=False)

    @property
    def size(self) -> int:
        """Numbers of a row: p, the constant included."""
        return int(self.constant) + sum(len(matrix) for matrix in self.numbers)

    def check(self, domain: Domain) -> None:
        """Refuse a domain with other attributes or other sizes.

        Raises:
            SchemaError: It is one.
        """
        if domain.shape(self.names) != tuple(matrix.shape[1] for matrix in self.numbers):
            raise SchemaError(invalid("numbers", "of the domain's sizes", "Make them for this domain."))

    def cut(self, height: int) -> tuple[NDArray[np.int64], ...]:
        """height times the numbers, cut towards 0; the constant's first, of shape [1, 1], where it is."""
        matrices = tuple(np.trunc(height * matrix).astype(np.int64) for matrix in self.numbers)
        return (np.full((1, 1), height, dtype=np.int64), *matrices) if self.constant else matrices
