"""The metrics of what synthetic rows may give away: matches, and attacks. All are **not private**.

Sources: SDNist 2.5 for the matches; Chen et al. 2020 (GAN-leaks), van Breugel et al. 2023 (DOMIAS) and Giomi
et al. 2023 (Anonymeter) for the attacks.
"""

from __future__ import annotations

from margrave.evaluation.attacks import AttributeInference, Linkability, MembershipInference, SinglingOut
from margrave.evaluation.metrics.rows import ApparentMatch, UniqueExactMatch
from margrave.evaluation.score import Facts
from margrave.evaluation.task import Metric

DISCLOSURE: tuple[Metric, ...] = (
    ApparentMatch(
        Facts(
            "apparent_match",
            "Share of real rows that are unique in the columns an outsider may know, and of which just one "
            "synthetic row has the same values there.",
            title="Apparent matches by known columns",
            group="What the rows may give away",
            goal=None,
            source="SDNist 2.5, apparent match distribution",
            cost="sorts the rows once a column",
            reads="rows",
            discloses=True,
        )
    ),
    AttributeInference(
        Facts(
            "attack_attribute",
            "Share of right guesses of one column by the nearest synthetic row in all others, for real rows "
            "minus for held-out rows.",
            title="Attack: guess a column",
            group="What the rows may give away",
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
            title="Attack: membership by density",
            group="What the rows may give away",
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
            title="Attack: link two lists",
            group="What the rows may give away",
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
            title="Attack: membership by nearest row",
            group="What the rows may give away",
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
            title="Attack: single out by three columns",
            group="What the rows may give away",
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
            "Share of what is left to gain that an attacker gains on real rows over held-out ones by asking "
            "for values and extremes that only one synthetic row has in a single column.",
            title="Attack: single out by one column",
            group="What the rows may give away",
            goal=None,
            source="Giomi et al. 2023 (Anonymeter)",
            cost="asks at most 500 predicates",
            reads="values",
            discloses=True,
            needs=("held_out",),
            single_columns=True,
        ),
        width=1,
    ),
    UniqueExactMatch(
        Facts(
            "unique_exact_match",
            "Share of the real rows unlike any other that are among the synthetic rows, code by code.",
            title="One-of-a-kind rows that reappear",
            group="What the rows may give away",
            goal=None,
            source="SDNist 2.5, unique exact matches",
            cost="sorts the rows once a column",
            reads="rows",
            discloses=True,
        )
    ),
)
"""In the order of their names."""
