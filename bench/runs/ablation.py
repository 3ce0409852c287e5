"""What each part of the fit of `auto` is worth on real tables that it was not made on.

    python bench/runs/ablation.py [--tables modeldata/lending_club ...] [--epsilon 0.2 1 5]
        [--without graphical_model labels ...] [--shard 0/2] [--out FILE.jsonl]
    python bench/runs/ablation.py --nursery ...
    python bench/runs/ablation.py --show bench/results/ablation.jsonl

The tables are those of `packaged.py` that are looked at, or with `--nursery` those of the nursery's choosing
half, on which nearly everything was chosen. Of each one release an epsilon is made, delta 1e-6,
and models are fitted to that release by `auto` as it is and with one part left out, all from the same seed,
and as many rows drawn: so noise is common to all of them. A JSON line a release and part: mean total
variation of all pairs, of a seeded 150 triples, and seconds of fit and draw. `--show` prints for each part
the geometric means of its errors over those of `auto`, and the worst release either way. What is measured is
not left out: that would be another release. Figures are exact functions of the tables: **not private**.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import packaged
import pyarrow as pa
from numpy.typing import NDArray

from margrave import Synthesizer
from margrave.benchmark.nursery import find_nursery_table, list_nursery_tables
from margrave.benchmark.prepared import read_schema
from margrave.engines.frames import read_table
from margrave.limits import FULL, Effort
from margrave.models.auto import Auto
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain
from margrave.schema.encode import encode
from margrave.schema.schema import Schema

Codes = Mapping[str, NDArray[np.int64]]
FITTER, POLICY = "margrave.models.mixture.fitter", "margrave.models.mixture.policy"
MIXTURE = "margrave.models.mixture.fitter.Mixture"
DRAWING = "margrave.models._sampling.rounding"
TRIPLES, MOST_CELLS, SEED, BINS = 150, 3_000_000, 0, 32

Patches = Mapping[str, Any]
PARTS: Mapping[str, Patches] = {
    "graphical_model": {"margrave.models.auto.Auto._prefers_tree": lambda *_: False},
    "smoothed_one_ways": {
        f"{room}.smooth_one_ways": lambda _, tables, __: list(tables)
        for room in (FITTER, POLICY, "margrave.models.auto")
    },
    "latent_blocks": {f"{FITTER}.group_attributes": lambda *_: ()},
    "blocks_without_a_trial": {f"{FITTER}.is_clear": lambda _: False},
    "steps_where_noise_is_small": {f"{POLICY}.CLEAR_STEPS": 250},
    "components_where_noise_is_small": {f"{POLICY}.CLEAR_COMPONENTS": 800, f"{POLICY}.FINE_SIGNAL": 1e18},
    "finest_components": {f"{POLICY}.FINE_SIGNAL": 1e18},
    "few_components_for_few_rows": {f"{POLICY}.ROWS_A_COMPONENT": 1e-9},
    "search_for_the_penalty": {f"{POLICY}.MOST_STEPS": 0},
    "confirmation_of_the_penalty": {f"{FITTER}.JUDGED_ATTRIBUTES": 0},
    "fourth_root_of_the_penalty": {f"{POLICY}.SPARSE_SIGNAL": 1e-9},
    "dearer_states": {f"{FITTER}.STATE_PENALTY": 1.0},
    "cheaper_blocks": {f"{POLICY}.BLOCK_PENALTY_SHARE": 1.0},
    "rank_moments": {f"{FITTER}.find_score_moments": lambda _: []},
    "labels": {f"{MIXTURE}._judge_refinements": lambda _, __, best: replace(best.setting, refinements=False)},
    "judge_of_labels": {f"{MIXTURE}._judge_refinements": lambda _, __, best: best.setting},
    "balanced_states": {"margrave.models._mixture.rows._balance_states": lambda *_: None},
    "counts_of_rows_as_of_the_model": {f"{DRAWING}.MAX_WORK": 0.0},
    "what_another_attribute_fixes": {"margrave.models.auto.find_changes": lambda *_: []},
}
"""What is replaced, by where it stands, to leave a part out."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a strategy gave its fitter.

    Args:
        domain: Names and sizes of the attributes.
        measurements: What was measured.
        total: Rows, if they are public.
    """

    domain: Domain
    measurements: Sequence[NoisyMarginal]
    total: float | None


def open_item(item: str) -> tuple[pa.Table, Schema]:
    """A table and its declared schema."""
    if not item.startswith("choosing/"):
        prepared = packaged.prepare_item(item, raw=False)
        return prepared.train, prepared.public
    entry = find_nursery_table(item)
    table, _ = read_table(entry.load())
    table = table.select([name for name in table.column_names if name != entry.owner])
    return table, read_schema(table, BINS, entry.cut)


def measure(table: pa.Table, schema: Schema, epsilon: float) -> Held:
    """What one run of `auto` fits its last model to."""
    held: list[Held] = []
    whole = Auto.fit

    def keep(self: Auto, domain: Domain, measurements: Sequence[NoisyMarginal], **known: Any) -> Any:
        effort: Effort = known.get("effort", FULL)
        if not effort.rough:
            held.append(Held(domain, list(measurements), known.get("total")))
        return whole(self, domain, measurements, **known)

    with mock.patch.object(Auto, "fit", keep):
        Synthesizer("auto", epsilon=epsilon, delta=1e-6, schema=schema).fit(table)
    return held[-1]


def errors_of(domain: Domain, real: Codes, made: Codes) -> dict[str, float]:
    """Mean total variation of pairs and of some triples."""

    def distance(names: tuple[str, ...]) -> float:
        shape = tuple(domain[name] for name in names)
        tables = []
        for codes in (real, made):
            cells = np.ravel_multi_index([codes[name] for name in names], shape)
            tables.append(np.bincount(cells, minlength=int(np.prod(shape))) / len(cells))
        return 0.5 * float(np.abs(tables[0] - tables[1]).sum())

    triples = [names for names in itertools.combinations(domain.names, 3) if domain.size(names) < MOST_CELLS]
    some = np.random.default_rng(SEED).permutation(len(triples))[:TRIPLES]
    return {
        "pairs": round(statistics.fmean(map(distance, itertools.combinations(domain.names, 2))), 6),
        "triples": round(statistics.fmean(distance(triples[k]) for k in some), 6),
    }


def fit_without(part: str | None, held: Held, real: Codes) -> dict[str, float]:
    """Errors and seconds of `auto` on what was measured, without a part."""
    rows = len(next(iter(real.values())))
    start = time.process_time()
    with ExitStack() as stack:
        for place, instead in PARTS.get(part or "", {}).items():
            stack.enter_context(mock.patch(place, instead))
        model = Auto().fit(held.domain, held.measurements, total=held.total)
        drawn = model.sample(rows, np.random.default_rng(SEED))
    seconds = time.process_time() - start
    made = {name: drawn.column(name).astype(np.int64) for name in held.domain.names}
    return {**errors_of(held.domain, real, made), "seconds": round(seconds, 3)}


def run_all(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All outcomes, one after another."""
    tables = [one.word for one in list_nursery_tables("choosing")] if asked.nursery else asked.tables
    for item in packaged.choose_items(tables, "look", asked.shard):
        table, schema = open_item(item)
        coded = encode(table, schema)
        real = {name: coded.column(name).astype(np.int64) for name in coded.domain.names}
        for epsilon in asked.epsilon:
            held = measure(table, schema, epsilon)
            for part in (None, *asked.without):
                yield {"table": item, "epsilon": epsilon, "without": part, **fit_without(part, held, real)}


def show(outcomes: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A line a part: errors and seconds without it over those of `auto`."""
    base = {(one["table"], one["epsilon"]): one for one in outcomes if one["without"] is None}
    epsilons = sorted({epsilon for _, epsilon in base})
    heads = [f"pairs, triples at {epsilon:g}" for epsilon in epsilons]
    yield f"| without | {' | '.join(heads)} | seconds | least and greatest, pairs |"
    yield f"| {' | '.join(['---'] * (3 + len(heads)))} |"
    for part in PARTS:
        own = [one for one in outcomes if one["without"] == part]
        if not own:
            continue

        def ratio(name: str, some: Callable[[dict[str, Any]], bool], own: list[Any] = own) -> float:
            return statistics.geometric_mean(
                one[name] / base[one["table"], one["epsilon"]][name]
                for one in own
                if some(one) and base[one["table"], one["epsilon"]][name] > 0.0
            )

        cells = []
        for epsilon in epsilons:
            pairs, triples = (
                ratio(name, lambda one, at=epsilon: one["epsilon"] == at)  # type: ignore[misc]
                for name in ("pairs", "triples")
            )
            cells.append(f"{pairs:.3f}, {triples:.3f}")
        seconds = sum(one["seconds"] for one in own) / sum(
            base[one["table"], one["epsilon"]]["seconds"] for one in own
        )
        ranked = sorted(
            (one["pairs"] / base[one["table"], one["epsilon"]]["pairs"], one["table"], one["epsilon"])
            for one in own
            if base[one["table"], one["epsilon"]]["pairs"] > 0.0
        )
        ends = ", ".join(
            f"{table} at {epsilon:g} {found:.2f}" for found, table, epsilon in (ranked[0], ranked[-1])
        )
        yield f"| {part.replace('_', ' ')} | {' | '.join(cells)} | {seconds:.2f} | {ends} |"


def main() -> None:
    """Run and print, or print what was stored."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", choices=tuple(packaged.TABLES), metavar="TABLE")
    parser.add_argument("--nursery", action="store_true", help="the tables of the nursery's choosing half")
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.2, 1.0, 5.0])
    parser.add_argument("--without", nargs="+", choices=tuple(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument("--shard", default="0/1", help="which part of the tables, as in 0/2 and 1/2")
    parser.add_argument("--out", type=Path, help="append the outcomes to this file")
    parser.add_argument("--show", type=Path, help="print what this file says, and run nothing")
    asked = parser.parse_args()
    if asked.show:
        lines = asked.show.read_text(encoding="utf-8").splitlines()
        print("\n".join(show([json.loads(line) for line in lines])))
        return
    packaged.tell(run_all(asked), asked.out)


if __name__ == "__main__":
    main()
