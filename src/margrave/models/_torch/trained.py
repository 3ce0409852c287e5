"""What networks that are trained at the door have in common, whatever they are trained by.

`TrainedEstimator` checks the device and keeps the work on one thread. `DrawnRows` are rows that such a
network has drawn, kept with its weights.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.models._base.constraints import resolve_dependencies
from margrave.models._base.estimator import Estimator, Fitted
from margrave.models._base.model import DelegatingModel
from margrave.models._base.pooling import pool
from margrave.models._sampling.rows import RowModel, row_dtype
from margrave.models._torch.device import ready, serial

if TYPE_CHECKING:
    from margrave.release import NoisyMarginal
    from margrave.schema.domain import Domain

Floats = NDArray[np.float64]
T = TypeVar("T")


class DrawnRows(DelegatingModel[RowModel]):
    """Rows drawn by a network; all answers are theirs.

    The weights are kept with the saved model, so that a release file holds all that was released.

    Args:
        inner: The rows.
        weights: Of each layer, [out, in + 1].
    """

    prefix: ClassVar[str]
    """What names of weights begin with in a saved state; the rest is the number of the layer."""

    def __init__(self, inner: RowModel, weights: Sequence[Floats]) -> None:
        super().__init__(inner)
        self.weights = tuple(weights)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which the fitter's `restore` builds the same model again."""
        return super().state() | {f"{self.prefix}{k}": weight for k, weight in enumerate(self.weights)}

    @classmethod
    def read_weights(cls, state: Mapping[str, NDArray[Any]]) -> list[Floats]:
        """The network's weights in a saved state.

        Raises:
            ReleaseError: There are none, or they do not fit each other.
        """
        count = sum(name.startswith(cls.prefix) for name in state)
        found = [np.asarray(state.get(f"{cls.prefix}{k}", ())) for k in range(count)]
        sound = count > 0 and all(weight.ndim == 2 and weight.dtype.kind == "f" for weight in found)
        sound = sound and all(bool(np.isfinite(weight).all()) for weight in found)
        if not sound or any(
            below.shape[0] + 1 != above.shape[1] for below, above in itertools.pairwise(found)
        ):
            raise ReleaseError(invalid("state", "with the network's weights", "The release is damaged."))
        return found


class TrainedEstimator(Estimator[Fitted]):
    """The base of estimators whose network is trained at the door, by gradients or by votes.

    Its arithmetic has to be the same for a row whatever rows are beside it, so it needs double precision
    and one thread.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def device(self) -> str | None:
        """Where the network is: "cpu", "cuda" or "cuda:N"; None for the processor."""

    @property
    @abstractmethod
    def most_rows(self) -> int:
        """Rows that are drawn, at most; else as many as the model stands for."""

    @property
    @abstractmethod
    def seed(self) -> int:
        """Of the first weights and of the rows."""

    def prepare(self) -> None:
        """Check that PyTorch and the device are there and will do, before anything is spent.

        Raises:
            InputError: There is no such device, or it has no double precision.
            MissingExtraError: PyTorch is not installed.
        """
        if not ready(self.device).double:
            remedy = "Leave it out for the processor."
            raise InputError(invalid("device", "one with double precision", remedy, got=self.device))

    def alone(self, work: Callable[[], T]) -> T:
        """What some work with the network returns, done on one thread of the processor; see `serial`."""
        with serial(ready(self.device)):
            return work()

    def draw_model(
        self,
        domain: Domain,
        draw_codes: Callable[[int, np.random.Generator], Any],
        measurements: Sequence[NoisyMarginal],
        total: float,
    ) -> RowModel:
        """The rows of a trained network as a model.

        Args:
            domain: Names and sizes of the attributes.
            draw_codes: Draws a number of rows, an array of codes for each attribute.
            measurements: Released marginals; rules are read off them where that is needed.
            total: Rows to stand for.
        """
        rows, rng = min(max(round(total), 1), self.most_rows), np.random.default_rng(self.seed)
        columns = np.array(self.alone(lambda: draw_codes(rows, rng)))
        domain = resolve_dependencies(domain, pool(domain, measurements))
        return RowModel(domain, total, domain.names, columns.astype(row_dtype(domain)))
