"""Every metric of the package stands under a heading of its own kind on the page of a comparison."""

from __future__ import annotations

from margrave.evaluation.metrics.registry import METRICS
from margrave.report.comparison.page import group_names


def test_no_metric_of_the_package_is_left_for_the_last_heading() -> None:
    lost = dict(group_names(METRICS)).get("More", [])
    assert not lost, f"give {lost} a heading in GROUPS of src/margrave/report/comparison/page.py"
