"""NurseryTable: one table of the nursery, made when it is asked for; how columns become an Arrow table."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from margrave.benchmark.nursery.draws import Draws, Floats, Whole

if TYPE_CHECKING:
    import pyarrow as pa

Half = Literal["choosing", "reporting"]
HALVES: tuple[Half, ...] = ("choosing", "reporting")
Columns = dict[str, NDArray[Any]]
"""Columns by name: whole numbers, floats, truth values, texts, dates or time stamps; masked where missing."""
FINGERPRINT_ROWS = 200
"""Rows from which the fingerprint of a generator is taken: enough to see any change of it, made in
milliseconds."""


@dataclass(frozen=True, slots=True)
class NurseryTable:
    """One table of the nursery.

    Args:
        name: Unique in the nursery.
        family: What its generator is about; tables of a family differ in seed and parameters.
        half: "choosing": constants may be chosen on it; "reporting": figures are reported on it, no more.
        make: Makes the columns from a number of rows, `Draws` and the parameters. It draws the structure
            before the rows, so that a shorter table has the same one.
        rows: How many it has.
        seed: Of its draws.
        shows: What it is meant to show, a line.
        parameters: Keyword arguments of `make`.
        target: A column to predict; empty if there is none.
        owner: The column that says whose row it is; empty if each row is somebody's only one.
        max_rows: At most this many rows of an owner are used.
        cut: How the benchmark cuts its numbers into bins where they are declared: "equal" or "quantile".
        needs: The package that ships its data; empty for made-up tables.
        source: Where real data come from, and under which terms.
    """

    name: str
    family: str
    half: Half
    make: Callable[..., Columns]
    rows: int
    seed: int
    shows: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    target: str = ""
    owner: str = ""
    max_rows: int = 1
    cut: Literal["equal", "quantile"] = "equal"
    needs: str = ""
    source: str = ""

    @property
    def word(self) -> str:
        """How grids and `load_nursery_table` name it: its half, a stroke, its name."""
        return f"{self.half}/{self.name}"

    def load(self, rows: int | None = None) -> pa.Table:
        """The table, made anew by each call.

        Args:
            rows: Another number of rows, of the same structure; for made-up tables only, real ones are cut.

        Raises:
            MissingExtraError: The package that ships its data is not installed.
        """
        wanted = self.rows if rows is None else rows
        return to_arrow(self.make(wanted, Draws(self.seed, self.family), **self.parameters))

    def fingerprint(self) -> str:
        """16 hexadecimal digits that change when the generator, the seed or a parameter does."""
        table = self.load(FINGERPRINT_ROWS)
        found = hashlib.sha256(repr((self.rows, self.target, self.owner, self.max_rows)).encode())
        for name in table.column_names:
            column = table.column(name)
            found.update(f"{name} {column.type}".encode())
            found.update("\n".join(map(repr, column.to_pylist())).encode())
        return found.hexdigest()[:16]


def to_arrow(columns: Columns) -> pa.Table:
    """Columns as an Arrow table: dates of numpy's days, time stamps without zone of its seconds."""
    import pyarrow as pa

    made: dict[str, Any] = {}
    for name, values in columns.items():
        mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
        kind = pa.date32() if values.dtype == np.dtype("datetime64[D]") else None
        made[name] = pa.array(np.ma.getdata(values), type=kind, mask=mask)
    return pa.table(made)


def name_codes(codes: Whole, word: str, count: int) -> NDArray[np.str_]:
    """Texts for codes 0 to count - 1: a word and the code, with as many digits as the largest needs."""
    digits = len(str(count - 1))
    return np.char.mod(f"{word} %0{digits}d", codes)


def grade(scores: Floats, grades: int) -> Whole:
    """Grades 0 up of like many rows each, by score; fewer where many scores are equal."""
    ends = np.quantile(scores, np.arange(1, grades) / grades)
    return np.asarray(np.searchsorted(ends, scores, side="right"), dtype=np.int64)


def zipf_weights(count: int, power: float = 1.1) -> Floats:
    """Weights of a few frequent and many rare codes: 1 over the rank to a power, shape [count]."""
    return np.asarray(1.0 / np.arange(1, count + 1) ** power, dtype=np.float64)
