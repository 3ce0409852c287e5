"""Domain: the names and sizes of integer-coded attributes, with the set algebra of cliques."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from margrave.errors import SchemaError, invalid

if TYPE_CHECKING:
    from margrave.schema.constraints.codes import CodeRules

Clique = tuple[str, ...]
"""Attribute names; the order is the order of an array's axes."""


@dataclass(frozen=True, slots=True)
class Domain:
    """What an integer-coded table may contain. Public knowledge.

    Args:
        names: Attribute names, unique.
        sizes: Number of codes of each attribute, at least 1: codes run from 0 to size - 1.
        ordered: How many leading codes of each attribute stand in a natural order (bins of numbers, ordinal
            values), 0 for none. A hint for models: domains that differ in it alone are equal.
        rules: What rules say about codes, `schema.constraints.codes`. A hint for models, too; parts and
            unions of domains have none.
        missing: The code of a missing value of each attribute, -1 for none. A hint, of which the same holds.
        zeros: The code of each attribute that stands for the number 0 alone, -1 for none. Likewise.

    Raises:
        SchemaError: names repeat, a size is below 1, or the fields differ in length.

    Example:
        >>> d = Domain(("a", "b", "c"), (2, 3, 4))
        >>> d.size(("c", "a")), d.shape(("c", "a")), d.canonical(("c", "a"))
        (8, (4, 2), ('a', 'c'))
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    ordered: tuple[int, ...] = field(default=(), compare=False)
    rules: CodeRules | None = field(default=None, compare=False)
    missing: tuple[int, ...] = field(default=(), compare=False)
    zeros: tuple[int, ...] = field(default=(), compare=False)
    _places: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))
        object.__setattr__(self, "ordered", tuple(self.ordered) or (0,) * len(self.names))
        object.__setattr__(self, "missing", tuple(self.missing) or (-1,) * len(self.names))
        object.__setattr__(self, "zeros", tuple(self.zeros) or (-1,) * len(self.names))
        parts = (self.sizes, self.ordered, self.missing, self.zeros)
        if any(len(part) != len(self.names) for part in parts):
            raise SchemaError(invalid("sizes", "as many as the names", "Give each attribute one size."))
        if len(set(self.names)) != len(self.names):
            raise SchemaError(invalid("names", "unique", "Rename the attributes that repeat."))
        if any(size < 1 for size in self.sizes):
            raise SchemaError(invalid("sizes", "at least 1 each", "An attribute needs one code or more."))
        object.__setattr__(self, "_places", {name: place for place, name in enumerate(self.names)})

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Domain:
        """A domain from a mapping of attribute name to size, in the mapping's order."""
        return cls(tuple(sizes), tuple(sizes.values()))

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> int:
        """The number of codes of one attribute."""
        return self.sizes[self.index(name)]

    def index(self, name: str) -> int:
        """The position of an attribute.

        Raises:
            SchemaError: The domain has no such attribute.
        """
        try:
            return self._places[name]
        except KeyError:
            raise SchemaError(
                invalid("clique", f"made of {list(self.names)}", "Use names of the domain.", got=name)
            ) from None

    def shape(self, clique: Sequence[str]) -> tuple[int, ...]:
        """The shape of the marginal table of a clique, axes in the clique's order."""
        sizes, places = self.sizes, self._places
        try:
            return tuple([sizes[places[name]] for name in clique])
        except KeyError:
            return tuple(self[name] for name in clique)  # which says what is wrong

    def size(self, clique: Sequence[str] | None = None) -> int:
        """Number of cells of a clique's marginal (of the whole domain by default), an exact integer."""
        return math.prod(self.sizes if clique is None else self.shape(clique))

    def canonical(self, clique: Iterable[str]) -> Clique:
        """The clique's distinct names in the domain's order."""
        return tuple(sorted(set(clique), key=self.index))

    def project(self, clique: Sequence[str]) -> Domain:
        """The domain of some attributes, in the order given."""
        return Domain(tuple(clique), self.shape(clique), tuple(self.ordered[self.index(n)] for n in clique))

    def marginalize(self, clique: Iterable[str]) -> Domain:
        """The domain without some attributes."""
        gone = set(clique)
        return self.project([name for name in self.names if name not in gone])

    def merge(self, other: Domain) -> Domain:
        """The union of two domains; attributes they share must agree in size.

        Raises:
            SchemaError: A shared attribute has two sizes.
        """
        for name in other.names:
            if name in self and self[name] != other[name]:
                raise SchemaError(invalid("other", f"of equal size for {name!r}", "Rename one of them."))
        extra = other.marginalize(self.names)
        return Domain(self.names + extra.names, self.sizes + extra.sizes, self.ordered + extra.ordered)
