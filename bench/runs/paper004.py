"""The comparison of Chen et al. 2025 on its Bank table, beside its own figures; also on two tables of ours.

    python bench/runs/paper004.py run --root FOLDER
    python bench/runs/paper004.py page

Their setting: numbers with more than 100 values in 100 bins of equal width, every domain public, delta 1e-5,
rare values (below 0.2 % of the rows or three standard deviations) merged by a tenth of rho where a column
has more than 100. Here those columns are numbers, so what is merged are bins, with their neighbours, and
each column's look is a measurement of it (`margrave.measure.discovery.bins.merge_rare`). Where no column is
so large, the tenth stays with the method. A fifth of the rows is held out, all three metrics are against it.
Runs are cells of `margrave bench`: each in a process of its own with one thread, noise secure; a second call
goes on where the first was stopped, and runs nothing twice. `page` writes the page from what is there. FOLDER
holds bank-full.csv.gz and acs_employment_ma_2015_2018.parquet. **Not private**: scores are exact.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from margrave.benchmark.markdown import list_runs
from margrave.benchmark.page import RUNS
from margrave.benchmark.results import Findings, read_results

BENCH = Path(__file__).resolve().parent.parent
OUT = BENCH / "results" / "paper004"
FIGURES = BENCH / "data" / "paper004.csv"
PAGE = BENCH.parent / "docs" / "benchmark-004.md"
THEIRS = "bank-100"
"""The table that the paper has."""
TABLES = {
    THEIRS: ("Bank", "Bank"),
    "adult-100": ("Adult", "ACSincome"),
    "acs-100": ("ACS employment", "ACSemploy"),
}
"""Our tables: what they are called on the page, and the table of the paper that is next to it, whose figures
are not comparable but whose order of methods is."""
EPSILONS = (0.2, 1.0, 5.0)
NAMES = {
    "privsyn": "PrivSyn",
    "privmrf": "PrivMRF",
    "rap_pp+target": "RAP++",
    "aim": "AIM",
    "private_gsd": "Private-GSD",
    "gem": "GEM",
    "dp_merf+target": "DP-MERF",
    "tabddpm+target": "TabDDPM",
    "rap_pp": "",
    "gem+target": "",
    "mst": "",
    "auto": "",
    "auto+target": "",
}
"""Our names by the paper's, in its order; its RAP++ asks by the target's codes. The others are not in it."""
MINUTES = "minutes"


@dataclass(frozen=True)
class Metric:
    """A metric of the paper: its name there, which way is better, the unit of its last printed digit."""

    theirs: str
    title: str
    higher: bool
    digit: float


METRICS = {
    "ml_f1": Metric("ml_efficiency_f1", "ML efficiency: F1, higher is better", True, 0.01),
    "query_error": Metric("query_error", "Query error, lower is better", False, 0.001),
    "fidelity_error": Metric("fidelity_error", "Fidelity error, lower is better", False, 0.01),
    "ml_auc": Metric("ml_auc", "Area under the curve, higher is better", True, 0.01),
    "ml_accuracy": Metric("ml_accuracy", "Accuracy, higher is better", True, 0.01),
}


def run(args: argparse.Namespace) -> None:
    """Run the cells that are not there yet, method by method."""
    for table in args.tables:
        for method in args.methods:
            words = ["--methods", method, "--data", str(BENCH / "data" / f"{table}.toml")]
            words += ["--root", str(args.root), "--out", str(OUT), "--delta", "1e-5"]
            words += ["--epsilon", *(str(epsilon) for epsilon in args.epsilon)]
            words += ["--repeats", str(args.repeats), "--metrics", *METRICS]
            words += ["--max-seconds", str(args.limit), "--max-memory", "4GB"]
            subprocess.run([sys.executable, "-m", "margrave", "bench", *words], check=False)


Cells = dict[tuple[str, str, float], list[dict[str, object]]]
Figures = dict[tuple[str, str, str, float], float]


def outcomes(path: Path) -> Cells:
    """Outcomes by table, method and the paper's epsilon."""
    found: Cells = defaultdict(list)
    for row in pq.read_table(path).to_pylist():
        found[row["data"], row["method"], row["epsilon"] or 0.0].append(row)
    return found


def theirs(path: Path) -> Figures:
    """Their figures by table, metric, method and epsilon; the minutes too."""
    with path.open(newline="", encoding="utf-8") as handle:
        return {
            (row["dataset"], row["metric"], row["method"], float(row["epsilon"])): float(row["value"])
            for row in csv.DictReader(handle)
            if row["value"]
        }


def verdict(values: Sequence[float], figure: float, metric: Metric) -> str:
    """Whether the mean is beyond the figure by more than the spread.

    The spread is that of our runs, greatest less least, and half a unit of the figure's last digit: the
    paper gives none of its own.
    """
    gain = (sum(values) / len(values) - figure) * (1 if metric.higher else -1)
    spread = max(values) - min(values) + metric.digit / 2
    return "better" if gain > spread else "worse" if gain < -spread else "as good"


def _shown(values: Sequence[float], metric: Metric) -> str:
    places = 4 if metric.digit < 0.01 else 3
    mean = f"{sum(values) / len(values):.{places}f}"
    return f"{mean} [{min(values):.{places}f}, {max(values):.{places}f}]" if len(values) > 1 else mean


def _values(rows: Sequence[Mapping[str, object]], column: str) -> list[float]:
    return [float(row[column]) for row in rows if row["status"] == "done" and row[column] is not None]  # type: ignore[arg-type]


def _truth(cells: Cells, table: str, metric: Metric, name: str, paper: Figures) -> tuple[float, float]:
    """What the real rows score here and there; 0 where that is not known."""
    real = _values(cells.get((table, "real", 0.0), []), f"metric_{name}")
    known = paper.get((TABLES[table][1], metric.theirs, "Ground Truth", 1.0), 0.0) if table == THEIRS else 0.0
    return (real[0] if real else 0.0), known


def _compared(values: Sequence[float], figure: float, metric: Metric, truth: tuple[float, float]) -> str:
    """The last columns of a line: the paper's figure, ratio and verdict, and both against the real rows."""
    mean = sum(values) / len(values)
    found = f"{figure:g} | {mean / figure:.2f} | {verdict(values, figure, metric)} |"
    if not (metric.higher and all(truth)):
        return f"{found} |"
    scaled = [value * truth[1] / truth[0] for value in values]
    shares = f"{mean / truth[0]:.2f} to {figure / truth[1]:.2f}"
    return f"{found} {shares}, {verdict(scaled, figure, metric)} |"


def metric_table(cells: Cells, table: str, name: str, paper: Figures) -> list[str]:
    """One metric of one table, a line a method and epsilon."""
    metric, lines = METRICS[name], []
    truth = _truth(cells, table, metric, name, paper)
    for method, their_name in NAMES.items():
        for epsilon in EPSILONS:
            rows = cells.get((table, method, epsilon), [])
            values = _values(rows, f"metric_{name}")
            if not rows:
                continue
            if not values:
                lines.append(f"| {method} | {epsilon:g} | 0 | {rows[0]['status']} | | | | |")
                continue
            start = f"| {method} | {epsilon:g} | {len(values)} | {_shown(values, metric)} |"
            figure = paper.get(("Bank", metric.theirs, their_name, epsilon)) if table == THEIRS else None
            lines.append(
                f"{start} {'| | | |' if figure is None else _compared(values, figure, metric, truth)}"
            )
    if truth[0]:
        lines.append(f"| real rows | | 1 | {_shown(truth[:1], metric)} | {truth[1] or ''} | | | |")
    head = "| method | epsilon | runs | mean [least, greatest] | paper | ratio | verdict | of the real |"
    return [f"### {metric.title}", "", head, "| --- | --- | --- | --- | --- | --- | --- | --- |", *lines, ""]


def time_table(cells: Cells, table: str, paper: Figures) -> list[str]:
    """Processor minutes of fit and sample, against a quarter of the paper's."""
    lines = []
    for method, their_name in NAMES.items():
        for epsilon in EPSILONS:
            seconds = _values(cells.get((table, method, epsilon), []), "synthesis_cpu_seconds")
            if not seconds:
                continue
            spent = sum(seconds) / len(seconds) / 60
            figure = paper.get(("Bank", MINUTES, their_name, epsilon)) if table == THEIRS else None
            start = f"| {method} | {epsilon:g} | {len(seconds)} | {spent:.2f} |"
            kept = "" if figure is None else "yes" if spent <= figure / 4 else "no"
            share = "" if figure is None else f"{spent / figure:.2f}"
            lines.append(f"{start} {'' if figure is None else figure} | {share} | {kept} |")
    head = "| method | epsilon | runs | processor minutes | paper | ratio | a quarter at most |"
    return ["### Time", "", head, "| --- | --- | --- | --- | --- | --- | --- |", *lines, ""]


def order_table(cells: Cells, table: str, paper: Figures) -> list[str]:
    """Methods from best to worst on a table, and in the paper on the table next to it."""
    dataset = TABLES[table][1]
    head = f"| metric | epsilon | margrave | paper, {dataset} |"
    lines = ["### Order of the methods", "", head, "| --- | --- | --- | --- |"]
    for name in ("ml_f1", "query_error", "fidelity_error"):
        metric = METRICS[name]
        for epsilon in EPSILONS:
            ours: dict[str, float] = {}
            known: dict[str, float] = {}
            for method, their_name in NAMES.items():
                values = _values(cells.get((table, method, epsilon), []), f"metric_{name}")
                if values and their_name:
                    ours[method] = sum(values) / len(values)
                    known[method] = paper[dataset, metric.theirs, their_name, epsilon]
            ranked = [
                ", ".join(sorted(side, key=side.__getitem__, reverse=metric.higher)) for side in (ours, known)
            ]
            if ours:
                lines.append(f"| {name} | {epsilon:g} | {ranked[0]} | {ranked[1]} |")
    return [*lines, ""]


HEAD = """# The comparison of Chen et al. 2025, with its own figures

Written by `python bench/runs/paper004.py page` from `bench/results/paper004`; the head of that script says
how each figure was made, and how to run it again. Edit nothing here. **Not private**: scores are exact.

Chen et al., "Benchmarking Differentially Private Tabular Data Synthesis Algorithms" (2025), tables 2 and
14. Their Bank table is UCI's bank-full. Numbers with more than 100 values go to 100 bins of equal width,
domains are public, delta is 1e-5, add or remove one row. A tenth of rho merges rare bins of those columns
(below 0.2 % of the rows or three standard deviations of the noise) with their neighbours; where there are no
such columns methods get all of rho. A fifth of the rows is held out, and metrics compare with it. The paper's
figures are means of five runs without a spread. *better* and *worse*: our mean is beyond the paper's figure
by more than the spread of our runs (greatest less least) and half of its last digit. With one run that is
half the last digit alone, so read it as a hint. *ratio* is ours over theirs. *of the real*: both figures as
shares of what the real rows score on either side, and the verdict on these. Minutes are processor minutes of
fit and sample in one thread; theirs are wall time, on a GPU for all but PrivSyn and AIM.

**What `auto` was tuned on.** The rule of its penalty and the factors of its latent blocks were read off seven
tables, Adult, bank-full and ACS employment among them (bench/LOG.md, 2026-11-21 and 22), before the nursery
existed: its figures here are no fresh test. The reporting half of the [nursery](nursery.md) is one.
"""


def page(args: argparse.Namespace) -> None:
    """Write the page."""
    cells, paper = outcomes(OUT / "results.parquet"), theirs(FIGURES)
    runs = read_results(OUT / "results.parquet")
    lines = [HEAD, "## When it ran", "", RUNS, "", list_runs(Findings(runs).ordered), ""]
    for table, (title, _) in TABLES.items():
        if any(key[0] == table for key in cells):
            lines += [f"## {title}", ""]
            for name in METRICS:
                lines += metric_table(cells, table, name, paper)
            lines += time_table(cells, table, paper)
            lines += order_table(cells, table, paper)
    lines.append((BENCH / "data" / "paper004_notes.md").read_text(encoding="utf-8"))
    args.out.write_text("\n".join(lines), encoding="utf-8")


def main() -> None:
    """Run cells, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    runner = verbs.add_parser("run")
    runner.add_argument("--root", type=Path, required=True)
    runner.add_argument("--tables", nargs="+", choices=TABLES, default=["bank-100"])
    runner.add_argument("--methods", nargs="+", choices=["real", *NAMES], default=["real", *NAMES])
    runner.add_argument("--epsilon", nargs="+", type=float, choices=EPSILONS, default=EPSILONS)
    runner.add_argument("--repeats", type=int, default=5)
    runner.add_argument("--limit", type=float, default=1200.0, help="seconds of a cell")
    runner.set_defaults(do=run)
    writer = verbs.add_parser("page")
    writer.add_argument("--out", type=Path, default=PAGE)
    writer.set_defaults(do=page)
    args = parser.parse_args()
    args.do(args)


if __name__ == "__main__":
    main()
