"""Nothing declared against everything declared, on ten real tables: what discovery costs.

    python bench/runs/raw.py --data FOLDER [--tables real-hotels bank ...] [--half choosing] [--epsilon 1]
        [--repeats 1] [--save] [--page docs/benchmark-raw.md]

Each table is released three times by `auto`: *raw*, with nothing declared; *bounds*, with the values of text
columns and the bounds of numbers and dates declared; and *declared*, with the bins as well, which are those
that the error is measured in. The error is the mean total variation over all pairs of columns, between the
synthetic rows and those that were learned from, in these same bins. `codes` is the same error of the rows
that were learned from, written in the codes of the release and read back: what these codes cannot hold, such
as values that were not found, and no model can mend. `share` is what discovery took of rho. `ideal` is the
same error where numbers, dates and truth values come back exactly, and a text is lost only if its true count
is below the threshold that a search of its column would have with all of discovery's rho and delta. No search
by thresholds loses less.
Tables come from packages (`pip install 'margrave[nursery]'`) and from FOLDER, which holds the files of
bench/data. The figures are exact functions of the tables, and **not private**. Noise has no seed: another run
differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import platform
import statistics
import time
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from margrave import Synthesizer, Unit
from margrave.benchmark.datasets import TableEntry, table_entry
from margrave.benchmark.prepared import OTHER, Prepared, prepare, stream
from margrave.engines.memory import open_source
from margrave.evaluation.review import score_metrics
from margrave.evaluation.task import Task
from margrave.measure.mechanisms.partition import threshold
from margrave.privacy.accounting.accountants import event_rho
from margrave.run.synthesizer import DISCOVERY, PARTITIONS
from margrave.schema.columns import Binned, Categorical
from margrave.schema.encode import decode
from margrave.schema.schema import Schema

BENCH = Path(__file__).parents[1]
RESULTS = BENCH / "results" / "raw.jsonl"
HOSPITAL = BENCH / "results" / "hospital.jsonl"
DECLARED = BENCH / "results" / "declared.jsonl"
REPORTING = (
    *("acs12", "reporting/real-voters", "reporting/real-species", "reporting/real-weather"),
    *("reporting/real-hotels", "reporting/real-storms", "reporting/real-tests", "bank"),
    *("credit_default", "reporting/real-happiness"),
)
CHOOSING = (
    *("choosing/real-wages", "choosing/real-classes", "choosing/real-birds", "choosing/real-insurance"),
    *("choosing/real-force", "choosing/real-marriages"),
)
HALVES = {"reporting": REPORTING, "choosing": CHOOSING}
WAYS = ("declared", "bounds", "raw")
LOOKS = (
    "profile",
    "format",
    "bounds",
    "spread",
    "detail",
    "atoms",
    "grids",
    "spelling",
    "marks",
    "censored",
    "values",
    "counts",
    "shapes",
    "distinct",
)
MORE_LOOKS = (
    "keys",
    "beginnings",
    "comparisons",
    "relation",
    "lines",
    "constants",
    "days",
    "times",
    "public",
)
"""First words of what discovery releases, as a ledger has them."""
SHARE, SEED = 0.2, 0
"""Rows held out, which are not used here, and the seed of the split and of sampling: as in the benchmark."""

INTRODUCTION = """# Raw against declared

Written by `python bench/runs/raw.py --save --page docs/benchmark-raw.md`; edit nothing here. **Not private**:
errors are exact functions of the tables.

{tables} real tables, each released by `auto` three times: with everything declared, bins included, which
were read off the rows and which the error is measured in; with values and bounds declared, bins to be
discovered; and *raw*, with nothing declared. The error is the mean total variation over all pairs of
columns, in the declared bins, and a column that was left out counts as missing. *Codes alone* is the error
of the rows themselves, written in the codes that raw discovery found and read back: what no model can mend.
*Ideal* is the same of a discovery that could not be had: numbers and dates come back exactly, and a text is
lost only if its true count is below the threshold that a search of its column would have with all of
discovery's rho and delta; what is left is the price of searching for text by thresholds at this epsilon.
The last two columns say what discovery took of rho. Each figure is the last that was saved, so that those of
bounds may be older than the others; a table without a figure for codes alone was last run on an older
version.

Epsilon {epsilon:g}, delta {delta:g}, {runs}; four fifths of the rows are learned from. Noise has no seed, so
another run gives other figures. Outcomes keep no day and no commit; the last ones were stored on
2026-12-01 (`git log bench/results/raw.jsonl`).
"""


def find_entry(word: str, data: Path) -> TableEntry:
    """The table that a word stands for: one of the nursery, or a file of bench/data."""
    if "/" in word:
        return table_entry(word, BENCH)
    return table_entry(f"data/{word}.toml", BENCH, data)


def with_bounds(schema: Schema) -> Schema:
    """The schema with the bounds of numbers and dates in the place of their bins."""
    columns = [column for column in schema.columns if isinstance(column, Binned)]
    return schema.replace(
        type(column)(
            name=column.name, lower=column.lower, upper=column.upper, missing=column.missing, strict=False
        )
        for column in columns
    )


def score_codes(prepared: Prepared, schema: Schema) -> float:
    """The error of the rows themselves, written in a schema's codes and read back."""
    source, frame = open_source(prepared.train)
    kept = [name for name in prepared.train.column_names if name != prepared.entry.owner]
    rows = source.only(kept).bind(schema).encoded
    made = decode(rows, schema, stream(SEED, "codes", prepared.entry.name), frame)
    return score_pairs(prepared, made)


def score_ideal(prepared: Prepared, rho: float, delta: float) -> float:
    """The error of the rows where only text is lost that a threshold hides, with all of rho for each column.

    Args:
        prepared: The table.
        rho: Of the whole run; `delta`, that of its promise.
    """
    texts = [column.name for column in prepared.scoring.columns if isinstance(column, Categorical)]
    made, k = prepared.train, prepared.entry.max_rows if prepared.entry.owner else 1
    sigma = k / math.sqrt(2.0 * rho * float(DISCOVERY))
    for name in texts:
        bar = threshold(k, sigma, Fraction(delta) * PARTITIONS)
        array = made.column(name).combine_chunks().cast("string")
        counted = {one["values"]: one["counts"] for one in pc.value_counts(array).to_pylist()}
        told = [text if text is None or counted[text] >= bar else OTHER for text in array.to_pylist()]
        made = made.set_column(made.column_names.index(name), name, pa.array(told, pa.string()))
    kept = [name for name in made.column_names if name != prepared.entry.owner]
    return score_pairs(prepared, made.select(kept))


def score_pairs(prepared: Prepared, made: Any) -> float:
    """The mean total variation of all pairs of columns between the rows that were learned from and others."""
    rows = prepared.rows_of(made)
    task = Task(prepared.train_rows, rows, prepared.scoring, held_out=prepared.held_rows, seed=SEED)
    (score,) = score_metrics(task, ["average_tv"])
    return round(score.value, 5)


def run(prepared: Prepared, way: str, epsilon: float, delta: float, repeat: int) -> dict[str, Any]:
    """One release: its error, what discovery took, and seconds."""
    entry = prepared.entry
    schema = {"declared": prepared.public, "raw": None}.get(way)
    if way == "bounds":
        assert prepared.public is not None  # noqa: S101 - the entry says that its domain is public
        schema = with_bounds(prepared.public)
    unit = Unit(entry.owner, entry.max_rows) if entry.owner else None
    start = time.perf_counter()
    synthesis = Synthesizer("auto", epsilon=epsilon, delta=delta, unit=unit, schema=schema).fit(
        prepared.train
    )
    rng = stream(SEED, "raw", entry.name, way, epsilon, repeat)
    made = synthesis.sample_arrow(prepared.train_rows.size, rng=rng)
    seconds = time.perf_counter() - start
    codes = score_codes(prepared, synthesis.release.schema)
    spent = [event for event in synthesis.release.events if event.what.split()[0] in LOOKS + MORE_LOOKS]
    share = float(sum(map(event_rho, spent), Fraction(0))) / synthesis.guarantee.rho
    pairs = score_pairs(prepared, made)
    return {"pairs": pairs, "codes": codes, "share": round(share, 4), "seconds": round(seconds, 1)}


def run_table(word: str, asked: argparse.Namespace) -> dict[str, Any]:
    """All releases of one table."""
    entry = dataclasses.replace(find_entry(word, asked.data), domain="public")
    prepared = prepare(entry, SHARE, SEED)
    found: dict[str, Any] = {
        "table": word,
        "rows": prepared.train_rows.size,
        "columns": len(prepared.scoring.names),
        "epsilon": asked.epsilon,
        "delta": asked.delta,
    }
    for way in asked.ways:
        found[way] = [
            run(prepared, way, asked.epsilon, asked.delta, repeat) for repeat in range(asked.repeats)
        ]
    rho = float(Synthesizer("auto", epsilon=asked.epsilon, delta=asked.delta).new_ledger(True).total)
    found["ideal"] = score_ideal(prepared, rho, asked.delta)
    return found


def line(found: dict[str, Any]) -> list[str]:
    """A line of the table: errors, their ratios to the declared one, and what discovery took."""
    pairs = {way: statistics.fmean(one["pairs"] for one in found[way]) for way in WAYS if way in found}
    share = {way: statistics.fmean(one["share"] for one in found[way]) for way in WAYS if way in found}
    name = found["table"].rpartition("/")[2]
    cells = [name, f"{found['rows']:,}", str(found["columns"]), *(f"{value:.4f}" for value in pairs.values())]
    if "declared" in pairs:
        cells += [f"{pairs[way] / pairs['declared']:.2f}" for way in pairs if way != "declared"]
    codes = [one["codes"] for one in found.get("raw", []) if "codes" in one]
    cells.append(f"{statistics.fmean(codes):.4f}" if codes else "")
    cells.append(f"{found['ideal']:.4f}" if "ideal" in found else "")
    return [*cells, *(f"{share[way]:.0%}" for way in share if way != "declared")]


HEADS = (
    "table",
    "rows",
    "columns",
    "declared",
    "bounds",
    "raw",
    "bounds / declared",
    "raw / declared",
    "codes alone",
    "ideal",
)
SHARES = ("discovery, bounds", "discovery, raw")


def share_of_codes(found: dict[str, Any]) -> float | None:
    """The error of the codes alone over the raw error; None where it was not measured."""
    runs = [one for one in found["raw"] if "codes" in one]
    if not runs:
        return None
    return statistics.fmean(one["codes"] for one in runs) / statistics.fmean(one["pairs"] for one in runs)


def write_page(found: Iterable[dict[str, Any]], out: Path) -> None:
    """The page of all outcomes."""
    told = list(found)
    repeats, epsilon, delta = len(told[0]["raw"]), told[0]["epsilon"], told[0]["delta"]
    runs = "one run each" if repeats == 1 else f"means of {repeats} runs"
    ratios = sorted(float(line(entry)[7]) for entry in told)
    within = sum(ratio <= 1.25 for ratio in ratios)
    heads = (*HEADS, *SHARES)
    summary = (
        f"The raw error is at most 1.25 times the declared one on {within} of {len(told)} tables; the median "
        f"of the ratios is {statistics.median(ratios):.2f}."
    )
    alone = [share for share in map(share_of_codes, told) if share is not None]
    if alone:
        summary += (
            f" Codes alone are {min(alone):.0%} to {max(alone):.0%} of the raw error where they were measured"
            f" (median {statistics.median(alone):.0%}): what is lost are values and ranges not found."
        )
    page = [
        INTRODUCTION.format(tables=len(told), epsilon=epsilon, delta=delta, runs=runs),
        f"| {' | '.join(heads)} |",
        f"| {' | '.join(['---'] * len(heads))} |",
        *(f"| {' | '.join(line(entry))} |" for entry in told),
        "",
        summary,
        *describe_hospital(),
        *describe_declared(),
        "",
    ]
    out.write_text("\n".join(page), encoding="utf-8")


KEPT = {
    "discharged before admitted": "discharged_before_admitted",
    "paid above charged": "paid_above_charged",
    "arrived on the day of admission": "arrival_on_day_of_admission",
    "arrived between midnight and 6": "arrived_at_night",
    "born after admission": "born_after_admission",
    "stay is the days from admission to discharge": "stay_as_dates_say",
    "age is the years from birth to admission": "age_as_dates_say",
    "zip codes of five digits": "zip_of_five_digits",
    "visit numbers in their pattern": "visit_in_pattern",
    "visit numbers unique": "visit_unique",
    "diagnoses that are (other)": "diagnosis_other",
    "died": "died",
    "sum of charges over the real one": "sum_of_charges_ratio",
    "median charge": "median_charge",
    "rank correlation of charge and paid": "rank_charge_paid",
    "rank correlation of stay and charge": "rank_stay_charge",
}
"""What the page says of the hospital, and the names of these figures in its outcomes."""


def describe_hospital() -> list[str]:
    """The section of the made-up hospital, of the last saved run at each epsilon."""
    saved = [json.loads(one) for one in HOSPITAL.read_text(encoding="utf-8").splitlines()]
    last = {one["epsilon"]: one for one in saved if one["method"] == "auto" and not one.get("bounds")}
    shown = [last[epsilon] for epsilon in sorted(last, reverse=True)]
    real = shown[0]["real"]
    asked = " ".join(format(one["epsilon"], "g") for one in shown)
    run = (
        f"`python bench/runs/hospital.py --epsilon {asked} --save`: 33,793 made-up visits of 12,000 patients,"
        " who are protected with at most four visits each, in 22 columns of a text file. One run each."
    )
    heads = ["share or figure", *(f"epsilon {one['epsilon']:g}" for one in shown), "real"]
    page = ["", "## A hospital, nothing declared", "", run, ""]
    page += [f"| {' | '.join(heads)} |", f"| {' | '.join(['---'] * len(heads))} |"]
    for words, name in KEPT.items():
        figures = [*(one["synthetic"][name] for one in shown), real[name]]
        page.append(f"| {words} | {' | '.join(format(value, '.4g') for value in figures)} |")
    return page


def describe_declared() -> list[str]:
    """The section of facts that are declared one sort at a time; nothing where no run was saved."""
    if not DECLARED.exists():
        return []
    saved = [json.loads(one) for one in DECLARED.read_text(encoding="utf-8").splitlines()]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for one in saved:
        setting = (one["table"], one["rows"], one["epsilon"], one["method"])
        groups.setdefault((*setting, one["facts"]), []).append(one)
    page = [
        "",
        "## One sort of fact declared",
        "",
        "`python bench/runs/declared.py`, whose head says what is declared and measured; means of all runs.",
        "",
        "| table | rows | epsilon | method | declared | runs | pairs | rank slope | dependence kept |",
        f"| {' | '.join(['---'] * 9)} |",
    ]
    for (table, rows, epsilon, method, fact), runs in groups.items():
        means = [statistics.fmean(one[name] for one in runs) for name in ("pairs", "slope", "kept")]
        figures = " | ".join(f"{value:.3f}" for value in means)
        page.append(f"| {table} | {rows:,} | {epsilon:g} | {method} | {fact} | {len(runs)} | {figures} |")
    return page


def read_outcomes() -> list[dict[str, Any]]:
    """The last saved outcome of each table that is reported on and each way, where all ways were run."""
    last: dict[str, dict[str, Any]] = {}
    for found in map(json.loads, RESULTS.read_text(encoding="utf-8").splitlines()):
        last[found["table"]] = last.get(found["table"], {}) | found
    return [last[word] for word in REPORTING if set(WAYS) <= set(last.get(word, {}))]


def main() -> None:
    """Run, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("data"), help="folder of the files of bench/data")
    parser.add_argument("--half", choices=tuple(HALVES), default="reporting")
    parser.add_argument("--tables", nargs="+", help="words of tables, in the place of those of a half")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--save", action="store_true", help=f"append the outcomes to {RESULTS.name}")
    parser.add_argument("--page", type=Path, help="write what was saved to this page")
    asked = parser.parse_args()
    for word in asked.tables or HALVES[asked.half]:
        found = run_table(word, asked)
        print(" | ".join(line(found)), *(found[way][0]["seconds"] for way in asked.ways), flush=True)
        if asked.save:
            kept = found | {"machine": platform.machine(), "python": platform.python_version()}
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(kept) + "\n")
    if asked.page:
        write_page(read_outcomes(), asked.page)


if __name__ == "__main__":
    main()
