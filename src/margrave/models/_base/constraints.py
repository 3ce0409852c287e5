"""What rules do to measurements, and rows of any model that obey them.

A fitter knows the cells that rules rule out: nothing is there, whatever noise says. A model's rows are its
distribution given the rules. Where a model does not hold the rules itself, that is done by drawing rows that
break one again; what is still wrong after ROUNDS is found code by code. What sampled rows must have besides,
the evidence, is codes, one for all rows or one a row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import Deadline
from margrave.models._base.pooling import Pooled
from margrave.schema.constraints.codes import CodeRules
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded, code_dtype

if TYPE_CHECKING:
    from margrave.protocols import Model


Evidence = Mapping[str, int | NDArray[np.int64]]
"""Codes by attribute: one for all rows, or one a row."""


def check_evidence(
    domain: Domain, given: Mapping[str, Any] | None, rows: int
) -> dict[str, int | NDArray[np.int64]]:
    """The evidence as integers and arrays of integers.

    Raises:
        SchemaError: The domain has no such attribute.
        InputError: A code is outside its attribute, or codes are not one a row.
    """
    found: dict[str, int | NDArray[np.int64]] = {}
    for name, codes in (given or {}).items():
        array, size = np.asarray(codes), domain[name]
        if array.ndim and array.shape != (rows,):
            asked = f"one code, or one for each of the {rows} rows, for {name!r}"
            raise InputError(invalid("given", asked, "Give as many as rows.", got=array.shape))
        # Truth values count as whole numbers; floats and texts do not.
        if array.size and (array.dtype.kind not in "iub" or array.min() < 0 or array.max() >= size):
            asked = f"of codes 0 to {size - 1} for {name!r}"
            got = array.item() if array.ndim == 0 else None
            raise InputError(invalid("given", asked, "Use codes of it.", got=got))
        found[name] = int(array) if array.ndim == 0 else array.astype(np.int64)
    return found


def by_row(given: Evidence) -> bool:
    """Whether some codes are one a row, so that the rows have an order to keep."""
    return any(not isinstance(codes, int) for codes in given.values())


def group_evidence(given: Evidence, rows: int) -> Iterator[tuple[NDArray[np.int64], dict[str, int]]]:
    """The rows that are given the same codes, in their order, and these codes: a part for each."""
    if not by_row(given):
        yield np.arange(rows), {name: int(code) for name, code in given.items()}
        return
    lines = np.stack([np.broadcast_to(np.asarray(codes, np.int64), rows) for codes in given.values()])
    distinct, which = np.unique(lines, axis=1, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(which.ravel(), minlength=distinct.shape[1]))
    for codes, own in zip(distinct.T.tolist(), np.split(order, ends[:-1]), strict=True):
        yield own, dict(zip(given, codes, strict=True))


def pick_evidence(given: Evidence, rows: NDArray[np.int64]) -> dict[str, int | NDArray[np.int64]]:
    """The evidence of some of the rows."""
    return {name: codes if isinstance(codes, int) else codes[rows] for name, codes in given.items()}


def rows_asked(rows: int) -> int:
    """The number of rows, if it is one.

    Raises:
        InputError: It is negative.
    """
    if rows < 0:
        raise InputError(invalid("rows", "at least 0", "Ask for a number of rows.", got=rows))
    return rows


Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Draw = Callable[[int, Evidence], Sequence[NDArray[Any]]]

ROUNDS = 8
"""How often rows that break a rule are drawn again, by the model alone."""
TRIES = 4
"""Rows drawn for each row that is wanted, in one round, at most."""
FORBIDDEN_CERTAINTY = 1e3
"""By how much the standard deviation of cells that rules forbid is divided, where a model weighs cells by it:
the 0 there is known, and a million times the weight lets nothing measured move it."""
SEARCHES = 256
"""Rows found code by code for one set of given codes; where more are needed they are used again."""


def resolve_dependencies(domain: Domain, tables: Sequence[Pooled]) -> Domain:
    """The domain with dependencies whose table is not public read off the noisy counts, if there are any."""
    if domain.rules is None:
        return domain
    counts = {table.clique: table.values for table in tables}
    noise = {table.clique: table.sigma for table in tables}
    return dataclasses.replace(domain, rules=domain.rules.read(counts, noise))


def zero_forbidden(domain: Domain, tables: Sequence[Pooled], certainty: float) -> list[Pooled]:
    """Measurements with what the rules know: cells that no row can be in hold 0.

    Args:
        domain: With its rules, `resolve_dependencies`.
        tables: One table a clique.
        certainty: By how much the standard deviation of such cells is divided.
    """
    if domain.rules is None:
        return list(tables)
    found = []
    for table, allowed in zip(tables, find_allowed(domain, [one.clique for one in tables]), strict=True):
        values, sigma = np.where(allowed, table.values, 0.0), table.sigma.copy()
        sigma[~allowed] /= certainty
        found.append(dataclasses.replace(table, values=values, sigma=sigma))
    return found


def find_allowed(domain: Domain, cliques: Sequence[Clique]) -> list[NDArray[np.bool_]]:
    """The cells of each clique's table that some row may be in by the rules, shape of the table.

    Args:
        domain: With its rules, `resolve_dependencies`.
        cliques: Each in the domain's order.
    """
    found = [np.ones([domain[name] for name in clique], dtype=np.bool_) for clique in cliques]
    for ruled, allowed in () if domain.rules is None else domain.rules.tables():
        for clique, cells in zip(cliques, found, strict=True):
            # Rules about more attributes than the table has are summed out to what the table can know.
            cells &= _within(ruled, allowed, clique)
    return found


def sample_constrained(
    domain: Domain,
    rows: int,
    given: Evidence,
    rng: np.random.Generator,
    draw: Draw,
    ways: Callable[[], dict[str, Floats]],
) -> list[NDArray[Any]]:
    """A model's rows, conditioned on the domain's rules, a column an attribute.

    Args:
        domain: With its rules, if any.
        rows: How many.
        given: Checked codes.
        rng: Source of randomness.
        draw: Rows of the model given codes.
        ways: Each attribute's distribution, asked for where rows are found code by code.

    Raises:
        InputError: The rules leave no row with some of the given codes.
    """
    rules = domain.rules
    if rules is None:
        return list(draw(rows, given))
    _check(rules, given, rows)
    columns = [np.array(column) for column in draw(rows, given)]
    wrong, rate = np.flatnonzero(~_obey(rules, domain, columns)), 1.0
    for _ in range(ROUNDS):
        if not len(wrong):
            break
        # How often a drawn row obeys, from the first draw, so that later ones ask for about as many as are
        # needed.
        rate = max(1.0 - len(wrong) / rows, 1.0 / TRIES) if rate == 1.0 else rate
        wrong = _again(rules, domain, columns, wrong, given, draw, rate)
    if len(wrong):
        _search_rows(rules, domain, columns, wrong, given, rng, draw, ways())
    return columns


def sample_codes(
    domain: Domain,
    rows: int,
    given: Mapping[str, Any] | None,
    rng: np.random.Generator,
    draw: Draw,
    ways: Callable[[], dict[str, Floats]],
) -> Encoded:
    """What a model's `sample` gives: its rows, conditioned on given codes and on the domain's rules.

    Args:
        domain, rng, draw, ways: As for `sample_constrained`.
        rows: How many, at least 0.
        given: Codes by attribute, one for all rows or one a row; rows keep the order of those.

    Raises:
        InputError: rows is negative, a code is outside its attribute, or no row obeys the rules with it.
    """
    columns = sample_constrained(
        domain, rows, check_evidence(domain, given, rows_asked(rows)), rng, draw, ways
    )
    pairs = zip(columns, domain.sizes, strict=True)
    return Encoded(domain, tuple(column.astype(code_dtype(size)) for column, size in pairs))


def sample_consistent(
    model: Model,
    rows: int,
    rng: np.random.Generator,
    given: Mapping[str, Any],
    numbers: Mapping[str, Floats],
    deadline: Deadline | None = None,
) -> Encoded:
    """A model's rows given codes, that leave numbers known beside their codes room under the rules.

    A row whose drawn codes cannot go with its number, though they could with another number of the same bin,
    is drawn again, and at last found code by code.

    Args:
        model: Any model.
        rows: How many.
        rng: Source of randomness.
        given: Codes by attribute, one or one a row.
        numbers: Of given attributes, one a row, NaN where missing, each of shape [rows].
        deadline: Of the model's own work on the rows; see `Model.sample`.

    Raises:
        InputError: The rules leave no row with some of the given values.
    """
    within = {} if deadline is None else {"deadline": deadline}
    found, rules = model.sample(rows, rng, given or None, **within), model.domain.rules
    known = {n: v for n, v in numbers.items() if rules is not None and n in rules.names}
    if rules is None or not known:
        return found
    evidence = check_evidence(model.domain, given, rows)
    # What no drawn code can mend is refused before any row is drawn anew.
    given_codes = {n: np.broadcast_to(c, rows) for n, c in evidence.items()}
    if not rules.possible(given_codes, rows, known).all():
        raise _impossible()
    columns = [np.array(column) for column in found.columns]
    _made_room(model, rules, columns, rng, evidence, known)
    return Encoded(model.domain, tuple(columns))


def _made_room(
    model: Model,
    rules: CodeRules,
    columns: Sequence[NDArray[Any]],
    rng: np.random.Generator,
    evidence: Evidence,
    known: Mapping[str, Floats],
) -> None:
    """Draw rows that leave no room for their known numbers anew, in place."""
    wrong = np.flatnonzero(~_obey(rules, model.domain, columns, known))
    for _ in range(ROUNDS):
        if not len(wrong):
            return
        owners = np.repeat(wrong, TRIES)
        own: dict[str, Any] = pick_evidence(evidence, owners)
        fresh = model.sample(len(owners), rng, own).columns
        good = _obey(rules, model.domain, fresh, {n: v[owners] for n, v in known.items()})
        # The first good row of each owner, as an owner may have several.
        mended, first = np.unique(owners[good], return_index=True)
        for column, values in zip(columns, fresh, strict=True):
            column[mended] = values[np.flatnonzero(good)[first]]
        wrong = np.setdiff1d(wrong, mended, assume_unique=True)
    # Only rows that are left are worth the search code by code.
    ways = {name: model.project((name,)) for name in rules.names}
    for row in wrong.tolist():
        start = {n: int(np.broadcast_to(c, len(columns[0]))[row]) for n, c in evidence.items()}
        exact = {n: float(v[row]) for n, v in known.items() if not np.isnan(v[row])}
        codes = {**start, **_complete_row(rules, start, ways, rng, exact)}
        for column, values in zip(columns, model.sample(1, rng, codes).columns, strict=True):
            column[row] = values[0]


def _again(
    rules: CodeRules,
    domain: Domain,
    columns: Sequence[NDArray[Any]],
    wrong: Longs,
    given: Evidence,
    draw: Draw,
    rate: float,
) -> Longs:
    """Draw some rows anew, in place; return those that still break a rule."""
    # Rows with codes of their own take TRIES each; others share what is drawn.
    exact, many = by_row(given), int(len(wrong) / rate) + 64
    owners = np.repeat(wrong, TRIES) if exact else np.resize(wrong, many)
    fresh = draw(len(owners), pick_evidence(given, owners))
    good = np.flatnonzero(_obey(rules, domain, fresh))
    if exact:
        mended, first = np.unique(owners[good], return_index=True)
        good = good[first]
    else:
        # Without codes of their own any good row fits any wrong one.
        good = good[: len(wrong)]
        mended = wrong[: len(good)]
    for column, values in zip(columns, fresh, strict=True):
        column[mended] = values[good]
    return np.setdiff1d(wrong, mended, assume_unique=True)


def _search_rows(
    rules: CodeRules,
    domain: Domain,
    columns: Sequence[NDArray[Any]],
    wrong: Longs,
    given: Evidence,
    rng: np.random.Generator,
    draw: Draw,
    ways: dict[str, Floats],
) -> None:
    """Find rows code by code, in place: attributes under rules first, then the others by the model."""
    fixed = [name for name in rules.names if name in given]
    # One more line than fixed attributes, so that the array has columns even if none is fixed.
    held = np.zeros((len(fixed) + 1, len(wrong)), dtype=np.int64)
    for i, name in enumerate(fixed):
        held[i] = np.broadcast_to(given[name], columns[0].shape)[wrong]
    distinct, group = np.unique(held, axis=1, return_inverse=True)
    found = {name: np.empty(len(wrong), dtype=np.int64) for name in rules.names}
    for g in range(distinct.shape[1]):
        mine = np.flatnonzero(group.ravel() == g)
        start = {name: int(distinct[i, g]) for i, name in enumerate(fixed)}
        # Rows with the same given codes share answers, of which there are at most SEARCHES.
        answers = [_complete_row(rules, start, ways, rng) for _ in range(min(len(mine), SEARCHES))]
        for place, row in enumerate(mine):
            for name, code in answers[place % len(answers)].items():
                found[name][row] = code
    # Attributes that no rule speaks of are drawn by the model, given those under rules.
    fresh = draw(len(wrong), {**pick_evidence(given, wrong), **found})
    for column, values in zip(columns, fresh, strict=True):
        column[wrong] = values


def _complete_row(
    rules: CodeRules,
    start: dict[str, int],
    ways: dict[str, Floats],
    rng: np.random.Generator,
    exact: Mapping[str, float] | None = None,
) -> dict[str, int]:
    found = rules.complete(start, ways, rng, exact)
    if found is None:
        raise _impossible()
    return found


def _check(rules: CodeRules, given: Evidence, rows: int) -> None:
    """Refuse codes that break a rule whatever the other attributes are."""
    columns = {name: np.broadcast_to(codes, rows) for name, codes in given.items() if name in rules.names}
    if columns and not rules.possible(columns, rows).all():
        raise _impossible()


def _obey(
    rules: CodeRules,
    domain: Domain,
    columns: Sequence[NDArray[Any]],
    exact: Mapping[str, Floats] | None = None,
) -> NDArray[np.bool_]:
    named = {name: columns[domain.index(name)] for name in rules.names}
    return rules.possible(named, len(columns[0]) if len(columns) else 0, exact)


def _within(clique: Clique, allowed: NDArray[np.bool_], wanted: Clique) -> NDArray[np.bool_]:
    """Which cells of a wanted clique lie in an allowed cell, to be broadcast over its other axes."""
    # What lies outside of the table's attributes is open: a cell is allowed if any completion is.
    gone = tuple(i for i, name in enumerate(clique) if name not in wanted)
    kept = [name for name in clique if name in wanted]
    order = [name for name in wanted if name in kept]
    part = np.asarray(allowed.any(axis=gone)).transpose([kept.index(name) for name in order])
    shape = [part.shape[order.index(name)] if name in order else 1 for name in wanted]
    return np.asarray(part.reshape(shape))


def _impossible() -> InputError:
    remedy = "Change them, or leave some out."
    return InputError(invalid("given", "values that some row has under the schema's rules", remedy))
