"""Fits on PyTorch against the compiled kernels: times, and how far apart the answers are.

    python bench/runs/device.py --device torch-cpu
    python bench/runs/device.py --device cuda --codes 300 1000 4000 8000 --cells 1e5 1e6 1e7 1e8
    python bench/runs/device.py --device cuda --codes --cells --attributes 50 200 --threads 16

Needs `pip install 'margrave[gpu]'`. --codes: mixtures over attributes of 20 codes each, a third of them in
order, all pairs measured of a random mixture of six products, --steps optimiser steps of --components from
the same start in single precision, one restart. --cells: one inference on a chain of ten
cliques of attributes with 10 codes that have about so many cells together, all pairs within a clique with
random potentials, in double precision; the belief stays where it is. --attributes: `auto` from a table of
100,000 rows of the same random mixtures, declared, to its fitted model at epsilon 1. `kernels` and `tensors`
are seconds of wall time, the shortest of --repeats after one run to load what there is to load, `kernels_cpu`
and `tensors_cpu` the processor seconds of that run; `speedup` is kernels / tensors, with the least and the
most it could be over the repeats. `apart` is the largest difference of a pair's probability (mixtures) or of
a measured one (inference); `value` the relative difference of the objective or of log Z. The two releases of
`auto` have noise of their own: `error` and `error_tensors` are the mean absolute
difference of the same 100 pairs' shares, summed over cells.
`bytes` is the most that torch held on a CUDA device, a pair of codes or a cell.
Inference and torch on the processor use --threads threads; the mixture's matrix products as many as BLAS
takes (OPENBLAS_NUM_THREADS).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from margrave import Integer, Schema, Synthesis, Synthesizer
from margrave.models._mixture.stacked import Stacked
from margrave.models._torch.device import Device, open_device
from margrave.models.auto import Auto
from margrave.models.mixture.descent import Descent, descend
from margrave.models.mixture.objective import Objective, Point, point
from margrave.models.mixture.tensor import TensorObjective, descend_tensors
from margrave.models.pgm.inference import Inference
from margrave.models.pgm.tensor import TensorInference
from margrave.models.pgm.tree import Layout

RESULTS = Path(__file__).parent.parent / "results" / "device.jsonl"
SIZE, NOISE, PRICE, SPREAD = 20, 1e-3, 1000.0, 0.5
ROWS = 100_000


def timed(repeats: int, work: Callable[[], Any]) -> tuple[list[float], float, Any]:
    """Wall times after one run not counted, the processor seconds of the shortest, and the last answer."""
    work()
    times, found = [], None
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        found = work()
        times.append((time.perf_counter() - wall, time.process_time() - cpu))
    return [wall for wall, _ in times], min(times)[1], found


def against(ours: tuple[list[float], float, Any], theirs: tuple[list[float], float, Any]) -> dict[str, Any]:
    """Both times and their ratio with its spread."""
    (here, here_cpu, _), (there, there_cpu, _) = ours, theirs
    return {
        "kernels": min(here),
        "tensors": min(there),
        "kernels_cpu": here_cpu,
        "tensors_cpu": there_cpu,
        "speedup": min(here) / min(there),
        "speedup_spread": [min(here) / max(there), max(here) / min(there)],
    }


def measured(codes: int) -> Stacked:
    """All pairs and one-ways of a random mixture, with noise."""
    rng = np.random.default_rng(0)
    attributes = max(codes // SIZE, 2)
    starts = np.arange(attributes + 1, dtype=np.int64) * SIZE
    shares = np.concatenate([rng.dirichlet(np.full(SIZE, 0.5), size=6).T for _ in range(attributes)])
    weights = rng.dirichlet(np.ones(6))
    noise = rng.standard_normal((len(shares), len(shares)), dtype=np.float32) * NOISE
    pairs = ((shares * weights) @ shares.T).astype(np.float32) + (noise + noise.T) / np.float32(2**0.5)
    precision = np.full(pairs.shape, NOISE**-2, np.float32)
    for first in starts[:-1]:
        precision[first : first + SIZE, first : first + SIZE] = 0.0
    ones = (shares @ weights + NOISE * rng.standard_normal(len(shares))).astype(np.float32)
    ordered = np.where(np.arange(attributes) % 3 == 0, SIZE, 0)
    weights_of_ones, inferred = np.full_like(ones, NOISE**-2), np.zeros((attributes, attributes), np.bool_)
    return Stacked(starts, ordered, pairs * (precision > 0), precision, ones, weights_of_ones, inferred)


def mixture(codes: int, components: int, device: Device, steps: int, repeats: int) -> dict[str, Any]:
    """One descent of each kind from the same start."""
    stacked = measured(codes)
    logs = np.log(np.maximum(stacked.ones, 1e-4))[:, None]
    spread = np.random.default_rng(1).standard_normal((stacked.codes, components), dtype=np.float32)
    logs = logs + np.float32(SPREAD) * spread

    def run(tensors: bool) -> tuple[Point, Descent]:
        at = point(logs, np.zeros(components), stacked.starts)
        if tensors:
            return at, descend_tensors(TensorObjective(stacked, PRICE, PRICE / 3, device), at, steps, 0.1)
        return at, descend(Objective(stacked, components, PRICE, PRICE / 3), at, steps, 0.1)

    ours, theirs = timed(repeats, lambda: run(False)), timed(repeats, lambda: run(True))
    pairs = [(at.shares * at.weights) @ at.shares.T for at, _ in (ours[2], theirs[2])]
    line = {"what": "mixture", "codes": stacked.codes, "components": components, "steps": steps}
    line |= against(ours, theirs)
    line["apart"] = float(np.abs(pairs[0] - pairs[1]).max())
    line["value"] = abs(theirs[2][1].value / ours[2][1].value - 1.0)
    return line | held(device, stacked.codes**2)


def inference(target: float, device: Device, threads: int, repeats: int) -> dict[str, Any]:
    """One inference of each kind at the same potentials."""
    width = max(round(np.log10(target)) - 1, 2)
    near = [(a, b) for a, b in combinations(range(width + 9), 2) if b - a < width]
    layout = Layout((10,) * (width + 9), near, 1 << 30)
    theta = np.random.default_rng(0).normal(size=layout.starts[-1])
    engines = Inference(layout, threads), TensorInference(layout, device)
    ours, theirs = (timed(repeats, lambda e=engine: e.run(theta)) for engine in engines)
    line = {"what": "inference", "cells": layout.node_starts[-1], "measured": len(near)}
    line |= against(ours, theirs)
    line["apart"] = float(np.abs(engines[0].marginals - engines[1].marginals).max())
    line["value"] = abs(theirs[2] / ours[2] - 1.0)
    return line | held(device, layout.node_starts[-1])


def released(attributes: int, device: str, repeats: int) -> dict[str, Any]:
    """Releases of one table by `auto`, from its rows to the fitted model."""
    rng = np.random.default_rng(0)
    group = rng.choice(6, ROWS, p=rng.dirichlet(np.ones(6)))
    columns = {}
    for k in range(attributes):
        steps = rng.dirichlet(np.full(SIZE, 0.5), size=6).cumsum(axis=1)[group]
        columns[f"x{k}"] = (rng.random((ROWS, 1)) > steps).sum(axis=1).clip(0, SIZE - 1)
    schema = Schema(tuple(Integer(name=name, lower=0, upper=SIZE - 1, missing=False) for name in columns))

    def run(place: str | None) -> Synthesis:
        choice = Synthesizer("auto", epsilon=1.0, schema=schema, model=Auto(device=place))
        return choice.fit(pa.table(columns))

    def error(synthesis: Synthesis) -> float:
        names, distances = list(columns), []
        for a, b in np.random.default_rng(1).integers(attributes, size=(100, 2)):
            if a != b:
                counts = np.zeros((SIZE, SIZE))
                np.add.at(counts, (columns[names[a]], columns[names[b]]), 1.0 / ROWS)
                found = synthesis.model.project((names[a], names[b]))
                distances.append(np.abs(found / found.sum() - counts).sum())
        return float(np.mean(distances))

    ours, theirs = timed(repeats, lambda: run(None)), timed(repeats, lambda: run(device))
    line = {"what": "auto", "rows": ROWS, "attributes": attributes, "codes": attributes * SIZE}
    return line | against(ours, theirs) | {"error": error(ours[2]), "error_tensors": error(theirs[2])}


def held(device: Device, units: int) -> dict[str, float]:
    """The most that was held on a CUDA device since the last call, over so many units."""
    if device.place.type != "cuda":
        return {}
    most = device.torch.cuda.max_memory_allocated(device.place) / units
    device.torch.cuda.reset_peak_memory_stats(device.place)
    return {"bytes": most}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--codes", nargs="*", type=int, default=[300, 1000, 2000])
    parser.add_argument("--cells", nargs="*", type=float, default=[1e4, 1e5, 1e6, 1e7])
    parser.add_argument("--attributes", nargs="*", type=int, default=[])
    parser.add_argument("--components", type=int, default=250)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="on the processor")
    arguments = parser.parse_args()
    device = open_device(arguments.device)
    if device is None:
        parser.error("name a device of torch: torch-cpu, cuda, cuda:N or mps")
    device.torch.set_num_threads(arguments.threads)
    stamp = {
        "device": arguments.device,
        "chip": device.torch.cuda.get_device_name(device.place) if device.place.type == "cuda" else "",
        "threads": arguments.threads,
        **{f"{name}_version": version(name) for name in ("torch", "numpy", "numba")},
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "day": time.strftime("%Y-%m-%d"),
    }
    RESULTS.parent.mkdir(exist_ok=True)
    lines = [
        lambda n=n: mixture(n, arguments.components, device, arguments.steps, arguments.repeats)
        for n in arguments.codes
    ]
    if device.double:
        lines += [
            lambda n=n: inference(n, device, arguments.threads, arguments.repeats) for n in arguments.cells
        ]
    lines += [lambda n=n: released(n, arguments.device, arguments.repeats) for n in arguments.attributes]
    for make in lines:
        line = {**make(), **stamp}
        print(json.dumps(line), flush=True)
        with RESULTS.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
