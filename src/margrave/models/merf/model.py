"""MerfModel: the mixture of products that a generator is, with the noisy embedding it was fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.models.carried import Carried
from margrave.release import NoisyMoments
from margrave.schema.domain import Domain
from margrave.schema.embedding import TURN, Embedding

if TYPE_CHECKING:
    from margrave.protocols import Model

__all__ = ["MerfModel", "remembered_moments"]

Floats = NDArray[np.float64]


class MerfModel(Carried["Model"]):
    """A model and the moments that were released for it. All answers are the model's.

    The moments are kept with the saved model, so that a release file holds all that was released and a
    generator can be trained again without the table.

    Args:
        inner: The mixture that the generator is on its noise vectors.
        moments: What it was fitted to besides marginals.
    """

    def __init__(self, inner: Model, moments: NoisyMoments) -> None:
        super().__init__(inner)
        self.moments = moments

    def state(self) -> dict[str, Floats]:
        """Arrays from which `Merf.restore` builds the same model again."""
        features = self.moments.embedding
        places = [self.domain.index(name) for name in features.names]
        label = -1 if features.label is None else self.domain.index(features.label)
        return super().state() | {
            "moments_values": self.moments.values,
            "moments_sigma": np.asarray(self.moments.sigma),
            "moments_label": np.asarray(float(label)),
            "moments_columns": np.asarray(places, dtype=np.float64),
            "moments_phases": np.concatenate(features.phases).astype(np.float64),
        }


def remembered_moments(domain: Domain, state: Mapping[str, Floats]) -> NoisyMoments | None:
    """The moments in a saved state, if there are any.

    Raises:
        ReleaseError: They do not fit the domain.
    """
    if "moments_values" not in state:
        return None
    damaged = ReleaseError(invalid("state", "with whole moments", "The release is damaged."))
    try:
        places = [int(place) for place in state["moments_columns"]]
        phases, values = state["moments_phases"], np.asarray(state["moments_values"], dtype=np.float64)
        sigma, label = float(state["moments_sigma"]), int(state["moments_label"])
        names = tuple(domain.names[place] for place in places)
        cuts = np.cumsum(domain.shape(names))
        parts = np.split(np.asarray(phases, dtype=np.float64), cuts[:-1])
        sound = bool(((phases >= 0) & (phases < TURN)).all()) and np.isfinite(values).all() and sigma > 0
        tables = tuple(part.astype(np.uint16) for part in parts)
        features = Embedding(names, tables, None if label < 0 else domain.names[label])
        sound = sound and features.shape(domain) == values.shape
    except (KeyError, IndexError, ValueError, TypeError, OverflowError):
        raise damaged from None
    if not sound:
        raise damaged
    return NoisyMoments(features, values, sigma)
