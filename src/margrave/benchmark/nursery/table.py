"""What every table of the nursery is made with: a stream of random numbers, and the table itself.

`Draws` gives random numbers that are the same under every version of numpy and on every platform. numpy
promises that the raw stream of PCG64 and the mixing of `SeedSequence` never change, but not the methods of
`Generator`, which may draw a normal number otherwise in the next version. So everything here is a function
of the raw stream: uniform numbers, and all else by the inverse of a distribution function.

`NurseryTable` is one table, made when it is asked for. Generators return their columns by name, and
`to_arrow` makes an Arrow table of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

if TYPE_CHECKING:
    import pyarrow as pa


Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


class Draws:
    """A stream of random numbers.

    Args:
        seed: A whole number, not negative.
        word: Keeps streams of one seed apart, such as the name of a table.
    """

    def __init__(self, seed: int, word: str) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([seed, crc32(word.encode())]))

    def uniform(self, *shape: int) -> Floats:
        """Numbers in (0, 1), neither end included."""
        raw = self._bits.random_raw(int(np.prod(shape, dtype=np.int64)))
        # 52 bits and a half: the largest is 1 - 2^-53, which a float64 can still tell from 1.
        steps = (np.asarray(raw, dtype=np.uint64) >> np.uint64(12)).astype(np.float64) + 0.5
        return np.asarray(steps.reshape(shape) * 2.0**-52, dtype=np.float64)

    def between(self, low: float, high: float, *shape: int) -> Floats:
        """Numbers in (low, high), each as likely as any other."""
        return low + (high - low) * self.uniform(*shape)

    def normal(self, *shape: int) -> Floats:
        """Standard normal numbers."""
        return np.asarray(ndtri(self.uniform(*shape)), dtype=np.float64)

    def exponential(self, *shape: int) -> Floats:
        """Exponential numbers of mean 1."""
        return -np.log(self.uniform(*shape))

    def pareto(self, tail: float, *shape: int) -> Floats:
        """Pareto numbers above 1: the chance to exceed x is x to the power of -tail."""
        return np.asarray(self.uniform(*shape) ** (-1.0 / tail), dtype=np.float64)

    def gamma(self, mean: float, *shape: int) -> Floats:
        """Gamma numbers of scale 1."""
        return np.asarray(gammaincinv(mean, self.uniform(*shape)), dtype=np.float64)

    def geometric(self, chance: float | NDArray[np.floating[Any]], *shape: int) -> Whole:
        """Failures before the first success, 0 up; `chance` is one number or one a draw."""
        failures = np.log(self.uniform(*shape)) / np.log1p(-np.asarray(chance, dtype=np.float64))
        return np.asarray(np.floor(failures), dtype=np.int64)

    def below(self, count: int, *shape: int) -> Whole:
        """Whole numbers from 0 to count - 1, each as likely as any other."""
        found = np.asarray(self.uniform(*shape) * count, dtype=np.int64)
        return np.minimum(found, count - 1)

    def flags(self, chance: float | NDArray[np.floating[Any]], *shape: int) -> NDArray[np.bool_]:
        """True with a chance, which is one number or one a draw."""
        return np.asarray(self.uniform(*shape) < chance, dtype=np.bool_)

    def codes(self, weights: Sequence[float] | Floats, *shape: int) -> Whole:
        """Codes of which each is as likely as its weight says."""
        ends = np.cumsum(np.asarray(weights, dtype=np.float64))
        found = np.searchsorted(ends, self.uniform(*shape) * ends[-1], side="right")
        return np.asarray(np.minimum(found, ends.size - 1), dtype=np.int64)

    def codes_by_row(self, scores: Floats) -> Whole:
        """One code a row, as likely as the exponential of its score: scores of shape [rows, codes]."""
        gumbel = -np.log(self.exponential(*scores.shape))
        return np.asarray(np.argmax(scores + gumbel, axis=1), dtype=np.int64)

    def permutation(self, count: int) -> Whole:
        """0 to count - 1 in an order drawn at random."""
        return np.asarray(np.argsort(self.uniform(count), kind="stable"), dtype=np.int64)


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


def logistic(score: float | Floats) -> Floats:
    """The chance whose log odds are the score."""
    return np.asarray(1 / (1 + np.exp(-np.asarray(score, dtype=np.float64))), dtype=np.float64)


def zipf_weights(count: int, power: float = 1.1) -> Floats:
    """Weights of a few frequent and many rare codes: 1 over the rank to a power, shape [count]."""
    return np.asarray(1.0 / np.arange(1, count + 1) ** power, dtype=np.float64)
