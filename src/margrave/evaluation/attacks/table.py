"""The attacks among the metrics. **Not private**: an attack is scored by the real rows."""

from __future__ import annotations

from margrave.evaluation.attacks.attribute import AttributeInference
from margrave.evaluation.attacks.membership import MembershipInference
from margrave.evaluation.score import Facts
from margrave.evaluation.task import Metric

__all__ = ["ATTACKS"]

ATTACKS: tuple[Metric, ...] = (
    AttributeInference(
        Facts(
            "attack_attribute",
            "Share of right guesses of one column by the nearest synthetic row in all others, for real rows "
            "minus for held-out rows.",
            low=-1.0,
            goal=None,
            source="Giomi et al. 2023 (Anonymeter)",
            cost="compares 2,000 rows with 50,000",
            reads="values",
            discloses=True,
            needs=("target", "held_out"),
        )
    ),
    MembershipInference(
        Facts(
            "attack_density",
            "Chance that the ratio of synthetic to reference density is higher for a real row than for a "
            "held-out row: 0.5 is guessing.",
            goal=None,
            source="van Breugel et al. 2023 (DOMIAS), with nearest-neighbour densities",
            cost="compares 2,000 rows with 100,000",
            reads="values",
            discloses=True,
            needs=("held_out",),
        ),
        "density",
    ),
    MembershipInference(
        Facts(
            "attack_nearest",
            "Chance that the nearest synthetic row is nearer to a real row than to a held-out row: 0.5 is "
            "guessing.",
            goal=None,
            source="Chen et al. 2020 (GAN-leaks), distance to the nearest row",
            cost="compares 2,000 rows with 50,000",
            reads="values",
            discloses=True,
            needs=("held_out",),
        )
    ),
)
"""In the order of their names."""
