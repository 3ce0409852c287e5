"""Generators trained against discriminators at the door; see docs/methods/pate_gan.md and dpsgd_gan.md."""

from __future__ import annotations

from margrave.models.adversarial.fitters import GradientGan, VotedGan

__all__ = ["GradientGan", "VotedGan"]
