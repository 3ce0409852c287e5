"""The attacks among the metrics. **Not private**: an attack is scored by the real rows."""

from __future__ import annotations

from margrave.evaluation.attacks.attribute import AttributeInference
from margrave.evaluation.attacks.linkability import Linkability
from margrave.evaluation.attacks.membership import MembershipInference
from margrave.evaluation.attacks.singling import SinglingOut
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
    Linkability(
        Facts(
            "attack_linkability",
            "Share of what is left to gain that an attacker gains on real rows over held-out ones by linking "
            "two lists of columns through their ten nearest synthetic rows.",
            goal=None,
            source="Giomi et al. 2023 (Anonymeter)",
            cost="compares 1,000 rows with 50,000",
            reads="values",
            discloses=True,
            needs=("held_out",),
        )
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
    SinglingOut(
        Facts(
            "attack_singling_out",
            "Share of what is left to gain that an attacker gains on real rows over held-out ones by asking "
            "for the values that single out a synthetic row in three columns.",
            goal=None,
            source="Giomi et al. 2023 (Anonymeter)",
            cost="asks at most 10,000 predicates of at most 50,000 rows",
            reads="values",
            discloses=True,
            needs=("held_out",),
        )
    ),
    SinglingOut(
        Facts(
            "attack_singling_out_1way",
            "The same for values and extremes that only one synthetic row has in a single column.",
            goal=None,
            source="Giomi et al. 2023 (Anonymeter)",
            cost="asks at most 500 predicates",
            reads="values",
            discloses=True,
            needs=("held_out",),
        ),
        width=1,
    ),
)
"""In the order of their names."""
