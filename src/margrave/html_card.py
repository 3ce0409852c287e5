"""html_card: a title and a few facts as HTML, for notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterable

CELL = "text-align:left;vertical-align:top;padding:.15em .8em .15em 0"
"""Notebooks align the cells of tables to the right; this keeps words readable."""


def html_card(title: str, facts: Iterable[tuple[str, str]]) -> str:
    """A table of two columns under a title, without scripts or anything from a network.

    Args:
        title: What it is about.
        facts: Names and values, as plain text: both are escaped.
    """
    lines = [
        f'<tr><th scope="row" style="{CELL}">{html.escape(name)}</th>'
        f'<td style="{CELL}">{html.escape(value)}</td></tr>'
        for name, value in facts
    ]
    caption = f'<caption style="text-align:left;font-weight:bold">{html.escape(title)}</caption>'
    return f"<table>{caption}<tbody>{''.join(lines)}</tbody></table>"
