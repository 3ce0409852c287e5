"""A generator network fitted to noisy marginals: GEM; see docs/methods/gem.md."""

from margrave.models.network.fitter import Network

__all__ = ["Network"]
