"""Incremental explanations of online models: iPFI, iSAGE, permutation importance, SAGE and DBShap.

Numbers in, numbers out: nothing in this package touches a network, a file or a clock, but for ``load_model`` and ``load_taught``, which read one file.

>>> import explain_core as ec
>>> pfi = ec.IncrementalPFI(lambda x: 2.0 * x["a"], task="regression", size=10)
>>> for i in range(100):
...     _ = pfi.explain_one({"a": i % 7, "b": 1.0}, 2.0 * (i % 7))
>>> pfi.explanation.top(1)[0][0]
'a'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from explain_core import losses, plots
    from explain_core.artefacts.load import load_artefact, load_model
    from explain_core.comparison import Comparison
    from explain_core.confidence import ConfidenceSequence
    from explain_core.dependence import IncrementalPDP
    from explain_core.drift import RiskChange, dbshap
    from explain_core.estimated import LossEstimator
    from explain_core.explanation import Explanation, Importance
    from explain_core.importance.batch.intervals import IntervalPFI
    from explain_core.importance.batch.mdi import mean_decrease_impurity
    from explain_core.importance.batch.permutation import PermutationImportance
    from explain_core.importance.batch.sage import SAGE, SlidingWindowSAGE
    from explain_core.importance.group import EstimatorGroup
    from explain_core.importance.ipfi import IncrementalPFI
    from explain_core.importance.isage import IncrementalSAGE
    from explain_core.learners.choice import learner_of
    from explain_core.learners.implicit import ImplicitRegression
    from explain_core.learners.mixture import Mixture
    from explain_core.losses import Loss
    from explain_core.models import Model, wrap
    from explain_core.models.empty import Performance
    from explain_core.reasons import PredictionExplainer, Reasons
    from explain_core.report import Report, watch
    from explain_core.reservoirs import GeometricReservoir, UniformReservoir
    from explain_core.shift import ExplanationShift
    from explain_core.smoothing import alpha_of
    from explain_core.stream import (
        Alarming,
        Comparing,
        Explainer,
        Following,
        Options,
        Reasoning,
        StreamExplainer,
        Windowing,
    )
    from explain_core.taught import Taught, load_taught

_HOMES = {
    "Windowing": "stream",
    "StreamExplainer": "stream",
    "Options": "stream",
    "Reasoning": "stream",
    "Explainer": "stream",
    "Following": "stream",
    "Comparing": "stream",
    "Alarming": "stream",
    "Comparison": "comparison",
    "ConfidenceSequence": "confidence",
    "Explanation": "explanation",
    "ExplanationShift": "shift",
    "GeometricReservoir": "reservoirs",
    "Importance": "explanation",
    "IncrementalPDP": "dependence",
    "IncrementalPFI": "importance.ipfi",
    "IncrementalSAGE": "importance.isage",
    "IntervalPFI": "importance.batch.intervals",
    "ImplicitRegression": "learners.implicit",
    "Loss": "losses",
    "LossEstimator": "estimated",
    "Mixture": "learners.mixture",
    "Model": "models",
    "Performance": "models.empty",
    "PermutationImportance": "importance.batch.permutation",
    "Report": "report",
    "PredictionExplainer": "reasons",
    "Reasons": "reasons",
    "RiskChange": "drift",
    "SAGE": "importance.batch.sage",
    "SlidingWindowSAGE": "importance.batch.sage",
    "EstimatorGroup": "importance.group",
    "Taught": "taught",
    "UniformReservoir": "reservoirs",
    "alpha_of": "smoothing",
    "dbshap": "drift",
    "learner_of": "learners.choice",
    "load_artefact": "artefacts.load",
    "load_model": "artefacts.load",
    "load_taught": "taught",
    "mean_decrease_impurity": "importance.batch.mdi",
    "watch": "report",
    "wrap": "models",
}

__all__ = [
    "SAGE",
    "Alarming",
    "Comparing",
    "Comparison",
    "ConfidenceSequence",
    "EstimatorGroup",
    "Explainer",
    "Explanation",
    "ExplanationShift",
    "Following",
    "GeometricReservoir",
    "ImplicitRegression",
    "Importance",
    "IncrementalPDP",
    "IncrementalPFI",
    "IncrementalSAGE",
    "IntervalPFI",
    "Loss",
    "LossEstimator",
    "Mixture",
    "Model",
    "Options",
    "Performance",
    "PermutationImportance",
    "PredictionExplainer",
    "Reasoning",
    "Reasons",
    "Report",
    "RiskChange",
    "SlidingWindowSAGE",
    "StreamExplainer",
    "Taught",
    "UniformReservoir",
    "Windowing",
    "alpha_of",
    "dbshap",
    "learner_of",
    "load_artefact",
    "load_model",
    "load_taught",
    "losses",
    "mean_decrease_impurity",
    "plots",
    "watch",
    "wrap",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for only then: the estimators bring river, and the plots matplotlib."""
    if name in ("losses", "plots"):
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
