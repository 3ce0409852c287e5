"""The vertical public-private split against its sheet: what is drawn, bought, known, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from faithful_door import Asked, Recorder, Watched, chain, counted

import margrave as mg
from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.models._base.public_rows import PublicRows
from margrave.models.pgm.fitter import ConditionalPGM
from margrave.models.public_weights import PublicWeights, WeightsModel
from margrave.privacy.accounting.accountants import ZCDP, event_rho
from margrave.privacy.accounting.events import ExponentialEvent, GaussianEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours, Unit
from margrave.release import KnownMarginal, NoisyMarginal
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded
from margrave.select import ConditionalAIM, VerticalRounds
from margrave.select.aim import span_public
from seeded_noise import SeededSource

SIZES = {"a": 3, "b": 4, "c": 2, "d": 3, "e": 2}
PUBLIC = ("a", "b", "c")
TABLE = chain(SIZES, 1500)
VJAM = VerticalRounds(closed=True, discount=True, ones=True, choosing=Fraction(1, 5), rounds=12)


def given(table: pa.Table = TABLE, names: Sequence[str] = PUBLIC) -> Encoded:
    domain = Domain(tuple(names), tuple(SIZES[name] for name in names))
    return Encoded(domain, tuple(table[name].to_numpy().astype(np.uint8) for name in names))


def opened(table: pa.Table = TABLE, epsilon: float = 3.0) -> tuple[Curator, Ledger]:
    neighbours = Neighbours(Unit(None), "replace_private", PUBLIC)
    ledger = Ledger(epsilon=epsilon, delta=1e-6, neighbours=neighbours, accountant=ZCDP())
    curator = Curator(open_source(table)[0], ledger, SeededSource(1))
    curator.discover(mg.Schema.from_sizes(SIZES))
    return curator, ledger


def run(strategy: Any, fitter: Any, table: pa.Table = TABLE) -> tuple[Recorder, Watched, Any]:
    recorder, watched = Recorder(opened(table)[0]), Watched(fitter)
    model = strategy.with_options(public=PUBLIC).run(recorder, watched, lambda step: None)
    return recorder, watched, model


def follow(notes: Sequence[Asked], one: Asked) -> Any:
    """The question after one, or None."""
    place = next(k for k, note in enumerate(notes) if note is one)
    return notes[place + 1] if place + 1 < len(notes) else None


def test_conditional_aim_draws_among_cliques_with_a_private_column_alone() -> None:
    """Its workload is all sets of three columns with a private one, without public parts."""
    recorder, _, model = run(ConditionalAIM(), ConditionalPGM(given=given()))
    drawn = [note for note in recorder.notes if note.verb == "choose"]
    assert drawn
    for note in drawn:
        assert all(set(clique) - set(PUBLIC) for clique in note.question["cliques"])
        # Weights are those of AIM over that workload: sum over its cliques s of |r and s|.
        workload = ConditionalAIM(public=PUBLIC).workload(recorder.domain)
        assert len(workload) == 10 - 1
        for clique, weight in zip(note.question["cliques"], note.question["weights"], strict=True):
            assert weight == sum(len(set(clique) & set(s)) for s in workload)
    bought = [note.question["cliques"] for note in recorder.notes if note.verb == "measure"]
    assert bought[0] == [("d",), ("e",)]
    assert all(set(clique) - set(PUBLIC) for cliques in bought for clique in cliques)
    for name in PUBLIC:
        np.testing.assert_allclose(model.project((name,)), counted(TABLE, (name,), (SIZES[name],)), atol=1.0)


def test_conditional_aim_knows_a_spanning_tree_of_public_pairs_exactly_and_at_no_cost() -> None:
    """Chow and Liu's tree, checked against all trees of four public columns."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, 3000)
    columns = [a, (a + (rng.random(3000) < 0.3)) % 4, a // 2, np.where(rng.random(3000) < 0.5, a, 0)]
    domain = Domain(("a", "b", "c", "d", "x"), (4, 4, 2, 4, 2))
    rows = Encoded(domain.project(("a", "b", "c", "d")), tuple(c.astype(np.uint8) for c in columns))
    table = pa.table(dict(zip("abcd", columns, strict=True)))

    def gain(pair: tuple[str, ...]) -> float:
        shares = counted(table, pair, domain.shape(pair)) / 3000
        product = np.outer(shares.sum(axis=1), shares.sum(axis=0))
        return float((shares * np.log(np.where(shares > 0, shares / product, 1.0))).sum())

    found = span_public(domain, rows)
    pairs = list(combinations("abcd", 2))
    trees = [some for some in combinations(pairs, 3) if len({n for pair in some for n in pair}) == 4]
    assert sum(gain(t.clique) for t in found) == pytest.approx(max(sum(map(gain, some)) for some in trees))
    for one in found:
        np.testing.assert_array_equal(one.values, counted(table, one.clique, domain.shape(one.clique)))
    recorder, _, model = run(ConditionalAIM(given=given()), ConditionalPGM(given=given()))
    asked = {
        clique for note in recorder.notes if note.verb != "choose" for clique in note.question["cliques"]
    }
    assert all(set(clique) - set(PUBLIC) for clique in asked)
    for one in span_public(recorder.domain, given()):
        np.testing.assert_allclose(model.project(one.clique), one.values, atol=2.0)


def test_a_pair_of_public_ids_is_not_in_conditional_aims_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    domain, rows = Domain(tuple(SIZES), tuple(SIZES.values())), given()
    monkeypatch.setattr("margrave.select.aim.MAX_PUBLIC_CELLS", 8)
    assert {table.clique for table in span_public(domain, rows)} == {("a", "c"), ("b", "c")}


def test_conditional_aim_anneals_as_aim_does() -> None:
    """The rho of a round is quadrupled where the model moved by less than its noise; the last takes all."""
    recorder, watched, _ = run(ConditionalAIM(), ConditionalPGM(given=given()))
    draws = [note for note in recorder.notes if note.verb == "choose"]
    first = recorder.total / (16 * len(SIZES))
    step = first
    for turn, (before, after) in enumerate(pairwise(draws)):
        if after is draws[-1]:
            break
        assert before.question["rho"] == step / 10
        clique = follow(recorder.notes, before).question["cliques"][0]
        models = watched.made[turn : turn + 2]
        moved = np.abs(models[1].project(clique) - models[0].project(clique)).sum()
        cells = math.prod(SIZES[name] for name in clique)
        if moved <= math.sqrt(2 / math.pi) * recorder.sigma(step * Fraction(9, 10)) * cells:
            step *= 4
        assert after.question["rho"] == step / 10
    assert recorder.remaining < Fraction(1, 10**6)


def test_public_columns_come_back_and_a_copy_of_one_agrees() -> None:
    """A private copy of a public column agrees in more than 99 % of the rows at epsilon 5."""
    rng = np.random.default_rng(5)
    public = pa.table({"a": rng.integers(0, 8, 6000), "b": rng.integers(0, 5, 6000)})
    table = public.append_column("copy", public["a"]).append_column("x", pa.array(rng.integers(0, 4, 6000)))
    sizes = {"a": 8, "b": 5, "copy": 8, "x": 4}
    options: dict[str, Any] = {
        "epsilon": 5.0, "public": ["a", "b"], "adjacency": "replace_private",
        "schema": mg.Schema.from_sizes(sizes),
    }  # fmt: skip
    rows = mg.Synthesizer("auto", **options).fit(table).sample(rng=0)
    assert rows.select(["a", "b"]).equals(table.select(["a", "b"]))
    assert rows.num_rows == table.num_rows
    assert (rows["copy"].to_numpy() == table["copy"].to_numpy()).mean() > 0.99


def test_every_round_draws_and_a_public_clique_costs_the_draw_alone() -> None:
    """vJAM-PGM: candidates are the closure, each once; what a public one leaves goes to later rounds."""
    recorder, watched, _ = run(VJAM.with_options(given=given()), ConditionalPGM(given=given()))
    one_ways, rounds = recorder.notes[0], recorder.notes[1:]
    assert one_ways.question["cliques"] == [("d",), ("e",)]
    draws = [note for note in rounds if note.verb == "choose"]
    assert len(draws) == 12
    known: set[tuple[str, ...]] = set()
    left = one_ways.after
    for turn, draw in enumerate(draws):
        cliques = draw.question["cliques"]
        assert len(set(cliques)) == len(cliques)
        share = left if turn == 11 else left / (12 - turn)
        assert draw.question["rho"] == share / 5
        sigma = recorder.sigma(share * Fraction(4, 5))
        for clique, penalty in zip(cliques, draw.question["penalties"], strict=True):
            cells = math.prod(SIZES[name] for name in clique)
            private = bool(set(clique) - set(PUBLIC))
            assert penalty == pytest.approx(math.sqrt(2 / math.pi) * sigma * cells if private else 0.0)
        chosen = cliques[draw.answer]
        left = draw.after
        after = follow(rounds, draw)
        if set(chosen) <= set(PUBLIC):
            known.add(chosen)
            assert after is None or after.verb == "choose"
        else:
            assert after is not None
            assert after.question["cliques"] == [chosen]
            left = after.after
    assert known
    for table in watched.given[-1]:
        if isinstance(table, KnownMarginal):
            assert set(table.clique) <= set(PUBLIC)
            shape = [SIZES[name] for name in table.clique]
            np.testing.assert_array_equal(table.values, counted(TABLE, table.clique, shape))
    assert known <= {table.clique for table in watched.given[-1]}


def test_scores_of_public_cliques_do_not_move_with_private_codes() -> None:
    """A replaced private part moves a private clique's distance by 2 at most, a public one's by nothing."""
    rng = np.random.default_rng(0)
    other = TABLE.set_column(3, "d", pa.array((TABLE["d"].to_numpy() + (np.arange(1500) == 7)) % 3))
    cliques = [("a", "b"), ("a", "d"), ("d", "e"), ("a", "b", "c"), ("b", "c", "d")]
    for clique in cliques:
        shape = [SIZES[name] for name in clique]
        model = rng.dirichlet(np.ones(math.prod(shape))).reshape(shape) * 1500
        tables = [counted(table, clique, shape) for table in (TABLE, other)]
        scores = [np.abs(table - model).sum() for table in tables]
        private = bool(set(clique) - set(PUBLIC))
        assert np.sqrt(((tables[0] - tables[1]) ** 2).sum()) == pytest.approx(math.sqrt(2) * private)
        assert abs(scores[0] - scores[1]) <= 2 * private


@pytest.mark.parametrize("method", ["vjam", "vpmw"])
def test_the_ledger_charges_a_replacement_and_stays_below_its_total(method: str) -> None:
    strategy = VJAM if method == "vjam" else VerticalRounds(rounds=6, degree=2)
    options: dict[str, Any] = {"epsilon": 1.0, "public": list(PUBLIC), "adjacency": "replace_private"}
    schema = mg.Schema.from_sizes(SIZES)
    synthesis = mg.Synthesizer(method, select=strategy, schema=schema, **options).fit(TABLE)
    events = synthesis.release.events
    assert all(event.l2_squared == 2 for event in events if isinstance(event, GaussianEvent))
    assert all(event.sensitivity == 2 for event in events if isinstance(event, ExponentialEvent))
    assert float(sum(event_rho(event) for event in events)) <= synthesis.guarantee.rho * (1 + 1e-12)
    rows = synthesis.sample(rng=0)
    assert rows.select(list(PUBLIC)).equals(TABLE.select(list(PUBLIC)))


def test_a_run_with_public_tables_draws_the_same_rows_after_a_file(tmp_path: Any) -> None:
    options: dict[str, Any] = {"epsilon": 2.0, "public": list(PUBLIC), "adjacency": "replace_private"}
    schema = mg.Schema.from_sizes(SIZES)
    for method, strategy in (("vjam", VJAM), ("vpmw", VerticalRounds(rounds=4, degree=2))):
        synthesis = mg.Synthesizer(method, select=strategy, schema=schema, **options).fit(TABLE)
        synthesis.save(tmp_path / method)
        assert mg.load(tmp_path / method).sample(rng=3).equals(synthesis.sample(rng=3))


def test_one_update_is_that_of_the_paper() -> None:
    """theta(x) exp(q(x) (m - q(theta)) / (2 n)) / Z in counts, for every cell q of a table."""
    domain, rows = Domain(("a", "x"), (2, 3)), np.array([0] * 30 + [1] * 10, np.uint8)
    public = Encoded(Domain(("a",), (2,)), (rows,))
    measured = np.array([[25.0, 4.0, 2.0], [1.0, 9.0, -3.0]])
    model = PublicWeights(given=public).fit(domain, [NoisyMarginal(("a", "x"), measured, 1.0)])
    start = np.repeat(np.array([[30.0], [10.0]]), 3, axis=1) / 3
    wanted = start * np.exp((measured - start) / (2 * 40))
    np.testing.assert_allclose(model.project(("a", "x")), 40 * wanted / wanted.sum(), rtol=1e-6)


def test_the_answer_is_the_mean_of_all_updates_and_going_on_changes_nothing() -> None:
    domain = Domain(tuple(SIZES), tuple(SIZES.values()))
    rng = np.random.default_rng(2)
    tables = [
        NoisyMarginal(c, counted(TABLE, c, domain.shape(c)) + 9 * rng.normal(size=domain.shape(c)), 9.0)
        for c in (("a", "d"), ("d", "e"), ("b", "c", "e"))
    ]
    fitter = PublicWeights(given=given())
    from margrave.limits import Effort

    rough = [fitter.fit(domain, tables[: k + 1], effort=Effort(rough=True)) for k in range(3)]
    whole = fitter.fit(domain, tables)
    again = fitter.fit(domain, tables, warm=rough[1])
    mean = np.mean([model.weights for model in rough], axis=0)
    np.testing.assert_allclose(whole.weights, mean, rtol=1e-12)
    np.testing.assert_array_equal(again.weights, whole.weights)


def test_weights_far_off_do_not_overflow_and_the_support_is_public_rows_times_private_cells() -> None:
    domain = Domain(tuple(SIZES), tuple(SIZES.values()))
    wild = NoisyMarginal(("d",), np.array([1e9, -1e9, 3.0]), 1.0)
    model = PublicWeights(given=given()).fit(domain, [wild])
    assert np.isfinite(model.weights).all()
    assert model.weights.shape == (len(PublicRows.read(domain, given()).codes), 6)
    with pytest.raises(mg.errors.InputError, match="support"):
        PublicWeights(given=given(), max_cells=5).fit(domain, [wild])


def test_rows_given_private_codes_are_those_of_the_weights() -> None:
    domain = Domain(("a", "x", "y"), (3, 2, 2))
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 3, 500).astype(np.uint8)
    rows = PublicRows.read(domain, Encoded(Domain(("a",), (3,)), (codes,)))
    model = WeightsModel(domain, 500.0, rows, rng.dirichlet(np.ones(12)).reshape(3, 4))
    drawn = model.sample(40_000, rng, {"x": 1})
    wanted = model.project(("x", "a", "y"))[1]
    found = np.zeros((3, 2))
    np.add.at(found, (drawn.column("a"), drawn.column("y")), 1)
    np.testing.assert_allclose(found / 40_000, wanted / wanted.sum(), atol=0.02)
    by_row = model.sample(500, rng, {"a": codes, "x": np.arange(500) % 2})
    assert (by_row.column("a") == codes).all()
    assert (by_row.column("x") == np.arange(500) % 2).all()


@pytest.mark.needs_extra("torch")
def test_pretraining_keeps_the_noise_and_learns_the_public_columns() -> None:
    from margrave.models.networks.network import PublicNetwork

    domain = Domain(tuple(SIZES), tuple(SIZES.values()))
    fitter = PublicNetwork(given=given(), components=40, noise=16, widths=(32,), steps=60)
    before, fresh = fitter.pretrain(domain, 1500.0), PublicNetwork(pretraining=0).pretrain(domain, 1500.0)
    clique = ("a", "b", "c")
    exact = counted(TABLE, clique, domain.shape(clique)) / 1500
    errors = [np.abs(model.project(clique) / 1500 - exact).sum() for model in (before, fresh)]
    assert errors[0] < 0.25 * errors[1]
    again = fitter.pretrain(domain, 1500.0)
    for one, two in zip(before.weights, again.weights, strict=True):
        np.testing.assert_array_equal(one, two)
    table = NoisyMarginal(("a", "d"), counted(TABLE, ("a", "d"), (3, 3)), 5.0)
    after = fitter.fit(domain, [table])
    assert np.abs(after.project(clique) / 1500 - exact).sum() < 0.5 * errors[1]
