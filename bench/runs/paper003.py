"""Regressions from a release by the protocol of paper 003 (Ferrando and Sheldon 2025), on its own files.

    python bench/runs/paper003.py --data FOLDER [--tables adult acsincome acsemployment acsmobility]
        [--tasks linear logistic] [--epsilon 0.05 0.1 0.5 1 2] [--repeats 3] [--method auto]
        [--rows 50000] [--spend ssp adassp:published ...] [--out FILE] [--releases FOLDER]
    python bench/runs/paper003.py --page docs/benchmark-003.md

FOLDER holds the files `adult_train.csv.gz`, `adult_test.csv.gz` and so on of the authors' repository
(github.com/ceciliaferrando/DD-SSP, folder data), gzipped. Columns are integer codes, and the domain is
public. As in the paper: delta 1e-5, add/remove, listed columns one-hot without their first code, all others
codes scaled to [-1, 1], no intercept; linear regressions by the mean squared error of the target in [-1, 1]
on 1,000 test rows, logistic ones by the area under the ROC curve there. A JSON line a run:

    public        the fit on the training rows themselves
    ddssp         the paper's: least squares of the model's tables; for logistic the polynomial of degree 2
    synth         the paper's "AIM-Synth", "MST-Synth": rows drawn from the model, as many as there are in
                  training, then least squares or unpenalised logistic regression of them, no intercept
    model, both   `margrave.regression` with that source; for logistic the exact likelihood with an intercept
    score         with --spend, in place of all the above: of `Regressor` with a method and, after a colon,
                  its variant, or with dp_sgd its sampling rate: epsilon spent on this one regression alone,
                  without an intercept; a line a method that has the task
    seconds       of the fit of the release (of reading it, where it was kept), and of one regression with
                  intervals: processor time
    pairs         whether the release measured all pairs

As in the paper at most --rows training rows are used, the same ones in every run. Only `auto` is told the
target, as the paper's generators are not. Noise is fresh in every run: no seed repeats a line, so take
several. --page runs nothing: it writes the page of the stored lines (paper003_page.py).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
from numpy.typing import NDArray
from paper003_page import write_page
from scipy.stats import rankdata

import margrave as mg
from margrave.regression import linear, logistic
from margrave.regression.coefficients import Coefficients
from margrave.run.regressor import DPSGD, AdaSSP, ObjPert, Regressor
from margrave.run.regressor.methods import METHODS, Spending
from margrave.schema.encode import encode

Floats = NDArray[np.float64]
DELTA = 1e-5
ONE_HOT = {
    "adult": (
        *("education", "workclass", "marital-status", "occupation", "relationship", "race"),
        "native-country",
    ),
    "acsincome": ("COW", "MAR", "RELP", "RAC1P"),
    "acsemployment": ("MAR", "RELP", "CIT", "MIL", "ANC", "RAC1P"),
    "acsmobility": ("MAR", "CIT", "MIL", "ANC", "RELP", "RAC1P", "GCL", "COW", "ESR"),
}
FILES = {
    "adult": "adult",
    "acsincome": "ACSincome-LIN",
    "acsemployment": "ACSemployment",
    "acsmobility": "ACSmobility",
}
SIZES = {
    "adult": {
        "age": 32,
        "workclass": 9,
        "fnlwgt": 32,
        "education": 16,
        "education-num": 16,
        "marital-status": 7,
        "occupation": 15,
        "relationship": 6,
        "race": 5,
        "sex": 2,
        "capital-gain": 32,
        "capital-loss": 32,
        "hours-per-week": 32,
        "native-country": 42,
        "income>50K": 2,
    },
    "acsincome": {
        "AGEP": 95,
        "COW": 8,
        "SCHL": 24,
        "MAR": 5,
        "RELP": 18,
        "WKHP": 99,
        "SEX": 2,
        "RAC1P": 9,
        "PINCP": 20,
    },
    "acsemployment": {
        "AGEP": 95,
        "SCHL": 25,
        "MAR": 5,
        "RELP": 18,
        "DIS": 2,
        "ESP": 9,
        "CIT": 5,
        "MIG": 3,
        "MIL": 5,
        "ANC": 4,
        "NATIVITY": 2,
        "DEAR": 2,
        "DEYE": 2,
        "DREM": 2,
        "SEX": 2,
        "RAC1P": 9,
        "ESR": 2,
    },
    "acsmobility": {
        "AGEP": 16,
        "SCHL": 24,
        "MAR": 5,
        "SEX": 2,
        "DIS": 2,
        "CIT": 5,
        "MIL": 4,
        "ANC": 4,
        "NATIVITY": 2,
        "RELP": 2,
        "DEAR": 2,
        "DEYE": 2,
        "DREM": 2,
        "RAC1P": 9,
        "GCL": 3,
        "COW": 10,
        "ESR": 6,
        "WKHP": 100,
        "JWMNP": 100,
        "PINCP": 10,
        "MIG": 2,
    },
}
TARGETS = {
    ("adult", "linear"): "education-num",
    ("adult", "logistic"): "income>50K",
    ("acsincome", "linear"): "PINCP",
    ("acsemployment", "logistic"): "ESR",
    ("acsmobility", "logistic"): "MIG",
}


def schema_of(table: str) -> mg.Schema:
    """Codes 0 to size - 1, in order but for the columns that are one-hot."""
    columns: list[Any] = []
    for name, size in SIZES[table].items():
        if name in ONE_HOT[table]:
            columns.append(mg.Categorical(name=name, values=tuple(range(size)), missing=False))
        else:
            columns.append(mg.Integer(name=name, lower=0, upper=size - 1, bins=size, missing=False))
    return mg.Schema(tuple(columns))


def read(folder: Path, table: str, part: str) -> pa.Table:
    """Rows of a file, the schema's columns as whole numbers."""
    rows = pc.read_csv(folder / f"{FILES[table]}_{part}.csv.gz")
    return pa.table({name: rows.column(name).cast(pa.int64()) for name in SIZES[table]})


def options_of(table: str, target: str) -> dict[str, Any]:
    """The paper's encodings."""
    hot = [name for name in ONE_HOT[table] if name != target]
    encodings = {name: "levels" if name in hot else "ranks" for name in SIZES[table]}
    return {"encodings": encodings, "reference": dict.fromkeys(hot, "0")}


def predictor(found: Coefficients, codes: Any) -> Floats:
    """The linear predictor of encoded rows."""
    design = found.fit.design
    parts = [np.ones((codes.rows, int(design.intercept)))]
    parts += [e.matrix.T[codes.column(e.column)] for e in design.encodings]
    return np.asarray(np.hstack(parts) @ found.estimates)


def score(task: str, predicted: Floats, codes: Any, target: str, size: int) -> float:
    """Mean squared error, or area under the ROC curve."""
    label = codes.column(target).astype(float)
    if task == "linear":
        return float(np.mean((2 * label / (size - 1) - 1 - predicted) ** 2))
    ranks, ones = rankdata(predicted), int(label.sum())
    return float((ranks[label == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(label) - ones)))


def score_rows(task: str, found: Coefficients, train: Any, test: Any, target: str, size: int) -> float:
    """The score of the fit on rows, the training rows or synthetic ones, with the numbers of `found`."""
    matrices = found.fit.design.encodings
    ones = int(found.fit.design.intercept)
    numbers, held = (
        np.hstack([np.ones((rows.rows, ones)), *(e.matrix.T[rows.column(e.column)] for e in matrices)])
        for rows in (train, test)
    )
    label = train.column(target).astype(float)
    if task == "linear":
        theta = np.linalg.lstsq(numbers, 2 * label / (size - 1) - 1, rcond=None)[0]
        return score(task, held @ theta, test, target, size)
    theta = np.zeros(numbers.shape[1])
    for _ in range(25):
        mean = 1 / (1 + np.exp(-numbers @ theta))
        hessian = (numbers.T * (mean * (1 - mean))) @ numbers + 1e-9 * np.eye(len(theta))
        theta = theta + np.linalg.solve(hessian, numbers.T @ (label - mean))
    return score(task, held @ theta, test, target, size)


def read_release(args: argparse.Namespace, table: str, task: str, epsilon: float, repeat: int) -> Path | None:
    """Where a release is kept; None without --releases."""
    if args.releases is None:
        return None
    return Path(args.releases) / f"{table}-{task}-{args.method}-{epsilon:g}-{repeat}.margrave"


def make_method(words: str) -> Spending:
    """The method that --spend names, with its variant or its rate after a colon."""
    name, _, setting = words.partition(":")
    variant: Any = setting  # the method refuses what is none of its variants
    if setting and name == "adassp":
        return AdaSSP(variant=variant)
    if setting and name == "objpert":
        return ObjPert(variant=variant)
    return DPSGD(rate=float(setting), steps=200) if setting else METHODS[name]()


def spend(
    words: str, table: str, task: str, epsilon: float, train: pa.Table, test: Any
) -> dict[str, Any] | None:
    """The score of `Regressor`; None where the method is for another task."""
    target, method = TARGETS[table, task], make_method(words)
    if task not in method.kinds:
        return None
    options = options_of(table, target)
    if task == "logistic":
        options["encodings"].pop(target)
        options["positive"] = "1"
    start = time.process_time()
    made = Regressor(
        method,
        target=target,
        kind=task,
        schema=schema_of(table),
        intercept=False,
        epsilon=epsilon,
        delta=DELTA,
        **options,
    )
    found = made.fit(train)
    seconds = time.process_time() - start
    predicted = np.hstack([e.matrix.T[test.column(e.column)] for e in found.encodings]) @ found.estimates
    figure = score(task, predicted, test, target, SIZES[table][target])
    line = {"table": table, "task": task, "epsilon": epsilon, "method": words, "score": figure}
    return line | {"seconds": round(seconds, 2)}


def run_once(
    args: argparse.Namespace,
    table: str,
    task: str,
    epsilon: float,
    repeat: int,
    train: pa.Table,
    test: Any,
) -> dict[str, Any]:
    """One release and its regressions."""
    target = TARGETS[table, task]
    size = SIZES[table][target]
    start = time.process_time()
    path = read_release(args, table, task, epsilon, repeat)
    if path is not None and path.exists():
        synthesis = mg.load(path)
    else:
        asked: dict[str, Any] = {"delta": DELTA, "schema": schema_of(table)}
        asked |= {"target": target} if args.method == "auto" else {}
        synthesis = mg.Synthesizer(args.method, epsilon=epsilon, **asked).fit(train)
        if path is not None:
            synthesis.save(path)
    fitted = time.process_time()
    options, call = options_of(table, target), linear if task == "linear" else logistic
    plain: dict[str, Any] = {"intercept": False, **options}
    if task == "logistic":
        options["encodings"].pop(target)
    found = {"both": call(synthesis, target, intercept=task == "logistic", source="both", **options)}
    ended = time.process_time()
    found["model"] = call(synthesis, target, intercept=task == "logistic", source="model", **options)
    polynomial: dict[str, Any] = {"likelihood": "quadratic"} if task == "logistic" else {}
    found["ddssp"] = call(synthesis, target, source="model", **plain, **polynomial)
    scores = {name: score(task, predictor(one, test), test, target, size) for name, one in found.items()}
    drawn = encode(synthesis.sample(train.num_rows), schema_of(table))
    scores["synth"] = score_rows(task, found["ddssp"], drawn, test, target, size)
    line = {"table": table, "task": task, "epsilon": epsilon, "method": args.method, **scores}
    line["seconds"] = [round(fitted - start, 2), round(ended - fitted, 2)]
    line["not_determined"] = int((~found["both"].identified).sum())
    line["pairs"] = not found["both"].fit.sums.missing_pairs
    if epsilon == args.epsilon[0] and repeat == 0:
        codes = encode(train, schema_of(table))
        line["public"] = score_rows(task, found["both"], codes, test, target, size)
    return line


def main() -> None:
    """Run the grid, or write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tables", nargs="+", default=["adult"], choices=sorted(FILES))
    parser.add_argument("--tasks", nargs="+", default=["linear", "logistic"], choices=["linear", "logistic"])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.05, 0.1, 0.5, 1.0, 2.0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--rows", type=int, default=50_000, help="training rows, at most")
    parser.add_argument("--spend", nargs="+", default=[], help="methods of Regressor instead of releases")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--releases", type=Path, help="a folder to keep releases in, and to take them from")
    parser.add_argument("--page", type=Path, help="write the page of the stored results, and run nothing")
    args = parser.parse_args()
    if args.page is not None:
        write_page(args.page)
        return
    if args.data is None:
        parser.error("--data FOLDER is needed to run")
    run_grid(args)


def run_grid(args: argparse.Namespace) -> None:
    """Run all cells, and print and keep their lines."""
    for table in args.tables:
        schema = schema_of(table)
        train, test = read(args.data, table, "train"), encode(read(args.data, table, "test"), schema)
        if train.num_rows > args.rows:
            train = train.take(np.random.default_rng(0).permutation(train.num_rows)[: args.rows])
        for task in args.tasks:
            if (table, task) not in TARGETS:
                continue
            for epsilon in args.epsilon:
                for repeat in range(args.repeats):
                    for line in run_all(args, table, task, epsilon, repeat, train, test):
                        print(json.dumps(line), flush=True)
                        if args.out is not None:
                            with args.out.open("a", encoding="utf-8") as file:
                                file.write(json.dumps(line) + "\n")


def run_all(
    args: argparse.Namespace, table: str, task: str, epsilon: float, repeat: int, train: pa.Table, test: Any
) -> Iterator[dict[str, Any]]:
    """The lines of one repeat: a release's, or one for each method that spends."""
    if not args.spend:
        yield run_once(args, table, task, epsilon, repeat, train, test)
    for words in args.spend:
        line = spend(words, table, task, epsilon, train, test)
        if line is not None:
            yield line


if __name__ == "__main__":
    main()
