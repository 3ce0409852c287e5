"""A mixture of products fitted to all measured pairs at once; see docs/models.md."""

from __future__ import annotations

from margrave.models.mixture.fitter import Mixture
from margrave.models.mixture.model import MixtureModel

__all__ = ["Mixture", "MixtureModel"]
