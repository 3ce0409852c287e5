"""Column kinds: what one column of a table may contain. Public knowledge, or not known yet.

    Column
    ├── Unknown                   text of which nothing is known: discovery decides the kind
    ├── Listed                    values by enumeration
    │   ├── Categorical           no order
    │   ├── Ordinal               listed in order
    │   └── Boolean               False, True
    └── Binned                    numbers by bins
        ├── Integer
        └── Real

Codes of a column run: its values or bins, then `other` if there is one, then missing if there may be any.
A part that is None is not declared, and discovery pays for it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid

__all__ = [
    "Binned",
    "Boolean",
    "Categorical",
    "Column",
    "Integer",
    "Listed",
    "Ordinal",
    "Real",
    "Scalar",
    "Unknown",
]

Scalar = str | int | float | bool


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and math.isfinite(value)


def _is_scalar(value: object) -> bool:
    return isinstance(value, str) or _is_number(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(ABC):
    """Base of all column kinds.

    Args:
        name: Name of the column.
        missing: Whether values may be missing; None if that is not known.
        strict: Whether a value outside the declaration is an error (declared columns) or is absorbed
            (discovered ones): into `other`, into the nearest bin, or into the likeliest code.
    """

    kind: ClassVar[str]
    name: str
    missing: bool | None = None
    strict: bool = True

    @property
    @abstractmethod
    def known(self) -> bool:
        """Whether nothing is left to discover."""

    @property
    @abstractmethod
    def present(self) -> int:
        """Number of codes that are not missing, `other` included.

        Raises:
            SchemaError: The column is not known yet.
        """

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.present + bool(self.missing)

    @property
    def ordered(self) -> int:
        """How many leading codes stand in a natural order; 0 for none."""
        return 0

    @property
    def missing_code(self) -> int | None:
        """The code of a missing value, the last one; None if values cannot be missing."""
        return self.present if self.missing else None

    def _unknown(self) -> SchemaError:
        return SchemaError(
            invalid(f"column {self.name!r}", "known before it is encoded", "Declare it or discover it.")
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(Column):
    """Text of which nothing is known, as a CSV file gives it: discovery decides its kind."""

    kind: ClassVar[str] = "unknown"

    @property
    def known(self) -> bool:
        """Never."""
        return False

    @property
    def present(self) -> int:
        """Not defined.

        Raises:
            SchemaError: Always.
        """
        raise self._unknown()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(Column):
    """A column whose values are enumerated.

    Args:
        values: The values, codes 0, 1, ...; None if they are not known.
        other: Label of the code for values not listed; None if there is no such code.
    """

    values: tuple[Scalar, ...] | None = None
    other: str | None = None

    def __post_init__(self) -> None:
        given: object = self.values
        if self.values is None:
            return
        values = tuple(value.item() if isinstance(value, np.generic) else value for value in self.values)
        if isinstance(given, str) or not all(_is_scalar(value) for value in values):
            raise SchemaError(
                invalid(
                    f"values of column {self.name!r}",
                    "a list of texts, finite numbers or truth values",
                    "Say missing=True for missing values.",
                )
            )
        object.__setattr__(self, "values", values)
        if len(set(values)) != len(values) or self.other in values:
            raise SchemaError(invalid(f"values of column {self.name!r}", "distinct", "List each once."))
        if not values and self.other is None and not self.missing:
            raise SchemaError(
                invalid(f"values of column {self.name!r}", "at least one", "List the values it may take.")
            )

    @property
    def known(self) -> bool:
        """Whether values and missingness are known."""
        return self.values is not None and self.missing is not None

    @property
    def other_code(self) -> int | None:
        """The code of a value that is not listed; None if there is no such code."""
        return None if self.values is None or self.other is None else len(self.values)

    @property
    def present(self) -> int:
        """Number of values, plus one if there is an `other`."""
        if self.values is None:
            raise self._unknown()
        return len(self.values) + (self.other is not None)

    @property
    def labels(self) -> tuple[str, ...]:
        """A label for each code, for reading."""
        shown = [str(value) for value in self.values or ()]
        return (
            *shown,
            *([self.other] if self.other is not None else []),
            *(["missing"] if self.missing else []),
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Categorical(Listed):
    """Values without an order."""

    kind: ClassVar[str] = "categorical"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ordinal(Listed):
    """Values listed from least to greatest."""

    kind: ClassVar[str] = "ordinal"

    @property
    def ordered(self) -> int:
        """The listed values, as they are given."""
        return len(self.values or ())


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean(Listed):
    """False and True; the values are public by nature."""

    kind: ClassVar[str] = "boolean"
    values: tuple[Scalar, ...] | None = (False, True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binned(Column):
    """A numeric column cut into bins.

    Give bounds (`lower`, `upper`, both inside, and a number of `bins` of equal width) or the `edges`.

    Args:
        lower: Least value; None if it is not known.
        upper: Greatest value; None if it is not known.
        bins: Number of equal-width bins when edges are not given; fewer where an integer range has fewer
            values.
        edges: Increasing bin edges, one more than bins. Bin i holds edges[i] <= x < edges[i + 1]; the last
            bin of a Real also holds its upper edge. For an Integer the last edge is upper + 1.
        fine: Increasing edges of finer cells that refine the bins, for decoding; None decodes uniformly
            inside a bin.
        weights: Non-negative weight of each fine cell; released or public, never exact private counts.
    """

    lower: float | None = None
    upper: float | None = None
    bins: int = 32
    edges: tuple[float, ...] | None = None
    fine: tuple[float, ...] | None = None
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.edges is None and self.lower is not None and self.upper is not None:
            self._check_bounds(self.lower, self.upper)
            object.__setattr__(self, "edges", self._equal_width())
        if self.edges is not None:
            edges = tuple(self._number(edge) for edge in self.edges)
            object.__setattr__(self, "edges", edges)
            self._check(edges, "edges")
            object.__setattr__(self, "lower", edges[0])
            object.__setattr__(self, "upper", self._last(edges[-1]))
            object.__setattr__(self, "bins", len(edges) - 1)
        if self.fine is not None:
            self._check_fine()

    @abstractmethod
    def _equal_width(self) -> tuple[float, ...]:
        """Edges of equal-width bins over [lower, upper]."""

    @abstractmethod
    def _number(self, value: float) -> float:
        """An edge in the kind's own number type."""

    @abstractmethod
    def _last(self, edge: float) -> float:
        """The greatest value below (Integer) or at (Real) the last edge."""

    def _check_bounds(self, lower: float, upper: float) -> None:
        if not (_is_number(lower) and _is_number(upper) and lower <= upper):
            raise SchemaError(
                invalid(
                    f"bounds of column {self.name!r}", "finite numbers", "Check that lower is below upper."
                )
            )
        if not isinstance(self.bins, int) or self.bins < 1:
            raise SchemaError(
                invalid(f"bins of column {self.name!r}", "a whole number of at least 1", "Try bins=32.")
            )

    def _check(self, edges: Sequence[float], what: str) -> None:
        finite = all(math.isfinite(edge) for edge in edges)
        if len(edges) < 2 or not finite or any(a >= b for a, b in pairwise(edges)):
            raise SchemaError(
                invalid(
                    f"{what} of column {self.name!r}",
                    "finite and increasing, two or more",
                    "Check that lower is below upper.",
                )
            )

    def _check_fine(self) -> None:
        fine = tuple(self._number(edge) for edge in self.fine or ())
        weights = tuple(float(weight) for weight in self.weights or ())
        object.__setattr__(self, "fine", fine)
        object.__setattr__(self, "weights", weights)
        self._check(fine, "fine edges")
        if not set(self.edges or ()) <= set(fine) or fine[0] != self.lower:
            raise SchemaError(
                invalid(
                    f"fine edges of column {self.name!r}",
                    "a refinement of the edges",
                    "Include every bin edge and nothing outside.",
                )
            )
        if len(weights) != len(fine) - 1 or any(not (0 <= weight < math.inf) for weight in weights):
            raise SchemaError(
                invalid(
                    f"weights of column {self.name!r}",
                    "one a fine cell and not negative",
                    "Give one weight for each pair of neighbouring fine edges.",
                )
            )

    @property
    def known(self) -> bool:
        """Whether the bins and missingness are known."""
        return self.edges is not None and self.missing is not None

    @property
    def ordered(self) -> int:
        """All bins."""
        return self.present

    @property
    def present(self) -> int:
        """Number of bins."""
        if self.edges is None:
            raise self._unknown()
        return len(self.edges) - 1

    @property
    def edge_array(self) -> NDArray[np.float64]:
        """The bin edges, shape [bins + 1]."""
        if self.edges is None:
            raise self._unknown()
        return np.asarray(self.edges, dtype=np.float64)

    @property
    def labels(self) -> tuple[str, ...]:
        """A label for each code, for reading."""
        if self.edges is None:
            raise self._unknown()
        pairs = pairwise(self.edges)
        shown = [self._label(low, high) for low, high in pairs]
        return (*shown, *(["missing"] if self.missing else []))

    def _label(self, low: float, high: float) -> str:
        return f"{low:g} to {high:g}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(Binned):
    """Whole numbers."""

    kind: ClassVar[str] = "integer"

    def _equal_width(self) -> tuple[float, ...]:
        assert self.lower is not None  # noqa: S101
        assert self.upper is not None  # noqa: S101
        low, high = math.ceil(self.lower), math.floor(self.upper) + 1
        cuts = [low + (high - low) * i // self.bins for i in range(self.bins + 1)]
        return tuple(dict.fromkeys(cuts))

    def _number(self, value: float) -> float:
        if not math.isfinite(value) or value != int(value):
            raise SchemaError(
                invalid(f"edges of column {self.name!r}", "whole numbers", "Declare it as Real instead.")
            )
        return int(value)

    def _last(self, edge: float) -> float:
        return edge - 1

    def _label(self, low: float, high: float) -> str:
        return f"{low:d}" if high - low == 1 else f"{low:d} to {int(high) - 1:d}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Real(Binned):
    """Numbers on a line."""

    kind: ClassVar[str] = "real"

    def _equal_width(self) -> tuple[float, ...]:
        assert self.lower is not None  # noqa: S101
        assert self.upper is not None  # noqa: S101
        return tuple(np.linspace(float(self.lower), float(self.upper), self.bins + 1).tolist())

    def _number(self, value: float) -> float:
        return float(value)

    def _last(self, edge: float) -> float:
        return edge
