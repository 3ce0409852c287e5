"""Means, shares and quantiles with intervals: exact without noise, right with it, refused otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import margrave as mg
from margrave.errors import InputError, SchemaError
from margrave.models.independent import Independent
from margrave.privacy.unit import Neighbours
from margrave.release import Guarantee, NoisyMarginal, Release
from margrave.run.synthesis import Synthesis

SCHEMA = mg.Schema(
    (
        mg.Integer(name="pay", lower=0, upper=99, bins=10, missing=True),
        mg.Categorical(name="sex", values=("F", "M"), missing=False),
        mg.Categorical(name="ward", values=("a", "b"), missing=False),
        mg.Ordinal(name="grade", values=(1, 2, 5), missing=False),
        mg.Identifier(name="who", pattern="number"),
    )
)
MIDDLES = np.arange(10) * 10 + 4.5


def population() -> np.ndarray[Any, Any]:
    """Shares of sex, pay and its missing code: men are paid more."""
    pay = np.arange(10)
    cells = np.stack([np.exp(-0.1 * (pay - 3.2) ** 2), 0.8 * np.exp(-0.08 * (pay - 5.1) ** 2)])
    cells = np.column_stack([cells, [0.4, 0.2]])
    return np.asarray(cells / cells.sum())


def release_of(table: Any, sigma: float, rng: np.random.Generator) -> Synthesis:
    """Noisy pay x sex, pay again, and ward and grade by themselves."""
    table = np.asarray(table, dtype=float)
    tables = []
    for clique, exact, error in (
        (("sex", "pay"), table, sigma),
        (("pay",), table.sum(axis=0), 2 * sigma),
        (("ward",), np.array([700.0, 300.0]), sigma),
        (("grade",), np.array([500.0, 300.0, 200.0]), sigma),
    ):
        tables.append(NoisyMarginal(clique, exact + error * rng.standard_normal(exact.shape), error))
    model = Independent().fit(SCHEMA.domain, tables)
    promise = Guarantee(1.0, 1e-9, 0.1, Neighbours(), "gdp")
    release = Release(SCHEMA, tuple(tables), promise, (), "tables", "independent", model.state(), model.total)
    return Synthesis(release, model)


def true_mean(shares: Any) -> Any:
    return (shares[..., :10] @ MIDDLES) / shares[..., :10].sum(axis=-1)


@pytest.fixture(scope="module")
def exact() -> Synthesis:
    return release_of(1000 * population(), 1e-9, np.random.default_rng(0))


def test_without_noise_they_are_those_of_the_table(exact: Synthesis) -> None:
    shares = population()
    means = true_mean(shares)
    assert exact.mean("pay", of="table").value == pytest.approx(true_mean(shares.sum(axis=0)))
    groups = exact.mean("pay", by="sex", of="table")
    assert [groups["F"].value, groups["M"].value] == pytest.approx(means.tolist())
    gap = groups.difference("M", "F")
    assert gap.value == pytest.approx(means[1] - means[0])
    assert gap.standard_error < 1e-6
    assert exact.share("sex", "F", of="table").value == pytest.approx(shares[0].sum())
    by = exact.share("pay", "30 to 39", by="sex", of="table")
    assert by["M"].value == pytest.approx(shares[1, 3] / shares[1].sum())
    assert exact.mean("grade", of="table").value == pytest.approx(0.5 + 0.6 + 1.0)
    assert exact.quantile("grade", 0.7, of="table").interval == (2.0, 2.0)
    assert exact.quantile("grade", 0.9, of="table").value == 5.0
    median = exact.quantile("pay", of="table")
    assert median.interval[0] <= median.value <= median.interval[1]
    assert median.interval[1] - median.interval[0] == 9.0  # one bin of whole numbers
    assert "95 % interval" in str(median)
    assert len(exact.quantile("pay", 0.5, by="sex")) == 2
    assert "F: " in repr(groups)
    assert "F" in groups
    assert "X" not in groups
    assert groups.get("X") is None
    assert groups.get("M") == groups["M"]


@pytest.mark.parametrize("spelling", [None, "true", "TRUE"])
def test_truth_values_are_asked_for_as_they_are_or_spelt(spelling: str | None) -> None:
    schema = mg.Schema(
        (
            mg.Boolean(name="ill", spelling=spelling, missing=False),
            mg.Integer(name="n", lower=0, upper=1, bins=2, missing=False),
        )
    )
    counts = np.asarray([[30.0, 10.0], [20.0, 40.0]])
    held = NoisyMarginal(("ill", "n"), counts, 0.5)
    model = Independent().fit(schema.domain, [held])
    promise = Guarantee(1.0, 1e-9, 0.1, Neighbours(), "gdp")
    release = Release(schema, (held,), promise, (), "tables", "independent", model.state(), model.total)
    found = Synthesis(release, model)
    for value in (True, "true", "True", np.True_):
        assert found.share("ill", value).value == pytest.approx(0.6)
    means = found.mean("n", by="ill")
    assert means[True].value == pytest.approx(2 / 3)
    assert means.difference(True, False).value == pytest.approx(2 / 3 - 1 / 4)
    assert found.share("ill", True, by="n")[1].value == pytest.approx(0.8)


def test_sampling_is_added_for_the_population(exact: Synthesis) -> None:
    shares = population().sum(axis=0)[:10]
    # Ten whole numbers in a row lie inside each bin.
    spread = ((MIDDLES - true_mean(shares)) ** 2 @ shares) / shares.sum() + 99 / 12
    error = np.sqrt(spread / (1000 * shares.sum()))
    found = exact.mean("pay")
    assert found.standard_error == pytest.approx(error, rel=1e-6)
    assert found.interval[1] - found.value == pytest.approx(1.959964 * error, rel=1e-4)
    f = population()[0].sum()
    assert exact.share("sex", "F").standard_error == pytest.approx(np.sqrt(f * (1 - f) / 1000), rel=1e-6)


def test_noise_that_hides_the_rows_leaves_the_whole_range() -> None:
    hidden = release_of(3 * population(), 50.0, np.random.default_rng(1))
    found = hidden.mean("pay", by="sex", of="table")
    assert found["F"].interval == (0.0, 99.0)
    assert found["F"].standard_error == np.inf
    assert found.difference("F", "M").interval == (-99.0, 99.0)
    lower, upper = hidden.quantile("pay", of="table").interval
    assert (lower, upper) == (0.0, 99.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.mean("ward"), InputError, "a column of numbers"),
        (lambda s: s.mean("city"), SchemaError, "column must be among .*'city'"),
        (lambda s: s.mean("who"), SchemaError, "column must be among .*'who'. Check"),
        (lambda s: s.mean("pay", by="city"), SchemaError, "by must be among .*'city'"),
        (lambda s: s.mean("pay", by=["sex"]), SchemaError, "by must be the name of one column"),
        (lambda s: s.quantile("pay", by=["sex", "ward"]), SchemaError, "by must be the name of one column"),
        (lambda s: s.share("ward", "a", by=["sex"]), SchemaError, "by must be the name of one column"),
        (lambda s: s.table("pay", "city"), SchemaError, "columns must be among .*'city'"),
        (lambda s: s.table(["pay"]), SchemaError, "columns must be the name of one column"),
        (lambda s: s.mean("pay", by="ward"), InputError, "held by a measured table"),
        (lambda s: s.mean("pay", by="pay"), InputError, "another column"),
        (lambda s: s.mean("pay", of="rows"), InputError, "of must be"),
        (lambda s: s.mean("pay", level=95), InputError, "level must be"),
        (lambda s: s.share("ward", "c"), InputError, "value must be one of"),
        (lambda s: s.quantile("pay", 50), InputError, "q must be"),
        (lambda s: s.quantile("ward"), InputError, "a column of numbers"),
        (lambda s: s.quantile("pay", 0.5, by="sex").difference("F", "X"), InputError, "group must be one of"),
        (lambda s: s.mean("pay", by="sex")["X"], InputError, "group must be one of"),
    ],
)
def test_bad_input_is_refused(exact: Synthesis, call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(exact)


def test_differences_of_quantiles_hold_all_bins_that_counts_allow(exact: Synthesis) -> None:
    groups = exact.quantile("pay", 0.5, by="sex", of="table")
    assert groups["F"].interval == (30.0, 39.0)
    assert groups["M"].interval == (50.0, 59.0)
    gap = groups.difference("M", "F")
    assert gap.interval == (11.0, 29.0)  # 50 less 39, and 59 less 30
    assert gap.interval[0] <= gap.value <= gap.interval[1]
    assert groups.difference("F", "M").interval == (-29.0, -11.0)
    assert groups.difference("F", "F").interval == (0.0, 0.0)
    noisy = release_of(1000 * population(), 12.0, np.random.default_rng(2))
    found = noisy.quantile("pay", 0.5, by="sex", of="table")
    wide, apart = found.difference("M", "F").interval, (found["M"].interval, found["F"].interval)
    assert wide[1] - wide[0] > 18.0
    assert wide[1] - wide[0] <= 1.3 * (apart[0][1] - apart[1][0] - apart[0][0] + apart[1][1])
    hidden = release_of(3 * population(), 50.0, np.random.default_rng(1))
    assert hidden.quantile("pay", by="sex", of="table").difference("M", "F").interval == (-99.0, 99.0)


@pytest.mark.parametrize("sigma", [2.0, 15.0])
def test_bins_that_noise_contradicts_are_as_rare_as_is_proved(sigma: float) -> None:
    """Half of each group is exactly below a bin, so that noise contradicts it as often as it ever does."""
    rng, against = np.random.default_rng(8), []
    table = np.full((2, 11), 60.0)
    for _ in range(400):
        found = release_of(table, sigma, rng).quantile("pay", 0.5, by="sex", of="table")
        against.append([bins.against[5] for bins in found.bins])
        assert all(bins.against.min() == 0.0 for bins in found.bins)
    single, both = np.asarray(against), np.sum(against, axis=1)
    assert np.mean(single > 3.841) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 800)
    assert np.mean(both > 5.991) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)
    assert np.mean(single > 0.0) == pytest.approx(0.5, abs=0.06)  # so that errors are not too large


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [2.0, 15.0, 40.0])
def test_intervals_hold_the_truth_as_often_as_they_say(sigma: float) -> None:
    rng, cells = np.random.default_rng(7), population()
    held: dict[str, list[bool]] = {}
    for _ in range(1500):
        table = rng.multinomial(1500, cells.ravel()).reshape(cells.shape)
        synthesis = release_of(table, sigma, rng)
        for of, truth in (("table", table / table.sum()), ("population", cells)):
            options: Any = {"of": of}
            means = true_mean(truth)
            f = truth[0].sum()
            groups = synthesis.mean("pay", by="sex", **options)
            for name, found, true in (
                ("mean", synthesis.mean("pay", **options), true_mean(truth.sum(axis=0))),
                ("group", groups["F"], means[0]),
                ("gap", groups.difference("M", "F"), means[1] - means[0]),
                ("share", synthesis.share("sex", "F", **options), f),
            ):
                held.setdefault(f"{name} {of}", []).append(found.interval[0] <= true <= found.interval[1])
            cumulative = truth.sum(axis=0)[:10].cumsum()
            place = int(np.searchsorted(cumulative, 0.5 * cumulative[-1]))
            median = synthesis.quantile("pay", **options).interval
            inside = median[0] <= 10 * place <= 10 * place + 9 <= median[1]
            held.setdefault(f"median {of}", []).append(inside)
            bins = [int(np.searchsorted(row[:10].cumsum(), 0.5 * row[:10].sum())) for row in truth]
            gap = 10 * (bins[1] - bins[0])
            limits = synthesis.quantile("pay", 0.5, by="sex", **options).difference("M", "F").interval
            held.setdefault(f"median gap {of}", []).append(limits[0] <= gap - 9 <= gap + 9 <= limits[1])
    for name, covered in held.items():
        assert np.mean(covered) > 0.93, name
        assert np.mean(covered) < 0.97 or name.startswith("median"), name
