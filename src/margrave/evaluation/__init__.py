"""Real against synthetic. Not private: it reads both tables exactly."""

from __future__ import annotations

from margrave.evaluation.comparison import NOT_PRIVATE, Comparison, compare
from margrave.evaluation.learners import score_classifier
from margrave.evaluation.metrics.registry import METRICS
from margrave.evaluation.review import score_metrics, score_references
from margrave.evaluation.rows import Rows, references, split
from margrave.evaluation.score import Facts, Score, Summary, summarise
from margrave.evaluation.task import Metric, Task

__all__ = [
    "METRICS",
    "NOT_PRIVATE",
    "Comparison",
    "Facts",
    "Metric",
    "Rows",
    "Score",
    "Summary",
    "Task",
    "compare",
    "references",
    "score_classifier",
    "score_metrics",
    "score_references",
    "split",
    "summarise",
]
