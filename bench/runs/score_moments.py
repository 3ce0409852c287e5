"""What it is worth to ask a mixture for rank correlations by themselves, and to measure rank products.

    python bench/runs/score_moments.py --tables choosing/factors-a choosing/copula-a --epsilon 1 5
        [--repeats 1] [--out bench/results/score_moments.jsonl]
    python bench/runs/score_moments.py --summary bench/results/score_moments.jsonl

For each table of the nursery (docs/nursery.md, numbers declared in 32 bins), epsilon and repeat `auto`
measures four fifths of the rows twice, without rank products and with them. From the first measurements a
model is chosen and fitted twice, asked for no rank correlation ("neither") and for those of measured pairs
("ranks", `margrave.models.mixture.score_moments`); from the second one as it is by default ("both"). A line
a model: the scores of `margrave bench` of as many rows drawn from it, mean total variation of pairs and of
triples, dependence kept and invented and the slope of rank correlations, and processor seconds of the fit.
delta is 1e-6. --summary tells geometric means of the errors over those of "neither", the worst ratio, and
mean differences of the other scores, by half of the nursery. The real table is looked at to judge: no score
here is private.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from judge import Recorder

import margrave as mg
from margrave.benchmark.datasets import table_entry
from margrave.benchmark.prepared import Prepared, prepare
from margrave.evaluation.review import score_metrics
from margrave.evaluation.task import Task
from margrave.limits import FULL
from margrave.models.auto import Auto
from margrave.models.mixture import fitter
from margrave.models.mixture.score_moments import find_score_moments
from margrave.select.all_pairs import AllPairs

RESULTS = Path(__file__).parent.parent / "results"
ERRORS = ("average_tv", "l1_3way")
SCORES = (*ERRORS, "dependence_kept", "dependence_invented", "rank_slope")
HELD_OUT = 0.2
ARMS = ((AllPairs(products=Fraction(0)), ("neither", "ranks")), (AllPairs(), ("both",)))


def score_models(prepared: Prepared, epsilon: float, repeat: int) -> Iterator[dict[str, Any]]:
    """Two sets of measurements, and a line for each model."""
    for strategy, names in ARMS:
        recorder = Recorder()
        asked: dict[str, Any] = {"schema": prepared.public, "delta": 1e-6, "epsilon": epsilon}
        taken = mg.Synthesizer(select=strategy, model=recorder, **asked).fit(prepared.train)
        domain, measurements, total = recorder.asked
        for name in names:
            if name == "neither":
                fitter.find_score_moments = lambda stacked: []
            start = time.process_time()
            model = Auto().fit(domain, measurements, total=total, effort=FULL)
            used = time.process_time() - start
            fitter.find_score_moments = find_score_moments
            drawn = mg.Synthesis(taken.release, model).sample_arrow(
                prepared.train_rows.size, rng=np.random.default_rng(repeat)
            )
            rows = prepared.rows_of(drawn)
            task = Task(prepared.train_rows, rows, prepared.scoring, held_out=prepared.held_rows, seed=repeat)
            found = {one.name: round(one.value, 5) for one in score_metrics(task, SCORES)}
            yield {"model": name, "repeat": repeat, **found, "cpu": round(used, 2)}


def summarise(path: Path) -> None:
    """Print what each change is worth against neither of them."""
    runs: dict[tuple[str, float, int], dict[str, dict[str, Any]]] = defaultdict(dict)
    for line in map(json.loads, path.read_text().splitlines()):
        runs[line["table"], line["epsilon"], line["repeat"]][line["model"]] = line
    for half in ("choosing", "reporting"):
        own = [run for (table, _, _), run in runs.items() if table.startswith(half) and len(run) == 3]
        for name in ("ranks", "both"):
            pairs = [(run[name], run["neither"]) for run in own]
            if not pairs:
                continue
            parts = [f"{half}, {name}, {len(pairs)} releases"]
            for metric in ERRORS:
                ratios = [new[metric] / old[metric] for new, old in pairs]
                parts.append(f"{metric} {np.exp(np.mean(np.log(ratios))):.3f} (worst {max(ratios):.3f})")
            for metric in SCORES[len(ERRORS) :]:
                gains = [new[metric] - old[metric] for new, old in pairs]
                parts.append(f"{metric} {np.nanmean(gains):+.3f}")
            parts.append(f"cpu {np.exp(np.mean([np.log(n['cpu'] / o['cpu']) for n, o in pairs])):.2f}")
            print(", ".join(parts))


def main() -> None:
    """Run the tables that are asked for, or summarise what is stored."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", default=["choosing/factors-a", "choosing/copula-a"])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "score_moments.jsonl")
    parser.add_argument("--summary", type=Path)
    args = parser.parse_args()
    if args.summary is not None:
        summarise(args.summary)
        return
    for word in args.tables:
        prepared = prepare(table_entry(word, Path.cwd()), HELD_OUT, 0)
        for epsilon in args.epsilon:
            for repeat in range(args.repeats):
                for scores in score_models(prepared, epsilon, repeat):
                    line = {"table": word, "epsilon": epsilon, **scores, "version": mg.__version__}
                    print(json.dumps(line), flush=True)
                    with args.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + os.linesep)


if __name__ == "__main__":
    main()
