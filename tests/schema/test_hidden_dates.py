"""The format of dates where noise hides each class of votes alone."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from margrave.measure.discovery.kinds import find_evident
from margrave.schema.storage.date_votes import DATE_VOTES, choose_date_format, vote_on_dates
from margrave.schema.storage.text import date_format

FORMATS = ("%d.%m.%Y", "%m/%d/%Y", "%-m/%-d/%Y", "%d-%m-%y", "%Y/%m/%d")


def count_votes(form: str, rows: int, rng: np.random.Generator) -> np.ndarray:
    first = datetime.date(1970, 1, 1)
    days = [first + datetime.timedelta(days=int(day)) for day in rng.integers(0, 18_000, rows)]
    texts = pa.array([date_format(form, "format").write(day.isoformat()) for day in days])
    places = vote_on_dates(texts)
    return np.bincount(places[places >= 0], minlength=len(DATE_VOTES))


def test_formats_are_read_from_all_of_their_votes_together() -> None:
    """1,000 dates under a noise of 150, which hides every class: .05 are misread; .2 if all count alike."""
    rng, sigma = np.random.default_rng(3), 150.0
    evident = find_evident(sigma, len(DATE_VOTES))
    wrong = []
    for form in FORMATS:
        votes = count_votes(form, 1000, rng)
        noisy = [votes + rng.normal(0.0, sigma, len(votes)) for _ in range(80)]
        hidden = [one for one in noisy if not (one > evident).any()]
        assert len(hidden) > 20
        read = [choose_date_format(one, evident).replace("%-", "%") for one in hidden]
        wrong += [one != form.replace("%-", "%") for one in read]
    assert np.mean(wrong) < 0.1


@pytest.mark.parametrize("form", [*FORMATS, "%d-%b-%Y", "%-d %B %Y", "%^b %d, %Y"])
def test_a_little_noise_leaves_the_format(form: str) -> None:
    rng = np.random.default_rng(4)
    votes = count_votes(form, 1000, rng) + rng.normal(0.0, 1.0, len(DATE_VOTES))
    assert choose_date_format(votes, 1200.0) == form  # nothing counts as evident
    assert choose_date_format(votes, 6.0) == form


def test_only_formats_that_are_read_are_likely() -> None:
    """Days such as 1.2.24 are no votes, as other numbers are written so."""
    rng = np.random.default_rng(6)
    votes = np.where(count_votes("%-d.%-m.%y", 3000, rng) > 0, 600.0, 0.0)
    assert choose_date_format(votes, 1200.0) in ("%d.%m.%y", "%m.%d.%y")


def test_names_of_months_have_to_lead() -> None:
    rng = np.random.default_rng(5)
    digits, named = (count_votes(form, 1000, rng) for form in ("%m/%d/%Y", "%d-%b-%Y"))
    named = named * (np.linalg.norm(digits) / np.linalg.norm(named))
    assert choose_date_format(digits + 1.2 * named, 1200.0) == "%m/%d/%Y"
    assert choose_date_format(digits + 1.9 * named, 1200.0) == "%d-%b-%Y"
