"""What a column's name says of its numbers: codes, and row numbers that have none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from margrave import Integer, Schema, Synthesizer
from margrave.cli.released import column_notes
from margrave.schema.columns import Categorical, Omitted
from margrave.schema.columns.identifier import is_code_name

pytestmark = pytest.mark.filterwarnings("ignore:NOT PRIVATE")


@pytest.mark.parametrize(
    "name",
    [
        "LocID",
        "Postal Code",
        "zip_code",
        "ZIP",
        "customer_id",
        "icd10 fips",
        "Code postal",
        "Código Postal",
        "zip5",
        "isco_08",
    ],
)
def test_names_of_codes(name: str) -> None:
    assert is_code_name(name)


@pytest.mark.parametrize(
    "name",
    ["paid", "valid", "grid", "code", "id count", "idle", "", "42", "postal votes", "postal", "grid_5"],
)
def test_names_of_numbers(name: str) -> None:
    assert not is_code_name(name)


def places(tmp_path: Path) -> Path:
    """Twelve places, each with a number of its own, beside a number without order."""
    rng = np.random.default_rng(0)
    place = rng.integers(0, 12, 6_000)
    numbers = np.array([4, 8, 12, 24, 31, 250, 533, 780, 900, 1840, 2093, 5505])
    lines = [f"{row},{numbers[p]},Place {p},{rng.integers(0, 99)}" for row, p in enumerate(place)]
    path = tmp_path / "places.csv"
    path.write_text("\n".join([",loc_id,location,age", *lines]) + "\n", encoding="utf-8")
    return path


def test_numbers_that_are_codes_go_with_their_names(tmp_path: Path) -> None:
    synthesis = Synthesizer("auto", epsilon=3.0, delta=1e-9, not_private_test_seed=1).fit(places(tmp_path))
    assert isinstance(synthesis.schema["loc_id"], Categorical)
    assert isinstance(synthesis.schema["age"], Integer)
    made = synthesis.sample_arrow(rng=0).to_pydict()
    pairs = set(zip(made["loc_id"], made["location"], strict=True))
    assert len(pairs) == 12
    assert ("5505", "Place 11") in pairs


def test_row_numbers_without_a_name_are_left_out_unless_they_are_declared(tmp_path: Path) -> None:
    path = places(tmp_path)
    run = Synthesizer("independent", epsilon=3.0, delta=1e-9, not_private_test_seed=0)
    synthesis = run.fit(path)
    column = synthesis.schema["Unnamed: 0"]
    assert isinstance(column, Omitted)
    assert "no name" in column.reason
    assert not [event for event in synthesis.release.events if "Unnamed" in event.what]
    assert synthesis.sample_arrow().column_names == ["loc_id", "location", "age"]
    declared = Schema([Integer(name="Unnamed: 0", lower=0, upper=5_999, missing=False)])
    kept = Synthesizer("independent", epsilon=3.0, delta=1e-9, schema=declared, not_private_test_seed=0)
    assert "Unnamed: 0" in kept.fit(path).sample_arrow().column_names


def test_who_runs_it_reads_that_row_numbers_are_left_out(tmp_path: Path) -> None:
    run = Synthesizer("independent", epsilon=3.0, delta=1e-9, not_private_test_seed=0)
    notes = column_notes(run.fit(places(tmp_path)).release)
    assert [note for note in notes if note.startswith("'Unnamed: 0' is left out: it has no name")]
