"""docs/benchmark-003.md from stored results: `python bench/runs/paper003.py --page docs/benchmark-003.md`.

The text is bench/data/paper003_page.md, whose lines `(table: NAME)` stand for tables. They are made of the
lines that bench/runs/paper003.py wrote: bench/results/paper003/releases.jsonl (releases of `auto`),
spent.jsonl (--spend) and aim.jsonl (--method aim). The paper's figures are bench/data/paper003.csv,
digitised.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

BENCH = Path(__file__).parents[1]
RESULTS, TEXT = BENCH / "results" / "paper003", BENCH / "data" / "paper003_page.md"
FIGURES = BENCH / "data" / "paper003.csv"
TITLES = {
    "adult": "Adult",
    "acsincome": "ACSIncome",
    "acsemployment": "ACSEmployment",
    "acsmobility": "ACSmobility",
}
Cells = dict[tuple[str, str, float], list[dict[str, Any]]]
Theirs = dict[tuple[str, str, str, float], float]


def read_figures() -> Theirs:
    """The paper's figures by data set, task, method and epsilon."""
    with FIGURES.open(encoding="utf-8", newline="") as file:
        return {
            (row["dataset"], {"mse": "linear", "auc": "logistic"}[row["metric"]], row["method"],
             float(row["epsilon"])): float(row["value"])
            for row in csv.DictReader(file) if row["epsilon"]
        }  # fmt: skip


def read_cells(name: str) -> Cells:
    """The runs of a file of results by table, task and epsilon, in the order of tables."""
    cells: Cells = defaultdict(list)
    for line in (RESULTS / name).read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        cells[run["table"], run["task"], run["epsilon"]].append(run)
    order = list(TITLES)
    return dict(sorted(cells.items(), key=lambda cell: (order.index(cell[0][0]), cell[0][1], cell[0][2])))


def show(number: float | None, digits: int) -> str:
    """A score without the 0 before its point; nothing where there is none."""
    return "" if number is None else f"{number:.{digits}f}".removeprefix("0")


def lay_out(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows))


def tabulate_releases(task: str, sources: Sequence[str], methods: Sequence[str], theirs: Theirs) -> str:
    """Medians of releases beside the paper's curves, and the fit on the training rows below."""
    digits, rows, public = 4 if task == "linear" else 3, [], {}
    for (table, kind, epsilon), runs in read_cells("releases.jsonl").items():
        if kind != task:
            continue
        found = [[run[source] for run in runs if source in run] for source in sources]
        scores = [show(median(values) if values else None, digits) for values in found]
        paper = [show(theirs.get((TITLES[table], task, method, epsilon)), digits) for method in methods]
        rows.append([f"{TITLES[table]} {epsilon:g}", str(len(runs)), *scores, *paper])
        for run in runs:
            if "public" in run:
                public[TITLES[table]] = run["public"]
    heads = ["table, epsilon", "runs", *sources, *(f"paper: {method}" for method in methods)]
    told = ", ".join(f"{name} {show(value, 5 if value < 0.01 else digits)}" for name, value in public.items())
    return f"{lay_out(heads, rows)}\n\nOn the training rows themselves: {told}."


def tabulate_spent(task: str, methods: Mapping[str, str], paper: Sequence[str], theirs: Theirs) -> str:
    """Medians of regressions that spend, method by method."""
    digits, rows = 4 if task == "linear" else 3, []
    for (table, kind, epsilon), runs in read_cells("spent.jsonl").items():
        if kind != task:
            continue
        found = [[run["score"] for run in runs if run["method"] == method] for method in methods]
        counts = {len(values) for values in found}
        runs_said = str(counts.pop()) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
        scores = [show(median(values) if values else None, digits) for values in found]
        curves = [show(theirs.get((TITLES[table], task, method, epsilon)), digits) for method in paper]
        rows.append([f"{TITLES[table]} {epsilon:g}", runs_said, *scores, *curves])
    heads = ["table, epsilon", "runs", *methods.values(), *(f"paper: {method}" for method in paper)]
    return lay_out(heads, rows)


def tabulate_aim(theirs: Theirs) -> str:
    """Every release of our AIM."""
    rows = []
    for (table, task, epsilon), runs in read_cells("aim.jsonl").items():
        scores = [", ".join(show(run[source], 4) for run in runs) for source in ("ddssp", "synth")]
        curve = show(theirs.get((TITLES[table], task, "AIM", epsilon)), 4)
        rows.append([f"{TITLES[table]} {epsilon:g}", *scores, curve])
    return lay_out(["table, epsilon", "DD-SSP", "AIM-Synth", "paper: AIM"], rows)


def make_page() -> str:
    """The page, from what is stored."""
    theirs = read_figures()
    linear = {"ssp": "ssp", "adassp:published": "AdaSSP published", "adassp:released": "AdaSSP released"}
    logistic = {"objpert": "objpert", "noisy_newton": "noisy Newton", "dp_sgd": "dp_sgd, all rows"}
    tables = {
        "linear": tabulate_releases("linear", ("both", "ddssp"), ("AIM", "AdaSSP"), theirs),
        "logistic": tabulate_releases("logistic", ("both", "ddssp"), ("AIM", "ObjPert"), theirs),
        "spent linear": tabulate_spent("linear", linear | {"adassp": "AdaSSP exact"}, (), theirs),
        "spent logistic": tabulate_spent("logistic", logistic, ("AIM", "ObjPert"), theirs),
        "aim": tabulate_aim(theirs),
    }
    text = TEXT.read_text(encoding="utf-8")
    for name, table in tables.items():
        text = text.replace(f"(table: {name})", table)
    return text


def write_page(page: Path) -> None:
    """Write the page."""
    page.write_text(make_page(), encoding="utf-8")
