"""Audits: many runs of a method try to break its claim, and bound its epsilon from below."""

from __future__ import annotations

from margrave.auditing.bounds import Audit, Claim
from margrave.auditing.canary import OneRunAudit, audit, audit_in_one_run
from margrave.auditing.shadow import ShadowAttack, shadow_attack
from margrave.auditing.world import World, generated, worlds_of

__all__ = [
    "Audit",
    "Claim",
    "OneRunAudit",
    "ShadowAttack",
    "World",
    "audit",
    "audit_in_one_run",
    "generated",
    "shadow_attack",
    "worlds_of",
]
