"""Numbers that count flags: found however these are spelt, obeyed by rows, not found where there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest

from margrave import Synthesizer
from margrave.measure.discovery.between.flag_counts import may_count
from margrave.schema.columns import Boolean, Categorical, Integer, Unknown
from margrave.schema.constraints.rules import FlagCount

ROWS = 5_000
FLAGS = ("fever", "cough", "fatigue", "headache", "rash")
SPELLINGS = [("No", "Yes"), ("0", "1"), ("false", "true"), ("", "X"), ("nein", "ja")]


def make_flags() -> Any:
    """Symptoms that come together: truth values of shape [ROWS, 5]."""
    rng = np.random.default_rng(0)
    ill = rng.normal(size=(ROWS, 1))
    return ill + rng.normal(size=(ROWS, 5)) > [0.1, -0.4, 0.6, 1.0, 1.6]


def release(path: Path, spelling: tuple[str, str], counts: Any) -> tuple[list[FlagCount], pa.Table]:
    """The counts that were found, and rows."""
    rng = np.random.default_rng(1)
    flags = make_flags()
    columns = {"age": rng.integers(0, 90, ROWS), "sex": rng.choice(["F", "M"], ROWS)}
    columns |= {name: np.where(flags[:, place], *spelling[::-1]) for place, name in enumerate(FLAGS)}
    columns |= {"visits": rng.poisson(1.5, ROWS), "symptoms": counts, "ward": rng.choice(["a", "b"], ROWS)}
    table = pa.table({name: pa.array(own.tolist()) for name, own in columns.items()})
    csv.write_csv(table, path, csv.WriteOptions(quoting_style="none"))
    synthesis = Synthesizer("independent", epsilon=3.0, delta=1e-9, not_private_test_seed=0).fit(path)
    found = [rule for rule in synthesis.schema.rules if isinstance(rule, FlagCount)]
    return found, synthesis.sample_arrow(2_000, rng=np.random.default_rng(0))


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_counts_are_found_and_rows_obey(spelling: tuple[str, str], tmp_path: Path) -> None:
    (rule,), made = release(tmp_path / "visits.csv", spelling, make_flags().sum(axis=1))
    assert rule.flags == FLAGS
    assert rule.number == "symptoms"
    assert rule.counted == (spelling[1],) * 5
    assert rule.found is not None
    assert rule.found[0] > 0.9
    said = np.stack(
        [[str(cell).lower() == spelling[1].lower() for cell in made[name].to_pylist()] for name in FLAGS]
    )
    assert made["symptoms"].to_pylist() == said.sum(axis=0).tolist()
    assert len(set(made["symptoms"].to_pylist())) > 3


@pytest.mark.parametrize("spelling", SPELLINGS[:3])
def test_numbers_of_the_same_mean_are_no_counts(spelling: tuple[str, str], tmp_path: Path) -> None:
    mixed = np.random.default_rng(2).permutation(make_flags().sum(axis=1))
    assert release(tmp_path / "mixed.csv", spelling, mixed)[0] == []


def test_tables_without_flags_or_numbers_are_not_asked() -> None:
    texts = Categorical(name="a"), Categorical(name="b")
    number = Integer(name="n")
    assert may_count([*texts, number], ())
    assert may_count([Boolean(name="a"), Integer(name="b"), number], ())
    assert not may_count(texts, ())
    assert not may_count([texts[0], number], ())
    assert not may_count([*texts, number], ("n",))
    assert not may_count([*texts, number], ("a",))
    assert not may_count([Categorical(name="a", values=("x", "y", "z")), Unknown(name="b"), number], ())
