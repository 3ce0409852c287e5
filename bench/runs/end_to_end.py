"""Raw Adult end to end, everything discovered: guarantee, time, and a classifier on adult.test.

    python bench/runs/end_to_end.py --epsilon 1 --repeats 5

A gradient-boosted classifier (scikit-learn's HistGradientBoostingClassifier, defaults) is trained on the
synthetic rows to predict `income` from the other 14 columns and tested on the 16,281 rows of adult.test.
The same classifier trained on the real training rows is the reference. Needs margrave[test].
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from margrave import Synthesizer
from margrave.datasets import adult_path
from margrave.files import write_table

RESULTS = Path(__file__).parents[1] / "results" / "end_to_end.jsonl"
TARGET, POSITIVE = "income", ">50K"


def scores(train: pd.DataFrame, test: pd.DataFrame, seed: int) -> dict[str, float]:
    """Accuracy and AUC on the test rows of a classifier that learned from the training rows."""
    train = train[train[TARGET].isin([POSITIVE, "<=50K"])]
    both = pd.concat([train, test], keys=["train", "test"]).drop(columns=TARGET)
    for name in both.columns:
        if not pd.api.types.is_numeric_dtype(both[name]):
            both[name] = both[name].astype("category")
    model = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed)
    model.fit(both.loc["train"], train[TARGET] == POSITIVE)
    chance = model.predict_proba(both.loc["test"])[:, 1]
    truth = (test[TARGET] == POSITIVE).to_numpy()
    return {"accuracy": float(((chance > 0.5) == truth).mean()), "auc": float(roc_auc_score(truth, chance))}


def run(method: str, epsilon: float, seed: int) -> dict[str, object]:
    """One run from the raw CSV file to scores."""
    start = time.perf_counter()
    target = TARGET if method.endswith("+target") else None
    name = method.removesuffix("+target")
    synthesis = Synthesizer(name, epsilon=epsilon, missing=("?", ""), target=target).fit(adult_path())
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "synthetic.csv"
        write_table(synthesis.sample_arrow(), out, "?")
        seconds = time.perf_counter() - start
        synthetic = pd.read_csv(out, na_values="?")
    test = pd.read_csv(adult_path("test"), na_values="?")
    promise = synthesis.guarantee
    record = {"method": method, "epsilon": promise.epsilon, "delta": promise.delta, "seconds": seconds}
    return record | {"rows": len(synthetic)} | scores(synthetic, test, seed)


def main() -> None:
    """Run the repeats and write JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["aim"])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    train = pd.read_csv(adult_path(), na_values="?")
    test = pd.read_csv(adult_path("test"), na_values="?")
    print("real", scores(train, test, 0), flush=True)
    stamp = {"python": platform.python_version(), "numpy": np.__version__, "sklearn": sklearn.__version__}
    for method in args.methods:
        for epsilon in args.epsilon:
            runs = [run(method, epsilon, seed) for seed in range(args.repeats)]
            with args.out.open("a") as handle:
                handle.writelines(json.dumps(record | stamp) + "\n" for record in runs)
            for key in ("accuracy", "auc", "seconds"):
                found = [float(record[key]) for record in runs]  # type: ignore[arg-type]
                middle = statistics.median(found)
                print(
                    f"{method} eps {epsilon:g} {key} {middle:.4f} [{min(found):.4f}, {max(found):.4f}]",
                    flush=True,
                )


if __name__ == "__main__":
    main()
