"""The grids of the nursery: each holds one half, all of it, and the methods it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from margrave.benchmark.grid import DEPENDENCE, read_grid
from margrave.benchmark.nursery import list_nursery_tables

GRIDS = Path(__file__).parents[2] / "bench" / "nursery"


@pytest.mark.parametrize("name", ["choosing", "choosing-raw", "reporting", "reporting-raw"])
def test_a_grid_holds_one_half(name: str) -> None:
    grid = read_grid(GRIDS / f"{name}.toml", {})
    half = name.split("-")[0]
    assert {table.half for table in grid.tables} == {half}
    made = {table.word for table in list_nursery_tables(half) if not table.needs}  # type: ignore[arg-type]
    assert made <= {table.nursery for table in grid.tables}
    assert {table.domain for table in grid.tables} == {"discovered" if name.endswith("raw") else "public"}
    assert {"auto", "aim", "batched", "mst", "independent"} <= {method.name for method in grid.methods}
    assert set(DEPENDENCE) <= set(grid.metrics)


def test_the_small_grid_is_of_tables_to_report_on() -> None:
    assert {table.half for table in read_grid(GRIDS / "reporting-small.toml", {}).tables} == {"reporting"}


def test_no_other_grid_lies_beside_them() -> None:
    assert len(list(GRIDS.glob("*.toml"))) == 5
