"""Accuracy of a classifier trained on synthetic digits, and scored on real ones, against epsilon.

    python bench/runs/images.py mnist10k.npz                 the table of MNIST
    python bench/runs/images.py mnist10k.npz --digits        the same on scikit-learn's digits
    python bench/runs/images.py mnist10k.npz --adapt --methods dp_merf --epsilons 1 10
    python bench/runs/images.py --page docs/benchmark-001-images.md

The file holds `x`, 28 x 28 grey values of digits, and `y`. 8,000 of the 10,000 digits, drawn by seed 0, are
released; the other 2,000 are the test (of scikit-learn's 1,797 digits, 1,400 and 397). Pictures are averaged
down to SIDE x SIDE and cut to LEVELS grey levels, all of which is declared, as are the ten classes
(`margrave.images.Pixels`). As many digits as were released are drawn; a network of one hidden layer of 100
(scikit-learn's MLPClassifier, 15 epochs) and a logistic regression learn from them.

Methods of tables release pixels and class together: adjacency add_remove, zero_out for those that release
noisy copies. `... by class` is the paper's way: the class of every picture is public, and so is how many each
has; the pixels of each class, as numbers, are released by `mg.slicing` of their own, which costs each picture
one release, and a generator is trained for each (`means`: none, a picture is told by the nearest of the ten
means of noisy copies). Rows longer than half the root of the number of pixels are shortened.

Delta is 1e-5. Each run is a line of --out: accuracies of the two classifiers, and seconds of processor time
for fit and rows; a second call goes on where the first was stopped. Also stored: how far what tells the
classes apart stands out of the noise (`signal`), which looks at the real digits. Noise is not seeded.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import margrave as mg
from margrave.images import Pixels
from margrave.privacy.accounting.conversions import gdp_mu

HERE = Path(__file__).parent
OUT, TEXT = HERE.parent / "results" / "images.jsonl", HERE.parent / "data" / "images_page.md"
DELTA = 1e-5
CLASSES = tuple(str(k) for k in range(10))
NOISY_COPIES = ("slice_fdiv", "slice_wass", "slicing")
METHODS = ("dp_merf", "dpsgd_gan", "pate_gan", *NOISY_COPIES)
NO_TARGET = (*NOISY_COPIES, "independent")
BY_CLASS: dict[str, tuple[Any, mg.slicing.Course] | None] = {
    "slice_fdiv by class": (
        mg.slicing.SlicedDivergence(widths=(4.0,), tau=0.1),
        mg.slicing.Course(steps=40, batch=128, slices=16, k=3, rate=5e-3),
    ),
    "slice_wass by class": (
        mg.slicing.SlicedWasserstein(),
        mg.slicing.Course(steps=60, batch=512, slices=100, k=1, rate=5e-3),
    ),
    "means by class": None,
}
"""Loss and course of each; they were chosen on scikit-learn's digits (bench/LOG.md)."""
EPSILONS = (1.0, 3.0, 10.0, 30.0)

Images = np.ndarray[Any, Any]
Scores = tuple[float, float]


def score(images: Images, labels: Sequence[str], test: Images, truth: Sequence[str]) -> Scores:
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


def release_table(name: str, epsilon: float, pixels: Pixels, table: Any) -> tuple[Images, list[str]]:
    """Drawn pictures and their labels, of a method of tables."""
    target = {} if name in NO_TARGET else {"target": "label"}
    adjacency = "zero_out" if name in NOISY_COPIES else "add_remove"
    made = mg.Synthesizer(
        name, epsilon=epsilon, delta=DELTA, schema=pixels.schema, adjacency=adjacency, **target
    ).fit(table)
    return pixels.picture(made.sample(table.num_rows, rng=0))


def release_classes(epsilon: float, images: Images, labels: Sequence[str]) -> list[mg.slicing.SliceRelease]:
    """Noisy copies of the pixels of each class; the classes are public."""
    flat, own = images.reshape(len(images), -1) / 255.0, np.asarray(labels)
    longest = 0.5 * math.sqrt(flat.shape[1])
    return [
        mg.slicing.release(flat[own == label], epsilon=epsilon, delta=DELTA, longest=longest)
        for label in CLASSES
    ]


def draw_by_class(
    releases: Sequence[mg.slicing.SliceRelease], loss: Any, course: mg.slicing.Course, side: int
) -> tuple[Images, list[str]]:
    """Pictures of a generator for each class, as many as were released, and their labels."""
    images, labels = [], []
    for label, release in zip(CLASSES, releases, strict=True):
        generator = mg.slicing.make_generator(release, seed=int(label))
        mg.slicing.train(release, generator, loss=loss, course=course)
        rows = mg.slicing.sample(release, generator, len(release.values), seed=int(label))
        images.append(np.rint(255.0 * rows).astype(np.uint8).reshape(-1, side, side))
        labels += [label] * len(rows)
    return np.concatenate(images), labels


def nearest_mean(releases: Sequence[mg.slicing.SliceRelease], test: Images, truth: Sequence[str]) -> Scores:
    """How often the nearest of the means of noisy copies is that of the class."""
    means = np.array([release.moments()[0] for release in releases])
    flat = test.reshape(len(test), -1) / 255.0
    said = np.asarray(CLASSES)[((flat[:, None] - means[None]) ** 2).sum(axis=2).argmin(axis=1)]
    return (float(np.mean(said == truth)),) * 2


def measure_signal(epsilon: float, images: Images, labels: Sequence[str], levels: int) -> dict[str, float]:
    """Squared signal over squared noise in what tells the classes apart. **Not private.**

    `cells`: over all tables of class and pixel, the sum of squared differences from independence, over the
    expected sum of squared noise in these cells from noisy copies of indicators. `means`: over the ten means
    of pixels, the sum of squared differences from the mean of all, over that of their noise.
    """
    flat, own, mu = images.reshape(len(images), -1) / 255.0, np.asarray(labels), gdp_mu(epsilon, DELTA)
    rows, width = flat.shape
    variance = (width + 1) / mu**2  # of each indicator; `NoisySlices.tables` has the rest
    one, other = variance * (1.0 - 1.0 / len(CLASSES)), variance * (1.0 - 1.0 / levels)
    classes = (own[:, None] == np.asarray(CLASSES)).astype(float)
    signal = noise = 0.0
    for pixel in flat.T:
        codes = (np.rint(pixel * (levels - 1))[:, None] == np.arange(levels)).astype(float)
        expected = np.outer(classes.sum(axis=0), codes.sum(axis=0)) / rows
        signal += float(((classes.T @ codes - expected) ** 2).sum())
        cells = classes.sum(axis=0)[:, None] * other + codes.sum(axis=0)[None] * one + rows * one * other
        noise += float(cells.sum())
    means = classes.T @ flat / classes.sum(axis=0)[:, None]
    apart = float(((means - flat.mean(axis=0)) ** 2).sum())
    spread = 0.25 * width / mu**2 * width * float((1.0 / classes.sum(axis=0)).sum())
    return {"cells": signal / noise, "means": apart / spread}


def run_once(
    method: str, epsilon: float, pixels: Pixels, real: Any, grey: Images, truth: Sequence[str]
) -> tuple[Scores, float]:
    """Accuracies on real digits, and processor seconds for fit and rows."""
    start = time.process_time()
    if method in METHODS:
        drawn, labels = release_table(method, epsilon, pixels, real)
    else:
        releases, training = release_classes(epsilon, *pixels.picture(real)), BY_CLASS[method]
        if training is None:
            return nearest_mean(releases, grey, truth), time.process_time() - start
        drawn, labels = draw_by_class(releases, *training, pixels.width)
    return score(drawn, labels, grey, truth), time.process_time() - start


class Store:
    """Outcomes in a file of lines; what is there is not measured again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self.lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def lacks(self, cell: dict[str, Any], run: int) -> bool:
        """Whether fewer than run + 1 outcomes of a cell are there."""
        return sum(cell.items() <= line.items() for line in self.lines) <= run

    def add(self, cell: dict[str, Any], found: dict[str, Any]) -> None:
        """Keep and print an outcome."""
        rounded = {key: float(f"{value:.4g}") for key, value in found.items()}
        line = cell | rounded | {"version": mg.__version__}
        self.lines.append(line)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)


def load_pictures(asked: argparse.Namespace) -> tuple[str, int, Images, list[str], int]:
    """Collection, side, pictures, labels, and how many are released."""
    if asked.digits:
        digits = load_digits()
        return "digits", 8, digits.images / 16.0, [str(digit) for digit in digits.target], 1_400
    with np.load(asked.file) as held:
        return "mnist", asked.side, held["x"].reshape(-1, 28, 28), [str(digit) for digit in held["y"]], 8_000


def measure_collection(asked: argparse.Namespace, store: Store) -> None:
    """All methods at all epsilons on one collection."""
    name, side, images, digits, released = load_pictures(asked)
    order = np.random.default_rng(0).permutation(len(images))
    pixels = Pixels(side, side, asked.levels, CLASSES)
    real, test = (
        pixels.tabulate(images[part], [digits[k] for k in part])
        for part in (order[:released], order[released:])
    )
    grey, truth = pixels.picture(test)
    setting = {"kind": "accuracy", "collection": name, "side": side, "levels": asked.levels}
    whole = setting | {"method": "real rows", "epsilon": 0.0}
    if store.lacks(whole, 0):
        network, regression = score(*pixels.picture(real), grey, truth)
        store.add(whole, {"network": network, "regression": regression, "seconds": 0.0})
    for epsilon in asked.epsilons:
        cell = setting | {"kind": "signal", "epsilon": epsilon}
        if store.lacks(cell, 0):
            store.add(cell, measure_signal(epsilon, *pixels.picture(real), asked.levels))
    for run in range(asked.runs):
        for method in asked.methods:
            for epsilon in asked.epsilons:
                cell = setting | {"method": method, "epsilon": epsilon}
                if store.lacks(cell, run):
                    found, seconds = run_once(method, epsilon, pixels, real, grey, truth)
                    store.add(cell, {"network": found[0], "regression": found[1], "seconds": seconds})


def adapt(asked: argparse.Namespace, store: Store) -> None:
    """How well digits of one collection are read by what learnt from a release of the other."""
    digits = load_digits()
    pixels = Pixels(8, 8, 4, CLASSES)
    with np.load(asked.file) as held:
        mnist = pixels.tabulate(held["x"].reshape(-1, 28, 28)[:, 2:26, 2:26], held["y"])
    own = pixels.tabulate(digits.images / 16.0, digits.target)
    for way, source, other in (("mnist to digits", mnist, own), ("digits to mnist", own, mnist)):
        seen, truth = pixels.picture(other)
        cell = {"kind": "adapt", "collection": way, "method": "real rows", "epsilon": 0.0}
        if store.lacks(cell, 0):
            network, regression = score(*pixels.picture(source), seen, truth)
            store.add(cell, {"network": network, "regression": regression, "seconds": 0.0})
        for method in asked.methods:
            for epsilon in asked.epsilons:
                cell |= {"method": method, "epsilon": epsilon}
                if store.lacks(cell, 0):
                    found, seconds = run_once(method, epsilon, pixels, source, seen, truth)
                    store.add(cell, {"network": found[0], "regression": found[1], "seconds": seconds})


def write_page(outcomes: Path) -> str:
    """The page: its text, with the tables of what is stored in the place of `(table: NAME)`."""
    lines = [json.loads(line) for line in outcomes.read_text(encoding="utf-8").splitlines()]
    page = TEXT.read_text(encoding="utf-8")
    for collection in ("mnist", "digits"):
        page = page.replace(f"(table: {collection})", _tabulate(lines, "accuracy", collection))
        signals = [one for one in lines if one["kind"] == "signal" and one["collection"] == collection]
        page = page.replace(f"(table: signal {collection})", _tabulate_signal(signals))
    ways = [_tabulate(lines, "adapt", way, way) for way in ("mnist to digits", "digits to mnist")]
    page = page.replace("(table: adapt)", "\n\n".join(ways))
    spent = [one.get("seconds", 0.0) for one in lines if one["collection"] == "mnist"]
    return page.replace("(minutes)", f"{sum(spent) / 60:.0f} minutes")


def _tabulate(lines: list[dict[str, Any]], kind: str, collection: str, head: str = "method") -> str:
    cells: dict[tuple[str, float], list[dict[str, Any]]] = defaultdict(list)
    for one in lines:
        if one["kind"] == kind and one["collection"] == collection:
            cells[one["method"], one["epsilon"]].append(one)
    epsilons = sorted({epsilon for _, epsilon in cells} - {0.0})
    found = [
        f"| {head} | {' | '.join(f'epsilon {epsilon:g}' for epsilon in epsilons)} | processor seconds |",
        "| --- |" + " --- |" * (len(epsilons) + 1),
    ]
    for method in dict.fromkeys(["real rows", *BY_CLASS, *METHODS, *(name for name, _ in cells)]):
        runs = [cells.get((method, epsilon), []) for epsilon in epsilons]
        if method == "real rows":
            runs = [cells[method, 0.0]] * len(epsilons)
        if any(runs):
            seconds = [one["seconds"] for cell in runs for one in cell if "seconds" in one]
            name = method if method == "real rows" else f"`{method}`"
            took = f"{min(seconds):.0f} to {max(seconds):.0f}" if any(seconds) else ""
            found.append(f"| {name} | {' | '.join(map(_show_cell, runs))} | {took} |")
    return "\n".join(found)


def _show_cell(runs: list[dict[str, Any]]) -> str:
    """Mean accuracy of the network and of the regression, with the range of the former over several runs."""
    if not runs:
        return ""
    network, regression = ([one[what] for one in runs] for what in ("network", "regression"))
    spread = f" ({_short(min(network))} to {_short(max(network))})" if len(runs) > 1 else ""
    return f"{_short(np.mean(network))} / {_short(np.mean(regression))}{spread}"


def _short(number: Any) -> str:
    return f"{number:.2f}".removeprefix("0")


def _tabulate_signal(lines: list[dict[str, Any]]) -> str:
    ordered = sorted(lines, key=lambda one: one["epsilon"])
    heads = " | ".join(f"epsilon {one['epsilon']:g}" for one in ordered)
    names = {"cells": "cells of class and pixel, noisy indicators", "means": "means of pixels, by class"}
    rows = [f"| {names[what]} | {' | '.join(f'{one[what]:.2g}' for one in ordered)} |" for what in names]
    return "\n".join([f"| signal over noise | {heads} |", "| --- |" + " --- |" * len(ordered), *rows])


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, nargs="?", help="mnist10k.npz")
    parser.add_argument("--side", type=int, default=7)
    parser.add_argument("--levels", type=int, default=4)
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--methods", nargs="+", default=[*METHODS, *BY_CLASS], choices=[*METHODS, *BY_CLASS])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--digits", action="store_true", help="scikit-learn's digits in the place of MNIST")
    parser.add_argument("--adapt", action="store_true", help="MNIST to scikit-learn's digits and back")
    parser.add_argument("--out", type=Path, default=OUT, help="where outcomes are stored")
    parser.add_argument("--page", type=Path, help="write this page of what is stored, and measure nothing")
    asked = parser.parse_args()
    if asked.page is not None:
        asked.page.write_text(write_page(asked.out), encoding="utf-8")
    elif asked.adapt:
        adapt(asked, Store(asked.out))
    else:
        measure_collection(asked, Store(asked.out))


if __name__ == "__main__":
    main()
