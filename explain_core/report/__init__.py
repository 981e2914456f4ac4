"""One line from records to an answer: what drives the model, what changed and when, and why its risk moved."""

from explain_core.report.report import Report, Told
from explain_core.report.watching import watch

__all__ = ["Report", "Told", "watch"]
