"""Moments with an offset from UTC come back in the spelling and the offsets that most of them have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from margrave import Synthesizer
from margrave.files import write_table
from margrave.schema.columns import Moment
from margrave.schema.columns.relative import take_own
from margrave.schema.schema import Schema

pytestmark = pytest.mark.filterwarnings("ignore::margrave.errors.NotPrivateWarning")
ROWS = 3_000
PATTERNS = {
    "fixed": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+02:00",
    "berlin": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+0[12]:00",
    "york": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d-0[45]00",
    "short": r"\d{4}-\d\d-\d\d \d\d:\d\d-05",
    "named": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC",
}


def shipments() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    seconds = rng.integers(0, 2 * 365 * 86_400, (ROWS, 5))
    when = [pd.Series(pd.Timestamp("2013-01-01") + pd.to_timedelta(one, "s")) for one in seconds.T]
    places = [
        when[n].dt.tz_localize("UTC").dt.tz_convert(z) for n, z in ((1, "Europe/Berlin"), (2, "EST5EDT"))
    ]
    return pd.DataFrame(
        {
            "fixed": when[0].dt.strftime("%Y-%m-%dT%H:%M:%S+02:00"),
            "berlin": places[0].map(lambda one: one.isoformat()),
            "york": places[1].dt.strftime("%Y-%m-%d %H:%M:%S%z"),
            "short": when[3].dt.strftime("%Y-%m-%d %H:%M-05"),
            "named": when[4].dt.strftime("%Y-%m-%d %H:%M:%S UTC"),
            "size": rng.integers(0, 9, ROWS),
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("offsets")
    shipments().to_csv(folder / "in.csv", index=False)
    found = Synthesizer("independent", epsilon=3.0, not_private_test_seed=0).fit(folder / "in.csv")
    write_table(found.sample_arrow(2_000), folder / "out.csv", text=found.release.text)
    return found, folder


def test_zones_are_found(files: tuple[Any, Path]) -> None:
    found, _ = files
    own = {name: take_own(found.schema[name]) for name in PATTERNS}
    zones = {name: one.zone for name, one in own.items() if isinstance(one, Moment)}
    places = {"berlin": "Europe/Berlin", "york": "America/New_York"}
    assert zones == {"fixed": "+02:00", **places, "short": "-05:00", "named": "UTC"}
    asked = [event.what for event in found.release.events if event.what.startswith("offsets")]
    assert sorted(asked) == [f"offsets from UTC of {name}" for name in ("berlin", "fixed", "short", "york")]
    assert found.sample_arrow(3).schema.field("york").type.tz == "America/New_York"


def test_a_file_is_written_as_it_came(files: tuple[Any, Path]) -> None:
    check(pd.read_csv(files[1] / "out.csv"))


def test_a_frame_gets_its_texts_back() -> None:
    made = Synthesizer("independent", epsilon=3.0, not_private_test_seed=0).fit(shipments()).sample(2_000)
    check(made)


def check(made: pd.DataFrame) -> None:
    """Spellings as they came, and in the two places the offset that the clock has on that day."""
    for name, pattern in PATTERNS.items():
        assert made[name].map(lambda text, form=pattern: bool(re.fullmatch(form, text))).all(), name
    for name, zone in (("berlin", "Europe/Berlin"), ("york", "America/New_York")):
        moments = pd.to_datetime(made[name], utc=True).dt.tz_convert(zone)
        offsets = made[name].str.replace(":", "").str[-5:]
        assert (offsets == moments.dt.strftime("%z")).all()
        assert offsets.nunique() == 2


def test_a_declared_zone_is_not_asked_for(tmp_path: Path) -> None:
    shipments()[["berlin", "size"]].to_csv(tmp_path / "in.csv", index=False)
    declared = Schema((Moment(name="berlin", zone="Europe/Paris", strict=False),))
    found = Synthesizer("independent", epsilon=3.0, not_private_test_seed=0, schema=declared).fit(
        tmp_path / "in.csv"
    )
    own = take_own(found.schema["berlin"])
    assert isinstance(own, Moment)
    assert own.zone == "Europe/Paris"
    assert not [event for event in found.release.events if event.what.startswith("offsets")]


def test_columns_of_a_table_are_counted_together(tmp_path: Path) -> None:
    # Each by itself is hidden by this noise more often than not.
    rng = np.random.default_rng(4)
    begun = pd.Series(pd.Timestamp("2013-01-01") + pd.to_timedelta(rng.integers(0, 730 * 86_400, 900), "s"))
    moments = {f"t{n}": begun + pd.to_timedelta(rng.integers(0, 9e7, 900), "s") for n in range(4)}
    texts = {n: one.dt.tz_localize("UTC").dt.tz_convert("EST5EDT").map(str) for n, one in moments.items()}
    pd.DataFrame(texts).to_csv(tmp_path / "in.csv", index=False)
    seen = []
    for seed in range(4):
        made = Synthesizer("independent", epsilon=1.0, not_private_test_seed=seed).fit(tmp_path / "in.csv")
        own = [take_own(made.schema[name]) for name in texts]
        seen.append({one.zone for one in own if isinstance(one, Moment)})
    assert all(len(zones) == 1 for zones in seen)
