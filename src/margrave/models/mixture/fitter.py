"""Mixture: fits a mixture of product distributions to noisy one-way and pair marginals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import FULL, Effort
from margrave.models.coarse import coarsen, recalled
from margrave.models.device import opened
from margrave.models.memory import A_CODE, A_SQUARE, PROGRAM
from margrave.models.memory import LEAST as LEAST_MEMORY
from margrave.models.mixture.grouped import GroupedMixture, ungrouped
from margrave.models.mixture.labels import chosen, labelled
from margrave.models.mixture.model import MixtureModel, restored
from margrave.models.mixture.nest_objective import NestPart
from margrave.models.mixture.nesting import WAYS, dependences, nestings
from margrave.models.mixture.objective import Objective
from margrave.models.mixture.optimise import descend
from margrave.models.mixture.runs import CLEAR, Run, Seen, mixed, start
from margrave.models.mixture.stacked import Stacked, stack
from margrave.models.mixture.tensor import A_TENSOR_CODE, A_TENSOR_SQUARE, TensorObjective, descend_tensors
from margrave.models.mixture.trials import Trials
from margrave.models.pooled import Pooled, mu, pool, rows_of
from margrave.models.ruled import settled, sharpened
from margrave.models.wide_pairs import restore_wide_pairs
from margrave.schema.domain import Clique, Domain
from margrave.threads import one_blas_thread

if TYPE_CHECKING:
    from margrave.protocols import Model
    from margrave.release import NoisyMarginal

__all__ = ["DOUBT", "Mixture"]

Floats = NDArray[np.float64]

FACTORS = (0.5, 1.0, 2.0)
"""Prices tried, over the rule's; none above DEAREST, and nothing else where the rule asks for that: half of
it is within two hundredths of the error there."""
DEAREST = 1500.0
"""Highest price by the rule: where noise is small the error hardly depends on it."""
SPARSE = 2000.0
"""Rows times mu below which the rule falls off faster: where noise hides nearly all, a dear nat hides more.
Over four tables of 2,000 to 3,000 rows the best price is a half of the root's at 120 and 0.7 of it at 600."""
SCOUT_COMPONENTS, SCOUT_STEPS, ROUGH_STEPS = 120, 150, 100
"""Size and length of the fits that only choose a price, and of those that only tell what depends on what."""
LEAST, MOST, WORK = 250, 600, 2.1e7
"""Components by default: WORK / codes^2, which keeps the work about the same, between LEAST and MOST."""
FINE, FINEST, FINE_WORK = 6e4, 4.0, 4.5e8
"""LEAST grows with rows times mu over FINE, to FINEST times itself or FINE_WORK / codes^2: where noise hides
little, tables of many codes want for components, not for data."""
WIDE, FEWEST = 1500, 60
"""With more codes than WIDE, LEAST falls in proportion, to FEWEST, and the rule's price is taken as it is:
the noise on so many pairs hides finer structure."""
CERTAINTY = 1.0
"""By how much the sigma of cells that rules forbid is divided. Their values are 0 without noise, but to weigh
them more takes components away from what is left to learn: bench/LOG.md."""
DIM, AGAIN, WIDELY, BROAD = 1e4, 3e4, 1e5, 32
"""Rows times mu below which noise hides so much that a second start does not pay where there are nests, nor a
choice between ways to nest; from which a second start pays at any price, and the same on a table of more than
BROAD attributes, where it takes seconds."""
NEARLY = 4e4
"""Rows times mu from which on mixtures of all components judge whether to nest; WIDELY on a broad table."""
EASED, OUTER, OUTERMOST = 0.65, 2.25, 4.0
"""With nests: what is paid for atoms, over the price without, as dependence is what they are for; and what
for shares of atoms over that, the second where split noise says so, asked where a second way to nest is."""
DOUBT = 3.0
"""Standard errors by which a plain mixture must beat one with nests, or any mixture a graphical model."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """Fits p(x) = sum_k w_k prod_i Q_ki(x_i) to all measured pairs at once.

    Minimises the squared residuals over their variances, plus `information` for each nat of dependence
    between component and attributes, plus `smoothness` for unlike neighbours among ordered codes (see
    `objective`). There is no junction tree: cost is codes^2 * components a step, memory 12 codes^2 bytes.

    The rule for the price of a nat is information = 10 sqrt(x) min(x / 2000, 1)^(1/4), at most 1500, with x
    rows times mu and mu^2 the precision of all measurements together, sum over tables of 1 / sigma^2; half
    and twice of it are tried on split noise (`margrave.models.splitting`), which costs no privacy, and taken
    where they are clearly better. With nests it is 0.65 of that.

    Args:
        components: Products in each mixture, K; None for 250 to 600, fewer for more codes, and up to 1000
            where noise hides little.
        restarts: Mixtures fitted from different starts; the model is their average, itself a mixture. None
            for two, but one where there are nests and noise hides what is left to learn.
        steps: Optimiser steps of each.
        information: Price of a nat; None for the rule and its choice by split noise.
        smoothness: Price of unlike neighbours, over that of a nat.
        labels: Codes that all labels may have together, 0 for none. Labels are the attributes of fewest
            codes: each is drawn given all others from an additive model fitted to its pairs
            (`margrave.models.additive`) instead of from the mixture.
        target: An attribute that rows are meant to predict: a label as well, the last one.
        rate: First step length of the optimiser.
        seed: Of the starting points, the split noise and the labels' reference rows.
        largest: Attributes with more codes are modelled in this many groups of codes
            (`margrave.models.coarse`).
        nests: Give attributes that depend strongly on each other atoms of their own
            (`margrave.models.mixture.nest_objective`): always, never, or as split noise says (None). Never on
            a device.
        outer: What nests pay for components' shares of atoms, over what they pay for atoms; None for 2.25, or
            4 where split noise says so.
        max_codes: Most codes all attributes may have together, groups counted as codes.
        max_memory: Bytes that the program may take with the model and what works on it, the loaded table
            aside; lowers max_codes to what fits.
        device: Where the descent runs: "cpu" (None) for the compiled kernels; "cuda", "cuda:1" or "mps", with
            PyTorch, where a CUDA device's memory limits max_codes too; "torch-cpu" for the same code on the
            processor. Single precision everywhere. The additive models of labels, rows and marginals stay
            on the processor.

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
    restarts: int | None = None
    steps: int = 250
    information: float | None = None
    smoothness: float = 1 / 3
    labels: int = 8
    target: str | None = None
    rate: float = 0.1
    seed: int = 0
    largest: int = 512
    nests: bool | None = None
    outer: float | None = None
    max_codes: int = 8192
    max_memory: int | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        for param in ("components", "restarts", "steps", "max_codes", "largest"):
            value = getattr(self, param)
            if value is not None and value < 1:
                raise InputError(invalid(param, "at least 1", "Try the default.", got=value))
        for param, value in (
            ("information", self.information),
            ("rate", self.rate),
            ("outer", self.outer),
        ):
            if value is not None and not (np.isfinite(value) and value > 0):
                raise InputError(invalid(param, "a finite number above 0", "Try the default.", got=value))
        if self.max_memory is not None and self.max_memory < LEAST_MEMORY:
            least = f"at least {LEAST_MEMORY // 10**6} MB"
            raise InputError(invalid("max_memory", least, "Give more.", got=self.max_memory))
        if not (np.isfinite(self.smoothness) and self.smoothness >= 0):
            raise InputError(invalid("smoothness", "at least 0", "Try 0.33.", got=self.smoothness))
        opened(self.device)

    @property
    def name(self) -> str:
        """The name it is saved and resolved under."""
        return "mixture"

    @property
    def most_codes(self) -> int:
        """Codes that all attributes may have together under both limits."""
        components, device, most = self.components or int(LEAST * FINEST), opened(self.device), self.max_codes
        if self.max_memory is not None:
            room = max(self.max_memory - PROGRAM, 0)
            most = min(most, _within(room, A_SQUARE, A_CODE * components * (self.restarts or 2)))
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

        A rough fit is one small mixture at the rule's price, without labels. After the effort's deadline no
        step is taken and no other start is tried; `converged` tells what came of it.

        Cliques of three or more attributes count through their pairs.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or there are too many codes.
            SchemaError: The domain has no attribute `target`.
        """
        return self.after(None, domain, measurements, total, effort)

    def after(
        self,
        seen: Seen | None,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        total: float | None,
        effort: Effort,
    ) -> MixtureModel | GroupedMixture:
        """As `fit`, with what `look` has found, or None to look first."""
        rows = rows_of(measurements, total)
        self.admit(domain, [])
        tables = pool(domain, measurements, inferred=True)
        domain = settled(domain, tables)
        coarse = coarsen(domain, tables, self.largest)
        if coarse is None:
            return self._best(domain, tables, rows, seen, effort)
        inner = [coarse.summed(table) for table in tables]
        model = self._best(coarse.inner, inner, rows, seen, effort)
        return ungrouped(model, coarse, self.target is not None, () if effort.rough else tables)

    @one_blas_thread()
    def _best(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, seen: Seen | None, effort: Effort
    ) -> MixtureModel:
        tables = sharpened(domain, tables, CERTAINTY)
        if effort.rough:
            price = self.information or _rule(tables, rows)
            scout = replace(self._scout, steps=min(self.steps, ROUGH_STEPS))
            return scout._fit(domain, tables, rows, Seen(price), effort)
        return self._fit(domain, tables, rows, seen or self.look(domain, tables, rows, effort), effort)

    def _fit(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, seen: Seen, effort: Effort
    ) -> MixtureModel:
        stacked = stack(domain, tables, rows)
        runs = [self.descended(stacked, seen, self.seed, effort)]
        # At the dearest price starts end nearly alike, until noise is so small that the last bit counts.
        cheap, again = seen.price < EASED * DEAREST, AGAIN if len(domain) <= BROAD else WIDELY
        pays = not seen.groups or seen.signal >= again or (_between(domain, seen.signal) and cheap)
        for turn in range(1, self.restarts or (2 if pays else 1)):
            if not effort.over:
                runs.append(self.descended(stacked, seen, self.seed + turn, effort))
        model = mixed(domain, rows, stacked, runs, seen)
        codes = 0 if effort.over else self.labels
        if len(domain) < 2 or (self.target is None and not codes):
            return model
        measured = [table for table in tables if not table.inferred]
        return labelled(model, chosen(model, measured, codes, self.target), measured, self.seed)

    def restore(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> MixtureModel | GroupedMixture:
        """The model whose `state` was saved, with no optimisation.

        Raises:
            ReleaseError: The state is not that of a mixture over this domain.
        """
        tables = pool(domain, measurements)
        domain = settled(domain, tables)
        coarse = recalled(domain, state)
        if coarse is None:
            return restored(domain, state)
        inner = restored(coarse.inner, state)
        return GroupedMixture(inner, coarse, restore_wide_pairs(inner, coarse, tables, state))

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

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """Cells of the stacked table, whatever is measured, shape [candidates]."""
        return np.full(len(candidates), float(sum(domain.sizes)) ** 2)

    @property
    def _scout(self) -> Mixture:
        """The settings of fits that only help to choose."""
        few = min(self.components or MOST, SCOUT_COMPONENTS)
        steps = min(self.steps, SCOUT_STEPS)
        return replace(self, components=few, steps=steps, restarts=1, labels=0, target=None)

    def descended(self, stacked: Stacked, seen: Seen, seed: int, effort: Effort) -> Run:
        """One descent from one start."""
        components = self.components or _components(stacked.codes, seen.signal)
        rng = np.random.default_rng(seed)
        at = start(stacked, components, rng)
        price, smoothness, device = seen.price, self.smoothness * seen.price, opened(self.device)
        if device is not None:
            on = TensorObjective(stacked, price, smoothness, device)
            return Run(at, descend_tensors(on, at, self.steps, self.rate, lambda: effort.over), [])
        nests = [
            NestPart(stacked, group, at.logs, components, price, smoothness, rng, seen.outer)
            for group in seen.groups
        ]
        objective = Objective(stacked, components, price, smoothness, nests)
        return Run(at, descend(objective, at, self.steps, self.rate, lambda: effort.over), nests)

    def look(self, domain: Domain, tables: Sequence[Pooled], rows: float, effort: Effort = FULL) -> Seen:
        """What small mixtures say on split noise: the price, the dependences, and whether nests are worth it.

        The rule's price, or half or twice of it where that is better beyond doubt; groups of attributes to
        nest, unless the mixture without nests is better beyond doubt; what they pay.
        """
        usual = self.information or _rule(tables, rows)
        if sum(domain.sizes) > WIDE or not any(len(table.clique) > 1 for table in tables):
            return Seen(usual)
        trials, scout = Trials(domain, tables, rows, self.seed, effort), self._scout
        fixed = self.information or usual == DEAREST
        prices = [usual] if fixed else sorted({min(usual * f, DEAREST) for f in FACTORS})
        models = [trials.fitted(scout, Seen(price)) for price in prices]
        best = trials.best(models, prices.index(usual))
        tied = dependences(domain, models[best].pairs(models[best].weights), tables, rows)
        plain = Seen(prices[best], (), tied, rows * mu(tables))
        if self.nests is False or self.device is not None:
            return plain
        between = _between(domain, plain.signal)
        # Large nests need more steps than a scout's to show their worth where there is little noise.
        ways = nestings(domain, tied, {self.target or ""}, WAYS if between else WAYS[:1])
        few = plain.signal < (NEARLY if len(domain) <= BROAD else WIDELY)
        seen = self._nested(trials, plain, models[best] if few else None, ways, effort)
        dear = between and not fixed and bool(seen.groups) and not effort.over
        return self._outer(trials, seen) if self.outer is None and dear else seen

    def _nested(
        self,
        trials: Trials,
        plain: Seen,
        flat: MixtureModel | None,
        ways: Sequence[tuple[tuple[int, ...], ...]],
        effort: Effort,
    ) -> Seen:
        """The groups of one of the ways, or none; `flat` is the scout without, None to ask large ones."""
        price = self.information or EASED * plain.price
        nested = [replace(plain, price=price, groups=groups, outer=self.outer or OUTER) for groups in ways]
        if not nested or self.nests is not None or effort.over:
            return nested[0] if nested else plain
        # Few components flatter nests; where there is little noise that decides.
        judge = replace(self._scout, components=self.components) if flat is None else self._scout
        rivals = [trials.fitted(judge, seen) for seen in nested]
        first = trials.best(rivals)
        flat = trials.fitted(judge, plain) if flat is None else flat
        return plain if trials.best([rivals[first], flat], sure=DOUBT) else nested[first]

    def _outer(self, trials: Trials, seen: Seen) -> Seen:
        """The same with the price of atoms' shares, OUTERMOST if it is better beyond doubt."""
        # Noise outside of nests is what the last steps follow, so all of them are taken.
        judge = replace(self._scout, steps=self.steps)
        rivals = [seen, replace(seen, outer=OUTERMOST)]
        return rivals[trials.best([trials.fitted(judge, rival) for rival in rivals])]


def _within(room: int, square: int, code: int) -> int:
    """The most codes n with square n^2 + code n at most room."""
    return int((math.sqrt(code**2 + 4.0 * square * room) - code) / (2 * square))


def _between(domain: Domain, signal: float) -> bool:
    """Whether a table is neither broad nor clear, and its noise does not hide nearly all."""
    return len(domain) <= BROAD and DIM <= signal < CLEAR


def _components(codes: int, signal: float) -> int:
    square = max(codes, 1) ** 2
    usual = max(min(WORK / square, MOST), LEAST * min(WIDE / max(codes, 1), 1.0), FEWEST)
    fine = min(LEAST * min(signal / FINE, FINEST), FINE_WORK / square)
    return round(max(usual, fine))


def _rule(tables: Sequence[Pooled], rows: float) -> float:
    """10 sqrt(x) min(x / SPARSE, 1)^(1/4), at most DEAREST; x is rows mu, mu^2 the sum of 1 / sigma^2."""
    seen = rows * mu(tables)
    return min(10.0 * math.sqrt(seen) * math.sqrt(math.sqrt(min(seen / SPARSE, 1.0))), DEAREST)
