"""outlook and check_costs: fill in a Plan from a configured Synthesizer and the public part of a table."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from margrave.errors import InputError, PlanWarning, invalid
from margrave.limits import Limits, machine_memory
from margrave.measure.discovery.discover import MIN_BINS, bins_for, declare, needs
from margrave.measure.discovery.numeric import SHARES
from margrave.measure.mechanisms.gaussian import sigma_for
from margrave.methods import method
from margrave.models._base.memory import MIN_MEMORY
from margrave.models.registry import resolve
from margrave.privacy.ledger.ledger import Ledger
from margrave.run.buying import list_dependency_pairs, share_dependencies
from margrave.run.costs import REFERENCE, Costs, Work, expect_costs
from margrave.run.plan import Plan, say_span
from margrave.schema.columns import Binned, Column, Listed
from margrave.select.strategy import ONE, PAIR

if TYPE_CHECKING:
    from margrave.protocols import Fitter, Source, Strategy
    from margrave.run.synthesizer import Synthesizer
    from margrave.schema.schema import Schema


def noise_error(cells: int, sigma: float, rows: float) -> float:
    """Total variation that noise alone adds to a table: cells * sigma * sqrt(2/pi) / (2 rows), at most 1."""
    return min(cells * sigma * math.sqrt(2 / math.pi) / (2 * rows), 1.0)


def foretell_tables(sigma: float, size: float, rows: float) -> dict[str, float]:
    """Noise of the tables that follow from noisy copies of rows, where codes are equally frequent.

    `NoisySlices.tables` has the variances: n v of a cell of one attribute, n_a v + n_b v + n v^2 of one of a
    pair, v = sigma^2 (m - 1) / m with m codes; with equally many rows of each code n_a = n_b = n / m.

    Args:
        sigma: Standard deviation of the noise in each indicator.
        size: m, the mean over attributes.
        rows: n.

    Returns:
        The standard deviation of a cell in rows, by what is measured.

    Example:
        >>> foretell_tables(2.0, 2.0, 100.0)[ONE] ** 2
        200.0
    """
    noise = sigma**2 * (1.0 - 1.0 / size)
    return {ONE: math.sqrt(rows * noise), PAIR: math.sqrt(rows * noise * (noise + 2.0 / size))}


WORDS = {
    "profile": "kind and missing values",
    "format": "format of texts",
    "bounds": "least and greatest value",
    "spread": "where rows are between the bounds",
    "detail": "bins",
    "atoms": "single values",
    "grids": "round numbers",
    "hours": "hours of the day",
    "weekdays": "days of the week",
    "month_days": "days of the month",
    "spelling": "spelling",
    "offsets": "offsets from UTC",
    "marks": "marks of missing values",
    "censored": "censored results",
    "values": "values that occur",
    "shapes": "patterns of texts",
    "lists": "public lists that texts are on",
    "distinct": "number of distinct values and their rows",
    "prefixes": "beginnings of codes or patterns of texts",
}
GUESSED_SIZE = 33
"""Codes assumed of a column not known yet, for the expected error, time and memory: the bins that a column of
numbers has at most by default, and one for missing values."""
FINENESS = (24, 16, 12, 8, 6, MIN_BINS)
"""Bins that columns may get at most where GUESSED_SIZE codes of each pass a limit, tried in turn."""
GUESSED_BYTES = 5
"""Bytes assumed of a cell of a file, where the number of rows is guessed from its size."""
MIB = 2**20
"""Bytes of a mebibyte."""
SURE_SECONDS = 10.0
"""No run is refused for less than this: figures are not that sure."""
CHEAPER_METHODS = ("auto", "batched", "mst", "independent")
"""Methods that are named where another one is too large or too slow, best first."""


def outlook(synthesizer: Synthesizer, source: Source, rows: int | None, size: int | None = None) -> Plan:
    """What a fit would do, from column names, storage types and the declared schema alone.

    Args:
        synthesizer: With its arguments.
        source: The table; only its columns are looked at.
        rows: A public guess of the row count.
        size: Bytes of the file, for a guess of the rows where none is given; for time and memory only.
    """
    unit = synthesizer.neighbours.unit
    schema = declare(tuple(c for c in source.columns if c.name != unit.owner), synthesizer.schema)
    ledger = synthesizer.new_ledger(synthesizer.searches(schema))
    share = synthesizer.discovery_share(schema)
    guessed, said = _guess_rows(rows, size, len(source.columns))
    foretold = _foretell_run(synthesizer, schema)
    sigma, error, sizes = foretell_noise(synthesizer, schema, guessed)
    strategy = synthesizer.strategy
    counted = synthesizer.neighbours.adjacency != "add_remove"
    promised = synthesizer.promise(ledger)
    work = dataclasses.replace(_work(synthesizer, schema, guessed, None), sizes=tuple(sizes))
    costs = expect_costs(strategy, synthesizer.fitter, work)
    return Plan(
        method=synthesizer.method,
        guarantee=str(promised),
        rho=float(ledger.total),
        declared=tuple(column.name for column in schema.columns if not column.open),
        discovered={
            c.name: _looks(c, share)
            for c in schema.columns
            if c.open and c.name not in synthesizer.neighbours.public
        },
        shares=_shares(synthesizer, schema, counted),
        sigma=sigma,
        error={} if rows is None else error,
        seconds=_seconds(costs, synthesizer.limits),
        memory=(costs.model + costs.rows) / MIB,
        limits=synthesizer.limits.words() | _say_fineness(foretold.bins),
        rows=said,
        refused=(refused := find_refusal(synthesizer, schema, foretold) or ""),
        warnings=() if refused else _find_warnings(synthesizer, schema, work, costs),
        epsilon=synthesizer.epsilon,
        odds=promised.describe_odds(),
        copies=_copies(ledger, _spent_apart(synthesizer, schema), sizes, strategy),
        otherwise=strategy.otherwise,
    )


def foretell_noise(
    synthesizer: Synthesizer, schema: Schema, rows: int
) -> tuple[dict[str, float], dict[str, float], list[int]]:
    """Noise of a typical table of one column and of two, from public things alone.

    Args:
        synthesizer: With its arguments.
        schema: The columns to release, those to be discovered included.
        rows: A public guess of the row count.

    Returns:
        The standard deviation in rows, and the mean total variation, by what is measured; and the codes of
        each column.
    """
    ledger = synthesizer.new_ledger(synthesizer.searches(schema))
    fineness = choose_fineness(synthesizer, schema)
    noise = bins_for(rows, len(schema.attributes), ledger.total, partial(sigma_for, ledger))
    sizes = guess_sizes(schema, min(noise, fineness or noise))
    apart, mean = _spent_apart(synthesizer, schema), sum(sizes) / len(sizes)
    copies = _copies(ledger, apart, sizes, synthesizer.strategy)
    if copies:
        sigma = foretell_tables(copies["sigma"], mean, rows)
    else:
        sigma = _sigma(ledger, apart, len(sizes), synthesizer.strategy)
    sigma = {what: value for what, value in sigma.items() if what == ONE or len(sizes) > 1}
    cells = {ONE: mean, PAIR: mean**2}
    return sigma, {what: noise_error(round(cells[what]), value, rows) for what, value in sigma.items()}, sizes


MOST_ASKED = 0.6
"""Share of a time limit that may go into what cannot be cut short before a plan warns of it. Runs of 400 and
1,200 columns at 0.70 and 0.74 had no step of a descent left: bench/LOG.md, 2026-11-24."""
SURE_LEAST = 1.0
"""Seconds that cannot be cut short of which no plan warns: figures are not that sure."""
LONG_SECONDS, LONGEST_SECONDS = 3_600.0, 86_400.0
"""An hour and a day. A run that takes longer than the first at least is warned of, with faster methods; one
that takes longer than the second starts only where `max_seconds` says how long it may take."""


def check_costs(synthesizer: Synthesizer, schema: Schema, *, resumed: bool = False) -> None:
    """Refuse a run that cannot stay within its limits, and warn of a very long one, before anything is spent.

    The limits are `max_memory`, or the memory of the machine where there is none, and `max_seconds`, or a day
    where there is none. What the run needs is foretold from columns and arguments, never from the rows.

    Args:
        synthesizer: With its arguments.
        schema: The columns to release, those to be discovered included.
        resumed: Whether the run was started before; how long it takes is then no reason to refuse it.

    Raises:
        InputError: It needs more. The error names methods that would do.

    Warns:
        PlanWarning: It takes very long, or its time limit leaves the model no step.
    """
    foretold = _foretell_run(synthesizer, schema)
    message = find_refusal(synthesizer, schema, foretold, resumed=resumed)
    if message is not None:
        raise InputError(message)
    for warning in _find_warnings(synthesizer, schema, foretold.work, foretold.costs):
        warnings.warn(warning, PlanWarning, stacklevel=4)


class _Foretold(NamedTuple):
    """What a run would have to do, of which rows are no part.

    Args:
        bins: Most bins of each column that is discovered; see `choose_fineness`.
        work: With these bins.
        costs: Of that work.
    """

    bins: int | None
    work: Work
    costs: Costs


def _foretell_run(synthesizer: Synthesizer, schema: Schema) -> _Foretold:
    bins = choose_fineness(synthesizer, schema)
    work = _work(synthesizer, schema, 0, bins)
    return _Foretold(bins, work, expect_costs(synthesizer.strategy, synthesizer.fitter, work))


def choose_fineness(synthesizer: Synthesizer, schema: Schema) -> int | None:
    """Most bins of each column that is discovered, where the run would pass its limits with the usual ones.

    The limits are those of `check_costs` and the codes that the method's model takes. Public: rows are not
    looked at. So a wide table is released in coarser bins where it would else be refused.

    Returns:
        The number of bins; None where the usual ones do or no column is cut, MIN_BINS where no number does.
    """
    work = _work(synthesizer, schema, 0, None)
    limits, strategy, fitter = synthesizer.limits, synthesizer.strategy, synthesizer.fitter
    if _keeps_limits(limits, strategy, fitter, work) or not any(_is_cut(c) for c in schema.attributes):
        return None
    coarser = ((bins, _cut_work(work, schema, bins)) for bins in FINENESS)
    return next((bins for bins, cut in coarser if _keeps_limits(limits, strategy, fitter, cut)), MIN_BINS)


def _is_cut(column: Column) -> bool:
    """Whether discovery cuts a column into bins, or may."""
    return column.open and not isinstance(column, Listed)


def _keeps_limits(limits: Limits, strategy: Strategy, fitter: Fitter, work: Work) -> bool:
    codes, most = fitter.count_codes(work.sizes)
    costs, seconds = expect_costs(strategy, fitter, work), limits.max_seconds
    in_time = seconds is None or costs.least <= max(seconds, SURE_SECONDS)
    return costs.model <= _memory_limit(limits) and in_time and codes <= most


def _find_warnings(synthesizer: Synthesizer, schema: Schema, work: Work, costs: Costs) -> tuple[str, ...]:
    """What to say of a run that would start: no time for its model, or very much of it."""
    seconds = synthesizer.limits.max_seconds
    if seconds is None and costs.low > LONG_SECONDS:
        instead = _list_methods(synthesizer, schema, work.rows, costs.low / 4)
        faster = f"; of other methods, {' or '.join(instead)}" if instead else ""
        return (f"method {synthesizer.method!r} takes {say_span(costs.low)} or more here{faster}",)
    if seconds is None or costs.least <= max(MOST_ASKED * seconds, SURE_LEAST):
        return ()
    warning = (
        f"of a time limit of {seconds:g} s, what cannot be cut short takes about "
        f"{math.ceil(costs.least):,} s: the model may get no step, and columns come out independent; "
        f"{math.ceil(max(costs.low, costs.least / MOST_ASKED)):,} s leave time for a fit"
    )
    return (warning,)


def _say_fineness(bins: int | None) -> dict[str, str]:
    if bins is None:
        return {}
    return {"bins": f"at most {bins} a column that is discovered, so that memory, time and model suffice"}


def find_refusal(
    synthesizer: Synthesizer, schema: Schema, foretold: _Foretold | None = None, *, resumed: bool = False
) -> str | None:
    """Why a run would be refused, or None. Public: rows are not looked at.

    Args:
        synthesizer: With its arguments.
        schema: The columns to release.
        foretold: What the run would have to do, where that is known already.
        resumed: Whether it was started before; see `check_costs`.
    """
    bins, work, costs = foretold or _foretell_run(synthesizer, schema)
    memory, seconds = _memory_limit(synthesizer.limits), synthesizer.limits.max_seconds
    what = f"method {synthesizer.method!r} with {work.columns:,} columns of {sum(work.sizes):,} values"
    if work.unknown:
        guess = GUESSED_SIZE if bins is None else bins + 1
        what += f" ({guess} guessed for each column that is not declared)"
    own = synthesizer.limits.max_memory
    if costs.model > memory:
        where = "" if own is not None else ", which is more than this machine has"
        constraint = f"at least {costs.model / 1e9:.2g} GB for {what}{where}"
        remedy = _remedy(synthesizer, schema, "max_memory")
        return (
            invalid("max_memory", constraint, remedy)
            if own is None
            else invalid("max_memory", constraint, remedy, got=own)
        )
    if seconds is not None and costs.least > max(seconds, SURE_SECONDS):
        constraint = f"at least {math.ceil(costs.least):,} for {what}"
        return invalid("max_seconds", constraint, _remedy(synthesizer, schema, "max_seconds"), got=seconds)
    if (
        seconds is None
        and costs.low > LONGEST_SECONDS
        and synthesizer.strategy.keeps_deadline
        and not resumed
    ):
        constraint = f"given for a run that takes {say_span(costs.low)} or more: {what}"
        return invalid("max_seconds", constraint, _remedy(synthesizer, schema, "max_seconds", costs.low / 4))
    codes, most = synthesizer.fitter.count_codes(work.sizes)
    if work.unknown and codes > most:
        constraint = f"of at most {most:,.0f} codes in all for {what}"
        return invalid("columns", constraint, _remedy(synthesizer, schema, "max_memory"))
    return None


def _remedy(synthesizer: Synthesizer, schema: Schema, option: str, within: float = math.inf) -> str:
    """What to do instead: methods within the limits that take at most `within` seconds, with their costs."""
    fits = _list_methods(synthesizer, schema, 0, within)
    instead = f"Use {' or '.join(fits)}. " if fits else ""
    declare_some = (
        "declare the values of columns (margrave schema), " if any(c.open for c in schema.attributes) else ""
    )
    verb = "give" if option == "max_seconds" and synthesizer.limits.max_seconds is None else "raise"
    return f"{instead}Or {declare_some}take fewer columns or coarser bins, or {verb} {option}."


def _list_methods(synthesizer: Synthesizer, schema: Schema, rows: int, within: float) -> list[str]:
    """Methods within the limits that take at most `within` seconds, each in the bins that it needs, and what
    they take, in words.
    """
    fits, plain = [], _work(synthesizer, schema, rows, None)
    works = [plain, *(_cut_work(plain, schema, bins) for bins in FINENESS)]
    for name in CHEAPER_METHODS:
        recipe = method(name)
        strategy, fitter = recipe.strategy(), resolve(recipe.fitter)
        for work in works:
            if _keeps_limits(synthesizer.limits, strategy, fitter, work):
                costs = expect_costs(strategy, fitter, work)
                took = f", up to {say_span(costs.high)}" if math.isfinite(within) else ""
                if costs.high <= within:
                    fits.append(f"method {name!r} ({costs.model / 1e9:.2g} GB{took})")
                break
    return fits


def _memory_limit(limits: Limits) -> float:
    """Bytes a run may take; never below what the smallest model is allowed."""
    limit = limits.max_memory if limits.max_memory is not None else machine_memory()
    return math.inf if limit is None else float(max(limit, MIN_MEMORY))


def guess_sizes(schema: Schema, bins: int | None) -> list[int]:
    """Codes of each column to release, a guess where they are to be discovered.

    Args:
        schema: The columns.
        bins: Most bins of those that are cut into some, where it is known; missing values are one code more.
    """
    cut = GUESSED_SIZE if bins is None else min(GUESSED_SIZE, bins + 1)
    return [
        column.size if column.known else cut if _is_cut(column) else GUESSED_SIZE
        for column in schema.attributes
    ]


def _work(synthesizer: Synthesizer, schema: Schema, rows: int, bins: int | None) -> Work:
    ledger = synthesizer.new_ledger(synthesizer.searches(schema))
    rho = float(ledger.total * (1 - _spent_apart(synthesizer, schema)))
    return Work(
        sizes=tuple(guess_sizes(schema, bins)),
        rows=rows,
        epsilon=synthesizer.epsilon,
        mu=math.sqrt(2 * rho),
        unknown=sum(column.open for column in schema.attributes),
    )


def _cut_work(work: Work, schema: Schema, bins: int) -> Work:
    """The same work in at most as many bins of each column that is discovered."""
    return dataclasses.replace(work, sizes=tuple(guess_sizes(schema, bins)))


def _guess_rows(rows: int | None, size: int | None, columns: int) -> tuple[int, str]:
    """Rows that time and memory are foretold for, and where the number comes from, in words.

    A guess from the size of a file is rounded to 1, 2 or 5 times a power of ten.
    """
    if rows is not None:
        return rows, f"{rows:,}, as given"
    if size is None:
        return REFERENCE, f"{REFERENCE:,} taken for time and memory; --rows says better"
    guess = max(size / (GUESSED_BYTES * max(columns, 1)), 1.0)
    power = 10.0 ** math.floor(math.log10(guess))
    rounded = int(power * max(step for step in (1, 2, 5) if step * power <= guess))
    return rounded, f"about {rounded:,}, guessed from the size of the file; --rows says better"


def _looks(column: Column, share: Fraction) -> str:
    """What would be discovered of a column, and what to declare so that it is not."""
    within = isinstance(column, Binned) and column.provisional
    if not share:
        return "nothing, since it has no share of rho" + (": bins of equal width" if within else "")
    looks = needs(column)
    said = ", ".join(WORDS[look] for look in SHARES if look in looks)
    return f"{said}, between the declared bounds; bins=32 takes equal ones at no cost" if within else said


def _shares(synthesizer: Synthesizer, schema: Schema, counted: bool) -> dict[str, float]:
    """Shares of rho in the order in which they are spent, by stage."""
    discovery = synthesizer.discovery_share(schema)
    shares, rest = {"discover": discovery}, 1 - discovery
    dependencies = share_dependencies(list_dependency_pairs(schema, synthesizer.neighbours.public))
    shares["declared dependencies"] = rest * dependencies
    rest *= 1 - dependencies
    numbers = rest * _share_numbers(synthesizer, schema)
    stages = synthesizer.strategy.split_rho(counted or bool(discovery))
    shares |= {stage: part * (rest - numbers) for stage, part in stages.items()}
    shares["products of numbers"] = numbers
    return {stage: float(share) for stage, share in shares.items() if share}


def _share_numbers(synthesizer: Synthesizer, schema: Schema) -> Fraction:
    """The share of what dependencies leave for sums of columns of numbers; as if there were some where
    discovery has to find what columns are."""
    share = synthesizer.moment_share
    if not share or synthesizer.discovery_share(schema):
        return share
    from margrave.regression.number_sums import find_numbers

    return share if find_numbers(schema, synthesizer.target or "") else Fraction(0)


def _sigma(ledger: Ledger, apart: Fraction, columns: int, strategy: Strategy) -> dict[str, float]:
    """Noise of what each strategy typically measures, with all of rho but a share that goes elsewhere."""
    rho = ledger.total * (1 - apart)
    shares = strategy.share_marginal(max(columns, 1))
    return {what: sigma_for(ledger, rho * share) for what, share in shares.items()}


def _spent_apart(synthesizer: Synthesizer, schema: Schema) -> Fraction:
    """The share of rho that goes into discovery, dependencies and sums, not into what the strategy buys."""
    dependencies = share_dependencies(list_dependency_pairs(schema, synthesizer.neighbours.public))
    kept = (1 - synthesizer.discovery_share(schema)) * (1 - dependencies)
    return 1 - kept * (1 - _share_numbers(synthesizer, schema))


def _copies(ledger: Ledger, apart: Fraction, sizes: Sequence[int], strategy: Strategy) -> dict[str, float]:
    """`Plan.copies`: noise of the noisy copies of rows; empty for a strategy that buys none."""
    squared, rho = strategy.bound_copies(sizes, ledger.neighbours), ledger.total * (1 - apart)
    if squared is None:
        return {}
    sigma = sigma_for(ledger, rho, squared)
    return {"numbers": float(sum(sizes)), "sigma": sigma, "mu": math.sqrt(2 * rho)}


def _seconds(costs: Costs, limits: Limits) -> tuple[float, float]:
    """Low and high; a time limit bounds what is not reading, discovery and counting."""
    if limits.max_seconds is None:
        return costs.low, costs.high
    high = min(costs.high, costs.fixed + limits.max_seconds)
    return min(costs.low, high), high
