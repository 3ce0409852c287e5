from __future__ import annotations

import base64
import dataclasses
import hashlib
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from adult_like import Mixture
from page_checks import check
from scipy.special import ndtr, ndtri

from margrave.cli.released import column_notes, describe_found_rules, describe_release
from margrave.errors import InputError
from margrave.models._determined import Determined, DeterminedModel
from margrave.models.independent import Independent
from margrave.privacy.accounting.accountants import event_rho
from margrave.privacy.accounting.events import GaussianEvent, describe_appraisal
from margrave.privacy.unit import Neighbours, Unit
from margrave.release import Guarantee, NoisyMarginal, Release
from margrave.report import render
from margrave.report.pictures import extent, grid
from margrave.schema.columns import Categorical, Date, Identifier, Integer, Real, Relative
from margrave.schema.constraints.rules import DatePart
from margrave.schema.constraints.structural import SENTENCES
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

Made = tuple[Release, Mixture, Encoded, Encoded]


def small(**changes: object) -> Release:
    """A release of two columns, one of which was never measured."""
    a = Categorical(name="a", values=("x", "y"), missing=False)
    schema = Schema((a, Integer(name="b", lower=0, upper=3, missing=True)))
    base = Release(
        schema,
        (NoisyMarginal(("a",), np.array([60.0, 40.0]), 5.0),),
        Guarantee(1.0, 1e-5, 0.02, Neighbours(), "zcdp"),
        (),
        "fixed",
        "independent",
        {},
        100.0,
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", [True, False])
@pytest.mark.parametrize("rows", [True, False])
def test_every_combination_is_a_sound_page(made: Made, model: bool, rows: bool) -> None:
    release, fitted, synthetic, _ = made
    page = check(render(release, fitted if model else None, synthetic=synthetic if rows else None))
    headings = page.of("section", "h2")
    assert headings[:3] == ["Summary", "Questions and answers", "The guarantee"]
    assert headings[3:5] == ["About this release", "What became of each column"]
    assert headings[5:8] == ["Usefulness, column by column", "The ledger", "The schema"]
    assert headings[8:] == ["Columns", "Pairs of columns", "Quality of the fit", "Definitions"]
    assert page.of("header", "h1") == ["Report of a private release"]


def test_the_same_arguments_give_the_same_page(made: Made) -> None:
    release, model, synthetic, _ = made
    assert render(release, model, synthetic=synthetic) == render(release, model, synthetic=synthetic)


def test_the_guarantee_is_stated_exactly(made: Made) -> None:
    page = check(render(made[0], made[1], title="Census & more"))
    assert page.of("header", "h1") == ["Census & more"]
    assert "ε = 1, δ = 1e-6" in page.text
    assert "1 in 1,000,000" in page.text
    assert "one row being present or absent" in page.text
    # What the Gaussian mechanism of this cost reaches, and what epsilon and delta alone allow.
    reached = 100 * ndtr(ndtri(0.05) + math.sqrt(2 * made[0].guarantee.rho))
    assert reached <= _stated_power(page.text) <= 100 * (math.e * 0.05 + 1e-6) + 0.1


def _stated_power(text: str) -> float:
    """The percentage that the page says an attack finds at most."""
    found = re.search(r"at most ([0-9.]+)% of the cases in which it is yes", text)
    assert found is not None
    return float(found[1])


def test_the_power_of_an_attack_is_bounded_from_both_sides() -> None:
    guarantee = Guarantee(8.0, 1e-6, 1.0, Neighbours(), "zcdp")
    stated = _stated_power(check(render(small(guarantee=guarantee), None)).text)
    assert 100 * ndtr(ndtri(0.05) + math.sqrt(2.0)) <= stated
    assert stated < 100 * (1 - math.exp(-8) * (1 - 1e-6 - 0.05))


@pytest.mark.parametrize("epsilon", [0.05, 0.8, 1.5, 2.0, 4.1, 9.3])
def test_bounds_are_rounded_up_and_agree_with_what_a_plan_says(epsilon: float) -> None:
    guarantee = Guarantee(epsilon, 1e-9, epsilon**2 / 60, Neighbours(), "gdp")
    text = check(render(small(guarantee=guarantee), None)).text
    factor = re.search(r"more than ([0-9.,]+) times as likely", text)
    assert factor is not None
    assert math.exp(epsilon) <= float(factor[1].replace(",", "")) <= 1.01 * math.exp(epsilon)
    assert f"at most {_stated_power(text):g} % of those whom it is after" in guarantee.describe_odds()
    belief = re.search(r"at most ([0-9.]+)% of the cases that they then take", text)
    assert belief is not None
    assert f"at most {float(belief[1]):g} % of its alarms" in guarantee.describe_odds()


def test_owners_and_replacement_are_put_in_words() -> None:
    neighbours = Neighbours(Unit("person_id", 4), "replace_one")
    text = check(render(small(guarantee=Guarantee(1.0, 1e-5, 0.02, neighbours, "gdp")), None)).text
    assert "one owner in person_id , at most 4 rows each" in text
    assert "exchanged for any others (at most 4)" in text
    assert "Gaussian differential privacy (GDP) with μ = 0.2" in text
    assert "number of rows, which neighbouring tables share" not in text
    single = Guarantee(1.0, 1e-5, 0.02, Neighbours(Unit(), "replace_one"), "zcdp")
    text = check(render(small(guarantee=single), None)).text
    assert "number of rows, which neighbouring tables share" in text
    assert "Rows, public 100" in text


def test_the_ledger_adds_up_to_the_events(made: Made) -> None:
    release = made[0]
    page = check(render(release, None))
    spent = sum((event_rho(event) for event in release.events), Fraction(0))
    assert f"{float(spent):.6g} (" in page.text
    assert f"Answers {len(release.events)}" in page.text
    for event in release.events:
        assert event.what in page.text


def test_declared_and_discovered_columns_are_told_apart(made: Made) -> None:
    page = check(render(made[0], None))
    chips = [text for text in page.of("td", "span") if text in {"declared", "discovered"}]
    strict = [column.strict for column in made[0].schema.columns]
    assert chips == ["declared" if flag else "discovered" for flag in strict]


def test_pairs_that_were_not_measured_say_so(made: Made) -> None:
    release, model, *_ = made
    page = check(render(release, model))
    assert "30 of 105 pairs of columns were measured" in page.text
    assert page.text.count("not measured; the model's value is an inference") >= 75


def test_a_column_that_was_not_measured_says_so() -> None:
    page = check(render(small(), None))
    assert "not measured; the model's value is an inference" in page.text
    rows = Encoded(small().domain, (np.array([0, 1, 1], np.uint8), np.array([0, 3, 4], np.uint8)))
    page = check(render(small(), None, synthetic=rows))
    assert "not measured; the model's value is an inference" in page.text
    assert page.text.count("Distribution of") == 2


def test_no_synthetic_rows_is_a_page_without_them() -> None:
    empty = Encoded(small().domain, (np.zeros(0, np.uint8), np.zeros(0, np.uint8)))
    assert check(render(small(), None, synthetic=empty)).text == check(render(small(), None)).text


def test_rows_of_another_domain_are_refused(made: Made) -> None:
    with pytest.raises(InputError, match="synthetic must be of the release's domain"):
        render(small(), None, synthetic=made[2])


def test_one_column_has_no_pairs() -> None:
    alone = small(schema=Schema(small().schema.columns[:1]))
    assert "There is one column, so there are no pairs." in check(render(alone, None)).text


def test_nothing_but_its_own_style_and_script_may_run(made: Made) -> None:
    text = render(made[0], None)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    allowed = policy.group(1).replace("&#x27;", "'")
    assert allowed.startswith("default-src 'none'")
    for part in ("style", "script"):
        body = re.search(f"<{part}>(.*?)</{part}>", text, re.S)
        assert body is not None
        digest = base64.b64encode(hashlib.sha256(body.group(1).encode()).digest()).decode()
        assert f"{part}-src 'sha256-{digest}'" in allowed


def test_names_cannot_break_out_of_the_page() -> None:
    nasty = (
        '</script><img src=x onerror="1">',
        "a & b",
        "'\"`",
        "\u202egnp.exe",
        "",
        "   ",
        "\x00\x1b[31m",
        "x" * 500,
        "naïve 東京",
    )
    schema = Schema(
        tuple(Categorical(name=name + "!", values=nasty, other="</td>", missing=True) for name in nasty)
    )
    size = len(nasty) + 2
    tables = [NoisyMarginal((name,), np.linspace(1, 50, size), 2.0) for name in schema.names]
    tables.append(NoisyMarginal(schema.names[:2], np.ones((size, size)), 2.0))
    release = Release(schema, tuple(tables), small().guarantee, (), "<b>", "&", {}, 300.0,
                      dtypes={"a": "<i>"}, notes={"<u>": "</footer>"})  # fmt: skip
    rows = Encoded(schema.domain, tuple(np.zeros(5, np.uint8) for _ in nasty))
    text = render(release, None, synthetic=rows, title="</title><script>alert(1)</script>")
    page = check(text)
    assert {tag for tag, _ in page.elements}.isdisjoint({"img", "b", "i", "u"})
    assert sum(tag == "script" for tag, _ in page.elements) == 1
    assert "\x00" not in text
    assert "\x1b" not in text
    assert text.encode("utf-8")
    assert "“”" in page.text


def test_fifty_columns_of_ten_thousand_values_stay_small() -> None:
    values = tuple(f"a rather long category, number {code}" for code in range(10_000))
    schema = Schema(
        tuple(Categorical(name=f"column {place}", values=values, missing=False) for place in range(50))
    )
    rng = np.random.default_rng(0)
    tables = tuple(NoisyMarginal((name,), rng.normal(10, 30, 10_000), 30.0) for name in schema.names)
    release = dataclasses.replace(small(), schema=schema, measurements=tables, total=100_000.0)
    rows = Encoded(schema.domain, tuple(rng.integers(0, 10_000, 2000).astype(np.uint16) for _ in range(50)))
    text = render(release, None, synthetic=rows)
    assert len(text.encode()) < 5_000_000
    check(text)


def of_three_columns(**changes: object) -> Release:
    """A release of three columns, of which two pairs were measured."""
    columns = [Categorical(name=name, values=("x", "y"), missing=False) for name in "abc"]
    pairs = [NoisyMarginal(pair, np.full((2, 2), 25.0), 1.0) for pair in (("a", "b"), ("b", "c"))]
    return small(**{"schema": Schema(tuple(columns)), "measurements": tuple(pairs)} | changes)


def test_the_page_says_what_no_pair_shows() -> None:
    text = check(render(of_three_columns(), None)).text
    assert "that none of their pairs shows" in text
    assert "was not looked for, and the model does not have it" in text
    look = GaussianEvent(describe_appraisal([3] * 4, 2), 64, Fraction(256), True)
    text = check(render(of_three_columns(events=(look,)), None)).text
    least = (math.sqrt(2 * math.log(4)) + 1) * 16 / 4 / 200
    assert "looked for in 4 groups of three columns and not found in any" in text
    assert f"less than about {least:.3f}" in text
    triple = NoisyMarginal(("a", "b", "c"), np.full((2, 2, 2), 12.0), 1.0)
    made = of_three_columns(events=(look,), measurements=(triple,))
    assert "and found in 1 of them, each of which was measured" in check(render(made, None)).text
    made = of_three_columns(measurements=(triple,))
    assert "1 table of three or more columns measured" in check(render(made, None)).text
    look = GaussianEvent(describe_appraisal([2] * 4, 2), 64, Fraction(256), True)
    text = check(render(of_three_columns(events=(look,)), None)).text
    assert "was not looked for, and the model does not have it" in text


def test_relations_that_were_found_are_told() -> None:
    a = Integer(name="a", lower=0, upper=3, missing=False)
    own = Integer(name="b", lower=0, upper=9, missing=False)
    part = Integer(name="b", edges=(0, 1, 4), missing=False)
    b = Relative(name="b", base="a", own=own, part=part, missing=False, share=(0.987, 0.004))
    release = small(schema=Schema((a, b)), measurements=(NoisyMarginal(("b",), np.array([60.0, 40.0]), 5.0),))
    text = render(release, None)
    page = check(text)
    assert "Relations found" in page.of("section", "h2")
    assert "b is a plus 0 to 3" in text
    assert "98.7" in text
    assert "0.8" in text
    assert "Relations found" not in render(small(), None)
    assert "found under noise; values beyond" not in text
    text = render(dataclasses.replace(release, declared=("a",)), None)
    assert (
        "The bins of one column of numbers or dates were found under noise; values beyond them, about" in text
    )


@pytest.mark.parametrize("turned", [False, True])
def test_what_a_fit_saw_to_follow_from_another_column_is_told(turned: bool) -> None:
    county = Categorical(name="county", values=("k0", "k1"), missing=False)
    state = Categorical(name="state", values=("s0", "s1"), missing=False)
    release = small(
        schema=Schema((county, state)),
        measurements=(NoisyMarginal(("county",), np.array([60.0, 40.0]), 5.0),),
    )
    inner = Independent().fit(release.domain, release.measurements)
    assert "Relations found" not in check(render(release, inner)).of("section", "h2")
    # Whichever of the two changes, it is the state that follows.
    changed = ("county", "state") if turned else ("state", "county")
    model = DeterminedModel(inner, [Determined(*changed, np.eye(2), turned, (0.987, 0.004))])
    text = render(release, model)
    assert "Relations found" in check(text).of("section", "h2")
    assert "state follows from county" in text
    assert "98.7" in text
    assert describe_found_rules(model) == [
        "found         state follows from county in 98.7% (± 0.4%) of the rows, found and not promised"
    ]


def test_values_that_a_fit_saw_to_be_missing_together_are_told() -> None:
    arrived = Categorical(name="arrived", values=("a",), missing=True)
    late = Categorical(name="late", values=("l",), missing=True)
    release = small(
        schema=Schema((arrived, late)),
        measurements=(NoisyMarginal(("arrived",), np.array([60.0, 40.0]), 5.0),),
    )
    inner = Independent().fit(release.domain, release.measurements)
    found = Determined("late", "arrived", np.eye(2), held=(0.987, 0.004), sentence=SENTENCES[0])
    model = DeterminedModel(inner, [found])
    assert "late is missing where arrived is, and nowhere else" in render(release, model)
    (said,) = describe_found_rules(model)
    assert said.startswith("found         late is missing where arrived is, and nowhere else in 98.7%")


def test_numbers_that_dates_tell_are_told() -> None:
    seen = Date(name="seen", edges=(0, 100, 200), missing=False)
    month = Integer(name="month", lower=1, upper=12, bins=12, missing=False)
    schema = Schema((seen, month), (DatePart("month", "seen", "month", share=(0.987, 0.004)),))
    release = small(schema=schema, measurements=(NoisyMarginal(("seen",), np.array([60.0, 40.0]), 5.0),))
    text = render(release, None)
    assert "Relations found" in check(text).of("section", "h2")
    assert "month is the month of seen" in text
    assert "98.7" in text
    said = "found         month is the month of seen in 98.7% (± 0.4%)"
    assert said in "\n".join(describe_release(release))


def test_a_format_that_was_found_is_said_and_how_to_change_it() -> None:
    edges = (math.nextafter(0.0, 1.0), 10.0, 3072.0)
    charge = Real(name="charge", edges=edges, missing=False, format="$1,234.5")
    born = Date(name="born", edges=(0, 100, 200), missing=False, format="%d.%m.%Y")
    measured = tuple(NoisyMarginal((name,), np.array([60.0, 40.0]), 5.0) for name in ("charge", "born"))
    release = small(schema=Schema((charge, born)), measurements=measured)
    page = check(render(dataclasses.replace(release, declared=("born",)), None)).text
    assert "from above 0 to 3072; found format $1,234.5" in page
    assert "; declared format %d.%m.%Y" in page
    said = "\n".join(describe_release(release))
    assert "above 0 to 3072 in 2 bins, written as in $1,234.5" in said
    (note,) = [
        line for line in column_notes(dataclasses.replace(release, declared=("born",))) if "format" in line
    ]
    assert note.startswith("'charge': found format $1,234.5")
    assert "--format 'charge=" in note


def test_keys_that_were_found_are_not_called_declared() -> None:
    visit = Identifier(name="visit", pattern="text", prefix="V", digits=6)
    sex = Categorical(name="sex", values=("f", "m"), missing=False)
    measured = (NoisyMarginal(("sex",), np.array([60.0, 40.0]), 5.0),)
    release = small(schema=Schema((visit, sex)), measurements=measured)
    found = check(render(dataclasses.replace(release, declared=()), None)).text
    assert "Found to be keys by noisy looks at their values, and made anew: visit" in found
    assert "it is never read" not in found
    told = check(render(dataclasses.replace(release, declared=("visit",)), None)).text
    assert "Declared as identifiers, never read and made anew: visit" in told


def test_noise_on_a_share_of_one_does_not_stretch_the_axis() -> None:
    assert [text for _, text in grid(*extent([1.004], [0.0]))][-1] == "100%"
    assert [text for _, text in grid(*extent([1.6], [0.0]))][-1] == "200%"
