"""LinearRegression, LogisticRegression, PoissonRegression: the same regressions by scikit-learn's
conventions.

`fit` takes a release where scikit-learn takes rows: that is the one difference. `get_params`, `set_params`,
`clone`, `coef_`, `intercept_`, `predict` and `predict_proba` are as there. scikit-learn is not needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from margrave.errors import InputError, invalid
from margrave.regression.coefficients import INTERCEPT, Coefficients
from margrave.regression.encoding import count_rows, encode_rows
from margrave.regression.families import r_squared
from margrave.regression.fit import Options, Released, Rng, fit
from margrave.tables.numbers import classes_of

Floats = NDArray[np.float64]
Kind = TypeVar("Kind", bound="_Regression")


class _Regression:
    """What the three have in common.

    Args:
        target: Name of the column to explain; may be left to `fit`.
        features, encodings, reference, intercept, source, of, level, rng: As for
            `margrave.regression.linear`.
    """

    kind: ClassVar[str]
    _estimator_type: ClassVar[str]
    NAMES: ClassVar[tuple[str, ...]] = (
        *(
            "target",
            "features",
            "encodings",
            "reference",
            "positive",
            "intercept",
            "source",
            "of",
            "level",
            "rng",
        ),
    )

    def __init__(
        self,
        target: str | None = None,
        *,
        features: Sequence[str] | None = None,
        encodings: str | Mapping[str, str] | None = None,
        reference: Mapping[str, str] | None = None,
        positive: object = None,
        intercept: bool = True,
        source: str = "both",
        of: str = "population",
        level: float = 0.95,
        rng: Rng = 0,
    ) -> None:
        self.target = target
        self.features = features
        self.encodings = encodings
        self.reference = reference
        self.positive = positive
        self.intercept = intercept
        self.source = source
        self.of = of
        self.level = level
        self.rng = rng
        self._found: Coefficients | None = None

    def fit(self: Kind, release: Released | str | Path, y: None = None, *, target: str | None = None) -> Kind:
        """Fit to a release; returns the same object.

        Args:
            release: A `Synthesis` or the path of a release file. Rows are refused: what is computed from
                private rows would be private.
            y: None; the target is a column of the release.
            target: Its name, where it was not given before.

        Raises:
            InputError: See `margrave.regression.linear`; or no target is named.
        """
        if y is not None:
            raise InputError(invalid("y", "left out", "Name the column: fit(release, target='...')."))
        name = target if target is not None else self.target
        if name is None:
            raise InputError(invalid("target", "a column of the release", "Pass target='...'."))
        self._found = fit(release, name, self.kind, self._options())
        return self

    def _options(self) -> Options:
        return Options(
            self.features,
            self.encodings,
            self.reference,
            self.positive,
            self.intercept,
            self.source,
            self.of,
            self.level,
            rng=self.rng,
        )

    def score(self, rows: Any, y: Any = None) -> float:
        """R^2 of rows, as scikit-learn has it: with least squares the share of the target's variance that is
        explained. Of a logistic regression the share of rows whose class is predicted, of a Poisson
        regression the share of the deviance.

        **Not private**: an exact figure of the rows that are given.

        Args:
            rows: As for `predict`; with the target's column, where y is left out.
            y: The target of each row, shape [rows]; by default that of the rows, of those that have one.

        Raises:
            InputError: A column is not there, or there is no row.
        """
        found = self.coefficients_
        predicted = np.asarray(self._foretell(rows), dtype=np.float64)
        if y is None:
            design = found.fit.design
            codes = encode_rows(rows, found.schema, [name for name, _ in design.parts])
            held = design.present[codes[design.target]]
            numbers = np.sum([labels[codes[name]] for name, labels in design.parts], axis=0)
            truth, predicted = (numbers + design.middle)[held], predicted[held]
        else:
            truth = np.asarray(self._numbers(np.asarray(y)), dtype=np.float64)
        if not len(truth):
            raise InputError(invalid("rows", "one or more with a target", "Pass held-out rows."))
        return self._score(truth, predicted)

    def _foretell(self, rows: Any) -> Floats:
        """The expected number of the target, shape [rows]."""
        return self.coefficients_.fit.family.mean(self._predictor(rows))

    def _numbers(self, y: NDArray[Any]) -> Floats:
        """The numbers of targets, shape [rows]."""
        return np.asarray(y, dtype=np.float64)

    def _score(self, truth: Floats, predicted: Floats) -> float:
        return r_squared(truth, predicted)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn, from 1.6 on, asks of an estimator; a target is a column of the release."""
        from sklearn.utils import (  # type: ignore[import-untyped]
            ClassifierTags,
            RegressorTags,
            Tags,
            TargetTags,
        )

        classifies = self._estimator_type == "classifier"
        return Tags(
            estimator_type=self._estimator_type,
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags(multi_class=False) if classifies else None,
            regressor_tags=None if classifies else RegressorTags(),
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` has been called."""
        return self._found is not None

    @property
    def coefficients_(self) -> Coefficients:
        """The whole result: names, estimates, standard errors, intervals, notes.

        Raises:
            InputError: Nothing was fitted yet.
        """
        if self._found is None:
            raise InputError(invalid("regression", "fitted", "Call fit(release, target='...') first."))
        return self._found

    @property
    def feature_names_in_(self) -> NDArray[np.str_]:
        """Names of the columns that `predict` needs."""
        return np.asarray(self.coefficients_.fit.design.names)

    def _weights(self) -> Floats:
        found = self.coefficients_
        return found.estimates[1:] if found.names[:1] == (INTERCEPT,) else found.estimates

    def _constant(self) -> float:
        found = self.coefficients_
        return float(found.estimates[0]) if found.names[:1] == (INTERCEPT,) else 0.0

    def _predictor(self, rows: Any) -> Floats:
        """The linear predictor of rows, shape [rows]."""
        found = self.coefficients_
        encodings = found.fit.design.encodings
        codes = encode_rows(rows, found.schema, found.fit.design.names)
        parts = [encoding.matrix.T[codes[encoding.column]] for encoding in encodings]
        constant = self._constant()
        if not parts:
            return np.full(count_rows(rows), constant)
        return np.asarray(np.hstack(parts) @ self._weights() + constant)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments it was made with, by name.

        Args:
            deep: Of no meaning: no argument has parameters of its own.
        """
        return {name: self.__dict__[name] for name in self.NAMES}

    def set_params(self: Kind, **params: Any) -> Kind:
        """Change arguments; returns the same object, which has then forgotten what was fitted.

        Raises:
            InputError: There is no such argument; then nothing is changed.
        """
        unknown = sorted(set(params) - set(self.NAMES))
        if unknown:
            raise InputError(
                invalid("params", f"among {list(self.NAMES)}", "Check the spelling.", got=unknown)
            )
        self.__dict__.update(params)
        self._found = None
        return self

    def __sklearn_clone__(self: Kind) -> Kind:
        """What `sklearn.base.clone` makes of it: the same arguments, not fitted."""
        return type(self)(**self.get_params())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.target is None else repr(self.target)})"


@final
class LinearRegression(_Regression):
    """Least squares from a release; see `margrave.regression.linear`.

    Example:
        ``LinearRegression().fit(synthesis, target="income").coef_``
    """

    kind: ClassVar[str] = "linear"
    _estimator_type: ClassVar[str] = "regressor"

    @property
    def coef_(self) -> Floats:
        """Coefficients of the encoded features, shape [numbers]; `coefficients_.names` says which is
        which."""
        return self._weights()

    @property
    def intercept_(self) -> float:
        """The constant; 0 without one."""
        return self._constant()

    def predict(self, rows: Any) -> Floats:
        """The expected target of rows, shape [rows].

        Args:
            rows: A pandas or polars data frame, an Arrow table, a mapping of columns, or `Encoded`.

        Raises:
            InputError: A feature's column is not there.
        """
        return self._predictor(rows)


@final
class PoissonRegression(_Regression):
    """Poisson regression from a release; see `margrave.regression.poisson`."""

    kind: ClassVar[str] = "poisson"
    _estimator_type: ClassVar[str] = "regressor"

    @property
    def coef_(self) -> Floats:
        """Coefficients of the encoded features, shape [numbers]; `coefficients_.names` says which is
        which."""
        return self._weights()

    @property
    def intercept_(self) -> float:
        """The constant; 0 without one."""
        return self._constant()

    def _score(self, truth: Floats, predicted: Floats) -> float:
        def deviance(expected: Floats) -> float:
            logs = xlogy(truth, np.where(truth > 0.0, truth, 1.0) / expected)
            return float((logs - truth + expected).sum())

        total = deviance(np.full(len(truth), truth.mean())) if truth.any() else 0.0
        left = deviance(predicted)
        return 1.0 - left / total if total > 0.0 else float(left == 0.0)

    def predict(self, rows: Any) -> Floats:
        """The expected count of rows, shape [rows].

        Args:
            rows: As for `LinearRegression.predict`.
        """
        return self._foretell(rows)


@final
class LogisticRegression(_Regression):
    """Logistic regression from a release; see `margrave.regression.logistic`."""

    kind: ClassVar[str] = "logistic"
    _estimator_type: ClassVar[str] = "classifier"

    @property
    def coef_(self) -> Floats:
        """Coefficients of the encoded features: shape [1, numbers]."""
        return self._weights()[None, :]

    @property
    def intercept_(self) -> Floats:
        """The constant, shape [1]; 0 without one."""
        return np.full(1, self._constant())

    @property
    def classes_(self) -> NDArray[Any]:
        """The value that counts as 0, and that which counts as 1, as rows have them.

        Where several values count as 0, both are texts, as in "not ill" and "ill"; so are levels that are
        bins.
        """
        found = self.coefficients_
        return classes_of(found.schema, found.target, found.meaning, found.fit.design.present)

    def predict_proba(self, rows: Any) -> Floats:
        """Probability of both classes, shape [rows, 2].

        Args:
            rows: As for `LinearRegression.predict`.
        """
        one = self._foretell(rows)
        return np.column_stack([1.0 - one, one])

    def predict(self, rows: Any) -> NDArray[Any]:
        """The likelier of `classes_` of rows, shape [rows].

        Args:
            rows: As for `LinearRegression.predict`.
        """
        likelier = (self.predict_proba(rows)[:, 1] > 0.5).astype(np.int64)
        return np.asarray(self.classes_[likelier])

    def _numbers(self, y: NDArray[Any]) -> Floats:
        return np.asarray(y == self.classes_[1], dtype=np.float64)

    def _score(self, truth: Floats, predicted: Floats) -> float:
        return float(np.mean((predicted > 0.5) == (truth > 0.5)))
