"""How well split noise judges models, and what the one it chooses loses against the best in hindsight.

    python bench/runs/judge.py --epsilon 0.2 1 3 --tables survey-a loans-a

For each table of the choosing half of the nursery (docs/nursery.md) and each epsilon `auto` measures once.
Fitted to one half of split noise are then mixtures at 1/2, 1, 2 and 4 times the rule's penalty, with latent
blocks and without, and the graphical model of the strongest pairs, each at full size, and all are judged on
the other half as `auto` judges (`margrave.models._base.pooling.compare`). Printed are the judge's rank
correlations (Spearman) with the true errors of the same models: mean total variation of pairs and of 60
triples, and the share of the pairs' dependence that is lost. `loss` is by how much pairs and triples of the
chosen model, fitted to everything, are worse than those of the best of all that were fitted to everything,
and `auto` the same for what `auto` takes. delta is 1e-6. No figure here is private: the real table is looked
at to judge.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from margrave.models import Estimator

RESULTS = Path(__file__).parent.parent / "results"
FACTORS = (0.5, 1.0, 2.0, 4.0)
TRIPLES = 60


class Recorder(Estimator):
    """`Auto`, which keeps what it was asked to fit."""

    name = "auto"

    def __init__(self) -> None:
        from margrave.models.auto import Auto

        self.auto, self.asked = Auto(), None

    def fit(self, domain, measurements, *, total=None, warm=None, effort=None):  # type: ignore[no-untyped-def]
        """The model of `Auto`."""
        from margrave.limits import FULL

        self.asked = domain, list(measurements), total
        return self.auto.fit(domain, measurements, total=total, effort=effort or FULL)

    def restore(self, domain, measurements, state):  # type: ignore[no-untyped-def]
        """As `Auto`."""
        return self.auto.restore(domain, measurements, state)

    def admit(self, domain, cliques) -> None:  # type: ignore[no-untyped-def]
        """As `Auto`."""
        self.auto.admit(domain, cliques)

    def cells(self, domain, cliques, candidates):  # type: ignore[no-untyped-def]
        """As `Auto`."""
        return self.auto.cells(domain, cliques, candidates)


class Truth:
    """The real table's pairs and triples, in proportions."""

    def __init__(self, codes: dict[str, np.ndarray], sizes: dict[str, int]) -> None:
        rng = np.random.default_rng(0)
        triples = list(itertools.combinations(sizes, 3))
        chosen = rng.permutation(len(triples))[:TRIPLES]
        self.pairs = {c: self._table(codes, sizes, c) for c in itertools.combinations(sizes, 2)}
        self.triples = {triples[i]: self._table(codes, sizes, triples[i]) for i in chosen}

    def _table(self, codes: dict[str, np.ndarray], sizes: dict[str, int], clique: tuple) -> np.ndarray:
        shape = tuple(sizes[name] for name in clique)
        flat = np.ravel_multi_index([codes[name] for name in clique], shape)
        return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape) / len(flat)

    def errors(self, model: object) -> tuple[float, float, float]:
        """Pairs, triples, and the share of dependence that is lost."""
        pairs, triples = (
            [np.maximum(table, 0) / model.total for table in model.project_many(list(real))]  # type: ignore[attr-defined]
            for real in (self.pairs, self.triples)
        )
        kept = there = 0.0
        for found, real in zip(pairs, self.pairs.values(), strict=True):
            product = np.outer(real.sum(axis=1), real.sum(axis=0))
            own = found - np.outer(found.sum(axis=1), found.sum(axis=0))
            kept += float((own * (real - product) / (product + 1e-4)).sum())
            there += float(((real - product) ** 2 / (product + 1e-4)).sum())
        return _distance(pairs, self.pairs), _distance(triples, self.triples), 1.0 - kept / max(there, 1e-12)


def _distance(found: list[np.ndarray], real: dict[tuple, np.ndarray]) -> float:
    return float(np.mean([0.5 * np.abs(f - r).sum() for f, r in zip(found, real.values(), strict=True)]))


def once(word: str, epsilon: float) -> dict[str, object]:
    """One set of measurements, every candidate."""
    from scipy.stats import spearmanr

    import margrave as mg
    from margrave.benchmark.nursery import find_nursery_table, load_nursery_table
    from margrave.benchmark.prepared import read_schema
    from margrave.engines.frames import read_table
    from margrave.limits import FULL
    from margrave.models._base.pooling import mu, pool, rows_of
    from margrave.models._mixture.latent_blocks import group_attributes
    from margrave.models.auto import Auto, rank_pairs
    from margrave.models.mixture import Mixture
    from margrave.models.mixture.policy import Choice, Trials, set_policy
    from margrave.schema.encode import encode
    from margrave.select.all_pairs import AllPairs

    entry = find_nursery_table(word)
    raw, _ = read_table(load_nursery_table(word))
    raw = raw.select([name for name in raw.column_names if name != entry.owner])
    schema, recorder = read_schema(raw, 32, entry.cut), Recorder()
    taken = mg.Synthesizer(epsilon=epsilon, delta=1e-6, select=AllPairs(), model=recorder, schema=schema).fit(
        raw
    )
    domain, measurements, total = recorder.asked
    total = rows_of(measurements, total)
    encoded = encode(raw, schema)
    codes = {name: np.asarray(encoded.column(name), dtype=np.int64) for name in domain.names}
    truth = Truth(codes, dict(zip(domain.names, domain.sizes, strict=True)))

    tables, mixture = pool(domain, measurements, inferred=True), Mixture(refinements=0)
    trials = Trials(domain, tables, total, 0, FULL)
    signal = total * mu(tables)
    choice = mixture.choose(domain, tables, total)
    groups = group_attributes(domain, choice.dependence)
    rules = [set_policy(sum(domain.sizes), signal, own, total) for own in ((), groups)[: 1 + bool(groups)]]
    settings = [replace(rule, penalty=factor * rule.penalty) for factor in FACTORS for rule in rules]
    halves = [trials.fit_model(mixture, setting) for setting in settings]
    whole = [mixture.fit_at(Choice(setting), domain, measurements, total, FULL) for setting in settings]
    ranked = rank_pairs(domain, tables, choice.dependence)
    if ranked:
        half = [table.measurement for table in trials.half]
        halves.append(Auto().grow_tree(domain, half, ranked, total))
        whole.append(Auto().grow_tree(domain, measurements, ranked, total))
    entered = [trials.enter(model, settings[0]) for model in halves]
    scores = [trials.compare(one, entered[0])[0] for one in entered]
    true = np.array([truth.errors(model) for model in halves])
    full = np.array([truth.errors(model) for model in whole])
    own = np.array(truth.errors(taken.model))
    best, chosen = full.min(axis=0), full[int(np.argmin(scores))]
    ranks = [float(spearmanr(scores, true[:, i]).statistic) for i in range(3)]
    return {
        "table": word,
        "epsilon": epsilon,
        "ranks": dict(zip(("pairs", "triples", "lost"), ranks, strict=True)),
        "loss": dict(zip(("pairs", "triples"), (chosen / best - 1.0)[:2].tolist(), strict=True)),
        "auto": dict(zip(("pairs", "triples"), (own / best - 1.0)[:2].tolist(), strict=True)),
        "errors": full.tolist(),
    }


def main() -> None:
    """Run the grid, write JSON lines and print them with their means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tables", nargs="+", required=True)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.2, 1.0, 3.0])
    parser.add_argument("--out", type=Path, default=RESULTS / "judge.jsonl")
    args = parser.parse_args()
    stamp = {"python": platform.python_version(), "numpy": np.__version__, "day": time.strftime("%Y-%m-%d")}
    lines = []
    for name in args.tables:
        for epsilon in args.epsilon:
            run = once(f"choosing/{name}", epsilon)
            with args.out.open("a") as handle:
                handle.write(json.dumps(run | stamp) + "\n")
            lines.append([*run["ranks"].values(), *run["loss"].values(), *run["auto"].values()])  # type: ignore[attr-defined]
            print(f"{name:14} eps {epsilon:<4g} {_said(lines[-1])}", flush=True)
    print(f"{'mean':14}          {_said(np.nanmean(lines, axis=0))}")


def _said(numbers: object) -> str:
    pairs, triples, lost, *losses = numbers  # type: ignore[misc]
    ranks = f"rank correlation pairs {pairs:5.2f} triples {triples:5.2f} lost {lost:5.2f}"
    return ranks + "  loss {:6.2%} {:6.2%}  auto {:6.2%} {:6.2%}".format(*losses)


if __name__ == "__main__":
    for library in ("OMP", "OPENBLAS", "NUMBA"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    main()
