"""Regressor: a linear regression that spends its whole budget on the sums it needs, and on nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import one_blas_thread
from margrave.progress import Step, keep_telling
from margrave.regression.encoding import (
    Encoding,
    chosen_encodings,
    encode_feature,
    encode_target,
    release_column,
)
from margrave.regression.perturbed import PerturbedFit, fit_sums
from margrave.release import Guarantee, NoisySums
from margrave.run.options import check_no_oracle, check_rows
from margrave.run.synthesizer import Synthesizer
from margrave.schema.row_numbers import RowNumbers
from margrave.schema.schema import Schema

__all__ = ["PerturbedRegression", "Regressor"]


Floats = NDArray[np.float64]
Method = Literal["ssp"]
INTERCEPT = "(intercept)"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PerturbedRegression:
    """Coefficients of a linear regression that was made at the door.

    Args:
        names: A name for each coefficient, the intercept's first where there is one: shape [p].
        estimates: Shape [p].
        unbiased: The middles of the intervals, shape [p].
        lower, upper: Of the intervals, which hold the privacy noise alone: the coefficients of least squares
            on the private table lie in them as often as `level` says. Infinite where a coefficient is not
            determined.
        determined: Whether the release determines the coefficient, [p].
        level: Of the intervals.
        encodings: How features became numbers. What was summed are these, scaled to -1 to 1 and cut to a few
            binary digits: the ledger says how many.
        guarantee: What was promised and spent.
        fit: The same in the numbers that were summed, with the exact confidence set.
    """

    names: tuple[str, ...]
    estimates: Floats
    unbiased: Floats
    lower: Floats
    upper: Floats
    determined: NDArray[np.bool_]
    level: float
    encodings: tuple[Encoding, ...]
    guarantee: Guarantee
    fit: PerturbedFit

    def __getitem__(self, name: str) -> float:
        """The estimate of a coefficient.

        Raises:
            InputError: There is none of that name.
        """
        if name not in self.names:
            raise InputError(invalid("name", f"one of {list(self.names)}", "Check the spelling.", got=name))
        return float(self.estimates[self.names.index(name)])

    def __str__(self) -> str:
        width = max(len(name) for name in self.names)
        lines = [f"linear regression; {100 * self.level:g} % intervals, privacy noise alone"]
        for figures in zip(self.names, self.estimates, self.lower, self.upper, strict=True):
            lines.append(f"{figures[0]:{width}}  " + "  ".join(f"{number:11.5g}" for number in figures[1:]))
        return "\n".join([*lines, str(self.guarantee)])

    def __repr__(self) -> str:
        return f"PerturbedRegression({len(self.names)} coefficients)"


class Regressor:
    """Linear regression by perturbed sufficient statistics: Z'Z with noise is all that is released.

    For one regression that is known beforehand. A release of tables (`Synthesizer`) answers any number of
    regressions, and others questions too, from its budget; this spends the whole of its own on one.

    Args:
        method: "ssp": one release of Z'Z by the verb `sums` at the door; see `margrave.regression.perturbed`.
        target: The column to explain.
        features: The columns to explain it with; all others by default.
        encodings, reference: As for `margrave.regression.linear`; the first level is the default reference.
        positive: The level of the target that counts as 1, all others as 0.
        intercept: Whether there is a constant.
        level: Of the intervals.
        options: Other arguments of `Synthesizer`: epsilon, delta, unit, adjacency, schema, ledger and so on.
            What the schema leaves open is discovered with a part of the budget. A target whose kind, values
            or missing values are discovered may turn out to have no number for every code: the run then ends
            with an error after discovery has been paid for, so declare the target. There are no public
            columns: all that is summed gets noise.

    Raises:
        InputError: An argument cannot be used as given.

    Example:
        >>> import pyarrow as pa
        >>> from margrave import Schema
        >>> from margrave.run.regressor import Regressor
        >>> table = pa.table({"a": [0, 1, 2, 1] * 500, "b": [0, 1, 2, 0] * 500})
        >>> schema = Schema.from_sizes({"a": 3, "b": 3})
        >>> Regressor(target="b", schema=schema, encodings="ranks", epsilon=2.0).fit(table).names
        ('(intercept)', 'a')
    """

    def __init__(
        self,
        method: Method = "ssp",
        *,
        target: str,
        features: Sequence[str] | None = None,
        encodings: str | Mapping[str, str] | None = None,
        reference: Mapping[str, str] | None = None,
        positive: str | None = None,
        intercept: bool = True,
        level: float = 0.95,
        **options: Any,
    ) -> None:
        if method not in get_args(Method):
            raise InputError(invalid("method", f"one of {list(get_args(Method))}", "Pick one.", got=method))
        if not 0.0 < level < 1.0:
            raise InputError(invalid("level", "above 0 and below 1", "Try level=0.95.", got=level))
        if features is not None and (
            isinstance(features, str)
            or target in features
            or not features
            or len(set(features)) < len(features)
        ):
            remedy = "List other columns, each once."
            raise InputError(invalid("features", f"distinct columns other than {target!r}", remedy))
        if options.get("public") or options.get("public_table") is not None:
            remedy = "Leave it out, with 'add_remove' or 'replace_one'; or regress from a release of rows."
            raise InputError(invalid("public", "left out of a regression, whose sums all get noise", remedy))
        self.method, self.target, self.features = method, target, features
        self.encodings, self.reference, self.positive = encodings, reference, positive
        self.intercept, self.level = intercept, level
        columns = None if features is None else [*features, target]
        self._door = _SumsDoor("independent", **({"columns": columns} | options))

    def fit(self, data: Any) -> PerturbedRegression:
        """Spend the whole budget on a table and return the coefficients.

        Args:
            data: As for `Synthesizer.fit`.

        Raises:
            InputError: The table, the schema or a column cannot be used, or the run needs more memory than
                there is. It is found before a ledger is opened, but for a column that is discovered: whether
                that can be used is known only after discovery has spent its share.
            BudgetError: A spend would pass the budget; nothing was released by it.
        """
        return self._door.regress(data, self)

    def encode(self, schema: Schema) -> _Plan:
        """How rows become numbers, from a known schema alone.

        Raises:
            InputError: The target may be missing, or a column cannot be used as asked.
        """
        names = [c.name for c in schema.attributes if c.name != self.target]
        features = names if self.features is None else list(self.features)
        if not features:
            raise InputError(invalid("features", "one column or more", "Declare another column."))
        asked = chosen_encodings(self.encodings, [*features, self.target])
        first = [np.eye(release_column(schema, name, "features").size)[0] for name in features]
        reference = dict(self.reference or {})
        encodings = [
            encode_feature(schema, name, asked.get(name), shares, reference.get(name))
            for name, shares in zip(features, first, strict=True)
        ]
        how = asked.get(self.target)
        how = None if how == "levels" and isinstance(self.encodings, str) else how
        labels, _ = encode_target(schema, self.target, "linear", how, self.positive)
        if np.isnan(labels).any():
            remedy = "Declare it without missing values and open categories, or regress from a release."
            raise InputError(invalid("target", "a column whose every code has a number", remedy))
        return _Plan.of(self.target, labels, encodings, self.intercept)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Numbers of rows for the door, and the way back to those of the encodings.

    Args:
        encodings: Of the features.
        numbers: What is summed: (number - shift) / scale, the target's last.
        shifts, scales: Of each number, the target's last: shape [p - 1], the constant left out.
    """

    encodings: tuple[Encoding, ...]
    numbers: RowNumbers
    shifts: Floats
    scales: Floats

    @classmethod
    def of(cls, target: str, labels: Floats, encodings: Sequence[Encoding], intercept: bool) -> _Plan:
        matrices, shifts, scales = [], [], []
        marked = [[bool(level) for level in encoding.levels] for encoding in encodings]
        for matrix, marks in zip(
            [*(e.matrix for e in encodings), labels[None, :]], [*marked, [False]], strict=True
        ):
            middle = (matrix.max(axis=1) + matrix.min(axis=1)) / 2.0
            shift = np.where(np.asarray(marks) | (not intercept), 0.0, middle)
            scale = np.abs(matrix - shift[:, None]).max(axis=1)
            scale = np.where(scale > 0.0, scale, 1.0)
            matrices.append((matrix - shift[:, None]) / scale[:, None])
            shifts += shift.tolist()
            scales += scale.tolist()
        names = (*(encoding.column for encoding in encodings), target)
        numbers = RowNumbers(names, tuple(matrices), intercept)
        return cls(tuple(encodings), numbers, np.asarray(shifts), np.asarray(scales))

    def finish(self, sums: NoisySums, guarantee: Guarantee, level: float) -> PerturbedRegression:
        """Coefficients in the units of the encodings."""
        fit, first = fit_sums(sums), int(sums.numbers.constant)
        shifts, scales = self.shifts[:-1], self.scales[:-1]
        raw = np.diag(np.concatenate([np.ones(first), 1.0 / scales]))
        if first:
            raw[0, 1:] = -shifts / scales
        raw *= self.scales[-1]
        offset = np.zeros(len(raw))
        offset[:first] = self.shifts[-1]
        known = fit.determined.copy()
        if first:
            known[0] = bool(known[(shifts != 0.0).nonzero()[0] + 1].all()) and bool(known[0])
        wide = np.where(known, fit.half_widths(raw, level), np.inf)
        middle = raw @ fit.unbiased + offset
        names = [name for encoding in self.encodings for name in encoding.names]
        return PerturbedRegression(
            names=tuple([INTERCEPT] * first + names),
            estimates=raw @ fit.estimates + offset,
            unbiased=middle,
            lower=middle - wide,
            upper=middle + wide,
            determined=known,
            level=level,
            encodings=self.encodings,
            guarantee=guarantee,
            fit=fit,
        )


class _SumsDoor(Synthesizer):
    """A `Synthesizer` up to the door: the same checks, ledger and discovery, then another question."""

    @one_blas_thread()
    def regress(self, data: Any, regressor: Regressor) -> PerturbedRegression:
        """Open a table, complete its schema, and spend what is left on the sums."""
        from margrave.run.planning import check_costs

        check_no_oracle(self.schema, self.place)
        with self.place.attempt() as attempt, keep_telling(self.on_step) as tell:
            tell(Step("read", "the table"))
            source, _ = self._open(data)
            declared = self._declare_columns(source)
            if not declared.open:
                regressor.encode(declared)  # refuses what can be refused before a ledger is opened
            check_costs(self, declared)
            if attempt is None:
                check_rows(source, declared)
            asked = f"{regressor.method} of {regressor.target}"
            curator, ledger = self._door(source, declared, False, attempt, strategy="regression", model=asked)
            with ledger:
                rho = ledger.total * self.discovery_share(declared)
                named = (regressor.target, *(regressor.features or ()))
                schema = curator.discover(self.schema, rho, tell, named)
                plan = regressor.encode(schema)
                sums = curator.sums(plan.numbers, curator.remaining)
        return plan.finish(sums, self.promise(ledger), regressor.level)
