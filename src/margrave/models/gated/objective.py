"""Objective: how badly a gated mixture explains the measurements, as its rows are expected over the public
ones.

With a_i the public codes of row i out of n (given, exact), components k, P_ik = pi_k(a_i) and, as sums over
the rows divided by n, S_u = the share of rows by code of public attribute u and component and N = sum_i P_ik,
the tables that the model's rows are expected to have are products of matrices:

    public u with private j:   S_u Q_j'              private j with j':   Q_j diag(N) Q_j''
    private one-way:           Q_j N                 public alone:        exact, whatever the model is

and the value is

    F = sum over measured tables of (expected - noisy)^2 / variance
      + penalty * sum_k N_k sum_j KL(Q_kj || m_j) + gate_price * mean_i KL(P_i || N)

with m_j = Q_j N. The rows are the rows: their public part has no sampling noise, so the tables differ from
what was measured by privacy noise alone, and the sum of a table over its private codes is met whatever is
fitted.

`descend` lowers it by Adam, first over a part of the public rows, at last over all of them. Each row's
component probabilities, their sums by public code and the gate's slopes are made in `gate`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.pooling import Pooled
from margrave.models._base.public_rows import PublicRows
from margrave.models.gated.gate import JointCodes, gate_joined, pull_joined
from margrave.schema.domain import Domain

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
FLOOR = np.float32(1e-12)
"""Least share that a logarithm is taken of or that divides."""


@dataclass(frozen=True, slots=True)
class Targets:
    """What was measured, in shares of the rows, with precisions; 0 where nothing was.

    Args:
        mixed, mixed_weights: Public with private codes, shape [public codes, private codes].
        pairs, pair_weights: Private codes with private ones, symmetric, shape [private codes, private codes].
        ones, one_weights: Private codes, shape [private codes].
        starts: Where each private attribute's codes begin, and their number, shape [private attributes + 1].
    """

    mixed: Singles
    mixed_weights: Singles
    pairs: Singles
    pair_weights: Singles
    ones: Singles
    one_weights: Singles
    starts: NDArray[np.int64]


def collect_targets(
    domain: Domain, public: Sequence[str], private: Sequence[str], tables: Sequence[Pooled], rows: float
) -> Targets:
    """Sort measured tables into `Targets`; larger ones count through their pairs, public ones for nothing."""
    firsts = {names: _firsts(domain, names) for names in (tuple(public), tuple(private))}
    p, q = firsts[tuple(public)], firsts[tuple(private)]
    codes = sum(domain.shape(public)), sum(domain.shape(private))
    shapes = codes, (codes[1], codes[1]), (codes[1],)
    values, weights = ([np.zeros(shape) for shape in shapes] for _ in range(2))

    # A pair is added with the precision of what was summed over, and pooled below.
    def add(kind: int, at: tuple[slice, ...], table: Floats, variances: Floats) -> None:
        precision = rows**2 / variances
        values[kind][at] += precision * (table / rows)
        weights[kind][at] += precision

    for table in tables:
        squares = table.sigma**2
        if len(table.clique) == 1 and table.clique[0] in q:
            add(2, (q[table.clique[0]],), table.values, squares)
        for a, b in combinations(range(len(table.clique)), 2):
            one, two = table.clique[a], table.clique[b]
            others = tuple(axis for axis in range(len(table.clique)) if axis not in (a, b))
            # Variances of summed cells add up.
            counts, noise = table.values.sum(axis=others), squares.sum(axis=others)
            if one in q and two in q:
                add(1, (q[one], q[two]), counts, noise)
                # Private pairs stand on both sides of the diagonal, which the objective's half takes into
                # account.
                add(1, (q[two], q[one]), counts.T, noise.T)
            elif one in p and two in q:
                add(0, (p[one], q[two]), counts, noise)
            elif one in q and two in p:
                add(0, (p[two], q[one]), counts.T, noise.T)
    # Sums of value times precision become means.
    for sums, precision in zip(values, weights, strict=True):
        np.divide(sums, precision, out=sums, where=precision > 0)
    starts = np.concatenate([[0], np.cumsum(domain.shape(private), dtype=np.int64)]).astype(np.int64)
    (mixed, pairs, ones), (mixed_weights, pair_weights, one_weights) = (
        [table.astype(np.float32) for table in kind] for kind in (values, weights)
    )
    return Targets(mixed, mixed_weights, pairs, pair_weights, ones, one_weights, starts)


def _firsts(domain: Domain, names: Sequence[str]) -> dict[str, slice]:
    ends = np.cumsum(domain.shape(names))
    return {name: slice(int(end) - domain[name], int(end)) for name, end in zip(names, ends, strict=True)}


@dataclass(slots=True)
class Point:
    """Where a descent stands.

    Args:
        gate: Log-odds of the components by public code, shape [public codes, components].
        bias: Log-odds of the components, shape [components].
        logs: log Q of the private codes, shape [private codes, components].
        shares: Q, shape of logs; `settle` brings it up to date.
    """

    gate: Singles
    bias: Singles
    logs: Singles
    shares: Singles

    def settle(self, starts: NDArray[np.int64]) -> None:
        """Normalise log Q in every attribute and component, and bring Q up to date."""
        # Bounded below, so that no share underflows in single precision.
        np.maximum(self.logs, np.float32(-30.0), out=self.logs)
        for first, end in pairwise(starts):
            part = self.logs[first:end]
            part -= part.max(axis=0)
            part -= np.log(np.exp(part).sum(axis=0))
        np.exp(self.logs, out=self.shares)


class Objective:
    """The value and the gradients over some public rows.

    After a call the gradients stand in `gate`, `bias` and `logs`, of the shapes of a `Point`'s. That of log
    Q is
    natural: the derivative by Q_k over N_k, centred under Q_k; that of the gate is over the code's share in
    the component.

    Args:
        rows: The public rows.
        targets: What was measured.
        penalty: Of a nat between component and private attributes, in units of the squares.
        gate_price: Of a nat between row and component.
    """

    def __init__(self, rows: PublicRows, targets: Targets, penalty: float, gate_price: float) -> None:
        self.rows, self.targets = JointCodes.group(rows), targets
        self._price, self._gate_price = np.float32(penalty), np.float32(gate_price)
        self._shares = self._sums = np.empty((0, 0), np.float32)
        self._entropy = 0.0
        self.gate = self.bias = self.logs = np.empty(0, np.float32)

    def expect(self, at: Point) -> tuple[Singles, Singles]:
        """S, shape [public codes, components], and N, shape [components], both in shares of the rows."""
        rows, components = self.rows, len(at.bias)
        if self._shares.shape != (len(rows.rows), components):
            self._shares = np.empty((len(rows.rows), components), np.float32)
        gate = rows.join(at.gate, at.bias)
        self._sums = np.zeros_like(gate)
        # Each distinct public row counts as often as it occurs.
        logs = gate_joined(rows.rows, rows.weights, gate, self._shares, self._sums)
        # mean_i sum_k P_ik log P_ik: log-odds less their log-sum, whose mean over rows is known.
        self._entropy = float((self._sums * gate).sum(dtype=np.float64)) - logs
        return rows.split(self._sums)

    def __call__(self, at: Point) -> float:
        """The value; the gradients are left in `gate`, `bias` and `logs`."""
        t, q = self.targets, at.shares
        sums, totals = self.expect(at)
        # Residuals of public with private tables, and what they pull: half the pull times the miss is the
        # square.
        miss = sums @ q.T - t.mixed
        pull = 2.0 * t.mixed_weights * miss
        value = 0.5 * float(np.vdot(pull, miss))
        slopes, logs = pull @ q, pull.T @ sums
        scaled = q * totals
        # Every private pair stands twice, hence a quarter below in place of a half.
        miss = scaled @ q.T - t.pairs
        pull = 2.0 * t.pair_weights * miss
        value += 0.25 * float(np.vdot(pull, miss))
        mean = q @ totals
        single = 2.0 * t.one_weights * (mean - t.ones)
        value += 0.5 * float(np.vdot(single, mean - t.ones))
        turned = pull @ q
        logs += turned * totals + np.multiply.outer(single, totals)
        # N enters the pairs on both sides and the one-ways on one.
        offset = 0.5 * (turned * q).sum(axis=0) + single @ q
        # Natural: over the component's share, as rare components are to move as readily as frequent ones.
        logs /= np.maximum(totals, FLOOR)
        nats = self._price * (at.logs - np.log(np.maximum(mean, FLOOR))[:, None])
        paid = (q * nats).sum(axis=0)
        logs += nats
        value += float(paid @ totals)
        offset += paid
        known = np.log(np.maximum(totals, FLOOR))
        value += float(self._gate_price) * (self._entropy - float(totals @ known))
        # The derivative of the gate's price by P_ik is log P_ik - known_k, and log P_ik is the log-odds less
        # a number of the row, which centring takes out. So it is added to the slopes of codes.
        slopes += self._gate_price * at.gate
        offset += self._gate_price * (at.bias - known)
        gradient = np.zeros_like(self._sums)
        pull_joined(self.rows.rows, self.rows.weights, self._shares, self.rows.join(slopes, offset), gradient)
        self.gate, self.bias = self.rows.split(gradient)
        # By the code's share in the component: gradients of rare codes are as large as those of frequent
        # ones.
        self.gate /= np.maximum(sums, FLOOR)
        self.bias /= np.maximum(totals, FLOOR)
        self._centre(logs, q)
        self.logs = logs
        return value

    def _centre(self, logs: Singles, shares: Singles) -> None:
        for first, end in zip(self.targets.starts[:-1], self.targets.starts[1:], strict=True):
            part = logs[first:end]
            part -= (part * shares[first:end]).sum(axis=0)


MOMENTUM, MEMORY, LAST = np.float32(0.9), np.float32(0.9), 0.02
"""How long means and squares of gradients are remembered, and the last step over the first: those of
models/mixture, whose gradients shrink alike."""
SPREAD = 0.5
"""Standard deviation of the starting log-odds of the gate and of log Q around the one-ways."""
FULL_STEPS = 24
"""Public attributes above which the gate moves in shorter steps. A row's log-odds are sums over all of them,
which 200 equal steps carry past any optimum: the descent then begins by rising and ends as chance has it. On
tables of the choosing half with 23 to 112 of them 12, 24 and 48 are alike (bench/LOG.md)."""


def start(rows: PublicRows, targets: Targets, components: int, rng: np.random.Generator) -> Point:
    """Around the measured one-ways, uniform where nothing is known of an attribute."""
    codes = int(targets.starts[-1])
    logs = np.zeros((codes, components), np.float32)
    for first, end in zip(targets.starts[:-1], targets.starts[1:], strict=True):
        part = slice(int(first), int(end))
        # Without a measurement all shares begin alike.
        base = np.maximum(targets.ones[part], 1e-6 if targets.one_weights[part].any() else 1.0)
        logs[part] = np.log(base / base.sum())[:, None]
    logs += SPREAD * rng.standard_normal(logs.shape, dtype=np.float32)
    width = max(len(rows.names), 1)
    gate = rng.standard_normal((int(rows.starts[-1]), components), dtype=np.float32)
    # The sum over all public attributes then has a spread that does not grow with their number.
    gate *= SPREAD * 2.0 / np.sqrt(width)
    at = Point(gate, np.zeros(components, np.float32), logs, np.empty_like(logs))
    at.settle(targets.starts)
    return at


class _Moves:
    """The remembered gradients of one array."""

    def __init__(self, array: Singles) -> None:
        self._array = array
        self._mean, self._square = np.zeros_like(array), np.zeros_like(array)

    def step(self, gradient: Singles, length: float, done: int) -> None:
        """Move the array, in place; no entry moves by more than 1."""
        self._mean += (1 - MOMENTUM) * (gradient - self._mean)
        self._square += (1 - MEMORY) * (gradient * gradient - self._square)
        # Adam's corrections for how few steps there have been.
        scale = np.float32(length / (1.0 - float(MOMENTUM) ** done))
        bias = np.float32(1.0 / (1.0 - float(MEMORY) ** done))
        move = scale * self._mean / (np.sqrt(self._square * bias) + np.float32(1e-12))
        self._array -= np.clip(move, -1.0, 1.0)


def descend(
    rows: PublicRows,
    targets: Targets,
    at: Point,
    penalties: tuple[float, float],
    steps: int,
    rate: float,
    part: int,
    last: int,
    rng: np.random.Generator,
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Move `at` down the objective, in place.

    Args:
        rows: All public rows.
        targets: What was measured.
        at: Start and end.
        penalties: Of a nat between component and private attributes, and between row and component.
        steps: Steps in all.
        rate: First step length, in logarithms.
        part: Distinct rows that early steps look at.
        last: Steps at the end that look at all rows.
        rng: Draws the parts.
        stop: Asked before each step; ends the descent early.
    """
    moves = [_Moves(array) for array in (at.gate, at.bias, at.logs)]
    whole = Objective(rows, targets, *penalties)
    # Early steps only have to find the region, so that a part of the rows is enough for them.
    few = whole if len(rows.codes) <= part else Objective(rows.part(part, rng), targets, *penalties)
    # The steps of all public codes of a row add up.
    relative = (min(1.0, FULL_STEPS / max(len(rows.names), 1)), 1.0, 1.0)
    for done in range(1, steps + 1):
        if stop():
            break
        objective = whole if done > steps - last else few
        objective(at)
        length = rate * (1.0 - done / steps + LAST)
        gradients = (objective.gate, objective.bias, objective.logs)
        for move, gradient, scale in zip(moves, gradients, relative, strict=True):
            move.step(gradient, scale * length, done)
        at.settle(targets.starts)
