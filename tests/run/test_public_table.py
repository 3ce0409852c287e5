"""Public rows from elsewhere: they help where they agree, do not hurt where they do not, and are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest

import margrave as mg
from command_line import call
from margrave.errors import InputError
from margrave.models._base.pooling import Pooled
from margrave.models.auto import Auto
from margrave.models.independent import Independent
from margrave.models.informed import Informed, InformedModel, find_variances, join_prior
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded

SIZES = {"a": 6, "b": 5, "c": 4, "d": 3}
SCHEMA = mg.Schema.from_sizes(SIZES)
PAIRS = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]


def people(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    kind = rng.choice(6, rows, p=[0.4, 0.25, 0.15, 0.1, 0.07, 0.03])
    columns = {}
    for name, size in SIZES.items():
        columns[name] = np.where(
            rng.random(rows) < 0.25, rng.integers(0, size, rows), (kind * 3 + size) % size
        )
    return pa.table(columns)


def shuffle(table: pa.Table) -> pa.Table:
    rng = np.random.default_rng(9)
    return pa.table({name: rng.permutation(table[name].to_numpy()) for name in table.column_names})


def measure_error(synthesis: Any, real: pa.Table) -> float:
    found = []
    for pair in PAIRS:
        exact = np.zeros([SIZES[name] for name in pair])
        np.add.at(exact, tuple(real[name].to_numpy() for name in pair), 1)
        found.append(np.abs(synthesis.marginal(*pair) / synthesis.release.total - exact / len(real)).sum())
    return float(np.mean(found))


PRIVATE = people(1200, 0)


def fit(public_table: Any, seed: int | None = None, **more: Any) -> Any:
    options = {"epsilon": 0.3, "adjacency": "replace_one", "schema": SCHEMA, **more}
    method = options.pop("method", "auto")
    run = mg.Synthesizer(method, public_table=public_table, not_private_test_seed=seed, **options)
    return run.fit(PRIVATE)


@pytest.mark.slow
def test_rows_of_the_same_distribution_help_and_shuffled_ones_do_not_hurt() -> None:
    """The noise of both runs is the same, from one seed."""
    without, shuffled, alike = [], [], []
    for seed in (1, 2, 3):
        without.append(measure_error(fit(None, seed), PRIVATE))
        alike.append(measure_error(fit(people(1200, 5), seed), PRIVATE))
        shuffled.append(measure_error(fit(shuffle(people(1200, 5)), seed), PRIVATE))
    assert np.mean(alike) < 0.8 * np.mean(without)
    assert np.mean(shuffled) <= np.mean(without) + np.std(without, ddof=1)


def test_the_release_says_what_was_used_and_draws_the_same_rows_from_its_file(tmp_path: Any) -> None:
    # Split noise prefers the prior in about a third of such runs.
    runs = (fit(people(1200, seed)) for seed in range(5, 15))
    synthesis = next(run for run in runs if isinstance(run.model, InformedModel) and run.model.prior)
    assert synthesis.release.fitter == "informed"
    assert synthesis.release.notes["public_table"] == "1200 public rows of a, b, c, d"
    synthesis.save(tmp_path / "one.release")
    again = mg.load(tmp_path / "one.release")
    assert again.sample(rng=4).equals(synthesis.sample(rng=4))
    np.testing.assert_array_equal(again.marginal("a", "b"), synthesis.marginal("a", "b"))
    synthesis.report(tmp_path / "report.html")
    assert "1200 public rows" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_nothing_more_is_asked_and_nothing_less_is_paid() -> None:
    one, two = (fit(table, method="independent").release for table in (None, people(1200, 5)))
    assert [event.what for event in one.events] == [event.what for event in two.events]
    assert one.events == two.events
    assert str(one.guarantee) == str(two.guarantee)


def test_jam_draws_among_public_rows(tmp_path: Any) -> None:
    synthesis = fit(people(1200, 5), method="jam", epsilon=0.1)
    assert synthesis.model.known
    assert {name for table in synthesis.model.known for name in table.clique} <= set(SIZES)
    synthesis.save(tmp_path / "jam.release")
    assert mg.load(tmp_path / "jam.release").sample(rng=4).equals(synthesis.sample(rng=4))


def test_a_file_with_some_columns_in_another_order_and_values_never_seen(tmp_path: Any) -> None:
    other = people(500, 6).select(["d", "a"]).append_column("more", pa.array(["x"] * 500))
    other = other.set_column(1, "a", pa.array(np.where(np.arange(500) < 3, 77, other["a"].to_numpy())))
    pc.write_csv(other, tmp_path / "other.csv")
    assert (
        fit(str(tmp_path / "other.csv"), method="independent").release.notes["public_table"]
        == "500 public rows of a, d"
    )
    assert (
        fit(other.to_pandas(), method="independent").release.notes["public_table"]
        == "500 public rows of a, d"
    )


@pytest.mark.parametrize(
    ("wrong", "more", "word"),
    [
        (people(5, 0).rename_columns(["w", "x", "y", "z"]), {}, "public_table"),
        (people(0, 0), {}, "public_table"),
        (people(5, 0), {"public": ["a"], "adjacency": "replace_private"}, "public"),
        (people(5, 0), {"method": "vjam"}, "model"),
    ],
)
def test_what_is_of_no_use_is_refused_before_anything_is_spent(wrong: Any, more: Any, word: str) -> None:
    with pytest.raises(InputError, match=word):
        fit(wrong, **more)


def test_the_plan_and_the_command_line_know_it(tmp_path: Any) -> None:
    pc.write_csv(PRIVATE, tmp_path / "people.csv")
    pc.write_csv(people(300, 5), tmp_path / "other.csv")
    SCHEMA.save(tmp_path / "schema.json")
    options = ["--schema", str(tmp_path / "schema.json"), "--epsilon", "1", "--public-table"]
    said = call("plan", str(tmp_path / "people.csv"), *options, str(tmp_path / "other.csv"))
    assert "the rows of the public table" in " ".join(said.out.split())
    out = str(tmp_path / "rows.csv")
    call(
        "synthesize",
        str(tmp_path / "people.csv"),
        *options,
        str(tmp_path / "other.csv"),
        "--out",
        out,
        "--method",
        "mst",
    )
    assert len(pc.read_csv(out)) > 0


def test_variances_grow_with_the_distance_and_begin_with_sampling() -> None:
    rng = np.random.default_rng(0)
    share = rng.dirichlet(np.ones(40))
    truth, sigma = 20_000 * share, np.full(40, 30.0)
    near = 10.0 * rng.poisson(truth / 10)
    far = truth[::-1].copy()
    table = Pooled(("a",), truth + 30 * rng.normal(size=40), sigma)
    close, wide = find_variances(table, near, 10.0), find_variances(table, far, 10.0)
    np.testing.assert_allclose(close.mean(), (10 * (near + 5)).mean(), rtol=3.0)
    assert wide.mean() > 20 * close.mean()


def test_tables_without_public_rows_stay_as_they_are_and_others_are_averaged_by_precision() -> None:
    domain = Domain(("a", "b"), (2, 2))
    rows = Encoded(Domain(("a",), (2,)), (np.repeat(np.arange(2, dtype=np.uint8), [30, 70]),))
    tables = [NoisyMarginal(("a",), np.array([300.0, 700.0]), 40.0), NoisyMarginal(("b",), np.ones(2), 5.0)]
    fitter = Informed(rows, Independent())
    prior = fitter._find_prior(domain, [Pooled(t.clique, t.values, t.sigmas) for t in tables], 1000.0, 1.0)
    assert [table.clique for table in prior] == [("a",)]
    joined = join_prior(domain, tables, prior)
    assert joined[0] is tables[1]
    precise = prior[0].sigmas ** -2 + 1 / 1600
    wanted = (tables[0].values / 1600 + prior[0].values * prior[0].sigmas ** -2) / precise
    np.testing.assert_allclose(joined[1].values, wanted)
    np.testing.assert_allclose(joined[1].sigmas, (1 / precise).mean() ** 0.5)
    assert float(joined[1].sigmas[0]) < 40.0
    assert Informed(rows, Auto()).named_columns == frozenset()
