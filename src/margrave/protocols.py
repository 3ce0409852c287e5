"""The floor plan: the promises between rooms. No code lives here.

    Source --bind(schema)--> Engine --count--> Counts --Curator.measure--> NoisyMarginal
    Strategy.run(curator, fitter) -> Model --sample--> Encoded

`Source` and `Engine` answer exactly and are private: only the door (`measure`) and the non-private
`evaluate` may hold one. `Fitter` and `Model` see released quantities only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from fractions import Fraction

    import numpy as np
    from numpy.typing import NDArray

    from margrave.engines.counts import Counts
    from margrave.limits import Deadline, Effort, Stopwatch
    from margrave.measure.mechanisms.verb import Verb
    from margrave.privacy.unit import Neighbours
    from margrave.progress import OnStep
    from margrave.release import NoisyMarginal, NoisyMoments, NoisySlices
    from margrave.schema.columns import Column
    from margrave.schema.columns.relative import Comparison
    from margrave.schema.domain import Clique, Domain
    from margrave.schema.encoded import Codes, Encoded
    from margrave.schema.features import Embedding, RowNumbers
    from margrave.schema.schema import Schema
    from margrave.select.strategy import Holdings

LearnsFrom = Literal["marginals", "moments", "gradients", "slices", "votes", "public marginals"]
"""What a model may be made from, and so what a strategy buys, or takes from public rows."""
T = TypeVar("T")


class Source(Protocol):
    """A private table before encoding. Answers are exact: **not private**.

    Column names, their order and their storage types are taken as public; all else is private.

    **Additivity.** Every answer comes from one scan, and in it a row counts for one cell at most, which
    depends on that row alone: the answer on a table is the sum of the answers on its parts. The names that
    `values` gives are part of this: a row counts for its own value, spelt as it is. Every sensitivity that
    the door claims rests on it; tests/contracts/test_additivity_contract.py holds every engine to it.
    `bound_owners` keeps rows of one owner in a way that does not depend on other owners' rows. In one answer,
    `unlisted_parts`, a row counts for several cells, for each of them by a weight that depends on that row
    alone.
    """

    @property
    def columns(self) -> tuple[Column, ...]:
        """What the storage says about each column: kind and name, nothing read from the rows.

        A number column is Integer or Real without bounds, a text column is Unknown.
        """

    @property
    def holds_rows(self) -> bool:
        """Whether its engine has the rows as codes, for `moments` and `train` at the door. Public."""

    @property
    def comparable(self) -> frozenset[str]:
        """Names of the columns that `differences` can compare. Public: it follows from storage types."""

    def only(self, names: Sequence[str]) -> Source:
        """The table with some of its columns, in the order given."""

    def bound_owners(self, owner: str, max_rows: int, *, key: bytes | None = None) -> Source:
        """The table with at most max_rows rows of each owner, drawn at random, and no owner column.

        key: settles the draw, 32 bytes; from the system where it is None, as in every private run.
        """

    def read_as(self, columns: Sequence[Column]) -> Source:
        """The table with the texts of some columns read in the formats that these columns have.

        Each cell is read by itself: answers stay additive. A known schema says how its columns are written.
        """

    def rows(self) -> Counts:
        """How many rows there are: shape [1]."""

    def read_rows(self) -> Any:
        """The rows as they are, in order: an Arrow table. Asked for where all columns are public only.

        Raises:
            InputError: The table is not held in memory.
        """

    def kinds(self, column: str) -> Counts:
        """Rows by what their value is, in the order of `schema.profile.PROFILE`."""

    def grids(self, column: str, steps: Sequence[float], read: str = "number") -> Counts:
        """Cells with a reading by the first step they are a multiple of (`schema.queries`): [steps + 1]."""

    def spellings(self, column: str, read: str) -> Counts:
        """Cells of text by how a moment, time, number or mark is spelt, `schema.storage.spelling`:
        [spellings].
        """

    def sizes(self, owner: str, most: int) -> Counts:
        """Owners by how many rows they have, 1 to most, and more: shape [most + 1]."""

    def histogram(
        self, column: str, edges: NDArray[np.float64], read: str = "number", *, absent: bool = False
    ) -> Counts:
        """Cells with a reading by half-open interval, outside ones in the end ones: [edges - 1].

        read: as what a cell's number is read, one of `schema.queries.READS`.
        absent: whether cells without a reading are counted, too, in one more cell at the end.
        """

    def differences(
        self,
        column: str,
        base: str,
        comparison: Comparison,
        edges: NDArray[np.float64],
        others: Sequence[str] = (),
    ) -> Counts:
        """Rows by how a column compares with another, see `schema.columns.relative`: [edges - 1 +
        ABSENT_CELLS].

        others: columns that are added to the base, whose sum the column is then compared with.
        """

    def values(self, column: str, *, absent: bool = False) -> tuple[tuple[str, ...], Counts]:
        """The distinct present values as text, and how many rows hold each.

        absent: whether rows without a value are counted, too, in one more cell at the end.
        """

    def value_parts(self, column: str) -> Iterator[tuple[tuple[str, ...], Counts]]:
        """The same in parts without a value in common, one at least, for columns of very many values.

        Shape of each part's counts: [values + 1]. The last cell holds the rows without a value, in the first
        part; it is 0 in the others. How many parts there are follows from what memory holds, never an error.
        """

    @property
    def joins_texts(self) -> bool:
        """Whether it answers `unlisted_parts`. Public: it follows from the engine."""

    def unlisted_parts(
        self, listed: Mapping[str, Collection[str]], weights: Sequence[int]
    ) -> Iterator[tuple[tuple[str, ...], Counts]]:
        """Texts of several columns that are not listed, and the weights of the rows that hold them.

        As `schema.queries.weigh_unlisted`, in parts without a text in common, one at least. Shape of each
        part's counts: [texts + 1]; the last cell is 0.
        """

    def bind(self, schema: Schema) -> Engine:
        """The table encoded under a known schema."""


class Engine(Protocol):
    """Exact counts over an integer-coded table. **Not private**.

    Additive as a `Source` is: a row is counted in exactly one cell of every clique's table, which depends on
    that row alone, so every table sums to the number of rows.
    """

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""

    def count(self, cliques: Sequence[Clique]) -> list[Counts]:
        """Rows in each cell of each clique's table, in one pass over the data."""


class RowEngine(Engine, Protocol):
    """An engine that has the rows as codes: that of a source that declares `holds_rows`. **Not private**."""

    @property
    def encoded(self) -> Encoded:
        """The rows as codes."""


class Curator(Protocol):
    """The door, as a strategy sees it: every call spends rho and is in the ledger before noise is drawn."""

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""

    @property
    def remaining(self) -> Fraction:
        """rho still to be shared out, exact; what it buys is less after a killed run lost an answer."""

    @property
    def total(self) -> Fraction:
        """rho the strategy started with, exact."""

    @property
    def progress(self) -> float:
        """Share of the whole run's rho spent so far, discovery included, for progress."""

    @property
    def stopwatch(self) -> Stopwatch:
        """Stands still inside every call: the only clock that a strategy may read, a deadline's included."""

    @property
    def measurements(self) -> tuple[NoisyMarginal, ...]:
        """All marginals released so far, those of discovery included."""

    @property
    def public_rows(self) -> float | None:
        """The number of rows where the adjacency makes it public, else None."""

    def sigma(self, rho: Fraction) -> float:
        """Standard deviation of the noise that rho buys on one marginal."""

    def measure(self, cliques: Sequence[Clique], rho: Fraction) -> list[NoisyMarginal]:
        """Release each clique's marginal with Gaussian noise; each costs rho."""

    def choose(
        self,
        cliques: Sequence[Clique],
        expected: Sequence[NDArray[np.float64]],
        rho: Fraction,
        *,
        weights: Sequence[int] | None = None,
        penalties: Sequence[float] | None = None,
        rivals: Sequence[NDArray[np.float64] | None] | None = None,
    ) -> int:
        """Draw a candidate by the exponential mechanism on weight * (L1(counts, expected) - penalty).

        rivals: a public table each, whose own L1 error is taken off the score, or None.
        """

    def appraise(
        self, cliques: Sequence[Clique], expected: Sequence[NDArray[np.float64]], rho: Fraction
    ) -> NDArray[np.float64]:
        """L1(counts, expected) of each candidate with Gaussian noise, shape [candidates]; rho for all."""

    def correlate(
        self, pairs: Sequence[Clique], scores: Mapping[str, NDArray[np.int64]], rho: Fraction
    ) -> tuple[NDArray[np.float64], float]:
        """Sums over rows of products of two attributes' scores, with Gaussian noise, and their sigma."""

    def answer(self, verb: Verb, rho: Fraction) -> tuple[NDArray[np.float64], float]:
        """What a verb from outside the package asks, with Gaussian noise, and its sigma; costs rho."""

    def moments(self, embedding: Embedding, rho: Fraction) -> NoisyMoments:
        """Sums over rows of Fourier features, by label, with Gaussian noise; rho for all together."""

    def slices(self, numbers: RowNumbers, rho: Fraction, longest: float | None = None) -> NoisySlices:
        """A noisy copy of every row's vector, in random order; rho for all together."""

    def train(
        self,
        learner: Learner,
        rho: Fraction,
        *,
        steps: int,
        rate: Fraction,
        clip: float = 1.0,
        on_gradient: Callable[[int], None] = ...,
    ) -> tuple[NDArray[np.float64], ...]:
        """What a learner becomes by noisy gradients of samples of the rows; rho for all together."""

    def votes(
        self,
        ensemble: Ensemble,
        rho: Fraction,
        *,
        teachers: int,
        rounds: int,
        on_round: Callable[[int], None] = ...,
    ) -> tuple[NDArray[np.float64], ...]:
        """What an ensemble's public side becomes by noisy votes of its teachers; rho for all together."""


class Learner(Protocol):
    """Weights that learn from rows it is shown at the door. It keeps nothing: all it knows is its arguments.

    A state is public. `factors` is called with private rows, and its answer for a row may hang on that row,
    its uniform numbers and the state alone, bit for bit: not on other rows, nor on its place among them.
    """

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of each weight matrix."""

    @property
    def uniforms(self) -> int:
        """How many uniform numbers a row is given."""

    def start(self) -> Any:
        """The state before the first step."""

    def factors(
        self, state: Any, codes: NDArray[np.int64], uniform: NDArray[np.float64]
    ) -> list[tuple[Any, Any]]:
        """Each row's gradient, as left and right factors of each weight matrix.

        codes: of the rows, in the domain's order, [rows, attributes].
        uniform: in (0, 1), [rows, uniforms].
        Float64 tensors [rows, draws, out] and [rows, draws, in] for each matrix: a row's gradient is the sum
        over its draws of their outer products.
        """

    def moved(self, state: Any, gradients: Sequence[NDArray[np.float64]]) -> Any:
        """The state after a step, from noisy sums of clipped gradients, [out, in], in units of the clip."""

    def finished(self, state: Any) -> tuple[NDArray[np.float64], ...]:
        """The arrays that are released at the end."""


class Ensemble(Protocol):
    """Teachers that learn from a part of the rows each, and a public side that asks them.

    It keeps nothing: all it knows is its arguments. A state is public. `taught` is called with private rows
    of one teacher, and what it gives may hang on its arguments alone.
    """

    @property
    def questions(self) -> int:
        """How many questions are asked in a round."""

    @property
    def shown(self) -> int:
        """How many rows a teacher is shown in a round, drawn from its part with replacement."""

    @property
    def uniforms(self) -> int:
        """How many uniform numbers a teacher is given in a round."""

    def start(self) -> Any:
        """The public state before the first round."""

    def hire(self, place: int) -> Any:
        """What the teacher at this place is before it has seen a row."""

    def taught(
        self, state: Any, teacher: Any, codes: NDArray[np.int64], uniform: NDArray[np.float64]
    ) -> tuple[Any, NDArray[np.float64]]:
        """The teacher after a round, and its answer to each question, above 0 for yes: [questions].

        codes: of the rows it is shown, in the domain's order, [shown, attributes].
        uniform: in (0, 1), [uniforms].
        """

    def moved(self, state: Any, counts: NDArray[np.float64], sigma: float) -> Any:
        """The public state after a round, from noisy counts of yes, [questions], with noise of sigma."""

    def finished(self, state: Any) -> tuple[NDArray[np.float64], ...]:
        """The arrays that are released at the end."""


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
