"""The promises of what comes after the door: models, what fits them, and the strategies that ask.

`Fitter` and `Model` see released quantities only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from fractions import Fraction

    import numpy as np
    from numpy.typing import NDArray

    from margrave.limits import Deadline, Effort
    from margrave.privacy.unit import Neighbours
    from margrave.progress import OnStep
    from margrave.protocols.door import Curator, Ensemble, Learner
    from margrave.release import NoisyMarginal, NoisyMoments, NoisySlices
    from margrave.schema.constraints.rules import Rule
    from margrave.schema.domain import Clique, Domain
    from margrave.schema.encoded import Codes, Encoded
    from margrave.select.strategy import Holdings

LearnsFrom = Literal["marginals", "moments", "gradients", "slices", "votes", "public marginals"]
"""What a model may be made from, and so what a strategy buys, or takes from public rows."""
T = TypeVar("T")


class Model(Protocol):
    """A fitted distribution over a domain. Everything here is post-processing and free."""

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""

    @property
    def total(self) -> float:
        """The number of rows the model stands for; marginals sum to it."""

    @property
    def converged(self) -> bool:
        """Whether the fit met its tolerance; always for a family without one."""

    @property
    def found_rules(self) -> tuple[Rule, ...]:
        """What the fit saw in released tables and its rows keep, as rules that are not promised."""

    def project(self, clique: Clique) -> NDArray[np.float64]:
        """The model's marginal of any clique, in rows: shape domain.shape(clique)."""

    def project_many(self, cliques: Sequence[Clique]) -> list[NDArray[np.float64]]:
        """The marginals of many cliques at once, faster than one by one."""

    def sample(
        self,
        rows: int,
        rng: np.random.Generator,
        given: Mapping[str, int | Codes] | None = None,
        deadline: Deadline | None = None,
    ) -> Encoded:
        """Synthetic rows, conditioned exactly on `given`: one code for all rows, or one a row, [rows].

        deadline: when to leave rows as they were drawn, without work that only brings them nearer to the
            model; not passed where there is no time limit.
        """

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Arrays from which `Fitter.restore` builds the same model again."""


class Fitter(Protocol):
    """Turns released quantities into a model. Sees releases only; `models.Estimator` is its base.

    What it takes and what it learns from is declared: nothing is found out by looking for methods.
    """

    @property
    def name(self) -> str:
        """The name it is saved and resolved under."""

    @property
    def options(self) -> frozenset[str]:
        """Options of a run that it takes, each a field of this name: "target", "max_memory"."""

    @property
    def learns_from(self) -> frozenset[LearnsFrom]:
        """What it learns from."""

    @property
    def max_memory(self) -> int | None:
        """Bytes it was told to stay within; None for no limit."""

    @property
    def small(self) -> bool:
        """Whether its models take next to no memory, so that no limit of memory concerns it."""

    @property
    def fit_seconds(self) -> float:
        """Processor seconds that its fits add to a run, a squared column."""

    @property
    def named_columns(self) -> frozenset[str]:
        """The columns that it was told of by name, such as a target."""

    def with_options(self, **options: Any) -> Fitter:
        """A copy with some of its `options` set."""

    def prepare(self) -> None:
        """Check that libraries and devices it computes with are there, before anything is spent."""

    def count_codes(self, sizes: Sequence[int]) -> tuple[float, float]:
        """Codes that are modelled of attributes of these sizes, and how many it takes at most."""

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float | None = None,
        warm: Model | None = None,
        effort: Effort = ...,
    ) -> Model:
        """The model that explains the measurements, weighted by 1 / sigma^2.

        total: rows to stand for; estimated from the measurements when None.
        warm: a model this fitter made earlier, from which to start.
        effort: how precise to be and when to stop; `limits.FULL` by default.
        """

    def restore(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        state: Mapping[str, NDArray[np.float64]],
    ) -> Model:
        """The model whose `state` was saved, with no optimisation."""

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Raise InputError if a model of these cliques would be too large: asked before they are bought."""

    def cells(
        self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]
    ) -> NDArray[np.float64]:
        """Cells with cliques plus each one candidate, infinite where those are too many: [candidates]."""


class MomentsFitter(Fitter, Protocol):
    """A fitter that learns from moments of the rows too: those that declare "moments" in `learns_from`."""

    def fit_moments(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        moments: NoisyMoments | None,
        *,
        total: float | None = None,
        effort: Effort = ...,
    ) -> Model:
        """The model that explains marginals and moments together."""


class SlicesFitter(Fitter, Protocol):
    """A fitter that learns from noisy copies of rows: those that declare "slices" in `learns_from`."""

    def fit_slices(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        slices: NoisySlices,
        *,
        effort: Effort = ...,
    ) -> Model:
        """The model that explains the copies; their number is public."""


class DoorFitter(Fitter, Protocol):
    """A fitter whose model is made of what has learned at the door, from gradients or from votes."""

    def alone(self, work: Callable[[], T]) -> T:
        """What some work returns, done on one thread."""

    def finished(
        self, learner: Any, weights: Sequence[Any], measurements: Sequence[NoisyMarginal], total: float
    ) -> Model:
        """The model of what has learned."""


class TrainedFitter(DoorFitter, Protocol):
    """A fitter whose model is trained at the door: those that declare "gradients" in `learns_from`."""

    def learner(
        self, domain: Domain, target: str | None, ways: Mapping[str, NDArray[np.float64]], rows: float
    ) -> Learner:
        """What is to be trained."""


class TaughtFitter(DoorFitter, Protocol):
    """A fitter whose model asks teachers at the door: those that declare "votes" in `learns_from`."""

    def ensemble(
        self,
        domain: Domain,
        target: str | None,
        ways: Mapping[str, NDArray[np.float64]],
        teachers: int,
    ) -> Ensemble:
        """The teachers, and what is to learn from their votes."""


class Strategy(Protocol):
    """Decides which marginals to buy; `select.Strategy` is its base, which says what each part means."""

    @property
    def name(self) -> str:
        """The name it is saved under."""

    @property
    def gaussian_only(self) -> bool:
        """Whether it hardly chooses: then GDP accounting prices it more tightly than zCDP."""

    @property
    def learns_by(self) -> LearnsFrom:
        """What the fitter has to learn from."""

    @property
    def needs_rows(self) -> bool:
        """Whether it asks for more than marginals, so that the engine has to hold the rows."""

    @property
    def serves_regressions(self) -> bool:
        """Whether a run that is told a target buys sums of its columns' numbers beside."""

    @property
    def otherwise(self) -> str:
        """How rho is split where released tables decide so, and when that is; "" if they do not."""

    @property
    def keeps_deadline(self) -> bool:
        """Whether a time limit can end it early but complete."""

    @property
    def options(self) -> frozenset[str]:
        """Options of a run that it takes, each a field of this name."""

    @property
    def pace(self) -> tuple[float, float]:
        """Processor seconds of a run a squared column, and the power of epsilon times rows they grow with."""

    @property
    def training(self) -> tuple[int, Fraction, Fraction] | None:
        """Steps, rate and share of rho of a training by gradients of samples; None without one."""

    @property
    def max_seconds(self) -> float | None:
        """Seconds of post-processing that it allows itself; None for no limit of its own."""

    @property
    def named_columns(self) -> frozenset[str]:
        """The columns that it was told of by name."""

    def split_rho(self, counted: bool) -> dict[str, Fraction]:
        """The share of rho of each stage; they sum to 1."""

    def share_marginal(self, columns: int) -> dict[str, Fraction]:
        """The share of rho that one typical one-way marginal and one typical pair get."""

    def bound_copies(self, sizes: Sequence[int], neighbours: Neighbours) -> int | None:
        """The square of the largest change of the noisy copies of all rows; None where it buys no copies."""

    def expect_holdings(self, sizes: Sequence[int], signal: float) -> Holdings:
        """How many tables, and how large, a run of it may hold at once: what a plan foretells memory by."""

    def check_fitter(self, fitter: Fitter) -> None:
        """Raise InputError if the fitter does not learn from what this strategy buys."""

    def check_neighbours(self, neighbours: Neighbours) -> None:
        """Raise InputError if what it asks cannot be answered under their adjacency."""

    def with_options(self, **options: Any) -> Strategy:
        """A copy with some of its `options` set."""

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho, by the deadline, and return the model fitted to all that was released."""
