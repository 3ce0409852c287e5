"""Column classes have slots in a way that every supported Python can inherit from."""

from __future__ import annotations

from margrave.schema.columns import Column
from margrave.schema.schema import COLUMN_KINDS


def test_no_column_has_an_attribute_dictionary() -> None:
    for kind in COLUMN_KINDS.values():
        assert not any("__dict__" in vars(base) for base in kind.__mro__), f"{kind}: slots=True"


def test_of_several_bases_at_most_one_has_generated_slots() -> None:
    """Python 3.10 repeats inherited slots in `dataclass(slots=True)`: two bases with it share no subclass.

    Newer versions do not mind. That a frozen class uses it shows by the `__getstate__` that it then gets.
    """
    pending, found = [Column], set()
    while pending:
        kind = pending.pop()
        found.add(kind)
        pending += [sub for sub in kind.__subclasses__() if sub.__module__.startswith("margrave")]
        several = [base for base in kind.__bases__ if issubclass(base, Column)]
        generated = [base for base in several if "__getstate__" in vars(base)]
        assert len(generated) <= 1, kind
    assert len(found) > len(COLUMN_KINDS)
