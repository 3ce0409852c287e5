"""A kind of columns from outside the package whose cells begin alike; kinds that nobody knows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest
import toy_extension as toy
from pyarrow import csv

import margrave as mg
from command_line import call
from margrave.errors import ReleaseError, SchemaError
from margrave.report.pictures import Distribution
from margrave.schema.columns import Listed
from margrave.schema.encode import encode
from margrave.schema.given import Between
from margrave.schema.schema import COLUMN_KINDS, register_column

pytestmark = pytest.mark.usefixtures("own_tables")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network(Listed):
    """Addresses, of which only the network is kept: 10.1.2.3 by 10.1."""

    kind: ClassVar[str] = "network"
    networks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", ())
        Listed.__post_init__(self)

    @property
    def stems(self) -> tuple[str, ...]:
        """The networks."""
        return tuple(f"{network}." for network in self.networks)

    @property
    def rests(self) -> tuple[str, ...]:
        """Two numbers of two digits."""
        return (r"[0-9]{2}\.[0-9]{2}",) * len(self.networks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain(Network):
    """Addresses of which the beginning alone is written."""

    kind: ClassVar[str] = "plain"

    @property
    def rests(self) -> tuple[str, ...]:
        """None."""
        return ("",) * len(self.networks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong(Network):
    """Addresses with a point that is none of the shape's signs."""

    kind: ClassVar[str] = "wrong"

    @property
    def rests(self) -> tuple[str, ...]:
        """A class that there is not."""
        return ("[0-8]{2}.",) * len(self.networks)


NETWORK = Network(name="ip", networks=("10.1", "10.2"), missing=False)
TABLE = pa.table({"ip": ["10.1.2.3", "10.2.9.9"] * 100, "side": ["left", "right"] * 100})
SCHEMA = mg.Schema((NETWORK, mg.Categorical(name="side", values=("left", "right"), missing=False)))


def test_numbers_in_order_are_numbers_of_a_regression() -> None:
    """Before, an ordered kind that is not `Ordinal` entered as levels."""
    register_column(toy.Rating)
    stars = np.random.default_rng(0).integers(1, 6, 400)
    own = toy.Rating(name="stars", stars=5, missing=False)
    schema = mg.Schema((own, mg.Integer(name="pay", lower=0, upper=60, missing=False)))
    table = pa.table({"stars": stars, "pay": 10 * stars})
    made = mg.Synthesizer("auto", epsilon=20.0, schema=schema).fit(table)
    found = mg.regression.linear(made, target="pay")
    assert found.names == ("(intercept)", "stars")
    assert found["stars"] > 5.0


def test_what_stands_behind_a_beginning_is_drawn_for_any_listed_kind() -> None:
    register_column(Network)
    made = mg.Synthesizer("independent", epsilon=20.0, schema=SCHEMA).fit(TABLE).sample(300, rng=0)
    cells = made["ip"].to_pylist()
    assert all(cell.startswith(("10.1.", "10.2.")) and len(cell) == len("10.1.00.00") for cell in cells)
    assert len(set(cells)) > 50
    assert made.schema.names == ["ip", "side"]


def test_without_a_rest_the_beginning_stands_alone() -> None:
    register_column(Plain)
    column = Plain(name="ip", networks=("10.1", "10.2"), missing=False)
    schema = mg.Schema((column, *SCHEMA.columns[1:]))
    made = mg.Synthesizer("independent", epsilon=20.0, schema=schema).fit(TABLE).sample(50, rng=0)
    assert set(made["ip"].to_pylist()) <= {"10.1.", "10.2."}


def test_a_value_outside_gets_a_code_of_its_own_and_not_the_first() -> None:
    register_column(toy.Rating)
    schema = mg.Schema((toy.Rating(name="stars", stars=4, missing=False),)).absorb_outside()
    assert schema["stars"].labels == ("1", "2", "3", "4", "(other)")
    assert encode(pa.table({"stars": [1, 9, 4]}), schema).column("stars").tolist() == [0, 4, 3]


def test_a_shape_that_cannot_be_drawn_is_refused_where_it_is_declared() -> None:
    with pytest.raises(SchemaError, match=r"column 'ip': shape must be made of signs.*got"):
        Wrong(name="ip", networks=("10.1",), missing=False)


def test_pandas_keeps_the_order_of_an_ordered_kind() -> None:
    pandas = pytest.importorskip("pandas")
    register_column(toy.Rating)
    kind = pandas.CategoricalDtype([1, 2, 3, 4], ordered=True)
    frame = pandas.DataFrame(
        {"stars": pandas.Series(np.tile([1, 2, 3, 4], 50), dtype=kind), "b": ["x", "y"] * 100}
    )
    columns = (
        toy.Rating(name="stars", stars=4, missing=False),
        mg.Categorical(name="b", values=("x", "y"), missing=False),
    )
    made = mg.Synthesizer("independent", epsilon=5.0, schema=mg.Schema(columns)).fit(frame).sample(9, rng=0)
    assert made["stars"].cat.ordered


def rated() -> tuple[pa.Table, mg.Schema]:
    """Stars by shop, the second shop's are better."""
    register_column(toy.Rating)
    rng = np.random.default_rng(0)
    shop = rng.integers(0, 8, 800)
    columns = (
        toy.Rating(name="stars", stars=8, missing=False),
        toy.Rating(name="before", stars=8, missing=False),
    )
    table = pa.table({"stars": shop + 1, "before": np.clip(shop + rng.integers(0, 2, 800), 0, 7) + 1})
    return table, mg.Schema(columns)


def test_ranges_of_an_ordered_kind_can_be_given(tmp_path: Path) -> None:
    table, schema = rated()
    made = mg.Synthesizer("mst", epsilon=20.0, schema=schema).fit(table)
    assert set(made.sample(200, given={"stars": Between(2, 3)}, rng=0)["stars"].to_pylist()) == {2, 3}
    made.save(tmp_path / "r.margrave")
    asked = ("sample", tmp_path / "r.margrave", "-o", tmp_path / "o.csv", "--rows", 50, "-q")
    assert call(*asked, "--given", "stars=2..3").code == 0
    assert set(csv.read_csv(tmp_path / "o.csv")["stars"].to_pylist()) == {2, 3}


def test_an_ordered_kind_has_rank_correlations_and_bars_in_order() -> None:
    table, schema = rated()
    found = mg.evaluate(table, table, metrics=["rank_slope"], schema=schema)
    assert found["rank_slope"] == pytest.approx(1.0)
    shares = np.array([0.05, 0.1, 0.2, 0.05, 0.3, 0.1, 0.1, 0.1])
    bars = Distribution.of("rating", schema["stars"].labels, 0, shares).bars
    assert [bar.label for bar in bars] == list("12345678")


def test_a_kind_without_a_name_that_leads_to_it_is_refused_before_anything_is_spent() -> None:
    with pytest.raises(
        SchemaError, match=r"kind of column 'ip' must be registered.*register_column\(Network\)"
    ):
        mg.Synthesizer("independent", epsilon=1.0, schema=SCHEMA)


def test_a_release_of_a_kind_that_is_missing_here_says_so(tmp_path: Path) -> None:
    register_column(Network)
    mg.Synthesizer("independent", epsilon=1.0, schema=SCHEMA).fit(TABLE).save(tmp_path / "r.margrave")
    del COLUMN_KINDS["network"]
    with pytest.raises(
        ReleaseError, match=r"kinds of columns.*got \['network'\]. Install the extension"
    ) as refused:
        mg.load(tmp_path / "r.margrave")
    assert "damaged" not in str(refused.value)
    assert call("show", tmp_path / "r.margrave").code == 2


def test_all_metrics_are_those_of_extensions_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--metrics all` asks the extensions, also where nothing else had them loaded."""
    from margrave import extensions

    class Point:
        name = "toy"

        def load(self) -> object:
            return toy.register

    monkeypatch.setattr(extensions, "entry_points", lambda group: [Point()])
    extensions.load_extensions.cache_clear()
    try:
        from margrave.evaluation.metrics.registry import list_metrics

        assert "codes_lost" in list_metrics()
    finally:
        extensions.load_extensions.cache_clear()


def test_fields_that_follow_from_others_are_not_in_the_schema_file(tmp_path: Path) -> None:
    register_column(toy.Rating)
    schema = mg.Schema((toy.Rating(name="stars", stars=4, missing=False),))
    schema.save(tmp_path / "s.json")
    text = (tmp_path / "s.json").read_text(encoding="utf-8")
    assert '"values"' not in text
    assert mg.Schema.load(tmp_path / "s.json") == schema
    (tmp_path / "s.json").write_text(
        text.replace('"stars": 4', '"stars": 4, "values": [1, 2]'), encoding="utf-8"
    )
    with pytest.raises(SchemaError, match=r"got \['values'\]"):
        mg.Schema.load(tmp_path / "s.json")
