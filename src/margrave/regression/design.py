"""Design: which numbers of a release's columns a regression is about, centred and scaled for computing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from margrave.regression.encoding import Encoding
from margrave.schema.domain import Clique
from margrave.schema.encoded import Encoded

if TYPE_CHECKING:
    from margrave.protocols import Model

Floats = NDArray[np.float64]


SMALLEST_SPREAD = 1e-6
"""A level that a log-linear model gives a share of 1e-40 of the rows has a spread of 1e-20: what is computed
of it is rounding alone. A share of 1e-12 is less than one row of any table."""


class ModelTables(Protocol):
    """The tables of a model, which has more; see `margrave.protocols.Model`."""

    @property
    def total(self) -> float:
        """The number of rows that the model stands for."""

    def project(self, clique: Clique) -> Floats:
        """The table of a clique, in rows."""

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The tables of many cliques."""


class KeptTables:
    """The tables of a model, each worked out once: a regression asks for the same ones several times.

    Args:
        model: Of the release.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._known: dict[Clique, Floats] = {}

    @property
    def total(self) -> float:
        """The number of rows that the model stands for."""
        return self._model.total

    def project(self, clique: Clique) -> Floats:
        """The table of a clique, in rows; not to be written to."""
        return self.project_many([clique])[0]

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The tables of many cliques; not to be written to."""
        missing = [clique for clique in dict.fromkeys(cliques) if clique not in self._known]
        if missing:
            self._known.update(zip(missing, self._model.project_many(missing), strict=True))
        return [self._known[clique] for clique in cliques]


@dataclass(frozen=True, slots=True)
class Design:
    """A target and features as numbers of codes, with column 0 the constant 1.

    Features are centred at the model's means and scaled to the model's standard deviations. Centring matters
    for more than rounding: noisy tables do not agree with each other, and the noise of a product of two
    columns is in proportion to how far their numbers are from 0.

    Args:
        target: Name of the target; of one that is coded by others, the first column that it is made of.
        labels: Number of each code of the target less its mean, shape [codes]; 0 where it has none.
        present: Which codes of the target have a number; the other rows are left out.
        middle: What was taken off the labels.
        encodings: Of the features, as they will be reported.
        matrices: Centred and scaled numbers of each feature, shape [numbers, codes].
        starts: Place of each feature's first number, and one past the last: shape [features + 1].
        to_raw: Linear map from coefficients of the centred design to those of the encodings, [p, p].
        intercept: Whether the constant has a coefficient.
        others: Further columns that the target is the sum of, with the numbers of their codes, likewise.
    """

    target: str
    labels: Floats
    present: NDArray[np.bool_]
    middle: float
    encodings: tuple[Encoding, ...]
    matrices: tuple[Floats, ...]
    starts: tuple[int, ...]
    to_raw: Floats
    intercept: bool
    others: tuple[tuple[str, Floats], ...] = ()

    @property
    def parts(self) -> tuple[tuple[str, Floats], ...]:
        """The columns whose numbers add up to the target, with these numbers."""
        return ((self.target, self.labels), *self.others)

    @property
    def size(self) -> int:
        """Number of numbers a row has, the constant included: p."""
        return self.starts[-1]

    @property
    def free(self) -> NDArray[np.int64]:
        """Places of the coefficients that are fitted."""
        return np.arange(0 if self.intercept else 1, self.size)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features, in order."""
        return tuple(encoding.column for encoding in self.encodings)

    @property
    def whole(self) -> bool:
        """Whether every row has a target."""
        return bool(self.present.all())

    @property
    def ranges(self) -> Floats:
        """From the smallest to the largest number of each column, 1 where it has one only: shape [p]."""
        ranges = np.concatenate([[1.0], *(np.ptp(matrix, axis=1) for matrix in self.matrices)])
        return np.where(ranges > 0.0, ranges, 1.0)

    def places(self, feature: int) -> slice:
        """Places of a feature's numbers among all."""
        return slice(self.starts[feature], self.starts[feature + 1])

    def codes(self, encoded: Encoded) -> tuple[tuple[NDArray[np.int64], ...], Floats]:
        """Codes of each feature in rows that have a target, [rows], and the labels, shape [rows]."""
        kept = self.present[encoded.column(self.target)]
        codes = tuple(encoded.column(name)[kept].astype(np.int64) for name in self.names)
        return codes, np.sum([own[encoded.column(name)[kept]] for name, own in self.parts], axis=0)


def find_shares(model: ModelTables, name: str) -> Floats:
    """The model's share of each code of a column, shape [codes]; all alike where it has no rows."""
    ways = np.maximum(model.project((name,)), 0.0)
    whole = float(ways.sum())
    return np.asarray(ways / whole if whole > 0.0 else np.full(len(ways), 1.0 / len(ways)))


def centre(
    model: ModelTables,
    target: str,
    labels: Floats,
    encodings: Sequence[Encoding],
    intercept: bool,
    others: Sequence[tuple[str, Floats]] = (),
) -> Design:
    """A design centred and scaled by the model's one-way tables.

    Args:
        model: Of the release.
        target: Its name.
        labels: The number of each code, NaN where it has none.
        encodings: Of the features.
        intercept: Whether the constant has a coefficient; without one features are scaled and not centred.
        others: Further columns that the target is the sum of, with the number of each code.

    A number that is the same in all rows of the model, or in all but a share of 1e-12, becomes 0 and counts
    as left out: the intercept is that of a regression without it.
    """
    present = ~np.isnan(labels)
    table = np.maximum(model.project((target,)), 0.0) * present
    held = float(table.sum())
    middle = float(np.nan_to_num(labels) @ table / held) if held > 0 else 0.0
    own = np.where(present, np.nan_to_num(labels) - middle, 0.0)
    centred = []
    for name, numbers in others:
        ways = np.maximum(model.project((name,)), 0.0)
        mean = float(numbers @ ways / ways.sum()) if ways.sum() > 0 else 0.0
        centred.append((name, numbers - mean))
        middle += mean
    matrices, shifts, scales = [], [0.0], [1.0]
    for encoding in encodings:
        shares = find_shares(model, encoding.column)
        means = encoding.matrix @ shares if intercept else np.zeros(len(encoding.matrix))
        moved = encoding.matrix - means[:, None]
        spread = np.sqrt(moved**2 @ shares)
        varies = spread > SMALLEST_SPREAD
        means, spread = np.where(varies, means, 0.0), np.where(varies, spread, 1.0)
        matrices.append(np.where(varies[:, None], moved / spread[:, None], 0.0))
        shifts += means.tolist()
        scales += spread.tolist()
    to_raw = np.diag(1.0 / np.asarray(scales))
    to_raw[0] -= np.asarray(shifts) / np.asarray(scales)
    to_raw[0, 0] = 1.0
    starts = np.cumsum([1, *(len(matrix) for matrix in matrices)])
    return Design(
        target,
        own,
        present,
        middle,
        tuple(encodings),
        tuple(matrices),
        tuple(int(start) for start in starts),
        to_raw,
        intercept,
        tuple(centred),
    )
