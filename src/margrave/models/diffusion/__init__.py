"""Gaussian and multinomial diffusion of rows, trained at the door; see docs/methods/tabddpm.md."""

from __future__ import annotations

from margrave.models.diffusion.fitter import Diffusion

__all__ = ["Diffusion"]
