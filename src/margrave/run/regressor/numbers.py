"""Scaling: numbers of rows for the door, and the way back to those of the encodings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.regression.encoding import Encoding
from margrave.regression.perturbed import PerturbedFit
from margrave.schema.features import RowNumbers

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scaling:
    """Numbers of rows for the door, and the way back to those of the encodings.

    Args:
        kind: "linear" or "logistic": a logistic regression's target is not scaled.
        encodings: Of the features.
        labels: The number of each code of the target.
        meaning: Of a logistic regression: the level that counts as 1.
        numbers: What is summed: (number - shift) / scale, the target's last.
        shifts, scales: Of each number, the target's last: shape [p - 1], the constant left out.
    """

    kind: str
    encodings: tuple[Encoding, ...]
    labels: Floats
    meaning: str
    numbers: RowNumbers
    shifts: Floats
    scales: Floats

    @classmethod
    def of(
        cls,
        kind: str,
        target: str,
        labels: Floats,
        meaning: str,
        encodings: Sequence[Encoding],
        intercept: bool,
    ) -> Scaling:
        """The scaling of encodings, from public numbers alone."""
        matrices, shifts, scales = [], [], []
        marked = [[bool(level) for level in encoding.levels] for encoding in encodings]
        for matrix, marks in zip(
            [*(e.matrix for e in encodings), labels[None, :]],
            [*marked, [kind == "logistic"]],
            strict=True,
        ):
            middle = (matrix.max(axis=1) + matrix.min(axis=1)) / 2.0
            shift = np.where(np.asarray(marks) | (not intercept), 0.0, middle)
            scale = np.abs(matrix - shift[:, None]).max(axis=1)
            scale = np.where(scale > 0.0, scale, 1.0)
            matrices.append((matrix - shift[:, None]) / scale[:, None])
            shifts += shift.tolist()
            scales += scale.tolist()
        names = (*(encoding.column for encoding in encodings), target)
        numbers = RowNumbers(names, tuple(matrices), intercept)
        found = np.asarray(shifts), np.asarray(scales)
        return cls(kind, tuple(encodings), labels, meaning, numbers, *found)

    def restore(self, fit: PerturbedFit, level: float) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
        """Estimates, middles and half lengths of intervals, in the encodings' units, and which are known."""
        first = int(self.numbers.constant)
        shifts, scales = self.shifts[:-1], self.scales[:-1]
        raw = np.diag(np.concatenate([np.ones(first), 1.0 / scales]))
        if first:
            raw[0, 1:] = -shifts / scales
        raw *= self.scales[-1]
        offset = np.zeros(len(raw))
        offset[:first] = self.shifts[-1]
        known = fit.determined.copy()
        if first:
            known[0] = bool(known[(shifts != 0.0).nonzero()[0] + 1].all()) and bool(known[0])
        wide = np.where(known, fit.half_widths(raw, level), np.inf)
        return raw @ fit.estimates + offset, raw @ fit.unbiased + offset, wide, known
