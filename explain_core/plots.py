"""Plots of explanations, one function each, with matplotlib (extra ``plots``). Each returns the axes it drew on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from explain_core import losses
from explain_core.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from explain_core.drift.change import RiskChange

ROW = 0.24
"""Height of one feature in inches: labels of 8 points do not touch."""


def bars(
    explanation: Explanation, loss: str | None = None, *, top: int | None = None, ax: Axes | None = None
) -> Axes:
    """Horizontal bars of the importance under a loss (by default the first) with its band, the largest on top.

    ``top`` keeps that many features. A feature without a value has no bar. Raises ``ValueError`` for an unknown loss.

    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> explanation = Explanation("ipfi", ("a", "b"), ("brier",), np.array([[0.1, 0.5]]), np.array([[0.05, 0.05]]), n=100)
    >>> [label.get_text() for label in bars(explanation).get_yticklabels()]
    ['b', 'a']
    """
    known = explanation.top(top or len(explanation.features), loss)
    values = np.array([importance.value for _, importance in known])
    reach = np.array(
        [[importance.value - importance.low, importance.high - importance.value] for _, importance in known]
    ).T
    axes = _axes(ax, len(known))
    where = np.arange(len(known))
    axes.barh(where, values, color="tab:blue", height=0.7)
    shown = np.isfinite(reach).all(axis=0)
    if shown.any():
        axes.errorbar(
            values[shown], where[shown], xerr=reach[:, shown], fmt="none", ecolor="black", capsize=2, lw=1
        )
    _feature_axis(axes, [name for name, _ in known])
    reference = 1.0 if explanation.metadata.get("kind") == "ratio" else 0.0
    axes.axvline(reference, color="black", linewidth=0.8)
    axes.set_xlabel(_label(explanation, loss))
    return axes


def over_time(
    explanations: Sequence[Explanation],
    at: Sequence[Any] | None = None,
    loss: str | None = None,
    *,
    top: int = 8,
    ax: Axes | None = None,
) -> Axes:
    """Importance of each feature over a sequence of explanations with its band.

    ``at`` are the places on the horizontal axis (by default the records explained). The ``top`` features by their
    largest absolute value have a colour, a band and an entry in the legend; the others are thin grey lines. Raises
    ``ValueError`` where there is nothing to plot or the lengths differ.

    >>> values = [np.array([[0.1 * t, 0.5]]) for t in range(3)]
    >>> series = [Explanation("ipfi", ("a", "b"), ("brier",), value, value / 9, n=10 * t) for t, value in enumerate(values)]
    >>> over_time(series).get_xlabel()
    'records explained'
    """
    if not explanations:
        raise ValueError("explanations: there are none to plot")
    where = [explanation.n for explanation in explanations] if at is None else list(at)
    if len(where) != len(explanations):
        raise ValueError(f"at: {len(where)} places for {len(explanations)} explanations")
    tables = [explanation.importance(loss) for explanation in explanations]
    names = list(dict.fromkeys(name for table in tables for name in table))
    nothing = (np.nan,) * 4
    curves = {name: np.array([table.get(name, nothing)[:4] for table in tables]).T for name in names}
    size = {name: np.nanmax(np.abs(curve[0]), initial=0.0) for name, curve in curves.items()}
    ranked = sorted(names, key=lambda name: -size[name])
    axes = _axes(ax, 0)
    for name in ranked[top:]:
        axes.plot(where, curves[name][0], color="0.75", linewidth=0.7, zorder=1)
    for position, name in enumerate(ranked[:top]):
        value, _, low, high = curves[name]
        colour, style = f"C{position % 10}", ("-", "--", ":")[position // 10 % 3]
        axes.plot(where, value, style, color=colour, label=name, zorder=3)
        axes.fill_between(where, low, high, color=colour, alpha=0.2, linewidth=0, zorder=2)
    if ranked[top:]:
        axes.plot([], [], color="0.75", linewidth=0.7, label=f"{len(ranked) - top} others")
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set_xlabel("records explained" if at is None else "")
    axes.set_ylabel(_label(explanations[-1], loss))
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, frameon=False, fontsize=8)
    return axes


def drift(
    before: Explanation,
    after: Explanation,
    loss: str | None = None,
    *,
    top: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """What changed between two explanations: a line per feature from one value to the other, with both bands.

    The largest change is on top; ``top`` keeps that many features. A feature that one of them lacks has no line.

    >>> before, after = (
    ...     Explanation("ipfi", ("a", "b"), ("brier",), np.array([v]), np.full((1, 2), 0.05), n=100)
    ...     for v in ([0.1, 0.5], [0.4, 0.5])
    ... )
    >>> [label.get_text() for label in drift(before, after).get_yticklabels()]
    ['a', 'b']
    """
    first, second = before.importance(loss), after.importance(loss)
    names = list(dict.fromkeys([*first, *second]))
    nothing = (np.nan,) * 5
    cells = {name: (first.get(name, nothing), second.get(name, nothing)) for name in names}

    def change(name: str) -> float:
        moved = abs(cells[name][1][0] - cells[name][0][0])
        return moved if moved == moved else -1.0

    names = sorted(names, key=change, reverse=True)[: top or len(names)]
    axes = _axes(ax, len(names))
    for k, (colour, label) in enumerate((("tab:gray", "before"), ("tab:red", "after"))):
        for row, name in enumerate(names):
            value, _, low, high, _ = cells[name][k]
            axes.plot([low, high], [row, row], color=colour, alpha=0.35, linewidth=4, solid_capstyle="butt")
            axes.plot(
                value, row, "o", color=colour, markersize=4, label=label if row == 0 else None, zorder=3
            )
    for row, name in enumerate(names):
        axes.plot([cells[name][0][0], cells[name][1][0]], [row, row], color="black", linewidth=0.8)
    _feature_axis(axes, names)
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_xlabel(_label(after, loss))
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False, fontsize=8)
    return axes


def waterfall(change: RiskChange, *, top: int = 8, ax: Axes | None = None) -> Axes:
    """From the risk of the baseline window down to that of the target: a step for each cause, with its interval.

    The steps are those of ``change.steps(top)``; of a change that is not attributable the two risks alone are drawn.

    >>> import matplotlib; matplotlib.use("Agg")
    >>> from explain_core.drift import dbshap
    >>> before = [({"a": a, "b": b}, a & b) for a in (0, 1) for b in (0, 1)] * 50
    >>> change = dbshap(before, [(x, x["a"] | x["b"]) for x, _ in before])
    >>> [text.get_text() for text in waterfall(change).get_yticklabels()][:2]
    ['baseline risk', 'concept']
    """
    steps = change.steps(top)
    names = ["baseline risk", *(step.name for step in steps), "target risk"]
    values = np.array([step.value for step in steps])
    ends = change.baseline.observed + np.cumsum(values)
    axes = _axes(ax, len(names))
    where = np.arange(1, len(steps) + 1)
    colours = np.where(values > 0.0, "tab:red", "tab:green").tolist()
    axes.barh(where, values, left=ends - values, color=colours, height=0.7)
    axes.barh(
        [0, len(steps) + 1], [change.baseline.observed, change.target.observed], color="tab:gray", height=0.7
    )
    for row, end, step in zip(where, ends, steps, strict=True):
        if step.low is not None and step.high is not None:
            reach = [[step.value - step.low], [step.high - step.value]]
            axes.errorbar(end, row, xerr=reach, fmt="none", ecolor="black", capsize=2, lw=1)
    _feature_axis(axes, names)
    axes.set_xlabel(losses.called(change.loss))
    if not steps:
        axes.set_title(change.verdict, fontsize=8)
    return axes


def _axes(ax: Axes | None, rows: int) -> Axes:
    """The axes given, or new ones that are high enough for that many features."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(7.0, max(2.5, 0.9 + ROW * rows) if rows else 4.0), layout="constrained")[1]


def _feature_axis(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(
        range(len(names)), [name if len(name) <= 32 else f"{name[:31]}…" for name in names], fontsize=8
    )
    axes.set_ylim(len(names) - 0.5, -0.5)


def _label(explanation: Explanation, loss: str | None) -> str:
    kind = explanation.metadata.get("kind")
    measure = explanation.losses[0] if loss is None else loss
    return f"{explanation.estimator}, {measure}" + (f" ({kind})" if kind else "")
