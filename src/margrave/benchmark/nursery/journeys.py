"""Order in time: what no real row breaks, in dates and time stamps; and visits of owners who have several."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.benchmark.nursery.table import (
    Columns,
    Draws,
    Floats,
    NurseryTable,
    Whole,
    logistic,
    name_codes,
    zipf_weights,
)

STAYS = "hospital visits"
PARCELS = "order in time"


def make_stays(rows: int, draws: Draws, *, patients: int, wards: int, clock: bool, seasonal: bool) -> Columns:
    """Hospital stays: born <= admitted <= first treated <= discharged <= billed; charges nearly what is paid.

    Args:
        rows: Number of stays.
        draws: The stream.
        patients: Owners; 0 for a table of which each row is a patient's only one.
        wards: With stays and charges of their own.
        clock: Whether arrivals are time stamps as well, of the day of admission.
        seasonal: Whether admissions lean on the season and the weekday.
    """
    days_of, cost_of = draws.between(0.5, 2.2, wards), draws.normal(wards)
    old_of = draws.between(-15, 25, wards)

    owner = np.sort(draws.codes(draws.gamma(0.8, patients), rows)) if patients else np.arange(rows)
    people = int(owner.max(initial=0)) + 1
    frailty = draws.normal(people)[owner]
    ward = draws.codes_by_row(np.outer(frailty, cost_of) * 0.5 + np.log(zipf_weights(wards, 0.7)))
    admitted = _draw_days(rows, draws, seasonal)
    age = np.clip(50 + 12 * draws.normal(people)[owner] + 8 * frailty + old_of[ward], 0, 99)
    length = np.floor(np.exp(days_of[ward] + 0.3 * frailty + 0.7 * draws.normal(rows)) - 0.5)
    length = np.clip(length, 0, 120).astype(np.int64)
    wait = np.minimum(draws.geometric(0.6, rows), length)
    discharged = admitted + length.astype("timedelta64[D]")
    columns: Columns = {
        "admitted": admitted,
        "billed": discharged + (1 + draws.geometric(0.08, rows)).astype("timedelta64[D]"),
        "born": admitted - np.round(age * 365.25 + 365 * draws.uniform(rows)).astype("timedelta64[D]"),
        "discharged": discharged,
        "treated": admitted + wait.astype("timedelta64[D]"),
        "ward": name_codes(ward, "ward", wards),
    }
    columns |= _charge(rows, draws, length, cost_of[ward], frailty)
    if patients:
        columns["patient"] = np.char.mod("P%06d", owner)
    if clock:
        minutes = 1 + draws.below(1_438, rows)
        columns["arrived"] = admitted.astype("datetime64[s]") + 60 * minutes.astype("timedelta64[s]")
    return columns


def _draw_days(rows: int, draws: Draws, seasonal: bool) -> NDArray[np.datetime64]:
    days = np.arange(1_096)
    weights = np.ones(days.size)
    if seasonal:
        weights = 1 + 0.5 * np.cos(2 * np.pi * days / 365.25) - 0.6 * (days % 7 >= 5)
    first = np.datetime64("2017-01-02")
    return np.asarray(first + draws.codes(weights, rows).astype("timedelta64[D]"))


def _charge(rows: int, draws: Draws, length: Whole, cost: Floats, frailty: Floats) -> Columns:
    """Amounts, who pays, how it ended, and two numbers that a part of the rows has."""
    charge = np.round(np.exp(6.5 + 0.5 * cost + 0.2 * draws.normal(rows)) * (1 + length), 2)
    flat = np.ones(rows)
    payer_scores = np.column_stack([flat, 0.8 * frailty, -0.5 * flat, -np.log1p(length)])
    payer = draws.codes_by_row(payer_scores)
    share = np.array([0.95, 0.8, 0.9, 1.0])[payer]
    pressure = np.round(120 + 8 * frailty + 14 * draws.normal(rows))
    return {
        "charge": charge,
        "died": draws.flags(logistic(frailty - 4.5 + 0.03 * length), rows),
        "length": length,
        "paid": np.round(charge * share * (1 - 0.03 * draws.uniform(rows)), 2),
        "payer": np.array(["public", "private", "employer", "self"])[payer],
        "pressure": np.ma.masked_array(pressure.astype(np.int64), draws.flags(0.3 - 0.02 * length, rows)),
    }


def make_parcels(rows: int, draws: Draws, *, depots: int) -> Columns:
    """Parcels: ordered < packed < sent < arrived <= signed, to the second; `due` is some days later."""
    place = draws.between(0, 100, depots, 2)
    first, last = draws.codes(zipf_weights(depots, 0.4), rows), draws.codes(zipf_weights(depots, 0.4), rows)
    distance = np.hypot(*(place[first] - place[last]).T)
    express = draws.flags(0.25, rows)
    ordered = np.datetime64("2021-03-01T00:00:00") + draws.below(184 * 86_400, rows).astype("timedelta64[s]")
    hours = {
        "packed": 0.5 + draws.gamma(2.0, rows) * np.where(express, 1, 4),
        "sent": 0.2 + draws.exponential(rows) * np.where(express, 2, 8),
        "arrived": 1 + distance * draws.between(0.1, 0.4, rows) * np.where(express, 0.5, 1),
        "signed": np.where(draws.flags(0.5, rows), 0, draws.exponential(rows) * 5),
    }
    columns: Columns = {"ordered": ordered}
    moment = ordered
    for name, took in hours.items():
        moment = moment + np.round(3_600 * took).astype("timedelta64[s]")
        columns[name] = moment
    days = np.where(express, 1, 2 + (distance > 40) + (distance > 90)).astype("timedelta64[D]")
    due = ordered.astype("datetime64[D]") + days
    weight = np.round(np.exp(0.3 + 1.1 * draws.normal(rows)), 2)
    return columns | {
        "depot": name_codes(first, "depot", depots),
        "destination": name_codes(last, "depot", depots),
        "due": due,
        "express": express,
        "late": columns["arrived"].astype("datetime64[D]") > due,
        "price": np.round(3.5 + 1.2 * weight + 0.03 * distance + 6 * express, 2),
        "weight": weight,
    }


JOURNEYS = (
    NurseryTable(
        *("stays-a", STAYS, "choosing", make_stays, 12_000, 81),
        "dates in order: born, admitted, treated, discharged, billed; charge and paid nearly one",
        parameters={"patients": 0, "wards": 8, "clock": True, "seasonal": False},
        target="died",
        cut="quantile",
    ),
    NurseryTable(
        *("visits-a", STAYS, "choosing", make_stays, 20_000, 82),
        "as stays-a, of 9,000 patients, who are protected with at most 4 visits each",
        parameters={"patients": 9_000, "wards": 15, "clock": False, "seasonal": True},
        target="died",
        owner="patient",
        max_rows=4,
        cut="quantile",
    ),
    NurseryTable(
        *("stays-b", STAYS, "reporting", make_stays, 30_000, 83),
        "as stays-a, with 40 wards, seasons and weekdays",
        parameters={"patients": 0, "wards": 40, "clock": True, "seasonal": True},
        target="died",
        cut="quantile",
    ),
    NurseryTable(
        *("visits-b", STAYS, "reporting", make_stays, 34_000, 84),
        "34,000 visits of 16,000 patients, who are protected with at most 4 visits each",
        parameters={"patients": 16_000, "wards": 25, "clock": True, "seasonal": True},
        target="died",
        owner="patient",
        max_rows=4,
        cut="quantile",
    ),
    NurseryTable(
        *("parcels-a", PARCELS, "reporting", make_parcels, 25_000, 85),
        "five time stamps in order, and days that they decide; no table of this family is for choosing",
        parameters={"depots": 30},
        target="late",
        cut="quantile",
    ),
)
