"""Exact noise from a source of bits: Gaussian and the exponential mechanism."""

from __future__ import annotations

from margrave.privacy.noise.exponential import exponential
from margrave.privacy.noise.gaussian import discrete_gaussian
from margrave.privacy.noise.rounded import rounded_gaussian
from margrave.privacy.noise.source import BitSource, RepeatableSource, SecureSource

__all__ = [
    "BitSource",
    "RepeatableSource",
    "SecureSource",
    "discrete_gaussian",
    "exponential",
    "rounded_gaussian",
]
