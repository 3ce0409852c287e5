"""Relaxed rows fitted by gradient descent: RAP, and RAP++ with numbers as points; see docs/methods/rap.md."""

from __future__ import annotations

from margrave.models.relaxed.fitter import Relaxed

__all__ = ["Relaxed"]
