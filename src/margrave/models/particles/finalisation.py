"""Finalisation: particles as codes, the nearest ones that the rules allow together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.models.mixture.rules_ties import Tie, ties
from margrave.models.particles.embedding import Embedding
from margrave.schema.domain import Domain

__all__ = ["coded"]

AT_ONCE = 1 << 22
"""Distances held at once."""


def coded(embedding: Embedding, domain: Domain, at: NDArray[np.float32]) -> NDArray[np.int64]:
    """Each particle's codes: the nearest, and for attributes that rules tie together the nearest allowed.

    Args:
        embedding: Of the attributes that the particles have.
        domain: Of all attributes, with rules.
        at: Where the particles are, shape [particles, embedding.width].

    Returns:
        Shape [attributes, particles].
    """
    names = embedding.domain.names
    found = np.stack([embedding.nearest(name, at[:, embedding.columns(name)]) for name in names])
    for tie in ties(domain):
        if set(tie.names) <= set(names):
            rows = [names.index(name) for name in tie.names]
            found[rows] = _allowed(embedding, tie, at, found[rows])
    return found


def _allowed(
    embedding: Embedding, tie: Tie, at: NDArray[np.float32], codes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The codes with those of particles in no allowed cell replaced by the nearest cell's."""
    keys = np.ravel_multi_index(tuple(codes), tie.sizes)
    wrong = np.flatnonzero(~np.isin(keys, np.ravel_multi_index(tuple(tie.codes), tie.sizes)))
    most = max(AT_ONCE // tie.codes.shape[1], 1)
    for first in range(0, len(wrong), most):
        mine = wrong[first : first + most]
        apart = np.zeros((len(mine), tie.codes.shape[1]))
        for name, own in zip(tie.names, tie.codes, strict=True):
            points, places = at[mine, embedding.columns(name)], embedding.place(name)
            each = ((points[:, None, :] - places[None, :, :]) ** 2).sum(axis=2)
            apart += each[:, own]
        codes[:, mine] = tie.codes[:, apart.argmin(axis=1)]
    return codes
