"""The gate over public rows: component probabilities of each row, their sums, and derivatives by log-odds.

The gate is additive: the log-odds of component k in row i are bias_k + sum_u gate[a_iu, k], with code s of
the u-th public attribute numbered as starts[u] + s. Most of a fit's time goes into these sums and into adding
what a row says to each of its codes. `JointCodes` makes them shorter: attributes are put together in groups
of which few combinations of codes occur, the log-odds of every such combination are added up once, and a row
has one summand a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.compiled import compile_kernel, compile_summing
from margrave.models._base.public_rows import PublicRows

Singles = NDArray[np.float32]
Ints = NDArray[np.int32]
Reals = NDArray[np.floating[Any]]

MAX_JOINT_CODES = 1024
"""Joint codes of one group at most. On four tables of the choosing half and one of 40 public columns 512 to
2,048 are alike, and a step takes a third to three quarters of what it takes attribute by attribute
(bench/LOG.md)."""
ROWS_A_JOINT_CODE = 16
"""Rows per joint code of a group, at least: 8 and 16 are alike, 4 is slower (bench/LOG.md)."""
OPEN_GROUPS = 4
"""Groups that an attribute may still be put into: the last ones."""
LANES = 16
"""Entries that one instruction compares, on processors that have the widest vectors."""


@dataclass(frozen=True, slots=True)
class JointCodes:
    """Public rows whose attributes are put together in groups; each combination that occurs has a number.

    Args:
        rows: The joint code of each row in each group, numbered through, shape [rows, groups].
        weights: The share of the rows that each row stands for, shape [rows].
        first: Joint codes of the first group, which are the lowest numbers.
        joint, single: Each joint code and each single code in it, one pair an entry, both shape [entries].
        count: Joint codes of all groups, and single codes of all attributes.
    """

    rows: Ints
    weights: Singles
    first: int
    joint: Ints
    single: Ints
    count: tuple[int, int]

    @classmethod
    def group(cls, public: PublicRows) -> JointCodes:
        """Put attributes together, those of many codes first, each in the first open group that has room."""
        size = len(public.codes)
        most = min(MAX_JOINT_CODES, max(size // ROWS_A_JOINT_CODE, 1))
        sizes = np.diff(public.starts)
        groups: list[tuple[Ints, list[int]]] = []
        for u in np.argsort(-sizes, kind="stable").tolist():
            own = public.codes[:, u].astype(np.int64) - public.starts[u]
            for place in range(max(len(groups) - OPEN_GROUPS, 0), len(groups)):
                codes, members = groups[place]
                joined = _renumber(codes * np.int64(sizes[u]) + own)
                if int(joined.max()) < most:
                    groups[place] = joined, [*members, u]
                    break
            else:
                groups.append((_renumber(own), [u]))
        # Without a public attribute one joint code of no single ones stands for all rows.
        groups = groups or [(np.zeros(size, np.int32), [])]
        starts = np.cumsum([0, *(int(codes.max()) + 1 for codes, _ in groups)]).astype(np.int32)
        joint, single = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        for (codes, members), start in zip(groups, starts, strict=False):
            # Any row with the joint code says which single codes are in it.
            example = np.unique(codes, return_index=True)[1]
            for u in members:
                joint.append(np.arange(len(example), dtype=np.int32) + start)
                single.append(public.codes[example, u])
        rows = np.stack([codes + start for (codes, _), start in zip(groups, starts, strict=False)], axis=1)
        count = int(starts[-1]), int(public.starts[-1])
        return cls(
            np.ascontiguousarray(rows, dtype=np.int32), public.weights, int(starts[1]),
            np.concatenate(joint), np.concatenate(single), count,
        )  # fmt: skip

    def join(self, table: Singles, bias: Singles) -> Singles:
        """The sums of a table's lines by joint code, those of the first group with the bias.

        Args:
            table: By single code, shape [public codes, components].
            bias: To add, shape [components].

        Returns:
            Shape [joint codes, components].
        """
        joined = np.zeros((self.count[0], len(bias)), np.float32)
        joined[: self.first] = bias
        add_lines(table, self.single, self.joint, joined)
        return joined

    def split(self, joined: Singles) -> tuple[Singles, Singles]:
        """Sums by single code of what joint codes have, [public codes, components], and in all."""
        table = np.zeros((self.count[1], joined.shape[1]), np.float32)
        add_lines(joined, self.joint, self.single, table)
        return table, joined[: self.first].sum(axis=0)


def _renumber(keys: NDArray[np.int64]) -> Ints:
    """The rank of each key among those that occur, shape [rows]."""
    there = np.zeros(int(keys.max()) + 1, np.int32)
    there[keys] = 1
    return (np.cumsum(there, dtype=np.int32) - 1)[keys]


@compile_summing
def raise_shares(row: Singles, top: np.float32, bits: Ints, power: Singles) -> float:
    """Turn log-odds into exp(log-odds - top), in place; returns their sum.

    2^t is 2^n, whose bits are written, times a polynomial of the rest of t: unlike the library's exponential
    this runs on vector units. Off by 3e-7 of a value at most; below 2^-126 it is 2^-126.

    Args:
        row: Log-odds and the answer, shape [components].
        top: The largest of them.
        bits, power: Room for the bits of 2^n, one array seen as whole numbers and as numbers, [components].
    """
    whole = np.float32(0.0)
    for k in range(len(row)):
        # exp(x) = 2^n 2^rest with n whole: n goes into the exponent bits, and 2^rest is a polynomial on [0,
        # 1), right to float32. A call of exp for each would take most of the time of a fit, and would keep
        # the loop out of vectors.
        t = max((row[k] - top) * np.float32(1.4426950408889634), np.float32(-126.0))
        n = np.floor(t)
        rest = t - n
        bits[k] = (np.int32(n) + np.int32(127)) << np.int32(23)
        value = np.float32(1.8775767e-3)
        value = value * rest + np.float32(8.9893397e-3)
        value = value * rest + np.float32(5.5826318e-2)
        value = value * rest + np.float32(2.4015361e-1)
        value = value * rest + np.float32(6.9315308e-1)
        row[k] = value * rest + np.float32(9.9999994e-1)
    for k in range(len(row)):
        row[k] *= power[k]
        whole += row[k]
    return float(whole)


@compile_kernel
def find_largest(row: Singles, lanes: Singles) -> np.float32:
    """The largest entry. A plain loop over the row would wait for each comparison before the next one.

    Args:
        row: Shape [components].
        lanes: Room for the largest of every LANES-th entry, shape [LANES].
    """
    for lane in range(LANES):
        lanes[lane] = row[0]
    whole = len(row) // LANES * LANES
    for first in range(0, whole, LANES):
        for lane in range(LANES):
            own = row[first + lane]
            lanes[lane] = own if own > lanes[lane] else lanes[lane]
    for k in range(whole, len(row)):
        lanes[k - whole] = row[k] if row[k] > lanes[k - whole] else lanes[k - whole]
    for lane in range(1, LANES):
        lanes[0] = lanes[lane] if lanes[lane] > lanes[0] else lanes[0]
    top: np.float32 = lanes[0]
    return top


@compile_summing
def gate_rows(codes: Ints, gate: Singles, bias: Singles, shares: Singles) -> None:
    """Write pi_k(a_i) = softmax_k(bias_k + sum_u gate[a_iu, k]) into `shares`.

    Args:
        codes: Numbered public codes of each row, shape [rows, public attributes].
        gate: Log-odds of each code, shape [public codes, components].
        bias: Log-odds of each component, shape [components].
        shares: The answer, shape [rows, components].
    """
    components = len(bias)
    bits = np.empty(components, np.int32)
    power, lanes = bits.view(np.float32), np.empty(LANES, np.float32)
    for i in range(codes.shape[0]):
        row = shares[i]
        # Sum of log-odds; then softmax with the largest subtracted, so that no exponential overflows.
        for k in range(components):
            row[k] = bias[k]
        for u in range(codes.shape[1]):
            own = gate[codes[i, u]]
            for k in range(components):
                row[k] += own[k]
        top = find_largest(row, lanes)
        scale = np.float32(1.0) / np.float32(raise_shares(row, top, bits, power))
        for k in range(components):
            row[k] *= scale


@compile_summing
def gate_joined(codes: Ints, weights: Singles, gate: Singles, shares: Singles, sums: Singles) -> float:
    """Write pi_k(a_i) into `shares` and add it up by joint code.

    Args:
        codes: Joint codes of each row, shape [rows, groups].
        weights: How many rows each row stands for, shape [rows].
        gate: Log-odds of each joint code, shape [joint codes, components].
        shares: The first answer, shape [rows, components].
        sums: The second answer, shape [joint codes, components]; begins at 0.

    Returns:
        The weighted sum of log sum_k exp(log-odds of k).
    """
    components, groups = shares.shape[1], codes.shape[1]
    bits = np.empty(components, np.int32)
    held, power = np.empty(components, np.float32), bits.view(np.float32)
    lanes = np.empty(LANES, np.float32)
    logs = 0.0
    for i in range(codes.shape[0]):
        row, own = shares[i], gate[codes[i, 0]]
        for k in range(components):
            row[k] = own[k]
        for g in range(1, groups):
            own = gate[codes[i, g]]
            for k in range(components):
                row[k] += own[k]
        # The largest is subtracted, so that no exponential overflows.
        top = find_largest(row, lanes)
        whole = np.float32(raise_shares(row, top, bits, power))
        scale = np.float32(1.0) / whole
        logs += weights[i] * (top + np.log(whole))
        for k in range(components):
            row[k] *= scale
            held[k] = weights[i] * row[k]
        for g in range(groups):
            into = sums[codes[i, g]]
            for k in range(components):
                into[k] += held[k]
    return float(logs)


@compile_summing
def pull_joined(codes: Ints, weights: Singles, shares: Singles, slopes: Singles, gradient: Singles) -> None:
    """The derivative of the objective by the log-odds of each joint code.

    The derivative by a row's shares is g_k = sum over groups of slopes[joint code, k], and that by its
    log-odds pi_k (g_k - sum_l pi_l g_l).

    Args:
        codes, weights: As in `gate_joined`.
        shares: Of components in each row, shape [rows, components].
        slopes: Shape [joint codes, components].
        gradient: The answer, shape [joint codes, components]; begins at 0.
    """
    components, groups = shares.shape[1], codes.shape[1]
    held = np.empty(components, np.float32)
    for i in range(codes.shape[0]):
        row, own = shares[i], slopes[codes[i, 0]]
        for k in range(components):
            held[k] = own[k]
        for g in range(1, groups):
            own = slopes[codes[i, g]]
            for k in range(components):
                held[k] += own[k]
        # Centred under the row's shares: softmax leaves sums of log-odds undetermined.
        mean = np.float32(0.0)
        for k in range(components):
            mean += row[k] * held[k]
        for k in range(components):
            held[k] = weights[i] * row[k] * (held[k] - mean)
        # The same derivative reaches every joint code of the row.
        for g in range(groups):
            into = gradient[codes[i, g]]
            for k in range(components):
                into[k] += held[k]


@compile_kernel
def add_lines(lines: Singles, source: Ints, into: Ints, sums: Singles) -> None:
    """Add lines[source[e]] to sums[into[e]] for each entry e.

    Args:
        lines: Shape [lines, components].
        source, into: Which lines, both shape [entries].
        sums: The answer, shape [sums, components]; begins at what it is added to.
    """
    for e in range(len(source)):
        own, target = lines[source[e]], sums[into[e]]
        for k in range(lines.shape[1]):
            target[k] += own[k]


@compile_kernel
def sum_by_code(codes: Ints, weights: Reals, shares: Reals, sums: Reals, totals: Reals) -> None:
    """Add the rows' component probabilities up, by public code and in all; in the precision of `shares`.

    Args:
        codes: Numbered public codes, shape [rows, public attributes].
        weights: How many rows each row stands for, shape [rows].
        shares: Of components in each row, shape [rows, components].
        sums: S, the answer by code, shape [public codes, components]; begins at 0.
        totals: N, the answer in all, shape [components]; begins at 0.
    """
    components = shares.shape[1]
    held = np.empty(components, shares.dtype)
    for i in range(codes.shape[0]):
        for k in range(components):
            held[k] = weights[i] * shares[i, k]
            totals[k] += held[k]
        for u in range(codes.shape[1]):
            own = sums[codes[i, u]]
            for k in range(components):
                own[k] += held[k]
