"""Without PyTorch: a method that computes with it is planned, and refused before a table is opened."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import margrave as mg
from command_line import call, files, usual_adjacency
from margrave.benchmark.cell import warm_up
from margrave.engines import opening
from margrave.errors import MissingExtraError
from margrave.methods import METHODS
from margrave.models._torch import device
from margrave.models.compressed import Compressed
from margrave.models.networks.network import Network

FITTERS = (
    "diffusion", "gan", "merf", "network", "particles", "public_network", "relaxed", "relaxed_points",
    "slice_fdiv", "slice_wass", "voted_gan",
)  # fmt: skip
NAMES = [name for name, method in METHODS.items() if method.fitter in FITTERS]
INSTALL = r"pip install 'margrave\[gpu\]'"
TABLE = pa.table({"a": [0, 1, 1, 0] * 50, "b": [1, 1, 0, 0] * 50})


ABSENT = """
import sys

class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name=name)

sys.meta_path.insert(0, Absent)
"""
"""What an import of PyTorch finds where it is not installed, whether it is or not."""


@pytest.fixture(autouse=True)
def _without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(sys, "meta_path", sys.meta_path.copy())
    exec(ABSENT, {})  # noqa: S102 - the same text is run in a process of its own below
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("torch")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The tables that are opened."""
    found: list[object] = []
    true = opening.open_source

    def open_source(data: object, **options: object) -> object:
        found.append(data)
        return true(data, **options)

    monkeypatch.setattr(opening, "open_source", open_source)
    return found


def test_the_methods_are_those_that_need_it() -> None:
    assert set(NAMES) == {
        "dp_merf", "dpsgd_gan", "gem", "pate_gan", "privpgd", "rap", "rap_pp",
        "slice_fdiv", "slice_wass", "tabddpm", "vgem",
    }  # fmt: skip
    assert mg.Synthesizer("auto", epsilon=1.0, schema=mg.Schema.from_sizes({"a": 2, "b": 2})).fit(TABLE).rows


@pytest.mark.parametrize("name", NAMES)
def test_it_is_planned(name: str, opened: list[object]) -> None:
    plan = mg.Synthesizer(name, epsilon=1.0, delta=1e-6, adjacency=usual_adjacency(name)).plan(
        TABLE, rows=200
    )
    assert plan.method == name
    assert plan.sigma
    assert len(opened) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_fit_is_refused_before_the_table_is_opened_and_a_ledger_is_made(
    name: str, opened: list[object], tmp_path: Path
) -> None:
    synthesizer = mg.Synthesizer(name, epsilon=1.0, ledger=tmp_path / "run.jsonl")
    for resume in (False, True):
        with pytest.raises(MissingExtraError, match=INSTALL):
            synthesizer.fit(TABLE, resume=resume)
    assert opened == []
    assert files(tmp_path) == set()


def test_a_fit_that_is_refused_leaves_no_run_in_a_book(opened: list[object], tmp_path: Path) -> None:
    path = tmp_path / "all.book"
    mg.Book.create(path).cap("people", 3.0, 1e-5)
    before = path.read_bytes()
    synthesizer = mg.Synthesizer(
        "gem", epsilon=1.0, delta=1e-6, ledger=path, dataset="people", analyst="anna"
    )
    with pytest.raises(MissingExtraError, match=INSTALL):
        synthesizer.fit(TABLE)
    assert opened == []
    assert path.read_bytes() == before


def test_a_fitter_within_another_is_asked_too(opened: list[object]) -> None:
    synthesizer = mg.Synthesizer("mst", epsilon=1.0, model=Compressed(Network()))
    with pytest.raises(MissingExtraError, match=INSTALL):
        synthesizer.fit(TABLE)
    assert opened == []


@pytest.mark.parametrize("name", NAMES)
def test_the_command_plans_it_and_refuses_to_run_it(name: str, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("a,b\nx,1\ny,2\n")
    options = ["--method", name, "-e", 1, "--adjacency", usual_adjacency(name)]
    planned = call("plan", table, *options)
    assert (planned.code, planned.err) == (0, "")
    assert f"method      {name}\n" in planned.out
    done = call("synthesize", table, *options, "-o", tmp_path / "out.csv")
    assert done.code == 1
    assert "pip install 'margrave[gpu]'" in done.err
    assert files(tmp_path) == {"t.csv"}


def test_the_command_needs_no_torch_in_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\nx,1\ny,2\n")
    start = f"{ABSENT}\nfrom margrave.cli.app import main; main()"
    for words in (["plan", "t.csv", "--method", "tabddpm", "-e", "1"], ["synthesize", "--help"]):
        done = subprocess.run(
            [sys.executable, "-c", start, *words], cwd=tmp_path, capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "tabddpm" in done.stdout


@pytest.mark.parametrize("model", FITTERS)
def test_tables_are_not_read_for_a_model_that_cannot_be_fitted(model: str, tmp_path: Path) -> None:
    with pytest.raises(MissingExtraError, match=INSTALL):
        mg.fit_tables(tmp_path / "absent.csv", model=model)


@pytest.mark.parametrize("name", ["gem", "tabddpm"])
def test_a_benchmark_warms_up_all_that_a_first_call_imports(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch, which a fit would otherwise import on the clock; where it is missing, the fit says so."""
    wanted: list[str] = []

    def import_module(module: str) -> None:
        wanted.append(module)
        raise ImportError(module)

    monkeypatch.setattr(device, "import_module", import_module)
    warm_up(name)
    assert wanted == ["torch"]
