"""Privacy attacks on synthetic rows. **Not private**: they need the real rows to say who was right.

An attack that succeeds shows a leak. One that fails shows that this attack failed, on these rows: it bounds
nothing, and is no substitute for a guarantee.
"""

from __future__ import annotations

from margrave.evaluation.attacks.risk import AttributeInference, Linkability, MembershipInference
from margrave.evaluation.attacks.singling_out import SinglingOut

__all__ = ["AttributeInference", "Linkability", "MembershipInference", "SinglingOut"]
