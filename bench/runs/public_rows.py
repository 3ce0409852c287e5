"""Public rows from elsewhere on Adult: `auto` without them, and with some that agree, differ or mislead.

    python bench/runs/public_rows.py --epsilon 0.2 1 --repeats 2 --out bench/results/public_rows.jsonl

The private table are nine tenths of Adult's people born in the United States, drawn by a seed, in 32
equal-width bins (`bench/runs/adult.py`). Public rows: none; "alike", the other tenth; "abroad", the people of
Adult born elsewhere; "shuffled", the tenth with each column shuffled by itself. Adjacency replace_one, delta
1e-6. Scores: mean L1 distance of shares between synthetic and private rows over all pairs and 150 triples by
a seed; processor seconds of fit and sample. The page is docs/benchmark-002.md (`bench/runs/paper002.py`).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from adult import BINNED, adult_codes
from paper002 import score

from tables import coded_schema

HERE = Path(__file__).parent
OUT = HERE.parent / "results" / "public_rows.jsonl"
KINDS = ("none", "alike", "abroad", "shuffled")
BIRTH = "native-country"


def split_rows(table: pa.Table, seed: int) -> tuple[pa.Table, dict[str, Any]]:
    """The private rows, and public rows by kind."""
    home = int(np.bincount(table[BIRTH].to_numpy()).argmax())
    at_home = table.filter(pc.equal(table[BIRTH], home))
    abroad = table.filter(pc.not_equal(table[BIRTH], home))
    rng = np.random.default_rng(seed)
    order = rng.permutation(at_home.num_rows)
    cut = at_home.num_rows // 10
    alike = at_home.take(order[:cut])
    shuffled = pa.table({name: rng.permutation(alike[name].to_numpy()) for name in alike.column_names})
    return at_home.take(order[cut:]), {
        "none": None,
        "alike": alike,
        "abroad": abroad,
        "shuffled": shuffled,
    }


def main() -> None:
    """Run the grid; each line of the outcome file is a run."""
    from margrave import Synthesizer

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1])
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    table, sizes = adult_codes()
    schema = coded_schema(sizes, {*BINNED, "education-num"})
    for seed in range(asked.repeats):
        private, others = split_rows(table, seed)
        for epsilon in asked.epsilon:
            for kind in asked.kinds:
                start = time.process_time()
                synthesis = Synthesizer(
                    "auto",
                    epsilon=epsilon,
                    delta=1e-6,
                    adjacency="replace_one",
                    schema=schema,
                    public_table=others[kind],
                ).fit(private)
                drawn = synthesis.sample(rng=0)
                outcome = {
                    "public rows": kind,
                    "epsilon": epsilon,
                    "seed": seed,
                    "seconds": time.process_time() - start,
                    **score(private, drawn, sizes, []),
                }
                print(json.dumps(outcome), flush=True)
                with asked.out.open("a") as file:
                    file.write(json.dumps(outcome) + "\n")


if __name__ == "__main__":
    main()
