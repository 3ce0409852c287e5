from __future__ import annotations

import gzip

import pytest

from margrave.datasets import MISSING, adult_path, load_adult
from margrave.errors import InputError

NUMBERS = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
FIRST = ["age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"]
LAST = ["relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country"]
NAMES = [*FIRST, *LAST, "income"]


@pytest.mark.parametrize(
    ("split", "rows", "unknown"),
    [
        ("train", 32_561, {"workclass": 1836, "occupation": 1843, "native-country": 583}),
        ("test", 16_281, {"workclass": 963, "occupation": 966, "native-country": 274}),
    ],
)
def test_table(split: str, rows: int, unknown: dict[str, int]) -> None:
    table = load_adult(split)
    assert table.shape == (rows, 15)
    assert table.column_names == NAMES
    assert {name: table[name].null_count for name in NAMES if table[name].null_count} == unknown
    assert set(table["income"].to_pylist()) == {"<=50K", ">50K"}
    assert [name for name in NAMES if table[name].type == "int64"] == NUMBERS


@pytest.mark.parametrize("split", ["train", "test"])
def test_file_is_plain(split: str) -> None:
    raw = adult_path(split).read_bytes()
    assert raw[4:8] == b"\0\0\0\0"  # no time in the gzip header
    text = gzip.decompress(raw).decode("ascii")
    lines = text.splitlines()
    assert lines[0] == ",".join(NAMES)
    assert text.count("?") == sum(load_adult(split)[name].null_count for name in NAMES)
    assert not any(", " in line or line.endswith(".") for line in lines)


def test_reads_as_a_source() -> None:
    from margrave.engines.memory import open_source

    source, _ = open_source(adult_path(), missing=MISSING)
    assert source.kinds("workclass").reveal().tolist()[:7] == [1836, 0, 0, 0, 0, 0, 30725]
    assert source.kinds("age").reveal().tolist()[:7] == [0, 32_561, 0, 0, 0, 0, 0]


def test_unknown_split() -> None:
    with pytest.raises(InputError, match="split must be one of"):
        adult_path("validation")
