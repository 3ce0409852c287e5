"""How far noisy tables move coefficients: shares of signal, differences in two parts, missing pairs."""

from __future__ import annotations

import dataclasses
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from exact_releases import Released, TableModel, comparison_of, counts_of, noisy_release
from numpy.typing import NDArray

import margrave as mg
from margrave.regression import linear, shrinkage
from margrave.regression.comparison import Comparison
from margrave.regression.shrinkage import NO_SIGNAL, estimate_shares

Floats = NDArray[np.float64]
CODES, ROWS = 8, 4000
SCHEMA = mg.Schema(
    (
        mg.Integer(name="age", lower=0, upper=CODES - 1, bins=CODES, missing=False),
        mg.Integer(name="rank", lower=0, upper=CODES - 1, bins=CODES, missing=False),
        mg.Integer(name="pay", lower=0, upper=CODES - 1, bins=CODES, missing=False),
    )
)
TARGETS = [("age", "pay"), ("rank", "pay")]
PAIRS = list(combinations(SCHEMA.names, 2))


def count_rows(rng: np.random.Generator, alike: float) -> Floats:
    """Counts of rows in which pay follows both others, and rank is age in a share of them."""
    age = rng.integers(0, CODES, ROWS)
    rank = np.where(rng.random(ROWS) < alike, age, rng.integers(0, CODES, ROWS))
    pay = np.clip(np.rint((age + rank) / 2.0 + rng.normal(0.0, 1.5, ROWS)), 0, CODES - 1).astype(int)
    return counts_of(SCHEMA, {"age": age, "rank": rank, "pay": pay})


def release_of(
    rng: np.random.Generator, counts: Floats, attenuated: float, cliques: list[tuple[str, ...]], sigma: float
) -> Released:
    """Noisy tables, and a model of which a part is independent columns."""
    ways = [counts.sum(axis=tuple(axis for axis in range(3) if axis != own)) / ROWS for own in range(3)]
    product = ROWS * ways[0][:, None, None] * ways[1][None, :, None] * ways[2][None, None, :]
    model = TableModel(SCHEMA.domain, np.rint((1.0 - attenuated) * counts + attenuated * product))
    noise = dict.fromkeys([*cliques, *((name,) for name in SCHEMA.names)], sigma)
    return noisy_release(SCHEMA, counts, noise, rng, model=model)


def estimate(release: Released, source: str) -> Floats:
    return linear(release, "pay", source=source).estimates  # type: ignore[arg-type]


def test_noise_alone_has_no_share_and_signal_nearly_all() -> None:
    rng = np.random.default_rng(0)
    groups = [slice(k, k + 1) for k in range(40)]
    noise = rng.uniform(1.0, 5.0, 40)
    off = rng.normal(size=40) * np.sqrt(noise)
    assert estimate_shares(off, noise, groups).mean() < 0.2
    assert estimate_shares(off, noise, groups, NO_SIGNAL).mean() < 0.1
    assert estimate_shares(30.0 * off, noise, groups).mean() > 0.95


def test_shares_estimate_signal_better_than_all_or_nothing() -> None:
    rng, errors = np.random.default_rng(1), []
    for _ in range(50):
        signal = rng.normal(size=30) * np.where(rng.random(30) < 0.3, 4.0, 0.2)
        off = signal + rng.normal(size=30)
        found = estimate_shares(off, np.ones(30), [slice(k, k + 1) for k in range(30)]) * off
        errors.append([((guess - signal) ** 2).mean() for guess in (found, off, 0.0 * off)])
    ours, all_of_it, nothing = np.mean(errors, axis=0)
    assert ours < 0.75 * min(all_of_it, nothing)


def test_one_difference_of_noise_is_judged_by_the_others() -> None:
    groups = [slice(k, k + 1) for k in range(10)]
    alone, beside = np.full(10, 0.1), np.full(10, 6.0)
    alone[0] = beside[0] = 2.0
    one, other = (estimate_shares(off, np.ones(10), groups)[0] for off in (alone, beside))
    assert one < 0.5 < 0.8 < other


def test_what_nothing_is_known_of_has_no_share() -> None:
    shares = estimate_shares(np.array([3.0, 0.0]), np.array([1.0, 0.0]), [slice(0, 1), slice(1, 2)])
    assert shares[0] > 0.5
    assert shares[1] == 0.0
    assert estimate_shares(np.zeros(2), np.zeros(2), [slice(0, 2)]).tolist() == [0.0, 0.0]


def test_both_parts_are_the_difference_of_the_tables_and_have_the_noise_that_they_say() -> None:
    rng = np.random.default_rng(2)
    counts, found, plain = count_rows(rng, 0.0), [], []
    for _ in range(400):
        release = release_of(rng, counts, 0.0, PAIRS, 20.0)
        fit = linear(release, "pay", source="model").fit
        both = comparison_of(fit, release).compare()
        found.append([both.weighted, both.rest])
        noisy, variances, _ = fit.sums.label_sums()
        plain.append(noisy)
    weighted, rest = np.moveaxis(np.asarray(found), 1, 0)
    exact = np.mean(plain, axis=0)
    assert np.abs((weighted + rest) - (np.asarray(plain) - exact)).max() < 0.2 * np.sqrt(variances.max())
    said = [both.weighted_noise[1:], both.rest_noise[1:]]
    seen = [part.var(axis=0)[1:] for part in (weighted, rest)]
    assert np.asarray(seen) == pytest.approx(np.asarray(said), rel=0.3)
    assert (both.weighted_noise[1:] < 0.9 * variances[1:]).all()
    shared = np.mean((weighted - weighted.mean(axis=0)) * (rest - rest.mean(axis=0)), axis=0)[1:]
    assert shared == pytest.approx(both.shared_noise[1:], abs=0.2 * float(both.weighted_noise[1:].max()))


def test_a_model_with_weak_associations_is_mended_and_its_weights_take_nothing_away() -> None:
    rng = np.random.default_rng(3)
    counts, errors, sizes = count_rows(rng, 0.5), [], []
    truth = estimate(release_of(rng, counts, 0.0, PAIRS, 1e-3), "model")
    for _ in range(8):
        release = release_of(rng, counts, 0.5, PAIRS, 15.0)
        errors.append([np.abs(estimate(release, how) - truth)[1:].max() for how in ("model", "both")])
        fit = linear(release, "pay", source="model").fit
        found = comparison_of(fit, release).compare()
        sizes.append(found.weighted[1:] / (found.weighted + found.rest)[1:])
    own, moved = np.median(errors, axis=0)
    assert moved < 0.4 * own
    assert np.median(sizes) == pytest.approx(1.0, abs=0.15)


def test_columns_that_are_alike_do_not_count_twice_though_the_model_has_them_independent() -> None:
    """Age and rank are nearly the same, which a table of both says, or none."""
    rng, predicted = np.random.default_rng(4), []
    counts = count_rows(rng, 0.9)
    spread = np.arange(CODES) - (CODES - 1) / 2.0
    for cliques in (TARGETS, PAIRS):
        found = linear(release_of(rng, counts, 1.0, cliques, 5.0), "pay")
        slopes = np.array([found["age"], found["rank"]])
        ways = counts.sum(axis=2)
        numbers = slopes[0] * spread[:, None] + slopes[1] * spread[None, :]
        predicted.append(float((ways * numbers**2).sum()))
    pay = np.arange(CODES) - float(counts.sum(axis=(0, 1)) @ np.arange(CODES)) / ROWS
    explained = np.asarray(predicted) / float(counts.sum(axis=(0, 1)) @ pay**2)
    assert (explained > 0.4).all()
    assert (explained < 1.0).all()


def test_a_table_of_two_features_alone_moves_nothing() -> None:
    """The target is a feature, as the model has it. That another is like that feature, which the model does
    not have, is no reason for it to explain the target, of which its own noisy table says nothing."""
    rng = np.random.default_rng(5)
    age = rng.integers(0, CODES, ROWS)
    rank = np.where(rng.random(ROWS) < 0.8, age, rng.integers(0, CODES, ROWS))
    counts = counts_of(SCHEMA, {"age": age, "rank": rank, "pay": age})
    ways = counts.sum(axis=2).sum(axis=1), counts.sum(axis=(0, 2)) / ROWS
    apart = np.zeros_like(counts)
    codes = np.arange(CODES)
    apart[codes, :, codes] = np.rint(np.outer(*ways))
    noise = dict.fromkeys([*PAIRS, *((name,) for name in SCHEMA.names)], 5.0) | {("rank", "pay"): 300.0}
    for _ in range(4):
        found = linear(
            noisy_release(SCHEMA, counts, noise, rng, model=TableModel(SCHEMA.domain, apart)), "pay"
        )  # type: ignore[arg-type]
        assert [found["age"], found["rank"]] == pytest.approx([1.0, 0.0], abs=0.015)


def test_what_is_unsure_of_two_features_counts_as_noise_of_their_products_with_the_target() -> None:
    rng = np.random.default_rng(6)
    release = release_of(rng, count_rows(rng, 0.5), 0.5, PAIRS, 15.0)
    fit = linear(release, "pay", source="model").fit
    sharp = shrinkage.Sharpened(*np.zeros((2, fit.design.size)), np.zeros(fit.design.size, np.bool_))
    (plain, less), (hidden, more) = (
        shrinkage._move_products(comparison_of(fit, release), sharp, (np.zeros(3), np.full(3, unsure)))
        for unsure in (0.0, 1e9)
    )
    assert more[1:] == pytest.approx(less[1:] + 1e9)
    assert (np.abs(hidden[1:]) < 0.2 * np.abs(plain[1:])).all()
    crossed, unsure = shrinkage._move_features(comparison_of(fit, release))
    [block] = comparison_of(fit, release).compare_features()
    share = crossed[1, 2] / block.off[0, 0]
    assert 0.0 < share <= 1.0
    assert unsure[1, 2] == pytest.approx(share * block.noise[0, 0])


def test_a_nearest_table_stands_for_a_feature_where_it_has_half_of_the_noise_at_most() -> None:
    age, rank = np.random.default_rng(0).integers(0, CODES, (2, ROWS))
    counts = counts_of(SCHEMA, {"age": age, "rank": rank, "pay": age})
    release = release_of(np.random.default_rng(1), counts, 0.5, PAIRS, 20.0)
    fit = linear(release, "pay", source="both").fit
    sharp = comparison_of(fit, release).sharpen()
    own = fit.design.places(fit.design.names.index("age"))
    assert sharp.beyond[own].all()
    follows = np.zeros(fit.design.size), np.zeros(fit.design.size)
    moved, variances = shrinkage._move_products(comparison_of(fit, release), sharp, follows)
    assert moved[own] == pytest.approx(sharp.moved[own])
    assert variances[own] == pytest.approx(sharp.variances[own])
    noise = fit.sums.label_sums()[1][own]
    wide = dataclasses.replace(sharp, variances=np.full_like(sharp.variances, 0.6 * float(noise.max())))
    moved, _ = shrinkage._move_products(comparison_of(fit, release), wide, follows)
    assert moved[own] != pytest.approx(sharp.moved[own], rel=1e-3)


@pytest.mark.parametrize("determined", [True, False])
def test_sums_are_left_out_where_one_feature_determines_the_target(
    determined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    age, rank, other = np.random.default_rng(0).integers(0, CODES, (3, ROWS))
    pay = age if determined else np.where(other < 2, age, other)
    release = release_of(
        np.random.default_rng(1), counts_of(SCHEMA, {"age": age, "rank": rank, "pay": pay}), 0.0, PAIRS, 20.0
    )
    fit = linear(release, "pay", source="both").fit
    compared, calls = comparison_of(fit, release), list[Any]()
    sharp = compared.sharpen()
    exact = 1.0 if determined else np.corrcoef(age, pay)[0, 1] ** 2
    assert sharp.explained == pytest.approx(exact, abs=0.1)
    monkeypatch.setattr(Comparison, "add_sums", lambda self, found: calls.append(found))
    unsure = dataclasses.replace(sharp, beyond=np.zeros_like(sharp.beyond))
    shrinkage._move_products(compared, unsure, (np.zeros(fit.design.size), np.zeros(fit.design.size)))
    assert bool(calls) != determined
