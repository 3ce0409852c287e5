"""Whatever a release says of its promise names the adjacency it was made under, and no stronger one."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from adult_like import Mixture
from page_checks import Page, check
from test_questions import answers

import margrave as mg
from margrave.auditing.bounds import Claim
from margrave.privacy.unit import ADJACENCY_WORDS, Adjacency, Neighbours, Unit
from margrave.release import Guarantee, Release
from margrave.report import render
from margrave.report.release.summary import _explain_guarantee, describe_difference
from margrave.schema.encoded import Encoded

ADJACENCIES: tuple[Adjacency, ...] = get_args(Adjacency)
CASES = [
    pytest.param(Neighbours(unit, adjacency, ("a",) if adjacency == "replace_private" else ()), id=name)
    for adjacency in ADJACENCIES
    for unit, name in ((Unit(), adjacency), (Unit("person", 3), f"{adjacency} of owners"))
    if unit.owner is None or adjacency != "zero_out"
]
NEVER: dict[str, str] = {
    "add_remove": "replac|exchang|erase",
    "replace_one": "added or removed|add or remove|present or absent|data were used|as without|erase",
    "replace_private": "added or removed|add or remove|present or absent|data were used|as without|erase",
    "zero_out": "replac|exchang|added or removed|add or remove|present or absent|as without",
}
"""Words of a promise that is not the one given."""


def _read(text: object) -> str:
    return re.sub(r"<[^>]*>", "", str(text))


def _promised(guarantee: Guarantee) -> dict[str, str]:
    who = guarantee.neighbours
    return {
        "guarantee": str(guarantee),
        "facts": " ".join(f"{name}: {value}" for name, value in guarantee.facts),
        "difference": _read(describe_difference(who)),
        "meaning": _explain_guarantee(guarantee),
        "claim": str(Claim(1.0, 1e-6, who)),
    }


def test_there_are_words_for_every_adjacency_and_no_two_are_alike() -> None:
    assert set(ADJACENCY_WORDS) == set(ADJACENCIES) == set(NEVER)
    for part in ("noun", "change", "difference", "doubt", "comparison"):
        assert len({getattr(words, part) for words in ADJACENCY_WORDS.values()}) == len(ADJACENCIES), part


@pytest.mark.parametrize("neighbours", CASES)
def test_no_sentence_states_another_adjacency(neighbours: Neighbours) -> None:
    told = _promised(Guarantee(1.0, 1e-6, 0.1, neighbours, "zcdp"))
    for name, text in told.items():
        assert not re.search(NEVER[neighbours.adjacency], text), (name, text)
        assert "{" not in text
    for name in ("guarantee", "facts", "claim"):
        assert f"{neighbours.unit}, {neighbours.change}" in told[name]
    assert neighbours.words.doubt in told["meaning"]
    assert ("a stay as they are and are public" in told["difference"]) == bool(neighbours.public)
    assert ("(at most 3)" in told["difference"]) == (
        neighbours == Neighbours(Unit("person", 3), "replace_one")
    )


@pytest.mark.parametrize("neighbours", CASES)
def test_no_question_is_answered_for_another_adjacency(
    made: tuple[Release, Mixture, Encoded, Encoded], neighbours: Neighbours
) -> None:
    guarantee = Guarantee(0.5, 1e-8, 0.01, neighbours, "gdp")
    release, model, synthetic, _ = made
    text = render(dataclasses.replace(release, guarantee=guarantee), model, synthetic=synthetic)
    found = answers(text)
    assert len(found) == 20
    for key, answer in found.items():
        assert not re.search(NEVER[neighbours.adjacency], answer), (key, answer)
    assert neighbours.words.noun in found["q-adjacency"]
    assert neighbours.words.doubt.replace("'", "&#x27;") in found["q-attacker"].replace("'", "&#x27;")


def _fit(adjacency: Adjacency, **options: Any) -> mg.Synthesis:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, 300), rng.integers(0, 2, 300)
    return mg.Synthesizer(
        "slicing" if adjacency == "zero_out" else "independent",
        epsilon=5.0,
        delta=1e-6,
        schema=mg.Schema.from_sizes({"a": 3, "b": 2, "c": 2}),
        adjacency=adjacency,
        public=("a",) if adjacency == "replace_private" else (),
        **options,
    ).fit(pa.table({"a": a, "b": b, "c": (a + b) % 2}))


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_report_of_a_run_states_its_own_adjacency(tmp_path: Path, adjacency: Adjacency) -> None:
    synthesis = _fit(adjacency)
    synthesis.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text("utf-8")
    check(text, complete=False)
    shown = " ".join(Page(text).text.split())
    words = ADJACENCY_WORDS[adjacency]
    assert f"{words.noun}: neighbouring tables differ by one row" in shown
    assert words.doubt in shown
    # What a page says of synthetic rows or of the literature never uses these words either.
    for other in re.findall(NEVER[adjacency], shown):
        pytest.fail(f"{other!r} stands on the page of a release under {adjacency}")
    assert not re.search(NEVER[adjacency], " ".join(_promised(synthesis.guarantee).values()))
