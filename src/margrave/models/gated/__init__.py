"""Gated mixtures: private columns drawn from products whose weights follow from a row's public columns."""

from __future__ import annotations

from margrave.models.gated.fitter import Gated
from margrave.models.gated.model import GatedModel

__all__ = ["Gated", "GatedModel"]
