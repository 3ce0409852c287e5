"""The verdict on a release: what each reason needs, that noise finds nothing, where it is printed."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
import sys
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray
from page_checks import check

from command_line import call, write_csv
from margrave.privacy.accounting.events import PartitionEvent
from margrave.privacy.unit import Neighbours, Unit
from margrave.release import Guarantee, NoisyMarginal, Release
from margrave.report import render
from margrave.report.html import Level
from margrave.report.release.advice import headline, list_findings, list_steps
from margrave.report.release.record import describe_texts
from margrave.report.release.usefulness import Usefulness, judge_release
from margrave.schema.columns import Categorical, Column, Integer, Relative
from margrave.schema.domain import Clique
from margrave.schema.schema import Schema

ROWS = 4000.0
SIGMA = 10.0
BENCH = Path(__file__).parents[2] / "bench" / "runs" / "usefulness.py"


class Shares:
    """A model of two columns: a table of all of them."""

    def __init__(self, names: tuple[str, str], table: NDArray[np.float64]) -> None:
        self.names, self.table, self.total = names, table, ROWS

    def project_many(self, cliques: list[Clique]) -> list[NDArray[np.float64]]:
        return [
            self.table.sum(axis=1 - self.names.index(c[0])) if len(c) == 1 else self.table for c in cliques
        ]


def build(columns: tuple[Column, ...], tables: list[NoisyMarginal], **changes: object) -> Release:
    guarantee = Guarantee(1.0, 1e-9, 0.02, Neighbours(), "gdp")
    made = Release(Schema(columns), tuple(tables), guarantee, (), "fixed", "independent", {}, ROWS)
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def letters(name: str, **changes: object) -> Categorical:
    return Categorical(name=name, values=tuple("abcd"), missing=False, strict=False, **changes)  # type: ignore[arg-type]


def noisy(clique: Clique, counts: object, seed: int = 0, sigma: float = SIGMA) -> NoisyMarginal:
    exact = np.asarray(counts, dtype=np.float64)
    return NoisyMarginal(clique, exact + np.random.default_rng(seed).normal(0, sigma, exact.shape), sigma)


def state_of(column: Column, counts: list[float], *, sigma: float = SIGMA, declared: bool = False) -> str:
    names = (column.name,) if declared else ()
    release = build((column,), [noisy((column.name,), counts, sigma=sigma)], declared=names)
    return judge_release(release, None).columns[0].state


EVEN = [1000.0, 1000.0, 1000.0, 1000.0]
JOINED = np.diag(EVEN)
APART = np.full((4, 4), 250.0)


def test_a_column_is_lost_where_noise_is_larger_than_its_counts() -> None:
    assert state_of(letters("a"), EVEN) == "clear"
    assert state_of(letters("a"), EVEN, sigma=1500.0) == "noise"


def test_a_column_is_lost_where_most_rows_are_in_other() -> None:
    column = letters("a", other="(other)")
    assert state_of(column, [450, 450, 500, 500, 2100]) == "other"
    assert state_of(column, [1000, 1000, 500, 500, 1000]) == "clear"


def test_a_column_of_one_value_says_nothing() -> None:
    assert state_of(letters("a"), [4000, 0, 0, 0]) == "one"
    assert state_of(letters("a"), [3600, 400, 0, 0]) == "clear"
    missing = dataclasses.replace(letters("a"), missing=True)
    assert state_of(missing, [10, 10, 10, 10, 3960]) == "one"
    # A cross that marks an answer, or nothing, are two values.
    assert state_of(missing, [1400, 0, 0, 0, 2600]) == "clear"
    assert state_of(missing, [3960, 0, 0, 0, 40]) == "one"


def test_a_column_of_made_up_texts_of_one_pattern_is_one_of_keys() -> None:
    column = Categorical(name="a", values=("none",), patterns=("MRN[0-9]{6}",), missing=False)
    assert state_of(column, [10, 3990]) == "keys"
    assert state_of(column, [3990, 10]) == "one"
    assert state_of(column, [1000, 3000]) == "clear"
    alone = Categorical(name="a", values=("none",), prefixes=("MRN",), endings=("",), missing=False)
    assert state_of(alone, [10, 3990]) == "one"
    use = judge_release(build((column,), [noisy(("a",), [10, 3990])]), None)
    (said,) = (one for one in list_findings(use) if "keys" in one)
    assert said == "1 column taken for keys, with new values that go with nothing else: a."
    assert not any("one value" in one for one in list_findings(use))


def test_thresholds_of_texts_are_in_rows_and_columns_are_counted_once() -> None:
    release = build((letters("a"),), [noisy(("a",), EVEN)])
    plain = [("values of a", 263), ("values of b", 263), ("shapes of a", 415)]
    events = [PartitionEvent(what, 1, Fraction(50), most, Fraction(1, 10**6)) for what, most in plain]
    together = "values of 2 columns of text together"
    events.append(PartitionEvent(together, 10**6, Fraction(50), 46_758, Fraction(1, 10**6)))
    said = str(describe_texts(dataclasses.replace(release, events=tuple(events))))
    assert "2 columns of text were searched" in said
    assert "(47 to 415 rows here)" in said


def test_a_column_that_keeps_its_distance_to_another_is_not_one_of_one_value() -> None:
    came = Integer(name="came", lower=0, upper=3, bins=4, missing=False)
    left, days = (Integer(name="left", edges=edges, missing=False) for edges in ((0, 4, 9), (0, 1, 2, 5, 10)))
    column = Relative(name="left", base="came", own=left, part=days, missing=False)
    tables = [noisy(("came",), EVEN), noisy(("left",), [4000.0] + [0.0] * (column.size - 1))]
    states = [one.state for one in judge_release(build((came, column), tables), None).columns]
    assert states == ["clear", "clear"]
    absent = dataclasses.replace(column, missing=True)
    tables[1] = noisy(("left",), [0.0] * (absent.size - 1) + [4000.0])
    states = [one.state for one in judge_release(build((came, absent), tables), None).columns]
    assert states == ["clear", "one"]


def test_declared_bounds_that_cut_values_off_are_found() -> None:
    heap = [100.0, 100.0, 100.0, 3700.0]
    age = Integer(name="age", lower=0, upper=3, bins=4, missing=False, strict=False)
    assert state_of(age, heap, declared=True) == "clamped"
    # Bounds that were discovered lie where the rows end, and a strict column refuses what lies outside.
    assert state_of(age, heap) == "clear"
    assert state_of(dataclasses.replace(age, strict=True), heap, declared=True) == "clear"
    # Zeros are many in many columns.
    assert state_of(age, heap[::-1], declared=True) == "clear"


def judge_pair(
    table: NDArray[np.float64], model: NDArray[np.float64] | None = None, seed: int = 0
) -> Usefulness:
    columns = (letters("a"), letters("b"))
    ones = [noisy(("a",), table.sum(axis=1), 1), noisy(("b",), table.sum(axis=0), 2)]
    release = build(columns, [*ones, noisy(("a", "b"), table, seed)])
    fitted = None if model is None else Shares(("a", "b"), model)
    return judge_release(release, fitted)  # type: ignore[arg-type]


def test_dependence_that_the_model_keeps_is_usable() -> None:
    use = judge_pair(JOINED, JOINED)
    assert (use.level, len(use.found), len(use.lost)) == (Level.GOOD, 1, 0)
    assert use.pairs[0].kept == pytest.approx(1.0, abs=0.05)
    assert headline(use).startswith("This release is usable: 2 of 2 columns")


def test_dependence_that_the_model_lost_is_told_by_column() -> None:
    use = judge_pair(JOINED, APART)
    assert (use.level, len(use.found), len(use.lost)) == (Level.FAIR, 1, 1)
    assert use.independent == ("a", "b")
    assert any("came out about independent: a × b" in sentence for sentence in list_findings(use))
    assert any("Try another method" in step for step in list_steps(use))


def test_independent_columns_are_usable_one_by_one() -> None:
    use = judge_pair(APART, APART)
    assert (use.level, len(use.found)) == (Level.FAIR, 0)
    assert "no dependence between columns stands out of the noise" in headline(use)


def test_pairs_that_nobody_measured_are_told() -> None:
    release = build((letters("a"), letters("b")), [noisy(("a",), EVEN), noisy(("b",), EVEN)])
    use = judge_release(release, None)
    assert use.level == Level.FAIR
    assert any("No pair of columns was measured" in sentence for sentence in list_findings(use))


@pytest.mark.parametrize("shape", [(2, 2), (2, 12), (9, 7)])
def test_noise_alone_is_no_dependence(shape: tuple[int, int]) -> None:
    """Of 400 tables of independent columns none stands out, and the deviations are standard normal."""
    rng = np.random.default_rng(5)
    names = ("a", "b")
    columns = tuple(
        Categorical(name=name, values=tuple(range(size)), missing=False)
        for name, size in zip(names, shape, strict=True)
    )
    beyond = []
    for seed in range(400):
        first, second = (rng.dirichlet(np.full(size, 2.0)) for size in shape)
        table = noisy(names, ROWS * 100 * np.outer(first, second), seed)
        release = build(columns, [table], total=ROWS * 100)
        beyond += [pair.beyond for pair in judge_release(release, None).pairs]
    assert len(beyond) > 300
    assert max(beyond) < 4.0
    assert abs(float(np.mean(beyond))) < 0.2
    assert 0.85 < float(np.std(beyond)) < 1.15


def test_a_weak_dependence_is_found_once_it_is_larger_than_its_noise() -> None:
    shift = np.zeros((4, 4))
    shift[:2, :2], shift[2:, 2:], shift[:2, 2:], shift[2:, :2] = 1, 1, -1, -1
    assert not judge_pair(APART + 3 * shift).found
    assert judge_pair(APART + 30 * shift).found


def test_few_rows_come_with_what_it_would_take() -> None:
    few = [noisy(("a",), [12, 8, 10, 10], sigma=20.0)]
    use = judge_release(build((letters("a"),), few, total=40.0), None)
    assert use.level == Level.BAD
    assert "There are about 40 rows, and the noise in each count is about 20 rows" in list_findings(use)[0]
    assert any("an ε of about 10 instead of 1" in step for step in list_steps(use))
    more = judge_release(build((letters("a"),), few, total=10.0), None)
    assert any("No usual ε is enough" in step for step in list_steps(more))


def test_a_large_cap_is_named_as_a_reason() -> None:
    guarantee = Guarantee(1.0, 1e-9, 0.02, Neighbours(Unit("patient", 50)), "gdp")
    release = build((letters("a"),), [noisy(("a",), EVEN, sigma=2000.0)], guarantee=guarantee)
    assert any("Lower --max-rows, now 50" in step for step in list_steps(judge_release(release, None)))


def test_no_distance_is_called_a_total_variation_above_one() -> None:
    table = noisy(("a",), [12, 8, 10, 10], sigma=200.0)
    page = check(render(build((letters("a"),), [table], total=40.0), None))
    assert not re.search(r"(?:TV|total variation)[^.]{0,60}?\s[1-9]\d*\.\d", page.text)
    assert "it passes 1 where noise is larger" in page.text


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release of a key, its sessions left out, and what the command line printed."""
    folder = tmp_path_factory.mktemp("keys")
    rng = np.random.default_rng(0)
    letters = str.maketrans("0123456789", "klmnopqrst")
    texts = [f"{key:09x}" for key in rng.integers(0, 1 << 34, 2000).tolist()]
    lines = [[f"k{text}", f"{text[:4]} {text[4:]}".translate(letters)] for text in texts]
    table = write_csv(folder / "keys.csv", [["key", "session"], *lines])
    outputs = ("--release", folder / "r.margrave", "--report", folder / "r.html", "-o", folder / "s.csv")
    done = call("synthesize", table, "-e", 1, "--method", "independent", *outputs)
    assert done.code == 0, done.err
    (folder / "out.txt").write_text(done.out, encoding="utf-8")
    (folder / "err.txt").write_text(done.err, encoding="utf-8")
    return folder


SAID = "Next to nothing in this release is usable: 0 of 2 columns came through."


def test_the_terminal_warns_of_a_useless_release(keys: Path) -> None:
    warned = (keys / "err.txt").read_text(encoding="utf-8").splitlines()
    start = warned.index(f"warning: {SAID}")
    assert "In 1 column most rows are in “(other)”" in warned[start + 1]
    assert any(line.startswith("  next: Declare the values") for line in warned)
    assert "warning" not in (keys / "out.txt").read_text(encoding="utf-8")


def test_the_report_begins_with_the_same_verdict(keys: Path) -> None:
    text = (keys / "r.html").read_text(encoding="utf-8")
    page = check(text)
    assert page.text.index(SAID) < page.text.index("ε = 1")
    assert 'class="box far"' in text


def test_show_begins_with_the_same_verdict(keys: Path) -> None:
    assert call("show", keys / "r.margrave").out.startswith(f"warning: {SAID}\n")
    document = json.loads(call("show", keys / "r.margrave", "--json").out)
    assert document["usefulness"]["verdict"] == "not usable"
    assert document["usefulness"]["lost"] == {"key": "other"}
    assert document["usefulness"]["left out"] == ["session"]


def _load_bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_usefulness", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("name", list(_load_bench().CASES))
def test_ten_good_releases_are_told_from_ten_useless_ones(name: str) -> None:
    case = _load_bench().CASES[name]
    use = case.fit()[0].usefulness()
    assert use.level == (Level.GOOD if case.good else Level.BAD), str(use)
    assert str(use).startswith("warning: ") != case.good


def test_there_are_ten_of_each() -> None:
    good = [case.good for case in _load_bench().CASES.values()]
    assert (good.count(True), good.count(False)) == (10, 10)
    page = (Path(__file__).parents[2] / "docs" / "usefulness.md").read_text(encoding="utf-8")
    assert [name for name in _load_bench().CASES if f"| {name} |" not in page] == []
