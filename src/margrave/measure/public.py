"""PublicPart: the columns that a run's promise leaves public, read exactly, and nothing beside them.

**Privacy.** Under replace_private neighbouring tables have the same public columns in the same rows
(`margrave.privacy.unit.Neighbours`), so whatever is computed from these columns alone is the same for both
and costs nothing. That it is computed from them alone is by construction: `PublicPart` is given a source
that was restricted to these columns first (`Source.only`), and an engine bound to that source. What a release
holds of them is made anew from their values (`copy_values`): the memory of a table has more than its values,
such as the number that was there before a mask made it missing, and rows that were cut off. Order and
number of rows are public too. With owners, the source is the one whose owners have been cut to their cap,
and which rows stay is drawn by owner and chance alone. Only `Curator.read_public` makes one, from the names
in the ledger's promise; tests/test_architecture.py holds who imports this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import pyarrow as pa

from margrave.schema.domain import Domain
from margrave.schema.encode import encode
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema
from margrave.schema.storage.forms import copy_values

if TYPE_CHECKING:
    from margrave.protocols import Source


@final
class PublicPart:
    """The public columns of a table: values and codes, in the table's order.

    Args:
        source: A table of the public columns alone.
    """

    def __init__(self, source: Source) -> None:
        self.source = source

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the public columns, in the table's order."""
        return tuple(column.name for column in self.source.columns)

    def read_values(self) -> Any:
        """The public columns as they are: an Arrow table, of which every byte follows from their values.

        Raises:
            InputError: The table is not held in memory.
        """
        table = self.source.read_rows()
        plain = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns]
        return copy_values(pa.table(plain, names=table.column_names))

    def encode(self, schema: Schema) -> Encoded:
        """The public columns that are attributes of a schema, as codes.

        Args:
            schema: Of the whole table, known.
        """
        columns = tuple(
            schema[name] for name in self.names if name in schema.names and schema[name].attribute
        )
        if not columns:
            return Encoded(Domain((), ()), ())
        return encode(self.source.only([column.name for column in columns]).read_rows(), Schema(columns))
