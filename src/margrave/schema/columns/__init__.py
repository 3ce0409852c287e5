"""Column kinds: what one column of a table may contain. Public knowledge, or not known yet.

    Column
    ├── Unknown                   text of which nothing is known: discovery decides the kind
    ├── Identifier                unique keys: made anew
    ├── Omitted                   left out of the release
    ├── Relative                  coded by the difference from another column, or the quotient by it
    ├── Listed                    values by enumeration
    │   ├── Categorical           no order
    │   ├── Ordinal               listed in order
    │   └── Boolean               False, True
    └── Binned                    numbers by bins
        ├── Whole                 whole numbers of a unit
        │   ├── Integer
        │   └── Temporal
        │       ├── Date          days since 1970-01-01
        │       ├── Moment        microseconds since 1970-01-01T00:00
        │       ├── Time          microseconds since midnight
        │       └── Duration      microseconds
        └── Real

Codes of a column run: its values or bins, then `other` if there is one, then missing if there may be any.
A part that is None is not declared, and discovery pays for it.
"""

from __future__ import annotations

from margrave.schema.columns.base import Column, Omitted, Scalar, Unknown
from margrave.schema.columns.binned import Binned, Integer, Real, Whole
from margrave.schema.columns.identifier import Identifier
from margrave.schema.columns.listed import Boolean, Categorical, Listed, Ordinal
from margrave.schema.columns.relative import Relative
from margrave.schema.columns.temporal import Date, Duration, Moment, Temporal, Time

__all__ = [
    "Binned",
    "Boolean",
    "Categorical",
    "Column",
    "Date",
    "Duration",
    "Identifier",
    "Integer",
    "Listed",
    "Moment",
    "Omitted",
    "Ordinal",
    "Real",
    "Relative",
    "Scalar",
    "Temporal",
    "Time",
    "Unknown",
    "Whole",
]
