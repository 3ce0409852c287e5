"""The embedding of codes into [0, 1] that Donhauser et al. 2024 measure distances in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.schema.encoded import Encoded

__all__ = ["centres", "embedded"]


def centres(size: int) -> NDArray[np.float64]:
    """Where the codes of an attribute lie in [0, 1], equally spaced: shape [size].

    Emb(x) = (2x - 1) / 2k for x = 1 to k (Donhauser et al. 2024, equation 4). Codes without an order are
    spaced like those with one, as there.
    """
    return (2 * np.arange(size) + 1) / (2 * size)


def embedded(rows: Encoded, names: tuple[str, ...] | None = None) -> NDArray[np.float64]:
    """Rows as points of the unit cube, shape [rows, attributes]. **Not private** if the rows are real."""
    wanted = rows.domain.names if names is None else names
    return np.column_stack([centres(rows.domain[name])[rows.column(name)] for name in wanted])
