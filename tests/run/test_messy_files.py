"""A corpus of messy files: each is read right with at most one option, or refused for free."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from command_line import call, files
from margrave.engines.opening import open_source
from margrave.schema.queries import readings
from margrave.schema.storage.text import TextFormat
from messy_files import FILES, NAMES, Messy, table_rows, write_messy

READABLE = [messy for messy in FILES if messy.readable]
UNREADABLE = [messy for messy in FILES if not messy.readable]
FOUND = [messy for messy in READABLE if messy.found]
PARTS = {
    "--separator": "separator",
    "--encoding": "encoding",
    "--quote": "quote",
    "--dates": "dates",
    "--thousands": "thousands",
}
MICROSECONDS = 86_400_000_000
"""In a day."""


def named(messy: Messy) -> str:
    return messy.name


def format_of(option: tuple[str, ...] | None) -> TextFormat:
    """The format that an option of the command line stands for."""
    if option is None:
        return TextFormat()
    if option[0] == "--locale":
        return TextFormat.for_locale(option[1])
    if option[0] == "--no-header":
        return TextFormat(header=False)
    if option[0] == "--format":
        name, _, example = option[1].partition("=")
        return TextFormat(columns={name: example})
    return TextFormat(**{PARTS[option[0]]: option[1]})


def column(source: Any, name: str, read: str) -> list[Any]:
    values, known = readings(source._table.column(name), read)
    assert known.all(), f"{name} is not read as {read}"
    return list(values.tolist())


def check_rows(path: Path, text: TextFormat, engine: str) -> None:
    """Whether amounts, shares, days and counts are read as they are in the table."""
    source: Any = open_source(path, text=text, engine=engine)[0]
    if engine == "stream":
        source = source._part(pa.concat_tables(source._raw(source._names)))
    names = [found.name for found in source.columns]
    rows = table_rows()
    assert len(rows) == len(source._table)
    losses = [-1 if path.name.startswith("losses") and int(row[1]) % 2 else 1 for row in rows]
    amounts = [sign * row[1] for sign, row in zip(losses, rows, strict=True)]
    assert column(source, names[1], "number") == pytest.approx(amounts)
    assert column(source, names[2], "number") == pytest.approx([row[2] for row in rows])
    first, moment = datetime.date(1970, 1, 1), path.name == "moments.csv"
    unit = MICROSECONDS if moment else 1
    days = [unit * (row[3] - first).days for row in rows]
    assert column(source, names[3], "moment" if moment else "date") == days
    assert column(source, names[4], "number") == [row[4] for row in rows]
    cities = source._table.column(names[0]).to_pylist()
    assert [city.strip("\"',").replace('" 5', "") for city in cities] == [row[0] for row in rows]


def test_the_corpus_is_large_enough() -> None:
    assert len(FILES) >= 60
    assert len({messy.name for messy in FILES}) == len(FILES)


@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize("messy", READABLE, ids=named)
def test_a_file_is_read_right(messy: Messy, engine: str, tmp_path: Path) -> None:
    check_rows(write_messy(messy, tmp_path), format_of(messy.option), engine)


@pytest.mark.parametrize("messy", [m for m in READABLE if m.option and m.named], ids=named)
def test_a_file_that_needs_an_option_is_refused_and_the_option_named(messy: Messy, tmp_path: Path) -> None:
    assert messy.option is not None
    path = write_messy(messy, tmp_path)
    before = files(tmp_path)
    done = call("synthesize", path, "--epsilon", 1, "--method", "independent", "--out", tmp_path / "out.csv")
    assert done.code == 2
    assert messy.option[0] in done.err
    likely = ("'tab'",) if messy.option[1:] == ("tab",) else messy.option[1:]
    # A header with colons may as well be a name; and what cells stand in is shown by cells alone.
    if messy.name not in ("colons.csv", "single_quotes.csv"):
        assert all(word in done.err for word in likely)
    assert files(tmp_path) == before
    assert not any(city in done.err for city in ("Köln", "Orl", "Bath"))


@pytest.mark.parametrize("messy", FOUND, ids=named)
def test_formats_that_only_the_cells_show_are_found(messy: Messy, tmp_path: Path) -> None:
    """Without the option, what is released lies where the rows lie and is written as they are."""
    path, out = write_messy(messy, tmp_path), tmp_path / "out.csv"
    parted = ("--separator", ";") if b";" in messy.content.splitlines()[0] else ()  # as the error says
    base = ("synthesize", path, "-e", 1000, "--delta", 0.01, "--method", "independent", *parted)
    done = call(*base, "-o", out, "--rows", 60, "--seed", 1)
    assert done.code == 0, done.err
    real, made = (open_source(file, text=format_of(messy.option))[0] for file in (path, out))
    read = {"amount": "number", "share": "number", "day": "date"}
    if messy.name == "moments.csv":
        read["day"] = "moment"
    for name, kind in read.items():
        before, after = (np.asarray(column(source, name, kind)) for source in (real, made))
        reach = float(np.ptp(before))
        # With 60 rows the outermost bins reach beyond the rows.
        assert after.min() >= before.min() - 0.5 * reach, name
        assert after.max() <= before.max() + 0.5 * reach, name
        assert abs(float(np.mean(after)) - float(np.mean(before))) < 0.2 * reach, name


@pytest.mark.parametrize("messy", UNREADABLE, ids=named)
def test_what_cannot_be_read_is_refused_before_anything_is_spent(messy: Messy, tmp_path: Path) -> None:
    path = write_messy(messy, tmp_path)
    before = files(tmp_path)
    out = tmp_path / "out.csv"
    done = call("synthesize", path, "--epsilon", 1, "--method", "independent", "--out", out)
    assert done.code == 2
    assert done.err.startswith("margrave: data must be ")
    assert files(tmp_path) == before
    assert not any(city in done.err for city in ("Köln", "Orl", "Bath"))


@pytest.mark.parametrize("name", ["german_unicode.csv", "separator_line.csv", "dollars.csv", "no_header.csv"])
def test_synthetic_rows_are_written_as_the_real_ones_are(name: str, tmp_path: Path) -> None:
    (messy,) = (messy for messy in FILES if messy.name == name)
    path = write_messy(messy, tmp_path)
    option = messy.option or ()
    release, out, more = (tmp_path / part for part in ("r.margrave", "out.csv", "more.csv"))
    base = [*("synthesize", path, "-e", 1000, "--delta", 0.01, "--method", "independent")]
    done = call(*base, *option, "-o", out, "--release", release, "--rows", 60, "--seed", 1)
    assert (done.code, done.out != "") == (0, True), done.err
    assert call("sample", release, "-o", more, "--rows", 60, "--seed", 2).code == 0
    for made in (out, more):
        raw = made.read_bytes()
        if name == "german_unicode.csv":
            lines = raw.decode("utf-16").splitlines()
            assert lines[0] == ";".join(NAMES)
            amounts = [line.split(";")[1] for line in lines[1:]]
            assert sum("," in amount for amount in amounts) > 5
            assert not any("." in amount for amount in amounts)
            days = [line.split(";")[3] for line in lines[1:]]
            assert all(datetime.datetime.strptime(day, "%d.%m.%Y") for day in days if day)
        elif name == "separator_line.csv":
            assert raw.decode().splitlines()[0] == "|".join(NAMES)
        elif name == "dollars.csv":
            assert raw.decode().count('"$') + raw.decode().count(",$") >= 50
        else:
            assert len(raw.decode().splitlines()) == 60
    if name == "separator_line.csv":
        option = ("--separator", "|")  # the line that says so is not written
    again = call("evaluate", path, out, *option, "--json")
    assert again.code == 0, again.err


def test_names_that_differ_in_case_alone_are_written_as_they_are(tmp_path: Path) -> None:
    (messy,) = (messy for messy in FILES if messy.name == "names_differ_by_case.csv")
    path = write_messy(messy, tmp_path)
    for name in ("out.csv", "out.csv.gz", "out.tsv"):
        base = ("synthesize", path, "-e", 1000, "--delta", 0.01, "--method", "independent", "--rows", 9)
        done = call(*base, "-o", tmp_path / name)
        assert done.code == 0, done.err
        raw = (tmp_path / name).read_bytes()
        head, *rows = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode().splitlines()
        assert head.replace("\t", ",") == "city,City,share,day,visits"
        assert len(rows) == 9
        assert len(open_source(tmp_path / name)[0].columns) == 5


def test_a_german_file_of_windows_is_told_both_options(tmp_path: Path) -> None:
    (german,) = (messy for messy in FILES if messy.name == "german.csv")
    path = tmp_path / "german.csv"
    path.write_bytes(german.content.decode().replace("city", "Städte", 1).encode("cp1252"))
    done = call("schema", path)
    assert done.code == 2
    assert "--encoding cp1252 --locale de" in done.err
    assert call("schema", path, "--encoding", "cp1252", "--locale", "de").code == 0


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("bzip2.csv", "a bzip2 archive"),
        ("records.csv", "JSON"),
        ("record_a_line.csv", "JSON"),
        ("document.csv", "a PDF document"),
        ("page.csv", "a web page"),
        ("rows_in_quotes.csv", "all stand in quotes"),
        ("separators_below.csv", "separators at the ends of rows"),
        ("end_of_file_sign.csv", "remarks below the rows"),
        ("remark_with_commas.csv", "if a remark, remove it"),
        ("title_above.csv", "Remove lines above the names"),
        ("groups_above.csv", "merged cells"),
    ],
)
def test_a_refusal_says_what_to_do(name: str, word: str, tmp_path: Path) -> None:
    (messy,) = (messy for messy in FILES if messy.name == name)
    done = call("synthesize", write_messy(messy, tmp_path), "-e", 1, "-o", tmp_path / "out.csv")
    assert done.code == 2
    assert word in done.err


def test_a_declared_separator_is_doubted_where_the_header_shows_another(tmp_path: Path) -> None:
    (plain,) = (messy for messy in FILES if messy.name == "plain.csv")
    path = write_messy(plain, tmp_path)
    done = call("schema", path, "--separator", ";")
    assert done.code == 2
    assert "--separator ','" in done.err
    one = tmp_path / "one.csv"
    one.write_text("age\n41\n7\n", encoding="utf-8")
    assert call("schema", one).code == 2
    assert call("schema", one, "--separator", ",").code == 0
