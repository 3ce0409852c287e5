"""Reports: HTML pages made of released quantities, and the separate comparison that is not private."""

from __future__ import annotations

from margrave.report.comparison.page import render_comparison
from margrave.report.release.page import render

__all__ = ["render", "render_comparison"]
