"""PublicRows: the public part of a table's rows, equal rows pooled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded

Singles = NDArray[np.float32]
Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class PublicRows:
    """The public part of the rows, numbered through, equal rows pooled.

    Args:
        names: The public attributes, in the domain's order.
        starts: Where each one's codes begin, and their number at the end, shape [public attributes + 1].
        codes: Of each distinct row, shape [distinct, public attributes], numbered from `starts`.
        weights: The share of the rows that each one stands for, shape [distinct]; they sum to 1.
        places: The distinct row of each row, shape [rows].
    """

    names: tuple[str, ...]
    starts: NDArray[np.int64]
    codes: Ints
    weights: Singles
    places: NDArray[np.int64]

    @classmethod
    def of(cls, domain: Domain, names: Sequence[str], columns: Sequence[NDArray[np.integer]]) -> PublicRows:
        """Pool rows of public codes; without a public attribute one row stands for all."""
        sizes = domain.shape(names)
        starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
        if not names:
            one = np.ones(1, np.float32)
            return cls((), starts, np.zeros((1, 0), np.int32), one, np.zeros(1, np.int64))
        lines = np.stack(
            [np.asarray(c, np.int32) + np.int32(s) for c, s in zip(columns, starts, strict=False)]
        )
        order = np.lexsort(lines)
        ranked = lines[:, order]
        fresh = np.concatenate([[True], (ranked[:, 1:] != ranked[:, :-1]).any(axis=0)])
        places = np.empty(len(order), np.int64)
        places[order] = np.cumsum(fresh) - 1
        distinct = np.ascontiguousarray(ranked[:, fresh].T)
        weights = np.bincount(places) / len(places)
        return cls(tuple(names), starts, distinct, weights.astype(np.float32), places)

    @classmethod
    def read(cls, domain: Domain, given: Encoded | None) -> PublicRows:
        """The public rows as a fitter is given them; None, or no row, makes them rows of no attribute."""
        if given is None or not len(given.domain) or not given.rows:
            return cls.of(domain, (), ())
        names = tuple(name for name in domain.names if name in given.domain)
        return cls.of(domain, names, [given.column(name) for name in names])

    @classmethod
    def restore(cls, domain: Domain, state: Mapping[str, NDArray[Any]]) -> PublicRows:
        """The rows whose arrays a model's state holds: "public", "rows", "row_weights" and "places".

        Raises:
            ReleaseError: They are not rows of the domain.
        """
        try:
            places = [int(place) for place in np.asarray(state["public"], dtype=np.int64)]
            names = tuple(domain.names[place] for place in places)
            starts = np.concatenate([[0], np.cumsum(domain.shape(names), dtype=np.int64)]).astype(np.int64)
            codes = np.ascontiguousarray(state["rows"], dtype=np.int32)
            weights = np.ascontiguousarray(state["row_weights"], dtype=np.float32)
            lines = np.asarray(state["places"], dtype=np.int64)
        except (KeyError, IndexError, TypeError, ValueError):
            raise ReleaseError(_damaged()) from None
        sound = (
            codes.shape == (len(weights), len(names))
            and len(weights) > 0
            and bool(((codes >= starts[:-1]) & (codes < starts[1:])).all())
            and bool(np.isfinite(weights).all() and (weights > 0).all())
            and bool(((lines >= 0) & (lines < len(weights))).all())
        )
        if not sound:
            raise ReleaseError(_damaged())
        return cls(names, starts, codes, weights, lines)

    def key_cells(self, domain: Domain, names: Sequence[str]) -> tuple[NDArray[np.int64], int]:
        """The cell of some public attributes that each distinct row is in, [distinct], and their number."""
        keys = np.zeros(len(self.codes), np.int64)
        for name in names:
            u = self.names.index(name)
            keys = keys * domain[name] + (self.codes[:, u] - self.starts[u])
        return keys, domain.size(names)

    def part(self, count: int, rng: np.random.Generator) -> PublicRows:
        """`count` of the distinct rows, drawn alike with their weights, each for one row; all if no more."""
        if len(self.codes) <= count:
            return self
        chosen = np.sort(rng.choice(len(self.codes), count, replace=False))
        weights = self.weights[chosen] / self.weights[chosen].sum()
        return PublicRows(self.names, self.starts, self.codes[chosen], weights, np.arange(count))


def _damaged() -> str:
    return invalid("state", "public rows over the domain", "The release is damaged.")
