"""A stranger's first run: a raw table of hospital visits, nothing declared, and what a clinician would see.

    python bench/runs/hospital.py --epsilon 3 1 --repeats 2 [--bounds]

The table is made by a seeded generator: 33,793 visits of 12,000 patients in 22 columns of a CSV file.
Patients are protected, each with at most four visits. Each run prints how far the synthetic rows keep what
everybody who knows hospitals expects, beside the same figures of the real rows. With --bounds the bounds of
numbers and dates are declared, and nothing else. Needs margrave[test].
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from margrave import Date, Integer, Real, Schema, Synthesizer, Unit
from margrave.files import write_table

RESULTS = Path(__file__).parents[1] / "results" / "hospital.jsonl"
VISITS, PATIENTS, CODES, CAP = 33_793, 12_000, 984, 4
FIRST, DAYS = np.datetime64("2021-01-01", "D"), 730
VISIT = re.compile(r"V[0-9]{7}-[0-9]{2}")
ZIP = re.compile(r"[0-9]{5}")
BOUNDS = Schema(
    (
        Date(name="born", lower="1900-01-01", upper="2022-12-31", strict=False),
        Integer(name="age", lower=0, upper=110, strict=False),
        Date(name="admitted", lower="2021-01-01", upper="2022-12-31", strict=False),
        Integer(name="stay", lower=0, upper=365, strict=False),
        Integer(name="procedures", lower=0, upper=100, strict=False),
        Integer(name="systolic", lower=40, upper=260, strict=False),
        Real(name="temperature", lower=30, upper=45, strict=False),
        Real(name="charge", lower=0, upper=500_000, strict=False),
        Real(name="paid", lower=0, upper=500_000, strict=False),
    )
)
"""What a hospital would declare without a look at the rows."""
NIGHT = ("00", "01", "02", "03", "04", "05")
"""Hours of the night, as texts have them."""
QUANTILES = (0.1, 0.5, 0.9)
MEASURED = ("age", "stay", "procedures", "systolic", "temperature", "charge", "paid")
"""Numbers whose means and quantiles are compared."""
PAIRS = (("charge", "paid"), ("stay", "charge"), ("age", "systolic"))
"""Numbers whose rank correlations are compared."""


def make_visits(visits: int = VISITS, patients: int = PATIENTS, seed: int = 0) -> pd.DataFrame:
    """Made-up visits, shape [visits, 22]: same numbers, same table."""
    rng = np.random.default_rng(seed)
    illness = rng.gamma(0.8, 1.0, patients) + 0.1
    more = rng.choice(patients, max(visits - patients, 0), p=illness / illness.sum())
    who = rng.permutation(np.concatenate([np.arange(patients), more])[:visits])
    own = _make_patients(patients, rng)
    rows = {name: values[who] for name, values in own.items()}
    admitted = np.maximum(FIRST + rng.integers(0, DAYS, visits), rows["born"])
    age = ((admitted - rows["born"]).astype(np.int64) / 365.25).astype(np.int64)
    severity = np.minimum((3.2 * rng.random(visits) ** 2 + age / 120).astype(np.int64), 3)
    ward = np.where(age < 18, "paediatrics", rng.choice(["medicine", "surgery", "cardiology"], visits))
    stay = rng.poisson(1.2 + 2.4 * severity * rng.gamma(2.0, 0.5, visits))
    charge = np.round(np.exp(rng.normal(7.6, 0.9, visits)) * (0.6 + 0.35 * stay + 0.5 * severity), 2)
    covered = {"public": 0.78, "private": 0.9, "veterans": 1.0, "none": 0.55}
    share = np.array([covered[name] for name in rows["insurer"]]) - 0.06 * rng.random(visits)
    paid = np.round(charge * np.where(rows["insurer"] == "veterans", 1.0, share), 2)
    rows |= {
        "admitted": admitted,
        "arrival": _draw_arrivals(admitted, rng),
        "discharged": admitted + stay,
        "stay": stay,
        "age": age,
        "ward": ward,
        "severity": np.array(["minor", "moderate", "major", "extreme"])[severity],
        "diagnosis": _draw_diagnoses(ward, rng),
        "procedures": rng.poisson(0.4 + 0.8 * severity),
        "systolic": np.round(rng.normal(112 + 0.35 * age, 13)).astype(np.int64),
        "temperature": np.round(rng.normal(37.0 + 0.3 * severity, 0.6), 1),
        "charge": charge,
        "paid": np.minimum(paid, charge),
        "died": rng.random(visits) < 0.004 + 0.05 * (severity == 3) * (age > 60),
        "note": _draw_notes(visits, rng),
    }
    order = np.argsort(rows["arrival"], kind="stable")
    rows = {name: values[order] for name, values in rows.items()}
    numbers = 1_000_000 + np.cumsum(rng.integers(1, 9, visits))
    rows["visit"] = np.array([f"V{number}-{number % 97:02d}" for number in numbers])
    table = pd.DataFrame({name: rows[name] for name in NAMES})
    table.loc[rng.random(visits) < 0.1, "systolic"] = np.nan
    table["systolic"] = table["systolic"].astype("Int64")
    return table


NAMES = (
    *("visit", "patient", "sex", "born", "age", "zip", "insurer", "smoker", "admitted", "arrival"),
    *("discharged", "stay", "ward", "severity", "diagnosis", "procedures", "systolic", "temperature"),
    *("charge", "paid", "died", "note"),
)


def _make_patients(count: int, rng: np.random.Generator) -> dict[str, Any]:
    age = np.where(rng.random(count) < 0.15, rng.uniform(0, 18, count), rng.normal(55, 18, count))
    area = np.floor(60 * rng.random(count) ** 2).astype(np.int64)
    return {
        "patient": 500_000 + rng.permutation(count),
        "sex": np.where(rng.random(count) < 0.53, "F", "M"),
        "born": FIRST - np.round(np.clip(age, 0, 99) * 365.25).astype("timedelta64[D]"),
        "zip": np.array([f"{1001 + 47 * place:05d}" for place in area]),
        "insurer": rng.choice(["public", "private", "veterans", "none"], count, p=[0.5, 0.36, 0.06, 0.08]),
        "smoker": np.where(rng.random(count) < 0.2, "yes", "no"),
    }


def _draw_arrivals(admitted: Any, rng: np.random.Generator) -> Any:
    """A time stamp on the day of admission, to the minute."""
    minute = np.clip(rng.normal(13.0 * 60, 4.0 * 60, len(admitted)), 0, 1439).astype(np.int64)
    return admitted.astype("datetime64[m]") + minute


def _draw_diagnoses(ward: Any, rng: np.random.Generator) -> Any:
    """Codes as in I21.4, of CODES by Zipf's law, their order another one for children."""
    letters = "IJKSETNFMC"
    codes = [f"{letters[i % 10]}{10 + i // 10 % 90:02d}.{i // 7 % 10}" for i in range(4 * CODES)]
    codes = list(dict.fromkeys(codes))[:CODES]
    weight = 1.0 / np.arange(1, CODES + 1) ** 0.95
    rank = rng.choice(CODES, len(ward), p=weight / weight.sum())
    moved = np.where(ward == "paediatrics", (rank * 5 + 1) % CODES, rank)
    return np.array(codes)[moved]


def _draw_notes(count: int, rng: np.random.Generator) -> Any:
    words = ["seen", "stable", "pain", "review", "family", "plan", "home", "fever", "good", "sent", "ward"]
    drawn = rng.integers(0, len(words), (count, 6))
    return np.array([" ".join(words[word] for word in row) + f" {row.sum() % 24}h" for row in drawn])


def score_rows(table: pd.DataFrame, real: pd.DataFrame) -> dict[str, Any]:
    """The figures, from a table as a CSV file gives it back as text."""
    day = {name: _days(table[name]) for name in ("admitted", "discharged", "arrival", "born")}
    charge, paid = _numbers(table["charge"]), _numbers(table["paid"])
    visit = table["visit"].fillna("").astype(str)
    total = float(_numbers(real["charge"]).sum()) / len(real)
    found = {
        "rows": len(table),
        "discharged_before_admitted": _share(day["discharged"] < day["admitted"]),
        "discharged_missing": float(day["discharged"].isna().mean()),
        "paid_above_charged": _share(paid > charge),
        "arrival_on_day_of_admission": _share(day["arrival"] == day["admitted"]),
        "arrived_at_night": _share(table["arrival"].astype(str).str[11:13].isin(NIGHT)),
        "born_after_admission": _share(day["born"] > day["admitted"]),
        "stay_as_dates_say": _share((day["discharged"] - day["admitted"]).dt.days == _numbers(table["stay"])),
        "age_as_dates_say": _share(
            ((day["admitted"] - day["born"]).dt.days / 365.25).floordiv(1) == _numbers(table["age"])
        ),
        "zip_of_five_digits": float(table["zip"].fillna("").astype(str).map(_is(ZIP)).mean()),
        "visit_in_pattern": float(visit.map(_is(VISIT)).mean()),
        "visit_unique": float(visit.nunique() / max(len(visit), 1)),
        "diagnosis_other": float((table["diagnosis"] == "(other)").mean()),
        "diagnoses": int(table["diagnosis"].nunique()),
        "died": float(table["died"].astype(str).str.lower().eq("true").mean()),
        "sum_of_charges_ratio": float(charge.sum()) / len(table) / total,
        "median_charge": float(charge.median()),
        "greatest_charge": float(charge.max()),
    }
    for name in MEASURED:
        own = _numbers(table[name])
        found[f"mean_{name}"] = float(own.mean())
        found |= {f"{name}_{part:.0%}": float(own.quantile(part)) for part in QUANTILES}
    for one, other in PAIRS:
        left, right = _numbers(table[one]), _numbers(table[other])
        found[f"rank_{one}_{other}"] = float(left.corr(right, method="spearman"))
    return found


def _share(truths: Any) -> float:
    return float(np.mean(np.asarray(truths, dtype=np.bool_)))


def _is(pattern: re.Pattern[str]) -> Any:
    return lambda text: pattern.fullmatch(text) is not None


def _days(values: pd.Series) -> pd.Series:
    return pd.to_datetime(values.astype(str).str[:10], errors="coerce", format="%Y-%m-%d")


def _numbers(values: pd.Series) -> pd.Series:
    return pd.to_numeric(values, errors="coerce")


def run(
    epsilon: float, seed: int, method: str, visits: int, keep: str | None, schema: Schema | None = None
) -> dict[str, Any]:
    """One run from the raw file to figures."""
    with tempfile.TemporaryDirectory() as folder:
        real, out = Path(folder) / "visits.csv", Path(keep or folder) / f"synthetic-{epsilon:g}.csv"
        make_visits(visits, round(visits * PATIENTS / VISITS)).to_csv(real, index=False)
        start = time.perf_counter()
        synthesis = Synthesizer(method, epsilon=epsilon, unit=Unit("patient", CAP), schema=schema).fit(real)
        write_table(synthesis.sample_arrow(rng=seed), out, "")
        seconds = time.perf_counter() - start
        synthetic, truth = (pd.read_csv(path, dtype=str, keep_default_na=False) for path in (out, real))
        if keep:
            synthesis.save(Path(keep) / f"hospital-{epsilon:g}.margrave")
    scores = {"synthetic": score_rows(synthetic, truth), "real": score_rows(truth, truth)}
    facts = {"epsilon": epsilon, "seed": seed, "method": method, "bounds": schema is not None}
    return {**facts, "seconds": round(seconds, 1), **scores}


def main() -> None:
    """Run, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[3.0, 1.0])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--visits", type=int, default=VISITS)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--bounds", action="store_true", help="declare the bounds of numbers and dates")
    parser.add_argument("--keep", help="a folder for the release and the synthetic rows")
    parser.add_argument("--save", action="store_true", help=f"append the outcomes to {RESULTS.name}")
    asked = parser.parse_args()
    for epsilon in asked.epsilon:
        for seed in range(asked.repeats):
            schema = BOUNDS if asked.bounds else None
            found = run(epsilon, seed, asked.method, asked.visits, asked.keep, schema)
            for name, value in found["synthetic"].items():
                print(f"{name:32s} {value:12.4g}   real {found['real'][name]:12.4g}")
            print(f"epsilon {epsilon:g}, {found['seconds']} s\n", flush=True)
            if asked.save:
                found |= {"machine": platform.machine(), "python": platform.python_version()}
                with RESULTS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
