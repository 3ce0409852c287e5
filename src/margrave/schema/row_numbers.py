"""RowNumbers: the public map from a row's codes to the vector whose products are summed at the door."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid
from margrave.schema.domain import Clique, Domain


@dataclass(frozen=True, slots=True, eq=False)
class RowNumbers:
    """Numbers of each code of some attributes; a row's vector z has those of its codes, side by side.

    Every number is within -1 and 1 and public: it may come from a schema, never from rows.

    Args:
        names: The attributes, distinct.
        numbers: For each of them, shape [numbers, codes].
        constant: Whether z begins with a 1.

    Raises:
        SchemaError: The fields do not fit each other, or a number is not within -1 and 1.

    Example:
        >>> import numpy as np
        >>> from margrave.schema.row_numbers import RowNumbers
        >>> RowNumbers(("age", "ill"), (np.array([[-1.0, 0.0, 1.0]]), np.array([[0.0, 1.0]]))).size
        3
    """

    names: Clique
    numbers: tuple[NDArray[np.float64], ...]
    constant: bool = True

    def __post_init__(self) -> None:
        sound = len(self.names) == len(self.numbers) == len(set(self.names)) > 0
        if not sound or any(matrix.ndim != 2 or not matrix.size for matrix in self.numbers):
            remedy = "Give each of the names an array of shape [numbers, codes]."
            raise SchemaError(invalid("numbers", "one matrix for each of the distinct names", remedy))
        if any(not (np.abs(matrix) <= 1.0).all() for matrix in self.numbers):
            remedy = "Divide a column's numbers by its declared bounds."
            raise SchemaError(invalid("numbers", "within -1 and 1", remedy))

    @classmethod
    def indicate_codes(cls, domain: Domain) -> RowNumbers:
        """One indicator a code: a row's vector has a 1 for each attribute, at its code, and 0 elsewhere."""
        return cls(domain.names, tuple(np.eye(size) for size in domain.sizes), constant=False)

    @classmethod
    def scale_codes(cls, domain: Domain) -> RowNumbers:
        """One number an attribute, its code over the largest: for codes evenly in order, as grey values."""
        rows = tuple(np.arange(size)[None, :] / max(size - 1, 1) for size in domain.sizes)
        return cls(domain.names, rows, constant=False)

    @property
    def size(self) -> int:
        """Numbers of a row: p, the constant included."""
        return int(self.constant) + sum(len(matrix) for matrix in self.numbers)

    def check(self, domain: Domain) -> None:
        """Refuse a domain with other attributes or other sizes.

        Raises:
            SchemaError: It is one.
        """
        if domain.shape(self.names) != tuple(matrix.shape[1] for matrix in self.numbers):
            raise SchemaError(invalid("numbers", "of the domain's sizes", "Make them for this domain."))

    def cut(self, height: int) -> tuple[NDArray[np.int64], ...]:
        """height times the numbers, cut towards 0; the constant's first, of shape [1, 1], where it is."""
        matrices = tuple(np.trunc(height * matrix).astype(np.int64) for matrix in self.numbers)
        return (np.full((1, 1), height, dtype=np.int64), *matrices) if self.constant else matrices
