"""Kernels of the gate: each row's component probabilities, their sums by public code, and the gate's slopes.

Public codes are numbered through: code s of the u-th public attribute is starts[u] + s, so that the gate is
one table of log-odds, shape [public codes, components].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.compiled import compile_kernel, compile_summing

Singles = NDArray[np.float32]
Ints = NDArray[np.int32]
Reals = NDArray[np.floating[Any]]


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


@compile_summing
def gate_rows(codes: Ints, gate: Singles, bias: Singles, logs: Singles, shares: Singles) -> None:
    """Write pi_k(a_i) = softmax_k(bias_k + sum_u gate[a_iu, k]) into `shares`, its logarithm into `logs`.

    Args:
        codes: Numbered public codes of each row, shape [rows, public attributes].
        gate: Log-odds of each code, shape [public codes, components].
        bias: Log-odds of each component, shape [components].
        logs, shares: The answers, shape [rows, components].
    """
    components = len(bias)
    bits = np.empty(components, np.int32)
    power = bits.view(np.float32)
    for i in range(codes.shape[0]):
        row, log = shares[i], logs[i]
        # Sum of log-odds; then softmax with the largest subtracted, so that no exponential overflows.
        row[:] = bias
        for u in range(codes.shape[1]):
            own = gate[codes[i, u]]
            for k in range(components):
                row[k] += own[k]
        top = row[0]
        for k in range(components):
            top = max(top, row[k])
        for k in range(components):
            log[k] = row[k] - top
        whole = np.float32(raise_shares(row, top, bits, power))
        scale, less = np.float32(1.0) / whole, np.float32(np.log(whole))
        for k in range(components):
            row[k] *= scale
            log[k] -= less


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


@compile_summing
def pull_gate(
    codes: Ints,
    weights: Singles,
    shares: Singles,
    logs: Singles,
    slopes: Singles,
    offset: Singles,
    known: Singles,
    penalty: np.float32,
    gradient: Singles,
    pull: Singles,
) -> float:
    """The derivative of the objective by the gate's log-odds; returns what the rows' dependence costs.

    The derivative by a row's shares is g_k = offset_k + sum_u slopes[a_iu, k] + penalty (log pi_k - known_k),
    and that by its log-odds pi_k (g_k - sum_l pi_l g_l).

    Args:
        codes, weights, shares: As in `sum_by_code`.
        logs: The logarithms of shares.
        slopes: Derivative by each entry of S, shape [public codes, components].
        offset: Derivative by each entry of N, shape [components].
        known: log(N / n), shape [components].
        penalty: Of a nat between row and component, over the number of rows.
        gradient: The answer for the gate, shape [public codes, components]; begins at 0.
        pull: The answer for the bias, shape [components]; begins at 0.
    """
    components = shares.shape[1]
    held = np.empty(components, np.float32)
    paid = 0.0
    for i in range(codes.shape[0]):
        row, log = shares[i], logs[i]
        # g_k: the derivative by the row's share of component k.
        held[:] = offset
        for u in range(codes.shape[1]):
            own = slopes[codes[i, u]]
            for k in range(components):
                held[k] += own[k]
        # The penalty's own derivative is the log ratio; the constant it lacks is removed with the mean below.
        if penalty > 0.0:
            nats = np.float32(0.0)
            for k in range(components):
                cost = log[k] - known[k]
                nats += row[k] * cost
                held[k] += penalty * cost
            paid += weights[i] * nats
        # Centred under the row's shares: softmax leaves sums of log-odds undetermined.
        mean = np.float32(0.0)
        for k in range(components):
            mean += row[k] * held[k]
        for k in range(components):
            held[k] = weights[i] * row[k] * (held[k] - mean)
            pull[k] += held[k]
        # The same derivative reaches every code of the row.
        for u in range(codes.shape[1]):
            into = gradient[codes[i, u]]
            for k in range(components):
                into[k] += held[k]
    return float(penalty * paid)
