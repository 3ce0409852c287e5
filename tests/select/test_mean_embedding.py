"""MeanEmbedding: what it buys, with which shares, and what it refuses before anything is spent."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.errors import InputError
from margrave.models.independent import Independent
from margrave.models.registry import resolve
from margrave.privacy.accounting.accountants import GDP, event_rho
from margrave.privacy.accounting.events import GaussianEvent
from margrave.select.from_rows import MeanEmbedding


class Spy(Independent):
    """A fitter that keeps what it is given, and answers with independent columns."""

    learns_from = frozenset({"marginals", "moments"})

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "given", [])

    def fit_moments(
        self, domain: Any, measurements: Any, moments: Any, *, total: Any = None, effort: Any = None
    ) -> Any:
        self.given.append((tuple(measurements), moments, total))  # type: ignore[attr-defined]
        return self.fit(domain, measurements, total=total)


SCHEMA = mg.Schema(
    (
        mg.Integer(name="age", lower=0, upper=99, bins=10, missing=False),
        mg.Real(name="pay", lower=0, upper=1, bins=8, missing=True),
        mg.Categorical(name="sex", values=("F", "M"), missing=False),
        mg.Categorical(name="town", values=("x", "y", "z"), missing=False),
    )
)


def _table(rows: int = 400) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "age": rng.integers(0, 100, rows),
            "pay": rng.random(rows),
            "sex": rng.choice(["F", "M"], rows),
            "town": rng.choice(["x", "y", "z"], rows),
        }
    )


def _run(strategy: MeanEmbedding, spy: Spy, schema: mg.Schema = SCHEMA, **more: Any) -> mg.Synthesis:
    table = _table().select(list(schema.names))
    options = {"epsilon": 1.0, "delta": 1e-6, "schema": schema, **more}
    return mg.Synthesizer(select=strategy, model=spy, **options).fit(table)


def _some(*names: str) -> mg.Schema:
    return mg.Schema(tuple(column for column in SCHEMA.columns if column.name in names))


def test_it_buys_weights_features_and_pairs_with_the_label() -> None:
    spy = Spy()
    found = _run(MeanEmbedding(target="sex", frequencies=7), spy)
    measured, moments, total = spy.given[0]  # type: ignore[attr-defined]
    assert [m.clique for m in measured] == [("sex",), ("sex", "town")]
    assert moments.embedding.names == ("age", "pay")
    assert moments.embedding.label == "sex"
    assert moments.values.shape == (2, 14)
    assert total is None
    costs = [float(event_rho(event)) / found.guarantee.rho for event in found.release.events]
    np.testing.assert_allclose(costs, [0.1, 0.45, 0.45], rtol=1e-6)


def test_both_parts_of_the_embedding_have_the_noise_of_the_papers_joint_release() -> None:
    """Under replace_one a row moves it by sqrt(4 + 2): the sheet's tight bound for norm 1 in each part."""
    spy = Spy()
    found = _run(MeanEmbedding(target="sex", frequencies=7), spy, adjacency="replace_one")
    (_, pair), moments, _ = spy.given[0]  # type: ignore[attr-defined]
    rho = 0.9 * found.guarantee.rho
    one, two = moments.sigma * np.sqrt(1 / 7), float(pair.sigma)  # one attribute: its part has norm 1 already
    assert 4 / (2 * one**2) + 2 / (2 * two**2) == pytest.approx(rho, rel=0.01)


def test_without_a_label_it_buys_the_number_of_rows_unless_that_is_public() -> None:
    spy = Spy()
    _run(MeanEmbedding(frequencies=3), spy)
    _run(MeanEmbedding(frequencies=3), spy, adjacency="replace_one")
    first, second = ([m.clique for m in given[0]] for given in spy.given)  # type: ignore[attr-defined]
    assert first == [(), ("sex",), ("town",)]
    assert second == [("sex",), ("town",)]
    assert [given[2] for given in spy.given] == [None, 400.0]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("names", "target", "wanted"),
    [
        (("age", "pay"), None, [()]),
        (("age", "pay"), "pay", [("pay",)]),
        (("sex", "town"), "town", [("town",), ("town", "sex")]),
        (("sex", "town"), None, [("sex",), ("town",)]),
        (("sex",), "sex", [("sex",)]),
        (("age",), "age", [("age",)]),
    ],
)
def test_all_of_rho_is_spent_whatever_columns_there_are(names: Any, target: Any, wanted: Any) -> None:
    spy = Spy()
    found = _run(MeanEmbedding(target=target, frequencies=3), spy, _some(*names))
    measured, moments, _ = spy.given[0]  # type: ignore[attr-defined]
    assert [m.clique for m in measured] == wanted
    assert (moments is not None) == bool({"age", "pay"} & set(names) - {target})
    events = found.release.events
    assert all(isinstance(event, GaussianEvent) and event.rounded for event in events)
    spent = sum((GDP().cost(event) for event in events), Fraction(0))
    assert 0.999999 < float(spent) / found.guarantee.rho <= 1.0


def test_pairs_that_are_too_large_are_measured_without_the_label() -> None:
    spy = Spy()
    _run(MeanEmbedding(target="sex", frequencies=3, max_cells=5), spy)
    assert [m.clique for m in spy.given[0][0]] == [("sex",), ("town",)]  # type: ignore[attr-defined]


def test_what_cannot_be_is_refused_before_anything_is_spent(tmp_path: Any) -> None:
    for options, match in (
        ({"model": "independent"}, "takes Fourier features"),
        ({"model": Spy(), "select": MeanEmbedding(target="nobody")}, "target"),
    ):
        ledger = tmp_path / "l.jsonl"
        options = {"select": MeanEmbedding(), **options}
        run = mg.Synthesizer(epsilon=1.0, schema=SCHEMA, ledger=ledger, **options)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=match):
            run.fit(_table())
        assert not ledger.exists()
    for bad in ({"frequencies": 0}, {"max_cells": 0}, {"width": 0.0}, {"width": float("nan")}):
        with pytest.raises(InputError, match=next(iter(bad))):
            MeanEmbedding(**bad)  # type: ignore[arg-type]


def test_the_method_has_a_target_and_the_label_goes_with_it() -> None:
    made = mg.Synthesizer("dp_merf", epsilon=1.0, target="sex", model=Spy())
    assert made.strategy == MeanEmbedding(target="sex")
    assert resolve("merf").name == "merf"


def test_a_run_that_is_stopped_goes_on_with_the_same_moments(tmp_path: Any) -> None:
    class Stopped(Spy):
        broken = True

        def fit_moments(self, *args: Any, **options: Any) -> Any:
            super().fit_moments(*args, **options)
            if self.broken:
                raise KeyboardInterrupt
            return self.fit(args[0], args[1], total=options["total"])

        def __repr__(self) -> str:
            return "Stopped()"

    spy, path = Stopped(), tmp_path / "l.jsonl"
    run = mg.Synthesizer(
        select=MeanEmbedding(target="sex", frequencies=5), model=spy, epsilon=1.0, schema=SCHEMA, ledger=path
    )
    with pytest.raises(KeyboardInterrupt):
        run.fit(_table())
    Stopped.broken = False
    found = run.fit(_table(), resume=True)
    one, two = (given[1].values for given in spy.given)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(one, two)
    assert len(found.release.events) == 3
