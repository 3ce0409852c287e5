"""What a notebook shows: cards that escape what they quote, and progress in one cell."""

from __future__ import annotations

import sys
import types
from html.parser import HTMLParser
from typing import Any

import pyarrow as pa
import pytest

import margrave as mg
from margrave.html_card import html_card
from margrave.progress import NotebookProgress, Step

TABLE = pa.table({"a<b>": [0, 1, 1, 0] * 50, "b": [1, 1, 0, 0] * 50})
SCHEMA = mg.Schema.from_sizes({"a<b>": 2, "b": 2})


class Words(HTMLParser):
    """The words of a page and its elements, which have to be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.names.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_cards_are_whole_and_escape_what_they_quote() -> None:
    page = Words(html_card("A & B", [("<name>", '"x" <script>')]))
    assert page.words == ["A & B", "<name>", '"x" <script>']
    assert set(page.names) == {"table", "caption", "tbody", "tr", "th", "td"}


def test_a_synthesis_its_guarantee_and_a_plan_show_themselves() -> None:
    synthesizer = mg.Synthesizer("independent", epsilon=1.0, schema=SCHEMA, unit=mg.Unit())
    synthesis = synthesizer.fit(TABLE)
    page = Words(synthesis._repr_html_())
    for word in ("Synthesis", "epsilon", "1", "independent: ", "a<b>", "categorical, 0, 1"):
        assert any(word in text for text in page.words), word
    assert f"about {synthesis.rows:,}" in page.words
    promise = Words(synthesis.guarantee._repr_html_())
    assert "by Gaussian mechanisms (GDP)" in " ".join(promise.words)
    assert "accounting by Gaussian mechanisms (GDP)" in str(synthesis.guarantee)
    plan = synthesizer.plan(TABLE)
    shown = Words(plan._repr_html_())
    assert "Plan: nothing was spent" in shown.words
    assert len(shown.names) > 2 * len(str(plan).splitlines())


@pytest.mark.parametrize(
    ("accounting", "words"),
    [("gdp", "Gaussian mechanisms"), ("zcdp", "concentrated"), ("rdp-12", "Rényi divergence of order 12")],
)
def test_the_account_is_said_in_words(accounting: str, words: str) -> None:
    assert words in mg.Guarantee(1.0, 1e-9, 0.01, mg.Synthesizer(epsilon=1).neighbours, accounting).accountant


def test_outside_of_a_notebook_a_line_a_stage_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    listen = NotebookProgress()
    mg.Synthesizer("independent", epsilon=1.0, schema=SCHEMA, on_step=listen).fit(TABLE)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "fit: 100% of the budget spent"
    assert len(lines) == len({line.partition(":")[0] for line in lines})


def test_in_a_notebook_one_cell_a_run_is_kept_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []

    class Handle:
        def update(self, card: str) -> None:
            shown.append(("update", card))

    def display(card: str, *, display_id: bool) -> Handle:
        assert display_id
        shown.append(("display", card))
        return Handle()

    kernel: Any = types.ModuleType("IPython")
    kernel.get_ipython = type("ZMQInteractiveShell", (), {})
    kernel.display = types.ModuleType("IPython.display")
    kernel.display.HTML, kernel.display.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", kernel.display)
    listen = NotebookProgress()
    for _ in range(2):
        listen(Step("discover", "values of <a>", 0, 0.1))
        listen(Step("measure", "pairs", 3, 0.5))
        listen(Step("fit", "done", 0, 1.0))
    assert [kind for kind, _ in shown] == ["display", "update", "update"] * 2
    assert "values of &lt;a&gt;" in shown[0][1]
    assert "100%" in shown[2][1]
