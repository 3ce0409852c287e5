"""Every strategy with every fitter that needs PyTorch, on the tables that are hardest to like."""

from __future__ import annotations

from pathlib import Path

import pytest
import test_strategy_contract as contract
from torch_fitters import NEEDS_TORCH, TINY

pytestmark = NEEDS_TORCH


@pytest.mark.parametrize("fitter", TINY)
@pytest.mark.parametrize("strategy", contract.STRATEGIES)
def test_any_strategy_goes_with_it(
    tmp_path: Path, strategy: str, fitter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(contract.FITTERS, fitter, TINY[fitter])
    contract._check(contract._run(contract.TABLES["mixed"](), strategy, fitter), tmp_path)


@pytest.mark.parametrize("fitter", TINY)
@pytest.mark.parametrize("table", contract.TABLES)
def test_any_table_goes_with_it(
    tmp_path: Path, table: str, fitter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(contract.FITTERS, fitter, TINY[fitter])
    contract._check(contract._run(contract.TABLES[table](), "every pair twice", fitter), tmp_path)
