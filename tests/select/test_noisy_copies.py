"""Strategies of noisy copies: what a model is given, and what is refused before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
import margrave.select.from_rows as slices
from margrave.errors import InputError
from margrave.measure.mechanisms.slices import bound_change
from margrave.models import Mixture
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.release import NoisySlices
from margrave.schema.domain import Domain
from margrave.schema.features import RowNumbers

DOMAIN = Domain(("a", "b", "c"), (2, 3, 5))
ROWS = 3000


def _release(codes: Any, sigma: float, seed: int) -> NoisySlices:
    vectors = np.concatenate([np.eye(n)[codes[:, j]] for j, n in enumerate(DOMAIN.sizes)], axis=1)
    noise = np.random.default_rng(seed).standard_normal(vectors.shape)
    return NoisySlices(RowNumbers.indicate_codes(DOMAIN), vectors + sigma * noise, sigma)


def _independent(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(0, size, ROWS) for size in DOMAIN.sizes], axis=1)


def _truth(codes: Any, clique: tuple[str, ...]) -> Any:
    table = np.zeros(DOMAIN.shape(clique))
    np.add.at(table, tuple(codes[:, DOMAIN.index(name)] for name in clique), 1.0)
    return table


def test_noise_alone_is_as_many_squares_as_a_table_has_cells() -> None:
    """Of independent attributes, where the rows' own noise is small beside that of their copies."""
    found: dict[tuple[str, ...], list[float]] = {}
    for seed in range(150):
        tables = _release(_independent(seed), 5.0, seed).tables()
        ones = {table.clique[0]: table.values for table in tables if len(table.clique) == 1}
        for table in tables:
            if len(table.clique) == 2:
                product = np.multiply.outer(*(ones[name] for name in table.clique)) / ROWS
                squared = float(((table.values - product) ** 2 / table.sigmas**2).sum())
                found.setdefault(table.clique, []).append(squared / product.size)
    for clique, shares in found.items():
        assert np.mean(shares) == pytest.approx(1.0, abs=0.25), clique


def test_the_noise_that_a_model_is_told_is_that_of_the_dependence() -> None:
    """Beside the product of the noisy single attributes, squares in units of it are degrees of freedom."""
    found: dict[tuple[str, ...], list[float]] = {}
    for seed in range(150):
        copies = _release(_independent(seed), 5.0, seed).tables()
        weighed = slices.weigh_copies(copies, ROWS)
        ones = {table.clique[0]: table.values for table in weighed if len(table.clique) == 1}
        for table in weighed:
            if len(table.clique) == 2:
                product = np.multiply.outer(*(ones[name] for name in table.clique)) / ROWS
                squared = float(((table.values - product) ** 2 / table.sigmas**2).sum())
                freedom = (product.shape[0] - 1) * (product.shape[1] - 1)
                found.setdefault(table.clique, []).append(squared / freedom)
    for clique, shares in found.items():
        assert np.mean(shares) == pytest.approx(1.0, abs=0.25), clique


def test_single_attributes_become_possible_and_pairs_sum_to_them() -> None:
    codes = _independent(0)
    codes[:, 1], codes[:, 2] = codes[:, 0], 0
    copies = _release(codes, 5.0, 0).tables()
    assert min(table.values.min() for table in copies if len(table.clique) == 1) < 0
    weighed = slices.weigh_copies(copies, ROWS)
    ones = {table.clique[0]: table for table in weighed if len(table.clique) == 1}
    for before, table in zip(copies, weighed, strict=True):
        if len(table.clique) == 1:
            assert table.values.min() >= 0
            assert table.values.sum() == pytest.approx(ROWS)
            np.testing.assert_allclose(table.sigmas, 0.5 * before.sigmas)
        else:
            for axis, name in enumerate(reversed(table.clique)):
                np.testing.assert_allclose(table.values.sum(axis=axis), ones[name].values, atol=1e-6 * ROWS)


def test_dependence_that_is_known_well_is_kept_as_it_is() -> None:
    codes = _independent(0)
    codes[:, 1] = codes[:, 0]
    copies = _release(codes, 0.3, 0).tables()
    for before, table in zip(copies, slices.weigh_copies(copies, ROWS), strict=True):
        np.testing.assert_allclose(table.values, before.values, atol=0.002 * ROWS)


def test_attributes_of_one_code_have_no_dependence_to_weigh() -> None:
    domain = Domain(("a", "b"), (1, 3))
    vectors = np.concatenate([np.ones((60, 1)), np.eye(3)[np.arange(60) % 3]], axis=1)
    copies = NoisySlices(RowNumbers.indicate_codes(domain), vectors, 1.0).tables()
    for table in slices.weigh_copies(copies, 60.0):
        assert np.isfinite(table.sigmas).all()
        assert table.values.sum() == pytest.approx(60.0)


def test_a_model_is_told_that_one_noisy_row_enters_all_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    fit = Mixture.fit

    def listen(self: Mixture, *args: Any, **options: Any) -> Any:
        told.append(self.dependent_noise)
        return fit(self, *args, **options)

    monkeypatch.setattr(Mixture, "fit", listen)
    _fit("slicing", 60, tmp_path, a=2, b=3)
    assert told == [True]


def _fit(method: str, rows: int, path: Path, **sizes: int) -> Any:
    table = pa.table({name: np.zeros(rows, dtype=int) for name in sizes})
    schema = mg.Schema.from_sizes(sizes)
    run = mg.Synthesizer(
        method, epsilon=1.0, delta=1e-5, adjacency="zero_out", schema=schema, ledger=path / "run.jsonl"
    )
    return run.fit(table)


def _nothing_was_bought(path: Path) -> bool:
    ledger = path / "run.jsonl"
    return not ledger.exists() or "noisy copies" not in ledger.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "method", ["slicing", pytest.param("slice_wass", marks=[pytest.mark.needs_extra("torch")])]
)
def test_copies_beyond_the_memory_are_refused_before_they_are_bought(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "machine_memory", lambda: 60 * 5 * slices.COPY_BYTES - 1)
    with pytest.raises(InputError, match="fit into this machine's memory"):
        _fit(method, 60, tmp_path, a=2, b=3)
    assert _nothing_was_bought(tmp_path)


def test_too_many_codes_are_refused_before_anything_is_bought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "MAX_CODES", 4)
    with pytest.raises(InputError, match="at most 4 codes"):
        _fit("slicing", 60, tmp_path, a=2, b=3)
    assert _nothing_was_bought(tmp_path)


@pytest.mark.parametrize("rows", [0, 1])
def test_a_table_of_no_row_or_one_is_copied_and_has_a_model(rows: int, tmp_path: Path) -> None:
    drawn = _fit("slicing", rows, tmp_path, a=2, b=3).sample(4, rng=0)
    assert len(drawn["a"]) == 4


@pytest.mark.needs_extra("torch")
@pytest.mark.parametrize("method", ["slice_fdiv", "slice_wass"])
def test_a_table_too_small_to_train_on_is_refused_before_it_is_copied(method: str, tmp_path: Path) -> None:
    for rows in (0, 1):
        with pytest.raises(InputError, match="at least 2 rows"):
            _fit(method, rows, tmp_path, a=2, b=3)
    assert _nothing_was_bought(tmp_path)


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
@pytest.mark.parametrize("sizes", [(2,), (2, 3, 5), (4, 1, 2, 1), (1, 1)])
def test_the_change_that_is_planned_is_the_one_that_the_door_finds(
    adjacency: Adjacency, sizes: tuple[int, ...]
) -> None:
    neighbours = Neighbours(Unit(), adjacency)
    indicators = RowNumbers.indicate_codes(Domain(tuple(map(str, range(len(sizes)))), sizes))
    found = bound_change(indicators.cut(1), None, neighbours)
    for strategy in (slices.Slices(), slices.SliceTraining()):
        assert strategy.bound_copies(sizes, neighbours) == found


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_the_noise_of_the_plan_is_that_of_the_run(adjacency: Adjacency) -> None:
    """Three columns of four codes, equally many rows of each, for which the foretold tables are exact."""
    codes = np.stack([np.tile(np.arange(4), 2000), *np.divmod(np.arange(8000) % 16, 4)])
    table, schema = (
        pa.table(dict(zip("abc", codes, strict=True))),
        mg.Schema.from_sizes(dict.fromkeys("abc", 4)),
    )
    run = mg.Synthesizer("slicing", epsilon=5.0, delta=1e-5, adjacency=adjacency, schema=schema)
    plan, found = run.plan(table, rows=8000), run.fit(table)
    (event,) = found.release.events
    sigma = float(event.sigma_squared + 1 / 12) ** 0.5
    assert plan.copies == pytest.approx(
        {"numbers": 12.0, "sigma": sigma, "mu": float(event.l2_squared) ** 0.5 / sigma}, rel=0.02
    )
    assert plan.copies["sigma"] == pytest.approx(sigma, rel=1e-6)
    singles = [float(m.sigmas.max()) for m in found.release.measurements if len(m.clique) == 1]
    assert plan.sigma["one-way marginal"] == pytest.approx(singles[0], rel=1e-6)
    pairs = [float(m.sigmas.mean()) for m in found.release.measurements if len(m.clique) == 2]
    assert plan.sigma["pair"] == pytest.approx(np.mean(pairs), rel=0.02)
    said = str(plan)
    assert f"noisy copy of every row: 12 numbers, 0 or 1, each with sigma = {sigma:.2f}" in said
    assert "pair: total variation" in said


@pytest.mark.parametrize("adjacency", ["zero_out", "replace_one"])
def test_rows_that_cannot_differ_are_copied_under_noise(adjacency: Adjacency) -> None:
    """Columns of one code, where replacing a row changes nothing: it ended in an error about an event."""
    table, schema = pa.table({"a": np.zeros(50, int)}), mg.Schema.from_sizes({"a": 1})
    run = mg.Synthesizer("slicing", epsilon=1.0, delta=1e-5, adjacency=adjacency, schema=schema)
    assert run.plan(table, rows=50).error["one-way marginal"] == 0.0
    found = run.fit(table)
    assert found.release.events[0].l2_squared == 1
    assert found.sample(5, rng=0).num_rows == 5
