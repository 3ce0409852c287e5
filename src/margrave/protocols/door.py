"""The promises of the private side: tables, engines, and the door that answers about them.

`Source` and `Engine` answer exactly and are private: only the door (`measure`) and the non-private
`evaluate` may hold one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fractions import Fraction

    import numpy as np
    from numpy.typing import NDArray

    from margrave.engines.counts import Counts
    from margrave.limits import Stopwatch
    from margrave.measure.mechanisms.verb import Verb
    from margrave.release import NoisyMarginal, NoisyMoments, NoisySlices
    from margrave.schema.columns import Column
    from margrave.schema.columns.relative import Comparison
    from margrave.schema.constraints.rules import CalendarRule, FlagCount
    from margrave.schema.domain import Clique, Domain
    from margrave.schema.encoded import Encoded
    from margrave.schema.features import Embedding, RowNumbers
    from margrave.schema.schema import Schema


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
        """Names of the columns that can be compared with others. Public: it follows from storage types."""

    def only(self, names: Sequence[str]) -> Source:
        """The table with some of its columns, in the order given."""

    def bound_owners(self, owner: str, max_rows: int, *, key: bytes | None = None) -> Source:
        """The table with at most max_rows rows of each owner, drawn at random, and no owner column.

        key: settles the draw, 32 bytes; from the system where it is None, as in every private run.
        """

    def read_as(self, columns: Sequence[Column]) -> Source:
        """The table with the texts of some columns read in the formats that these columns have, those that
        were read so before among them.

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

    def places_in_cycle(self, column: str, read: str, tick: int, ticks: int) -> Counts:
        """Cells with a reading by their place in a period of so many ticks (`schema.queries`): [ticks]."""

    def repeats(self, column: str, steps: Sequence[int], read: str = "number") -> Counts:
        """How many different numbers at least so many cells are read as: shape [steps].

        One row more or less changes one of them by one at most; parts of a table do not add up.
        """

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

    def agreements(self, rules: Sequence[CalendarRule | FlagCount], reads: Mapping[str, str]) -> list[Counts]:
        """For each rule the rows in which its number is what its dates say, or not, or one is missing.

        Or in which it is how many flags say yes. See `schema.queries`; shape of each: [3].
        """

    def value_parts(self, column: str) -> Iterator[tuple[tuple[str, ...], Counts]]:
        """The distinct present values as text, and how many rows hold each.

        In parts without a value in common, one at least, for columns of very many values. Shape of each
        part's counts: [values + 1]. The last cell holds the rows without a value, in the first part; it is 0
        in the others. How many parts there are follows from what memory holds, never an error.
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
