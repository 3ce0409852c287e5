"""DiffusionModel: rows that a trained denoiser has drawn, with its weights."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.models.carried import Carried
from margrave.models.rowwise.model import RowModel

__all__ = ["DiffusionModel", "remembered_weights"]

WEIGHTS = "denoiser_"


class DiffusionModel(Carried[RowModel]):
    """Rows drawn by a denoiser; all answers are theirs.

    The weights are kept with the saved model, so that a release file holds all that was released.

    Args:
        inner: The rows.
        weights: Of each layer, [out, in + 1].
    """

    def __init__(self, inner: RowModel, weights: Sequence[NDArray[np.float64]]) -> None:
        super().__init__(inner)
        self.weights = tuple(weights)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which `Diffusion.restore` builds the same model again."""
        return super().state() | {f"{WEIGHTS}{k}": weight for k, weight in enumerate(self.weights)}


def remembered_weights(state: Mapping[str, NDArray[Any]]) -> list[NDArray[np.float64]]:
    """The weights in a saved state; none where it holds none.

    Raises:
        ReleaseError: They do not fit each other.
    """
    count = sum(name.startswith(WEIGHTS) for name in state)
    found = [np.asarray(state.get(f"{WEIGHTS}{k}", ())) for k in range(count)]
    sound = all(weight.ndim == 2 and weight.dtype.kind == "f" for weight in found)
    sound = sound and all(bool(np.isfinite(weight).all()) for weight in found)
    pairs = itertools.pairwise(found)
    if not sound or any(below.shape[0] + 1 != above.shape[1] for below, above in pairs):
        raise ReleaseError(invalid("state", "with whole weights", "The release is damaged."))
    return found
