from __future__ import annotations

import numpy as np
import pytest
from page_checks import check

from margrave.evaluation import NOT_PRIVATE, Comparison, Score
from margrave.evaluation.comparison import ColumnPair, PairMatrix
from margrave.report import render_comparison

SIZE = 4


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    rng = np.random.default_rng(0)
    names = ("age", "a<b>", "c & d", "e")
    columns = []
    for place, name in enumerate(names):
        size = 50 if place == 3 else 3 + place
        real, other = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
        labels = tuple(f"<{code}>" for code in range(size))
        kind = "categorical" if place else "ordinal"
        columns.append(ColumnPair(name, kind, labels, 0, real, other, float(abs(real - other).sum() / 2)))
    tables = rng.uniform(0, 0.3, (3, SIZE, SIZE))
    tables = (tables + tables.transpose(0, 2, 1)) / 2
    tables[:, range(SIZE), range(SIZE)] = np.nan
    tables[:, 0, 3] = tables[:, 3, 0] = np.nan
    scores = (
        Score("tv_1_mean", 0.0213, "lower", "4 columns", "The mean of something."),
        Score("accuracy", 0.8213, "higher", "predict e", "The share that is right."),
    )
    references = {"bootstrap": {"tv_1_mean": 0.001}, "real rows": {"accuracy": 0.9}}
    return Comparison(scores, references, tuple(columns), PairMatrix(names, *tables), (100, 90), skipped=1)


def test_the_page_says_on_its_face_that_it_is_not_private(comparison: Comparison) -> None:
    text = render_comparison(comparison)
    page = check(text)
    assert page.of("head", "title")[0].startswith("NOT PRIVATE")
    assert page.of("body", "aside", "strong") == [NOT_PRIVATE]
    assert text.index(f"<strong>{NOT_PRIVATE}") < text.index("<h1>")
    banner = [attrs for tag, attrs in page.elements if attrs.get("class") == "banner"]
    assert len(banner) == 1
    assert NOT_PRIVATE == "NOT PRIVATE — computed from the real table, do not publish"


def test_a_title_does_not_displace_the_warning(comparison: Comparison) -> None:
    page = check(render_comparison(comparison, title="Mine"))
    assert page.of("head", "title")[0] == "NOT PRIVATE: Mine"
    assert page.of("header", "h1") == ["Mine"]


def test_scores_stand_beside_their_references(comparison: Comparison) -> None:
    page = check(render_comparison(comparison))
    assert "Name tv_1_mean lower 0.0213 – 0.0010" in page.text
    assert "Name accuracy higher 0.8213 0.9000 –" in page.text
    assert "The share that is right." in page.text
    assert "1 sets of columns were left out" in page.text


def test_tables_that_were_left_out_have_no_number(comparison: Comparison) -> None:
    page = check(render_comparison(comparison))
    assert "age × e: not computed" in page.text


def test_it_is_deterministic(comparison: Comparison) -> None:
    assert render_comparison(comparison) == render_comparison(comparison)
