"""Evidence: the codes that sampled rows must have."""

from __future__ import annotations

from collections.abc import Mapping

from margrave.errors import InputError, invalid
from margrave.schema.domain import Domain

__all__ = ["checked"]


def checked(domain: Domain, given: Mapping[str, int]) -> dict[str, int]:
    """The evidence as integers.

    Raises:
        SchemaError: The domain has no such attribute.
        InputError: A code is outside its attribute.
    """
    for name, code in given.items():
        if not 0 <= int(code) < domain[name]:
            raise InputError(
                invalid(
                    "given", f"of codes 0 to {domain[name] - 1} for {name!r}", "Use a code of it.", got=code
                )
            )
    return {name: int(code) for name, code in given.items()}
