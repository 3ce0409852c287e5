"""Tables of public rows as arrays of a model's state, since no release holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.release import KnownMarginal, NoisyMarginal
from margrave.schema.domain import Domain

Floats = NDArray[np.float64]


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
