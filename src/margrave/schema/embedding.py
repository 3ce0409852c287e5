"""Embedding: random Fourier features of a row's codes, a public map in whole numbers."""

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
        turns = rng.standard_normal(frequencies) / (2 * math.pi * spread)
        places = np.arange(ordered)[:, None] / (ordered - 1) * turns
        table = rng.integers(0, TURN, (domain[name], frequencies))
        table[:ordered] = np.rint(places * TURN).astype(np.int64) % TURN
        phases.append(table.astype(np.uint16))
    return Embedding(names, tuple(phases), label)
