"""PublicNetwork: GEM's network, trained on tables of public columns before it sees a measurement.

Maddock, Gade, Cormode and Bullock 2025, "Leveraging Vertical Public-Private Split for Improved Synthetic Data
Generation", vGEM-pub (arXiv 2504.10987); on GEM-pub of Liu, Vietri and Wu 2021 (arXiv 2106.07153).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from margrave.errors import InputError, invalid
from margrave.limits import FULL, Effort
from margrave.models._base.pooling import Pooled
from margrave.models._base.public_rows import PublicRows
from margrave.models.networks.network import Network, NetworkModel
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded

if TYPE_CHECKING:
    from margrave.protocols import LearnsFrom, Model

DEGREE = 3
"""Public columns of a table that it is trained on beforehand, as in the paper."""


@dataclass(frozen=True, slots=True)
class PublicNetwork(Network):
    """The network of `Network` (GEM), which has learnt the public columns first (vGEM-pub).

    Before the first fit it is trained for `pretraining` rounds: each adds the table of three public columns
    that it explains worst, by L1 distance, and takes as many steps as any fit does, on the fixed noise
    vectors that it keeps from then on. A rough fit goes on from the weights of the one before, the last one
    from those of the pretraining, so that it follows from what is known alone; the one-way tables of the
    public columns are among its tables.

    Differences from the paper: the loss is that of `Network`, squares over variances, where the paper has the
    mean L1 distance; weights are averaged over the second half of a fit's steps, not over the rounds.

    **Privacy.** Sees released marginals and public rows only: post-processing.

    Args:
        given: The public rows as codes; None for none, which makes it `Network`.
        pretraining: Rounds on public tables, at least 0.

    Raises:
        InputError: An argument is out of range, or there is no such device.
        MissingExtraError: The device needs PyTorch, which is not installed.
    """

    given: Encoded | None = None
    pretraining: int = 10
    name: ClassVar[str] = "public_network"
    options: ClassVar[frozenset[str]] = frozenset({"given"})
    learns_from: ClassVar[frozenset[LearnsFrom]] = frozenset({"marginals", "public marginals"})

    def __post_init__(self) -> None:
        Network.__post_init__(self)
        if self.pretraining < 0:
            raise InputError(invalid("pretraining", "at least 0", "Try 10.", got=self.pretraining))

    def fit_tables(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, warm: Model | None, effort: Effort
    ) -> NetworkModel:
        """The network that explains the measurements, from the weights of `warm` in a rough fit, else from
        those of its pretraining.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or a fit would be too large.
            MissingExtraError: PyTorch is not installed.
        """
        before = warm.weights if effort.rough and isinstance(warm, NetworkModel) else ()
        start = before or self.pretrain(domain, rows, effort).weights
        measured = {table.clique for table in tables}
        ones = self._count_tables(domain, PublicRows.read(domain, self.given), rows, 1)
        known = [table for table in ones if table.clique not in measured]
        return self.fit_from(domain, [*tables, *known], rows, start, effort)

    def pretrain(self, domain: Domain, rows: float, effort: Effort = FULL) -> NetworkModel:
        """The network after its training on public tables; a fresh one without public rows.

        Args:
            domain: Names and sizes of the attributes.
            rows: To stand for.
            effort: After its deadline no other round begins.
        """
        public = PublicRows.read(domain, self.given)
        exact = self._count_tables(domain, public, rows, DEGREE)
        taken: list[Pooled] = []
        model = self.fit_from(domain, [], rows, (), Effort(rough=True, deadline=effort.deadline))
        for _ in range(min(self.pretraining, len(exact))):
            if effort.over:
                break
            expected = model.project_many([table.clique for table in exact])
            errors = [np.abs(t.values - own).sum() for t, own in zip(exact, expected, strict=True)]
            taken.append(exact.pop(int(np.argmax(errors))))
            model = self.fit_from(domain, taken, rows, model.weights, Effort(deadline=effort.deadline))
        return model

    def _count_tables(self, domain: Domain, public: PublicRows, rows: float, degree: int) -> list[Pooled]:
        """Exact tables of all sets of `degree` public columns that are not too large."""
        found: list[Pooled] = []
        for clique in combinations(public.names, min(degree, max(len(public.names), 1))):
            keys, size = public.key_cells(domain, clique)
            if size <= self.max_cells:
                counts = rows * np.bincount(keys, public.weights.astype(np.float64), minlength=size)
                shape = domain.shape(clique)
                exact = np.asarray(counts, dtype=np.float64).reshape(shape)
                found.append(Pooled(clique, exact, np.ones_like(exact)))
        return found
