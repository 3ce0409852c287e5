"""Tables that ship with margrave: Adult, a small real one, and a made-up hospital of any size.

Adult comes first: its files stand in this folder, and their source and licence are in ADULT.md. The hospital
is drawn from a seed: visits of patients, in the kinds of columns that private tables have.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["adult_path", "load_adult", "make_hospital"]


SPLITS = {"train": "adult.csv.gz", "test": "adult_test.csv.gz"}
MISSING = ("", "?")
"""The texts that mean missing in Adult."""
NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")


def adult_path(split: str = "train") -> Path:
    """The path of the CSV file: "train" has 32,561 rows, "test" 16,281; 15 columns each.

    Raises:
        InputError: There is no such split.
    """
    if split not in SPLITS:
        raise InputError(invalid("split", f"one of {list(SPLITS)}", "Pick one.", got=split))
    return Path(__file__).with_name(SPLITS[split])


def load_adult(split: str = "train") -> pa.Table:
    """Adult as an Arrow table: six columns of whole numbers, nine of text, "?" read as missing.

    Raises:
        InputError: There is no such split.

    Example:
        >>> load_adult().shape
        (32561, 15)
    """
    from pyarrow import csv, int64, string

    header: Any = csv.open_csv(adult_path(split)).schema.names
    types = {name: int64() if name in NUMBERS else string() for name in header}
    return csv.read_csv(
        adult_path(split),
        convert_options=csv.ConvertOptions(
            column_types=types, null_values=list(MISSING), strings_can_be_null=True
        ),
    )


VISITS = 30_000
"""Rows of the example where the caller does not say how many."""
PATIENT_SHARE = 0.4
"""Patients per visit: 12,000 patients have 30,000 visits."""
FIRST_DAY = np.datetime64("2023-01-01", "D")
DAYS = 730
"""Days over which visits are spread, two years."""

COUNTIES = ("Ashford", "Birchen", "Calder", "Dunmore", "Elmside")
INSURANCE = ("public", "private", "veterans", "none")
SEVERITY = ("minor", "moderate", "major", "extreme")
CHAPTERS = {
    "medicine": "JKEN",
    "surgery": "STKM",
    "cardiology": "IIIR",
    "obstetrics": "OOOZ",
    "paediatrics": "JABP",
    "psychiatry": "FFFG",
}
"""First letters of the diagnosis codes of a ward; a letter that stands several times is so much likelier."""
STAY = {
    "medicine": 4.0,
    "surgery": 5.0,
    "cardiology": 4.5,
    "obstetrics": 2.5,
    "paediatrics": 2.0,
    "psychiatry": 9.0,
}
"""Mean days of a stay."""

Values = NDArray[Any]


def make_hospital(rows: int = VISITS, *, seed: int = 0) -> pa.Table:
    """Make a table of hospital visits; every row is drawn by a seeded generator and describes nobody.

    The table has 22 columns and what makes real tables hard: patients with several visits, a unique key, zip
    codes with leading zeros, some thousand diagnosis codes, amounts with a long tail, missing values, and
    columns that follow from each other. A stay ends on or after the day it began, ``paid + owed = charge`` to
    the cent, ``zip`` determines ``county``, no man is in obstetrics, and all in paediatrics are under 18.

    Args:
        rows: Number of visits, at least 1. There are about four patients for ten visits.
        seed: Seed of the generator, at least 0. The same numbers give the same table.

    Returns:
        An Arrow table of shape [rows, 22], by time of arrival.

    Raises:
        InputError: rows is below 1 or seed is below 0.

    Example:
        >>> make_hospital(1000).shape
        (1000, 22)
    """
    import pyarrow as pa

    if rows < 1:
        raise InputError(invalid("rows", "at least 1", "Try rows=1000.", got=rows))
    if seed < 0:
        raise InputError(invalid("seed", "at least 0", "Try seed=0.", got=seed))
    rng = np.random.default_rng(seed)
    patients = _make_patients(max(1, round(rows * PATIENT_SHARE)), rng)
    who = _draw_owners(rows, len(patients["patient"]), rng)
    visits = {name: values[who] for name, values in patients.items()}
    visits |= _make_visits(visits, rng)
    # A visit is numbered by its arrival, so its key says nothing that the time does not say.
    order = np.argsort(visits["arrived"], kind="stable")
    visits = {name: values[order] for name, values in visits.items()}
    visits["visit"] = np.array([f"V{place:07d}" for place in range(1, rows + 1)])
    gaps = {name: rng.random(rows) < share for name, share in MISSING_SHARE.items()}
    return pa.table({name: _arrow_column(name, visits[name], gaps.get(name)) for name in NAMES})


NAMES = (
    *("visit", "patient", "sex", "born", "age", "zip", "county", "insurance", "admission", "arrived"),
    *("admitted", "discharged", "ward", "diagnosis", "severity", "systolic", "weight", "smoker"),
    *("charge", "paid", "owed", "died"),
)
"""Columns of the table, in order."""
AMOUNTS = ("charge", "paid", "owed")
MISSING_SHARE = {"systolic": 0.12, "weight": 0.3, "smoker": 0.08}
"""Share of rows without a value, drawn apart from all else."""


def _draw_owners(rows: int, patients: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The patient of each visit, shape [rows]: all patients have one, few have many."""
    if rows <= patients:
        return np.arange(rows)
    illness = rng.gamma(0.6, 1.0, patients) + 0.05
    more = rng.choice(patients, rows - patients, p=illness / illness.sum())
    return np.concatenate([np.arange(patients), more])


def _make_patients(count: int, rng: np.random.Generator) -> dict[str, Values]:
    """What stays the same over the visits of a patient; every array has shape [patients]."""
    age = np.where(rng.random(count) < 0.18, rng.uniform(0, 18, count), rng.normal(52, 19, count))
    born = FIRST_DAY - np.round(np.clip(age, 0, 99) * 365.25).astype("timedelta64[D]")
    county = rng.choice(len(COUNTIES), count, p=[0.38, 0.25, 0.18, 0.12, 0.07])
    area = np.floor(12 * rng.random(count) ** 2).astype(np.int64)
    return {
        "patient": 100_000 + rng.permutation(count),
        "sex": np.where(rng.random(count) < 0.53, "F", "M"),
        "born": born,
        "county": np.array(COUNTIES)[county],
        "zip": np.array(
            [f"{1500 + 90 * place + 7 * step:05d}" for place, step in zip(county, area, strict=True)]
        ),
        "insurance": rng.choice(INSURANCE, count, p=[0.55, 0.3, 0.06, 0.09]),
        "smoker": rng.random(count) < 0.22,
        "weight": np.round(np.clip(rng.normal(76, 15, count), 3, 180), 1),
    }


def _make_visits(patient: dict[str, Values], rng: np.random.Generator) -> dict[str, Values]:
    """What is drawn for each visit, given its patient; every array has shape [rows]."""
    rows = len(patient["sex"])
    arrived = _draw_arrivals(patient["born"], rng)
    age = ((arrived.astype("datetime64[D]") - patient["born"]).astype(np.int64) / 365.25).astype(np.int64)
    ward = _draw_wards(patient["sex"], age, rng)
    severity = np.minimum((rng.random(rows) ** 2.2 * 3.0 + age / 90).astype(np.int64), 3)
    waits = rng.random(rows) < 0.04
    admitted = arrived.astype("datetime64[D]") + waits.astype("timedelta64[D]")
    stay = rng.poisson(np.array([STAY[name] for name in ward]) * (0.4 + 0.5 * severity))
    spread = rng.lognormal(0.0, 0.75, rows)
    cents = np.round(100 * (900 + (650 + 420 * severity) * (stay + 0.5)) * spread).astype(np.int64)
    share = {"public": 0.82, "private": 0.93, "veterans": 1.0, "none": 0.25}
    covered = np.array([share[name] for name in patient["insurance"]])
    paid = np.round(cents * covered * np.where(rng.random(rows) < 0.7, 1.0, rng.random(rows))).astype(
        np.int64
    )
    small = patient["weight"] * np.clip(0.05 + age / 18, 0.05, 1.0)
    return {
        "age": age,
        "admission": np.where(rng.random(rows) < 0.45, "emergency", np.where(waits, "planned", "referral")),
        "arrived": arrived,
        "admitted": admitted,
        "discharged": admitted + stay.astype("timedelta64[D]"),
        "ward": ward,
        "diagnosis": _draw_diagnoses(ward, rng),
        "severity": np.array(SEVERITY)[severity],
        "systolic": np.round(rng.normal(108 + 0.35 * age + 4 * severity, 14)).astype(np.int64),
        "weight": np.round(small, 1),
        "charge": cents,
        "paid": paid,
        "owed": cents - paid,
        "died": rng.random(rows) < 0.002 + 0.03 * (severity == 3) * (age > 60),
    }


def _draw_arrivals(born: Values, rng: np.random.Generator) -> Values:
    """Time stamps to the minute, fewer by night and never before the birth, shape [rows]."""
    day = FIRST_DAY + rng.integers(0, DAYS, len(born)).astype("timedelta64[D]")
    hour = np.clip(rng.normal(13.5, 4.5, len(born)), 0, 23.99)
    first = np.maximum(day, born).astype("datetime64[m]")
    return np.asarray(first + np.floor(hour * 60).astype("timedelta64[m]"))


def _draw_wards(sex: Values, age: Values, rng: np.random.Generator) -> Values:
    ward = rng.choice(["medicine", "surgery", "cardiology", "psychiatry"], len(sex), p=[0.42, 0.3, 0.2, 0.08])
    ward = np.where((age < 18) & (rng.random(len(sex)) < 0.85), "paediatrics", ward)
    young = (sex == "F") & (age >= 18) & (age < 46)
    return np.where(young & (rng.random(len(sex)) < 0.4), "obstetrics", ward)


def _draw_diagnoses(ward: Values, rng: np.random.Generator) -> Values:
    """Codes such as I21.4, shape [rows]: a few are frequent, hundreds are rare."""
    letter = rng.integers(0, 4, len(ward))
    number = np.floor(16 * rng.random(len(ward)) ** 3).astype(np.int64)
    digit = np.floor(4 * rng.random(len(ward)) ** 2).astype(np.int64)
    parts = zip(ward, letter, number, digit, strict=True)
    return np.array([f"{CHAPTERS[name][at]}{code + 10}.{last}" for name, at, code, last in parts])


def _arrow_column(name: str, values: Values, gaps: NDArray[np.bool_] | None) -> Any:
    """A column in its storage type: amounts, which are drawn in cents, become decimals of two places."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if name in AMOUNTS:
        cents = pa.array(values).cast(pa.decimal128(19, 0))
        exact = pc.multiply(cents, pa.scalar("0.01").cast(pa.decimal128(3, 2)))
        return exact.cast(pa.decimal128(14, 2))
    return pa.array(values.astype("datetime64[s]") if name == "arrived" else values, mask=gaps)
