"""Particles moved to noisy marginals by sliced optimal transport: PrivPGD; see docs/methods/privpgd.md."""

from __future__ import annotations

from margrave.models.particles.transport import HalfSpace, ThresholdProtection

__all__ = ["HalfSpace", "ThresholdProtection"]
