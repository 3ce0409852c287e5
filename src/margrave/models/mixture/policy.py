"""How large a mixture is and what it pays: by rows, codes and precision, then by trials; see docs/auto.md.

`set_policy` is the setting that a search starts from. `Trials` compare models that were fitted to one half of
split noise by how well they explain the other half.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from margrave.limits import Effort
from margrave.models._base.pooling import SHARE, SURE, compare, halves, smooth_one_ways
from margrave.models._mixture.model import MixtureModel
from margrave.models._mixture.stacked import stack
from margrave.schema.domain import Domain

if TYPE_CHECKING:
    from margrave.models._base.pooling import Pooled
    from margrave.models.mixture.fitter import Mixture
    from margrave.protocols import Model

Floats = NDArray[np.float64]
M = TypeVar("M", bound="Model")

SPARSE_SIGNAL = 2000.0
"""Rows times mu below which the penalty falls off faster: where noise hides nearly all, a dear nat hides
more. Over four tables of 2,000 to 3,000 rows the best penalty is a half of the root's at 120 and 0.7 of it at
600."""
PILOT_COMPONENTS, PILOT_STEPS, ROUGH_STEPS = 80, 200, 100
"""Components and steps of the fits that only choose, and steps of a rough fit. With 120 and 250 what is
chosen is as good, in twice the time; with 120 and 150 it is 1.5 % worse: the last steps follow the noise."""
CHANGE_STEPS = 50
"""Steps of a pilot at another penalty, from where the first one ended. Of 28 releases of the choosing half 18
have the same setting as with fits from the start, and in all pairs are 0.4 % better and triples 0.9 % worse,
which hangs on two of them (bench/LOG.md)."""
STEPS, CLEAR_STEPS, SAVED_STEPS = 250, 400, 100
"""Steps of the last fit; the same from CLEAR_SIGNAL of rows times mu on; and those that it saves where it
starts from a judged mixture of as many components, which has seen nine tenths of the signal. With 250
throughout, pairs of 41 tables at epsilon 5 are .8 % further, of one 12 % (docs/auto-ablation.md); with 600 no
nearer (bench/LOG.md)."""
MIN_COMPONENTS, WIDE_CODES = 250, 1500
"""Components at least; with more codes than WIDE_CODES fewer in proportion: noise on so many pairs hides
more."""
MAX_COMPONENTS, CLEAR_COMPONENTS, CLEAR_SIGNAL, COMPONENT_WORK = 800, 1200, 2e4, 2.1e7
"""More components where they cost little: COMPONENT_WORK / codes^2, at most MAX_COMPONENTS, or
CLEAR_COMPONENTS from CLEAR_SIGNAL of rows times mu on. One start of so many is as good as the mean of two
starts of half as many. Above CLEAR_SIGNAL 1,200 in place of 800 have 1 to 16 % less error in pairs on
structural-a, flags-a and parities-a; below it structural-a has the same, and flags-a wants fewer
(bench/LOG.md)."""
FINE_SIGNAL, MAX_FINE_COMPONENTS, FINE_WORK = 200.0, 2000, 9e8
"""A component for each FINE_SIGNAL of rows times mu, at most MAX_FINE_COMPONENTS or FINE_WORK / codes^2:
where noise hides little, tables of many codes want for components, not for data."""
ROWS_A_COMPONENT, MIN_OF_FEW_ROWS = 20.0, 20
"""Rows that a component stands for at least, but for so many components. Codes are swapped between rows of
one component until pairs are near to the model's, which rows of components of their own leave no room for. Of
944 and 2,000 rows of the choosing half drawn pairs are 6 % nearer, and 18 % at best; tables of the model the
same within .1 % (bench/LOG.md)."""
JUDGED_ATTRIBUTES, JUDGED_COMPONENTS = 32, 400
"""Attributes up to which more components have the last word on a smaller penalty than the rule's, and how
many these are: of 12 cells of the choosing half pairs are 0.5 to 6 % nearer in five, 2 % further in two, and
repeats spread less. Of three tables of more attributes one would gain 3 %, two nothing (bench/LOG.md)."""
BLOCK_PENALTY_SHARE, STATE_PENALTY = 0.65, 2.25
"""With latent blocks: what is paid for states, over the penalty without, as dependence is what they are for;
and what for shares of states over that."""


STEP, MOST_STEPS = math.sqrt(2.0), 6
"""Penalties are tried at this factor apart, while they get better, this many times up or down at most. With
factors of 2, three times, pairs of 123 releases of 41 tables are .3 % further, in 4 % less time
(bench/LOG.md)."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a mixture is fitted at.

    Args:
        penalty: Of a nat of dependence.
        groups: Positions of the attributes of each latent block.
        components: Products.
        refinements: Whether attributes that nobody asked for are refined attributes
            (`margrave.models._mixture.refinements`).
        steps: Of the optimiser, in the last fit.
    """

    penalty: float
    groups: tuple[tuple[int, ...], ...] = ()
    components: int = MIN_COMPONENTS
    refinements: bool = True
    steps: int = STEPS


def is_clear(signal: float) -> bool:
    """Whether noise hides so little, at so many rows times mu, that latent blocks need no trial.

    Of 123 releases of 41 tables and 66 of the choosing half pairs and triples with latent blocks are those
    of what trials choose within .2 %, at epsilon 5 within .1 %; but at 0.2 in one 23 % further. Where noise
    is small trials prefer a gain of 2 % in pairs to one of 20 % in triples, which they do not see
    (bench/LOG.md).
    """
    return signal >= CLEAR_SIGNAL


def set_policy(
    codes: int, signal: float, groups: tuple[tuple[int, ...], ...] = (), rows: float = math.inf
) -> Setting:
    """The setting that a mixture starts its search from.

    The penalty is 10 sqrt(x) min(x / SPARSE_SIGNAL, 1)^(1/4), with latent blocks BLOCK_PENALTY_SHARE times
    that.

    Args:
        codes: Of all attributes together.
        signal: x, rows times mu, mu^2 the precision of all measurements together.
        groups: Positions of the attributes of each latent block.
        rows: That the mixture stands for; few limit its components.
    """
    penalty = 10.0 * math.sqrt(signal) * min(signal / SPARSE_SIGNAL, 1.0) ** 0.25
    square = max(codes, 1) ** 2
    most = CLEAR_COMPONENTS if is_clear(signal) else MAX_COMPONENTS
    # The three cases of the constants above: many codes, few codes, and little noise.
    components = max(
        MIN_COMPONENTS * min(WIDE_CODES / max(codes, 1), 1.0),
        min(COMPONENT_WORK / square, most),
        min(signal / FINE_SIGNAL, MAX_FINE_COMPONENTS, FINE_WORK / square),
    )
    components = min(components, max(rows / ROWS_A_COMPONENT, MIN_OF_FEW_ROWS))
    penalty *= BLOCK_PENALTY_SHARE if groups else 1.0
    return Setting(penalty, groups, round(components), steps=CLEAR_STEPS if is_clear(signal) else STEPS)


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
        # The split has a seed of its own, so that all candidates are judged on the same noise.
        self.half, self._judged = halves(tables, np.random.default_rng(seed))
        self._cliques = [table.clique for table in self._judged]
        self._stacked = stack(domain, smooth_one_ways(domain, self.half, rows), rows)

    def is_late(self) -> bool:
        """Whether nothing more is to be tried."""
        return self.effort.over

    def fit(
        self, mixture: Mixture, setting: Setting, warm: MixtureModel | None = None
    ) -> Candidate[MixtureModel]:
        """One mixture on the half that is fitted, without refined attributes."""
        return self.enter(self.fit_model(mixture, setting, warm), setting)

    def fit_model(self, mixture: Mixture, setting: Setting, warm: MixtureModel | None = None) -> MixtureModel:
        """The model of `fit`."""
        # The objective's squares lose 1 + g^2 of their weight, so the penalty follows.
        half = replace(setting, penalty=(1.0 + SHARE) ** -0.5 * setting.penalty)
        return mixture.descend_once(self.domain, self._stacked, self.rows, half, self.effort, warm)

    def change_penalty(
        self, pilot: Mixture, candidate: Candidate[MixtureModel], factor: float
    ) -> Candidate[MixtureModel]:
        """A pilot at another penalty, which starts where a candidate ended."""
        setting = replace(candidate.setting, penalty=factor * candidate.setting.penalty)
        return self.fit(
            replace(pilot, steps=min(pilot.steps or CHANGE_STEPS, CHANGE_STEPS)), setting, candidate.model
        )

    def enter(self, model: M, setting: Setting) -> Candidate[M]:
        """A model of any kind that was fitted to `half`."""
        return Candidate(setting, model.project_many(self._cliques), model)

    def prefers(self, rival: Candidate[Any], default: Candidate[Any]) -> bool:
        """Whether a candidate is nearer than another to the half that is judged by, by a standard error."""
        gain, spread = self.compare(rival, default)
        return gain + SURE * spread < 0.0

    def compare(self, rival: Candidate[Any], default: Candidate[Any]) -> tuple[float, float]:
        """The rival's estimated error less the default's, and its standard error; see
        `margrave.models._base.pooling.compare`."""
        return compare(rival.expected, default.expected, self._judged, self.rows)


def choose_setting(
    trials: Trials,
    pilot: Mixture,
    plain: Candidate[MixtureModel],
    nested: Candidate[MixtureModel] | None,
    penalties: bool,
    larger: Mixture | None,
    untried: bool = False,
) -> Candidate[MixtureModel]:
    """The better of a mixture without latent blocks and with them, at the penalty that is best for it.

    Args:
        trials: What they are fitted to and judged by.
        pilot: How they are fitted.
        plain: The one without latent blocks, at the rule's penalty.
        nested: The one with latent blocks, if there are any; it is the default.
        penalties: Whether other penalties are tried.
        larger: How a smaller penalty than the rule's is fitted to be judged once more; None to believe
            the pilots.
        untried: Whether there are latent blocks wherever there may be, without a trial.
    """
    first = plain
    if nested is not None and (untried or not trials.prefers(plain, nested)):
        first = nested
    best = search_penalties(trials, pilot, first) if penalties else first
    return confirm_penalty(trials, larger, best, first.setting.penalty)


def confirm_penalty(
    trials: Trials, larger: Mixture | None, best: Candidate[MixtureModel], usual: float
) -> Candidate[MixtureModel]:
    """A smaller penalty than the usual one that pilots chose, or what larger mixtures find as good.

    Few components hold less of the dependence and flatter a smaller penalty for it. From the penalty that was
    chosen, one factor of STEP after the other is taken back while what is left is not better by a standard
    error. The first fit takes all steps; penalties take CHANGE_STEPS from there, as in `search_penalties`. A
    larger penalty than the usual one is believed.

    Args:
        trials: What they are fitted to and judged by.
        larger: How they are fitted; None to believe the pilots.
        best: What pilots chose.
        usual: The penalty of the rule.
    """
    penalty = best.setting.penalty
    if larger is None or penalty >= usual or trials.is_late():
        return best
    first = trials.fit(larger, best.setting)
    best = trials.change_penalty(larger, first, 1.0)
    # A search divides the usual penalty by STEP, so that this ends at it, but for what rounding leaves.
    while penalty < 0.99 * usual and not trials.is_late():
        penalty *= STEP
        nearer = trials.change_penalty(larger, first, penalty / first.setting.penalty)
        if trials.prefers(best, nearer):
            break
        best = nearer
    return best


def search_penalties(
    trials: Trials, pilot: Mixture, first: Candidate[MixtureModel]
) -> Candidate[MixtureModel]:
    """The penalty is divided by STEP while that gets better; if that is never so, it is raised likewise.

    All penalties, the first one's too, take CHANGE_STEPS from where the first one ended, so that none is
    preferred for steps that another had not.
    """
    if trials.is_late():
        return first
    usual = best = trials.change_penalty(pilot, first, 1.0)
    # The first direction that helps is followed; the other one is tried only if it does not.
    for factor in (1.0 / STEP, STEP):
        for power in range(1, MOST_STEPS + 1):
            if trials.is_late():
                return best
            rival = trials.change_penalty(pilot, first, factor**power)
            if not trials.prefers(rival, best):
                break
            best = rival
        if best is not usual:
            break
    return best
