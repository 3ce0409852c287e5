"""Training, and tabddpm as a run: refused up front or within its promise, saved, stopped, given, ruled."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.errors import InputError
from margrave.models.diffusion.fitter import Diffusion
from margrave.models.independent import Independent
from margrave.privacy.accounting.accountants import Renyi
from margrave.privacy.accounting.events import SubsampledGaussianEvent
from margrave.privacy.ledger.journal import read_ledger
from margrave.privacy.ledger.ledger import Ledger
from margrave.progress import Step
from margrave.schema.constraints.rules import Ordered
from margrave.select import Training
from margrave.select.strategy import Strategy
from stopping import Killed, killing, repeatable

pytestmark = pytest.mark.needs_extra("torch")

__all__ = ["repeatable"]

SCHEMA = mg.Schema(
    (
        mg.Categorical(name="y", values=("no", "yes"), missing=False),
        mg.Integer(name="n", lower=0, upper=5, missing=False),
        mg.Integer(name="m", lower=0, upper=5, missing=False),
        mg.Categorical(name="c", values=("x", "y", "z"), missing=False),
    )
)


def _table(rows: int = 2000) -> pa.Table:
    rng = np.random.default_rng(0)
    y = rng.random(rows) < 0.3
    n = rng.integers(0, 4, rows) + np.where(y, 2, 0)
    columns = {
        "y": np.where(y, "yes", "no"),
        "n": n,
        "m": np.minimum(n + rng.integers(0, 2, rows), 5),
        "c": np.where(y, "x", rng.choice(["y", "z"], rows)),
    }
    return pa.table(columns)


def _small(**more: Any) -> Diffusion:
    return Diffusion(**{"widths": (16,), "times": 10, "draws": 2, "rate": 0.01} | more)


def _synthesizer(model: Any = None, select: Any = None, **more: Any) -> mg.Synthesizer:
    settings: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6, "schema": SCHEMA} | more
    strategy = select or Training(steps=6, rate=Fraction(1, 8))
    return mg.Synthesizer("tabddpm", select=strategy, model=model or _small(), **settings)


def test_what_is_spent_is_what_is_promised(tmp_path: Path) -> None:
    found = _synthesizer(target="y", ledger=tmp_path / "run.jsonl").fit(_table())
    events = read_ledger(tmp_path / "run.jsonl")[1]
    assert found.release.events == events
    assert len(events) == 5
    training = events[-1]
    assert isinstance(training, SubsampledGaussianEvent)
    assert (training.steps, training.rate) == (6, Fraction(1, 8))
    assert found.guarantee.accounting == f"rdp-{training.order}"
    renyi = Renyi(training.order)
    total = renyi.total(2.0, Fraction(1e-6))
    spent = sum(renyi.cost(event) for event in events)
    assert Fraction(999, 1000) * total < spent <= total
    assert str(found.guarantee).endswith(f"accounting by Rényi divergence of order {training.order}")
    assert found.guarantee.rho == pytest.approx(float(total), rel=1e-12)


def test_the_weights_of_the_labels_are_noisy() -> None:
    """Sheet 7."""
    found = _synthesizer(target="y").fit(_table())
    (counts,) = [m for m in found.release.measurements if m.clique == ("y",)]
    exact = np.array([_table()["y"].to_pylist().count(word) for word in ("no", "yes")])
    assert float(counts.sigma) > 1.0
    assert (counts.values != exact).any()
    assert found.rows != 2000 or counts.values.sum() != 2000
    labels = found.sample(1500, rng=0)["y"].to_pylist().count("yes") / 1500
    assert labels == pytest.approx(counts.values[1] / counts.values.sum(), abs=0.03)


def test_it_learns_when_it_may() -> None:
    """With next to no noise a value that the label decides is decided by it, which one-ways cannot say."""
    strategy = Training(steps=150, rate=Fraction(1, 4))
    found = _synthesizer(
        _small(widths=(32,), times=20, rate=0.02, average=0.9), strategy, epsilon=1e5, target="y"
    ).fit(_table())
    pair = found.model.project(("y", "c")) / found.model.total
    assert pair[1, 0] > 0.8 * pair[1].sum()
    assert pair[0, 0] < 0.2 * pair[0].sum()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"adjacency": "replace_one"}, "add_remove"),
        ({"unit": mg.Unit("id", 2)}, "max_rows"),
        ({"model": Independent()}, "gradients"),
        ({"model": _small(device="abacus")}, "device"),
        ({"model": _small(widths=(9000,))}, "inputs a layer"),
    ],
)
def test_what_it_cannot_do_is_refused_before_anything_is_spent(
    tmp_path: Path, more: dict[str, Any], words: str
) -> None:
    table, path = _table(50), tmp_path / "run.jsonl"
    if "unit" in more:
        table = table.append_column("id", pa.array(np.arange(50)))
    with pytest.raises(InputError, match=words):
        _synthesizer(ledger=path, **more).fit(table)
    assert not path.exists() or read_ledger(path)[1] == ()


@pytest.mark.parametrize(
    "more", [{"adjacency": "replace_one"}, {"unit": mg.Unit("id", 2)}, {"model": Independent()}]
)
def test_what_arguments_decide_is_refused_before_the_table_is_opened(
    more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError("the table was opened")

    monkeypatch.setattr(mg.Synthesizer, "_open", fail)
    with pytest.raises(InputError):
        _synthesizer(**more).fit(_table(50))


def test_a_book_is_refused(tmp_path: Path) -> None:
    book = mg.Book.create(tmp_path / "b.book")
    book.cap("people", 5.0, 1e-4)
    with pytest.raises(InputError, match="book"):
        _synthesizer(ledger=book, dataset="people").fit(_table(50))
    assert book.runs() == []


def test_an_owner_of_one_row_is_protected() -> None:
    table = _table(300).append_column("id", pa.array(np.arange(300) // 2))
    found = _synthesizer(unit=mg.Unit("id", 1)).fit(table)
    assert found.guarantee.neighbours.unit.owner == "id"
    assert "id" not in found.sample(5, rng=0).column_names


def test_rows_given_codes_and_under_rules() -> None:
    ruled = mg.Schema(SCHEMA.columns, rules=(Ordered("n", "m"),))
    found = _synthesizer(schema=ruled, target="y").fit(_table())
    rows = found.sample(400, rng=0)
    assert (np.array(rows["n"]) <= np.array(rows["m"])).all()
    given = found.sample(100, rng=0, given={"y": "yes", "n": 3})
    assert set(given["y"].to_pylist()) == {"yes"}
    assert set(given["n"].to_pylist()) == {3}


def test_the_rate_falls_where_there_are_many_rows() -> None:
    found = _synthesizer(select=Training(steps=2, rate=Fraction(1, 2), largest=200)).fit(_table())
    training = found.release.events[-1]
    assert isinstance(training, SubsampledGaussianEvent)
    assert training.rate == Fraction(1, 16)


def test_all_its_steps_are_taken_and_told_of() -> None:
    told: list[int] = []

    def tell(step: Step) -> None:
        told.extend([step.round] if step.stage == "train" and not step.waiting else [])

    found = _synthesizer(select=Training(steps=201, rate=Fraction(1, 8)), on_step=tell).fit(_table())
    assert found.release.events[-1].steps == 201  # type: ignore[attr-defined]
    assert told == [0, 100, 200]


def test_a_time_limit_is_refused_before_the_table_is_opened() -> None:
    with pytest.raises(InputError, match=r"max_seconds.*public number of steps"):
        _synthesizer(max_seconds=2.0)


@pytest.mark.usefixtures("repeatable")
def test_a_training_that_is_killed_stays_paid_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with pytest.raises(Killed), killing(monkeypatch, 1, "lost"):
        _synthesizer(ledger=path).fit(_table())
    events = read_ledger(path)[1]
    assert isinstance(events[-1], SubsampledGaussianEvent)
    found = _synthesizer(ledger=path).fit(_table(), resume=True)
    assert found.release.events == events
    assert not [name for name in found.release.state if name.startswith("denoiser")]  # one-ways were left


def test_discovery_and_a_release_without_pytorch(tmp_path: Path) -> None:
    found = _synthesizer(schema=None, target="y").fit(_table())
    found.save(tmp_path / "r.margrave")
    code = (
        "import sys, margrave as mg; sys.modules['torch'] = None;"
        f"print(mg.load({str(tmp_path / 'r.margrave')!r}).sample(5, rng=1).to_pylist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(found.sample(5, rng=1).to_pylist())
    page = tmp_path / "r.html"
    found.report(page)
    text = page.read_text(encoding="utf-8")
    assert "sample of the rows" in text
    assert "Subsampled" in text


def test_arguments_out_of_range() -> None:
    bad: list[dict[str, Any]] = [{"steps": 0}, {"largest": 0}, {"ones": Fraction(1)}, {"clip": 0.0}]
    for more in [*bad, {"rate": Fraction(1, 3)}, {"rate": Fraction(0)}]:
        with pytest.raises(InputError):
            Training(**more)
    with pytest.raises(InputError, match="target"):
        _synthesizer(target="nobody").fit(_table(20))


def test_a_release_of_a_stopped_training_from_before_loads_as_independent_columns(tmp_path: Path) -> None:
    """Such files name the diffusion, with the state of independent columns."""
    made = mg.Synthesizer("independent", epsilon=1.0, schema=SCHEMA).fit(_table())
    object.__setattr__(made.release, "fitter", "diffusion")
    made.save(tmp_path / "old.margrave")
    again = mg.load(tmp_path / "old.margrave")
    assert again.release.fitter == "independent"
    assert again.sample(20, rng=0).equals(made.sample(20, rng=0))


def test_what_a_stopped_training_leaves_is_saved_under_the_name_of_what_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The training ends with all spent and no answer: the one-ways that were released make the model."""

    class Spends(Strategy):
        name, learns_by = "spends", "gradients"

        def run(self, curator: Any, fitter: Any, on_step: Any, deadline: Any = None) -> Any:
            names = curator.domain.names
            curator.measure([(name,) for name in names], curator.remaining / len(names))
            return curator.measure([()], Fraction(1, 100))

    # What rounding left of rho, less than a billionth, is gone after a stop as well.
    monkeypatch.setattr(Ledger, "exhausted", property(lambda self: self.planned < Fraction(1, 10**9)))
    found = mg.Synthesizer(select=Spends(), model="diffusion", epsilon=1.0, schema=SCHEMA).fit(_table())
    assert found.release.fitter == "independent"
    found.save(tmp_path / "run.margrave")
    assert mg.load(tmp_path / "run.margrave").rows == found.rows
