"""The page of whoever signs: twenty questions, the record of the release, and no checksum of private rows."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import zipfile
from pathlib import Path

import pytest
from adult_like import Mixture
from page_checks import Page, check

from command_line import call, people
from margrave.archive import load_release, save_release
from margrave.errors import ReleaseError
from margrave.privacy.ledger.book import Book
from margrave.privacy.ledger.history import DatasetHistory, EarlierRun
from margrave.privacy.unit import Neighbours, Unit
from margrave.release import Guarantee, Provenance, Release
from margrave.report import render
from margrave.report.release.questions import QUESTIONS
from margrave.schema.encoded import Encoded

Made = tuple[Release, Mixture, Encoded, Encoded]
PAGE = Path(__file__).parents[2] / "docs" / "questions.md"
HISTORY = DatasetHistory(
    (
        EarlierRun(1, "2026-01-31", 0.5, 1e-9, "one row", "admitted"),
        EarlierRun(2, "2026-02-01", 0.25, 1e-9, "one row", "admitted"),
    ),
    1.75,
    1e-7,
    3.0,
)


def variants(release: Release) -> dict[str, Release]:
    """A release as it is, and with other units, accounts and records."""
    owner = Guarantee(0.5, 1e-8, 0.01, Neighbours(Unit("person", 4), "replace_one"), "gdp")
    told = Provenance("visits of 2024", "A. Moser", "visits.csv", "2026-11-23", "ab" * 32, HISTORY)
    return {
        "plain": release,
        "owner": dataclasses.replace(release, guarantee=owner),
        "recorded": dataclasses.replace(release, provenance=told),
        "undeclared": dataclasses.replace(release, declared=()),
        "unpaid": dataclasses.replace(release, events=()),
    }


def answers(text: str) -> dict[str, str]:
    """What stands under each question, by its anchor."""
    pattern = r'<h3 id="(q-[a-z]+)">.*?</h3><div class="para answer">(.*?)</div><p class="note more">'
    return {key: re.sub(r"<[^>]*>", "", body) for key, body in re.findall(pattern, text, re.S)}


@pytest.mark.parametrize("name", ["plain", "owner", "recorded", "undeclared", "unpaid"])
def test_each_question_is_answered_and_one_click_from_the_first_screen(made: Made, name: str) -> None:
    text = render(variants(made[0])[name], made[1])
    page = check(text)
    found = answers(text)
    assert list(found) == [f"q-{one.key}" for one in QUESTIONS]
    assert len(QUESTIONS) == 20
    for key, words in found.items():
        assert len(words.split()) >= 8, key
    assert len(set(found.values())) == 20
    first_screen = text[text.index('<section id="summary"') : text.index('<section id="questions"')]
    ids = set(page.values("id"))
    for one in QUESTIONS:
        assert f'href="#q-{one.key}"' in first_screen
        assert {f"q-{one.key}", one.more} <= ids


def test_the_guide_lists_the_questions_of_the_page() -> None:
    lines = re.findall(r"^\| (\d+) \| (.+?) \| `(q-[a-z]+)` \|", PAGE.read_text(encoding="utf-8"), re.M)
    expected = [(str(n), one.words, f"q-{one.key}") for n, one in enumerate(QUESTIONS, start=1)]
    assert lines == expected


def test_a_red_box_says_that_one_row_is_not_one_person(made: Made) -> None:
    said = "One row is protected, not one person."
    releases = variants(made[0])
    assert said in check(render(releases["plain"], None)).text
    assert said not in check(render(releases["owner"], None)).text


def test_the_record_is_on_the_page_and_survives_the_file(made: Made, tmp_path: Path) -> None:
    release = dataclasses.replace(variants(made[0])["recorded"], state={})
    save_release(release, tmp_path / "r.margrave")
    loaded = load_release(tmp_path / "r.margrave")
    assert loaded.provenance == release.provenance
    page = check(render(loaded, None, outputs={"rows.csv": "cd" * 32}))
    assert page.of("header", "h1") == ["Report of a private release: visits of 2024"]
    for text in ("A. Moser", "visits.csv", "2026-11-23", "ab" * 32, "cd" * 32, "2026-01-31"):
        assert text in page.text
    assert "2 earlier runs. All of them and this one together promise at most ε = 1.75" in page.text
    assert "is listed and counts in full, however it ended" in page.text
    assert "admitted" not in page.text  # it says the same of every run


def test_a_file_of_an_older_version_has_no_record(made: Made, tmp_path: Path) -> None:
    save_release(dataclasses.replace(made[0], state={}), tmp_path / "new.margrave")
    with zipfile.ZipFile(tmp_path / "new.margrave") as new, zipfile.ZipFile(tmp_path / "old", "w") as old:
        for name in new.namelist():
            body = new.read(name)
            if name == "release.json":
                document = json.loads(body)
                del document["provenance"]
                body = json.dumps(document).encode()
            old.writestr(name, body)
    assert load_release(tmp_path / "old").provenance == Provenance()


@pytest.mark.parametrize("text", ["x" * 201, "a\nb", "\u202egpj"])
def test_a_record_that_does_not_print_is_refused(text: str) -> None:
    with pytest.raises(ReleaseError, match="operator must be a printable text"):
        Provenance(operator=text)


def test_no_total_is_told_where_no_account_holds(made: Made) -> None:
    history = dataclasses.replace(HISTORY, epsilon=float("inf"), earlier=())
    assert DatasetHistory.from_json(json.loads(json.dumps(history.to_json()))) == history
    release = dataclasses.replace(made[0], provenance=Provenance(history=history))
    assert "No total can be given" in check(render(release, None)).text


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the command line in one book, with all outputs."""
    folder = tmp_path_factory.mktemp("written")
    table = people(folder / "people.csv", 1500)
    book = folder / "s.book"
    assert call("ledger", "init", book).code == 0
    assert call("ledger", "cap", book, "--dataset", "people", "-e", 3, "--delta", "1e-6").code == 0
    schema = folder / "schema.json"
    assert call("schema", table, "--out", schema).code == 0
    for number, epsilon in enumerate((1, 2), start=1):
        done = call(
            *(
                "synthesize",
                table,
                "-e",
                epsilon,
                "--method",
                "independent",
                "--missing",
                "?",
                "--schema",
                schema,
            ),
            *("--ledger", book, "--dataset", "people", "--operator", "A. Moser", "--outside", "absorb"),
            *("-o", folder / f"{number}.csv", "--release", folder / f"{number}.margrave"),
            *("--report", folder / f"{number}.html"),
        )
        assert done.code == 0, done.err
    return folder


def read(folder: Path, name: str) -> Page:
    return check((folder / name).read_text(encoding="utf-8"))


def test_the_command_line_fills_in_the_record(written: Path) -> None:
    page = read(written, "2.html")
    assert "Data set people File that was read people.csv" in page.text
    assert "Made by A. Moser" in page.text
    shown = call("show", written / "2.margrave").out
    assert "data set      people\nmade by       A. Moser\nread from     people.csv\nday" in shown


def test_earlier_runs_come_from_the_book_with_their_total(written: Path) -> None:
    assert "The book has no earlier run on this data set." in read(written, "1.html").text
    history = load_release(written / "2.margrave").provenance.history
    assert history is not None
    assert [(run.run, run.epsilon, run.state) for run in history.earlier] == [(1, 1.0, "admitted")]
    # Both runs together in full, with the delta of the cap, which is larger than that of a run.
    assert history.epsilon >= Book(written / "s.book").accounts("people")[0].reserved.together > 1.0
    assert (history.cap, history.delta) == (3.0, 1e-6)


def test_outputs_have_a_checksum_and_the_private_table_has_none(written: Path) -> None:
    text = (written / "2.html").read_text(encoding="utf-8")
    for name in ("2.csv", "2.margrave", "schema.json"):
        assert hashlib.sha256((written / name).read_bytes()).hexdigest() in text
    private = (written / "people.csv").read_bytes()
    parts = [private, *private.splitlines(), private.decode().encode("utf-16")]
    public = [*written.glob("*.html"), *written.glob("*.margrave"), written / "2.csv"]
    everything = b"".join(path.read_bytes() for path in public)
    with zipfile.ZipFile(written / "2.margrave") as archive:
        everything += archive.read("release.json")
    for part in parts:
        for kind in ("md5", "sha1", "sha256"):
            assert hashlib.new(kind, part).hexdigest().encode() not in everything
    assert "There is no checksum of the private table" in read(written, "2.html").text


def test_a_data_set_may_be_named_without_a_book_and_without_a_ledger(tmp_path: Path) -> None:
    table = people(tmp_path / "people.csv", 300)
    base = ("synthesize", table, "-e", 1, "--method", "independent", "--missing", "?", "--dataset", "people")
    report = tmp_path / "r.html"
    done = call(*base, "-o", tmp_path / "a.csv", "--report", report)
    assert done.code == 0, done.err
    assert "Data set people" in check(report.read_text(encoding="utf-8")).text
    refused = call(*base, "-o", tmp_path / "b.csv", "--ledger", tmp_path / "people.bok")
    assert refused.code == 2
    assert "dataset and analyst must be left out without a book" in refused.err
