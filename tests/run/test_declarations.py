"""What becomes of rows that break a declaration; in a book none is refused, whoever is in the table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_refused_runs import INCOME, book, synthesizer, table

import margrave as mg
from command_line import call
from margrave.engines.memory import MemorySource
from margrave.errors import BudgetError, InputError
from margrave.measure.curator import Curator
from margrave.privacy.ledger.book import Book
from margrave.privacy.ledger.location import LedgerLocation
from margrave.run import synthesizer as _api
from margrave.run.options import check_rows


def below(bound: int, **more: Any) -> mg.Schema:
    return mg.Schema((mg.Integer(name="income", lower=0, upper=bound, missing=False, **more),))


def halve(kept: Book, data: pa.Table, questions: int = 30) -> tuple[int, list[str]]:
    """Search for the highest income by halving: is anybody's above the middle? Errors are the answers.

    Each question asks for more than the cap allows, so that none is ever paid for.
    """
    low, high, said = 0, 1 << 20, []
    for _ in range(questions):
        middle = (low + high) // 2
        try:
            synthesizer(kept, below(middle), epsilon=5.0).fit(data)
        except InputError as error:
            said.append(str(error))
            low = middle + 1
        except BudgetError:  # more than the cap leaves: refused when the run would be reserved
            high = middle
    return low, said


def test_thirty_refusals_say_nothing_about_the_one_person(tmp_path: Path) -> None:
    answers = []
    for canary in (True, False):
        (tmp_path / str(canary)).mkdir()
        kept = book(tmp_path / str(canary))
        found, said = halve(kept, table(canary))
        assert found != INCOME
        assert len(said) == 30  # every question is refused, whoever is in the table
        assert all("without strict columns in a book, which ['income'] are" in text for text in said)
        answers.append(said)
        assert kept.runs() == kept.attempts() == []  # refused from the schema alone: nobody asked the rows
    assert answers[0] == answers[1]


def test_a_planted_free_refusal_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rows are held against declarations before a run is reserved, the search finds the income at no
    cost."""

    @contextmanager
    def unrecorded(_: LedgerLocation) -> Iterator[None]:
        yield None

    monkeypatch.setattr(_api, "check_no_oracle", lambda *_: None)
    monkeypatch.setattr(LedgerLocation, "attempt", unrecorded)
    head = mg.Synthesizer._head

    def check(self: mg.Synthesizer, data: Any) -> Any:
        source, _ = self._open(data)
        check_rows(source, self._declare_columns(source))
        return head(self, data)

    monkeypatch.setattr(mg.Synthesizer, "_head", check)
    kept = book(tmp_path)
    found, said = halve(kept, table(canary=True))
    assert found == INCOME
    assert 0 < len(said) < 30
    assert kept.runs() == kept.attempts() == []


def test_the_table_is_not_opened_for_a_strict_schema(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without strict columns"):
        synthesizer(book(tmp_path), below(50_000)).fit(tmp_path / "no such file.csv")
    for resume in (True, 1):
        with pytest.raises(InputError, match="without strict columns"):
            synthesizer(Book(tmp_path / "steward.book"), below(50_000)).fit(table(True), resume=resume)


def test_the_door_binds_no_strict_column_in_a_book(tmp_path: Path) -> None:
    kept, schema = book(tmp_path), below(50_000)
    made = synthesizer(kept)
    keep = made.location.keep({})
    curator = Curator(MemorySource(table(True)), made.new_ledger(False, keep))
    with pytest.raises(InputError, match="without strict columns in a book"):
        curator.discover(schema)
    assert curator.discover(schema.absorb_outside())["income"].upper == 50_000


def test_absorbing_is_one_word_and_needs_no_edited_schema(tmp_path: Path) -> None:
    kept = book(tmp_path)
    schema = mg.Schema(
        (
            mg.Integer(name="income", lower=0, upper=30_000, bins=3, missing=False),
            mg.Categorical(name="town", values=("a", "b"), missing=False),
        )
    )
    data = table(True).append_column("town", pa.array((["a", "b", "c"] * 101)[:301]))
    made = synthesizer(kept, schema, outside="absorb", epsilon=0.9).fit(data)
    assert [column.strict for column in made.release.schema.columns] == [False, False]
    assert made.release.schema["town"].labels == ("a", "b", "(other)")
    drawn = made.sample(300, rng=0)
    assert max(drawn["income"].to_pylist()) <= 30_000
    assert 60 < drawn["town"].to_pylist().count("(other)") < 140
    assert [run.state for run in kept.runs()] == ["closed"]
    assert [one.outcome for one in kept.attempts()] == ["done"]
    made.save(tmp_path / "r.margrave")
    again = mg.load(tmp_path / "r.margrave")
    assert again.release.declared_columns == made.release.declared_columns == ("income", "town")
    again.report(tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text(encoding="utf-8").count('class="chip">declared<') == 2


def test_outside_is_one_of_two_words() -> None:
    with pytest.raises(InputError, match="outside must be one of"):
        mg.Synthesizer(epsilon=1.0, outside="clamp")  # type: ignore[arg-type]


def test_absorbing_on_the_command_line(tmp_path: Path) -> None:
    kept = book(tmp_path)
    pq.write_table(table(True), tmp_path / "t.parquet")
    below(30_000).save(tmp_path / "schema.json")
    words = ("synthesize", tmp_path / "t.parquet", "-e", "0.1", "--method", "independent", "-o")
    more = (tmp_path / "o.csv", "--ledger", kept.path, "--dataset", "people", "--schema")
    done = call(*words, *more, tmp_path / "schema.json")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "--outside absorb" in done.err
    assert call(*words, *more, tmp_path / "schema.json", "--outside", "absorb").code == 0
    alone = (*words, tmp_path / "alone.csv", "--schema", tmp_path / "schema.json")
    done = call(*alone)  # a ledger of one run: a refusal tells, as docs/privacy/limits.md says
    assert (done.code, "within its declared bounds" in done.err) == (2, True)
    assert call(*alone, "--outside", "absorb").code == 0
