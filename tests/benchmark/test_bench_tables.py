"""Tables of a benchmark: entries, their rows, what is public of them, the split."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bench_cases import HIDDEN, write_table

from margrave.benchmark.datasets import MAKERS, SHIPPED, TableEntry, load_table, table_entry
from margrave.benchmark.prepared import OTHER, prepare, read_schema, scoring_schema
from margrave.engines.frames import read_table
from margrave.errors import InputError
from margrave.schema.columns import Categorical, Integer, Ordinal, Real

HERE = Path()
SPECS = sorted((Path(__file__).parents[2] / "bench" / "data").glob("*.toml"))


def codes(table: pa.Table, *names: str) -> list[np.ndarray]:
    return [np.unique(table[name].to_numpy(zero_copy_only=False), return_inverse=True)[1] for name in names]


def information(*columns: np.ndarray) -> float:
    """Mutual information of the last column and all others together, in bits."""

    def entropy(parts: list[np.ndarray]) -> float:
        cells = np.ravel_multi_index(parts, [int(part.max()) + 1 for part in parts])
        shares = np.unique(cells, return_counts=True)[1] / len(cells)
        return float(-(shares * np.log2(shares)).sum())

    return entropy(list(columns[:-1])) + entropy([columns[-1]]) - entropy(list(columns))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_entries_load_and_say_what_they_are(name: str) -> None:
    entry = table_entry(name, HERE)
    table = load_table(entry)
    assert entry.name == name
    assert entry.title
    assert entry.source
    assert entry.target in table.column_names
    assert TableEntry.from_json(json.loads(json.dumps(entry.to_json()))) == entry


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_hard_cases_are_seeded(name: str) -> None:
    first, again, other = (MAKERS[name](500, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first.num_rows == 500
    assert first.equals(again)
    assert not first.equals(other)


def test_parity_shows_in_three_columns_and_in_no_pair() -> None:
    table = MAKERS["parity"](20_000, np.random.default_rng(0))
    names = table.column_names
    pairs = [information(*codes(table, a, b)) for a in names for b in names if a < b]
    assert max(pairs) < 0.002
    assert information(*codes(table, "a1", "a2", "label")) > 0.6
    assert information(*codes(table, "b1", "b2", "b3", "b4")) > 0.6


def test_dense_has_many_dependent_pairs_and_rare_many_values() -> None:
    dense = MAKERS["dense"](20_000, np.random.default_rng(0))
    questions = [name for name in dense.column_names if name != "label"]
    pairs = [information(*codes(dense, a, b)) for a in questions for b in questions if a < b]
    assert np.mean(np.array(pairs) > 0.02) > 0.8
    rare = MAKERS["rare"](20_000, np.random.default_rng(0))
    counts = np.unique(rare["town"].to_numpy(zero_copy_only=False), return_counts=True)[1]
    assert len(counts) > 150
    assert np.median(counts) < 60
    town, county = codes(rare, "town", "county")
    assert len(set(zip(town.tolist(), county.tolist(), strict=True))) == len(counts)


def test_tails_are_heavy() -> None:
    tails = MAKERS["tails"](20_000, np.random.default_rng(0))
    wealth = tails["wealth"].to_numpy()
    assert wealth.max() > 100 * np.median(wealth)
    assert 0.5 < (tails["dividend"].to_numpy() == 0).mean() < 0.9


def test_a_text_file_gets_types_and_gaps(tmp_path: Path) -> None:
    entry = table_entry(str(write_table(tmp_path / "people.csv")), HERE)
    table = load_table(entry)
    assert [str(kind) for kind in table.schema.types] == ["int64", "string", "string"]
    assert 0 < table["name"].null_count < 120


def test_a_headless_file_with_blanks_is_read(tmp_path: Path) -> None:
    (tmp_path / "raw.data").write_text("7; a ;0.5\n8; ? ;1\n9;01;2\n" * 9, encoding="utf-8")
    spec = tmp_path / "raw.toml"
    said = 'file = "raw.data"\nseparator = ";"\ncolumns = ["n", "s", "x"]\nmissing = ["?"]\ndrop = ["x"]'
    spec.write_text(said, encoding="utf-8")
    table = load_table(table_entry(str(spec), HERE))
    assert table.slice(0, 3).to_pydict() == {"n": [7, 8, 9], "s": ["a", None, "01"]}


def test_a_file_that_cannot_be_read_is_an_error_without_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "torn.csv"
    path.write_text(f"a,b\n1,2\n{HIDDEN},2,3\n", encoding="utf-8")
    with pytest.raises(InputError, match="text with one line a row") as caught:
        load_table(table_entry(str(path), HERE))
    assert HIDDEN not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('make = "parity"\nfile = "x.csv"', "one of file, make and shipped"),
        ('make = "xor"', "make of the table file t.toml must be one of"),
        ('make = "rare"\ndomain = "secret"', "domain of the table file t.toml must be one of"),
        ('make = "rare"\nrows = 3', "rows of the table file t.toml must be at least 10"),
        ('make = "rare"\nrows = "3"', "must be a whole number"),
        ('make = "rare"\nrare = 1.0', "rare of the table file t.toml must be in"),
        ('file = "nowhere.csv"', "Say with --root"),
    ],
)
def test_a_faulty_entry_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        table_entry("t.toml", tmp_path)


def test_a_column_that_is_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text('make = "rare"\ntarget = "labels"', encoding="utf-8")
    with pytest.raises(InputError, match="labels"):
        load_table(table_entry("t.toml", tmp_path))


def test_the_domain_follows_the_papers_rule() -> None:
    rng = np.random.default_rng(0)
    made = {
        "few": rng.integers(0, 9, 4000),
        "many": rng.integers(0, 1000, 4000),
        "real": rng.exponential(size=4000),
        "word": [f"w{k}" for k in rng.geometric(0.01, 4000)],
    }
    schema = read_schema(read_table(pa.table(made))[0], 32)
    few, many, real, word = schema.columns
    assert isinstance(few, Ordinal)
    assert few.values == tuple(range(9))
    assert isinstance(many, Integer)
    assert many.present == 32
    assert (many.lower, many.upper) == (0, 999)
    assert isinstance(real, Real)
    assert np.ptp(np.diff(real.edge_array)) < 1e-9
    assert isinstance(word, Categorical)
    assert len(word.values or ()) == 256
    assert word.other == OTHER
    even = read_schema(read_table(pa.table(made))[0], 8, "quantile")["real"]
    counts = np.histogram(made["real"], even.edge_array)[0]  # type: ignore[attr-defined]
    assert counts.min() > 450


def test_scoring_has_room_for_what_a_method_makes_up() -> None:
    schema = scoring_schema(read_schema(read_table(pa.table({"a": ["x", "y"] * 9}))[0], 32))
    assert schema["a"].labels == ("x", "y", OTHER, "missing")


def test_the_split_is_one_for_all_and_leaves_nothing_out(tmp_path: Path) -> None:
    entry = table_entry(str(write_table(tmp_path / "people.csv")), HERE)
    first, again, other = (prepare(entry, 0.25, seed) for seed in (0, 0, 1))
    assert (first.train_rows.size, first.held_rows.size) == (90, 30)
    assert first.train.equals(again.train)
    assert not first.train.equals(other.train)


def test_owners_are_held_out_whole(tmp_path: Path) -> None:
    owners = np.repeat([f"o{k}" for k in range(50)], 4)
    table = pa.table({"who": owners, "x": np.arange(200) % 7})
    pq.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "t.json").write_text('{"file": "t.parquet", "owner": "who", "max_rows": 4}', encoding="utf-8")
    made = prepare(table_entry("t.json", tmp_path), 0.2, 0)
    kept = set(made.train["who"].to_pylist())
    assert len(kept) == 40
    assert made.held_rows.size == 40
    assert made.scoring.names == ("x",)


FETCHED = [path for path in SPECS if "shipped" not in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", FETCHED, ids=lambda path: path.stem)
def test_specs_of_public_tables_are_sound_and_need_their_file(path: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Say with --root"):
        table_entry(str(path), HERE, tmp_path)
