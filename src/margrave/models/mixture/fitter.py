"""Mixture: fits a mixture of product distributions to noisy one-way and pair marginals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, check_counts, invalid
from margrave.limits import FULL, Effort, one_blas_thread
from margrave.models._base.constraints import resolve_dependencies, zero_forbidden
from margrave.models._base.estimator import Estimator
from margrave.models._base.memory import A_CODE, A_SQUARE, PROGRAM
from margrave.models._base.memory import MIN_MEMORY as LEAST_MEMORY
from margrave.models._base.pooling import Pooled, mu, pool, rows_of, smooth_one_ways
from margrave.models._grouping import group_codes, groups_from_state
from margrave.models._mixture.latent_blocks import Groups, dependences, group_attributes
from margrave.models._mixture.model import GroupedMixture, MixtureModel, mixture_from_state, undo_grouping
from margrave.models._mixture.refinements import add_refinements, choose_refinements, reference_rows
from margrave.models._mixture.stacked import Stacked, stack
from margrave.models._torch.device import open_device
from margrave.models._wide_pairs import choose_wide_pairs, leave_out_pairs, restore_wide_pairs
from margrave.models.mixture.descent import Run, descend, make_model, prefer_product, resume, start
from margrave.models.mixture.objective import LatentBlockPart, Objective
from margrave.models.mixture.policy import (
    JUDGED_ATTRIBUTES,
    JUDGED_COMPONENTS,
    MAX_FINE_COMPONENTS,
    PILOT_COMPONENTS,
    PILOT_STEPS,
    ROUGH_STEPS,
    SAVED_STEPS,
    STATE_PENALTY,
    STEPS,
    Candidate,
    Choice,
    Setting,
    Trials,
    choose_setting,
    is_clear,
    set_policy,
)
from margrave.models.mixture.score_moments import find_score_moments
from margrave.models.mixture.tensor import (
    A_TENSOR_CODE,
    A_TENSOR_SQUARE,
    TensorObjective,
    descend_tensors,
)
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave.protocols import Model
    from margrave.release import NoisyMarginal

Floats = NDArray[np.float64]

MAX_JUDGED_CODES = 4096
"""Codes above which the rule is taken as it is: the halves of so many cells would not fit into memory."""


@dataclass(frozen=True, slots=True)
class Mixture(Estimator["MixtureModel | GroupedMixture"]):
    """Fits p(x) = sum_k w_k prod_i Q_ki(x_i) to all measured pairs at once.

    Minimises the squared residuals over their variances, plus `information` for each nat of dependence
    between component and attributes, plus `smoothness` for unlike neighbours among ordered codes (see
    `objective`). There is no junction tree: cost is codes^2 * components a step, memory 84 codes^2 bytes.

    The rule for the penalty per nat is information = 10 sqrt(x) min(x / 2000, 1)^(1/4), with x rows times mu
    and mu^2 the precision of all measurements together, sum over tables of 1 / sigma^2; with latent blocks
    0.65 of that. From there split noise (`margrave.models._base.pooling`), which costs no privacy, chooses
    the penalty and whether to use latent blocks; see `choose`.

    Args:
        components: Products, K; None for 250 to 1,200, fewer for more codes, and up to 2000 where noise hides
            little (`margrave.models.mixture.policy`).
        steps: Optimiser steps; None for 250, or 400 where noise hides little.
        information: Penalty per nat; None for the rule and its choice by split noise.
        smoothness: Penalty of unlike neighbours, over that of a nat.
        refinements: Codes that all refined attributes may have together, 0 for none. Refined
            attributes are the attributes of fewest codes: each is drawn given all others from an additive
            model fitted to its pairs (`margrave.models._mixture.additive`) instead of from the mixture. Where
            noise is large, only if split noise finds that better.
        target: An attribute that rows are meant to predict: a refined attribute as well, the last one.
        rate: First step length of the optimiser.
        seed: Of the starting point, the split noise and the refined attributes' reference rows.
        largest: Attributes with more codes are modelled in this many groups of codes
            (`margrave.models._grouping`).
        latent_blocks: Give attributes that depend strongly on each other states of their own
            (`margrave.models.mixture.objective`): always, never, or as split noise says (None). Never on
            a device.
        dependent_noise: Whether the noise of different tables is dependent, as it is where all come from the
            same noisy rows. What several tables share looks like dependence to split noise, which prefers
            latent blocks then where they are worse: there are none unless they are asked for. Pairs of six
            tables of the choosing half, copied at mu 4, agree by .954 without and by .944 with them.
        max_codes: Most codes all attributes may have together, groups counted as codes.
        max_memory: Bytes that the program may take with the model and what works on it, the loaded table
            aside; lowers max_codes to what fits.
        device: Where the descent runs: "cpu" (None) for the compiled kernels; "cuda", "cuda:1" or "mps", with
            PyTorch, where a CUDA device's memory limits max_codes too; "torch-cpu" for the same code on the
            processor. Single precision everywhere. The additive models of refined attributes, rows and
            marginals stay on the processor.

    Raises:
        InputError: An argument is out of range, or there is no such device.
        MissingExtraError: The device needs PyTorch, which is not installed.

    Example:
        >>> import numpy as np
        >>> from margrave.release import NoisyMarginal
        >>> from margrave.schema.domain import Domain
        >>> domain = Domain(("a", "b"), (2, 2))
        >>> table = NoisyMarginal(("a", "b"), np.array([[500.0, 100.0], [100.0, 300.0]]), 1.0)
        >>> model = Mixture(components=10).fit(domain, [table])
        >>> bool(np.abs(model.project(("a", "b")) - table.values).max() < 20)
        True
    """

    components: int | None = None
    steps: int | None = None
    information: float | None = None
    smoothness: float = 1 / 3
    refinements: int = 8
    target: str | None = None
    rate: float = 0.1
    seed: int = 0
    largest: int = 512
    latent_blocks: bool | None = None
    dependent_noise: bool = False
    max_codes: int = 8192
    max_memory: int | None = None
    device: str | None = None
    name: ClassVar[str] = "mixture"
    fit_seconds: ClassVar[float] = 4e-3
    options: ClassVar[frozenset[str]] = frozenset({"target", "max_memory", "dependent_noise"})

    def __post_init__(self) -> None:
        check_counts(
            components=self.components,
            steps=self.steps,
            max_codes=self.max_codes,
            largest=self.largest,
        )
        for param, value in (
            ("information", self.information),
            ("rate", self.rate),
        ):
            if value is not None and not (np.isfinite(value) and value > 0):
                raise InputError(invalid(param, "a finite number above 0", "Try the default.", got=value))
        if self.max_memory is not None and self.max_memory < LEAST_MEMORY:
            least = f"at least {LEAST_MEMORY // 10**6} MB"
            raise InputError(invalid("max_memory", least, "Give more.", got=self.max_memory))
        if not (np.isfinite(self.smoothness) and self.smoothness >= 0):
            raise InputError(invalid("smoothness", "at least 0", "Try 0.33.", got=self.smoothness))
        open_device(self.device)

    @property
    def most_codes(self) -> int:
        """Codes that all attributes may have together under both limits."""
        components, device, most = (
            self.components or MAX_FINE_COMPONENTS,
            open_device(self.device),
            self.max_codes,
        )
        if self.max_memory is not None:
            room = max(self.max_memory - PROGRAM, 0)
            most = min(most, _within(room, A_SQUARE, A_CODE * components))
        if device is not None and device.memory is not None:
            most = min(most, _within(device.memory, A_TENSOR_SQUARE, A_TENSOR_CODE * components))
        return most

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float | None = None,
        warm: Model | None = None,
        effort: Effort = FULL,
    ) -> MixtureModel | GroupedMixture:
        """The mixture that explains the measurements; see the class. `warm` is not used.

        A rough fit is one small mixture at the rule's penalty, without refined attributes. After the effort's
        deadline no step is taken, and where too few were, the product of the measured one-ways is taken
        instead; `converged` tells what came of it.

        Cliques of three or more attributes count through their pairs.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or there are too many codes.
            SchemaError: The domain has no attribute `target`.
        """
        return self.fit_at(None, domain, measurements, total, effort)

    def fit_at(
        self,
        choice: Choice | None,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        total: float | None,
        effort: Effort,
        tables: Sequence[Pooled] | None = None,
    ) -> MixtureModel | GroupedMixture:
        """As `fit`, at what was chosen before, or None to choose first.

        `tables` are the measurements as `pool` gives them with what is inferred; None to pool them here.
        """
        rows = rows_of(measurements, total)
        self.admit(domain, [])
        tables = pool(domain, measurements, inferred=True) if tables is None else tables
        domain = resolve_dependencies(domain, tables)
        # Dependencies are read off the counts code by code, so before codes are put into groups.
        grouping = group_codes(domain, tables, self.largest)
        if grouping is None:
            return self._best(domain, tables, rows, choice, effort)
        pairs = [] if effort.rough else choose_wide_pairs(grouping, tables)
        inner = leave_out_pairs(grouping, tables, pairs)
        model = self._best(grouping.inner, inner, rows, choice, effort)
        return undo_grouping(model, grouping, self.target is not None, tables, pairs)

    @one_blas_thread()
    def _best(
        self,
        domain: Domain,
        tables: Sequence[Pooled],
        rows: float,
        choice: Choice | None,
        effort: Effort,
    ) -> MixtureModel:
        # To weigh forbidden cells more takes components away from what is left to learn.
        tables = zero_forbidden(domain, tables, 1.0)
        if effort.rough:
            # A rough fit only has to rank, so the rule's penalty is taken without trials.
            choice = Choice(self._find_setting(domain, tables, rows))
            return self._pilot(ROUGH_STEPS)._fit(domain, tables, rows, choice, effort)
        if choice is None:
            choice = self.choose(domain, tables, rows, effort)
        return self._fit(domain, tables, rows, choice, effort)

    def _fit(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, choice: Choice, effort: Effort
    ) -> MixtureModel:
        setting, judged = choice.setting, choice.pilot.model if choice.pilot else None
        stacked = stack(domain, smooth_one_ways(domain, tables, rows), rows)
        components, steps = self.components or setting.components, self.steps or setting.steps
        if judged is not None and judged.weights.size == components > PILOT_COMPONENTS:
            # A larger mixture took most steps and has seen nearly all of the signal: the last ones are left.
            last = replace(self, steps=min(steps, setting.steps - SAVED_STEPS))
            model = last.descend_once(domain, stacked, rows, setting, effort, judged)
        else:
            model = self.descend_once(domain, stacked, rows, setting, effort)
        # Past the deadline only refined attributes that somebody asked for are worth their time.
        codes = 0 if effort.over else self.refinements
        if len(domain) < 2 or (self.target is None and not codes):
            return model
        names = choose_refinements(model, tables, codes if setting.refinements else 0, self.target)
        return add_refinements(model, names, [table for table in tables if not table.inferred], self.seed)

    def restore_model(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> MixtureModel | GroupedMixture:
        """The model whose `state` was saved, with no optimisation.

        Raises:
            ReleaseError: The state is not that of a mixture over this domain.
        """
        grouping = groups_from_state(domain, state)
        if grouping is None:
            return mixture_from_state(domain, state)
        inner, tables = mixture_from_state(grouping.inner, state), pool(domain, measurements)
        return GroupedMixture(inner, grouping, restore_wide_pairs(inner, grouping, tables, state))

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Check that the stacked table fits, before anything is measured.

        Raises:
            InputError: The attributes have more than max_codes codes together.
            SchemaError: The domain has no attribute `target`.
        """
        codes = sum(min(size, self.largest) for size in domain.sizes)
        if codes > self.most_codes:
            remedy = "Merge rare categories, use fewer bins, or raise max_codes or max_memory."
            raise InputError(invalid("codes", f"at most {self.most_codes}", remedy, got=codes))
        if self.target is not None:
            domain.index(self.target)

    def count_codes(self, sizes: Sequence[int]) -> tuple[float, float]:
        """Codes that are modelled, large attributes in groups, and how many it takes at most."""
        return float(sum(min(size, self.largest) for size in sizes)), float(self.most_codes)

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """Cells of the stacked table, whatever is measured, shape [candidates]."""
        # Pairs are modelled as one table of all codes, so that a candidate adds nothing to it.
        return np.full(len(candidates), float(sum(domain.sizes)) ** 2)

    def _find_setting(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, groups: Groups = ()
    ) -> Setting:
        """The policy's setting, at the penalty that was given, if one was."""
        found = set_policy(sum(domain.sizes), rows * mu(tables), groups, rows)
        return replace(found, penalty=self.information or found.penalty)

    def _pilot(self, steps: int) -> Mixture:
        """The settings of fits that only help to choose."""
        few = min(self.components or PILOT_COMPONENTS, PILOT_COMPONENTS)
        steps = min(self.steps or steps, steps)
        return replace(self, components=few, steps=steps, refinements=0, target=None)

    def descend_once(
        self,
        domain: Domain,
        stacked: Stacked,
        rows: float,
        setting: Setting,
        effort: Effort,
        warm: MixtureModel | None = None,
    ) -> MixtureModel:
        """The mixture that one descent ends at, without refined attributes.

        It starts around the one-ways, or where a mixture of as many components and the same latent blocks
        has ended.
        """
        components, steps = self.components or setting.components, self.steps or setting.steps
        rng = np.random.default_rng(self.seed)
        at = start(stacked, components, rng) if warm is None else resume(stacked, warm)
        penalty, smoothness, device = (
            setting.penalty,
            self.smoothness * setting.penalty,
            open_device(self.device),
        )
        moments = find_score_moments(stacked)
        if device is not None:
            on = TensorObjective(stacked, penalty, smoothness, device, moments)
            run = Run(at, descend_tensors(on, at, steps, self.rate, lambda: effort.over))
        else:
            latent_blocks = [
                LatentBlockPart(
                    stacked, group, at.logs, components, penalty, smoothness, rng, STATE_PENALTY, moments
                )
                for group in setting.groups
            ]
            if warm is not None:
                for part, block in zip(latent_blocks, warm.latent_blocks, strict=True):
                    part.move_to(block)
            objective = Objective(stacked, components, penalty, smoothness, latent_blocks, moments)
            descent = descend(objective, at, steps, self.rate, lambda: effort.over)
            run = Run(at, descent, latent_blocks)
        # A descent that the deadline cut short may still be worse than no dependence at all.
        if run.descent.steps < steps:
            run = prefer_product(stacked, run, penalty, smoothness, moments)
        return make_model(domain, rows, stacked, run, penalty)

    def choose(self, domain: Domain, tables: Sequence[Pooled], rows: float, effort: Effort = FULL) -> Choice:
        """The penalty per nat and the latent blocks that small mixtures say on split noise, and what they
        saw.

        The rule's penalty is fitted with latent blocks and without, and the better of the two is taken; where
        noise hides little, latent blocks are. From there the penalty is lowered or raised while that gets
        better. All of them have few components, and are judged by `margrave.models._base.pooling.compare`.
        Of up to JUDGED_ATTRIBUTES attributes a smaller penalty than the rule's is judged again with more
        components.
        """
        usual = self._find_setting(domain, tables, rows)
        if (
            sum(domain.sizes) > MAX_JUDGED_CODES
            or effort.over
            or not any(len(table.clique) > 1 for table in tables)
        ):
            return Choice(usual)
        trials = Trials(domain, tables, rows, self.seed, effort)
        pilot = self._pilot(PILOT_STEPS)
        # The usual setting's fit serves twice: as a candidate, and to say which attributes depend on each
        # other.
        model = trials.fit_model(pilot, usual)
        dependence = dependences(domain, model.pairs(model.weights), tables, rows)
        # The target stays out of latent blocks, since it is refined instead.
        groups = group_attributes(domain, dependence, {self.target or ""})
        wanted = not self.dependent_noise if self.latent_blocks is None else self.latent_blocks
        nested = None
        if groups and wanted and self.device is None and not trials.is_late():
            nested = trials.fit(pilot, self._find_setting(domain, tables, rows, groups))
        most = min(self.components or usual.components, JUDGED_COMPONENTS)
        larger = replace(self, components=most, steps=self.steps or STEPS)
        best = choose_setting(
            trials,
            pilot,
            trials.enter(model, usual),
            nested,
            self.information is None,
            larger if len(domain) <= JUDGED_ATTRIBUTES else None,
            untried=bool(self.latent_blocks) or is_clear(rows * mu(tables)),
        )
        return Choice(self._judge_refinements(trials, best), dependence, trials, best)

    def _judge_refinements(self, trials: Trials, best: Candidate[MixtureModel]) -> Setting:
        """The setting, without refined attributes that nobody asked for unless those of a small mixture are
        better.

        Where noise is large, a refined attribute's own pairs may say less about it than the mixture of all
        pairs does. Where noise is less than a share of the refined attributes' reference rows can be off by
        chance, that chance would be judged instead, and there are refined attributes without being asked
        about.
        """
        measured = [table for table in trials.half if not table.inferred]
        # With no codes left to give away, those that the target and triples ask for.
        asked, names = (
            choose_refinements(best.model, trials.half, codes, self.target) for codes in (0, self.refinements)
        )
        if names == asked or trials.is_late():
            return best.setting
        # The judge sees pairs of the refined attributes over finitely many reference rows, off by chance.
        noise = np.mean([float(table.sigma.mean()) for table in measured if len(table.clique) == 2])
        if noise <= 0.5 * trials.rows / math.sqrt(reference_rows(len(trials.domain))):
            return best.setting
        default, rival = (
            trials.enter(add_refinements(best.model, some, measured, self.seed), best.setting)
            for some in (asked, names)
        )
        return replace(best.setting, refinements=trials.prefers(rival, default))


def _within(room: int, square: int, code: int) -> int:
    """The most codes n with square n^2 + code n at most room."""
    # The positive root of the quadratic.
    return int((math.sqrt(code**2 + 4.0 * square * room) - code) / (2 * square))
