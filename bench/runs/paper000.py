"""The comparison of Donhauser et al. 2024 (PrivPGD), on tables that can be had, beside its own figures.

    python bench/runs/paper000.py run --root FOLDER [--tables adult ...] [--methods PrivPGD ...] [--repeats 5]
    python bench/runs/paper000.py protect --root FOLDER [--tables adult acs_employment.toml]
    python bench/runs/paper000.py clock --root FOLDER [--particles 100000 --paper --device cuda]
    python bench/runs/paper000.py page

Their setting: epsilon 2.5 and delta 1e-5, one row replaced by another (definition 2.1), numbers with more
than 32 values in 32 bins of equal width, every domain public, a fifth of the rows held out. `run` fills a
folder of `margrave bench`: each cell in a process of its own with one thread and limits, noise secure; a
second call goes on where the first was stopped, and runs nothing twice. `protect` is section 4.4, `clock`
the time of PrivPGD alone. `page` writes docs/benchmark-000.md and its pictures from what is there. FOLDER
holds the tables that the specs of bench/data name; "adult" ships with margrave. **Not private**: scores are
exact. Words of the page that no run changes lie in bench/data/paper000.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import paper000_fits as fits

from margrave.benchmark import markdown, pictures
from margrave.benchmark.page import RUNS
from margrave.benchmark.pictures import Level, Line, document, lines_panel
from margrave.benchmark.results import Findings, read_results
from margrave.files import write_text

BENCH = Path(__file__).resolve().parent.parent
HOME = BENCH / "data" / "paper000"
OUT = BENCH / "results" / "paper000"
PAGE = BENCH.parent / "docs" / "benchmark-000.md"
EPSILON, DELTA = 2.5, 1e-5
TABLES = {
    "acs_employment": "acs_employment.toml",
    "adult": "adult",
    "credit_default": "credit_default.toml",
    "diamonds": "diamonds.toml",
    "flights": "paper000/flights.toml",
}
"""Tables by name, and the words of `margrave bench` for them, relative to bench/data."""
METHODS = {
    "PrivPGD": "PrivPGD.py",
    "AIM": "AIM.toml",
    "MST": "MST.toml",
    "Private-GSD": "Private-GSD.toml",
    "RAP": "RAP.toml",
    "GEM": "GEM.toml",
    "margrave-auto": "margrave-auto.toml",
    "real": "real",
}
THEIRS = {
    "PrivPGD": "PrivPGD",
    "PGM+AIM": "AIM",
    "PGM+MST": "MST",
    "Private GSD": "Private-GSD",
    "RAP": "RAP",
    "GEM": "GEM",
    "real data": "real",
}
"""Our names of methods by theirs."""
METRICS = dict(
    zip(("downstream", "covariance", "counting", "thresholding", "sw1", "tv"), pictures.RATIOS, strict=True)
)
"""Our names of metrics by theirs, in their order."""
TWIN = ("acs_employment", "Emp")
"""The one table of ours that has a like in the paper."""


def run(args: argparse.Namespace) -> None:
    """Run the cells that are not there yet, table by table and method by method."""
    for table in args.tables:
        for method in args.methods:
            entry = method if method == "real" else str(HOME / METHODS[method])
            data = TABLES[table] if table == "adult" else str(BENCH / "data" / TABLES[table])
            words = ["--methods", entry, "--data", data, "--epsilon", str(EPSILON), "--delta", str(DELTA)]
            words += ["--root", str(args.root), "--out", str(OUT), "--metrics", *METRICS.values()]
            words += ["--repeats", str(args.repeats if method != "real" else 1)]
            limit = 2 * args.limit if method == "PrivPGD" else args.limit
            words += ["--max-seconds", str(limit), "--max-memory", "8GB"]
            subprocess.run([sys.executable, "-m", "margrave", "bench", *words], check=False)


def ours(path: Path) -> Findings:
    """What the cells found; margrave's default method, whose own name an entry may not have, gets it back."""
    outcomes = read_results(path)
    for one in outcomes:
        one["method"] = str(one["method"]).removeprefix("margrave-")
    return Findings(outcomes)


def theirs(path: Path) -> Findings:
    """The paper's figures as if a benchmark had found them; a figure that its text garbles is not there."""
    scores: dict[tuple[str, str], dict[str, float]] = {}
    with path.open(newline="", encoding="utf-8") as handle:
        for row in csv.DictReader(handle):
            if row["value"] and row["method"] in THEIRS:
                key = row["dataset"], THEIRS[row["method"]]
                scores.setdefault(key, {})[METRICS[row["metric"]]] = float(row["value"])
    outcomes: list[dict[str, Any]] = []
    for (table, method), values in scores.items():
        known = method == "real"
        outcome: dict[str, Any] = {"data": table, "method": method, "kind": "reference" if known else "paper"}
        outcome |= {"epsilon": None if known else EPSILON, "repeat": 0, "status": "done", "scores": values}
        outcomes.append(outcome)
    return Findings(outcomes)


def coverage(found: Findings) -> str:
    """How many cells there are, how many failed, and how many runs each has of them."""
    counts = [
        runs
        for table in found.tables
        for name in found.methods
        if (runs := len(found.runs(table, name, EPSILON)))
    ]
    most = {runs: counts.count(runs) for runs in sorted(set(counts))}
    parts = [f"{many} with {runs} run{'s' * (runs > 1)}" for runs, many in most.items()]
    there = f"{len(counts)} of {len(found.tables) * len(found.methods)} combinations of a table and a method"
    return f"There are figures for {there}: {', '.join(parts)}; runs that failed: {len(found.failures)}."


def _cell(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:+.2f}"


def ratio_table(found: Findings, paper: Findings, metric: str) -> str:
    """log2 of errors over PrivPGD's: our tables, the like of one in the paper, the paper's middle one."""
    methods, rows = [name for name in found.methods if name != "PrivPGD"], list[list[str]]()
    for table in found.tables:
        own = [_cell(found.ratio(table, name, EPSILON, metric, "PrivPGD")) for name in methods]
        rows.append([table, *own])
        if table == TWIN[0]:
            like = [_cell(paper.ratio(TWIN[1], name, EPSILON, metric, "PrivPGD")) for name in methods]
            rows.append([f"*paper: {TWIN[1]}*", *like])
    middles = []
    for name in methods:
        ratios = [paper.ratio(table, name, EPSILON, metric, "PrivPGD") for table in paper.tables]
        there = [ratio for ratio in ratios if ratio is not None]
        middles.append(_cell(statistics.median(there)) + f" ({len(there)})" if there else "")
    rows.append(["*paper: median (of tables)*", *middles])
    return markdown.table(["log2 ratio to PrivPGD's", *methods], rows)


def ranks(found: Findings, names: Sequence[str]) -> Mapping[str, tuple[int, int, int]]:
    """By metric: the tables where PrivPGD is best of some methods, best or second, and all there are."""
    counted = {}
    for metric in METRICS.values():
        places = []
        for table in found.tables:
            errors = {name: found.error(table, name, EPSILON, metric) for name in names}
            there = {name: error for name, error in errors.items() if error is not None}
            if "PrivPGD" in there and len(there) > 2:
                places.append(sum(error < there["PrivPGD"] for error in there.values()))
        counted[metric] = (places.count(0), sum(place < 2 for place in places), len(places))
    return counted


def rank_table(found: Findings, paper: Findings) -> str:
    """How often PrivPGD is best, and best or second, among the paper's six methods: here and there."""
    names = [name for name in THEIRS.values() if name != "real"]
    ours, known = ranks(found, names), ranks(paper, names)
    rows = [
        [metric, *(f"{side[metric][k]} of {side[metric][2]}" for side in (ours, known) for k in (0, 1))]
        for metric in METRICS.values()
    ]
    heads = ["metric", "here: best", "here: best or second", "paper: best", "paper: best or second"]
    return markdown.table(heads, rows)


CURVES = {
    "protected": "protected query, absolute",
    "downstream_error": "downstream",
    "counting_queries": "counting queries",
    "threshold_queries": "thresholding queries",
}


def curve(lines: Sequence[Mapping[str, Any]]) -> str:
    """Figure 3: errors by the penalty's strength, a panel a table; the protected query is to be missed."""
    panels = []
    for table in sorted({line["table"] for line in lines}):
        mine = [line for line in lines if line["table"] == table]
        along = sorted((line for line in mine if line["strength"]), key=lambda line: line["strength"])
        drawn = [
            Line(
                place, tuple((one["strength"], one[key], one[key], one[key]) for one in along if one[key] > 0)
            )
            for place, key in enumerate(CURVES)
        ]
        levels = [Level("unprotected", one["protected"]) for one in mine if not one["strength"]]
        ticks = [line["strength"] for line in along][::2]
        panels.append(lines_panel(table, "strength of the penalty", drawn, levels, ticks, y="error"))
    told = "The protected query should be missed, all else kept. Dashed is its error without a penalty."
    return document("Errors by the strength of the penalty", list(CURVES.values()), panels, described=told)


def curve_table(lines: Sequence[Mapping[str, Any]]) -> str:
    """The numbers of the curve."""
    keys = ["protected", *fits.ERRORS]
    rows = [
        [line["table"], f"{line['strength']:g}", *(markdown.figure(line[key]) for key in keys)]
        for line in sorted(lines, key=lambda line: (line["table"], line["strength"]))
    ]
    return markdown.table(["table", "strength", *keys], rows)


def clock_table(lines: Sequence[Mapping[str, Any]]) -> str:
    """What the clock said."""
    keys = ("table", "rows", "pairs", "particles", "epochs", "device", "seconds", "cpu_seconds")
    rows = [
        [
            *(str(line[key]) for key in keys),
            *(markdown.figure(line[k]) for k in ("average_sw1", "average_tv")),
        ]
        for line in lines
    ]
    return markdown.table([*keys, "average_sw1", "average_tv"], rows)


def _said(name: str) -> str:
    """A part of the page that no run changes."""
    return (HOME / f"{name}.md").read_text(encoding="utf-8").strip()


def _pictures(found: Findings, paper: Findings, protected: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The documents of the pictures, by the name of their file."""
    shown = [metric for metric in METRICS.values() if metric in found.metrics]
    drawn = {
        "ratios": pictures.ratios(found, shown, EPSILON, "PrivPGD"),
        "ratios-paper": pictures.ratios(paper, list(METRICS.values()), EPSILON, "PrivPGD"),
    }
    return drawn | ({"protection": curve(protected)} if protected else {})


def page(args: argparse.Namespace) -> None:
    """Write the page and its pictures."""
    found, paper = ours(OUT / "results.parquet"), theirs(HOME / "figures.csv")
    told = json.loads((OUT / "benchmark.json").read_text(encoding="utf-8"))
    protected, clocked = (fits.read_lines(OUT / f"{name}.jsonl") for name in ("protect", "clock"))
    home = args.out.parent / "pictures" / args.out.stem
    home.mkdir(parents=True, exist_ok=True)
    links = dict.fromkeys(("ratios", "ratios-paper", "protection"), "")
    for name, text in _pictures(found, paper, protected).items():
        write_text(home / f"{name}.svg", text)
        links[name] = f"![{name}](pictures/{args.out.stem}/{name}.svg)"
    parts = [_said("head"), coverage(found), "## When it ran", RUNS, markdown.list_runs(found.ordered)]
    parts += [_said("notes")]
    parts += ["## Tables", _said("tables"), markdown.tables(found, told)]
    parts += ["## Ratios, as figures 1 and 2", links["ratios"]]
    parts += ["The paper's own, from its tables 1 and 2:", links["ratios-paper"]]
    for metric in METRICS.values():
        if metric in found.metrics:
            parts += [f"### {metric}", ratio_table(found, paper, metric)]
    parts += ["## How often PrivPGD leads", rank_table(found, paper), "## Scores"]
    for table in found.tables:
        parts += [f"### {table}", markdown.scores(found, table)]
    parts += ["## Time and memory", markdown.timings(found), "## Failures", markdown.failures(found)]
    parts += ["## A protected threshold, as figure 3", _said("protected"), links["protection"]]
    parts += [curve_table(protected), "## Speed", _said("clocked"), clock_table(clocked)]
    parts += ["## Where it ran", markdown.machines(found)]
    write_text(args.out, "\n\n".join(part for part in parts if part) + "\n")


def main() -> None:
    """Run cells, fits or the clock, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    runner = verbs.add_parser("run")
    runner.add_argument("--root", type=Path, required=True)
    runner.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    runner.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    runner.add_argument("--repeats", type=int, default=5)
    runner.add_argument(
        "--limit", type=float, default=300.0, help="seconds of a cell, twice that for PrivPGD"
    )
    runner.set_defaults(do=run)
    guard = verbs.add_parser("protect")
    guard.add_argument("--root", type=Path, required=True)
    guard.add_argument("--tables", nargs="+", choices=TABLES, default=["acs_employment", "adult"])
    guard.add_argument("--strengths", nargs="+", type=float, default=[1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2])
    guard.add_argument("--particles", type=int, default=5_000)
    guard.add_argument("--epochs", type=int, default=100)
    guard.add_argument("--seed", type=int, default=0, help="of the protected direction")
    guard.set_defaults(do=lambda args: fits.protect(args, TABLES, OUT / "protect.jsonl"))
    timer = verbs.add_parser("clock")
    timer.add_argument("--root", type=Path, required=True)
    timer.add_argument("--table", choices=TABLES, default="acs_employment")
    timer.add_argument("--particles", type=int, default=20_000)
    timer.add_argument("--epochs", type=int, default=200)
    timer.add_argument("--paper", action="store_true", help="the paper's epochs, directions and step lengths")
    timer.add_argument("--device", help="cuda, cuda:1 or mps; the processor without")
    timer.set_defaults(do=lambda args: fits.clock(args, TABLES, OUT / "clock.jsonl"))
    writer = verbs.add_parser("page")
    writer.add_argument("--out", type=Path, default=PAGE)
    writer.set_defaults(do=page)
    args = parser.parse_args()
    args.do(args)


if __name__ == "__main__":
    main()
