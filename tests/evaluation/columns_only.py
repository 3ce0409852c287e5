"""Metrics that a shuffled table passes as well as the table itself."""

from __future__ import annotations

COLUMNS_ONLY = {"ks_complement", "tv_complement", "propensity_logistic"}
"""They look at single columns or main effects, of which a shuffled table has all."""
LOST = "is no better than after a shuffle: if it looks at single columns alone, name it in columns_only.py"
"""What tests say of a metric that they find to be such a one."""
