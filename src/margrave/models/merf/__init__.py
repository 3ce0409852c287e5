"""A generator network fitted to a noisy mean embedding: DP-MERF; see docs/methods/dp_merf.md."""

from margrave.models.merf.fitter import Merf

__all__ = ["Merf"]
