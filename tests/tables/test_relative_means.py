"""Means of columns that are coded by others: exact without noise, right with it, or refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from tables_of_codes import APART, FEE, NET, OWN, QUOTIENTS, SEX, counts, numbers, relative, release_of

from margrave.errors import InputError
from margrave.schema.columns import Date, Integer, Real, Relative
from margrave.tables.quantities import estimate_mean


def test_a_line_follows_from_its_base_alone() -> None:
    """Where every row has a code of the line, tables of the base say all, of groups as well."""
    columns = (SEX, NET, relative(factor=-0.19, offset=200.0))
    joint = counts(columns)
    release = release_of(columns, joint, [("sex", "net"), ("y",)])
    rows = joint.sum(axis=2)
    means = 200.0 - 0.19 * (rows @ numbers(NET)) / rows.sum(axis=1)
    found = estimate_mean(release, "y", of="table")
    assert found.value == pytest.approx(means @ rows.sum(axis=1) / rows.sum())
    groups = estimate_mean(release, "y", "sex", of="table")
    assert [groups["F"].value, groups["M"].value] == pytest.approx(means.tolist())
    assert groups.difference("M", "F").value == pytest.approx(means[1] - means[0])
    hidden = estimate_mean(release_of(columns, joint, [("sex", "net")], 1e6), "y", of="table")
    assert hidden.interval == pytest.approx((200.0 - 0.19 * 80.0, 200.0))


@pytest.mark.parametrize("alone", [False, True])
def test_a_sum_counts_the_rows_that_have_a_code_of_it(alone: bool) -> None:
    """Rows without the column do not count, though they have bases; a base that is missing has its mean."""
    net = dataclasses.replace(NET, missing=True)
    own = dataclasses.replace(OWN, missing=True)
    total = relative(APART, own=own, others=("fee",), missing=True, alone=alone)
    columns = (net, FEE, total)
    joint = counts(columns)
    joint[4, :, :3] = 0  # no base, no difference
    release = release_of(columns, joint, [("net", "y"), ("fee", "y")])
    rows = joint[:4, :, :3].sum()
    mean = np.einsum("ijk,i->", joint[:4, :, :3], numbers(NET)[:4]) / rows
    mean += np.einsum("ijk,j->", joint[:4, :, :3], numbers(FEE)) / rows
    mean += np.einsum("ijk,k->", joint[:4, :, :3], numbers(APART)) / rows
    found = estimate_mean(release, "y", of="table")
    assert found.value == pytest.approx(mean)
    # Rows that have a value and no base are supposed to be off by half a deviation of the others.
    assert (found.standard_error > 1.0) == alone
    less = dataclasses.replace(total, powers=(1, -1))
    release = release_of((net, FEE, less), joint, [("net", "y"), ("fee", "y")])
    fee = np.einsum("ijk,j->", joint[:4, :, :3], numbers(FEE)) / rows
    assert less.relation.startswith("y is net - fee")
    assert estimate_mean(release, "y", of="table").value == pytest.approx(mean - 2.0 * fee)
    with pytest.raises(InputError, match=r"\['fee', 'y'\]\. Codes of 'y' say how it goes with net \+ fee"):
        estimate_mean(release_of(columns, joint, [("net", "y"), ("fee",)]), "y")


def test_a_quotient_takes_the_table_of_both() -> None:
    columns = (SEX, NET, relative(QUOTIENTS, how="quotient"))
    joint = counts(columns)
    release = release_of(columns, joint, [("sex", "net", "y")])
    cells = np.multiply.outer(numbers(NET), numbers(QUOTIENTS))
    means = (joint * cells).sum(axis=(1, 2)) / joint.sum(axis=(1, 2))
    assert estimate_mean(release, "y", of="table").value == pytest.approx((joint * cells).sum() / joint.sum())
    groups = estimate_mean(release, "y", "sex", of="table")
    assert [groups["F"].value, groups["M"].value] == pytest.approx(means.tolist())
    apart = release_of(columns, joint, [("sex", "net"), ("y",)])
    with pytest.raises(InputError, match=r"held by a measured table, got \['net', 'y'\]"):
        estimate_mean(apart, "y")
    half = Real(name="y", edges=(0.5, float(np.nextafter(0.5, 1.0))), missing=False)
    fixed = (SEX, NET, relative(half, how="quotient"))
    release = release_of(fixed, joint[:, :, :1], [("sex", "net")])
    mean = joint[:, :, 0].sum(axis=0) @ numbers(NET) / joint[:, :, 0].sum()
    assert estimate_mean(release, "y", of="table").value == pytest.approx(mean / 2.0)


def test_products_and_bases_that_are_relative_themselves() -> None:
    part = Real(name="z", edges=(0.0, 2.0, 5.0), missing=False)
    own = dataclasses.replace(OWN, name="z")
    gross = Relative(name="z", base="net", own=own, part=part, missing=False, factor=2.0, offset=1.0)
    product = relative(APART, base="z", others=("fee",), joint="product", factor=0.5)
    columns = (NET, FEE, gross, product)
    joint = counts(columns)
    release = release_of(columns, joint, [("net", "fee"), ("z", "fee"), ("y",)])
    z = 2.0 * numbers(NET)[:, None, None] + 1.0 + numbers(part)[None, None, :]
    y = 0.5 * (z * numbers(FEE)[None, :, None])[..., None] + numbers(APART)
    assert estimate_mean(release, "y", of="table").value == pytest.approx((joint * y).sum() / joint.sum())
    for whole in (100.0, -100.0):
        rest = relative(others=("fee",), joint="product", factor=0.01, share_of=whole)
        columns = (NET, FEE, rest)
        rows = counts(columns)
        release = release_of(columns, rows, [("net", "fee"), ("y",)])
        left = 100.0 - numbers(FEE) if whole > 0.0 else 100.0 + numbers(FEE)
        y = 0.01 * np.outer(numbers(NET), left)
        mean = (rows.sum(axis=2) * y).sum() / rows.sum()
        assert estimate_mean(release, "y", of="table").value == pytest.approx(mean)
    over = relative(others=("fee",), joint="product", powers=(1, -1))
    columns = (NET, FEE, over)
    with pytest.raises(InputError, match="net / fee"):
        estimate_mean(release_of(columns, counts(columns), [("net", "fee"), ("y",)]), "y")
    twice = relative(base="z", others=("net",))
    columns = (NET, gross, twice)
    joint = counts(columns)
    release = release_of(columns, joint, [("net", "z"), ("y",)])
    y = 3.0 * numbers(NET)[:, None] + 1.0 + numbers(part)
    found = estimate_mean(release, "y", of="table")
    assert found.value == pytest.approx((joint.sum(axis=2) * y).sum() / joint.sum())


def test_sampling_of_sums_goes_by_how_their_parts_go_together() -> None:
    columns = (NET, FEE, relative(others=("fee",)))
    joint = counts(columns)
    joint[:2, 1:] //= 9
    cells = np.add.outer(numbers(NET), numbers(FEE))
    rows = joint.sum(axis=2)
    mean = (rows * cells).sum() / rows.sum()
    # Values lie evenly inside bins of widths 20 and 3.
    spread = (rows * (cells - mean) ** 2).sum() / rows.sum() + 20.0**2 / 12.0 + 3.0**2 / 12.0
    error = np.sqrt(spread / rows.sum())
    assert estimate_mean(release_of(columns, joint, [("net", "fee")]), "y").standard_error == pytest.approx(
        error, rel=0.01
    )
    apart = estimate_mean(release_of(columns, joint, [("net",), ("fee",)]), "y").standard_error
    sides = [
        np.average((numbers(c) - np.average(numbers(c), weights=w)) ** 2, weights=w) + v / 12.0
        for c, w, v in ((NET, rows.sum(axis=1), 400.0), (FEE, rows.sum(axis=0), 9.0))
    ]
    assert apart == pytest.approx((np.sqrt(sides[0]) + np.sqrt(sides[1])) / np.sqrt(rows.sum()))


def test_rows_that_break_a_found_relation_make_intervals_longer() -> None:
    joint = counts((NET, relative()))
    for share, strays in (((0.9, 0.02), 0.12), ((1.0, 0.03), 0.03), (None, 0.0)):
        columns = (NET, relative(share=share))
        found = estimate_mean(release_of(columns, joint, [("net",)]), "y", of="table")
        rows = joint.sum(axis=1)
        mean = rows @ numbers(NET) / rows.sum()
        spread = np.sqrt(rows @ (numbers(NET) - mean) ** 2 / rows.sum() + 400.0 / 12.0)
        assert found.value == pytest.approx(mean)
        assert found.standard_error == pytest.approx(strays / 2.0 * spread, abs=1e-6)


def test_quotients_may_pile_up_anywhere_in_their_cell() -> None:
    """A tax of .19 times the net lies in a cell of .18 to .21, as noise has cut them."""
    cell = Real(name="y", edges=(0.18, 0.21), fine=(0.18, 0.21), weights=(9.0,), missing=False)
    coded = relative(cell, how="quotient", share=(1.0, 0.0))
    joint = counts((NET, coded))
    release = release_of((NET, coded), joint, [("net", "y")])
    mean = joint[:, 0] @ numbers(NET) / joint.sum()
    found = estimate_mean(release, "y", of="table")
    assert found.value == pytest.approx(0.195 * mean)
    assert found.standard_error == pytest.approx(0.03 / np.sqrt(12.0) * mean)
    declared = release_of((NET, dataclasses.replace(coded, share=None)), joint, [("net", "y")])
    assert estimate_mean(declared, "y", of="table").standard_error == pytest.approx(0.0, abs=1e-6)


def test_a_line_of_few_values_is_rounded_as_rows_are() -> None:
    """Whole years that are .8 times the level and 8.8, rounded, are not these on the average."""
    level = Integer(name="net", edges=(0, 1, 2, 3, 8), missing=False)
    own = Integer(name="y", lower=0, upper=30, bins=3, missing=False)
    joint = counts((level, relative(own=own)))
    rows = joint[:, 0]
    for factor, offset, years in ((0.8, 8.8, (9, 10, 10)), (1.0, 9.0, (9, 10, 11)), (-0.6, 1.0, (1, 0, 0))):
        columns = (level, relative(own=own, factor=factor, offset=offset))
        found = estimate_mean(release_of(columns, joint, [("net",)]), "y", of="table")
        # From 3 to 7 a bin has no one number: it is right but for an error of its own.
        assert found.value == pytest.approx((rows @ [*years, offset + factor * 5.0]) / rows.sum())
        error = 0.0 if factor == 1.0 else rows[3] / np.sqrt(12.0) / rows.sum()
        assert found.standard_error == pytest.approx(error, abs=1e-6)


def test_rows_far_out_of_a_base_that_is_taken_off_lie_below() -> None:
    open_net = dataclasses.replace(
        NET,
        edges=(0.0, 1.0, 40.0),
        fine=(0.0, 1.0, 5.0, 10.0, 20.0, 40.0),
        weights=(900.0, 80.0, 20.0, 5.0, 1.0),
        noise=10.0,
        reach=(0.0, 40.0),
        unbounded=(True, True),
        strict=False,
        lower=None,
        upper=None,
        bins=None,
    )
    joint = np.array([[900.0], [150.0]])
    sides = []
    for factor in (1.0, 2.0, -2.0):
        columns = (open_net, relative(factor=factor, joint="sum"))
        found = estimate_mean(release_of(columns, joint, [("net",)]), "y", of="table")
        sides.append((found.value - found.interval[0], found.interval[1] - found.value))
    assert sides[0][1] > 2.0 * sides[0][0]
    assert sides[1] == pytest.approx((2.0 * sides[0][0], 2.0 * sides[0][1]))
    assert sides[2] == pytest.approx(sides[1][::-1])


def test_what_cannot_be_answered_is_refused() -> None:
    columns = (SEX, NET, FEE, relative(others=("fee",)))
    release = release_of(columns, counts(columns), [("sex", "net"), ("fee",), ("y",)])
    with pytest.raises(InputError, match=r"got \['sex', 'fee'\]\. Codes of 'y' say how"):
        estimate_mean(release, "y", "sex")
    with pytest.raises(InputError, match="than 'fee', 'net', by which it is coded"):
        estimate_mean(release, "y", "net")
    own = Date(name="left", lower="2024-01-01", upper="2024-12-31", missing=False)
    came = dataclasses.replace(own, name="came")
    days = Integer(name="left", lower=0, upper=2, missing=False)
    left = Relative(name="left", base="came", base_read="date", own=own, part=days, missing=False)
    dates = release_of((came, left), counts((came, left)), [("came", "left")])
    with pytest.raises(InputError, match="a column of numbers"):
        estimate_mean(dates, "left")
    more = dataclasses.replace(FEE, name="more")
    columns = (NET, FEE, more, relative(APART, others=("fee", "more"), joint="product"))
    release = release_of(columns, counts(columns), [("net", "fee", "more", "y")])
    with pytest.raises(InputError, match="at most two columns multiplied"):
        estimate_mean(release, "y")


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [3.0, 20.0])
@pytest.mark.parametrize("how", ["line", "sum", "quotient", "product"])
def test_intervals_hold_the_truth_as_often_as_they_say(how: str, sigma: float) -> None:
    """Bins and relations are known, so that noise in counts and sampling are all that is wrong."""
    own = dataclasses.replace(OWN, missing=True)
    coded = {
        "line": relative(factor=-0.19, offset=3.0),
        "sum": relative(APART, others=("fee",), own=own, missing=True),
        "quotient": relative(QUOTIENTS, how="quotient", own=own, missing=True),
        "product": relative(others=("fee",), joint="product"),
    }[how]
    cliques = {
        "line": [("sex", "net"), ("net", "fee"), ("y",)],
        "sum": [("net", "y"), ("fee", "y"), ("net", "fee"), ("y",)],
        "quotient": [("net", "y"), ("sex", "y"), ("net",)],
        "product": [("net", "fee"), ("sex", "net"), ("y",)],
    }[how]
    columns = (SEX, NET, FEE, coded)
    shares, size = counts(columns, 5) + 0.0, coded.part.present
    shares[:, :3, 1:] /= 3.0
    shares /= shares.sum()
    net, fee = numbers(NET)[:, None, None], numbers(FEE)[None, :, None]
    part = numbers(coded.part)[None, None, :]
    numbers_of = {
        "line": 3.0 - 0.19 * net + 0.0 * fee + part,
        "sum": net + fee + part,
        "quotient": net * part + 0.0 * fee,
        "product": net * fee + part,
    }[how]
    rng, held = np.random.default_rng(11), {"table": 0, "population": 0}
    for turn in range(800):
        joint = rng.multinomial(2500, shares.ravel()).reshape(shares.shape)
        release = release_of(columns, joint, cliques, sigma, turn)
        for of, table in (("table", joint), ("population", shares)):
            rows = table[..., :size].sum(axis=0)
            truth = (rows * numbers_of).sum() / rows.sum()
            options: Any = {"of": of}
            low, high = estimate_mean(release, "y", **options).interval  # type: ignore[union-attr]
            held[of] += low <= truth <= high
    for of, hits in held.items():
        assert 0.93 < hits / 800 < 0.97, (of, hits / 800)
