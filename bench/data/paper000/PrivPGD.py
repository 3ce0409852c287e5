"""PrivPGD as the comparison with its paper runs it: as many particles and epochs as one core carries.

A fifth of the paper's particles, epochs and directions, and longer steps for it; all pairs alike, without the
one-way marginals that margrave's `privpgd` buys and the paper does not.
"""

from __future__ import annotations

import itertools
from typing import Any

import margrave as mg
from margrave.models import Particles

PARTICLES, EPOCHS = 20_000, 200


def synthesize(
    table: Any, schema: mg.Schema, *, epsilon: float, delta: float, rows: int, rng: Any, **_: Any
) -> Any:
    """Rows of a release under replace_one; the paper's definition 2.1."""
    pairs = list(itertools.combinations(schema.domain.names, 2))
    synthesizer = mg.Synthesizer(
        select=mg.select.Fixed(pairs, one_ways=False),
        model=Particles(particles=PARTICLES, epochs=EPOCHS),
        epsilon=epsilon,
        delta=delta,
        adjacency="replace_one",
        schema=schema,
    )
    return synthesizer.fit(table).sample_arrow(rows, rng=rng)
