"""Why a risk changed from one window of a stream, or one population, to another (DBShap)."""

from typing import TYPE_CHECKING, Any

from explain_core.drift.change import (
    Attribution,
    Cause,
    Difference,
    RiskChange,
    Separation,
    Where,
    WindowRisk,
)

if TYPE_CHECKING:
    from explain_core.drift.attribution import dbshap

__all__ = ["Attribution", "Cause", "Difference", "RiskChange", "Separation", "Where", "WindowRisk", "dbshap"]


def __getattr__(name: str) -> Any:
    """The computation is imported at its first use: reading results needs no compiler."""
    if name == "dbshap":
        from explain_core.drift.attribution import dbshap

        return dbshap
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
