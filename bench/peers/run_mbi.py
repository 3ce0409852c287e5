"""A spanning tree of pairs, estimated by mbi: python run_mbi.py FOLDER, in an environment of its own.

mbi 2.0.0 ships estimators and no mechanism, so the mechanism is ours: the figures are about mbi's estimator
and sampler: a third of rho measures all columns, a third draws the tree's edges one by one by the exponential
mechanism (L1 distance of a pair from the product of its released columns, which one row moves by 1 at most; a
draw at epsilon costs rho = epsilon^2 / 8), a third measures the pairs. The noise is NumPy's: good enough to
compare errors with, not to release anything.
"""

import importlib.metadata
import json
import math
import sys
import time
from itertools import combinations
from pathlib import Path

import mbi
import numpy as np
from mbi import estimation

folder = Path(sys.argv[1])
request = json.loads((folder / "request.json").read_text())
sizes, rho = request["sizes"], request["rho"]
names = list(sizes)
held = np.loadtxt(folder / "codes.csv", delimiter=",", skiprows=1, dtype=np.int64, ndmin=2)
rng = np.random.default_rng()


def counts(*columns):
    """Rows by the codes of some columns, flat."""
    shape = tuple(sizes[name] for name in columns)
    cells = np.ravel_multi_index(tuple(held[:, names.index(name)] for name in columns), shape)
    return np.bincount(cells, minlength=math.prod(shape)).astype(float)


def measured(cliques, share):
    """Their counts with Gaussian noise, the rho shared out evenly."""
    sigma = math.sqrt(len(cliques) / (2 * share))
    return [
        mbi.LinearMeasurement(
            counts(*clique) + rng.normal(0, sigma, math.prod(sizes[n] for n in clique)), clique, sigma
        )
        for clique in cliques
    ]


def tree(ones, share):
    """Edges of a spanning tree, each drawn among those that join two parts."""
    epsilon = math.sqrt(8 * share / max(len(names) - 1, 1))
    shares = {m.clique[0]: np.maximum(m.noisy_measurement, 0) for m in ones}
    total = max(float(np.mean([table.sum() for table in shares.values()])), 1.0)
    scores = {
        pair: np.abs(counts(*pair) - np.outer(shares[pair[0]], shares[pair[1]]).ravel() / total).sum()
        for pair in combinations(names, 2)
    }
    part = {name: name for name in names}
    edges = []
    while len(edges) < len(names) - 1:
        free = [pair for pair in scores if part[pair[0]] != part[pair[1]]]
        weights = np.array([epsilon * scores[pair] / 2 for pair in free])
        edge = free[int(np.argmax(weights + rng.gumbel(size=len(free))))]
        edges.append(edge)
        old, new = part[edge[1]], part[edge[0]]
        part = {name: new if at == old else at for name, at in part.items()}
    return edges


start = time.perf_counter()
ones = measured([(name,) for name in names], rho / 3)
edges = tree(ones, rho / 3) if len(names) > 1 else []
pairs = measured(edges, rho / 3) if edges else []
domain = mbi.Domain(names, [sizes[name] for name in names])
model = estimation.MirrorDescent().estimate(domain, ones + pairs, iters=2500)
fitted = time.perf_counter()
rows = model.synthetic_data(rows=request["rows"]).to_dict()
done = time.perf_counter()
table = np.stack([np.asarray(rows[name]) for name in names], axis=1)
np.savetxt(
    folder / "rows.csv", table, fmt="%d", delimiter=",", header=",".join(f'"{n}"' for n in names), comments=""
)
versions = {name: importlib.metadata.version(name) for name in request["packages"]}
record = {"fit": fitted - start, "sample": done - fitted, "versions": versions}
(folder / "record.json").write_text(json.dumps(record))
