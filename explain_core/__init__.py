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
    from explain_core import losses as losses
    from explain_core import plots as plots
    from explain_core.artefacts.load import load_artefact as load_artefact
    from explain_core.artefacts.load import load_model as load_model
    from explain_core.comparison import Comparison as Comparison
    from explain_core.confidence import ConfidenceSequence as ConfidenceSequence
    from explain_core.dependence import IncrementalPDP as IncrementalPDP
    from explain_core.drift import RiskChange as RiskChange
    from explain_core.drift import dbshap as dbshap
    from explain_core.estimated import LossEstimator as LossEstimator
    from explain_core.explanation import Explanation as Explanation
    from explain_core.explanation import Importance as Importance
    from explain_core.importance.batch.intervals import IntervalPFI as IntervalPFI
    from explain_core.importance.batch.mdi import mean_decrease_impurity as mean_decrease_impurity
    from explain_core.importance.batch.permutation import PermutationImportance as PermutationImportance
    from explain_core.importance.batch.sage import SAGE as SAGE
    from explain_core.importance.batch.sage import SlidingWindowSAGE as SlidingWindowSAGE
    from explain_core.importance.group import EstimatorGroup as EstimatorGroup
    from explain_core.importance.ipfi import IncrementalPFI as IncrementalPFI
    from explain_core.importance.isage import IncrementalSAGE as IncrementalSAGE
    from explain_core.learners.choice import learner_of as learner_of
    from explain_core.learners.implicit import ImplicitRegression as ImplicitRegression
    from explain_core.learners.mixture import Mixture as Mixture
    from explain_core.losses import Loss as Loss
    from explain_core.models import Model as Model
    from explain_core.models import wrap as wrap
    from explain_core.models.empty import Performance as Performance
    from explain_core.reasons import PredictionExplainer as PredictionExplainer
    from explain_core.reasons import Reasons as Reasons
    from explain_core.report import Report as Report
    from explain_core.report import watch as watch
    from explain_core.reservoirs import GeometricReservoir as GeometricReservoir
    from explain_core.reservoirs import UniformReservoir as UniformReservoir
    from explain_core.shift import ExplanationShift as ExplanationShift
    from explain_core.smoothing import alpha_of as alpha_of
    from explain_core.stream import Alarming as Alarming
    from explain_core.stream import Comparing as Comparing
    from explain_core.stream import Explainer as Explainer
    from explain_core.stream import Following as Following
    from explain_core.stream import Options as Options
    from explain_core.stream import Reasoning as Reasoning
    from explain_core.stream import StreamExplainer as StreamExplainer
    from explain_core.stream import Windowing as Windowing
    from explain_core.taught import Taught as Taught
    from explain_core.taught import load_taught as load_taught

_NAMES = {
    "artefacts.load": ["load_artefact", "load_model"],
    "comparison": ["Comparison"],
    "confidence": ["ConfidenceSequence"],
    "dependence": ["IncrementalPDP"],
    "drift": ["RiskChange", "dbshap"],
    "estimated": ["LossEstimator"],
    "explanation": ["Explanation", "Importance"],
    "importance.batch.intervals": ["IntervalPFI"],
    "importance.batch.mdi": ["mean_decrease_impurity"],
    "importance.batch.permutation": ["PermutationImportance"],
    "importance.batch.sage": ["SAGE", "SlidingWindowSAGE"],
    "importance.group": ["EstimatorGroup"],
    "importance.ipfi": ["IncrementalPFI"],
    "importance.isage": ["IncrementalSAGE"],
    "learners.choice": ["learner_of"],
    "learners.implicit": ["ImplicitRegression"],
    "learners.mixture": ["Mixture"],
    "losses": ["Loss"],
    "models": ["Model", "wrap"],
    "models.empty": ["Performance"],
    "reasons": ["PredictionExplainer", "Reasons"],
    "report": ["Report", "watch"],
    "reservoirs": ["GeometricReservoir", "UniformReservoir"],
    "shift": ["ExplanationShift"],
    "smoothing": ["alpha_of"],
    "stream": [
        "Alarming",
        "Comparing",
        "Explainer",
        "Following",
        "Options",
        "Reasoning",
        "StreamExplainer",
        "Windowing",
    ],
    "taught": ["Taught", "load_taught"],
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = sorted(["losses", "plots", *_HOMES])


def __getattr__(name: str) -> Any:
    """Import what is asked for only then: the estimators bring river, and the plots matplotlib."""
    if name in ("losses", "plots"):
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
