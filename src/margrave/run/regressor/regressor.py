"""Regressor: a regression that spends its whole budget on what it needs, and on nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from margrave.errors import InputError, hide_sizes, invalid
from margrave.limits import one_blas_thread
from margrave.privacy.ledger.ledger import Keep, Ledger
from margrave.progress import Step, keep_telling
from margrave.regression.encoding import (
    Encoding,
    chosen_encodings,
    encode_feature,
    encode_target,
)
from margrave.run.regressor.methods import METHODS, Promise, Scaling, Spending
from margrave.run.regressor.result import INTERCEPT, PerturbedRegression
from margrave.run.synthesizer import PARTITIONS, Synthesizer
from margrave.schema.schema import Schema
from margrave.tables.estimates import release_column


class Regressor:
    """A regression at the door: noise goes into what it is computed from, and nothing else is released.

    For one regression that is known beforehand. A release of tables (`Synthesizer`) answers any number of
    regressions, and others questions too, from its budget; this spends the whole of its own on one.

    Args:
        method: A name, or an object of `margrave.run.regressor` with its settings: "ssp" (`SSP`), one
            release of Z'Z; "adassp" (`AdaSSP`); "objpert" (`ObjPert`), objective perturbation; "noisy_newton"
            (`NoisyNewton`); "dp_sgd" (`DPSGD`), gradient descent with clipped rows.
        kind: "linear" or "logistic"; the first that the method can by default.
        target: The column to explain.
        features: The columns to explain it with; all others by default.
        encodings, reference: As for `margrave.regression.linear`; the first level is the default reference.
        positive: The level of the target that counts as 1, all others as 0; by default the later of two where
            the regression is logistic.
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
        method: str | Spending = "ssp",
        *,
        target: str,
        kind: str | None = None,
        features: Sequence[str] | None = None,
        encodings: str | Mapping[str, str] | None = None,
        reference: Mapping[str, str] | None = None,
        positive: str | None = None,
        intercept: bool = True,
        level: float = 0.95,
        **options: Any,
    ) -> None:
        if isinstance(method, str):
            if method not in METHODS:
                raise InputError(invalid("method", f"one of {list(METHODS)}", "Pick one.", got=method))
            method = METHODS[method]()
        kind = method.kinds[0] if kind is None else kind
        if kind not in method.kinds:
            others = [other.name for other in METHODS.values() if kind in other.kinds]
            remedy = f"Use one of {others}." if others else "There are linear and logistic ones."
            raise InputError(
                invalid("kind", f"one of {list(method.kinds)} with {method.name!r}", remedy, got=kind)
            )
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
        self.method, self.kind, self.target, self.features = method, kind, target, features
        self.encodings, self.reference, self.positive = encodings, reference, positive
        self.intercept, self.level = intercept, level
        columns = None if features is None else [*features, target]
        self._door = _Door("independent", **({"columns": columns} | options))
        method.check(self._door.neighbours)

    def fit(self, data: Any, *, forget: bool = True) -> PerturbedRegression:
        """Spend the whole budget on a table and return the coefficients.

        Args:
            data: As for `Synthesizer.fit`.
            forget: Whether the answers that the ledger keeps are dropped at once, as nothing is left to be
                resumed; else they stay until `forget` drops them, once the result has been saved.

        Raises:
            InputError: The table, the schema or a column cannot be used, or the run needs more memory than
                there is. It is found before a ledger is opened, but for a column that is discovered: whether
                that can be used is known only after discovery has spent its share.
            BudgetError: A spend would pass the budget; nothing was released by it.
            MemoryError: The machine has too little; the error names no size.
        """
        found = self._door.regress(data, self)
        if forget:
            self.forget()
        return found

    def forget(self) -> None:
        """Drop the answers that the last run's ledger keeps: the result has been saved."""
        self._door.forget()

    def encode(self, schema: Schema) -> Scaling:
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
        labels, meaning = encode_target(schema, self.target, self.kind, how, self.positive)
        if np.isnan(labels).any():
            remedy = "Declare it without missing values and open categories, or regress from a release."
            raise InputError(invalid("target", "a column whose every code has a number", remedy))
        scaling = Scaling.of(self.kind, self.target, labels, meaning, encodings, self.intercept)
        return self.method.scale(scaling)

    def finish(self, scaling: Scaling, spent: tuple[Schema, Ledger, Any, Any]) -> PerturbedRegression:
        """The result in the units of the encodings.

        Args:
            scaling: How rows became numbers.
            spent: The completed schema, the ledger, the promise and the fit.
        """
        schema, ledger, guarantee, fit = spent
        estimates, middle, wide, known = scaling.restore(fit, self.level)
        middles = np.where(np.isfinite(wide), middle, 0.0)
        return PerturbedRegression(
            kind=self.kind,
            method=self.method.name,
            target=self.target,
            labels=scaling.labels,
            meaning=scaling.meaning,
            names=_name_coefficients(scaling.encodings, self.intercept),
            estimates=estimates,
            middles=middle,
            lower=middles - wide,
            upper=middles + wide,
            identified=known,
            level=self.level,
            encodings=scaling.encodings,
            schema=schema,
            guarantee=guarantee,
            events=ledger.events,
            fit=fit,
        )


def _name_coefficients(encodings: Sequence[Encoding], intercept: bool) -> tuple[str, ...]:
    """The intercept's name first, where there is one."""
    names = [name for encoding in encodings for name in encoding.names]
    return tuple([INTERCEPT] * intercept + names)


class _Door(Synthesizer):
    """A `Synthesizer` up to the door: the same checks, ledger and discovery, then another question."""

    _promise: Promise
    _spending: Spending

    @hide_sizes
    @one_blas_thread()
    def regress(self, data: Any, regressor: Regressor) -> PerturbedRegression:
        """Open a table, complete its schema, and spend what is left on the sums."""
        from margrave.run.planning import check_costs

        method = regressor.method
        self._check_questions()
        with self.location.attempt() as attempt, keep_telling(self.on_step) as tell:
            tell(Step("read", "the table"))
            head, _ = self._head(data)
            if method.rows and not head.holds_rows:
                remedy = "Pass a frame, an Arrow table or a file; or use 'ssp' or 'adassp'."
                raise InputError(invalid("table", f"in memory or a file for {method.name!r}", remedy))
            declared = self._declare_columns(head)
            if not declared.open:
                regressor.encode(declared)  # refuses what can be refused before a ledger is opened
            share = 1 - self.discovery_share(declared)
            self._promise = Promise(self.epsilon, self.delta, self.neighbours, share)
            self._spending = method
            check_costs(self, declared)
            asked = {"strategy": "regression", "model": f"{method.name} of {regressor.target}"}
            with self._reserve(head, declared, False, attempt, **asked) as ledger:
                curator, _ = self._door(data, declared, ledger)
                named = (regressor.target, *(regressor.features or ()))
                schema = curator.discover(self.schema, ledger.total * (1 - share), tell, named)
                scaling = regressor.encode(schema)
                fit = method.run(curator, scaling, self._promise)
        return regressor.finish(scaling, (schema, ledger, self.promise(ledger), fit))

    def new_ledger(self, searches: bool, keep: Keep | None = None) -> Ledger:
        """A ledger of this run's budget, kept as the regression's method needs it.

        Args:
            searches: Whether unknown values are to be searched for, which reserves a share of delta.
            keep: Opens the journal it is kept in; None for one in memory.

        Raises:
            InputError: The journal cannot be opened, or nothing can be bought with so little.
        """
        delta = Fraction(self.delta) * PARTITIONS if searches else Fraction(0)
        promise = self._promise
        if searches:
            promise = dataclasses.replace(promise, delta=float(Fraction(self.delta) - delta))
            self._promise = promise
        return Ledger(
            epsilon=self.epsilon,
            delta=self.delta,
            neighbours=self.neighbours,
            accountant=self._spending.choose_accountant(promise),
            partition_delta=delta,
            keep=keep,
            test_seed=self.test_seed,
        )
