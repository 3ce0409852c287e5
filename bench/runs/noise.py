"""Time the exact Gaussian samplers against OpenDP's integer Gaussian, in one run on one core.

    python bench/runs/noise.py [--repeats 5] [--cells 1000000] [--peer-cells 50000] [--out FILE]

Each line of the result is one sampler at one sigma: draws a second, median, least and most over the
repeats; the table set-up of a sigma not seen before is inside every timing. Repeats of all samplers are
interleaved. Bits come from the operating system, so there is no seed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from datetime import datetime, timezone
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

from margrave.privacy.noise import SecureSource, discrete_gaussian, rounded_gaussian

__all__ = ["main"]

SIGMAS = (1, 30, 100, 1_000, 100_000, 10_000_000)
SOURCE = SecureSource()
Sampler = Callable[[int, int], None]


def ours(draw: Callable[[Fraction, int, SecureSource], object]) -> Sampler:
    """One of our samplers, with a sigma^2 never asked before, so that its table is built anew."""
    asked = iter(range(1, 10**9))

    def run(sigma: int, cells: int) -> None:
        draw(Fraction(sigma**2) + Fraction(next(asked), 10**12), cells, SOURCE)

    return run


def peer() -> Sampler:
    """OpenDP's Gaussian measurement on a vector of whole numbers, which is exact too."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)

    def run(sigma: int, cells: int) -> None:
        dp.m.make_gaussian(*space, scale=float(sigma))([0] * cells)

    return run


def processor() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def rates(samplers: dict[str, tuple[Sampler, int]], sigma: int, repeats: int) -> dict[str, list[float]]:
    """Draws a second of each sampler, a list over the repeats."""
    found: dict[str, list[float]] = {name: [] for name in samplers}
    for turn in range(repeats + 1):
        for name, (sampler, cells) in samplers.items():
            start = time.perf_counter()
            sampler(sigma, cells if turn else 1_000)
            if turn:
                found[name].append(cells / (time.perf_counter() - start))
    return found


def main() -> None:
    """Run the comparison, print it and append it to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cells", type=int, default=1_000_000)
    parser.add_argument("--peer-cells", type=int, default=50_000)
    parser.add_argument("--out", type=Path, default=Path("bench/results/noise.jsonl"))
    asked = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    samplers = {
        "discrete": (ours(discrete_gaussian), asked.cells),
        "rounded": (ours(rounded_gaussian), asked.cells),
        "opendp": (peer(), asked.peer_cells),
    }
    setting = {
        "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "cpu": processor(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "numba", "opendp")},
    }
    print("million draws a second: median (least to most); ratio of medians to OpenDP")
    for sigma in SIGMAS:
        found = rates(samplers, sigma, asked.repeats)
        report(asked.out, setting, sigma, found, samplers)


def report(
    out: Path,
    setting: dict[str, str],
    sigma: int,
    found: dict[str, list[float]],
    samplers: dict[str, tuple[Sampler, int]],
) -> None:
    """Print one sigma's row and append its lines to the results."""
    base = statistics.median(found["opendp"])
    row = [f"sigma {sigma:>9,}"]
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", encoding="utf-8") as file:
        for name, rate in found.items():
            middle = statistics.median(rate)
            line = {
                "run": "noise",
                "sampler": name,
                "sigma": sigma,
                "cells": samplers[name][1],
                "repeats": len(rate),
                "per_second": {"median": middle, "min": min(rate), "max": max(rate)},
                "ratio_to_opendp": middle / base,
                **setting,
            }
            file.write(json.dumps(line) + "\n")
            shown = f"{middle / 1e6:.3g} ({min(rate) / 1e6:.3g} to {max(rate) / 1e6:.3g})"
            row.append(f"{name} {shown} x{middle / base:.0f}")
    print(" | ".join(row))


if __name__ == "__main__":
    main()
