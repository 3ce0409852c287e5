"""mbi 2.0.0, run in a process of its own, as an oracle for the estimator."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

from margrave.models.pgm.fitter import PGM
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

pytestmark = [
    pytest.mark.slow,
    pytest.mark.oracle("mbi"),
]

DOMAIN = Domain(tuple("abcdef"), (4, 3, 5, 2, 6, 3))
CASES = {
    "tree": [("a", "b"), ("b", "c"), ("c", "d"), ("e", "d"), ("f", "e"), ("a",)],
    "loop": [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("e",), ("f", "e"), ("a", "b")],
}
SCRIPT = """
import sys
import numpy as np
import mbi
from mbi import estimation

given = np.load(sys.argv[1], allow_pickle=False)
names = [str(n) for n in given["names"]]
domain = mbi.Domain(names, [int(n) for n in given["sizes"]])
measured = [
    mbi.LinearMeasurement(given[f"y{k}"].ravel(), tuple(str(clique).split(",")), float(given["sigma"][k]))
    for k, clique in enumerate(given["cliques"])
]
found = estimation.MirrorDescent().estimate(domain, measured, known_total=float(given["total"]), iters=20000)
cliques = [tuple(str(clique).split(",")) for clique in given["cliques"]]
np.savez(sys.argv[2], *[np.asarray(found.project(c).datavector(flatten=False)) for c in cliques])
"""


def noisy(cliques, sigmas, seed):
    """Marginals of one random joint with noise that pushes some cells below zero."""
    rng = np.random.default_rng(seed)
    joint = 2000 * rng.dirichlet(np.full(DOMAIN.size(), 0.05)).reshape(DOMAIN.sizes)
    made = []
    for clique, sigma in zip(cliques, sigmas, strict=True):
        gone = tuple(i for i, n in enumerate(DOMAIN.names) if n not in clique)
        exact = joint.sum(axis=gone).transpose([DOMAIN.canonical(clique).index(n) for n in clique])
        made.append(NoisyMarginal(clique, exact + rng.normal(size=exact.shape) * sigma, float(sigma)))
    return made


@pytest.mark.parametrize("case", CASES)
def test_fitted_marginals_are_those_of_mbi(case, tmp_path):
    cliques = CASES[case]
    sigmas = [size for size, _ in zip(itertools.cycle((30.0, 60.0, 15.0)), cliques, strict=False)]
    measurements = noisy(cliques, sigmas, seed=len(cliques))
    assert any((m.values < 0).any() for m in measurements)
    np.savez(
        tmp_path / "in.npz",
        names=np.array(DOMAIN.names),
        sizes=np.array(DOMAIN.sizes),
        cliques=np.array([",".join(c) for c in cliques]),
        sigma=np.array(sigmas),
        total=2000.0,
        **{f"y{k}": m.values for k, m in enumerate(measurements)},
    )
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1"}
    subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "in.npz"), str(tmp_path / "out.npz")],
        check=True,
        env=environment,
        capture_output=True,
        timeout=900,
    )
    fitter = PGM(strength=1e-2, penalty="squares", tolerance=1e-5, max_iterations=20_000)
    model = fitter.fit(DOMAIN, measurements, total=2000.0)
    assert model.converged
    with np.load(tmp_path / "out.npz") as theirs:
        for k, clique in enumerate(cliques):
            ours = model.project(clique) / 2000
            assert np.abs(ours - theirs[f"arr_{k}"] / 2000).sum() / 2 < 1e-3
