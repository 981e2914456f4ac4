"""Reasons of single predictions: Shapley values of a prediction against a background."""

from explain_core.reasons.explainer import PredictionExplainer
from explain_core.reasons.result import Method, Reason, Reasons, Space

__all__ = ["Method", "PredictionExplainer", "Reason", "Reasons", "Space"]
