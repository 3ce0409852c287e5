"""Contingency tables in files: CSV, Parquet, Arrow and JSON, out and in.

A file holds one row a cell (see `estimates.long`), or in JSON one object a table. Parquet, Arrow and JSON
files also carry the schema and the guarantee; for CSV both have to be given again when the file is read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.archive import guarantee_from_json, guarantee_to_json
from margrave.errors import InputError, MargraveError, invalid
from margrave.files import suffix_of, write_table, write_text
from margrave.release import Guarantee, NoisyMarginal
from margrave.schema.domain import Clique
from margrave.schema.schema import Schema
from margrave.tables.estimates import FIGURES, Estimate, labels_of, long

VERSION = 1
"""Version of the file format of tables."""
NOTE = b"margrave_tables"


@dataclass(frozen=True, slots=True)
class Tables:
    """Noisy tables from a file.

    Args:
        schema: What their codes mean.
        measurements: The tables.
        guarantee: What they were released under; None if the file does not say.
    """

    schema: Schema
    measurements: tuple[NoisyMarginal, ...]
    guarantee: Guarantee | None


def write_tables(
    estimates: Sequence[Estimate],
    schema: Schema,
    path: str | Path,
    *,
    guarantee: Guarantee | None = None,
    level: float = 0.95,
) -> None:
    """Write tables with standard errors and confidence limits, whole or not at all.

    Args:
        estimates: The tables.
        schema: The release's.
        path: A .json, .csv, .csv.gz, .tsv, .parquet, .arrow or .feather file.
        guarantee: What they were released under.
        level: Of the confidence limits.

    Raises:
        InputError: The path cannot be written, or a column bears a reserved name.
    """
    promise = None if guarantee is None else guarantee_to_json(guarantee)
    if Path(path).suffix.lower() == ".json":
        document = _document(estimates, schema, promise, level)
        write_text(path, json.dumps(document, indent=1, ensure_ascii=False))
        return
    suffix_of(path)
    note = json.dumps({"version": VERSION, "schema": schema.to_json(), "guarantee": promise})
    write_table(long(estimates, schema, level).replace_schema_metadata({NOTE: note.encode()}), path)


def _document(estimates: Sequence[Estimate], schema: Schema, promise: Any, level: float) -> dict[str, Any]:
    tables = []
    for estimate in estimates:
        lower, upper = estimate.interval(level)
        tables.append(
            {
                "columns": list(estimate.clique),
                "labels": [list(labels_of(schema, name)) for name in estimate.clique],
                "source": estimate.source,
                "count": estimate.values.tolist(),
                "std_error": estimate.errors.tolist(),
                "lower": lower.tolist(),
                "upper": upper.tolist(),
            }
        )
    return {
        "margrave_tables": VERSION,
        "guarantee": promise,
        "level": level,
        "schema": schema.to_json(),
        "tables": tables,
    }


def read_tables(path: str | Path, *, schema: Schema | None = None) -> Tables:
    """Read noisy tables that `write_tables` wrote, or that somebody else published in that form.

    Needed are a column `table` (may be left out if there is one table only), one column an attribute with
    the labels of its codes, `count` and `std_error`; every cell of a table has to be there once. All else
    is ignored.

    Args:
        path: A .json, .csv, .csv.gz, .tsv, .parquet, .arrow or .feather file.
        schema: What the labels mean; may be left out where the file carries it.

    Raises:
        InputError: The file is none of these, damaged, incomplete, or of a newer version, or has no schema.
    """
    target = Path(path)
    if not target.is_file():
        raise InputError(invalid("tables", "an existing file", "Check the path.", got=str(path)))
    found: Tables | None = None
    fault: MargraveError | None = None
    try:
        found = _read_json(target, schema) if target.suffix.lower() == ".json" else _read_long(target, schema)
    except MargraveError as error:
        fault = error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException):
        fault = None
    if found is not None:
        return found
    raise fault or InputError(invalid("tables", "a whole file of contingency tables", "Write it again."))


def _read_json(path: Path, schema: Schema | None) -> Tables:
    document = json.loads(path.read_bytes())
    known = _check_version(document["margrave_tables"], schema, document.get("schema"))
    tables = []
    for entry in document["tables"]:
        clique = tuple(str(name) for name in entry["columns"])
        if [list(labels_of(known, name)) for name in clique] != entry["labels"]:
            raise _unmatched_error(clique)
        tables.append(_noisy(known, clique, np.asarray(entry["count"]), np.asarray(entry["std_error"])))
    return Tables(known, tuple(tables), _promise(document.get("guarantee")))


def _read_long(path: Path, schema: Schema | None) -> Tables:
    rows = _rows(path)
    note = json.loads((rows.schema.metadata or {}).get(NOTE, b"{}"))
    known = _check_version(note.get("version", VERSION), schema, note.get("schema"))
    if not {"count", "std_error"} <= set(rows.column_names):
        raise InputError(invalid("tables", "with columns count and std_error", "Add them."))
    names = [name for name in known.names if name in rows.column_names]
    figures = [pc.cast(rows.column(name), pa.float64()).to_numpy() for name in ("count", "std_error")]
    numbers = np.zeros(len(rows), dtype=np.int64)
    if "table" in rows.column_names:
        numbers = pc.cast(rows.column("table"), pa.int64()).to_numpy()
    codes = {name: _codes(known, name, rows.column(name)) for name in names}
    tables = []
    for number in np.unique(numbers):
        mine = numbers == number
        clique = tuple(name for name in names if (codes[name][mine] >= 0).any())
        tables.append(
            _fill_table(known, clique, {n: codes[n][mine] for n in clique}, [f[mine] for f in figures])
        )
    return Tables(known, tuple(tables), _promise(note.get("guarantee")))


def _rows(path: Path) -> Any:
    suffix = suffix_of(path, "tables")
    if suffix == ".parquet":
        import pyarrow.parquet as pq

        return pq.ParquetFile(path).read()
    if suffix in (".arrow", ".feather"):
        import pyarrow.feather as feather

        return feather.read_table(str(path))
    import pyarrow.csv as csv

    delimiter = "\t" if suffix == ".tsv" else ","
    parse = csv.ParseOptions(delimiter=delimiter)
    with pa.input_stream(str(path)) as stream:  # unpacks .gz by its name
        names = csv.open_csv(stream, parse_options=parse).schema.names
    texts = {name: pa.large_string() for name in names if name not in FIGURES}
    options = csv.ConvertOptions(column_types=texts, strings_can_be_null=True, null_values=[""])
    with pa.input_stream(str(path)) as stream:
        return csv.read_csv(stream, parse_options=parse, convert_options=options)


def _codes(schema: Schema, name: str, labels: Any) -> NDArray[np.int64]:
    """The code of each row's label, -1 where there is none.

    Raises:
        InputError: A label is not the column's.
    """
    texts = pc.cast(labels, pa.large_string())
    found = pc.index_in(
        texts, value_set=pa.array(labels_of(schema, name), pa.large_string()), skip_nulls=True
    )
    if found.null_count != texts.null_count:
        raise _unmatched_error((name,))
    codes: NDArray[np.int64] = pc.fill_null(found, -1).to_numpy().astype(np.int64)
    return codes


def _fill_table(
    schema: Schema, clique: Clique, codes: dict[str, NDArray[np.int64]], figures: list[NDArray[np.float64]]
) -> NoisyMarginal:
    """One table from its cells in any order."""
    shape = schema.domain.shape(clique)
    at = tuple(codes[name] for name in clique)
    cells = int(np.prod(shape))
    whole = len(figures[0]) == cells and all(bool((code >= 0).all()) for code in at)
    seen = np.zeros(shape, dtype=np.bool_)
    if whole:
        seen[at] = True
    if not (whole and seen.all()):
        remedy = "Fill in the cells that are left out, and drop those that repeat."
        raise InputError(invalid(f"table {' x '.join(clique)}", "complete, every cell once", remedy))
    values, errors = np.zeros(shape), np.zeros(shape)
    values[at], errors[at] = figures
    return _noisy(schema, clique, values, errors)


def _noisy(schema: Schema, clique: Clique, values: NDArray[Any], errors: NDArray[Any]) -> NoisyMarginal:
    shape = schema.domain.shape(clique)
    if values.shape != shape or errors.shape != shape or not np.isfinite(values).all():
        raise InputError(
            invalid(f"table {' x '.join(clique)}", "finite and of the schema's shape", "Repair it.")
        )
    if not (np.isfinite(errors).all() and (errors > 0).all()):
        remedy = "Exact tables are not releases: give the standard error of each cell."
        raise InputError(invalid("std_error", "finite and above 0", remedy))
    alike = errors.size == 0 or bool((errors == errors.flat[0]).all())
    return NoisyMarginal(clique, values, float(errors.flat[0]) if errors.size and alike else errors)


def _check_version(version: Any, schema: Schema | None, written: Any) -> Schema:
    if not isinstance(version, int) or version > VERSION:
        raise InputError(
            invalid("tables", f"of version {VERSION} or older", "Upgrade margrave.", got=version)
        )
    if schema is not None:
        return schema
    if written is None:
        remedy = "Pass schema=, or use a Parquet or JSON file that carries it."
        raise InputError(invalid("schema", "given for files that do not carry it", remedy))
    return Schema.from_json(written)


def _promise(written: Any) -> Guarantee | None:
    return None if written is None else guarantee_from_json(written)


def _unmatched_error(clique: Clique) -> InputError:
    remedy = "Compare the labels with those of schema[name].labels."
    return InputError(invalid(f"labels of {' x '.join(clique)}", "those of the schema", remedy))
