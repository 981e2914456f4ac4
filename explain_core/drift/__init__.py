"""Why a risk changed from one window of a stream, or one population, to another (DBShap)."""

from explain_core.drift.attribution import dbshap
from explain_core.drift.change import Attribution, Cause, RiskChange, WindowRisk

__all__ = ["Attribution", "Cause", "RiskChange", "WindowRisk", "dbshap"]
