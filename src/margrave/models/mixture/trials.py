"""Trials: mixtures fitted to one half of split noise and judged on the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from margrave.limits import Effort
from margrave.models.mixture.model import MixtureModel
from margrave.models.mixture.runs import Seen, mixed
from margrave.models.mixture.stacked import stack
from margrave.models.splitting import SHARE, SURE, halves, pick
from margrave.schema.domain import Domain

if TYPE_CHECKING:
    from margrave.models.mixture.fitter import Mixture
    from margrave.models.pooled import Pooled

__all__ = ["Trials"]


class Trials:
    """One split of the measurements; see `margrave.models.splitting`.

    Args:
        domain: Names and sizes of the attributes.
        tables: What was measured.
        rows: Rows that it stands for.
        seed: Of the split and of the fits.
        effort: After its deadline fits take no step.
    """

    def __init__(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, seed: int, effort: Effort
    ) -> None:
        fitted, self._judged = halves(tables, np.random.default_rng(seed))
        self._domain, self._rows, self._seed, self._effort = domain, rows, seed, effort
        self._stacked = stack(domain, fitted, rows)

    def fitted(self, who: Mixture, seen: Seen) -> MixtureModel:
        """One start of a mixture on the half that is fitted, without labels."""
        # The objective's squares lose 1 + g^2 of their weight, so the price follows.
        half = replace(seen, price=(1.0 + SHARE) ** -0.5 * seen.price)
        run = who.descended(self._stacked, half, self._seed, self._effort)
        return mixed(self._domain, self._rows, self._stacked, [run], half)

    def best(self, models: Sequence[MixtureModel], default: int = 0, sure: float = SURE) -> int:
        """Which of them is nearest to the half that is judged by; the default unless beyond doubt."""
        if len(models) == 1:
            return 0
        cliques = [table.clique for table in self._judged]
        expected = [model.project_many(cliques) for model in models]
        return pick(expected, self._judged, self._rows, default, sure)
