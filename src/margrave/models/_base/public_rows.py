"""What is public of a table, in a fitted model and in its saved state.

`PublicRows` holds the public part of the rows, equal rows pooled. `pack_tables` and `unpack_tables` turn
tables counted from public rows into arrays of a model's state, since no release holds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.release import KnownMarginal, NoisyMarginal
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded

Singles = NDArray[np.float32]
Ints = NDArray[np.int32]
Floats = NDArray[np.float64]


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
        starts = np.cumsum([0, *sizes])
        if not names:
            one = np.ones(1, np.float32)
            return cls((), starts, np.zeros((1, 0), np.int32), one, np.zeros(1, np.int64))
        lines = np.stack(
            [np.asarray(c, np.int32) + np.int32(s) for c, s in zip(columns, starts, strict=False)]
        )
        # Equal rows stand together once sorted; where a row differs from the one before, a distinct one
        # begins.
        order = np.lexsort(lines)
        ranked = lines[:, order]
        differs = (ranked[:, 1:] != ranked[:, :-1]).any(axis=0)
        fresh = np.concatenate([[True], differs])
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
            starts = np.cumsum([0, *domain.shape(names)])
            codes = np.ascontiguousarray(state["rows"], dtype=np.int32)
            weights = np.ascontiguousarray(state["row_weights"], dtype=np.float32)
            lines = np.asarray(state["places"], dtype=np.int64)
        except (KeyError, IndexError, TypeError, ValueError):
            raise ReleaseError(_damaged()) from None
        # A release file may come from anybody; codes outside their attribute would be read from other
        # memory by the kernels.
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


def pack_tables(domain: Domain, tables: Sequence[NoisyMarginal]) -> dict[str, NDArray[Any]]:
    """Arrays of some tables, one after the other.

    Args:
        domain: Names and sizes of the attributes.
        tables: Of cliques of the domain.
    """
    places = [domain.index(name) for table in tables for name in table.clique]
    empty = np.zeros(0)
    return {
        "public": np.asarray(places, dtype=np.int64),
        "public_degrees": np.asarray([len(table.clique) for table in tables], dtype=np.int64),
        "public_counts": np.concatenate([empty, *(table.values.ravel() for table in tables)]),
        "public_sigmas": np.concatenate([empty, *(table.sigmas.ravel() for table in tables)]),
    }


def unpack_tables(domain: Domain, state: Mapping[str, NDArray[Any]]) -> list[KnownMarginal]:
    """The tables whose arrays are in a state; none where there are none.

    A state from before tables of more than one attribute were kept has neither degrees nor deviations: each
    table is of one attribute, with a standard deviation of one row.

    Raises:
        ReleaseError: They are not tables of the domain.
    """
    places = [int(place) for place in np.ravel(state.get("public", ()))]
    degrees = [int(degree) for degree in np.ravel(state.get("public_degrees", np.ones(len(places))))]
    if any(not 0 <= place < len(domain) for place in places) or min(degrees, default=1) < 1:
        raise ReleaseError(invalid("state", "of attributes of the domain", "The release is damaged."))
    ends = np.cumsum(degrees, dtype=np.int64).tolist()
    cliques = [
        tuple(domain.names[place] for place in places[end - degree : end])
        for end, degree in zip(ends, degrees, strict=True)
    ]
    sizes = [domain.size(clique) for clique in cliques]
    counts = np.asarray(state.get("public_counts", ()), dtype=np.float64)
    sigmas = np.asarray(state.get("public_sigmas", np.ones(counts.shape)), dtype=np.float64)
    sound = counts.shape == sigmas.shape == (sum(sizes),) and sum(degrees) == len(places)
    if not (sound and bool(np.isfinite(counts).all())):
        raise ReleaseError(invalid("state", "of one count a public code", "The release is damaged."))
    last = np.cumsum(sizes, dtype=np.int64).tolist()
    return [
        KnownMarginal(
            clique,
            counts[end - size : end].reshape(domain.shape(clique)),
            sigmas[end - size : end].reshape(domain.shape(clique)),
        )
        for clique, size, end in zip(cliques, sizes, last, strict=True)
    ]
