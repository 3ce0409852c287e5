"""Schema: the columns of a table, and schema.json."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from margrave.errors import InputError, SchemaError, invalid
from margrave.extensions import add_entry, find_entry
from margrave.schema.columns import (
    Binned,
    Boolean,
    Categorical,
    Column,
    Date,
    Duration,
    Identifier,
    Integer,
    Listed,
    Moment,
    Omitted,
    Ordinal,
    Real,
    Relative,
    Temporal,
    Time,
    Unknown,
)
from margrave.schema.columns.relative import in_turn
from margrave.schema.constraints.codes import CodeRules, check_rules, code_rules
from margrave.schema.constraints.numbers import is_applicable
from margrave.schema.constraints.rules import Rule, check_names, rule_from_json
from margrave.schema.describe import describe_schema
from margrave.schema.domain import Domain
from margrave.schema.sdv import columns_from_sdv, table_from_sdv

COLUMN_KINDS: dict[str, type[Column]] = {
    kind.kind: kind
    for kind in (
        *(Categorical, Ordinal, Boolean, Integer, Real, Unknown),
        *(Date, Moment, Time, Duration, Identifier, Omitted, Relative),
    )
}
"""Column kinds by the name they have in a schema.json."""


def register_column(kind: type[Column]) -> None:
    """Add a kind of columns, so that a schema.json and a release file may hold it.

    Args:
        kind: A frozen dataclass derived from `Listed` or `Binned`, with a `kind` of its own: they say how
            values become codes.

    Raises:
        InputError: It is derived from neither, or the name is taken by another kind.
    """
    if not issubclass(kind, Listed | Binned):
        remedy = "Derive it from margrave.schema.columns.Listed or Binned."
        raise InputError(invalid("column kind", "one that can be encoded", remedy, got=kind.__name__))
    if not isinstance(vars(kind).get("kind"), str):
        remedy = 'Write kind: ClassVar[str] = "..." in the class.'
        raise InputError(invalid("column kind", "one with a name of its own", remedy, got=kind.__name__))
    add_entry(COLUMN_KINDS, kind.kind, kind, "the column kind")


def find_kind(name: str) -> type[Column] | None:
    """The kind of columns of a name, those of installed extensions included; None if there is none."""
    return find_entry(COLUMN_KINDS, name)


VERSION, UNRULED = 2, 1
"""Version of a schema.json, and the one that is written where no rules need the later."""


@dataclass(frozen=True, slots=True, repr=False)
class Schema:
    """What is publicly known about a table's columns, in order.

    Args:
        columns: One column kind a column, names unique.
        rules: Public facts that every row obeys, see docs/rules.md.

    Raises:
        SchemaError: Names repeat or there is no column; a rule is about another column, does not fit its
            columns' kinds, or leaves no row possible.

    Example:
        >>> schema = Schema((Integer(name="age", lower=0, upper=120, missing=False),))
        >>> schema.domain.sizes
        (32,)
    """

    columns: tuple[Column, ...]
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "rules", tuple(self.rules))
        if not self.columns:
            raise SchemaError(invalid("columns", "one or more", "A table needs a column."))
        for column in self.columns:
            column.check_own()
        if len(set(self.names)) != len(self.columns):
            raise SchemaError(invalid("columns", "uniquely named", "Rename the columns that repeat."))
        in_turn(self.columns)
        check_names(self.rules, self.columns)
        check_rules(self._ruled, self.rules)
        if all(column.known for column in self._ruled):
            self.code_rules  # noqa: B018 - refuses rules that no row could obey

    @property
    def _ruled(self) -> tuple[Column, ...]:
        names = {name for rule in self.rules for name in rule.names}
        return tuple(column for column in self.columns if column.name in names)

    @property
    def code_rules(self) -> CodeRules | None:
        """What the rules say about codes; None if there are none.

        Raises:
            SchemaError: A column of a rule is not known yet.
        """
        return code_rules(self._ruled, self.rules)

    @classmethod
    def from_sizes(cls, sizes: Mapping[str, int]) -> Schema:
        """The schema of an integer-coded table: codes 0 to size - 1 in each column, none missing."""
        Domain.of(sizes)
        return cls(
            tuple(
                Categorical(name=name, values=tuple(range(size)), missing=False)
                for name, size in sizes.items()
            )
        )

    @classmethod
    def from_sdv(cls, metadata: Mapping[str, Any] | str | Path, table: str | None = None) -> Schema:
        """The schema that SDV's metadata describes: kinds of columns; bounds and values stay open.

        Columns of sdtype "numerical" are whole numbers where their representation says so; "categorical" ones
        with an order are ordinal; keys, and whatever names a person (email, phone_number, ssn, ...), are
        identifiers, which are never read and are made anew. Relations between tables and constraints are left
        out. Metadata that was detected from the private rows says something about them (which columns are
        whole numbers, dates or categorical): check that you would have known it without looking.

        Args:
            metadata: As SDV's `to_dict()` gives it, or the path of its JSON file.
            table: Which table, where it describes several.

        Raises:
            InputError: The file cannot be read, or the table has to be named.
            SchemaError: It is not metadata of SDV.

        Example:
            >>> Schema.from_sdv({"columns": {"member": {"sdtype": "boolean"}}})
            Schema of 1 column, 1 with parts to be discovered
              member  boolean, False, True, missing values to be discovered
        """
        return cls(columns_from_sdv(table_from_sdv(metadata, table)))

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def known(self) -> bool:
        """Whether rows can be encoded by it."""
        return all(column.known for column in self.columns)

    @property
    def open(self) -> bool:
        """Whether discovery has something to find out."""
        return any(column.open for column in self.columns)

    @property
    def attributes(self) -> tuple[Column, ...]:
        """The columns that models see: all but free identifiers and those that are left out."""
        return tuple(column for column in self.columns if column.attribute)

    @property
    def domain(self) -> Domain:
        """Names and sizes of the encoded attributes.

        Raises:
            SchemaError: A column is not known yet, or all are identifiers.
        """
        seen = self.attributes
        if not seen:
            raise SchemaError(invalid("columns", "more than identifiers", "Keep a column to model."))
        sizes = tuple(column.size for column in seen)
        ordered = tuple(column.ordered for column in seen)
        missing = tuple(-1 if column.missing_code is None else column.missing_code for column in seen)
        zeros = tuple(-1 if column.zero_code is None else column.zero_code for column in seen)
        return Domain(tuple(c.name for c in seen), sizes, ordered, self.code_rules, missing, zeros)

    def __repr__(self) -> str:
        return "\n".join(describe_schema(self.columns, self.rules))

    def __getitem__(self, name: str) -> Column:
        """The column of a name.

        Raises:
            SchemaError: There is none.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaError(invalid("column", f"one of {list(self.names)}", "Check the spelling.", got=name))

    def __iter__(self) -> Iterator[Column]:
        """The columns, in order."""
        return iter(self.columns)

    def __len__(self) -> int:
        """How many columns there are."""
        return len(self.columns)

    def __contains__(self, name: object) -> bool:
        """Whether there is a column of a name."""
        return name in self.names

    def replace(self, columns: Iterable[Column]) -> Schema:
        """The same schema with some columns exchanged for others of the same name."""
        new = {column.name: column for column in columns}
        for name in new:
            self[name]
        return Schema(tuple(new.get(column.name, column) for column in self.columns), self.rules)

    @property
    def strict_columns(self) -> tuple[str, ...]:
        """Names of the columns whose declaration ends a run with an error where a row breaks it.

        These are the strict columns of which the values or bins are declared. Where bins are still to be
        discovered, or values to be listed, every value finds a place.
        """
        return tuple(column.name for column in self.attributes if column.strict and _all_but_missing(column))

    def check_kinds(self) -> None:
        """Refuse a kind of columns that no name leads to: what is saved of it could not be read again.

        Raises:
            SchemaError: A column's class was not registered.
        """
        for column in self.columns:
            if find_kind(column.kind) is not type(column):
                remedy = f"Call margrave.schema.schema.register_column({type(column).__name__}) first."
                where = f"kind of column {column.name!r}"
                raise SchemaError(invalid(where, "registered", remedy, got=column.kind))

    def absorb_outside(self) -> Schema:
        """The same schema, which takes in what lies outside its declarations instead of refusing it.

        No column is strict any more. A number, date or time beyond the bounds counts in the nearest bin, a
        fraction among whole numbers is rounded down, text in a column of numbers is missing, and a value that
        is not listed becomes `other`: a column of listed values that has no such label is given "(other)".
        What then has no code becomes the likeliest one, see `encode_column`; in a boolean column
        that is false.

        Example:
            >>> column = Categorical(name="sex", values=("F", "M"), missing=False)
            >>> Schema((column,)).absorb_outside()["sex"].labels
            ('F', 'M', '(other)')
        """
        return Schema(tuple(column.absorb_outside() for column in self.columns), self.rules)

    def without(self, name: str | None) -> Schema | None:
        """The same schema without a column, where it has that column; None if no other is left.

        Raises:
            SchemaError: A rule is about the column.
        """
        if name not in self.names:
            return self
        ruled = [rule.kind for rule in self.rules if name in rule.names]
        if ruled:
            remedy = "Leave out the rules that name the owner's column: it is not released."
            raise SchemaError(invalid("rules", "about columns that are released", remedy, got=ruled))
        rest = tuple(column for column in self.columns if column.name != name)
        return Schema(rest, self.rules) if rest else None

    def to_json(self) -> dict[str, Any]:
        """A JSON document; parts that hold their default are left out."""
        columns = [_column_to_json(column) for column in self.columns]
        document = {"margrave_schema": VERSION if self.rules else UNRULED, "columns": columns}
        return document | {"rules": [rule.to_json() for rule in self.rules]} if self.rules else document

    @classmethod
    def from_json(cls, document: Any) -> Schema:
        """The schema of a JSON document.

        Raises:
            SchemaError: The document is not a schema, or was written by a newer version.
        """
        if not isinstance(document, dict) or not isinstance(document.get("columns"), list):
            remedy = "See `margrave schema --help`."
            raise SchemaError(invalid("schema", "an object with a list of 'columns'", remedy))
        # A document of a later version may mean something else by what looks the same.
        version = document.get("margrave_schema", VERSION)
        if not isinstance(version, int) or version > VERSION:
            raise SchemaError(
                invalid("margrave_schema", f"at most {VERSION}", "Upgrade margrave.", got=version)
            )
        rules = document.get("rules", [])
        if not isinstance(rules, list):
            raise SchemaError(invalid("rules", "a list of objects", "See docs/rules.md."))
        if not _is_unicode(document):
            raise SchemaError(invalid("schema", "in valid Unicode", "Write it again."))
        columns = tuple(_column_from_json(entry) for entry in document["columns"])
        return cls(columns, tuple(rule_from_json(entry) for entry in rules))

    def save(self, path: str | Path) -> None:
        """Write schema.json."""
        Path(path).write_text(
            json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n"
        )

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read schema.json.

        Raises:
            InputError: There is no such file, or this is no path.
            SchemaError: It is not a schema in JSON.
        """
        try:
            file = Path(path)
        except TypeError:
            remedy = "Columns alone make one: mg.Schema([mg.Integer(name='age', lower=0, upper=110)])."
            constraint = "a Schema or the path of a schema.json"
            raise InputError(invalid("schema", constraint, remedy, got=type(path).__name__)) from None
        try:  # editors of Windows write a byte order mark
            return cls.from_json(json.loads(file.read_text(encoding="utf-8-sig")))
        except OSError:
            raise InputError(invalid("schema", "a readable file", "Check the path.", got=str(path))) from None
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            remedy = f"{error}." if isinstance(error, json.JSONDecodeError) else "Save it as UTF-8."
            raise SchemaError(invalid("schema", "valid JSON in UTF-8", remedy)) from None


def apply_rules(columns: Iterable[Column], rules: Sequence[Rule], discovered: Collection[str]) -> Schema:
    """The schema of discovered columns under the rules that they leave possible.

    All rules, if some row of listed values and numbers obeys them together. Otherwise each in the order in
    which it was declared, if some row obeys it and those that were kept before: the first rules of a schema
    outlive later ones. Of columns that were discovered, missing and other values do not count, unless a rule
    names missing ones: a rule that only such rows obey would leave nothing else in the release. A rule about
    numbers is left out as well where a column turned out to hold none.

    **Privacy.** What is left out follows from the columns, which were released, and from the rules, which are
    public; no row is looked at.

    Args:
        columns: All known.
        rules: What was declared about them.
        discovered: Names of the columns of which something was discovered.
    """
    whole = tuple(columns)
    named = {column.name: column for column in whole}
    able = [rule for rule in rules if is_applicable(named, rule)]
    if _is_possible(whole, able, discovered):
        return Schema(whole, tuple(able))
    kept: list[Rule] = []
    for rule in able:
        if _is_possible(whole, [*kept, rule], discovered):
            kept.append(rule)
    return Schema(whole, tuple(kept))


def _is_possible(columns: tuple[Column, ...], rules: Sequence[Rule], discovered: Collection[str]) -> bool:
    """Whether some row of listed values and numbers can obey all of some rules."""
    ruled = {name for rule in rules for name in rule.names}
    spoken = {name for rule in rules if rule.names_missing for name in rule.names}
    narrow = tuple(
        _narrow_column(column, column.name in spoken) if column.name in discovered else column
        for column in columns
        if column.name in ruled
    )
    try:
        Schema(columns, tuple(rules))
        if narrow:
            Schema(narrow, tuple(rules))
    except SchemaError:
        return False
    return True


def _narrow_column(column: Column, missing: bool) -> Column:
    """A column without `other`, and without missing values unless these are to stay; as it is if nothing else
    is left of it."""
    changes: dict[str, Any] = {} if missing else {"missing": False}
    if isinstance(column, Listed) and not column.grouped:
        changes["other"] = None
    try:
        return dataclasses.replace(column, **changes)
    except SchemaError:
        return column


def _all_but_missing(column: Column) -> bool:
    """Whether all of a column is declared, but perhaps for its missing values and the merging of bins."""
    column = column if column.missing is not None else dataclasses.replace(column, missing=True)
    return dataclasses.replace(column, rare=0.0).known if isinstance(column, Binned) else column.known


def _column_to_json(column: Column) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": column.name, "kind": column.kind}
    derived = _derived_fields(column)
    for field in dataclasses.fields(column):
        value = getattr(column, field.name)
        # What is as by default is left out, so that a schema stays short and later defaults are taken up.
        if field.name in derived or value == field.default:
            continue
        if isinstance(value, Column):
            entry[field.name] = _column_to_json(value)
            continue
        entry[field.name] = list(value) if isinstance(value, tuple) else value
        if isinstance(column, Temporal) and field.name in ("lower", "upper", "edges", "fine"):
            bounds = value if isinstance(value, tuple) else (value,)
            written = [column.written(bound) for bound in bounds]
            entry[field.name] = written if isinstance(value, tuple) else written[0]
    return entry


def _derived_fields(column: Column) -> frozenset[str]:
    """The fields that schema.json leaves out, since they follow from others or have been written already."""
    if not isinstance(column, Binned):
        return column.derived | {"name"}
    if column.provisional:
        return column.derived | {"name", "provisional", "edges", "bins"}
    # Edges say all three, where they are written.
    written = column.edges is not None and "edges" not in column.derived
    bounds = {"lower", "upper", "bins"} if written else set()
    return column.derived | {"name", "provisional"} | bounds


def _is_required(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.init and field.default is missing and field.default_factory is missing


def _column_from_json(entry: Any) -> Column:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise SchemaError(invalid("columns", "objects with a 'name'", "Name every column."))
    kind = find_kind(str(entry.get("kind")))
    if kind is None:
        raise SchemaError(
            invalid(
                f"kind of column {entry['name']!r}",
                f"one of {sorted(COLUMN_KINDS)}",
                "Pick one.",
                got=entry.get("kind"),
            )
        )
    fields = {field.name for field in dataclasses.fields(kind)} - {"provisional"} - kind.derived
    # A misspelt key would otherwise be dropped in silence, and with it a declaration that the user relies
    # on.
    extra = sorted(set(entry) - fields - {"kind"})
    if extra:
        raise SchemaError(
            invalid(f"column {entry['name']!r}", f"made of {sorted(fields)}", "Remove the rest.", got=extra)
        )
    needed = sorted(
        one.name for one in dataclasses.fields(kind) if _is_required(one) and one.name not in entry
    )
    if needed:
        where = f"column {entry['name']!r} of kind {kind.kind!r}"
        raise SchemaError(invalid(where, f"given with {' and '.join(needed)}", "Add what is missing."))
    for key in ("missing", "strict"):
        if not isinstance(entry.get(key), bool | None):
            where = f"{key} of column {entry['name']!r}"
            raise SchemaError(invalid(where, "true or false", "Drop the quotes.", got=entry[key]))
    try:
        values: dict[str, Any] = {
            key: _value_from_json(value) for key, value in entry.items() if key != "kind"
        }
        return kind(**values)
    except (TypeError, ValueError) as error:
        if isinstance(error, SchemaError):
            raise
        raise SchemaError(
            invalid(
                f"column {entry['name']!r}", "of the right types", "Numbers for bounds, lists for values."
            )
        ) from None


def _value_from_json(value: Any) -> Any:
    if isinstance(value, dict):
        return _column_from_json(value)
    return tuple(value) if isinstance(value, list) else value


def _is_unicode(document: Any) -> bool:
    """Whether all texts can be written: JSON may hold halves of a surrogate pair."""
    try:
        json.dumps(document, ensure_ascii=False, default=str).encode()
    except (UnicodeEncodeError, ValueError, RecursionError):
        return False
    return True
