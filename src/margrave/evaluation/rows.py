"""Tables as metrics read them. **Not private**.

`observed_schema` reads a schema off two tables, and `widen_schema` adds what a third one holds besides.
`Rows` is one table: its codes, its raw numbers and its counts. `batches` takes many cliques a few at a time,
so that their tables fit in memory. What scores are to be held against is made here too: `split` holds out
rows, and reference rows are scored in the place of the synthetic ones: a bootstrap, which these could hardly
beat, and a shuffle, which they should beat.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.evaluation.distance import shares
from margrave.schema.columns import (
    Binned,
    Boolean,
    Categorical,
    Column,
    Date,
    Integer,
    Listed,
    Moment,
    Real,
    Temporal,
    Time,
    Unknown,
    Whole,
)
from margrave.schema.domain import Clique, Domain
from margrave.schema.encode import encode, in_usual_form
from margrave.schema.encoded import Codes, Encoded, code_dtype, tabulate_rows
from margrave.schema.profile import PROFILE, TRUTHS
from margrave.schema.queries import readings
from margrave.schema.schema import Schema
from margrave.schema.storage.date_numbers import DIGIT_DATE_VOTES, choose_digit_date_format
from margrave.schema.storage.date_votes import choose_date_format
from margrave.schema.storage.months import MONTH_VOTES
from margrave.schema.storage.numbers import choose_number_format
from margrave.schema.storage.spelling import SPELLINGS, spellings

if TYPE_CHECKING:
    from margrave.protocols import Engine, Source


BINS = 20
"""Bins that a column of numbers is compared in."""
CELLS = 4096
"""Equal cells of the range, from which the edges of the bins are taken."""
MIN_KEY_VALUES = 1000
"""Values from which a text column in which most rows have one of their own tells rows apart."""
CELL_CLASSES: dict[type[Column], tuple[str, ...]] = {
    Real: ("whole", "pointed", "number", "written number"),
    Date: ("date", "written date"),
    Moment: ("date", "moment", "written date", "written moment"),
    Time: ("time",),
    Boolean: TRUTHS,
}
"""Classes of cells that a text column of each kind holds."""


def observed_schema(
    real: Source, synthetic: Source | Sequence[Source], declared: Schema | None = None
) -> Schema:
    """The columns of two or more tables with the values and ranges they hold, under which all encode.

    **Not private**: it reads all tables exactly. Numbers are cut into at most 20 bins of like mass of the
    real table; values and bins that are declared are taken as declared, but absorb values outside.

    Args:
        real: The real table.
        synthetic: The other one, or several, with the same columns.
        declared: What is already known.
    """
    known = {column.name: column for column in declared.columns} if declared else {}
    others = list(synthetic) if isinstance(synthetic, Sequence) else [synthetic]
    columns = []
    for stored in real.columns:
        column = known.get(stored.name, stored)
        seen = column if _is_settled(column) else stored
        columns.append(column if column.known else _observe_column(seen, real, others))
    return Schema(tuple(dataclasses.replace(column, strict=False) for column in columns))


def find_identifying(
    schema: Schema, real: Source, declared: Schema | None = None, *, keep: str | None = None
) -> list[str]:
    """Names of undeclared text columns in which most real rows have a value of their own. **Not private**.

    Counting them compares nothing, and makes tables as large as the rows. One column at least is left.

    Args:
        schema: As `observed_schema` reads it off the tables.
        real: The real table.
        declared: What was known before.
        keep: A column that is never among them.
    """
    known = {column.name for column in declared.columns if column.known} if declared else set()
    found = []
    for column in schema.attributes:
        if (
            isinstance(column, Categorical)
            and column.name not in known | {keep}
            and column.size > MIN_KEY_VALUES
        ):
            rows = int(real.kinds(column.name).reveal()[1:].sum())
            # Most values are of one row each: a name, an address, a number of a file.
            if 2 * len(_list_texts(real, column.name)) > rows:
                found.append(column.name)
    return found if len(found) < len(schema.attributes) else found[1:]


def _list_texts(source: Source, name: str) -> list[str]:
    """The distinct present values of a column as text."""
    return [text for texts, _ in source.value_parts(name) for text in texts]


def _is_settled(column: Column) -> bool:
    """Whether a column is declared but for missing cells: by its values, or by bins that stand for good."""
    if isinstance(column, Listed):
        return column.values is not None
    return isinstance(column, Binned) and column.edges is not None and not (column.provisional or column.rare)


def _observe_column(column: Column, real: Source, others: Sequence[Source]) -> Column:
    kinds = np.sum([source.kinds(column.name).reveal() for source in (real, *others)], axis=0)
    missing = bool(kinds[0] > 0)
    if not isinstance(column, (Binned, Listed)):
        column = _kind(column, kinds)
        column = _with_format(column, kinds, (real, *others))
        if not isinstance(column, Categorical):
            missing = missing or _count_marks(kinds) > 0
    if _is_settled(column):
        marked = isinstance(column, Binned) and _count_marks(kinds) > 0
        return dataclasses.replace(column, missing=missing or marked)
    if isinstance(column, Binned):
        decided = isinstance(column, Temporal) or column.format
        kind = type(column) if decided else Real if kinds[2] > 0 else Integer
        if column.format:
            real, *others = (source.read_as([column]) for source in (real, *others))
        edges = _edges(real, others, column, kind is not Real)
        return kind(name=column.name, edges=edges, missing=missing, format=column.format)
    texts = {text for source in (real, *others) for text in _list_texts(source, column.name)}
    return Categorical(name=column.name, values=tuple(sorted(texts)), missing=missing)


def _kind(column: Column, kinds: NDArray[np.int64]) -> Column:
    """The kind that all present cells of a text column have."""
    textual = isinstance(column, Unknown) and column.textual
    marks = _count_marks(kinds)
    present = kinds.sum() - kinds[0] - marks
    if present and present == _count_months(kinds):
        return Date(name=column.name)
    for kind, held in CELL_CLASSES.items():
        if textual and kind is Real and not kinds[PROFILE.index("written number")]:
            continue
        if present == kinds[[PROFILE.index(name) for name in held]].sum() and (present or not marks):
            return kind(name=column.name)
    return Categorical(name=column.name)


def _count_marks(kinds: NDArray[np.int64]) -> int:
    """Cells that stand for a missing number: marks, and censored results beside as many other cells."""
    marks, censored = int(kinds[PROFILE.index("mark")]), int(kinds[PROFILE.index("censored")])
    return marks + censored * bool(2 * censored <= int(kinds.sum() - kinds[0]) - marks)


def _count_months(kinds: NDArray[np.int64]) -> int:
    """Cells that may be months: numbers such as 10.2011, too, where as many are surely none, as 05.2011."""
    months, numbers = int(kinds[PROFILE.index("written month")]), int(kinds[PROFILE.index("number")])
    return months + numbers if months >= numbers else months


def _with_format(column: Column, kinds: NDArray[np.int64], sources: Sequence[Source]) -> Column:
    """A text column with the format that most of its numbers or dates fit."""
    written = [kinds[PROFILE.index(f"written {read}")] > 0 for read in ("number", "date", "moment")]
    if isinstance(column, Date) and kinds[PROFILE.index("written month")] > 0:
        months = np.sum(
            [source.spellings(column.name, "month format").reveal() for source in sources], axis=0
        )
        alike = int(months.max()) == _count_months(kinds)
        return (
            dataclasses.replace(column, format=MONTH_VOTES[int(np.argmax(months))])
            if alike
            else Categorical(name=column.name)
        )
    if isinstance(column, Categorical):
        return _as_digit_dates(column, kinds, sources)
    if not isinstance(column, Binned) or not any(written):
        return column
    read = "date format" if isinstance(column, Temporal) else "number format"
    votes = np.sum([source.spellings(column.name, read).reveal() for source in sources], axis=0)
    if isinstance(column, Temporal):
        return dataclasses.replace(column, format=choose_date_format(votes, 0.0))
    found = choose_number_format(votes, 0.0)
    if found is None:
        return Categorical(name=column.name)
    written_as, decimals = found
    return (Real if decimals else Integer)(name=column.name, format=written_as)


def _as_digit_dates(column: Categorical, kinds: NDArray[np.int64], sources: Sequence[Source]) -> Column:
    """A column of dates in eight digits, if all its cells are such, in one format."""
    present = int(kinds.sum() - kinds[0]) - _count_marks(kinds)
    if not 0 < present == int(kinds[PROFILE.index("padded")] + kinds[PROFILE.index("whole")]):
        return column
    votes = np.sum([source.spellings(column.name, "digit format").reveal() for source in sources], axis=0)
    dates, others = votes[-len(DIGIT_DATE_VOTES) :], votes[: -len(DIGIT_DATE_VOTES)]
    if present not in (int(dates[:-1].sum()), int(dates[-1])):  # with the year last, or first
        return column
    return Date(name=column.name, format=choose_digit_date_format(dates, others, 0.0))


def _edges(real: Source, others: Sequence[Source], column: Binned, whole: bool) -> tuple[float, ...]:
    """Bin edges of like mass between the extremes, to a 4096th of the range."""
    # A source answers histograms on given edges only, so the range is found on a grid of powers of two
    # first, and then cut finely.
    reach = 2.0 ** np.arange(-40, 64)
    grid = np.concatenate([-reach[::-1], [0.0], reach])
    name, read = column.name, column.read
    counts = np.sum([source.histogram(name, grid, read).reveal() for source in (real, *others)], axis=0)
    held = np.flatnonzero(counts)
    if not len(held):
        return (0.0, 1.0)
    low, high = float(grid[held[0]]), float(grid[held[-1] + 1])
    fine = np.linspace(low, high, CELLS + 1)
    if whole:
        fine = np.unique(np.floor(fine))
    fine = np.append(fine, fine[-1] + 1) if len(fine) < 2 else fine
    cells = real.histogram(name, fine, read).reveal()
    return _quantiles(fine, cells)


def _quantiles(edges: NDArray[np.float64], counts: NDArray[np.int64]) -> tuple[float, ...]:
    target = max(counts.sum() / BINS, 1.0)
    kept, mass = [float(edges[0])], 0.0
    for edge, count in zip(edges[1:-1], counts[:-1], strict=True):
        mass += float(count)
        if mass >= target:
            kept.append(float(edge))
            mass = 0.0
    return (*kept, float(edges[-1]))


def widen_schema(schema: Schema, other: Source, declared: Schema | None = None) -> Schema:
    """The schema with codes for the values and missing cells that only `other` has.

    **Not private**: it reads the table exactly. Without it a category of held-out rows that neither other
    table holds would be taken for one that they do. Bins stay as they are: the end ones take what is
    beyond. What is declared stays as declared.

    Args:
        schema: Made by `observed_schema` of the other two tables.
        other: The third table, with the same columns.
        declared: What was known of the columns before any was read.
    """
    known = {column.name for column in declared.columns if column.known} if declared else set()
    columns = (
        column if column.name in known or not column.attribute else _wider(column, other)
        for column in schema.columns
    )
    return dataclasses.replace(schema, columns=tuple(columns))


def _wider(column: Column, other: Source) -> Column:
    missing = bool(column.missing) or bool(other.kinds(column.name).reveal()[0] > 0)
    if not isinstance(column, Categorical) or column.values is None or column.other is not None:
        return dataclasses.replace(column, missing=missing)
    listed = {str(value) for value in column.values}
    more = [text for text in _list_texts(other, column.name) if text not in listed]
    return dataclasses.replace(column, values=(*column.values, *sorted(more)), missing=missing)


Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Rows:
    """One table as metrics read it. **Not private** where the rows are real: its repr shows names only.

    Args:
        encoded: The rows as codes.
        numbers: The raw numbers of the numeric columns, by name, NaN where missing, each of shape [rows].
        engine: Counts the rows; counted here without one, with the same answers.
        exact: Whether the numbers are those stored, and not middles of bins.
        spelt: How the texts of numbers, moments and times are written, by column, where they are texts: cells
            by the spellings of `schema.storage.spelling.SPELLINGS`. Taken or permuted rows keep those of the
            table.

    Raises:
        InputError: The numbers are of another length than the codes.
    """

    encoded: Encoded
    numbers: Mapping[str, Numbers] = field(default_factory=dict)
    engine: Engine | None = None
    exact: bool = True
    spelt: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any(values.shape != (self.encoded.rows,) for values in self.numbers.values()):
            raise InputError(invalid("numbers", "one a row", "Read codes and numbers off one table."))

    @classmethod
    def of(cls, table: Any, schema: Schema, engine: Engine | None = None) -> Rows:
        """A pyarrow.Table encoded under a schema, with its raw numbers. **Not private**.

        Args:
            table: The schema's columns, stored as `margrave.schema.storage.forms.keep_column` leaves them.
            schema: All of its columns known.
            engine: Counts the same rows.

        Raises:
            InputError: The table does not fit the schema; the error holds no value.
        """
        binned = [column for column in schema.attributes if isinstance(column, Binned)]
        held = {column.name: in_usual_form(table.column(column.name), column) for column in binned}
        numbers = {column.name: _raw(held[column.name], column) for column in binned}
        spelt = {
            column.name: counts
            for column in binned
            if column.read in SPELLINGS
            and (counts := spellings(held[column.name], column.read, column.name)).any()
        }
        return cls(encode(table, schema), numbers, engine, spelt=spelt)

    @classmethod
    def from_codes(cls, encoded: Encoded, schema: Schema, engine: Engine | None = None) -> Rows:
        """Rows of which only the codes are known: the middle of a bin stands for its numbers.

        Raises:
            InputError: The codes are not of the schema's domain.
        """
        if encoded.domain != schema.domain:
            raise InputError(invalid("encoded", "under the schema's domain", "Encode with this schema."))
        numbers = {
            column.name: _middles(column)[encoded.column(column.name)]
            for column in schema.attributes
            if isinstance(column, Binned)
        }
        return cls(encoded, numbers, engine, exact=False)

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""
        return self.encoded.domain

    @property
    def size(self) -> int:
        """Number of rows."""
        return self.encoded.rows

    def count(self, cliques: Sequence[Clique]) -> list[NDArray[np.int64]]:
        """Rows in each cell of each clique's table. **Not private**."""
        if self.engine is not None:
            return [counts.reveal() for counts in self.engine.count(cliques)]
        return [tabulate_rows(self.encoded, self.domain, clique).astype(np.int64) for clique in cliques]

    def take(self, places: NDArray[np.int64]) -> Rows:
        """Some of the rows, in the order given; counted here."""
        codes = tuple(column[places] for column in self.encoded.columns)
        numbers = {name: values[places] for name, values in self.numbers.items()}
        return Rows(Encoded(self.domain, codes), numbers, exact=self.exact, spelt=self.spelt)

    def permute_columns(self, places: Mapping[str, NDArray[np.int64]]) -> Rows:
        """The table with each column in an order of its own."""
        codes = tuple(self.encoded.column(name)[places[name]] for name in self.domain.names)
        numbers = {name: values[places[name]] for name, values in self.numbers.items()}
        return Rows(Encoded(self.domain, codes), numbers, exact=self.exact, spelt=self.spelt)

    def __repr__(self) -> str:
        return f"Rows({list(self.domain.names)})"


def _raw(array: Any, column: Binned) -> Numbers:
    values, known = readings(array, column.read, column.name)
    return np.where(known, values.astype(np.float64), np.nan)


def _middles(column: Column) -> Numbers:
    """The number that stands for each code, NaN for missing: shape [codes]."""
    assert isinstance(column, Binned)  # noqa: S101 - asked of numeric columns only
    edges = column.edge_array
    last = 1.0 if isinstance(column, Whole) else 0.0
    middles = (edges[:-1] + edges[1:] - last) / 2
    return np.append(middles, np.full(column.size - column.present, np.nan))


BATCH_CELLS = 1 << 22
"""Cells of the tables that are counted together."""


def batches(domain: Domain, cliques: Sequence[Clique]) -> Iterator[list[Clique]]:
    """The cliques in their order, in runs of at most BATCH_CELLS cells or of one clique."""
    batch: list[Clique] = []
    cells = 0
    for clique in cliques:
        size = domain.size(clique)
        if batch and cells + size > BATCH_CELLS:
            yield batch
            batch, cells = [], 0
        batch.append(clique)
        cells += size
    if batch:
        yield batch


def split(rows: Rows, share: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows to make synthetic ones from and rows to hold out, at random. **Not private**.

    Args:
        rows: Real rows, two or more.
        share: Share to hold out, in (0, 1); at least one row goes to each side.
        rng: Draws the rows.

    Returns:
        The rows to learn from, and those held out, each in the order they had.

    Raises:
        InputError: The share is not inside (0, 1), or there are fewer than two rows.
    """
    if not 0 < share < 1:
        raise InputError(invalid("share", "between 0 and 1, both excluded", "Try 0.2.", got=share))
    if rows.size < 2:
        raise InputError(invalid("rows", "of two rows or more", "There is nothing to split."))
    held = min(max(round(rows.size * share), 1), rows.size - 1)
    order = rng.permutation(rows.size)
    return rows.take(np.sort(order[held:])), rows.take(np.sort(order[:held]))


def bootstrap_rows(rows: Rows, rng: np.random.Generator) -> Rows:
    """As many rows, drawn with replacement: what is left is sampling error. **Not private**."""
    return rows.take(rng.integers(0, rows.size, rows.size))


def shuffled_rows(rows: Rows, rng: np.random.Generator) -> Rows:
    """The table with each column shuffled by itself: all association is gone. **Not private**."""
    return rows.permute_columns({name: rng.permutation(rows.size) for name in rows.domain.names})


def references(real: Rows, rng: np.random.Generator) -> dict[str, Rows]:
    """Tables to score in the synthetic one's place, by the names that `compare` gives them. **Not private**.

    A good synthetic table scores near "bootstrap" and better than "shuffled"; see `REFERENCES`.
    """
    return {"bootstrap": bootstrap_rows(real, rng), "shuffled": shuffled_rows(real, rng)}


REFERENCES = {
    "bootstrap": (
        "As many rows as the real table, drawn from it with replacement: what is left is "
        "sampling error. Each table of counts is drawn by itself."
    ),
    "shuffled": (
        "The real table with each column shuffled by itself: every column is exact and all "
        "association is gone."
    ),
}

MOST_ROWS = 2_000_000
"""Tables with more rows are not shuffled row by row; see `Shuffled`."""


def bootstrap(counts: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.float64]:
    """The table of counts of a bootstrap sample of the rows, as shares. **Not private**.

    The counts of n rows drawn with replacement are multinomial with the table's shares.
    """
    drawn = rng.multinomial(int(counts.sum()), shares(counts).ravel())
    return shares(drawn.reshape(counts.shape))


class Shuffled:
    """The real table with every column shuffled independently. **Not private**.

    Only one-way counts are needed: they say which values to shuffle. Above MOST_ROWS rows the tables are
    those of the limit, products of one-way shares.

    Args:
        domain: Names and sizes of the attributes.
        counts: One-way counts of each attribute, shape [size].
        rng: Draws the permutations.
    """

    def __init__(
        self, domain: Domain, counts: Mapping[str, NDArray[np.int64]], rng: np.random.Generator
    ) -> None:
        self._domain = domain
        self._shares = {name: shares(table) for name, table in counts.items()}
        self._codes: dict[str, Codes] = {}
        if all(int(table.sum()) <= MOST_ROWS for table in counts.values()):
            for name, table in counts.items():
                values = np.arange(table.size, dtype=code_dtype(table.size))
                self._codes[name] = rng.permutation(np.repeat(values, table))

    def share(self, clique: Clique) -> NDArray[np.float64]:
        """The shares of a clique's cells in the shuffled table, shape domain.shape(clique)."""
        shape = self._domain.shape(clique)
        if not self._codes:
            product = np.ones(())
            for name in clique:
                product = np.multiply.outer(product, self._shares[name])
            return product
        cell = np.zeros(self._codes[clique[0]].shape[0], dtype=np.int64)
        for name, size in zip(clique, shape, strict=True):
            cell = cell * size + self._codes[name]
        return shares(np.bincount(cell, minlength=math.prod(shape)).reshape(shape))
