"""Compressed: fits another family after merging the codes that noise hides, and spreads them out again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import FULL, Effort
from margrave.models._base.estimator import DelegatingEstimator
from margrave.models._base.model import pack_inner, unpack_inner
from margrave.models._base.pooling import one_ways, pool, rows_of
from margrave.models._grouping import CodeGrouping, GroupedModel, groups_from_state, merge_rare_codes
from margrave.models.pgm.fitter import PGM
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

if TYPE_CHECKING:
    from margrave import protocols
    from margrave.protocols import Fitter

Floats = NDArray[np.float64]


class CompressedModel(GroupedModel["protocols.Model"]):
    """A model over groups of codes, made by `Compressed`; see `GroupedModel`."""

    def state(self) -> dict[str, Floats]:
        """Arrays from which `Compressed.restore` builds the same model again."""
        return pack_inner(self.inner) | self.grouping.state()


@dataclass(frozen=True, slots=True)
class Compressed(DelegatingEstimator["protocols.Model"]):
    """Domain compression (McKenna, Miklau and Sheldon 2021, section 5) as post-processing, for any fitter.

    Codes whose best one-way count, pooled from all tables that hold them, is below `sigmas` standard
    deviations are merged before the fit: ordered ones with their neighbours, the others into one. The model
    over groups is spread over codes by the noisy one-way. Fewer cells make a fit faster, and a cell that is
    mostly noise no longer has to be explained; see docs/models.md for figures.

    **Privacy.** Post-processing: it looks at released tables only.

    Args:
        fitter: The family that is fitted.
        sigmas: Standard deviations below which a code is merged.
        max_memory: Bytes that the fitter may take; its own limit when None.

    Raises:
        InputError: sigmas is not a number above 0, or the fitter has no limit of memory.

    Example:
        >>> import numpy as np
        >>> from margrave.release import NoisyMarginal
        >>> from margrave.schema.domain import Domain
        >>> domain = Domain(("a",), (4,))
        >>> table = NoisyMarginal(("a",), np.array([90.0, 4.0, -2.0, 1.0]), 2.0)
        >>> model = Compressed().fit(domain, [table])
        >>> model.inner.domain.sizes
        (2,)
    """

    fitter: Fitter = field(default_factory=PGM)
    sigmas: float = 3.0
    max_memory: int | None = None
    name: ClassVar[str] = "compressed"
    options: ClassVar[frozenset[str]] = frozenset({"max_memory"})

    def __post_init__(self) -> None:
        if not (math.isfinite(self.sigmas) and self.sigmas > 0):
            raise InputError(invalid("sigmas", "a finite number above 0", "Try 3.", got=self.sigmas))
        self._check_memory()

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float | None = None,
        warm: protocols.Model | None = None,
        effort: Effort = FULL,
    ) -> protocols.Model:
        """The model that explains the measurements, over groups of codes where some are merged.

        A rough fit merges nothing, so that the fits between the rounds of an adaptive strategy start from
        each other; a fit with merged codes starts afresh.

        Raises:
            InputError: The tables do not fit the domain, or whatever the fitter says.
        """
        tables = pool(domain, measurements)
        grouping = None if effort.rough else merge_rare_codes(domain, one_ways(tables), self.sigmas)
        if grouping is None:
            # A model over groups is no start for one over codes.
            own = None if isinstance(warm, GroupedModel) else warm
            return self._inner.fit(domain, measurements, total=total, warm=own, effort=effort)
        rows = rows_of(measurements, total)
        inner = self._inner.fit(
            grouping.inner, self._sum_to_groups(grouping, domain, measurements), total=rows, effort=effort
        )
        return CompressedModel(inner, grouping)

    def restore(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> protocols.Model:
        """The model whose `state` was saved, with no optimisation.

        Raises:
            ReleaseError: The state is not that of a model of these measurements.
        """
        own = unpack_inner(state)
        grouping = groups_from_state(domain, state) if own else None
        if grouping is None:
            return self._inner.restore(domain, measurements, state)
        summed = self._sum_to_groups(grouping, domain, measurements)
        return CompressedModel(self._inner.restore(grouping.inner, summed, own), grouping)

    def _sum_to_groups(
        self, grouping: CodeGrouping, domain: Domain, measurements: Sequence[NoisyMarginal]
    ) -> list[NoisyMarginal]:
        tables = [grouping.summed(table) for table in pool(domain, measurements)]
        return [NoisyMarginal(table.clique, table.values, table.sigma) for table in tables]
