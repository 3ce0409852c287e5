"""The page of several synthetic tables: everything is on it, and it stays a page for people."""

from __future__ import annotations

import dataclasses
import html
import math
import re

import numpy as np
import pytest
from page_checks import Page, check
from reviewed import ROWS, SCHEMA, made, review

import margrave as mg
from margrave.evaluation import METRICS
from margrave.evaluation.review import Review, default_metrics
from margrave.report import render_comparison
from margrave.report.comparison.page import group_scores
from margrave.report.comparison.verdict import judge_comparison, plain_lines

LARGEST = 1_500_000


@pytest.fixture(scope="module")
def text() -> str:
    return render_comparison(review(), title="Mine & <yours>")


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return check(text, complete=False)


def _cells(text: str, caption: str) -> list[list[str]]:
    """The cells of a table by its caption, without their marks."""
    table = next(t for t in re.findall(r"<table>.*?</table>", text, re.S) if caption in t)
    lines = re.findall(r"<tr.*?</tr>", table, re.S)
    return [
        [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", line, re.S)]
        for line in lines
    ]


def test_the_first_screen_puts_each_table_between_the_references(text: str) -> None:
    lines = _cells(text, "The synthetic tables at a glance")
    assert [line[0] for line in lines] == [
        *("Table", "good", "middling &lt;i&gt;", "bad", "Real against real", "Shuffled columns"),
    ]
    place = lines[0].index("Dependence kept")
    assert lines[4][place] == "100%"
    assert lines[5][place] == "0%"
    kept = [float(line[place].split("%")[0]) for line in lines[1:4]]
    assert 100 >= kept[0] > kept[1] > kept[2] >= 0
    assert [line[1] for line in (lines[1], lines[3])] == ["✓ close", "✗ far off"]
    aucs = [float(line[lines[0].index("Prediction: AUC")].split(" ")[0]) for line in lines[1:]]
    assert aucs[3] > aucs[1] > aucs[2]
    assert aucs[4] < aucs[1]


def test_the_warning_comes_first_and_a_verdict_in_words_follows(text: str, page: Page) -> None:
    assert text.index("NOT PRIVATE — computed") < text.index("<h1>") < text.index("At a glance")
    assert page.text.index("What to look at") < page.text.index(
        "Definitions", page.text.index("What to look at")
    )
    assert "How columns depend on each other is kept" in page.text
    assert "Much of how columns depend on each other is lost" in page.text
    assert "of its rows break a declared rule" in page.text
    assert "no number on this page proves that people are protected" in page.text


def test_every_score_is_there_with_its_definition_one_click_away(text: str, page: Page) -> None:
    found = review()
    ids = set(page.values("id"))
    for score in found.first.scores:
        assert f"score-{score.name}" in ids
        part = text[text.index(f'id="score-{score.name}"') :]
        part = part[: part.index("</details>")]
        assert part.startswith(f'id="score-{score.name}"><summary>')
        for word in ("Two equal tables", "Range", "Source", "Cost", "Private rows"):
            assert f"<dt>{word}</dt>" in part, (score.name, word)
    defaults = default_metrics(target=True, held_out=True, rules=True)
    assert {score.name for score in found.first.scores} >= set(defaults)
    assert {"rules", "roc_auc", "average_precision", "tv_3_max"} <= {s.name for s in found.first.scores}


def test_scores_of_all_tables_and_references_stand_in_one_line(text: str) -> None:
    found = review()
    lines = _cells(text, "Scores: several columns at once")
    assert lines[0][2:] == [
        *("good", "middling &lt;i&gt;", "bad"),
        *("Real rows themselves", "Real against real (bootstrap)", "Shuffled columns"),
    ]
    line = next(line for line in lines if "Name" in line[0] and "tv_2_mean" in line[0])
    values = [one["tv_2_mean"] for one in found.comparisons.values()]
    assert [float(cell.split(" ")[0]) for cell in line[2:5]] == pytest.approx(values, abs=1e-4)
    assert "★" in line[2 + int(np.argmin(values))]
    assert sum("★" in cell for cell in line) == 1
    assert float(line[6]) < float(line[7])


def test_parts_and_notes_are_in_tables_of_their_own(text: str, page: Page) -> None:
    assert "Rows that break a rule: 5 parts" in page.text
    lines = _cells(text, "Parts of Rows that break a rule")
    score = next(s for s in review().first.scores if s.name == "rules")
    assert [html.unescape(line[0]) for line in lines[1:]] == list(score.parts)
    assert [float(line[1]) for line in lines[1:]] == pytest.approx(list(score.parts.values()), abs=1e-4)
    assert len(page.of("table", "caption")) == len(set(page.of("table", "caption")))


def test_pictures_are_named_and_described(text: str, page: Page) -> None:
    pictures = [attrs for tag, attrs in page.elements if tag == "svg" and attrs.get("role") == "img"]
    columns, pairs, matrices, signed, planes, curves = 5, 3, 4, 4, 4, 2
    assert len(pictures) == columns + pairs + matrices + signed + planes + curves
    assert len(re.findall(r'<svg[^>]*role="img"[^>]*><title ', text)) == len(pictures)
    assert len(re.findall(r"<desc ", text)) == len(pictures)


def test_names_from_the_tables_are_escaped(text: str) -> None:
    assert "middling <i>" not in text
    assert "job <&>" not in text
    assert "<h1>Mine &amp; &lt;yours&gt;</h1>" in text


def test_the_page_is_small_and_the_same_each_time(text: str) -> None:
    assert len(text.encode()) < LARGEST
    assert render_comparison(review(), title="Mine & <yours>") == text


def test_many_columns_and_tables_stay_below_the_limit() -> None:
    found = review()
    first = found.first
    wide = [
        dataclasses.replace(first.columns[place % 5], name=f"column number {place}") for place in range(300)
    ]
    rng = np.random.default_rng(0)
    names = tuple(column.name for column in wide)
    tables = rng.random((3, 300, 300)) * 0.2
    parts = {f"column number {i} x column number {i + 1}": float(i) for i in range(3000)}
    scores = tuple(dataclasses.replace(score, parts=parts) for score in first.scores)
    pairs = type(first.pairs)(names, *(tables + tables.transpose(0, 2, 1)) / 2)
    one = dataclasses.replace(first, columns=tuple(wide), pairs=pairs, scores=scores)
    many = Review(dict.fromkeys([f"table {place}" for place in range(9)], one), curves=found.curves)
    text = render_comparison(many)
    page = check(text, complete=False)
    assert len(text.encode()) < LARGEST
    assert "more columns are not drawn here" in page.text
    assert "The pictures show the first 6 tables" in page.text
    assert len(_cells(text, "The synthetic tables at a glance")) == 1 + 9 + 2


def test_without_a_target_the_page_says_what_to_do() -> None:
    found = review()
    bare = Review({"good": found.first}, curves="No column to predict was named: give one with --target.")
    page = check(render_comparison(bare), complete=False)
    assert "give one with --target" in page.text
    assert "★" not in page.text


def test_every_metric_has_a_title_and_a_group() -> None:
    """Those of the package, each in its facts."""
    titles = [one.facts.title for one in METRICS.values()]
    assert all(titles)
    assert len(set(titles)) == len(titles)
    scores = [one.facts.undefined_score("", "") for one in METRICS.values()]
    assert "More" not in [heading for heading, _ in group_scores(scores)]
    assert sorted(name for _, held in group_scores(scores) for name in held) == sorted(METRICS)


def test_undefined_scores_say_why() -> None:
    found = review()
    scores = tuple(
        dataclasses.replace(score, value=math.nan, note="for a reason")
        if score.name == "average_tv"
        else score
        for score in found.first.scores
    )
    one = dataclasses.replace(found.first, scores=scores)
    text = render_comparison(Review({"good": one}))
    part = text[text.index('id="score-average_tv"') :]
    assert "for a reason" in part[: part.index("</details>")]
    assert "not defined" in part[: part.index("</tr>")]


def test_a_copy_of_the_real_rows_is_told_and_rows_drawn_anew_are_none() -> None:
    real = made(0, 0.2)
    rng = np.random.default_rng(0)
    tables = {
        "copy": real.take(rng.permutation(ROWS)),
        "anew": real.take(rng.integers(0, ROWS, ROWS)),
        "thrice": real.take(rng.integers(0, ROWS, 3 * ROWS)),
        "other": made(7, 0.2),
    }
    metrics = ("average_tv", "unique_exact_match")
    found = mg.review(real, tables, schema=SCHEMA, metrics=metrics, pictures=False)
    told = [name for name, one in found.comparisons.items() if "copy of" in str(judge_comparison(one).look)]
    assert told == ["copy"]
    assert "100.0% of the real rows that are unlike any other" in "\n".join(plain_lines(found))
