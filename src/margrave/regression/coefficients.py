"""Coefficients: the result of a regression, as a table of names, estimates, standard errors and intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from margrave.errors import InputError, invalid
from margrave.regression.bin_noise import BinNoise
from margrave.regression.design import Design
from margrave.regression.families import Family
from margrave.regression.inference import Directions, row_scatter
from margrave.regression.likelihood import Line, ModelRows, score_at
from margrave.regression.sums import Sums
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

Floats = NDArray[np.float64]

INTERCEPT = "(intercept)"
ROUNDING = 1e-10
"""Standard deviation of a residual, over that at no coefficients at all, below which it is rounding."""


@dataclass(frozen=True, slots=True)
class Fit:
    """What a regression was computed from; released quantities all of it.

    Args:
        design: Target and features.
        family: Of the regression.
        rows: Of the model.
        sums: Of the noisy tables.
        bins: What is not known of the numbers of discovered bins.
        of: "population" or "table".
    """

    design: Design
    family: Family
    rows: ModelRows
    sums: Sums
    bins: BinNoise
    of: str

    def residual(self, theta: Floats) -> tuple[Line, Floats, Floats]:
        """Where coefficients of the centred design stand, the residual there, and its covariance.

        Args:
            theta: Shape [p].

        Returns:
            The line; b - G gamma - remainder, shape [p]; and the covariance of all that it scatters by if
            these are the true coefficients, shape [p, p]. The release has to have all pairs.
        """
        line = score_at(theta, self.design, self.rows, self.family)
        residual, noise = self.sums.residual(line.gamma)
        noise = noise + self.bins.covariance(line.gamma)
        noise = noise + row_scatter(theta, line, self.rows, self.family, self.of == "population")
        return line, self.bins.complete(residual, line.gamma) - line.remainder, noise


@dataclass(frozen=True, slots=True, repr=False)
class Coefficients:
    """Coefficients of a regression with intervals; printed as a table.

    Args:
        kind: "linear", "logistic" or "poisson".
        target: Its name.
        meaning: The level of the target that counts as 1; "" for a target of numbers.
        names: A name for each coefficient, the intercept's first where there is one: shape [p].
        columns: The column it belongs to, "" for the intercept.
        levels: The level it marks, "" for numbers and the intercept.
        estimates: From the source that was asked for, [p].
        middles: The middles of the intervals, [p]: one step from the model's coefficients along the noisy
            tables, shrunk by its noise for least squares. NaN where there is none.
        standard_errors: Of `middles`, [p]; infinite where a coefficient is not identified, NaN where the
            release lacks tables.
        lower, upper: Of the intervals, [p].
        identified: Whether the release determines the coefficient, [p].
        covariance: Of `middles`, [p, p].
        of: "population": intervals hold sampling and privacy noise; "table": privacy noise alone.
        level: Of the intervals.
        references: By column, the level that its levels are compared with.
        notes: What limits the result, in sentences.
        schema: Of the release.
        fit: What it was computed from.
    """

    kind: str
    target: str
    meaning: str
    names: tuple[str, ...]
    columns: tuple[str, ...]
    levels: tuple[str, ...]
    estimates: Floats
    middles: Floats
    standard_errors: Floats
    lower: Floats
    upper: Floats
    identified: NDArray[np.bool_]
    covariance: Floats
    of: str
    level: float
    references: Mapping[str, str]
    notes: tuple[str, ...]
    schema: Schema
    fit: Fit = field(compare=False)

    @classmethod
    def of_fit(
        cls,
        fit: Fit,
        *,
        kind: str,
        target: str,
        meaning: str,
        level: float,
        quantile: float,
        best: Floats,
        middles: Floats,
        covariance: Floats,
        directions: Directions,
        hidden: NDArray[np.bool_],
        notes: Sequence[str],
        schema: Schema,
    ) -> Coefficients:
        """Coefficients in the units of the encodings, from those of the centred design.

        Args:
            fit: What they were computed from.
            target, meaning, kind, level, notes, schema: As of the class.
            quantile: Half the length of an interval, in standard errors.
            best: The estimates, [p].
            middles: The middles of the intervals, [p].
            covariance: Of these, [p, p].
            directions: Which combinations the release determines.
            hidden: Whether noise hides a coefficient, so that its interval is about as long as what any can
                be, [p].
        """
        design, free = fit.design, fit.design.free
        names, columns, levels = _labels(design)
        identified = directions.find_identified(design)[free]
        spread = design.to_raw @ covariance @ design.to_raw.T
        errors = np.sqrt(np.maximum(np.diag(spread), 0.0))[free]
        errors = np.where(np.isnan(errors) | identified, errors, np.inf)
        middle = (design.to_raw @ middles)[free]
        names = tuple(names[place] for place in free)
        return cls(
            kind=kind,
            target=target,
            meaning=meaning,
            names=names,
            columns=tuple(columns[place] for place in free),
            levels=tuple(levels[place] for place in free),
            estimates=(design.to_raw @ best)[free],
            middles=middle,
            standard_errors=errors,
            lower=middle - quantile * errors,
            upper=middle + quantile * errors,
            identified=np.asarray(identified),
            covariance=spread[np.ix_(free, free)],
            of=fit.of,
            level=level,
            references={e.column: e.reference for e in design.encodings if e.reference and e.names},
            notes=(*notes, *_note_unknown(names, identified, hidden[free])),
            schema=schema,
            fit=fit,
        )

    def p_value(self, coefficients: Mapping[str, float] | Sequence[float] | Floats) -> float:
        """Probability of noisy tables at least as far from these coefficients, if they were the true ones.

        All coefficients together, whether the release determines each or not: those with a p-value above 0.05
        are an exact 95 % confidence set of the linear regression at any epsilon.

        Args:
            coefficients: One for each of `names`, in their order or by name.

        Raises:
            InputError: There are more or fewer, or the release lacks the tables.
        """
        design, sums = self.fit.design, self.fit.sums
        if not sums.complete:
            raise InputError(invalid("release", "one that measured all pairs", "See `notes`."))
        if isinstance(coefficients, Mapping):
            coefficients = [coefficients[name] for name in self.names if name in coefficients]
        given = np.asarray(coefficients, dtype=np.float64)
        if given.shape != (len(self.names),) or not np.isfinite(given).all():
            raise InputError(invalid("coefficients", "one finite number for each name", "See `names`."))
        raw = np.zeros(design.size)
        raw[design.free] = given
        theta = np.asarray(np.linalg.solve(design.to_raw, raw), dtype=np.float64)
        _, off, noise = self.fit.residual(theta)
        free = design.free
        values, vectors = np.linalg.eigh(noise[np.ix_(free, free)])
        # A target that is an exact line of features has no noise at its true coefficients, but for rounding.
        around_zero = np.diag(self.fit.residual(np.zeros(design.size))[2])[free]
        floor = max(1e-12 * values.max(initial=0.0), ROUNDING**2 * around_zero.max(initial=0.0), 1e-300)
        kept = values > floor
        if not kept.any():
            return 1.0
        square = float((((vectors.T @ off[free])[kept]) ** 2 / values[kept]).sum())
        return float(gammaincc(kept.sum() / 2.0, square / 2.0))

    def table(self) -> pa.Table:
        """The result as an Arrow table, one row a coefficient."""
        import pyarrow as pa

        return pa.table(
            {
                "name": list(self.names),
                "column": list(self.columns),
                "level": list(self.levels),
                "estimate": self.estimates,
                "middle": self.middles,
                "std_error": self.standard_errors,
                "lower": self.lower,
                "upper": self.upper,
                "identified": self.identified,
            }
        )

    def write(self, path: str | Path) -> None:
        """Write the table to a CSV, TSV, Parquet or Arrow file, whole or not at all.

        Raises:
            InputError: The path cannot be written.
        """
        from margrave.files import write_table

        write_table(self.table(), path)

    def __contains__(self, name: object) -> bool:
        """Whether there is a coefficient of a name."""
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        """Names of the coefficients."""
        return iter(self.names)

    def __getitem__(self, name: str) -> float:
        """The estimate of a coefficient.

        Raises:
            InputError: There is none of that name.
        """
        if name not in self.names:
            raise InputError(invalid("name", f"one of {list(self.names)}", "Check the spelling.", got=name))
        return float(self.estimates[self.names.index(name)])

    def __str__(self) -> str:
        of = f" ({self.meaning})" if self.meaning else ""
        noise = "sampling and privacy noise" if self.of == "population" else "privacy noise alone"
        width = max([len(name) for name in self.names] + [4])
        head = f"{self.kind} regression of {self.target}{of}; {100 * self.level:g} % intervals, {noise}"
        lines = [
            head,
            f"{'name':{width}}  {'estimate':>11}  {'std. error':>11}  {'lower':>11}  {'upper':>11}",
        ]
        figures = zip(self.names, self.estimates, self.standard_errors, self.lower, self.upper, strict=True)
        for name, *numbers in figures:
            lines.append(f"{name:{width}}  " + "  ".join(f"{number:11.5g}" for number in numbers))
        lines += [
            f"levels of {column} are compared with {level}" for column, level in self.references.items()
        ]
        lines += [
            f"{one.column} enters by ranks, from -1 for its first code to 1 for its last"
            for one in self.fit.design.encodings
            if one.ranked
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return f"Coefficients({self.kind}, {self.target!r}, {len(self.names)} coefficients)"


def _note_unknown(
    names: Sequence[str], identified: NDArray[np.bool_], hidden: NDArray[np.bool_]
) -> list[str]:
    """What is said of coefficients that the release does not identify, and of those that noise hides.

    Args:
        names: Of the coefficients.
        identified, hidden: Of each.
    """
    notes = []
    if not identified.all():
        notes.append(
            f"not identified by this release: {_shorten(names, ~identified)}; columns that nearly determine "
            "each other, or levels too rare for the noise. Leave one out, or use a larger epsilon"
        )
    if (hidden & identified).any():
        notes.append(
            f"hidden by noise: {_shorten(names, hidden & identified)}; their intervals are about as long as "
            "what a coefficient can be, or longer, and their middles say nothing. Use a larger epsilon, or "
            "fewer features"
        )
    return notes


def _shorten(names: Sequence[str], chosen: NDArray[np.bool_]) -> str:
    """The chosen ones of these names, the first eight of them and how many more."""
    some = [name for name, one in zip(names, chosen, strict=True) if one]
    return ", ".join(some[:8]) + (f" and {len(some) - 8} more" if len(some) > 8 else "")


def _labels(design: Design) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Name, column and level of each number of a row."""
    names = [name for encoding in design.encodings for name in encoding.names]
    columns = [encoding.feature or encoding.column for encoding in design.encodings for _ in encoding.names]
    levels = [level for encoding in design.encodings for level in encoding.levels]
    return (INTERCEPT, *names), ("", *columns), ("", *levels)
