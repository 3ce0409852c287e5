"""linear, logistic, poisson: regressions from a release, with intervals; free post-processing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from margrave.archive import load_release
from margrave.errors import InputError, invalid
from margrave.limits import one_blas_thread
from margrave.models.registry import resolve
from margrave.regression.bin_noise import BinNoise, find_bin_noise
from margrave.regression.coefficients import Coefficients, Fit
from margrave.regression.comparison import Comparison
from margrave.regression.design import Design, KeptTables, ModelTables, centre
from margrave.regression.encoding import (
    Encoding,
    chosen_encodings,
    compose_target,
    encode_feature,
    encode_line,
    encode_target,
    list_coded_by,
)
from margrave.regression.families import FAMILIES, Family, family_of
from margrave.regression.inference import (
    find_directions,
    find_reach,
    second_order,
    shrink_step,
    solve_strong,
)
from margrave.regression.likelihood import ModelRows, fit_model, score_at
from margrave.regression.number_sums import NumberSums, SummedTables
from margrave.regression.shrinkage import move_coefficients
from margrave.regression.sums import MeasuredSums, Sums, label_means, model_sums
from margrave.release import Release
from margrave.schema.columns import Relative
from margrave.schema.schema import Schema
from margrave.tables.estimates import PooledTables, release_column
from margrave.tables.means import UNTOLD, Numbers, Product

if TYPE_CHECKING:
    from margrave.protocols import Model

Floats = NDArray[np.float64]
Rng = np.random.Generator | int | None
Source = Literal["both", "model", "measured"]
Of = Literal["population", "table"]

MOST_ROWS, MOST_NUMBERS, FEWEST_ROWS = 30_000, 3_000_000, 5_000
"""Rows drawn from the model: at most so many, and fewer where a row has many numbers."""
SANDWICH_ROWS = 5_000
"""Rows where they enter the sampling covariance alone, as they do for models linear in the predictor: a
variance from so many rows has a relative standard error of about 2 %."""


LOGISTIC = FAMILIES["logistic"]


@runtime_checkable
class Released(Protocol):
    """What a regression needs: a `Synthesis` has it."""

    release: Release
    model: Model


@dataclass(frozen=True, slots=True)
class Options:
    """What may be said about any regression; see `linear`."""

    features: Sequence[str] | None = None
    encodings: str | Mapping[str, str] | None = None
    reference: Mapping[str, str] | None = None
    positive: object = None
    intercept: bool = True
    source: str = "both"
    of: str = "population"
    level: float = 0.95
    likelihood: str = "exact"
    rng: Rng = 0


def linear(
    release: Released | str | Path,
    target: str,
    *,
    features: Sequence[str] | None = None,
    encodings: str | Mapping[str, str] | None = None,
    reference: Mapping[str, str] | None = None,
    positive: object = None,
    intercept: bool = True,
    source: Source = "both",
    of: Of = "population",
    level: float = 0.95,
    rng: Rng = 0,
) -> Coefficients:
    """Least squares of a column on others, from a release: nothing private is touched, nothing is spent.

    Args:
        release: A `Synthesis` (`Synthesizer.fit`, `load`, `fit_tables`), or the path of a release file.
        target: A column of numbers, which may be coded by others as their sum, difference or line; or any
            column, with `positive`.
        features: The columns to explain it with; all others of the release by default.
        encodings: How features become numbers, one for all or by column: "scores" (the middle of a bin, or
            the listed number), "levels" (an indicator of every level but one) or "ranks" (codes evenly from
            -1 to 1). By default scores for numbers, ranks for dates and times, levels for the rest. A column
            that is an exact line of one that is no feature has that one's scores. For the target "scores" or
            "ranks".
        reference: By column, the level that others are compared with; the likeliest by default.
        positive: The level of the target that counts as 1, all others as 0.
        intercept: Whether there is a constant.
        source: Where estimates come from. "model": the fitted model alone. "measured": one step from it
            along the noisy tables, unbiased and often much noisier. "both": the model's X'X with a ridge
            where noise hides a level's rows, and X'y moved from the model's towards the noisy tables' as far
            as their noise allows. Intervals depend on it to second order alone.
        of: Whether intervals are for the "population" that rows were drawn from, or for the private
            "table": then they hold the privacy noise alone.
        level: Of the intervals.
        rng: Draws rows of the model; a fixed seed by default, so that results repeat.

    Raises:
        InputError: An argument cannot be used as given, or source is "measured" and the release lacks pairs.
        SchemaError: The target or a feature is no column of the schema.
        ReleaseError: The file is not a release.
    """
    options = Options(features, encodings, reference, positive, intercept, source, of, level, rng=rng)
    return fit(release, target, "linear", options)


def logistic(
    release: Released | str | Path,
    target: str,
    *,
    features: Sequence[str] | None = None,
    encodings: str | Mapping[str, str] | None = None,
    reference: Mapping[str, str] | None = None,
    positive: object = None,
    intercept: bool = True,
    source: Source = "both",
    of: Of = "population",
    level: float = 0.95,
    likelihood: Literal["exact", "quadratic"] = "exact",
    rng: Rng = 0,
) -> Coefficients:
    """Logistic regression of a column of two levels on others, from a release; see `linear`.

    Args:
        release, features, encodings, reference, intercept, source, of, level, rng: As for `linear`.
        target: A column of two levels; or any, with `positive`.
        positive: The level that counts as 1; the later of two by default.
        likelihood: "exact"; or "quadratic", the polynomial that DD-SSP maximises, whose coefficients are
            those of least squares times a constant.

    Raises:
        InputError, SchemaError, ReleaseError: As for `linear`.
    """
    options = Options(features, encodings, reference, positive, intercept, source, of, level, likelihood, rng)
    return fit(release, target, "logistic", options)


def poisson(
    release: Released | str | Path,
    target: str,
    *,
    features: Sequence[str] | None = None,
    encodings: str | Mapping[str, str] | None = None,
    reference: Mapping[str, str] | None = None,
    intercept: bool = True,
    source: Source = "both",
    of: Of = "population",
    level: float = 0.95,
    rng: Rng = 0,
) -> Coefficients:
    """Poisson regression of a column of counts on others, with the logarithm as link; see `linear`.

    Args:
        release, features, encodings, reference, intercept, source, of, level, rng: As for `linear`.
        target: A column of numbers, none below 0.

    Raises:
        InputError, SchemaError, ReleaseError: As for `linear`.
    """
    options = Options(features, encodings, reference, None, intercept, source, of, level, rng=rng)
    return fit(release, target, "poisson", options)


@one_blas_thread()
def fit(released: Released | str | Path, target: str, kind: str, options: Options) -> Coefficients:
    """A regression of a kind; see `linear`."""
    family = family_of(kind, options.likelihood)
    _check(options)
    given: object = released
    if isinstance(given, str | Path):
        release = load_release(given)
        model = resolve(release.fitter).restore(release.domain, release.measurements, release.state)
    elif isinstance(given, Released):
        release, model = given.release, given.model
    else:
        remedy = "Rows are private: make a release of them first, margrave.Synthesizer().fit(rows)."
        raise InputError(invalid("release", "a Synthesis or the path of a release file", remedy))
    tables = KeptTables(model)
    design, meaning, made = _design(release, tables, target, kind, options)
    rows = _draw(design, model, options.rng, SANDWICH_ROWS if family.affine and design.whole else MOST_ROWS)
    labelled, crossed = model_sums(design, tables)
    bins = find_bin_noise(design, tables, made.products)
    if made.strays:
        bins = _doubt_strays(bins, made.strays, rows)
    measured = _gather_sums(release, tables, design, bins.inside)
    sums = measured.pooled
    if not design.whole:
        crossed = rows.cross(np.ones(len(rows.labels)))
    own = labelled + bins.inside, crossed
    theta, hessian = _estimate(design, rows, family, measured, own, options.source)
    directions = find_directions(design, crossed, sums if sums.complete else None)
    inverse = solve_strong(hessian, directions)
    if bins.beside.any():
        line = score_at(theta, design, rows, family)
        inverse = bins.correct(inverse, line.beta)
        theta = theta - inverse @ bins.beside @ line.gamma
    kept = replace(rows)  # without what the rows keep for the search
    state = Fit(design, family, kept, sums, bins, options.of)
    notes = _notes(sums, options.source)
    if options.features is None and (circular := list_coded_by(release.schema, target)):
        notes.append(f"left out: {', '.join(circular)}, whose codes say how they go with {target}")
    if options.features is not None:
        notes += _note_empty(release.schema, design)
    quantile = float(ndtri(0.5 + options.level / 2.0))
    middles = _find_middles(state, theta, inverse, quantile)
    return Coefficients.of_fit(
        state,
        target=target,
        meaning=meaning,
        kind=kind,
        level=options.level,
        quantile=quantile,
        best=middles.stepped if options.source == "measured" else theta,
        middles=middles.middles,
        covariance=middles.covariance,
        directions=directions,
        hidden=middles.hidden,
        notes=notes,
        schema=release.schema,
    )


def _check(options: Options) -> None:
    if options.source not in get_args(Source):
        raise InputError(
            invalid("source", f"one of {list(get_args(Source))}", "Pick one.", got=options.source)
        )
    if options.of not in get_args(Of):
        raise InputError(invalid("of", f"one of {list(get_args(Of))}", "Pick one.", got=options.of))
    number = isinstance(options.level, float) and math.isfinite(options.level)
    if not number or not 0.0 < options.level < 1.0:
        raise InputError(invalid("level", "above 0 and below 1", "Try level=0.95.", got=options.level))


def _design(
    release: Release, model: ModelTables, target: str, kind: str, options: Options
) -> tuple[Design, str, _Made]:
    """The target and the features as numbers, what a target of 1 means, and what numbers the target is made
    of."""
    schema = release.schema
    release_column(schema, target, "target")
    circular = list_coded_by(schema, target)
    known = [c.name for c in schema.attributes if c.name != target and c.name not in circular]
    features = known if options.features is None else list(options.features)
    if target in features or len(set(features)) != len(features) or isinstance(options.features, str):
        remedy = "List other columns, each once."
        raise InputError(invalid("features", f"distinct columns other than {target!r}", remedy))
    for name in features:
        release_column(schema, name, "features")
    if not features and not options.intercept:
        raise InputError(invalid("features", "one or more without an intercept", "List columns."))
    asked = chosen_encodings(options.encodings, [*features, target])
    references = dict(options.reference or {})
    unknown = sorted(set(references) - set(features))
    if unknown:
        raise InputError(
            invalid("reference", f"of columns among {features}", "Check the spelling.", got=unknown)
        )
    encodings, strays = _encode_features(schema, model, [target, *features], asked, references)
    how = None if isinstance(options.encodings, str) and kind != "linear" else asked.get(target)
    if how == "levels":
        how = None if isinstance(options.encodings, str) else how
    numbered = kind != "logistic" and how != "ranks" and options.positive is None
    if kind == "linear" and numbered and (whole := compose_target(schema, target)) is not None:
        parts = [(one.names[0], one.weight * one.numbers[0].scores) for one in whole.products]
        parts[0] = parts[0][0], parts[0][1] + whole.offset
        design = centre(model, *parts[0], encodings, options.intercept, parts[1:])
        return design, "", _Made(whole.products, whole.strays + strays)
    labels, meaning = encode_target(schema, target, kind, how, options.positive)
    design = centre(model, target, labels, encodings, options.intercept)
    numbers = Numbers.of_column(schema[target]) if numbered else None
    return design, meaning, _Made(() if numbers is None else (Product((target,), (numbers,)),), strays)


def _encode_features(
    schema: Schema,
    model: ModelTables,
    names: Sequence[str],
    asked: Mapping[str, str],
    references: Mapping[str, str],
) -> tuple[list[Encoding], float]:
    """The encodings of features, and the share of the rows in which one is not what others say.

    Args:
        schema, model: Of the release.
        names: The target, and the features.
        asked: Encodings that were asked for, by column.
        references: Levels that others are compared with, by column.
    """
    found, taken, strays = list[Encoding](), [*names], 0.0
    for name in names[1:]:
        how, reference = asked.get(name), references.get(name)
        line = encode_line(schema, name, how, taken) if reference is None else None
        if line is None:
            found.append(encode_feature(schema, name, how, model.project((name,)), reference))
            continue
        found.append(line[0])
        taken.append(line[0].column)
        strays += line[1]
    return found, strays


@dataclass(frozen=True, slots=True)
class _Made:
    """What the numbers of a target are made of.

    Args:
        products: What is added up, each of one column; none where they are marks or ranks.
        strays: Share of the rows whose numbers are others, or those of a feature.
    """

    products: tuple[Product, ...]
    strays: float = 0.0


def _doubt_strays(bins: BinNoise, strays: float, rows: ModelRows) -> BinNoise:
    """What is not known of numbers with that of rows that are not as the codes of a target or feature say.

    They are supposed to be off by as much as those of a mean are (`tables.means.UNTOLD`). Columns have a
    standard deviation of 1, and the sum of an indicator of half of the rows has half of that error squared,
    where both halves are off on their own as groups are. What is explained by a feature varies as much as the
    target at most.
    """
    size = len(rows.labels) * rows.weight
    error = UNTOLD * strays * size * float(rows.labels.std())
    parts = np.full(bins.size, 0.5)
    parts[0] = 1.0
    return replace(bins, of_labels=bins.of_labels + error**2 * np.diag(parts))


def _draw(design: Design, model: Model, rng: Rng, most: int) -> ModelRows:
    """Rows of the model, as many as it stands for where they are not many."""
    most = min(most, max(MOST_NUMBERS // design.size, FEWEST_ROWS))
    count = int(min(max(model.total, 1.0), most))
    encoded = model.sample(count, np.random.default_rng(rng))
    return ModelRows(design, *design.codes(encoded), max(model.total, 1.0) / count)


@dataclass(frozen=True, slots=True)
class _Middles:
    """What noisy tables say of coefficients of the centred design; NaN where the release lacks tables.

    Args:
        stepped: The estimates, and one unbiased step from them, shape [p].
        middles: Of the intervals, shape [p].
        covariance: Of these, shape [p, p].
        hidden: Which of them noise hides, shape [p].
    """

    stepped: Floats
    middles: Floats
    covariance: Floats
    hidden: NDArray[np.bool_]


def _find_middles(state: Fit, theta: Floats, inverse: Floats, quantile: float) -> _Middles:
    """The middles of the intervals, and what is not known of them.

    For families that are linear in the predictor the step is shrunk by its noise (`shrink_step`). Where a
    feature separates the target of a logistic regression, so that a coefficient of the table itself is
    endless, a step that is shrunk leaves the others far from the truth. No rule is known that tells such
    tables by their releases, so the whole step is taken for all of these.

    Args:
        state: What the regression is computed from.
        theta: Coefficients of the centred design, from which one step is taken, [p].
        inverse: Of minus the score's derivative, [p, p].
        quantile: Half the length of an interval, in standard errors.
    """
    size = state.design.size
    hidden, unknown = np.zeros(size, dtype=np.bool_), np.full(size, np.nan)
    if not state.sums.complete:
        return _Middles(unknown, unknown, np.full((size, size), np.nan), hidden)
    line, residual, noise = state.residual(theta)
    step, reach = inverse @ residual, find_reach(state.design, state.family)
    moved, affine = step, state.family.affine
    if affine:
        moved, _ = shrink_step(step, inverse @ noise @ inverse.T, reach)
    noise = noise + second_order(moved, reach, line.beta, state.sums)
    covariance = inverse @ noise @ inverse.T
    hidden[1:] = (quantile**2 * np.diag(covariance) > reach**2)[1:]
    if affine:
        moved, covariance = shrink_step(step, covariance, reach)
    return _Middles(theta + step, theta + moved, covariance, hidden)


@dataclass(frozen=True, slots=True)
class _Measured:
    """What the release measured of the design.

    Args:
        tables: Noisy tables.
        compared: These, and sums of products beside them, against the model.
        inside: What X'y of both lacks, since all rows of a bin of the target have one number: shape [p].
    """

    tables: MeasuredSums
    compared: Comparison
    inside: Floats

    @property
    def pooled(self) -> Sums:
        """Tables, and sums where there are any."""
        beside = self.compared.beside
        return (
            self.tables if beside is None or not self.tables.complete else SummedTables(self.tables, beside)
        )


def _gather_sums(release: Release, model: ModelTables, design: Design, inside: Floats) -> _Measured:
    """What the release measured: noisy tables, and sums of products where it has the design's numbers.

    Args:
        release, model: The release and the tables of the model fitted to it.
        design: Target and features.
        inside: What X'y lacks inside bins of the target, shape [p].
    """
    public = release.total if release.guarantee.neighbours.rows_are_public else None
    tables = PooledTables(release.domain, release.measurements)
    compared = Comparison(design, tables, model, NumberSums.find(design, release.sums, model))
    return _Measured(MeasuredSums(design, tables, public), compared, inside)


def _notes(sums: Sums, source: str) -> list[str]:
    """What stands in the way of intervals, and what to do about it.

    Raises:
        InputError: Estimates of noisy tables are wanted, and some are missing.
    """
    absent = [" x ".join(pair) for pair in sums.missing_pairs]
    if absent:
        shown = ", ".join(absent[:6]) + (f" and {len(absent) - 6} more" if len(absent) > 6 else "")
        remedy = (
            "Make a release that measures them (method auto, with the target named), raise epsilon, or use "
            "fewer features."
        )
        if source == "measured":
            raise InputError(invalid("features", f"in measured pairs: {shown} are not", remedy))
        return [f"no standard errors: no noisy table holds {shown}. {remedy}"]
    if sums.complete:
        return []
    if source == "measured":
        raise InputError(
            invalid("target", "without missing values for source='measured'", "Use source='both'.")
        )
    told = (
        "no standard errors: rows without a target are left out, and no table of two columns has them apart"
    )
    return [told]


def _note_empty(schema: Schema, design: Design) -> list[str]:
    """What is said of features that were named and have no numbers, since others determine them."""
    empty = [schema[one.column] for one in design.encodings if not one.names]
    return [
        f"{column.name} adds nothing here: {column.relation}. Name what it is made of instead"
        for column in empty
        if isinstance(column, Relative)
    ]


def _estimate(
    design: Design,
    rows: ModelRows,
    family: Family,
    measured: _Measured,
    own: tuple[Floats, Floats],
    source: str,
) -> tuple[Floats, Floats]:
    """The coefficients, shape [p], and minus the derivative of the score at those of the model, [p, p].

    Args:
        design, rows, family: Of the regression.
        measured: Noisy tables, and sums beside them.
        own: X'y of the model, with what it lacks inside bins of the target, and X'X.
        source: As for `linear`. With "both" what noisy tables say beyond the model moves the coefficients.
            For least squares the diagonal of X'X at a level is raised to the standard deviation of its noise
            where it is below: levels of which the model holds hardly a row had coefficients of several ranges
            of the target. The likelihood of a target that a feature separates is the worse for it; a logistic
            regression of which pairs are missing has a prior instead (`_find_prior`).
    """
    compared, pooled = measured.compared, measured.pooled
    size = float(rows.labels.std()) if family.name == "linear" else 1.0
    (labelled, crossed), ridge, sharp = own, np.zeros(design.size), None
    pull = np.zeros(design.size)  # a ridge around a centre: score less ridge (theta - centre)
    if source == "both" and design.whole:
        sharp = compared.sharpen()
        if family.name == "linear":
            ridge = np.maximum(compared.square_deviations() - np.diag(crossed), 0.0)
        elif family is LOGISTIC and not pooled.complete:
            ridge, centre = _find_prior(design, rows, measured.tables, labelled, crossed)
            pull = ridge * centre
    means = () if family.affine else label_means(design, compared.model)
    theta, hessian = fit_model(design, rows, family, labelled + pull, crossed, ridge, means)
    if source != "both" or sharp is None or size == 0.0:  # a target that never differs leaves nothing to move
        return theta, hessian
    line = score_at(theta, design, rows, family)
    change = move_coefficients(compared, labelled, (line, hessian), size, sharp)
    return theta + change, hessian


def _find_prior(
    design: Design, rows: ModelRows, tables: MeasuredSums, labelled: Floats, crossed: Floats
) -> tuple[Floats, Floats]:
    """The ridge and the centre of a logistic regression's coefficients: both of shape [p].

    X'y of n rows with noise of variance v, for coefficients that are normal around a centre with standard
    deviation 1 on the scale of log odds for a feature of standard deviation 1, asks for a ridge of v / (n h),
    where n h is the diagonal of the Hessian and h at most the variance of the target. v is each number's own,
    and the median where no table tells it: tables of one release differ in noise, and one of very many cells
    must not hold back what others know well. The centre is the maximum of the likelihood's polynomial of
    degree 2, which does not follow noise to where a feature separates the target. What this wins, and what
    else was tried, is in bench/LOG.md (2026-11-26 and 2026-11-27).

    Args:
        design, rows: Of the regression; rows have a target each.
        tables: Noisy ones.
        labelled, crossed: X'y, shape [p], and X'X, shape [p, p], of the model.
    """
    _, noise, known = tables.label_sums()
    nothing = np.zeros(design.size)
    spread = rows.weight * float(rows.labels @ rows.labels)
    if not known[1:].any() or spread <= 0.0:
        return nothing, nothing
    centre, _ = fit_model(design, rows, family_of("logistic", "quadratic"), labelled, crossed, nothing, ())
    ridge = np.where(known, noise, np.median(noise[1:][known[1:]])) / spread
    ridge[0] = 0.0
    return ridge, centre
