"""Trials: models fitted to one half of split noise and judged on the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from margrave.limits import Effort
from margrave.models._base.pooling import SHARE, SURE, compare, halves
from margrave.models._mixture.model import MixtureModel
from margrave.models._mixture.stacked import stack
from margrave.models.mixture.policy import Setting
from margrave.schema.domain import Domain

if TYPE_CHECKING:
    from margrave.models._base.pooling import Pooled
    from margrave.models.mixture.fitter import Mixture
    from margrave.protocols import Model

Floats = NDArray[np.float64]
M = TypeVar("M", bound="Model")

STEP, MOST_STEPS = 2.0, 3
"""Penalties are tried at this factor apart, while they get better, this many times up or down at most."""


@dataclass(frozen=True, slots=True)
class Candidate(Generic[M]):
    """A model that was fitted to the one half.

    Args:
        setting: What a mixture was fitted at.
        expected: Its tables of what is judged, in rows.
        model: The model.
    """

    setting: Setting
    expected: Sequence[Floats]
    model: M


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen for a mixture, and what was seen on the way.

    Args:
        setting: What the mixture is to be fitted at.
        dependence: Of each pair of attributes, total variation from independence, [attributes, attributes];
            None where nothing was tried.
        trials: What candidates were fitted to and judged by; None likewise.
        pilot: The candidate that was chosen; None likewise.
    """

    setting: Setting
    dependence: Floats | None = None
    trials: Trials | None = None
    pilot: Candidate[MixtureModel] | None = None


class Trials:
    """One split of the measurements; see `margrave.models._base.pooling`.

    Args:
        domain: Names and sizes of the attributes.
        tables: What was measured and inferred.
        rows: Rows that it stands for.
        seed: Of the split.
        effort: After its deadline fits take no step.
    """

    def __init__(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, seed: int, effort: Effort
    ) -> None:
        self.domain, self.tables, self.rows, self.effort = domain, tables, rows, effort
        self.half, self._judged = halves(tables, np.random.default_rng(seed))
        self._cliques = [table.clique for table in self._judged]
        self._stacked = stack(domain, self.half, rows)

    def is_late(self) -> bool:
        """Whether nothing more is to be tried."""
        return self.effort.over

    def fit(self, mixture: Mixture, setting: Setting) -> Candidate[MixtureModel]:
        """One start of a mixture on the half that is fitted, without refined attributes."""
        return self.enter(self.fit_model(mixture, setting), setting)

    def fit_model(self, mixture: Mixture, setting: Setting) -> MixtureModel:
        """The model of `fit`."""
        # The objective's squares lose 1 + g^2 of their weight, so the penalty follows.
        half = replace(setting, penalty=(1.0 + SHARE) ** -0.5 * setting.penalty)
        return mixture.descend_once(self.domain, self._stacked, self.rows, half, self.effort)

    def enter(self, model: M, setting: Setting) -> Candidate[M]:
        """A model of any kind that was fitted to `half`."""
        return Candidate(setting, model.project_many(self._cliques), model)

    def prefers(self, rival: Candidate[Any], default: Candidate[Any]) -> bool:
        """Whether a candidate is nearer than another to the half that is judged by, by a standard error."""
        gain, spread = self.compare(rival, default)
        return gain + SURE * spread < 0.0

    def compare(self, rival: Candidate[Any], default: Candidate[Any]) -> tuple[float, float]:
        """The rival's estimated error less the default's, and its standard error; see `splitting.compare`."""
        return compare(rival.expected, default.expected, self._judged, self.rows)


def choose_setting(
    trials: Trials,
    pilot: Mixture,
    plain: Candidate[MixtureModel],
    nested: Setting | None,
    penalties: bool,
) -> Candidate[MixtureModel]:
    """The best of a mixture without latent blocks and with them, at the best penalty.

    Args:
        trials: What they are fitted to and judged by.
        pilot: How they are fitted.
        plain: The one without latent blocks.
        nested: The setting with latent blocks, if there are any; it is the default.
        penalties: Whether other penalties are tried.
    """
    best, other = plain, None
    if nested is not None and not trials.is_late():
        rival = trials.fit(pilot, nested)
        best, other = (plain, nested) if trials.prefers(plain, rival) else (rival, plain.setting)
    if not penalties:
        return best
    before = best.setting.penalty
    best = search_penalties(trials, pilot, best)
    factor = best.setting.penalty / before
    if other is not None and factor != 1.0 and not trials.is_late():
        rival = trials.fit(pilot, replace(other, penalty=factor * other.penalty))
        best = rival if trials.prefers(rival, best) else best
    return best


def search_penalties(
    trials: Trials, pilot: Mixture, best: Candidate[MixtureModel]
) -> Candidate[MixtureModel]:
    """The penalty is halved while that gets better; if half of it is no better, it is doubled likewise."""
    first = best
    for factor in (1.0 / STEP, STEP):
        for _ in range(MOST_STEPS):
            if trials.is_late():
                return best
            rival = trials.fit(pilot, replace(best.setting, penalty=factor * best.setting.penalty))
            if not trials.prefers(rival, best):
                break
            best = rival
        if best is not first:
            break
    return best
