"""A report as HTML that needs nothing from elsewhere: no script, no style sheet, no picture of another address."""

from __future__ import annotations

import io
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from explain_core.report.report import Report

_STYLE = "max-width: 60em; font-family: system-ui, sans-serif; line-height: 1.45"


def paragraphs(sentences: Iterable[str]) -> str:
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def fragment(report: Report) -> str:
    """As a notebook shows it."""
    said = "".join(
        f"<h4>{escape(heading)}</h4><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
        for heading, lines in report.sections
    )
    return f'<div style="{_STYLE}"><p>{escape(report.summary)}</p>{said}{_picture(report)}</div>'


def page(report: Report) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>What drives the model</title></head>'
        f"<body>{fragment(report)}</body></html>\n"
    )


def _picture(report: Report) -> str:
    """The report's plot as SVG, the same bytes each time."""
    if not report.periods():
        return ""
    try:
        import matplotlib
    except ImportError:
        return "<p>With matplotlib there are pictures here: <code>pip install matplotlib</code>.</p>"
    written = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": report.digest, "svg.fonttype": "path"}):
        report.plot().savefig(written, format="svg", metadata={"Date": None})
    text = written.getvalue()
    return text[text.index("<svg") :]
