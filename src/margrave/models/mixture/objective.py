"""Objective: how badly a mixture of products explains the measurements, and what its dependence costs.

For weights w_k and conditionals Q_k over the codes c of attribute i, with M = sum_k w_k Q_k Q_k' and
m = sum_k w_k Q_k, the value is

    F = sum over measured pairs and ones of (M - y)^2 / variance
      + information * sum_k w_k sum_c Q_kc log(Q_kc / m_c)
      + smoothness / 2 * sum_k w_k sum over neighbouring ordered codes of h_c (Q_k,c+1 / m_c+1 - Q_kc / m_c)^2

with h_c = m_c m_c+1 / (m_c + m_c+1). The second line is the mutual information between component and each
attribute: a penalty for each nat of dependence. The third asks that likelihood ratios of neighbouring
codes be alike. Gradients are natural: the derivative by Q_kc over w_k, centred under Q_k, so that rare
components and rare codes move as readily as frequent ones.
Where a pair was not measured but is held to be about independent, y is m m' of its two attributes, and the
derivative by m counts. Pairs of ordered attributes have a term for their rank correlation besides
(`margrave.models.mixture.score_moments`).
Attributes that rules tie together are looked at as the rules leave them: see
`margrave.models._mixture.constraint_blocks`.

Latent blocks in the objective: attributes that depend strongly on each other share states of their own.

A component of a plain mixture is a product, so that two attributes that nearly follow from each other need a
component for each of their codes, and several such groups the product of those numbers. A latent block gives
its attributes states z: V_z, the conditionals of its attributes given the state, and U_k, the share of each
state in component k. Outside, its attributes look like Q_k = V U_k; inside, pairs are sum_z u_z V_zi V_zj
with u = U w, whatever the components are. With as many states as components and U the identity this is the
plain mixture.

Two steps lead from component to attribute, so each pays STEP_PENALTY of a nat's penalty:

    STEP_PENALTY * information * (state_penalty * sum_k w_k KL(U_k || u)
                                + sum over attributes of sum_z u_z KL(V_z || V u))

A step from component to states serves all attributes of a latent block at once. Where the latent blocks are
strong and little ties them to anything else, that makes it cheap to follow the noise on pairs outside, and
`state_penalty` should be above 1; `margrave.models.mixture.policy` sets it to STATE_PENALTY.

Gradients are natural, as in `objective`: the derivative by V_z over u_z, that by U_k over w_k.

Kernels of the mixture's objective: squares, penalties, and their derivatives, over codes by components.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.compiled import compile_summing
from margrave.models._mixture.constraint_blocks import MIN_LOG_PROBABILITY, ConstrainedPart
from margrave.models._mixture.latent_blocks import LatentBlock
from margrave.models._mixture.stacked import Stacked
from margrave.models.mixture.score_moments import ScoreMoments
from margrave.schema.domain import Domain

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


FLOOR = np.float32(1e-9)
"""Least share of a code that a logarithm or a ratio is taken of."""
STEP_PENALTY = np.float32(0.5)
"""What each of the two steps pays, over the penalty per nat: 0.5 or 0.7 are alike, 1 empties the states of
small tables, less follows the noise (bench/LOG.md)."""
STATES_A_CODE = 2
"""Most states for each code of the latent block's attributes, and no more than components: more gain
nothing."""
OWN_STATE_SHARE = 0.9
"""Share of its own state in each component at the start: near the plain mixture, which it may leave."""
SPREAD = 0.5
"""Standard deviation of starting logarithms: of codes around the one-ways, and of states' shares."""


@compile_summing
def normalise_shares(logs: Singles, shares: Singles, starts: Longs) -> None:
    """Divide each attribute's shares by their sum in each component, and bring the logarithms along."""
    components = logs.shape[1]
    total, shift = np.empty(components, logs.dtype), np.empty(components, logs.dtype)
    for i in range(len(starts) - 1):
        # Attribute by attribute with components innermost, so that memory is read in order.
        total[:] = 0.0
        for c in range(starts[i], starts[i + 1]):
            for k in range(components):
                total[k] += shares[c, k]
        for k in range(components):
            shift[k] = np.log(total[k])
            total[k] = np.float32(1.0) / total[k]
        for c in range(starts[i], starts[i + 1]):
            for k in range(components):
                shares[c, k] *= total[k]
                logs[c, k] -= shift[k]


@compile_summing
def residual(model: Singles, target: Singles, weights: Singles) -> float:
    """Turns the model's table into twice the weighted residuals; returns half their squared sum."""
    value = 0.0
    for a in range(model.shape[0]):
        # Sums of a row in single precision and of rows in double: fast, and exact enough for values to
        # compare.
        row = np.float32(0.0)
        for b in range(model.shape[1]):
            miss = model[a, b] - target[a, b]
            pull = weights[a, b] * miss
            row += pull * miss
            model[a, b] = np.float32(2.0) * pull
        value += row
    # Every pair stands twice in the symmetric table, hence the half.
    return 0.5 * value


@compile_summing
def write_products(target: Singles, ones: Singles, inferred: NDArray[np.bool_], starts: Longs) -> None:
    """Writes the product of the one-ways into the target of each inferred pair, both ways round."""
    for i in range(len(starts) - 1):
        for j in range(len(starts) - 1):
            if inferred[i, j]:
                for a in range(starts[i], starts[i + 1]):
                    for b in range(starts[j], starts[j + 1]):
                        target[a, b] = ones[a] * ones[b]


@compile_summing
def subtract_products(
    offset: Singles, model: Singles, ones: Singles, inferred: NDArray[np.bool_], starts: Longs
) -> None:
    """Takes from `offset` the derivative by the one-ways of the products that `write_products` wrote.

    offset: derivative by each code's one-way, shape [codes]. model: as `residual` leaves it.
    """
    for i in range(len(starts) - 1):
        for j in range(len(starts) - 1):
            if inferred[i, j]:
                for a in range(starts[i], starts[i + 1]):
                    pull = np.float32(0.0)
                    for b in range(starts[j], starts[j + 1]):
                        pull += model[a, b] * ones[b]
                    # The target moves with the model, so its derivative is the residual's with the sign
                    # turned.
                    offset[a] -= pull


@compile_summing
def pull_shares(gradient: Singles, shares: Singles, offset: Singles) -> Floats:
    """Adds the one-ways' part; returns the derivative of the squares by each weight."""
    codes, components = gradient.shape
    pairs, ones = np.zeros(components, gradient.dtype), np.zeros(components, gradient.dtype)
    for c in range(codes):
        for k in range(components):
            pairs[k] += gradient[c, k] * shares[c, k]
            ones[k] += offset[c] * shares[c, k]
            gradient[c, k] += offset[c]
    # The gradient sums a pair from both its sides, so its product with the shares counts the pair twice.
    return 0.5 * pairs.astype(np.float64) + ones


@compile_summing
def add_penalties(
    gradient: Singles,
    logs: Singles,
    shares: Singles,
    weights: Singles,
    ones: Singles,
    alone: NDArray[np.bool_],
    starts: Longs,
    ordered: Longs,
    information: np.float32,
    smoothness: np.float32,
    by_weight: Floats,
) -> float:
    """Adds information, of codes that stand alone, and smoothness to both; returns their value."""
    components = logs.shape[1]
    paid = np.zeros(components, gradient.dtype)
    for c in range(logs.shape[0]):
        if not alone[c]:
            continue
        # m of a code, by which likelihood ratios are taken.
        own = np.log(ones[c])
        for k in range(components):
            # Derivative of Q log(Q / m) in natural coordinates: log Q - log m. That by m vanishes in the sum.
            nats = information * (logs[c, k] - own)
            gradient[c, k] += nats
            paid[k] += shares[c, k] * nats
    value = 0.0
    for k in range(components):
        # Value, and derivative by each weight, are the shares' mean of the nats.
        value += weights[k] * paid[k]
        by_weight[k] += paid[k]
    if smoothness > 0.0:
        for i in range(len(ordered)):
            if ordered[i] > 1:
                a, b = starts[i], starts[i] + ordered[i]
                value += _smooth(gradient[a:b], shares[a:b], weights, ones[a:b], smoothness, by_weight)
    return value


@compile_summing
def _add_scaled(onto: Singles, along: Singles, scale: float) -> None:
    """Add a multiple of one line to another. A loop that writes a single line is vectorised."""
    for k in range(len(onto)):
        onto[k] += scale * along[k]


@compile_summing
def _sum_products(weights: Singles, a: Singles, b: Singles) -> float:
    """The weighted product of two lines, in their precision."""
    total: float = weights.dtype.type(0.0)
    for k in range(len(weights)):
        total += weights[k] * a[k] * b[k]
    return total


@compile_summing
def _smooth(
    gradient: Singles,
    shares: Singles,
    weights: Singles,
    ones: Singles,
    smoothness: np.float32,
    by_weight: Floats,
) -> float:
    """The part of one attribute's ordered codes; derivatives run through m as well as through Q."""
    codes, components = shares.shape
    through = np.zeros(codes, gradient.dtype)
    cost = np.zeros(components, gradient.dtype)
    step, pull = np.empty(components, gradient.dtype), np.empty(components, gradient.dtype)
    for c in range(codes - 1):
        both = ones[c] + ones[c + 1]
        # Weight of the difference of two neighbours' likelihood ratios: m_c m_c+1 / (m_c + m_c+1).
        h = smoothness * ones[c] * ones[c + 1] / both
        low, high = np.float32(1.0) / ones[c], np.float32(1.0) / ones[c + 1]
        for k in range(components):
            step[k] = shares[c + 1, k] * high - shares[c, k] * low
            pull[k] = h * step[k]
        _add_scaled(gradient[c + 1], pull, high)
        _add_scaled(gradient[c], pull, -low)
        for k in range(components):
            cost[k] += np.float32(0.5) * pull[k] * step[k]
        bent = _sum_products(weights, step, step)
        below, above = _sum_products(weights, pull, shares[c]), _sum_products(weights, pull, shares[c + 1])
        # What runs through m: first through h, then through the two ratios.
        half = np.float32(0.5) * smoothness * bent
        through[c] += half * (ones[c + 1] / both) ** 2 + below * low * low
        through[c + 1] += half * (ones[c] / both) ** 2 - above * high * high
    value = 0.0
    for k in range(components):
        value += weights[k] * cost[k]
    for c in range(codes):
        for k in range(components):
            gradient[c, k] += through[c]
        _add_scaled(cost, shares[c], through[c])
    for k in range(components):
        by_weight[k] += cost[k]
    return value


@compile_summing
def centre_gradient(gradient: Singles, shares: Singles, starts: Longs) -> None:
    """Take each attribute's mean under its shares out of the gradient, in each component."""
    components = gradient.shape[1]
    mean = np.empty(components, gradient.dtype)
    for i in range(len(starts) - 1):
        mean[:] = 0.0
        for c in range(starts[i], starts[i + 1]):
            for k in range(components):
                mean[k] += gradient[c, k] * shares[c, k]
        for c in range(starts[i], starts[i + 1]):
            for k in range(components):
                gradient[c, k] -= mean[k]


@dataclass(slots=True)
class Point:
    """Where the optimiser stands.

    Args:
        logs: log Q, attributes' codes by components, shape [codes, components]; normalised by `settle`.
        weigh: log w, shape [components].
        shares: Q, shape of logs.
        weights: w, shape [components].
    """

    logs: Singles
    weigh: Floats
    shares: Singles
    weights: Singles

    def settle(self, starts: Longs) -> None:
        """Normalise logs and weights, and bring shares and weights up to date."""
        self.settle_shares(starts)
        # The largest is taken out before exp, which cannot overflow then.
        self.weigh -= self.weigh.max()
        self.weigh -= np.log(np.exp(self.weigh).sum())
        self.weights = np.exp(self.weigh).astype(self.logs.dtype)

    def settle_shares(self, starts: Longs) -> None:
        """Normalise the logs, none of which is below MIN_LOG_PROBABILITY, and bring the shares up to date."""
        np.exp(self.logs, out=self.shares)
        normalise_shares(self.logs, self.shares, starts)


def point(logs: Singles, weigh: Floats, starts: Longs) -> Point:
    """A settled point of these logarithms, copied and bounded below by MIN_LOG_PROBABILITY."""
    # Bounded, so that no share underflows to 0 in single precision.
    logs = np.maximum(logs, np.float32(MIN_LOG_PROBABILITY))
    made = Point(logs, weigh.astype(np.float64), np.empty_like(logs), np.empty(0, np.float32))
    made.settle(starts)
    return made


def log_shares(shares: Floats) -> Singles:
    """Logarithms of shares, in single precision and bounded below."""
    found: Singles = np.log(np.maximum(shares, 1e-30)).astype(np.float32)
    return found


class Objective:
    """The value and the natural gradient of one set of measurements.

    Args:
        stacked: The measurements.
        components: Number of components K.
        information: Penalty per nat of dependence, in the units of the squared residuals.
        smoothness: Penalty of unlike neighbours among ordered codes.
        latent_blocks: Attributes that have states of their own, see the head of this file.
        moments: What is asked of moments of scores besides.
    """

    def __init__(
        self,
        stacked: Stacked,
        components: int,
        information: float,
        smoothness: float,
        latent_blocks: Sequence[LatentBlockPart] = (),
        moments: Sequence[ScoreMoments] = (),
    ) -> None:
        self.stacked = stacked
        self.latent_blocks = tuple(latent_blocks)
        self.information = np.float32(information)
        self.smoothness = np.float32(smoothness)
        self.gradient = np.empty((stacked.codes, components), np.float32)
        self._scaled = np.empty_like(self.gradient)
        self._model = np.empty((stacked.codes, stacked.codes), np.float32)
        self._constrained = [ConstrainedPart(tables, components, information) for tables in stacked.tied]
        # Targets of inferred pairs are written anew at every point, so they need a table of their own.
        self._pairs = stacked.pairs.copy() if stacked.inferred.any() else stacked.pairs
        self._apart, self._alone, self._ordered = stacked.apart, stacked.alone, stacked.ordered.copy()
        if self.latent_blocks:
            # Copied before they are changed: both may be views of the measurements.
            self._apart, self._alone = self._apart.copy(), self._alone.copy()
        for latent_block in self.latent_blocks:
            # Pairs, information and smoothness inside of a latent block are the block's to pay, not the
            # components'.
            self._apart[np.ix_(latent_block.rows, latent_block.rows)] = 0.0
            self._alone[latent_block.rows] = False
            self._ordered[list(latent_block.members)] = 0
            moments = [one.without(latent_block.members) for one in moments]
        self._moments = [one for one in moments if not one.empty]
        self.shares = self._scaled
        """Q of the last point looked at, as rules and latent blocks leave it, shape [codes, components]."""

    def __call__(self, at: Point) -> tuple[float, Floats]:
        """The value, and the derivative by each weight, shape [components]; `gradient` holds that by Q."""
        s = self.stacked
        self.shares = shares = at.shares.copy() if self._constrained or self.latent_blocks else at.shares
        for part in self._constrained:
            part.spread(shares, at.logs)
        for latent_block in self.latent_blocks:
            latent_block.spread(shares)
        # The square root of the weight on both sides makes M one product of an array with its own transpose.
        np.multiply(shares, np.sqrt(at.weights), out=self._scaled)
        np.matmul(self._scaled, self._scaled.T, out=self._model)  # one array twice: half the products
        # Shares of 0 would have no logarithm below.
        ones = np.maximum(shares @ at.weights, FLOOR)
        write_products(self._pairs, ones, s.inferred, s.starts)
        value = residual(self._model, self._pairs, self._apart)
        np.matmul(self._model, shares, out=self.gradient)
        for moments in self._moments:
            value += moments.pull(self.gradient, shares, at.weights)
        # Single codes have squares of their own, beside the pairs'.
        miss = s.one_weights * (ones - s.ones)
        value += float((miss * (ones - s.ones)).sum(dtype=np.float64))
        offset = (2.0 * miss).astype(self.gradient.dtype)
        subtract_products(offset, self._model, ones, s.inferred, s.starts)
        by_weight = pull_shares(self.gradient, shares, offset)
        value += add_penalties(
            self.gradient, at.logs, shares, at.weights, ones, self._alone,
            s.starts, self._ordered, self.information, self.smoothness, by_weight,
        )  # fmt: skip
        for part in self._constrained:
            value += part.pull_weights(self.gradient, shares, at.weights, by_weight)
        for latent_block in self.latent_blocks:
            value += latent_block.pull_weights(self.gradient, at.weights, by_weight)
        return value, by_weight

    def centre(self) -> None:
        """Make the gradient at the last point that of the logarithms: take out its mean under each Q_k."""
        centre_gradient(self.gradient, self.shares, self.stacked.starts)


class LatentBlockPart:
    """The part of an objective that one latent block has, and where its states stand.

    Args:
        stacked: The measurements.
        members: Positions of the latent block's attributes.
        logs: Where the mixture starts, shape [codes, components]; the states start at its members' lines.
        components: Number of components K.
        information: Penalty per nat of dependence.
        smoothness: Penalty of unlike neighbours among ordered codes.
        rng: Of the start.
        state_penalty: What the step from component to states pays, over the step from state to codes.
        moments: What is asked of moments of scores besides.
    """

    def __init__(
        self,
        stacked: Stacked,
        members: Sequence[int],
        logs: Singles,
        components: int,
        information: float,
        smoothness: float,
        rng: np.random.Generator,
        state_penalty: float = 1.0,
        moments: Sequence[ScoreMoments] = (),
    ) -> None:
        starts = stacked.starts
        self.members = tuple(members)
        inner = [one.within(self.members) for one in moments]
        self._moments = [one for one in inner if not one.empty]
        self.rows = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in members])
        inside = np.ix_(self.rows, self.rows)
        self._pairs, self._weights = stacked.pairs[inside].copy(), stacked.pair_weights[inside].copy()
        self._inferred = stacked.inferred[np.ix_(members, members)]
        self._ordered = stacked.ordered[list(members)]
        self._starts = np.cumsum([0, *(starts[i + 1] - starts[i] for i in members)])
        states = min(components, STATES_A_CODE * len(self.rows))
        # States start as the first components do, so that block and plain mixture begin alike.
        logs = logs[self.rows, :states]
        self._whole, self._none = np.array([0, states]), np.zeros(1, np.int64)
        self._information = STEP_PENALTY * np.float32(information)
        self._state_penalty = self._information * np.float32(state_penalty)
        self._smoothness = np.float32(smoothness)
        self.states = point(logs, np.zeros(states), self._starts)
        self.state_weights = point(_near_own(states, components, rng), np.zeros(components), self._whole)
        self.slopes = (np.zeros_like(self.states.logs), np.zeros_like(self.state_weights.logs))
        """Natural gradients of log V and log U, each centred."""

    def spread(self, shares: Singles) -> None:
        """Put V U in place of Q in `shares`, [codes, components]."""
        shares[self.rows] = self.states.shares @ self.state_weights.shares

    def pull_weights(self, gradient: Singles, weights: Singles, by_weight: Floats) -> float:
        """Turn derivatives by V U, in `gradient`, into natural ones by V and U; return the latent block's
        value."""
        v, u, outside = self.states.shares, self.state_weights.shares, gradient[self.rows]
        # u, the share of each state over all components.
        held = np.maximum(u @ weights, FLOOR)
        scaled = v * np.sqrt(held)
        model, ones, offset = scaled @ scaled.T, np.maximum(v @ held, FLOOR), np.zeros(len(v), v.dtype)
        write_products(self._pairs, ones, self._inferred, self._starts)
        value = residual(model, self._pairs, self._weights)
        by_v = model @ v
        for moments in self._moments:
            value += moments.pull(by_v, v, held)
        subtract_products(offset, model, ones, self._inferred, self._starts)
        by_state = pull_shares(by_v, v, offset)
        value += add_penalties(
            by_v, self.states.logs, v, held, ones, np.ones(len(v), np.bool_),
            self._starts, self._ordered, self._information, self._smoothness, by_state,
        )  # fmt: skip
        # The chain rule from V U to V, over u for the natural gradient.
        from_outside = (outside * weights) @ u.T
        from_outside /= held
        by_v += from_outside
        # U_k is reached by the attributes outside and by the pairs inside, which see it only through u.
        per_state = by_state.astype(by_v.dtype)
        by_u = v.T @ outside
        by_u += per_state[:, None]
        by_weight += per_state @ u
        value += add_penalties(
            by_u, self.state_weights.logs, u, weights, held, np.ones(len(u), np.bool_),
            self._whole, self._none, self._state_penalty, np.float32(0.0), by_weight,
        )  # fmt: skip
        centre_gradient(by_v, v, self._starts)
        centre_gradient(by_u, u, self._whole)
        # The block's own logarithms move instead; those of the plain mixture stand still.
        gradient[self.rows] = 0.0
        self.slopes = (by_v, by_u)
        return value

    def latent_block(self, domain: Domain) -> LatentBlock:
        """The latent block as it stands, in double precision."""
        names = tuple(domain.names[i] for i in self.members)
        states, state_weights = (part.shares.astype(np.float64) for part in self.points)
        for start, end in zip(self._starts[:-1], self._starts[1:], strict=True):
            states[start:end] /= states[start:end].sum(axis=0)
        return LatentBlock(names, domain.shape(names), states, state_weights / state_weights.sum(axis=0))

    def move_to(self, block: LatentBlock) -> None:
        """Go to where another descent of the same latent block ended."""
        self.states = point(log_shares(block.states), self.states.weigh, self._starts)
        self.state_weights = point(log_shares(block.state_weights), self.state_weights.weigh, self._whole)

    def settle(self) -> None:
        """Normalise the logarithms, and bring the shares up to date."""
        self.states.settle_shares(self._starts)
        self.state_weights.settle_shares(self._whole)

    @property
    def points(self) -> tuple[Point, Point]:
        """Where V and U stand, in the order of `slopes`."""
        return self.states, self.state_weights

    def moved(self, weights: Singles) -> float:
        """E|natural gradient|, summed over the latent block's attributes and its states."""
        by_v, by_u = self.slopes
        inner = np.abs(by_v * self.states.shares).sum(axis=0) @ (self.state_weights.shares @ weights)
        return float(inner + np.abs(by_u * self.state_weights.shares).sum(axis=0) @ weights)


def _near_own(states: int, components: int, rng: np.random.Generator) -> Singles:
    """Starting log U, [states, components]: each component has mostly one state, states dealt out in turn."""
    # State z belongs to component z, and to component z + states, and so on.
    own = np.arange(states)[:, None] == (np.arange(components) % states)[None, :]
    logs = np.log(OWN_STATE_SHARE * own + (1.0 - OWN_STATE_SHARE) / states)
    found: Singles = (logs + SPREAD * rng.standard_normal(logs.shape)).astype(np.float32)
    return found
