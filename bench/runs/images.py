"""Accuracy of a classifier trained on synthetic digits, and scored on real ones, against epsilon.

    python bench/runs/images.py mnist10k.npz [--side 7] [--levels 4] [--epsilons 1 3 10 30] [--methods ...]
        [--runs 1]

The file holds `x`, 28 x 28 grey values of digits, and `y`. 8,000 of the 10,000 digits, drawn by seed 0, are
released; the other 2,000 are the test. Pictures are averaged down to SIDE x SIDE and cut to LEVELS grey
levels, all of which is declared, as are the ten classes (`margrave.images.Pixels`). From each release 8,000
digits are drawn; a network of one hidden layer of 100 (scikit-learn's MLPClassifier, 15 epochs) and a
logistic regression learn from them. Delta is 1e-5; adjacency is add_remove, zero_out for `slicing`. Printed
for each: the two accuracies on real digits, and seconds of processor time for fit and rows. Noise is not
seeded, so figures differ from run to run; with several runs means and the widest range are said.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import margrave as mg
from margrave.images import Pixels

DELTA = 1e-5
RELEASED = 8_000
METHODS = ("dp_merf", "dpsgd_gan", "pate_gan", "slicing")
NO_TARGET = ("slicing", "independent")

Scores = tuple[float, float]


def score(images: np.ndarray, labels: list[str], test: np.ndarray, truth: list[str]) -> Scores:
    """Accuracies of the network and of the regression that learnt from pictures."""
    flat, own = images.reshape(len(images), -1) / 255.0, np.asarray(labels)
    if len(set(labels)) < 2:
        return (float(np.mean(np.asarray(truth) == own[0])),) * 2
    learners: tuple[Any, Any] = (
        MLPClassifier((100,), max_iter=15, random_state=0),
        LogisticRegression(max_iter=200),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 15 epochs are all that is meant
        said = [learner.fit(flat, own).predict(test.reshape(len(test), -1) / 255.0) for learner in learners]
    return float(np.mean(said[0] == truth)), float(np.mean(said[1] == truth))


def run_method(name: str, epsilon: float, pixels: Pixels, table: Any) -> tuple[np.ndarray, list[str], float]:
    """Drawn pictures, their labels, and seconds of processor time."""
    start = time.process_time()
    target = {} if name in NO_TARGET else {"target": "label"}
    adjacency = "zero_out" if name == "slicing" else "add_remove"
    made = mg.Synthesizer(
        name, epsilon=epsilon, delta=DELTA, schema=pixels.schema, adjacency=adjacency, **target
    ).fit(table)
    images, labels = pixels.picture(made.sample(RELEASED, rng=0))
    return images, labels, time.process_time() - start


def adapt(name: str, epsilons: list[float], file: Path) -> None:
    """Print how well digits of one collection are read by what learnt from a release of the other."""
    digits = load_digits()
    pixels = Pixels(8, 8, 4, tuple(str(k) for k in range(10)))
    with np.load(file) as held:
        mnist = pixels.tabulate(held["x"].reshape(-1, 28, 28)[:, 2:26, 2:26], held["y"])
    own = pixels.tabulate(digits.images / 16.0, digits.target)
    for words, source, other in (("MNIST to digits", mnist, own), ("digits to MNIST", own, mnist)):
        seen, truth = pixels.picture(other)
        print(f"{words}: real rows {score(*pixels.picture(source), seen, truth)}", flush=True)
        for epsilon in epsilons:
            drawn, labels, seconds = run_method(name, epsilon, pixels, source)
            found = score(drawn, labels, seen, truth)
            line = f"{words}: {name} epsilon {epsilon:g}  network {found[0]:.3f}  regression {found[1]:.3f}"
            print(f"{line}  {seconds:.0f} s", flush=True)


def main() -> None:
    """Print a line a method and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--side", type=int, default=7)
    parser.add_argument("--levels", type=int, default=4)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.0, 10.0, 30.0])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--sheets", type=Path, help="a folder for a contact sheet of each first run")
    parser.add_argument(
        "--adapt", action="store_true", help="MNIST to scikit-learn's digits and back instead"
    )
    asked = parser.parse_args()
    if asked.adapt:
        adapt(asked.methods[0], asked.epsilons, asked.file)
        return
    with np.load(asked.file) as held:
        images, digits = held["x"].reshape(-1, 28, 28), [str(digit) for digit in held["y"]]
    order = np.random.default_rng(0).permutation(len(images))
    pixels = Pixels(asked.side, asked.side, asked.levels, tuple(str(k) for k in range(10)))
    real, test = (
        pixels.tabulate(images[part], [digits[k] for k in part])
        for part in (order[:RELEASED], order[RELEASED:])
    )
    grey, truth = pixels.picture(test)
    print(f"real rows: {score(*pixels.picture(real), grey, truth)}", flush=True)
    for name in asked.methods:
        for epsilon in asked.epsilons:
            found, seconds = [], 0.0
            for run in range(asked.runs):
                drawn, labels, seconds = run_method(name, epsilon, pixels, real)
                found.append(score(drawn, labels, grey, truth))
                if asked.sheets is not None and run == 0:
                    mg.images.draw_sheet(asked.sheets / f"{name}-{epsilon:g}.png", drawn, labels)
            means, spread = np.mean(found, axis=0), np.ptp(found, axis=0).max()
            line = f"{name:12s} epsilon {epsilon:4g}  network {means[0]:.3f}  regression {means[1]:.3f}"
            print(f"{line}  range {spread:.3f}  {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
