"""Numbers of few values keep these, dates go with moments of their name, flags are no part of a date."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from margrave import Synthesizer
from margrave.engines.memory import open_source
from margrave.measure.discovery.between.calendar import Calendar
from margrave.measure.discovery.between.links import pair_up
from margrave.measure.discovery.between.trees import choose_links
from margrave.schema.columns import Date, Integer, Relative
from margrave.schema.schema import Schema

pytestmark = pytest.mark.filterwarnings("ignore:NOT PRIVATE")

ROWS = 5_000
RATES = (5.0, 7.5, 10.0, 15.0, 20.0, 25.0)


def make_pay(seed: int = 0) -> pd.DataFrame:
    """Salaries, a rate of a few values that goes with them, missing in half of the rows, and a bonus."""
    rng = np.random.default_rng(seed)
    grade = np.minimum(rng.geometric(0.3, ROWS), 7)
    salary = np.round((20_000 + grade * 8_200 + rng.normal(0, 2_500, ROWS)) / 100) * 100
    rate = np.where(grade > 1, np.array([0.0, *RATES])[grade - 1], np.nan)
    bonus = np.round(salary * np.nan_to_num(rate) / 100, 2)
    return pd.DataFrame({"rate": rate, "bonus": bonus, "salary": salary, "age": rng.integers(18, 65, ROWS)})


@pytest.mark.parametrize("seed", range(3))
def test_rates_keep_their_values_beside_amounts(seed: int) -> None:
    data = make_pay()
    fitted = Synthesizer("independent", epsilon=3, delta=1e-9, not_private_test_seed=seed).fit(data)
    assert not isinstance(fitted.schema["rate"], Relative)
    made = fitted.sample(ROWS, rng=np.random.default_rng(0))["rate"]
    assert float(made.dropna().isin(RATES).mean()) > 0.9


def flat(name: str, *values: float) -> Integer:
    """A column of whole numbers of which as many rows hold each."""
    edges = tuple(sorted({*values, *(value + 1 for value in values)}))
    weights = tuple(float(start in values) for start in edges[:-1])
    return Integer(name=name, edges=edges, fine=edges, weights=weights, missing=False)


def test_many_values_are_told_by_few_and_not_the_other_way() -> None:
    few, many = flat("few", 0, 5, 10), flat("many", *range(40))
    for columns in ((few, many), (many, few)):
        pairs = pair_up(columns, 1)
        counts = [np.where(pair.edges[:-1] == 0, 9e3, 10.0) for pair in pairs]
        links = choose_links(pairs, [np.append(own, [0.0, 0.0, 0.0]) for own in counts], 1.0)
        assert [(link.base, link.column) for link in links] == [("few", "many")]


def make_calls() -> pd.DataFrame:
    """Calls, of which the day of the call is a column, and what follows each within minutes."""
    rng = np.random.default_rng(5)
    moments = [pd.Timestamp("2023-04-01") + pd.to_timedelta(rng.integers(0, 365 * 86_400, 6_000), unit="s")]
    for mean in (600, 900, 2_700):
        moments.append(moments[-1] + pd.to_timedelta(rng.exponential(mean, 6_000).astype(int) + 20, unit="s"))
    names = ("call_time", "assigned_time", "arrival_time", "clear_time")
    table = {name: one.strftime("%Y-%m-%d %H:%M:%S") for name, one in zip(names, moments, strict=True)}
    kind = rng.choice(list("abc"), 6_000)
    # Moments move by some minutes for what this says, and days only where they cross midnight.
    waited = (moments[2] - moments[0]).total_seconds().astype(int)
    day = moments[0].strftime("%Y-%m-%d")
    return pd.DataFrame({"call_date": day, **table, "kind": kind, "waited": waited})


def test_dates_go_with_the_moments_that_they_are_called_by(tmp_path: Path) -> None:
    make_calls().to_csv(tmp_path / "calls.csv", index=False)
    same = []
    for seed in range(3):
        synthesizer = Synthesizer("independent", epsilon=3, delta=1e-9, not_private_test_seed=seed)
        made = synthesizer.fit(tmp_path / "calls.csv").sample_arrow(2_000, rng=np.random.default_rng(0))
        pairs = zip(made["call_date"].to_pylist(), made["call_time"].to_pylist(), strict=True)
        same.append(np.mean([str(day) == str(moment)[:10] for day, moment in pairs]))
    assert min(same) > 0.95


@pytest.mark.parametrize(("others", "asked"), [(4.0, False), (100.0, True)])
def test_flags_with_noise_are_no_time_between_dates(others: float, asked: bool) -> None:
    """Hardly any weeks pass between two dates, and nearly all rows of a flag are 0 or 1."""
    edges = tuple(float(end) for end in range(6))
    weights = (780.0, 215.0, others / 2, others / 4, others / 4)
    flag = Integer(name="flag", edges=edges, fine=edges, weights=weights, missing=False)
    days = tuple(float(end) for end in range(19_000, 19_011))
    dates = [
        Date(name=name, edges=days, fine=days, weights=(1.0,) * 10, missing=False) for name in ("in", "out")
    ]
    source = open_source(pd.DataFrame({"flag": [0], "in": [pd.Timestamp(0)], "out": [pd.Timestamp(0)]}))[0]
    found = Calendar(source, None, 4_000.0).find_candidates(Schema((flag, *dates)))  # type: ignore[arg-type]
    assert bool(found) == asked
