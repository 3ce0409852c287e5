"""slicing: a noisy copy of every row of a matrix of numbers, and generators trained against it.

    release = mg.slicing.release(X, epsilon=5.0, delta=1e-5, lower=0.0, upper=1.0)
    generator = mg.slicing.make_generator(release)
    mg.slicing.train(release, generator, loss="kl")
    rows = mg.slicing.sample(release, generator, 1000)

Only `release` looks at X and costs anything; the rest may be done any number of times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.archive import load_slices, save_slices
from margrave.errors import InputError, check_counts, hide_sizes, invalid
from margrave.limits import machine_memory
from margrave.measure.curator import Curator
from margrave.models._torch.device import ready, serial
from margrave.models.sliced.divergence import DIVERGENCES, SlicedDivergence, SlicedWasserstein
from margrave.models.sliced.training import (
    Course,
    NoisyRows,
    RowGenerator,
    SliceLoss,
    draw_rows,
    train_generator,
)
from margrave.privacy.accounting.accountants import GDP
from margrave.privacy.accounting.events import Event
from margrave.privacy.ledger.ledger import Ledger, check_budget
from margrave.privacy.ledger.location import LedgerLocation
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.release import Guarantee, NoisySlices, project_simplex
from margrave.schema.columns import Integer
from margrave.schema.features import RowNumbers
from margrave.schema.schema import Schema
from margrave.select.from_rows import COPY_BYTES

if TYPE_CHECKING:
    from margrave.privacy.ledger.book import Book

__all__ = [
    "Course",
    "RowGenerator",
    "SliceRelease",
    "SlicedDivergence",
    "SlicedWasserstein",
    "load",
    "make_generator",
    "release",
    "sample",
    "train",
]


Floats = NDArray[np.float64]

LEAST_SHARE = 0.02
"""Part of the bounds that a generator's start keeps from either: there the logistic function is flat."""
WASSERSTEIN = "wasserstein"
"""The name of the sliced Wasserstein distance as a loss."""
LEVELS = 256
"""Levels that numbers are rounded to where nothing is said: those of a grey value."""


@dataclass(frozen=True, slots=True, eq=False)
class SliceRelease:
    """Noisy copies of all rows of a matrix of numbers, in random order.

    Args:
        slices: The copies, in units of the larger bound.
        lower, upper: The bounds of the numbers.
        guarantee: What the release promises.
        events: What was spent.
    """

    slices: NoisySlices
    lower: float
    upper: float
    guarantee: Guarantee
    events: tuple[Event, ...]

    @property
    def scale(self) -> float:
        """The larger bound: what the numbers were divided by."""
        return max(abs(self.lower), abs(self.upper))

    @property
    def values(self) -> Floats:
        """The noisy copies, in units of X: shape [rows, features]."""
        return np.asarray(self.slices.values * self.scale)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise in each number, in units of X."""
        return self.slices.sigma * self.scale

    def moments(self) -> tuple[Floats, Floats]:
        """Unbiased estimates of the mean over rows of x, shape [features], and of x x', [features, features].

        Both are of the rows as they were released: rounded to levels, and shortened where they were too long.
        """
        rows = max(len(self.slices.values), 1)
        return self.values.sum(axis=0) / rows, self.slices.second_moments() * self.scale**2

    def project(self, directions: Any, rng: int | np.random.Generator | None = None) -> tuple[Floats, float]:
        """Noisy projections on directions of your own, X U + W, and the standard deviation of W; it is free.

        The published mechanism draws directions U at random, releases X U + W with independent noise of
        standard deviation s, and trains on that. A release of this law follows from the copies X + V, V of
        standard deviation t, at no cost. **Proof.** (X + V) U has the noise V U, whose rows have covariance
        t^2 U'U. With l the largest singular value of U and s = t l, the matrix s^2 I - t^2 U'U has no
        negative eigenvalue, so there is independent noise of that covariance; added to V U it makes s^2 I.
        (V is rounded to steps of 2^-10 of the larger bound, so the law is the same up to that.)
        *Price.* For known U and rows at a distance of at most D, X U + W is mu-GDP with mu = l D / s = D / t:
        that of the copies, whatever U is. The paper's price is a mean over U instead
        (`margrave.privacy.accounting.projections.random_epsilon`), which is that of less noise, but of no
        Gaussian event, so that a ledger could not add it to others.

        Args:
            directions: U, [features, directions], chosen without looking at X; for those of the paper
                `rng.standard_normal((d, m)) / d**0.5`.
            rng: Seed or generator of the noise that is added.

        Returns:
            The projections, in units of X, shape [rows, directions], and s.

        Raises:
            InputError: The directions are not finite numbers of that shape, or all 0.
        """
        drawn = np.asarray(directions, dtype=np.float64)
        features = self.slices.values.shape[1]
        if drawn.ndim != 2 or len(drawn) != features or not np.isfinite(drawn).all() or not drawn.any():
            constraint = f"finite numbers of shape [{features}, directions], not all 0"
            raise InputError(invalid("directions", constraint, "Draw them without looking at X."))
        _, lengths, axes = np.linalg.svd(drawn, full_matrices=False)
        # Along the axes of U'U the noise V U has the variances t^2 lengths^2; elsewhere it has none.
        missing = np.eye(drawn.shape[1])
        there = (lengths / lengths[0]) ** 2
        missing -= axes.T @ ((1.0 - np.sqrt(1.0 - there))[:, None] * axes)
        sigma = self.sigma * float(lengths[0])
        shape = (len(self.slices.values), drawn.shape[1])
        added = np.random.default_rng(rng).standard_normal(shape) @ missing
        return self.values @ drawn + sigma * added, sigma

    def save(self, path: str | Path) -> None:
        """Write the release to a file, which holds what was released and nothing of X besides.

        Args:
            path: Of the file, by custom with the ending .margrave.

        Raises:
            InputError: The path cannot be written.
        """
        save_slices(self.slices, (self.lower, self.upper), self.guarantee, self.events, path)


def load(path: str | Path) -> SliceRelease:
    """The release that `SliceRelease.save` wrote.

    Raises:
        ReleaseError: The file is missing, damaged, of something else, or of a newer version of margrave.
    """
    slices, (lower, upper), guarantee, events = load_slices(path)
    return SliceRelease(slices, lower, upper, guarantee, events)


@hide_sizes
def release(
    X: Any,
    *,
    epsilon: float,
    delta: float,
    lower: float = 0.0,
    upper: float = 1.0,
    adjacency: Adjacency = "zero_out",
    longest: float | None = None,
    levels: int = LEVELS,
    max_memory: int | None = None,
    ledger: str | Path | Book | None = None,
    dataset: str | None = None,
    analyst: str | None = None,
) -> SliceRelease:
    """A noisy copy of every row: the slicing mechanism on a tight frame (arXiv 2410.19941).

    **Privacy.** (epsilon, delta)-differentially private for one row, the number of rows public; see
    `margrave.measure.mechanisms.slices` for the proof. Numbers are moved into the bounds and rounded to
    levels row by row, so bounds and levels must not be taken from X.

    Args:
        X: Numbers, shape [rows, features]. What is not a number counts as the number within the bounds
            that is nearest 0: NaN, and None, a text or the like in a list, a frame or an array of objects.
        epsilon, delta: The budget, all of which is spent.
        lower, upper: Bounds of all numbers, declared.
        adjacency: "zero_out" (one row's numbers become 0) or "replace_one", which costs up to twice as much.
        longest: Euclidean length to which longer rows are shortened, in units of X; None for what the bounds
            allow. Where it is given, how many rows are longer is released with noise for a hundredth of the
            budget.
        levels: Evenly spaced levels, the bounds among them, that numbers are rounded to; 0 is one more where
            it lies between the bounds and is none of them.
        max_memory: Bytes that this may take; those of the machine by default.
        ledger, dataset, analyst: As for `Synthesizer`.

    Raises:
        InputError: X or an argument cannot be used, or the release would not fit into memory.
        BudgetError: A cap in the book leaves no room.
        MemoryError: The machine has too little; the error names no size.
    """
    check_budget(epsilon, delta)
    grid = _spread_levels(lower, upper, levels)
    scale = max(abs(lower), abs(upper))
    location = LedgerLocation(ledger, dataset, analyst)
    # A refused or broken try is an attempt that a book records, before anything about the rows is known.
    with location.attempt() as attempt:
        from margrave.engines.opening import open_source

        keep = location.keep({"question": f"noisy copies of {_check_shape(X, max_memory)}"}, attempt=attempt)
        neighbours = Neighbours(Unit(), adjacency)
        with Ledger(epsilon=epsilon, delta=delta, neighbours=neighbours, accountant=GDP(), keep=keep) as book:
            # No row is looked at before the run is on record: whether it is may follow from none.
            numbers = _check_matrix(X, max_memory)
            names = tuple(f"x{place}" for place in range(numbers.shape[1]))
            curator = Curator(open_source(_encode(numbers, names, grid))[0], book)
            curator.discover(_declare_levels(names, len(grid)))
            asked = RowNumbers(names, ((grid / scale)[None, :],) * len(names), constant=False)
            cut = None if longest is None else longest / scale
            found = curator.slices(asked, curator.remaining, cut)
            return SliceRelease(found, float(lower), float(upper), Guarantee.of(book), tuple(book.events))


def _spread_levels(lower: float, upper: float, levels: int) -> Floats:
    """What numbers are rounded to, ascending: evenly spaced levels, and 0 where it lies between the bounds.

    Under "zero_out" the numbers of a row become 0, and the price is that of vectors that become 0: so 0 has
    to be a level where a number may be 0.

    Raises:
        InputError: The bounds or the number of levels cannot be used.
    """
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
        raise InputError(invalid("lower", "finite and below upper", "Try lower=0.0, upper=1.0.", got=lower))
    if not 2 <= levels <= 1 << 16:
        raise InputError(invalid("levels", "from 2 to 65,536", "Try 256.", got=levels))
    even = np.linspace(lower, upper, levels)
    return np.union1d(even, [0.0]) if lower < 0.0 < upper else even


def _declare_levels(names: Sequence[str], levels: int) -> Schema:
    """Columns of places in the grid. Each number has one by now; a book takes no strict columns."""
    edges = tuple(range(levels + 1))
    return Schema(tuple(Integer(name=name, edges=edges, missing=False, strict=False) for name in names))


def _check_shape(X: Any, max_memory: int | None) -> str:
    """What X is in words, from its shape and its type alone: arrays and frames say theirs, lists do not.

    Raises:
        InputError: It is no matrix of numbers, whatever its rows hold, or a release of it would not fit into
            memory.
    """
    shape = getattr(X, "shape", None)
    if not isinstance(shape, tuple):  # how many numbers a list has is a matter of its rows
        return "rows of numbers"
    kind = X.dtype.kind if isinstance(X, np.ndarray) else "O"
    if len(shape) != 2 or not shape[1] or kind not in "biufO":
        raise _no_matrix()
    _check_memory(shape[0] * shape[1], max_memory)
    return f"{shape[1]} numbers"


def _check_matrix(X: Any, max_memory: int | None) -> NDArray[Any]:
    """X as an array of numbers with two axes.

    Raises:
        InputError: It is none, or a release of it would not fit into memory.
    """
    found = _read_numbers(X)
    if found.ndim != 2 or not found.shape[1] or found.dtype.kind not in "biuf":
        raise _no_matrix()
    _check_memory(found.size, max_memory)
    return found


def _no_matrix() -> InputError:
    """The error about an X that is no matrix of numbers."""
    remedy = "Give a NumPy array; flatten images to one row each."
    return InputError(invalid("X", "a matrix of numbers, [rows, features]", remedy))


def _check_memory(numbers: int, max_memory: int | None) -> None:
    """Check that a release of so many numbers fits into memory.

    Raises:
        InputError: It does not.
    """
    limit = machine_memory() if max_memory is None else max_memory
    if limit is not None and numbers * COPY_BYTES > limit:
        remedy = "Release fewer rows or features, or raise max_memory."
        raise InputError(invalid("X", f"of at most {limit // COPY_BYTES} numbers for this memory", remedy))


def _read_numbers(X: Any) -> NDArray[Any]:
    """X as an array, in which a cell that is no number is NaN.

    One such cell makes texts or objects of all cells of a list or a frame. Were that refused, the error would
    follow a single cell; so each is then read on its own.
    """
    kind = np.dtype(object)
    if not isinstance(X, np.ndarray) or X.dtype == kind:
        try:
            plain = np.asarray(X)
        except ValueError:  # rows of different lengths
            return np.zeros(0)
        # An array's own type is public, that of a list or a frame follows its cells.
        if plain.dtype.kind not in "biuf":
            cells = np.asarray(X, dtype=kind)
            read = np.fromiter((_read_number(cell) for cell in cells.flat), np.float64, cells.size)
            return np.asarray(read.reshape(cells.shape))
    return np.asarray(X)


def _read_number(cell: Any) -> float:
    """A cell as a number; NaN if it is none."""
    if not isinstance(cell, str | bytes):
        with suppress(TypeError, ValueError):
            try:
                return float(cell)
            except OverflowError:  # a whole number that no float holds
                return math.copysign(math.inf, 1 if cell > 0 else -1)
    return math.nan


def _encode(numbers: NDArray[Any], names: Sequence[str], grid: Floats) -> Any:
    """The place of each number's level in the grid, as a table; it depends on that number alone."""
    import pyarrow as pa

    nearest = min(max(0.0, grid[0]), grid[-1])
    between = (grid[:-1] + grid[1:]) / 2.0
    columns = []
    for column in numbers.T:
        # What is beyond a bound has the level at that bound, infinity as well.
        with np.errstate(over="ignore"):  # a warning would tell of a long double that no double holds
            held = column.astype(np.float64)
        whole = np.nan_to_num(held, nan=nearest, posinf=grid[-1], neginf=grid[0])
        columns.append(np.searchsorted(between, whole, side="right").astype(np.int32))
    return pa.table(dict(zip(names, columns, strict=True)))


def make_generator(
    release: SliceRelease,
    *,
    widths: Sequence[int] = (128,),
    noise: int = 64,
    classes: int = 0,
    from_means: bool = True,
    seed: int = 0,
    device: str | None = None,
) -> RowGenerator:
    """An untrained generator of rows with as many numbers as a release's.

    Args:
        release: What it will be trained against.
        widths: Of its hidden layers.
        noise: Length of a noise vector.
        classes: For a generator that is told the class of a row: how many classes there are. The first
            numbers of each row of X have to be their indicators, the upper bound for the row's class and the
            lower bound for the others.
        from_means: Whether its last offsets start so that the middle row has the released means, moved into
            the middle 96 % of the bounds; else they start at random, as in the paper.
        seed: Of its starting weights.
        device: Where to compute: "cpu" or None, "cuda", "cuda:1" or "mps".

    Raises:
        InputError: An argument is out of range.
        MissingExtraError: PyTorch is not installed.
    """
    check_counts(noise=noise)
    features = release.slices.values.shape[1]
    if not 0 <= classes < features:
        constraint = f"0, or a number of classes below the {features} numbers of a row"
        raise InputError(invalid("classes", constraint, "Put indicators before the numbers.", got=classes))
    rng, place = np.random.default_rng(seed), ready(device)
    generator = RowGenerator(place, noise, widths, (), rng, numbers=features - classes, labels=classes)
    # Begun at the released means, so that training goes into what rows have beyond them.
    if from_means and len(release.slices.values):
        means = (release.values.mean(axis=0)[classes:] - release.lower) / (release.upper - release.lower)
        shares = np.clip(means, LEAST_SHARE, 1.0 - LEAST_SHARE)
        with place.torch.no_grad():
            logits = place.put(np.log(shares / (1.0 - shares)), place.torch.float32)
            generator.weights[-1][:, -1] = logits
    return generator


def train(
    release: SliceRelease,
    generator: RowGenerator,
    loss: str | SliceLoss = "kl",
    course: Course | None = None,
) -> list[float]:
    """Train a generator against a release, any number of times at no cost; its weights change.

    Args:
        release: Noisy copies.
        generator: Of `make_generator`.
        loss: "kl", "chi_square", "jensen_shannon" or "total_variation" for a smoothed-sliced divergence,
            "wasserstein" for the sliced Wasserstein distance, or one of `SlicedDivergence` and
            `SlicedWasserstein` with settings.
        course: Steps, batches, slices and seed.

    Returns:
        The loss of each step.

    Raises:
        InputError: The generator is of other rows, the release has fewer than two, or there is no such loss.
    """
    if generator.sizes or generator.numbers + generator.labels != release.slices.values.shape[1]:
        remedy = "Make it with mg.slicing.make_generator(release)."
        raise InputError(invalid("generator", "one of the release's numbers", remedy))
    chosen: Any = loss
    if isinstance(loss, str):
        if loss not in (WASSERSTEIN, *DIVERGENCES):
            remedy = "Try 'kl', or give a SlicedDivergence or a SlicedWasserstein."
            raise InputError(
                invalid("loss", f"one of {sorted((WASSERSTEIN, *DIVERGENCES))}", remedy, got=loss)
            )
        chosen = SlicedWasserstein() if loss == WASSERSTEIN else SlicedDivergence(loss)
    width = release.upper - release.lower
    with serial(generator.device):
        blocks = (generator.labels,) if generator.labels else ()
        values = (release.values - release.lower) / width
        real = NoisyRows(generator.device, values, release.sigma / width, blocks)
        shares = _class_shares(release, generator)
        return train_generator(generator, real, chosen, course or Course(), classes=shares)


def _class_shares(release: SliceRelease, generator: RowGenerator) -> Floats | None:
    """The released share of each class, from the means of the indicators; None without classes."""
    count = generator.labels
    if not count:
        return None
    means = release.values[:, :count].mean(axis=0) if len(release.values) else np.zeros(count)
    return project_simplex((means - release.lower) / (release.upper - release.lower), np.ones(count))


def sample(
    release: SliceRelease,
    generator: RowGenerator,
    rows: int,
    *,
    label: int | None = None,
    seed: int = 0,
) -> Floats:
    """Rows of a trained generator, in units of X: shape [rows, features].

    Args:
        release: Whose bounds the numbers have.
        generator: What draws them.
        rows: How many.
        label: The class of all of them, from 0; None for classes drawn by their released shares. A class
            that no row has is drawn as the generator makes it, which nothing has taught it.
        seed: Of the noise vectors and the classes.

    Raises:
        InputError: rows is below 1, or there is no such class.
    """
    check_counts(rows=rows)
    if label is not None and not 0 <= label < generator.labels:
        constraint = f"one of the {generator.labels} classes of the generator, from 0"
        raise InputError(invalid("label", constraint, "Make the generator with classes=.", got=label))
    torch, given = generator.device.torch, None if label is None else np.full(rows, label)
    with serial(generator.device), torch.no_grad():
        rng, shares = np.random.default_rng(seed), _class_shares(release, generator)
        made = draw_rows(generator, rows, rng, shares, given).cpu().numpy()
    return np.asarray(release.lower + made.astype(np.float64) * (release.upper - release.lower))
