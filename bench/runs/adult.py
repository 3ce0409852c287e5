"""AIM, MST and the baseline on Adult with 32 equal-width bins: error and time, peers in the same run.

    python bench/runs/adult.py --methods aim mst --epsilon 1 --repeats 5
    python bench/runs/adult.py --methods aim --epsilon 1 --repeats 5 --peers smartnoise opendp

Data: the Adult training table that ships with margrave. Numbers with more than 32 values (age, fnlwgt,
capital-gain, capital-loss, hours-per-week) go to 32 equal-width bins over [min, max], all else to
sorted codes; "?" is a category. The codes' domain counts as public here, as in the papers, and so does that
the codes of numbers stand in order (only `auto` makes use of it). Errors are
mean total variations of the synthetic rows against the real ones: all 15 one-ways, all 105 pairs, a
seeded 200 of the 455 triples. delta is 1e-5, adjacency add/remove, the workload all pairs. A peer runs
in a virtual environment of its own that this script makes under --envs. Seconds are those of fit plus
sample in a fresh process, imports left out, for us and for peers; `cpu` is the processor time of the
whole process, imports and compilation included, which other work on the machine does not stretch.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

BINNED = ("age", "fnlwgt", "capital-gain", "capital-loss", "hours-per-week")
HERE = Path(__file__).parent
RESULTS = HERE.parent / "results"
PEERS = {
    "smartnoise": (["torch==2.13.0"], ["smartnoise-synth"]),
    "opendp": (["opendp[mbi]"], ["pandas"]),
}


def adult_codes() -> tuple[pa.Table, dict[str, int]]:
    """Adult as integer codes, and the sizes of its columns."""
    from margrave.datasets import load_adult

    table = load_adult()
    columns, sizes = {}, {}
    for name in table.column_names:
        values = ["?" if value is None else value for value in table[name].to_pylist()]
        if name in BINNED:
            x = np.array([float(v) for v in values])
            edges = np.linspace(x.min(), x.max(), 33)
            codes = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, 31)
            sizes[name] = 32
        else:
            numeric = name == "education-num"
            distinct = sorted(set(values), key=(lambda v: float(v)) if numeric else None)
            index = {value: code for code, value in enumerate(distinct)}
            codes = np.array([index[value] for value in values])
            sizes[name] = len(distinct)
        columns[name] = codes.astype(np.int64)
    return pa.table(columns), sizes


def errors(real: pa.Table, synthetic: pa.Table, sizes: dict[str, int]) -> dict[str, float]:
    """Mean total variation over one-ways, pairs and 200 triples."""
    names = list(sizes)
    triples = list(combinations(names, 3))
    chosen = np.random.default_rng(0).choice(len(triples), min(200, len(triples)), replace=False)
    groups = {
        "ones": [(n,) for n in names],
        "pairs": list(combinations(names, 2)),
        "triples": [triples[i] for i in chosen],
    }
    tables = [{n: t[n].to_numpy().astype(np.int64) for n in names} for t in (real, synthetic)]
    return {
        kind: float(np.mean([_distance(tables, clique, sizes) for clique in cliques]))
        for kind, cliques in groups.items()
    }


def _distance(tables: list[dict[str, np.ndarray]], clique: tuple[str, ...], sizes: dict[str, int]) -> float:
    shape = tuple(sizes[name] for name in clique)
    shares = []
    for table in tables:
        cells = np.ravel_multi_index(tuple(table[name] for name in clique), shape)
        counts = np.bincount(cells, minlength=int(np.prod(shape)))
        shares.append(counts / counts.sum())
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def run_ours(method: str, epsilon: float, folder: Path) -> None:
    """One run in this process; writes rows and timings to the folder."""
    # What a first call would import, so that the clock leaves imports out, as for peers.
    import margrave.engines.opening
    import margrave.measure.curator
    import margrave.measure.discovery.discover
    import margrave.models._base.given
    import margrave.models._sampling.repair
    import margrave.models.auto
    import margrave.models.compressed
    import margrave.models.pgm.fitter
    import margrave.run.planning
    import margrave.run.synthesis
    import margrave.select.all_pairs  # noqa: F401
    from margrave import Synthesizer
    from tables import coded_schema

    real, sizes = adult_codes()
    schema = coded_schema(sizes, {*BINNED, "education-num"})
    start = time.perf_counter()
    synthesizer = Synthesizer(method, epsilon=epsilon, delta=1e-5, schema=schema)
    synthesis = synthesizer.fit(real)
    fitted = time.perf_counter()
    rows = synthesis.sample()
    done = time.perf_counter()
    pc.write_csv(rows, folder / "rows.csv")
    record = {"fit": fitted - start, "sample": done - fitted, "events": len(synthesis.release.events)}
    (folder / "record.json").write_text(json.dumps(record))


def one(who: str, epsilon: float, envs: Path) -> dict[str, object]:
    """Run one method or peer in a process of its own and score its rows."""
    from margrave.privacy.accounting.conversions import zcdp_rho

    real, sizes = adult_codes()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pc.write_csv(real, folder / "codes.csv")
        (folder / "sizes.json").write_text(json.dumps(sizes))
        peer = who in PEERS
        python = _environment(who, envs) if peer else sys.executable
        script = HERE.parent / "peers" / f"{who}_aim.py" if peer else Path(__file__)
        words = (
            [str(folder), str(epsilon), str(zcdp_rho(epsilon, 1e-5))]
            if peer
            else ["--inside", str(folder), who, str(epsilon)]
        )
        threads = {f"{lib}_NUM_THREADS": "1" for lib in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "NUMBA")}
        start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([python, str(script), *words], check=True, env=os.environ | threads, stdout=sys.stderr)
        wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
        rows = pc.read_csv(folder / "rows.csv")
        record = json.loads((folder / "record.json").read_text())
    seconds = record["fit"] + record["sample"]
    return {"who": who, "epsilon": epsilon, "seconds": seconds, "wall": wall, "cpu": cpu, **record} | errors(
        real, rows, sizes
    )


def _environment(who: str, envs: Path) -> str:
    python = envs / who / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(envs / who)], check=True)
        for packages in PEERS[who]:
            subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
    return str(python)


def main() -> None:
    """Run the grid and write JSON lines."""
    if sys.argv[1:2] == ["--inside"]:
        run_ours(sys.argv[3], float(sys.argv[4]), Path(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["aim", "mst", "independent"])
    parser.add_argument("--peers", nargs="*", default=[])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--envs", type=Path, default=Path("bench/.envs"))
    parser.add_argument("--out", type=Path, default=RESULTS / "adult.jsonl")
    args = parser.parse_args()
    stamp = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "day": time.strftime("%Y-%m-%d"),
    }
    for epsilon in args.epsilon:
        for who in [*args.methods, *args.peers]:
            repeats = 1 if who in args.peers else args.repeats
            runs = [one(who, epsilon, args.envs) for _ in range(repeats)]
            with args.out.open("a") as handle:
                handle.writelines(json.dumps(run | stamp) + "\n" for run in runs)
            _tell(who, epsilon, runs)


def _tell(who: str, epsilon: float, runs: list[dict[str, object]]) -> None:
    def values(key: str) -> list[float]:
        return [float(run[key]) for run in runs]  # type: ignore[arg-type]

    seconds, cpu = values("seconds"), values("cpu")
    spread = f"[{min(seconds):.2f}, {max(seconds):.2f}]"
    print(
        f"{who:12} eps {epsilon:<4g} {statistics.median(seconds):8.2f} s {spread}"
        f"  cpu {statistics.median(cpu):8.2f} s"
        + "".join(
            f"  {k} {statistics.mean(values(k)):.4f} [{min(values(k)):.4f}, {max(values(k)):.4f}]"
            for k in ("ones", "pairs", "triples")
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
