"""Markdown tables for LEADERBOARD.md from the JSON lines of bench/runs/compare.py.

    python bench/board.py bench/results/compare.jsonl

Medians with least and most over the repeats of a line; "against AIM" is the median pair error over AIM's.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

Line = dict[str, Any]
ORDER = ("auto", "auto+target", "aim", "batched", "mst", "independent")


def spread(lines: list[Line], key: str, digits: int) -> str:
    """Median [least, most]."""
    found = [float(line[key]) for line in lines if key in line]
    if not found:
        return ""
    middle, low, high = (f"{x:.{digits}f}" for x in (statistics.median(found), min(found), max(found)))
    return f"{middle} [{low}, {high}]"


def grouped(lines: list[Line], keys: tuple[str, ...]) -> dict[tuple[Any, ...], list[Line]]:
    """Lines by some of their fields, in the order in which they come."""
    found: dict[tuple[Any, ...], list[Line]] = defaultdict(list)
    for line in lines:
        found[tuple(line[key] for key in keys)].append(line)
    return found


def compare(lines: list[Line]) -> str:
    """One row a table, epsilon and method, and how the methods stand against AIM."""
    cells = grouped(lines, ("table", "epsilon", "method"))
    tables = list(dict.fromkeys(line["table"] for line in lines))
    rows = [
        "| table | epsilon | method | pairs | triples | AUC | cpu s | MB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    ratios: dict[str, list[float]] = defaultdict(list)
    for table in tables:
        for epsilon in sorted({line["epsilon"] for line in lines}):
            for method in ORDER:
                mine = cells.get((table, epsilon, method))
                if not mine:
                    continue
                words = [spread(mine, "pairs", 4), spread(mine, "triples", 4), spread(mine, "auc", 3)]
                cpu, size = (statistics.median(line[key] for line in mine) for key in ("cpu", "megabytes"))
                rows.append(
                    f"| {table} | {epsilon:g} | {method} | {' | '.join(words)} | {cpu:.1f} | {size:.0f} |"
                )
                aim = cells.get((table, epsilon, "aim"))
                if aim:
                    middle = statistics.median(line["pairs"] for line in mine)
                    ratios[method].append(middle / statistics.median(line["pairs"] for line in aim))
    rows += ["", "| method | pair error against AIM's: mean, least, most | settings |", "| --- | --- | --- |"]
    for method in ORDER:
        if ratios[method]:
            r = ratios[method]
            rows.append(f"| {method} | {statistics.mean(r):.2f}, {min(r):.2f}, {max(r):.2f} | {len(r)} |")
    return "\n".join(rows)


def main() -> None:
    """Print the tables."""
    lines = [json.loads(text) for text in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()]
    print(compare(lines))


if __name__ == "__main__":
    main()
