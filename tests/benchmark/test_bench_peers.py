"""Peers: what an adapter is given and gives back; an environment that cannot be made is an outcome."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_cases import HIDDEN, write_table

from margrave.benchmark import methods
from margrave.benchmark.cell import made_rows
from margrave.benchmark.datasets import table_entry
from margrave.benchmark.grid import read_grid
from margrave.benchmark.methods import MethodEntry, environment, method_entry
from margrave.benchmark.prepared import prepare
from margrave.benchmark.results import read_results
from margrave.benchmark.run import run_grid
from margrave.errors import InputError, MargraveError

SHUFFLE = """
import csv, json, random, sys, time
from pathlib import Path
folder = Path(sys.argv[1])
request = json.loads((folder / "request.json").read_text())
rows = list(csv.reader((folder / "codes.csv").open()))
assert rows[0] == list(request["sizes"]) and len(rows) == request["rows"] + 1
assert 0 < request["rho"] < request["epsilon"] and request["options"] == {"deep": 2}
body = rows[1:]
random.Random(request["seed"]).shuffle(body)
with (folder / "rows.csv").open("w", newline="") as handle:
    csv.writer(handle).writerows([rows[0], *body])
(folder / "record.json").write_text(json.dumps({"fit": 0.25, "sample": 0.5, "versions": {"theirs": "9"}}))
"""


def peer(folder: Path, body: str, *requirements: str) -> MethodEntry:
    (folder / "run.py").write_text(body, encoding="utf-8")
    lines = ['kind = "peer"', 'adapter = "run.py"', f"requirements = {list(requirements)}"]
    lines += ["[options]", "deep = 2"]
    (folder / "theirs.toml").write_text("\n".join(lines), encoding="utf-8")
    return method_entry("theirs.toml", folder)


def run(folder: Path, method: MethodEntry, name: str = "people.csv") -> Any:
    prepared = prepare(table_entry(name, folder), 0.25, 0)
    work = folder / "work"
    work.mkdir()
    made = made_rows(method, prepared, (1.0, 1e-5), np.random.default_rng(0), work, sys.executable)
    return prepared, made


def test_codes_go_out_and_rows_come_back(tmp_path: Path) -> None:
    write_table(tmp_path / "people.csv")
    prepared, made = run(tmp_path, peer(tmp_path, SHUFFLE))
    real, rows = prepared.train_rows, made.rows
    assert (made.fit, made.sample, made.versions) == (0.25, 0.5, {"theirs": "9"})
    for clique in ((("name",)), ("age", "label"), ("name", "label")):
        assert np.array_equal(*(side.count([clique])[0] for side in (real, rows)))
    assert not np.array_equal(real.encoded.column("age"), rows.encoded.column("age"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"raise KeyError({HIDDEN!r})", "ended with 1: KeyError$"),
        ("raise SystemExit(3)", "ended with 3: it did not say why"),
        ("pass", "left no rows of codes"),
        (
            SHUFFLE + "\n(folder / 'rows.csv').write_text('age,name,label\\n999,0,0\\n')",
            "left no rows of codes",
        ),
    ],
)
def test_an_adapter_that_fails_is_told_apart_and_quotes_nothing(
    tmp_path: Path, body: str, message: str
) -> None:
    write_table(tmp_path / "people.csv")
    with pytest.raises(MargraveError, match=message) as caught:
        run(tmp_path, peer(tmp_path, body))
    assert HIDDEN not in str(caught.value)


def test_a_peer_cannot_discover_a_domain(tmp_path: Path) -> None:
    write_table(tmp_path / "people.csv")
    (tmp_path / "t.toml").write_text('file = "people.csv"\ndomain = "discovered"', encoding="utf-8")
    with pytest.raises(InputError, match="public domain"):
        run(tmp_path, peer(tmp_path, SHUFFLE), "t.toml")


def test_an_environment_is_made_once_and_again_when_it_is_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def install(command: list[str], name: str) -> None:
        commands.append(command)
        if "venv" in command:
            home = Path(command[-1]) / "bin"
            home.mkdir(parents=True, exist_ok=True)
            (home / "python").touch()

    monkeypatch.setattr(methods, "_install", install)
    method = peer(tmp_path, "pass", "first==1", "second==2")
    python = environment(method, tmp_path / "envs")
    assert [command[-1] for command in commands[1:]] == ["first==1", "second==2"]
    assert environment(method, tmp_path / "envs") == python
    assert len(commands) == 3
    (python.parents[1] / "ready").unlink()
    environment(method, tmp_path / "envs")
    assert len(commands) == 6
    assert environment(peer(tmp_path, "pass", "first==2"), tmp_path / "envs") != python


def test_an_environment_that_cannot_be_made_is_an_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(command: list[str], name: str) -> None:
        raise MargraveError(f"the environment of {name} could not be made: pip install ended with 1")

    monkeypatch.setattr(methods, "_install", refuse)
    write_table(tmp_path / "people.csv")
    peer(tmp_path, "pass", "nothing==0")
    words = {"methods": [str(tmp_path / "theirs.toml")], "data": [str(tmp_path / "people.csv")]}
    grid = read_grid(None, words | {"epsilon": [1.0], "repeats": 1, "metrics": ["average_tv"]})
    assert run_grid(grid, tmp_path / "out") == (1, 1)
    (found,) = read_results(tmp_path / "out" / "results.parquet")
    assert found["reason"].endswith("pip install ended with 1")
    assert (found["status"], found["stage"]) == ("error", "environment")


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[2] / "bench" / "peers").glob("*.toml")), ids=lambda path: path.stem
)
def test_shipped_peers_are_sound_and_pinned(path: Path) -> None:
    entry = method_entry(str(path), Path())
    assert entry.summary
    assert json.dumps(entry.to_json())
    assert all("==" in line for line in entry.settings["requirements"])
    assert entry.script is not None
    compile(entry.script.read_text(encoding="utf-8"), str(entry.script), "exec")
