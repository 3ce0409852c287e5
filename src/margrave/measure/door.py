"""Door: one private table and one ledger, opened under a schema; `Curator` adds the verbs that answer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import Stopwatch, price_question
from margrave.measure.binding import bind_source, check_totals
from margrave.measure.discovery.discover import Discovery
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.measure.public import PublicPart
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import BitSource
from margrave.progress import OnStep, silent
from margrave.release import (
    NoisyMarginal,
)
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from margrave.protocols import Engine, RowEngine, Source

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
D = TypeVar("D", bound="Door")

CACHED_CELLS = 1 << 26
"""Exact counts of candidates are kept between rounds up to this many cells (256 MiB below 2^32 rows)."""

CELLS_A_RUN = 1 << 18
"""Cells that are counted at a time where tables are wanted one after the other (2 MiB)."""


def stop_clock(
    verb: Callable[Concatenate[D, Arguments], Answer],
) -> Callable[Concatenate[D, Arguments], Answer]:
    """The verb, run while the door's stopwatch stands still, and refused where the door is closed.

    It wraps the verb from outside, so that the stopwatch goes on only after everything that the verb held
    has been freed: giving a large private array back to the system takes time as well.
    """

    @functools.wraps(verb)
    def run(door: D, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        door._check_open()
        with door.stopwatch.pause():
            return verb(door, *args, **kwargs)

    return run


class Door:
    """One private table, one ledger, and what all verbs share: the schema, exact tables, the clock.

    **Privacy.** It releases nothing but what `Discovery` does under the ledger, and public columns. Exact
    tables and rows are for the verbs of `Curator`, each of which states what it costs.

    Args:
        source: The private table.
        ledger: Where spends are recorded; its neighbours set every sensitivity.
        noise: Source of random bits, the ledger's by default; anything else is for tests of margrave itself.

    Raises:
        InputError: The noise comes from a seed and the ledger does not say so.
    """

    def __init__(self, source: Source, ledger: Ledger, noise: BitSource | None = None) -> None:
        unit = ledger.neighbours.unit
        self._stopwatch = Stopwatch()
        self._ledger = ledger
        self._noise = ledger.choose_noise(noise)
        self._source = source if unit.owner is None else self._bound_owners(source, unit.owner, unit.max_rows)
        self._gaussian = Gaussian(ledger, self._noise)
        self._engine: Engine | None = None
        self._row_count = 0
        self._measurements: list[NoisyMarginal] = []
        self._cache: dict[Clique, NDArray[np.integer]] = {}
        self._total = ledger.planned
        self._reserve = Fraction(0)
        self._closed = False

    def _bound_owners(self, source: Source, owner: str, max_rows: int) -> Source:
        """The table with each owner's rows cut; the seed of a run that is not private settles which stay."""
        if self._ledger.test_seed is None:
            return source.bound_owners(owner, max_rows)
        return source.bound_owners(owner, max_rows, key=self._noise.words(4).tobytes())

    @property
    def stopwatch(self) -> Stopwatch:
        """Counts the time that passes outside the verbs, which is that of post-processing."""
        return self._stopwatch

    @stop_clock
    def discover(
        self,
        declared: Schema | None = None,
        rho: Fraction = Fraction(0),
        on_step: OnStep = silent,
        attributes: Collection[str] = (),
        most_bins: int | None = None,
    ) -> Schema:
        """Complete a partly declared schema and open the table under it; see `Discovery` for the cost.

        Args:
            declared: What the user says is public; columns it does not name are discovered.
            rho: What discovery may spend; nothing is spent when the schema is complete.
            on_step: Told about each step.
            attributes: Columns that the run needs as attributes: none of them is left out or made anew.
            most_bins: Most bins of a column that is discovered, from public things alone.

        Returns:
            The known schema.

        Raises:
            InputError: The run is in a book and a column is strict: its refusal of a row would be free.
        """
        # In a book a refusal would be one more answer about the rows, and nobody would have paid for it.
        if self._ledger.shared and declared is not None and declared.strict_columns:
            remedy = "Use declared.absorb_outside(): whether a row breaks a declaration is private."
            raise InputError(invalid("declared", "without strict columns in a book", remedy))
        discovery = Discovery(self._source, self._gaussian, self._ledger, on_step, attributes, most_bins)
        schema, found = discovery.run(declared, rho)
        self._engine, self._row_count = bind_source(self._source, schema)
        self._cache.clear()
        self._measurements += found
        self._total = self._ledger.planned
        return schema

    @property
    def _open(self) -> Engine:
        if self._engine is None:
            raise InputError(invalid("curator", "opened first", "Call discover(schema) before measuring."))
        return self._engine

    @property
    @stop_clock
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""
        return self._open.domain

    @property
    def remaining(self) -> Fraction:
        """rho that is still to be shared out, exact: what is unspent, unless a stop has cost some of it."""
        return max(self._ledger.planned - self._reserve, Fraction(0))

    @property
    def total(self) -> Fraction:
        """rho that was left when the table was opened, exact; inside `set_aside`, what that leaves."""
        return self._total

    @contextmanager
    def set_aside(self, rho: Fraction) -> Iterator[None]:
        """Plan with a part of the budget: inside, `remaining` and `total` leave rho out.

        **Privacy.** It spends nothing and allows nothing: `Ledger.ask` refuses what passes the whole budget.

        Args:
            rho: What whoever asks inside is to leave, exact, 0 or more; then `total` is what is left now.
        """
        before = self._total, self._reserve
        self._reserve = rho
        self._total = self.remaining
        try:
            yield
        finally:
            self._total, self._reserve = before

    @property
    def progress(self) -> float:
        """Share of the whole run's rho shared out so far, discovery included."""
        return float(1 - self._ledger.planned / self._ledger.total)

    @property
    def measurements(self) -> tuple[NoisyMarginal, ...]:
        """All marginals released so far, those of discovery included.

        Raises:
            InputError: A verb from outside the package has failed.
        """
        self._check_open()
        return tuple(self._measurements)

    @property
    @stop_clock
    def public_rows(self) -> float | None:
        """The number of rows where the adjacency makes it public, else None; 1 for an empty table.

        **Privacy.** Under replace_one with single rows all neighbouring tables have the same number of
        rows, so telling it costs nothing. In every other case this is None.
        """
        if not self._ledger.neighbours.rows_are_public:
            return None
        return max(float(self._counts([()])[0].sum()), 1.0)

    @stop_clock
    def read_public(self) -> PublicPart | None:
        """The columns that the ledger's promise leaves public, exactly; None where there are none.

        **Privacy.** Free: neighbouring tables have the same public columns; see `margrave.measure.public`.

        Raises:
            InputError: The table is not held in memory.
        """
        public = set(self._ledger.neighbours.public)
        if not public:
            return None
        names = [column.name for column in self._source.columns if column.name in public]
        return PublicPart(self._source.only(names))

    def sigma(self, rho: Fraction) -> float:
        """Standard deviation of the noise that rho buys on one marginal, in rows."""
        return self._gaussian.sigma(rho)

    def _check_open(self) -> None:
        """Refuse to go on after a failure of a verb from outside the package.

        That it failed is a fact about the rows. Nothing more is told, so that a run tells one at most.

        Raises:
            InputError: One has failed.
        """
        if self._closed:
            remedy = "What was asked stays spent. Mend `exact` of the verb, then start a new run."
            raise InputError(invalid("curator", "one of whose verbs none has failed", remedy))

    def _charge(self, cliques: Sequence[Clique]) -> None:
        """Count a question's public price on the stopwatch, which stands still while it is answered."""
        cells = sum(self.domain.size(clique) for clique in cliques)
        self._stopwatch.add(price_question(len(cliques), cells))

    def _rows(self) -> Encoded:
        """The rows as codes. **Not private.**"""
        if not self._source.holds_rows:
            remedy = "Pass a frame, an Arrow table or a file; or use a method that asks for marginals only."
            raise InputError(invalid("table", "in memory or a file for this verb", remedy))
        return cast("RowEngine", self._open).encoded

    def _check_cliques(
        self, cliques: Sequence[Clique], expected: Sequence[NDArray[np.float64]] | None = None
    ) -> list[Clique]:
        """The cliques, found to be in the domain and of their tables' shapes before anything is recorded."""
        domain = self.domain
        shapes = [domain.shape(clique) for clique in cliques]
        for clique in cliques:
            if len(set(clique)) < len(clique):
                domain.project(clique)  # which says what is wrong
        if expected is not None and [np.shape(table) for table in expected] != shapes:
            # A larger table would be broadcast, and each row counted in many cells.
            raise InputError(invalid("expected", "one table a clique, of its shape", "Check the model."))
        return [tuple(clique) for clique in cliques]

    def _counts(self, cliques: Sequence[Clique]) -> list[NDArray[np.int64]]:
        """Exact tables. **Not private.**"""
        return [table.astype(np.int64, copy=False) for table in self._recall_counts(cliques)]

    def _recall_counts(self, cliques: Sequence[Clique]) -> list[NDArray[np.integer]]:
        """Exact tables, kept between rounds while they fit, in types that may be short. **Not private.**"""
        missing = [clique for clique in dict.fromkeys(cliques) if clique not in self._cache]
        fresh: dict[Clique, NDArray[np.int64]] = {}
        if missing:
            counted = self._open.count(missing)
            fresh = {c: counts.reveal() for c, counts in zip(missing, counted, strict=True)}
            check_totals(fresh.values(), self._row_count)
        if fresh and sum(t.size for held in (self._cache, fresh) for t in held.values()) <= CACHED_CELLS:
            # No count is above the number of rows: two bytes or four do for most tables.
            short = np.min_scalar_type(self._row_count)
            self._cache.update((c, t.astype(short)) for c, t in fresh.items())
        return [fresh[c] if c in fresh else self._cache[c] for c in cliques]

    def _count_in_runs(self, cliques: Sequence[Clique]) -> Iterator[NDArray[np.integer]]:
        """Exact tables one by one, few of them held at a time where the rows are. **Not private.**"""
        run: list[Clique] = []
        cells = 0
        for clique in cliques:
            run.append(clique)
            cells += self.domain.size(clique)
            # Elsewhere every question may read the whole table.
            if self._source.holds_rows and cells >= CELLS_A_RUN:
                yield from self._recall_counts(run)
                run, cells = [], 0
        yield from self._recall_counts(run)
