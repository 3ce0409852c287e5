"""BlendedModel: rows of two models, each with a share that split noise says.

Tables of a blend M_w = w A + (1 - w) G of two models are the same mean of theirs, and where the two err
differently, it errs less than either. Its squared error is quadratic in w. With B a half of split noise that
neither model has seen (`margrave.models._base.pooling`), and <., .> the weighted products of `compare`,

    |M_w - B|^2 = |G - B|^2 - 2 w <A - G, B - G> + w^2 |A - G|^2

is unbiased but for a constant, and least at w = <A - G, B - G> / |A - G|^2. Its standard error is known, and
where it is large the share is drawn towards the one that is usual (`find_share`).

Rows are drawn from both models, given the same codes, and each row is taken from one of them. A coin for each
would give the tables of the rows a noise that both models' own rows do not have. So choices are changed while
that lowers the squared excess of all pair counts over the mean of both models' rows (`choose_rows`): each row
remains as one of the models drew it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.limits import Deadline
from margrave.models._base.compiled import compile_kernel
from margrave.models._base.model import INNER_PREFIX, Model, pack_inner, unpack_inner
from margrave.models._base.pooling import Pooled, compare
from margrave.models.gated.model import MAX_BALANCED, GatedModel
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Codes, Encoded

if TYPE_CHECKING:
    from margrave import protocols

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Singles = NDArray[np.float32]
Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

PASSES = 12
"""How often a change is tried for each row. With half of claims-a public at epsilon 5 pairs of the rows are
.0118 off the mean of both draws after one pass, .0100 after four and .0091 after twelve, in a tenth of a
second."""
WORK = 1 << 28
"""Pairs that a pass looks at, at most: a second or two. Of more rows a part is tried."""
USUAL_SHARE, USUAL_SPREAD = 0.6, 0.1
"""Mean and standard deviation of the share that is best before anything is measured. Over 40 releases of six
choosing tables pairs are .9 % further off than with the share that is best in hindsight, 2.2 % without this
prior, and .8 to 1.2 % with means of .5 to .7 and deviations of 0 to .2 (bench/LOG.md)."""
KEY = "blend_share"
"""An array that the state of a blend has and that of no other model of `PublicAuto`."""


class BlendedModel(Model):
    """A gated mixture and another model, of which rows are drawn by shares.

    Marginals are the mean of both models' by these shares; of public attributes alone they are counted.

    Args:
        gated: The gated mixture.
        other: A model of the same attributes.
        share: Of the rows that are the other model's, between 0 and 1.
    """

    def __init__(self, gated: GatedModel, other: protocols.Model, share: float) -> None:
        self.gated, self.other, self.share = gated, other, float(share)

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""
        return self.gated.domain

    @property
    def total(self) -> float:
        """The number of rows the model stands for; marginals sum to it."""
        return self.gated.total

    @property
    def converged(self) -> bool:
        """Whether both fits met their tolerances."""
        return self.gated.converged and self.other.converged

    def project(self, clique: Clique) -> Floats:
        """The marginal of any clique, in rows, shape domain.shape(clique).

        Raises:
            InputError: The clique repeats an attribute.
        """
        return self.project_many([clique])[0]

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The marginals of many cliques."""
        public = set(self.gated.rows.names)
        modelled = [clique for clique in cliques if not public.issuperset(clique)]
        theirs = dict(zip(modelled, self.other.project_many(modelled), strict=True))
        return [
            own + self.share * (theirs[clique] - own) if clique in theirs else own
            for clique, own in zip(cliques, self.gated.project_many(cliques), strict=True)
        ]

    def sample(
        self,
        rows: int,
        rng: np.random.Generator,
        given: Mapping[str, int | Codes] | None = None,
        deadline: Deadline | None = None,
    ) -> Encoded:
        """Synthetic rows, conditioned on the codes in `given` and on the rules, each from one of the models.

        Raises:
            InputError: rows is negative, a code is outside its attribute, or no row obeys the rules with it.
        """
        other, gated = (model.sample(rows, rng, given, deadline) for model in (self.other, self.gated))
        chosen = choose_rows(other, gated, self.share, rng, deadline)
        pairs = [(other.column(name), gated.column(name)) for name in self.domain.names]
        return Encoded(self.domain, tuple(np.where(chosen, one, two) for one, two in pairs))

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which `PublicAuto.restore` builds the same model again."""
        return {KEY: np.asarray(self.share)} | pack_inner(self.gated) | self.other.state()


def split_state(
    state: Mapping[str, NDArray[Any]],
) -> tuple[float, dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """The share, the gated mixture's arrays and the other model's, of a blend's state.

    Raises:
        ReleaseError: The share is none.
    """
    gated = unpack_inner(state)
    found = np.ravel(np.asarray(state[KEY], dtype=np.float64))
    if found.shape != (1,) or not 0 <= found[0] <= 1:
        raise ReleaseError(invalid("state", "with a share of the rows", "The release is damaged."))
    rest = {key: part for key, part in state.items() if key != KEY and not key.startswith(INNER_PREFIX)}
    return float(found[0]), gated, rest


def find_share(
    other: Sequence[Floats], gated: Sequence[Floats], judged: Sequence[Pooled], rows: float
) -> float:
    """The share of the other model's rows that a half of split noise finds best, between 0 and 1.

    What nobody measured is left out: of it only a bound is known. Where the standard error of the best share
    is large it is drawn towards USUAL_SHARE, as by a normal prior with deviation USUAL_SPREAD.

    Args:
        other: That model's tables in rows, one for each judged table.
        gated: The gated mixture's.
        judged: The half of the measurements that was not fitted.
        rows: What a proportion is of.
    """
    measured = [parts for parts in zip(other, gated, judged, strict=True) if not parts[2].inferred]
    if not measured:
        return USUAL_SHARE
    theirs, own, tables = (list(part) for part in zip(*measured, strict=True))
    # Judged by the gated mixture's own tables, the gain is the squared distance of the two models.
    same = [replace(table, values=expected) for table, expected in zip(tables, own, strict=True)]
    squared, _ = compare(theirs, own, same, rows)
    gain, error = compare(theirs, own, tables, rows)
    # The mean of what is usual and of what the tables say, each by its precision. Both are multiplied by the
    # squared distance, so that models that agree leave the usual share.
    doubt, sure = (0.5 * error) ** 2, (USUAL_SPREAD * squared) ** 2
    if doubt + sure == 0.0:
        return USUAL_SHARE
    share = (USUAL_SHARE * doubt + 0.5 * (1.0 - gain / squared) * sure) / (doubt + sure)
    return min(max(share, 0.0), 1.0)


def choose_rows(
    one: Encoded, other: Encoded, share: float, rng: np.random.Generator, deadline: Deadline | None = None
) -> Flags:
    """Which rows are taken from the first of two draws, shape [rows].

    About `share` of them, so that counts of pairs come near share times the first draw's and 1 - share times
    the other's.

    Args:
        one, other: As many rows of the same attributes, given the same codes.
        share: Between 0 and 1.
        rng: Source of randomness.
        deadline: After it no choice is changed.
    """
    rows, order = one.rows, rng.permutation(one.rows)
    chosen = np.empty(rows, dtype=np.bool_)
    # Systematic: among any stretch of the order the share is kept within one row.
    chosen[order] = np.diff(np.floor(share * np.arange(rows + 1) + rng.random())) > 0
    starts = np.cumsum([0, *one.domain.sizes])
    if starts[-1] > MAX_BALANCED or not 0 < share < 1:
        return chosen
    lines = [
        np.stack([part.column(name) + start for name, start in zip(one.domain.names, starts, strict=False)])
        for part in (one, other)
    ]
    ours, theirs = (np.ascontiguousarray(part.T, dtype=np.int32) for part in lines)
    excess = np.zeros((int(starts[-1]), int(starts[-1])), np.float32)
    _count_excess(ours, theirs, chosen, share, excess)
    most = max(WORK // max(len(starts) ** 2 // 2, 1), 1)
    for turn in range(PASSES):
        if deadline is not None and deadline.passed:
            break
        # Of very many rows each pass tries others.
        _change_choices(ours, theirs, chosen, np.roll(order, -turn * most)[:most], excess)
    return chosen


@compile_kernel
def _count_excess(one: Ints, other: Ints, chosen: Flags, share: float, excess: Singles) -> None:
    """Counts of pairs of the chosen rows less the mean of both draws'; pairs in which draws agree cancel."""
    for i in range(len(one)):
        _move(other[i], one[i], excess, (1.0 if chosen[i] else 0.0) - share)


@compile_kernel
def _change_choices(one: Ints, other: Ints, chosen: Flags, order: Longs, excess: Singles) -> None:
    """Take each row in turn from the other draw where that lowers the sum of squared excesses."""
    for i in order:
        old, new = (one[i], other[i]) if chosen[i] else (other[i], one[i])
        # Strictly better only, or rounding would let equal rows change back and forth.
        if _find_change(old, new, excess) < -0.001:
            chosen[i] = not chosen[i]
            _move(old, new, excess, 1.0)


@compile_kernel
def _find_change(old: Ints, new: Ints, excess: Singles) -> float:
    """Half of what the sum of squared excesses grows by when one row takes another's place."""
    change = np.float32(0.0)
    for u in range(len(old)):
        for v in range(u + 1, len(old)):
            if old[u] != new[u] or old[v] != new[v]:
                # A cell of excess e that gains a row adds 2 e + 1, one that loses a row 1 - 2 e.
                change += excess[new[u], new[v]] - excess[old[u], old[v]] + np.float32(1.0)
    return float(change)


@compile_kernel
def _move(old: Ints, new: Ints, excess: Singles, amount: float) -> None:
    """Take an amount of rows from the cells of one row and add it to those of another."""
    for u in range(len(old)):
        for v in range(u + 1, len(old)):
            if old[u] != new[u] or old[v] != new[v]:
                excess[old[u], old[v]] -= np.float32(amount)
                excess[new[u], new[v]] += np.float32(amount)
