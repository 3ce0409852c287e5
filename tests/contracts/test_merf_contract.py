"""The mean embedding with its generator, on the tables that are hardest to like, and under rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import test_strategy_contract as contract
from torch_fitters import NEEDS_TORCH

import margrave as mg
from margrave.models.networks.merf import Merf
from margrave.models.networks.network import Network
from margrave.schema.constraints.rules import Ordered
from margrave.select.from_rows import MeanEmbedding

pytestmark = NEEDS_TORCH


def _tiny() -> Merf:
    return Merf(Network(components=8, noise=4, widths=(8,), steps=4), features=6)


@pytest.fixture(autouse=True)
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(contract.FITTERS, "merf", _tiny)
    monkeypatch.setitem(
        contract.STRATEGIES, "first", lambda names: MeanEmbedding(target=names[0], frequencies=9)
    )
    monkeypatch.setitem(contract.STRATEGIES, "none", lambda names: MeanEmbedding(frequencies=9))


@pytest.mark.parametrize("strategy", ["first", "none"])
@pytest.mark.parametrize("table", contract.TABLES)
def test_any_table_goes_with_it(tmp_path: Path, table: str, strategy: str) -> None:
    contract._check(contract._run(contract.TABLES[table](), strategy, "merf"), tmp_path)


@pytest.mark.parametrize("strategy", contract.STRATEGIES)
def test_any_strategy_goes_with_the_generator(tmp_path: Path, strategy: str) -> None:
    contract._check(contract._run(contract.TABLES["mixed"](), strategy, "merf"), tmp_path)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("max_rows", [None, 3])
@pytest.mark.parametrize("epsilon", [1e-3, 100.0])
def test_units_adjacencies_and_the_ends_of_epsilon(
    tmp_path: Path, max_rows: int | None, adjacency: str, epsilon: float
) -> None:
    options: dict[str, Any] = {"adjacency": adjacency, "epsilon": epsilon}
    table, _ = contract._mixed(400)
    if max_rows is not None:
        table = table.append_column("who", pa.array(np.arange(400) // 5, pa.int64()))
        options["unit"] = mg.Unit("who", max_rows)
    contract._check(contract._run((table, None), "first", "merf", **options), tmp_path)


def test_rows_obey_the_rules(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    low = rng.integers(0, 6, 600)
    table = pa.table({"low": low, "high": low + rng.integers(0, 3, 600), "y": rng.integers(0, 2, 600)})
    schema = mg.Schema(
        (
            mg.Integer(name="low", lower=0, upper=8, missing=False),
            mg.Integer(name="high", lower=0, upper=8, missing=False),
            mg.Categorical(name="y", values=("0", "1"), missing=False),
        ),
        rules=(Ordered("low", "high"),),
    )
    table = table.set_column(2, "y", table["y"].cast(pa.string()))
    found = contract._run((table, schema), "none", "merf", epsilon=2.0)
    rows = found.sample(500, rng=0).to_pydict()
    assert all(one <= two for one, two in zip(rows["low"], rows["high"], strict=True))
