"""Entries for tables: the shipped one, hard cases, the nursery, files. **Not private**: read exactly.

Hard cases are seeded tables that show differences between methods which Adult hides. They are made up, no
one's data: each generator gets a number of rows and a generator of random numbers and returns an Arrow table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.benchmark.nursery import HALVES, find_nursery_table, list_nursery_tables
from margrave.errors import InputError, invalid
from margrave.files import SUFFIXES, check_entries, check_name, digest, read_spec

if TYPE_CHECKING:
    import pyarrow as pa

Rng = np.random.Generator
Numbers = NDArray[np.int64]


def _make_parity(rows: int, rng: Rng) -> pa.Table:
    """Bits whose parities say all there is, each parity wrong in one row of twenty.

    `label` is the parity of a1 and a2, `b4` that of b1, b2 and b3; `idle` means nothing. Every pair of
    columns is independent: only the table of three columns and that of four show anything, so what is
    bought in pairs is blind here.
    """
    bits = {name: rng.integers(0, 2, rows) for name in ("a1", "a2", "b1", "b2", "b3", "idle")}
    for name, members in (("label", ("a1", "a2")), ("b4", ("b1", "b2", "b3"))):
        wrong = rng.random(rows) < 0.05
        bits[name] = (np.sum([bits[member] for member in members], axis=0) + wrong) % 2
    return _make_table({name: _pick_words(bits[name], ("no", "yes")) for name in sorted(bits)})


def _make_dense(rows: int, rng: Rng) -> pa.Table:
    """Twelve columns of ten grades that all lean on two hidden traits, and a label: no tree explains them.

    Nearly every pair is dependent, so that none can be left out.
    """
    traits = rng.normal(size=(rows, 2))
    columns: dict[str, object] = {}
    for place in range(12):
        angle = np.pi * place / 12
        score = traits @ np.array([np.cos(angle), np.sin(angle)]) + 0.7 * rng.normal(size=rows)
        columns[f"q{place + 1:02}"] = _grade_rows(score, 10)
    sides = np.abs(traits).sum(axis=1) + 0.3 * rng.normal(size=rows)
    columns["label"] = _pick_words((sides > np.median(sides)).astype(np.int64), ("low", "high"))
    return _make_table(columns)


def _make_tails(rows: int, rng: Rng) -> pa.Table:
    """Amounts with heavy tails and many zeros, some a multiple of others, and a label about their sum.

    Equal-width bins put nearly all rows into one bin.
    """
    group = rng.choice(4, rows, p=(0.55, 0.3, 0.1, 0.05))
    income = np.round(np.exp(9.5 + 0.4 * group + rng.normal(scale=0.8, size=rows)), 2)
    wealth = np.round(income * rng.pareto(1.2, rows), 2)
    held = rng.random(rows) < 0.15 + 0.2 * group
    dividend = np.where(held, np.round(wealth * rng.uniform(0.01, 0.05, rows), 2), 0.0)
    children = np.minimum(rng.geometric(0.55, rows) - 1, 9)
    claims = rng.negative_binomial(0.3, 0.02 + 0.01 * group)
    age = np.clip(np.round(rng.gamma(9, 5, rows)), 18, 95).astype(np.int64)
    label = income + dividend > 30_000
    columns: dict[str, object] = {
        "age": age,
        "children": children,
        "claims": claims,
        "dividend": dividend,
        "group": _pick_words(group, ("A", "B", "C", "D")),
        "income": income,
        "label": _pick_words(label.astype(np.int64), ("no", "yes")),
        "wealth": wealth,
    }
    return _make_table(columns)


def _make_rare(rows: int, rng: Rng) -> pa.Table:
    """Towns and products, many values of each by Zipf's law: most are held by a handful of rows.

    The town decides the county exactly, the product its maker.
    """
    town, product = _draw_zipf(240, rows, rng), _draw_zipf(180, rows, rng)
    county_of, maker_of = rng.integers(0, 24, 240), rng.integers(0, 40, 180)
    county, maker = county_of[town], maker_of[product]
    liked = rng.normal(size=(24, 6))[county] + rng.normal(size=(40, 6))[maker]
    channel = (liked + rng.gumbel(size=(rows, 6))).argmax(axis=1)
    lean = rng.normal(size=40)[maker] + rng.normal(size=24)[county]
    lean += rng.normal(scale=0.5, size=rows)
    return _make_table(
        {
            "channel": _name_codes(channel, "channel"),
            "county": _name_codes(county, "county"),
            "label": _pick_words((lean > 0).astype(np.int64), ("no", "yes")),
            "maker": _name_codes(maker, "maker"),
            "month": rng.integers(1, 13, rows),
            "product": _name_codes(product, "product"),
            "town": _name_codes(town, "town"),
        }
    )


MAKERS: dict[str, Callable[[int, Rng], pa.Table]] = {
    "dense": _make_dense,
    "parity": _make_parity,
    "rare": _make_rare,
    "tails": _make_tails,
}
"""Generators by name."""


def _pick_words(codes: Numbers, words: tuple[str, ...]) -> NDArray[np.str_]:
    return np.array(words)[codes]


def _name_codes(codes: Numbers, word: str) -> NDArray[np.str_]:
    return np.char.mod(f"{word} %03d", codes)


def _grade_rows(score: NDArray[np.float64], grades: int) -> Numbers:
    """Grades of like many rows, 1 the least."""
    cuts = np.quantile(score, np.arange(1, grades) / grades)
    return np.asarray(np.searchsorted(cuts, score) + 1, dtype=np.int64)


def _draw_zipf(values: int, rows: int, rng: Rng) -> Numbers:
    weights = 1.0 / np.arange(1, values + 1) ** 1.1
    return np.asarray(rng.choice(values, rows, p=weights / weights.sum()), dtype=np.int64)


def _make_table(columns: Mapping[str, object]) -> pa.Table:
    import pyarrow as pa

    return pa.table({name: pa.array(values) for name, values in columns.items()})


DOMAINS = ("public", "discovered")
CUTS = ("equal", "quantile")
SHIPPED = ("adult", "adult-discovered", "dense", "parity", "rare", "tails")
"""Entries that come with margrave: files of the folder data, beside this one."""
RAW = "+raw"
"""After the word of a table of the nursery: nothing of it is declared, every method has to discover it."""
TABLES = (".csv", ".csv.gz", ".tsv", ".data", ".data.gz", ".txt", ".parquet", ".arrow", ".feather")
ENTRY_TYPES: dict[str, type] = {
    "name": str,
    "title": str,
    "source": str,
    "shipped": str,
    "make": str,
    "rows": int,
    "seed": int,
    "file": str,
    "separator": str,
    "columns": list,
    "missing": list,
    "drop": list,
    "text": list,
    "target": str,
    "bins": int,
    "cut": str,
    "domain": str,
    "owner": str,
    "max_rows": int,
    "rare": float,
    "discovery": float,
}


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One table of a benchmark.

    Args:
        name: As it is called in results.
        title: What it is, in a line.
        source: Where it comes from, and under which licence.
        shipped: The split of the shipped table, "train" or "test"; or
        make: A generator of `MAKERS`, with `rows` and `seed`; or
        nursery: The word of a table of the nursery, with its half; or
        file: A table file, relative to the root.
        separator: Between the fields of a text file.
        columns: Their names, where a text file has none in its first line.
        missing: Texts that mean missing in a text file; blanks around a field are cut off first.
        drop: Columns to leave out.
        text: Columns of a text file that stay text though they hold numbers.
        target: The column to predict.
        bins: Numbers with more values than this are cut into as many bins.
        cut: "equal" (width, as in the papers) or "quantile" (bins of like many rows).
        domain: "public" (values and ranges are told to every method, as in the papers) or "discovered"
            (each method has to find them within its epsilon; peers cannot).
        owner: Column that says whose row it is: then owners are protected, and held out whole.
        max_rows: At most this many rows of one owner are used.
        rare: Where the domain is public, in [0, 1): margrave's methods find out, within their epsilon, which
            bins hold less than this share of the rows, and merge them. Peers get all bins.
        discovery: Share of rho for what has to be found out, all columns together; 0 for the default.
    """

    name: str
    title: str = ""
    source: str = ""
    shipped: str = ""
    make: str = ""
    rows: int = 20_000
    seed: int = 0
    file: str = ""
    separator: str = ","
    columns: tuple[str, ...] = ()
    missing: tuple[str, ...] = ("",)
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    target: str = ""
    bins: int = 32
    cut: str = "equal"
    domain: str = "public"
    owner: str = ""
    max_rows: int = 1
    rare: float = 0.0
    discovery: float = 0.0
    nursery: str = ""

    @property
    def half(self) -> str:
        """The half of the nursery that the table is in; empty if it is in none."""
        return self.nursery.partition("/")[0]

    @property
    def digest(self) -> str:
        """A fingerprint of all that decides what its rows are; the path of its file is not part of it."""
        said = {key: value for key, value in asdict(self).items() if key not in ("file", "title", "source")}
        later = ("rare", "discovery", "nursery")  # entries of before these were added keep their fingerprint
        said = {key: value for key, value in said.items() if value or key not in later}
        if self.nursery:
            said["made"] = find_nursery_table(self.nursery).fingerprint()
        return digest(said, *([Path(self.file)] if self.file else []))

    def to_json(self) -> dict[str, Any]:
        """A JSON object, for the process of a cell."""
        return asdict(self)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> TableEntry:
        """The entry of a JSON object made by `to_json`, or of a spec."""
        plain: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in said.items()
        }
        return cls(**plain)


def table_entry(word: str, base: Path, root: Path | None = None) -> TableEntry:
    """The entry that a word stands for.

    Args:
        word: One of `SHIPPED`, a table of the nursery with its half as in "choosing/loans-a", the path of a
            TOML or JSON file, or of a table file: then every column is taken as it comes, nothing is
            predicted, and its domain counts as public.
        base: The folder that paths are relative to.
        root: The folder that files named in specs are relative to; that of the spec by default.

    Raises:
        InputError: There is no such entry, or its file cannot be used.
    """
    if word in SHIPPED:
        shipped = files("margrave.benchmark").joinpath("data").joinpath(f"{word}.toml")
        with as_file(shipped) as path:
            return replace(_read_table_entry(path, root), name=word)
    if word.split("/")[0] in HALVES and not (base / word).is_file():
        return _nursery_entry(word)
    path = base / word
    if path.suffix in SUFFIXES and path.is_file():
        return _read_table_entry(path, root)
    if path.name.endswith(TABLES) and path.is_file():
        name = check_name(path.name.split(".")[0], "data")
        return TableEntry(name, file=str(path.resolve()), separator="\t" if path.suffix == ".tsv" else ",")
    known = f"one of {list(SHIPPED)}, choosing/NAME or reporting/NAME, a table file, or a .toml or .json file"
    raise InputError(invalid("data", known, "Check the spelling.", got=word))


def _nursery_entry(word: str) -> TableEntry:
    table = find_nursery_table(word.removesuffix(RAW))
    raw = word.endswith(RAW)
    return TableEntry(
        table.name + (RAW if raw else ""),
        title=table.shows,
        source=f"nursery, {table.half} half, {table.family}{': ' if table.source else ''}{table.source}",
        rows=table.rows,
        seed=table.seed,
        target=table.target,
        cut=table.cut,
        domain="discovered" if raw else "public",
        owner=table.owner,
        max_rows=table.max_rows,
        nursery=table.word,
    )


def expand_words(words: Sequence[str]) -> list[str]:
    """Words of tables with those that stand for a part of the nursery spelt out.

    "choosing" and "reporting" are the made-up tables of a half, "choosing/real" and "reporting/real" those
    that other packages ship; each with "+raw" for the same tables with nothing declared.
    """
    spelt: list[str] = []
    for word in words:
        half, _, part = word.removesuffix(RAW).partition("/")
        if half not in HALVES or part not in ("", "real"):
            spelt.append(word)
            continue
        raw = RAW if word.endswith(RAW) else ""
        tables = list_nursery_tables(half)
        spelt += [table.word + raw for table in tables if bool(table.needs) == (part == "real")]
    return spelt


def _read_table_entry(path: Path, root: Path | None) -> TableEntry:
    where = f"the table file {path.name}"
    spec = check_entries(read_spec(path, "data"), ENTRY_TYPES, where)
    check_name(spec.setdefault("name", path.stem), f"name of {where}")
    sources = [key for key in ("shipped", "make", "file") if spec.get(key)]
    if len(sources) != 1:
        raise InputError(invalid(where, "with one of file, make and shipped", "Say which.", got=sources))
    if spec.get("make", "parity") not in MAKERS:
        raise InputError(
            invalid(f"make of {where}", f"one of {sorted(MAKERS)}", "Pick one.", got=spec["make"])
        )
    for key, known in (("domain", DOMAINS), ("cut", CUTS)):
        if spec.get(key, known[0]) not in known:
            raise InputError(invalid(f"{key} of {where}", f"one of {known}", "Pick one.", got=spec[key]))
    _check_numbers(spec, where)
    if "file" in spec:
        found = (root or path.parent) / spec["file"]
        if not found.is_file():
            remedy = "Say with --root where the data files lie."
            raise InputError(invalid(f"file of {where}", "a file that is there", remedy, got=spec["file"]))
        spec["file"] = str(found.resolve())
    return TableEntry.from_json(spec)


def _check_numbers(spec: Mapping[str, Any], where: str) -> None:
    for key, least in (("rows", 10), ("bins", 2), ("max_rows", 1)):
        if spec.get(key, least) < least:
            raise InputError(invalid(f"{key} of {where}", f"at least {least}", "Raise it.", got=spec[key]))
    for key in ("rare", "discovery"):
        if not 0 <= spec.get(key, 0) < 1:
            raise InputError(invalid(f"{key} of {where}", "in [0, 1)", "Try 0.", got=spec[key]))


def load_table(entry: TableEntry) -> pa.Table:
    """The rows of an entry, typed, without the columns to be dropped. **Not private.**

    A column of a text file whose fields are all whole numbers, or all numbers, is made of those.

    Raises:
        InputError: The file cannot be read, or has not the columns that the entry names.
    """
    if entry.shipped:
        from margrave.datasets import load_adult

        table = load_adult(entry.shipped)
    elif entry.make:
        table = MAKERS[entry.make](entry.rows, np.random.default_rng(entry.seed))
    elif entry.nursery:
        table = find_nursery_table(entry.nursery).load()
    else:
        table = _read(entry)
    wanted = [*entry.drop, *entry.text, *(name for name in (entry.target, entry.owner) if name)]
    absent = sorted(set(wanted) - set(table.column_names))
    if absent:
        raise InputError(
            invalid(f"columns of {entry.name}", "there when they are named", "Check.", got=absent)
        )
    return table.drop_columns(list(entry.drop))


def _read(entry: TableEntry) -> pa.Table:
    path = Path(entry.file)
    if path.suffix in (".parquet", ".arrow", ".feather"):
        from margrave.engines.frames import read_table

        table: pa.Table = read_table(path)[0]
        return table
    return _read_text(path, entry)


def _read_text(path: Path, entry: TableEntry) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    reading = csv.ReadOptions(column_names=list(entry.columns) or None)
    parsing = csv.ParseOptions(delimiter=entry.separator)
    unread = f"the file of {entry.name}"
    try:
        # All as text first: which type a column has is then decided by one rule, not by its first block.
        names = list(entry.columns) or csv.open_csv(path, reading, parsing).schema.names
        kinds = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False)
        raw = csv.read_csv(path, reading, parsing, kinds)
    except (OSError, pa.ArrowInvalid):
        raw = None  # the reader's own message may quote a row
    if raw is None:
        remedy = "Check separator; columns names the fields of a file without a header, drop leaves some out."
        raise InputError(invalid(unread, "text with one line a row", remedy))
    blank = pa.array(list(entry.missing), pa.string())
    columns = {}
    for name in names:
        field = pc.utf8_trim_whitespace(raw[name].combine_chunks())
        field = pc.if_else(pc.is_in(field, blank), pa.scalar(None, pa.string()), field)
        columns[name] = field if name in entry.text else _cast_numbers(field)
    return pa.table(columns)


def _cast_numbers(field: Any) -> Any:
    import pyarrow as pa

    for kind in (pa.int64(), pa.float64()):
        try:
            return field.cast(kind)
        except pa.ArrowInvalid:
            continue
    return field
