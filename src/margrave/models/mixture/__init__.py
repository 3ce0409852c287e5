"""A mixture of products fitted to all measured pairs at once; see docs/models.md."""

from __future__ import annotations

from margrave.models._mixture.model import MixtureModel
from margrave.models.mixture.fitter import Mixture

__all__ = ["Mixture", "MixtureModel"]
