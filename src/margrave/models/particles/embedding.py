"""Embedding: where the codes of each attribute lie, and the directions in which particles are looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.schema.domain import Clique, Domain

__all__ = ["Embedding", "embed"]

Floats = NDArray[np.float64]

WIDEST = 64
"""Unordered attributes with more codes lie on a line even when each code is to have an axis of its own."""


@dataclass(frozen=True, slots=True)
class Embedding:
    """Each attribute's codes as points of a space of its own, the spaces side by side.

    Args:
        domain: Names and sizes of the attributes.
        places: Of each attribute's codes, shapes [size, dimensions].
        apart: Attributes whose codes have an axis each and no order.
    """

    domain: Domain
    places: tuple[Floats, ...]
    apart: frozenset[str]

    @property
    def width(self) -> int:
        """Dimensions of all attributes together."""
        return sum(place.shape[1] for place in self.places)

    def columns(self, name: str) -> slice:
        """Where an attribute's dimensions lie."""
        at = self.domain.index(name)
        start = sum(place.shape[1] for place in self.places[:at])
        return slice(start, start + self.places[at].shape[1])

    def place(self, name: str) -> Floats:
        """Where an attribute's codes lie, shape [size, dimensions]."""
        return self.places[self.domain.index(name)]

    def kind(self, clique: Clique) -> tuple[object, ...]:
        """Cliques of one kind have cells at the same places."""
        return tuple(
            (self.domain[n], "apart" if n in self.apart else self.place(n).tobytes()) for n in clique
        )

    def directions(self, clique: Clique, count: int, rng: np.random.Generator) -> list[Floats]:
        """Random directions in a clique's space, one array an attribute, each [dimensions, count].

        On lines and planes they are uniform on the sphere. Among attributes with an axis a code, a direction
        gives each attribute its part of a sphere over attributes, and spaces its codes evenly in a random
        order: every code is as far from its neighbours as on a line, and each order is as likely.
        """
        blocks = [1 if n in self.apart else self.place(n).shape[1] for n in clique]
        normal = rng.standard_normal((sum(blocks), count))
        sphere = normal / np.linalg.norm(normal, axis=0)
        parts, start = [], 0
        for name, width in zip(clique, blocks, strict=True):
            part = sphere[start : start + width]
            start += width
            if name in self.apart:
                even = np.tile(((np.arange(self.domain[name]) + 0.5) / self.domain[name])[:, None], count)
                part = rng.permuted(even, axis=0) * part
            parts.append(part)
        return parts

    def scores(self, clique: Clique, directions: Sequence[Floats]) -> Floats:
        """Each cell's place in each direction, shape [count, cells]."""
        found = np.zeros((directions[0].shape[1], 1))
        for name, part in zip(clique, directions, strict=True):
            found = (found[:, :, None] + (self.place(name) @ part).T[:, None, :]).reshape(len(found), -1)
        return found

    def nearest(self, name: str, points: NDArray[np.floating]) -> NDArray[np.int64]:
        """The code nearest to each of some points of an attribute's space, shape [points]."""
        place = self.place(name)
        if name in self.apart:
            return np.asarray(points.argmax(axis=1), dtype=np.int64)
        if place.shape[1] == 1:
            order = np.argsort(place[:, 0], kind="stable")
            line = place[order, 0]
            at = np.searchsorted((line[1:] + line[:-1]) / 2, points[:, 0])
            return np.asarray(order[at], dtype=np.int64)
        best = np.zeros(len(points), dtype=np.int64)
        least = np.full(len(points), np.inf)
        for code, own in enumerate(place):
            apart = ((points - own) ** 2).sum(axis=1)
            closer = apart < least
            best[closer], least[closer] = code, apart[closer]
        return best


def embed(domain: Domain, unordered: str, places: Mapping[str, Sequence[Sequence[float]]]) -> Embedding:
    """The embedding of a domain.

    Args:
        domain: With `ordered`.
        unordered: "line" for codes of every attribute at (x + 1/2) / size on [0, 1] (PrivPGD, equation 4);
            "apart" for an axis a code where codes stand in no order and are at most WIDEST.
        places: Coordinates for some attributes, shape [size, dimensions], as of towns; they are moved and
            scaled, all dimensions alike, so that the longest side is [0, 1].

    Raises:
        SchemaError: There is no such attribute.
        InputError: Coordinates are not finite, or not one row a code.
    """
    for name in places:
        domain.index(name)
    found, apart = [], []
    for name, size, ordered in zip(domain.names, domain.sizes, domain.ordered, strict=True):
        if name in places:
            found.append(_scaled(name, size, np.asarray(places[name], dtype=np.float64)))
        elif unordered == "apart" and ordered == 0 and 2 < size <= WIDEST:
            found.append(np.eye(size))
            apart.append(name)
        else:
            found.append(((np.arange(size) + 0.5) / size)[:, None])
    return Embedding(domain, tuple(found), frozenset(apart))


def _scaled(name: str, size: int, given: Floats) -> Floats:
    if given.ndim != 2 or given.shape[0] != size or not given.shape[1] or not np.isfinite(given).all():
        remedy = "Give each code its coordinates, missing and other values too."
        raise InputError(invalid("places", f"finite, of {size} rows for {name!r}", remedy, got=given.shape))
    low, side = given.min(axis=0), float(np.ptp(given, axis=0).max())
    return np.asarray((given - low) / (side if side > 0 else 1.0))
