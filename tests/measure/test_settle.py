"""What a noisy profile decides: the kind of a text column, and what is missing."""

from __future__ import annotations

import numpy as np
import pytest

from margrave.errors import SchemaError
from margrave.measure.discovery.kinds import settle_kind
from margrave.schema.columns import Boolean, Categorical, Column, Date, Identifier, Integer, Real, Unknown
from margrave.schema.profile import PROFILE

SIGMA = 10.0


def profile(**counts: float) -> np.ndarray:
    return np.array([counts.get(name, 0.0) for name in PROFILE])


@pytest.mark.parametrize(
    ("counts", "kind"),
    [
        ({"whole": 1000}, "integer"),
        ({"whole": 1000, "number": 35}, "integer"),
        ({"whole": 1000, "number": 45}, "real"),
        ({"number": 1000, "missing": 500}, "real"),
        ({"written month": 1000, "text": 15}, "date"),
        ({"written month": 700, "number": 300}, "date"),
        ({"written month": 300, "number": 700}, "categorical"),
        ({"written month": 700, "date": 300}, "categorical"),
        ({"written month": 700, "whole": 300}, "categorical"),
        ({"date": 1000}, "date"),
        ({"date": 1000, "text": 30}, "date"),
        ({"date": 1000, "text": 300}, "categorical"),
        ({"moment": 1000, "date": 200}, "moment"),
        ({"date": 1000, "moment": 20}, "date"),
        ({"time": 1000}, "time"),
        ({"time": 1000, "whole": 500}, "categorical"),
        ({"date": 1000, "whole": 1000}, "categorical"),
        ({"text": 1000}, "categorical"),
        ({"whole": 900, "padded": 60}, "categorical"),
        ({"padded": 900}, "categorical"),
        ({"whole": 90_000, "padded": 60}, "integer"),
        ({"whole": 1000, "mark": 300}, "integer"),
        ({"date": 1000, "mark": 300}, "date"),
        ({"whole": 1000, "censored": 300}, "integer"),
        ({"number": 1000, "censored": 900}, "real"),
        ({"number": 1000, "censored": 200, "text": 200}, "real"),
        ({"written number": 1000, "censored": 300}, "integer"),
        ({"number": 1000, "censored": 1100}, "categorical"),
        ({"censored": 1000}, "categorical"),
        ({"censored": 500, "text": 500}, "categorical"),
        ({"date": 1000, "censored": 300}, "categorical"),
        ({"True": 1000, "censored": 300}, "categorical"),
        ({"pointed": 1000}, "integer"),
        ({"pointed": 500, "number": 500}, "real"),
        ({"True": 1000}, "boolean"),
        ({"true": 1000, "mark": 300}, "boolean"),
        ({"True": 1000, "text": 300}, "categorical"),
        ({"True": 9000, "whole": 30, "number": 30, "pointed": 30, "padded": 30}, "boolean"),
        ({}, "integer"),
    ],
)
def test_the_kind_is_that_of_all_but_a_few(counts: dict[str, float], kind: str) -> None:
    assert settle_kind(Unknown(name="x"), profile(**counts), SIGMA).kind == kind


@pytest.mark.parametrize(
    ("counts", "kind"),
    [
        ({"text": 39, "whole": 30}, "categorical"),
        ({"text": 30, "whole": 39}, "integer"),
        ({"text": 30, "pointed": 39}, "integer"),
        ({"text": 30, "number": 39}, "real"),
        ({"number": 39, "whole": 38, "pointed": 38}, "real"),
        ({"number": 38, "whole": 39}, "integer"),
        ({"number": 38, "pointed": 39}, "integer"),
        ({"text": 20, "missing": 39, "mark": 39}, "categorical"),
        ({"text": 39, "missing": 41}, "integer"),
    ],
)
def test_where_noise_hides_all_classes_text_has_to_outnumber_numbers(
    counts: dict[str, float], kind: str
) -> None:
    """No count passes four deviations of noise."""
    settled = settle_kind(Unknown(name="x"), profile(**counts), SIGMA)
    assert settled.kind == kind
    assert settle_kind(Unknown(name="x", textual=True), profile(**counts), SIGMA).kind == "categorical"


@pytest.mark.parametrize(
    ("counts", "kind"),
    [
        ({"whole": 1000}, "categorical"),
        ({"date": 1000}, "date"),
        ({}, "categorical"),
        ({"time": 9e3}, "time"),
    ],
)
def test_text_of_digits_stays_text_in_typed_storage(counts: dict[str, float], kind: str) -> None:
    assert settle_kind(Unknown(name="x", textual=True), profile(**counts), SIGMA).kind == kind


def test_many_small_slips_are_no_kind() -> None:
    """Each of three other kinds is below the bar, all together are not."""
    mixed = profile(whole=10_000, date=190, time=190, text=190)
    assert settle_kind(Unknown(name="x"), mixed, SIGMA).kind == "categorical"


def test_numbers_without_fractions_are_whole() -> None:
    open_column = Real(name="x", bins=5, binning="quantile")
    whole = settle_kind(open_column, profile(whole=1000), SIGMA)
    assert isinstance(whole, Integer)
    assert (whole.bins, whole.binning, whole.strict) == (5, "quantile", False)
    assert settle_kind(open_column, profile(whole=1000, number=100), SIGMA) is open_column
    assert settle_kind(open_column, profile(whole=20, number=30), SIGMA) is open_column
    assert isinstance(settle_kind(open_column, profile(whole=30, number=20), SIGMA), Integer)
    bounded = Real(name="x", lower=0)
    assert settle_kind(bounded, profile(whole=1000), SIGMA) is bounded


def test_what_is_told_of_missing_values_and_spelling() -> None:
    truths = settle_kind(Unknown(name="x"), profile(TRUE=1000, true=90, mark=50), SIGMA)
    assert isinstance(truths, Boolean)
    assert (truths.spelling, truths.missing, truths.known) == ("TRUE", True, True)
    declared = settle_kind(Boolean(name="x"), profile(**{"True": 1000}), SIGMA)
    assert isinstance(declared, Boolean)
    assert (declared.spelling, declared.missing) == ("True", False)
    marked = settle_kind(Unknown(name="x"), profile(whole=1000, mark=50, missing=40), SIGMA)
    assert marked.mark == "NA"
    assert settle_kind(Unknown(name="x"), profile(whole=1000, mark=50, missing=90), SIGMA).mark == ""
    assert (
        settle_kind(Integer(name="x", lower=0, upper=9), profile(whole=1000, mark=50), SIGMA).missing is True
    )


@pytest.mark.parametrize(
    "column", [Integer(name="x", lower=0, upper=9), Categorical(name="x", values=("a",))]
)
def test_missing_values_have_to_be_evident(column: Column) -> None:
    assert settle_kind(column, profile(whole=1000, missing=40), SIGMA).missing is True
    assert settle_kind(column, profile(whole=1000, missing=20), SIGMA).missing is False


def test_an_identifier_has_no_profile() -> None:
    with pytest.raises(SchemaError, match="of a known kind"):
        settle_kind(Identifier(name="x"), profile(), SIGMA)


@pytest.mark.parametrize(("written", "missing"), [("", True), ("%d %b %Y", False)])
def test_text_is_missing_where_numbers_and_dates_are_written_as_usual(written: str, missing: bool) -> None:
    """Between declared bins. Texts of a declared format may be text to the profile, as months by name are."""
    column = Date(name="x", edges=("2020-01-01", "2021-01-01"), format=written, strict=False)
    assert settle_kind(column, profile(date=1000, text=500), SIGMA).missing is missing
    assert settle_kind(column, profile(date=1000, mark=500), SIGMA).missing is True
    assert settle_kind(column, profile(date=1000), SIGMA).missing is False


@pytest.mark.parametrize(
    ("counts", "kind"),
    [
        ({"number": 1000, "text": 240}, "real"),
        ({"number": 600, "whole": 400, "text": 100, "missing": 50}, "real"),
        ({"number": 1000, "text": 260}, "categorical"),
        ({"whole": 1000, "text": 100}, "categorical"),
        ({"number": 1000, "padded": 50, "text": 100}, "categorical"),
        ({"number": 1000, "text": 100, "date": 100}, "categorical"),
    ],
)
def test_text_beside_numbers_with_decimals_is_missing(counts: dict[str, float], kind: str) -> None:
    """Results of a laboratory hold "pending" and "<0.5"; as codes their numbers would be cut short."""
    assert settle_kind(Unknown(name="x"), profile(**counts), SIGMA).kind == kind


def test_a_column_of_nearly_no_values_is_one_of_texts_only_if_these_seem_more_than_numbers() -> None:
    """A number's column with "(other)" in a few rows could not be computed with."""
    found = settle_kind(Unknown(name="x"), profile(missing=10_000, text=30, whole=29), SIGMA)
    assert found == Categorical(name="x", values=(), other="(other)", missing=True, strict=False)
    assert settle_kind(Unknown(name="x"), profile(missing=10_000, text=29, whole=30), SIGMA).kind == "integer"
    assert settle_kind(Unknown(name="x"), profile(missing=10_000, number=30), SIGMA).kind == "real"
    assert settle_kind(Unknown(name="x"), profile(missing=10_000, whole=300), SIGMA).kind == "integer"
    assert settle_kind(Unknown(name="x"), profile(missing=100_000, date=900), SIGMA).kind == "date"
    assert settle_kind(Unknown(name="x"), profile(missing=1_000, whole=39), SIGMA).kind == "integer"
    assert settle_kind(Unknown(name="x"), profile(missing=30, whole=30), SIGMA).kind == "integer"
    told = Unknown(name="x", missing=False)
    assert settle_kind(told, profile(missing=10_000), SIGMA).kind == "integer"
