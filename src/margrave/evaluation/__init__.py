"""Real against synthetic. Not private: it reads both tables exactly."""

from __future__ import annotations

from margrave.evaluation.classifier import score_classifier
from margrave.evaluation.compare import compare
from margrave.evaluation.comparison import NOT_PRIVATE, Comparison, Score

__all__ = ["NOT_PRIVATE", "Comparison", "Score", "compare", "score_classifier"]
