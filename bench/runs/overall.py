"""What `margrave evaluate` says of methods on the loan books: one number, its parts, and references.

    python bench/runs/overall.py [--tables choosing/loans-a reporting/loans-b] [--methods ...] [--epsilon 1 3]
    python bench/runs/overall.py --show bench/results/overall.jsonl

Nothing is declared, as by a steward who has a file. A line of JSON for each release: the overall number, the
parts that it is the mean of, and the total variation of pairs; the real rows drawn anew (bootstrap) and each
column shuffled by itself stand beside them once a table. Seconds are of the processor.

**Not private**: the comparison reads the made-up table exactly.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results" / "overall.jsonl"
TABLES = ("choosing/loans-a", "reporting/loans-b")
METHODS = ("independent", "mst", "aim", "auto")


def run(word: str, method: str, epsilon: float) -> list[dict[str, Any]]:
    """The release's scores, and those of the reference tables."""
    import margrave as mg
    from margrave.benchmark.nursery import load_nursery_table
    from margrave.evaluation.review import split_overall

    table, started = load_nursery_table(word), time.process_time()
    rows = mg.Synthesizer(method, epsilon=epsilon, delta=1e-9).fit(table).sample(rng=0)
    took = time.process_time() - started
    found = mg.evaluate(table, rows)
    by_name = {method: {score.name: score.value for score in found.scores}, **found.references}
    records = []
    for name, values in by_name.items():
        record = {"table": word, "method": name, "epsilon": epsilon if name == method else None}
        record |= {"overall": values["overall"], "parts": split_overall(values), "pairs": values["tv_2_mean"]}
        records.append(record | ({"seconds": took} if name == method else {}))
    return records


def tell(record: dict[str, Any]) -> str:
    """One line of a result."""
    parts = ", ".join(f"{name} {value:.2f}" for name, value in record["parts"].items())
    epsilon = "" if record["epsilon"] is None else f"{record['epsilon']:g}"
    name = f"{record['table']:20} {record['method']:12} {epsilon:4}"
    return f"{name} overall {record['overall']:.2f}: {parts}; pairs {record['pairs']:.3f}"


def main() -> None:
    """Run the methods, or print results that were stored."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--show", type=Path)
    chosen = parser.parse_args()
    if chosen.show:
        for line in chosen.show.read_text(encoding="utf-8").splitlines():
            print(tell(json.loads(line)))
        return
    seen = set()
    with chosen.out.open("a", encoding="utf-8") as out:
        for word in chosen.tables:
            for epsilon in chosen.epsilon:
                for method in chosen.methods:
                    for record in run(word, method, epsilon):
                        key = (record["table"], record["method"], record["epsilon"])
                        if key in seen:
                            continue
                        seen.add(key)
                        out.write(json.dumps(record) + "\n")
                        out.flush()
                        print(tell(record), flush=True)


if __name__ == "__main__":
    main()
