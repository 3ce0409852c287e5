"""discover: kinds, bounds, categories, missingness and the row count, from the same budget as all else."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, SchemaError, invalid
from margrave.measure.discovery.cycles import find_cycles, open_cycles, settle_zones
from margrave.measure.discovery.keys import find_keys, may_be_keys
from margrave.measure.discovery.kinds import (
    UNASKED,
    are_padded,
    as_written,
    may_be_written,
    settle_digits,
    settle_format,
    settle_kind,
    settle_months,
    votes_on_numbers,
)
from margrave.measure.discovery.numeric import SHARES, NumericDiscovery
from margrave.measure.discovery.ranges import is_narrow
from margrave.measure.discovery.values import steps_of
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.measure.mechanisms.partition import OTHER, leave_out_rest, rest_of, rows_of
from margrave.privacy.ledger.ledger import Ledger
from margrave.progress import OnStep, Step
from margrave.release import NoisyMarginal
from margrave.schema.columns import (
    Binned,
    Boolean,
    Categorical,
    Column,
    Date,
    Integer,
    Listed,
    Moment,
    Omitted,
    Real,
    Relative,
    Temporal,
    Time,
    Unknown,
)
from margrave.schema.columns.binned import SpeltNumber
from margrave.schema.columns.relative import take_own
from margrave.schema.constraints.rules import find_ruled
from margrave.schema.queries import check_reading
from margrave.schema.schema import Schema, apply_rules
from margrave.schema.storage.date_votes import share_date_formats
from margrave.schema.storage.numbers import find_evident
from margrave.schema.storage.text import ROW_NUMBERS

if TYPE_CHECKING:
    from margrave.protocols import Source

NO_NAME = "it has no name, as row numbers have none; name it or declare its kind to keep it"
TEXT_LOOKS = frozenset({"values", "lists", "shapes", "distinct", "prefixes"})
"""The looks that a column of text may need; which of them follow the first depends on released numbers."""


@dataclasses.dataclass(slots=True)
class DiscoveryBudget:
    """What is left of discovery's rho, shared out by the weights of the looks that may still come.

    Args:
        ledger: Where spends are recorded.
        kept: rho that stays for what follows.
        weight: Weights of all looks that may still come.
    """

    ledger: Ledger
    kept: Fraction
    weight: Fraction

    @property
    def unit(self) -> Fraction:
        """rho of a look of weight 1."""
        return (self.ledger.planned - self.kept) / self.weight

    def pass_by(self, weight: Fraction) -> None:
        """Looks of this weight were taken or will not be: what they left goes to those that follow."""
        self.weight -= weight


def declare(stored: tuple[Column, ...], declared: Schema | None) -> Schema:
    """What storage says about each column, overridden by what the user declares.

    How truth values are written is left open where they are text and the user does not say.

    Raises:
        SchemaError: A declared column is not in the table.
        InputError: One is declared to be what its storage of dates or times cannot be read as.
    """
    if declared is None:
        return Schema(tuple(map(_leave_out_row_numbers, stored)))
    names = [column.name for column in stored]
    extra = [name for name in declared.names if name not in names]
    if extra:
        raise SchemaError(
            invalid("schema", f"about the table's columns {names}", "Remove the rest.", got=extra)
        )
    known = {column.name: column for column in declared.columns if not isinstance(column, Unknown)}
    columns = tuple(
        _as_stored(known.get(column.name, _leave_out_row_numbers(column)), column) for column in stored
    )
    return Schema(columns, declared.rules)


def _leave_out_row_numbers(column: Column) -> Column:
    """A column as it is stored; one that has no name, as row numbers that pandas or R wrote, is left out."""
    unnamed = isinstance(column, Unknown) and column.name == ROW_NUMBERS
    return Omitted(name=column.name, reason=NO_NAME) if unnamed else column


def _as_stored(column: Column, stored: Column) -> Column:
    """A declared column; where it is text, how it is written is left open unless that is declared too.

    A `Real` without bounds is profiled anyhow. Between declared bounds texts are read as usual where other
    ones are an error.
    """
    own = take_own(column)
    if isinstance(own, Binned) and isinstance(stored, Temporal):
        check_reading(stored.read, own.read, column.name)  # or a look would, once others are paid for
    if not isinstance(stored, Unknown):
        return column
    if isinstance(column, Boolean) and column.spelling == "":
        return dataclasses.replace(column, spelling=None)
    if not isinstance(column, Binned) or column.format or column.read not in ("number", "date", "moment"):
        return column
    alone = column.edges is None and not isinstance(column, Real)
    absorbing = bool(column.provisional) and not column.strict
    return dataclasses.replace(column, format=None) if alone or absorbing else column


def needs(column: Column) -> frozenset[str]:
    """The looks a column may need: "profile", then "bounds", "detail", "atoms" and "grids", or TEXT_LOOKS.

    For text of unknown kind the profile decides which of the others follow; all are named here.
    """
    if not column.open:
        return frozenset()
    if isinstance(column, Unknown):
        return frozenset(SHARES) - {"spread"}
    if isinstance(column, Listed):
        return frozenset({"profile"}) if column.values is not None else TEXT_LOOKS
    if not isinstance(column, Binned):
        return frozenset({"profile"})
    if column.edges is not None and not column.provisional:
        return frozenset({"detail"} if column.rare else {"profile"})
    looks = {"detail", "atoms"} | ({"grids"} if steps_of(column) else set())
    if not isinstance(column, Time):
        looks.add("spread" if is_narrow(column) else "bounds")
    if isinstance(column, (Moment, Time)) or votes_on_numbers(column):
        looks |= {"spelling", "offsets"} if isinstance(column, Moment) else {"spelling"}
    looks |= open_cycles(column) | ({"distinct"} if may_be_keys(column) else set())
    looks |= {"marks"} if column.mark and not column.provisional else set()
    looks |= {"censored"} if isinstance(column, SpeltNumber) and column.censored == UNASKED else set()
    unsure = isinstance(column, Real) and not column.provisional
    return frozenset(looks | {"profile"} if unsure or column.format is None else looks)


FULL_SHARE = Fraction(43, 4)
"""Weight of a column's looks from which it counts as one of which nothing is known. Looks at text may weigh
more: what its values get beyond is taken from other looks, not from profiles nor from the marginals."""


@functools.cache
def _share_of(looks: frozenset[str]) -> Fraction:
    """What looks weigh, as a share of those at a column of which nothing is known; at most 1."""
    return min(sum((SHARES[look] for look in looks), Fraction(0)) / FULL_SHARE, Fraction(1))


OPEN_POWER = 2.0 / 3.0
"""Power of the part of all looks that columns leave open by which discovery's share of rho falls. In
proportion, numbers of declared bounds beside declared text would get less than where nothing is declared, as
text leaves them what it does not need (bench/LOG.md, 2026-11-30, late)."""


def open_part(columns: Iterable[Column], count: int) -> Fraction:
    """The part of discovery's share of rho that a table asks for, at most 1.

    Columns of which no more is open than whether values are missing ask for one look at a few cells each, in
    proportion, and must not take as much of rho from the marginals as those of which nothing is known.

    Args:
        columns: Those that may have to be discovered.
        count: How many columns the table has, those included.
    """
    alike = Counter(map(needs, columns))
    little = alike.pop(frozenset({"profile"}), 0) * _share_of(frozenset({"profile"})) / max(count, 1)
    much = sum((_share_of(looks) * number for looks, number in alike.items()), Fraction(0)) / max(count, 1)
    return min(little + Fraction(float(much) ** OPEN_POWER).limit_denominator(10**6), Fraction(1))


def searches_values(schema: Schema, public: Collection[str] = ()) -> bool:
    """Whether discovery may have to look for unknown values of columns that are not public, which needs a
    share of delta.
    """
    return any("values" in needs(column) for column in schema.columns if column.name not in public)


PAIR_CELL, FEW_BINS, FEW_CELL = 2.5, 32, 0.4
"""Noise standard deviations of rows that a cell of two columns should have in the mean, and as many where
columns have FEW_BINS bins at most. Models smooth what is noisy, so that such cells tell them more than
coarser ones do; with 0.1 rank correlations of tables of many numbers fall. Chosen on 20 tables that
bench/LOG.md names, 2026-11-30."""
AFTER = Fraction(2, 3)
"""Share of rho that is left for such tables."""
MIN_BINS, MAX_BINS = 4, 512
"""Least and greatest number of bins that noise may ask for."""


def bins_for(rows: float, columns: int, total: Fraction, sigma: Callable[[Fraction], float]) -> int:
    """Most bins: a cell of two columns has rows of PAIR_CELL deviations of noise, up to FEW_BINS of FEW_CELL.

    The noise is that of all pairs of columns, measured with the rho that is not discovery's. Finer bins would
    only hide how columns depend on each other; values inside a bin are drawn as finely as they were seen.

    Args:
        rows: A released or public guess of their number.
        columns: How many the table has.
        total: rho of the whole run.
        sigma: Standard deviation of the noise that rho buys on one marginal.
    """
    if columns < 2:
        return MAX_BINS
    # What a marginal of two columns would have if all pairs shared what is left of rho.
    deviation = sigma(total * AFTER / Fraction(columns * (columns - 1), 2))
    few = min(math.sqrt(rows / (FEW_CELL * deviation)), FEW_BINS)
    return int(min(max(math.sqrt(rows / (PAIR_CELL * deviation)), few, MIN_BINS), MAX_BINS))


class Discovery:
    """Completes a schema.

    **Privacy.** Unit and adjacency: the ledger's. Each look is a table of counts over cells fixed before
    the look (public, or made from earlier releases): a row falls into exactly one, so its sensitivity
    is that of one marginal and `Gaussian` prices it; which looks follow depends on released numbers only.

    1. *profile* of a column: the classes of `margrave.schema.profile.PROFILE`.
       Where it tells of numbers or dates that are not written as usual, *format*: rows by the class of their
       text that votes on formats (`margrave.schema.storage.spelling`); other rows are in no cell. From then
       on the column's texts are read in the format chosen, each by itself.
    2. *bounds* of numbers: the powers of two, then, where numbers are far from zero, equal cells over those
       found; of dates and moments the years 1 to 9999, then, of moments in few of them, their days.
       Where declared bounds lie close together *spread* stands in: a few equal cells between them.
    3. *detail* of numbers, dates and times: rows without one, and cells between the noisy bounds, or the
       declared ones, or the declared bins where rare ones are to be merged. Bins and weights are cut from it.
       A declared greatest number that is not whole has a cell of its own, a public one. Where 5 has told of a
       step that all numbers are on, cells begin at its multiples. It is up to three
       looks: cells in which those before have shown many rows are split for the next, so that the cells of
       each follow from released counts alone (`margrave.measure.discovery.refine`).
    4. *atoms*: where cells of the detail look stand out from those beside them, round numbers in them each
       by itself, what is between two of these, and all rows elsewhere. Where that shows rows between two
       numbers, one more look at those, or as many as it takes to come to single floats. The cells, and how
       many looks there are, follow from the released counts of the looks before
       (`margrave.measure.discovery.values`).
    5. *times of day*, after 2 where whole numbers lie where such do that are written as in 517 for 05:17
       (`margrave.measure.discovery.kinds`); and *grids*, between 2 and 3: rows by the first of a public list
       of steps that divides their number, 0 by the coarsest (`margrave.measure.discovery.values`); rows
       without a number are in no cell.
    6. *spelling* of text that is moments, times or numbers, *offsets from UTC* of moments that have some,
       *censored results* and *marks* of missing values among them
       (`margrave.schema.storage.spelling`, `margrave.measure.discovery.kinds`); other rows are in no cell.
       After 4, *distinct values* of whole numbers (`margrave.measure.discovery.keys`), or *hours*,
       *weekdays* and *days of the month* of moments and dates (`margrave.measure.discovery.cycles`).
    7. *values* of text: missing, and each value that occurs; only values whose noisy count passes a
       threshold are released (`search_values`), which costs a share of delta as well. Where they leave many
       rows without a code, *public lists*, *shapes*, *distinct values*, a search in several columns together,
       *counts* of what was found or is on a public list, and *beginnings*
       (`margrave.measure.discovery.text`).
    8. *comparisons* and *relations* of numbers, dates and times, see `Relations`.
    9. *times* that numbers tell of dates, see `Calendar`; before 8, *periods* that dates are the ends of.

    What a column leaves of its share goes to those that follow it. Columns of text come first, once a row
    count is known.

    *Rules.* What was discovered may leave no row that obeys a rule. The run has spent by then and does not
    end: such rules are left out (`apply_rules`), by released bounds and values alone.

    Looks 3 (with 4) and 7 are kept as measurements of the column, so their rho is not lost to the model.

    Args:
        source: The private table.
        gaussian: The mechanism.
        ledger: Where spends are recorded; its partition delta is shared by the searches for values.
        on_step: Told about each look.
        attributes: Columns that stay attributes: none of them is left out or made anew.
        most_bins: Most bins of a column, at least MIN_BINS, from public things alone; None for no such bound.
    """

    def __init__(
        self,
        source: Source,
        gaussian: Gaussian,
        ledger: Ledger,
        on_step: OnStep,
        attributes: Collection[str] = (),
        most_bins: int | None = None,
    ) -> None:
        self._source = source
        self._gaussian = gaussian
        self._ledger = ledger
        self._on_step = on_step
        self._totals: list[tuple[float, float]] = []
        self._dates: dict[str, tuple[NDArray[np.float64], float]] = {}
        self._zones: dict[str, tuple[NDArray[np.float64], float]] = {}
        self._attributes = frozenset(attributes)
        self._bounded: frozenset[str] = frozenset()
        self._guessed: frozenset[str] = frozenset()  # whose kinds nobody has declared
        self._stored = {column.name: column for column in source.columns}
        self._most_bins = MAX_BINS if most_bins is None else max(most_bins, MIN_BINS)

    def run(self, declared: Schema | None, rho: Fraction) -> tuple[Schema, list[NoisyMarginal]]:
        """The known schema and the one-way marginals released on the way.

        Without rho, bounds without bins mean bins of equal width: those that stand in for them, and truth
        values are written as they are without a spelling.

        Raises:
            InputError: There is something to discover that nothing stands in for, and rho is 0.
            BudgetError: rho does not fit.
        """
        schema = declare(self._source.columns, declared)
        told = () if declared is None else declared.columns
        fixed = {one.name for one in told if not isinstance(one, Unknown)}
        self._guessed = frozenset(schema.names) - fixed - {*self._ledger.neighbours.public}
        if not schema.open:
            return schema, []
        if rho <= 0 and schema.known:
            truths = [column for column in schema.columns if isinstance(column, Boolean)]
            return schema.replace(dataclasses.replace(one, spelling=one.spelling or "") for one in truths), []
        if rho <= 0:
            raise InputError(
                invalid("rho", "above 0 when columns are not fully declared", "Declare them all.")
            )
        return self._discover(schema, rho)

    def _discover(self, schema: Schema, rho: Fraction) -> tuple[Schema, list[NoisyMarginal]]:
        """As `run`, where something is open."""
        # Loaded here, as a table that is fully declared needs none of them.
        from margrave.measure.discovery.between import calendar, flag_counts
        from margrave.measure.discovery.between.links import may_relate
        from margrave.measure.discovery.between.named_parts import may_be_periods, may_tell
        from margrave.measure.discovery.between.relations import SHARE

        left = self._ledger.planned - rho
        ruled = find_ruled(schema.rules)
        profiled = self._profiles(Schema(schema.columns), rho)
        open_columns = [column for column in profiled.columns if column.open]
        reserve = (
            (self._ledger.planned - left) * SHARE if may_relate(profiled.columns, ruled) else Fraction(0)
        )
        told = rho * calendar.SHARE if may_tell(profiled.columns, ruled) else Fraction(0)
        counted = rho * flag_counts.SHARE if flag_counts.may_count(profiled.columns, ruled) else Fraction(0)
        # Of what relations have, where there is any.
        apart = Fraction(0) if reserve else counted
        # Rules' columns stay attributes, as their rules need their codes.
        self._attributes |= ruled
        self._bounded = frozenset(c.name for c in open_columns if isinstance(c, Binned) and c.provisional)
        weight = sum((self._weight(column) for column in open_columns), Fraction(0))
        budget = DiscoveryBudget(self._ledger, left + reserve + told + apart, weight)
        texts = [column for column in open_columns if isinstance(column, Listed)]
        others = [column for column in open_columns if not isinstance(column, Listed)]
        completed, found = list[Column](), list[NoisyMarginal]()
        # A row count from the profiles tells how rare a text is; without it the numbers' looks say it first.
        for group in (texts, others) if self._totals else (others, texts):
            known, marginals = self._complete(group, budget)
            completed += known
            found += marginals
        public = self._ledger.neighbours.public
        # Rules on declared bounds are errors of the user; on discovered ones they are left out.
        discovered = frozenset(column.name for column in schema.columns if not column.known)
        profiled = apply_rules(profiled.replace(completed).columns, schema.rules, discovered)
        if told > 0 and may_be_periods(profiled.columns, ruled):
            self._tell("periods of dates")
            before, rows = self._ledger.planned, rows_of(self._totals)[0]
            dated = calendar.Calendar(self._source, self._gaussian, rows, public)
            profiled = dated.find_periods(profiled, told * calendar.PERIODS_SHARE)
            told -= before - self._ledger.planned
        if counted > 0:
            self._tell("numbers that count flags")
            flags = flag_counts.FlagCounts(self._source, self._gaussian, rows_of(self._totals)[0], public)
            before = self._ledger.planned
            profiled = flags.run(profiled, found, counted)
            reserve = max(reserve - (before - self._ledger.planned), Fraction(0))
        if reserve:
            profiled, found = self._find_relations(profiled, found, reserve)
        if not told and may_tell(profiled.columns, ruled):
            # Numbers have turned out to be times of day, for which nothing was kept.
            told = min(rho * calendar.SHARE, self._ledger.planned - left)
        if told > 0:
            self._tell("numbers that dates tell")
            rows = rows_of(self._totals)[0]
            profiled = calendar.Calendar(self._source, self._gaussian, rows, public).run(profiled, told)
        return self._with_attribute(profiled, open_columns, found, ruled)

    def _with_attribute(
        self, schema: Schema, opened: list[Column], found: list[NoisyMarginal], ruled: Collection[str]
    ) -> tuple[Schema, list[NoisyMarginal]]:
        """The schema and its marginals; where no attribute is left, one column stays, as all "(other)".

        Values that no text was listed for have no code where noise may be all of them, but in columns that
        rules are about.
        """
        if not schema.attributes:
            column = Categorical(name=opened[0].name, values=(), other=OTHER, missing=True, strict=False)
            schema = schema.replace([column])
        searched = {one.name for one in opened if isinstance(one, Listed) and one.values is None}
        marginals, changed = list[NoisyMarginal](), list[Column]()
        for marginal in found:
            known = schema[marginal.clique[0]]
            marginal = rest_of(marginal, known, self._totals)
            if isinstance(known, Listed) and known.name in searched and known.name not in ruled:
                marginal, listed = leave_out_rest(marginal, known)
                changed.append(listed)
            marginals.append(marginal)
        return schema.replace(changed), marginals

    def _find_relations(
        self, schema: Schema, found: list[NoisyMarginal], rho: Fraction
    ) -> tuple[Schema, list[NoisyMarginal]]:
        """Code columns by their relations to others; the looks at their own bins are no measurements then."""
        from margrave.measure.discovery.between.named_parts import list_dated
        from margrave.measure.discovery.between.relations import Relations

        rows = rows_of(self._totals)
        cutting = self._least, self._most
        fixed = {*self._ledger.neighbours.public, *list_dated(schema.columns)}
        relations = Relations(self._source, self._gaussian, self._look, cutting, rows, fixed)
        self._tell("relations between columns")
        schema, measured = relations.run(schema, rho, self._bounded)
        coded = {column.name for column in schema.columns if isinstance(column, Relative)}
        kept = [marginal for marginal in found if not coded & set(marginal.clique)]
        return schema, [*kept, *measured]

    @staticmethod
    def _weight(column: Column) -> Fraction:
        return sum((SHARES[look] for look in needs(column) - {"profile"}), Fraction(0))

    def _profiles(self, schema: Schema, rho: Fraction) -> Schema:
        """Settle kinds, and the missingness of columns of which nothing else is open."""
        unsure = [column for column in schema.columns if "profile" in needs(column)]
        columns = [column for column in schema.columns if column.open]
        weights = [self._weight(c) if not isinstance(c, Unknown) else FULL_SHARE for c in columns]
        # A profile weighs as much as one unit of the other looks.
        share = rho * len(unsure) / (len(unsure) + sum(weights, Fraction(0))) if unsure else Fraction(0)
        found = []
        for column in unsure:
            name = column.name
            noisy, sigma = self._look(
                f"profile of {name}",
                lambda name=name: self._source.kinds(name).reveal(),  # type: ignore[misc]
                share / len(unsure),
                True,
            )
            settled = settle_kind(column, noisy, sigma)
            told = not isinstance(column, Unknown)
            found.append(self._with_format(settled, noisy, sigma, share / len(unsure), told))
        found = self._share_formats(found)
        # Formats hold from the next look on, which reads the texts by them: declared ones as well.
        schema = schema.replace(found)
        written = [column for column in schema.attributes if isinstance(column, Binned) and column.format]
        self._source = self._source.read_as(written) if written else self._source
        return schema

    def _with_format(
        self, column: Column, profile: NDArray[np.float64], sigma: float, unit: Fraction, told: bool
    ) -> Column:
        """The column with the format of its texts, after one more look where the profile tells of some.

        told: whether its kind was declared.
        """
        open_to_it = isinstance(column, Binned) or column.name in self._guessed
        if not open_to_it or (isinstance(column, Binned) and column.format):
            return column
        if votes := may_be_written(column, profile, sigma):
            found = self._look(
                f"format of {column.name}",
                lambda: self._source.spellings(column.name, votes).reveal(),
                unit * SHARES["format"],
                False,
            )
            if isinstance(column, Categorical):
                return settle_digits(column, *found, are_padded(profile, sigma))
            assert isinstance(column, Binned)  # noqa: S101 - `may_be_written` says so
            if votes == "date format":
                self._dates[column.name] = found
            if votes == "month format":
                return settle_months(column, *found, profile, told)
            return settle_format(column, *found, told)
        return dataclasses.replace(column, format="") if isinstance(column, Binned) else column

    def _share_formats(self, columns: Sequence[Column]) -> list[Column]:
        """The columns, with the formats of dates that they share where these are open. Post-processing."""
        dates = [one for one in columns if isinstance(one, Date | Moment) and one.name in self._dates]
        if len(dates) < 2:
            return list(columns)
        votes, sigmas = zip(*(self._dates[one.name] for one in dates), strict=True)
        each = [find_evident(sigma, len(votes[0])) for sigma in sigmas]
        together = find_evident(math.hypot(*sigmas), len(votes[0]))
        formats = share_date_formats([one.format or "" for one in dates], votes, each, together)
        shared = {one.name: own for one, own in zip(dates, formats, strict=True)}
        return [
            dataclasses.replace(one, format=shared[one.name])  # type: ignore[call-arg]
            if one.name in shared
            else one
            for one in columns
        ]

    def _complete(
        self, columns: Sequence[Column], budget: DiscoveryBudget
    ) -> tuple[list[Column], list[NoisyMarginal]]:
        """Some columns known, all of text or none, and the marginals released on the way."""
        texts = [column for column in columns if isinstance(column, Listed)]
        if texts:
            from margrave.measure.discovery.text import TextSearch

            where = (self._source, self._gaussian, self._ledger)
            search = TextSearch(*where, budget, SHARES, rows_of(self._totals), self._tell)
            known, marginals = zip(*search.run(texts, self._attributes), strict=True)
            return list(known), [marginal for marginal in marginals if marginal is not None]
        done = []
        for column in columns:
            done.append(self._look_at(column, budget.unit))
            budget.pass_by(self._weight(column))  # what it has left of its share goes to those that follow it
        return settle_zones([known for known, _ in done], self._zones), [marginal for _, marginal in done]

    def _look_at(self, column: Column, unit: Fraction) -> tuple[Column, NoisyMarginal]:
        """A column of numbers, dates or times with bounds and bins, and the marginal of these."""
        if not isinstance(column, Binned):
            raise SchemaError(invalid(f"column {column.name!r}", "of a known kind", "Declare its kind."))
        text = isinstance(self._stored.get(column.name), Unknown)
        (rows, _), sigma = rows_of(self._totals), self._gaussian.sigma
        looks = (
            self._look,
            unit,
            self._least,
            self._most,
            max(rows, 0.0),
            sigma,
            text,
            self._ledger.day,
            column.name in self._guessed,
        )
        known, marginal = NumericDiscovery(self._source, column, *looks, zones=self._zones).run()
        if not isinstance(known, Binned):
            return known, marginal
        wanted = needs(column)
        if isinstance(known, (Date, Moment, Time)) and not isinstance(column, Temporal):
            self._source = self._source.read_as([known])
            # Cycles are asked for in place of different numbers, atoms and grids.
            cycles = {"hours"} if isinstance(known, Moment) else {"weekdays", "month_days"}
            wanted |= cycles if not known.has_months else set()
        ask = functools.partial(self._look, every_row=False)
        known = find_cycles(known, self._source, ask, unit, SHARES, wanted)
        if may_be_keys(column) and isinstance(known, Integer):
            cost = unit * SHARES["distinct"]
            self._tell(f"distinct values of {known.name}")
            known = find_keys(known, self._source, self._gaussian, cost, rows_of(self._totals)[1])
        return as_written(known, self._source, ask, unit, SHARES, needs(column)) if text else known, marginal

    def _least(self, weights: NDArray[np.float64]) -> float:
        """Least mass of a bin: twice the noise that a later one-way measurement will have."""
        # A thirty-second of rho over all columns stands for the later measurement.
        later = self._ledger.total / (32 * max(len(self._stored), 1))
        return min(2.0 * self._gaussian.sigma(later), float(weights.sum()) / 2)

    def _most(self, weights: NDArray[np.float64]) -> int:
        """Most bins of a column, as `bins_for`."""
        rows = max(float(weights.sum()), 0.0)
        bins = bins_for(rows, len(self._stored), self._ledger.total, self._gaussian.sigma)
        return min(bins, self._most_bins)

    def _look(
        self, what: str, exact: Callable[[], NDArray[np.int64]], rho: Fraction, every_row: bool
    ) -> tuple[NDArray[np.float64], float]:
        """A noisy table and its sigma; one that holds every row also tells how many there are."""
        self._tell(what)
        (noisy,), sigma = self._gaussian.ask([what], rho, lambda: [exact()])
        if every_row:
            # Each cell has noise of its own, so the sum has as many variances as cells.
            self._totals.append((float(noisy.sum()), sigma**2 * noisy.size))
        return noisy, sigma

    def _tell(self, message: str) -> None:
        self._on_step(Step("discover", message, 0, float(1 - self._ledger.planned / self._ledger.total)))
