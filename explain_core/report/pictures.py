"""A report in pictures, with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from explain_core import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from explain_core.report.report import Report

MOST = 8
"""Features with a line of their own."""


def drawn(report: Report, every: str | int | None = None) -> Figure:
    """Bars of the importances now; below, over the periods, the loss beside that of no model, and the importances; changes are dashed lines.

    Raises ``ImportError`` where matplotlib is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plot needs matplotlib: pip install 'explain-core[watch]'") from None
    from explain_client.fields import utc
    from explain_client.words import estimator_name, loss_name

    explained = report.explainer.newest.explained
    estimator = next(iter(explained.explainers))
    importances = explained.explanations[estimator]
    loss, known = importances.losses[0], [one.name for one in explained.performance.losses]
    picture = Figure(figsize=(9, 8), layout="constrained")
    top, middle, bottom = picture.subplots(3, 1, height_ratios=[1.2, 1, 1.2])
    if importances.features:
        plots.bars(importances, top=MOST, ax=top)
        if loss in known:
            top.set_xlabel(loss_name(loss))
    how = "a mean in which the newest records weigh most"
    if explained.worth.since is not None:
        how = "it says nothing while the model is worse than no model"
    top.set_title(
        f"importance now: {how} ({estimator_name(estimator)}, with its band)",
        loc="left",
        fontsize=9,
    )
    periods = report.periods(every)

    def at(offset: int, timestamp: int) -> Any:
        return utc(timestamp) if report.dated else offset

    places = [at((p.first_offset + p.last_offset) // 2, (p.begin + p.until) // 2) for p in periods]
    judged = loss if loss in known else known[0]  # importances of the predictions are of no loss
    gains = [p.performance[judged]["gain"] for p in periods]
    losses = [p.performance[judged]["loss"] for p in periods]
    middle.plot(places, [mean.value for mean in losses], "o-", ms=3, label="model")
    without = [(a.value or 0.0) + (b.value or 0.0) for a, b in zip(losses, gains, strict=True)]
    middle.plot(places, without, "o-", ms=3, color="0.6", label="no model")
    middle.set_title(loss_name(judged), loc="left", fontsize=9)
    ranked = [name for name, _ in importances.top(MOST)]
    for number, name in enumerate(ranked):
        means = [p.importances.get(estimator, {}).get(loss, {}).get(name) for p in periods]
        where = [place for place, mean in zip(places, means, strict=True) if mean is not None]
        values = [mean.value for mean in means if mean is not None]
        bottom.plot(where, values, "o-", ms=3, color=f"C{number}", label=name)
    bottom.set_title("importance over time", loc="left", fontsize=9)
    bottom.axhline(0.0, color="black", linewidth=0.8)
    for axes in (middle, bottom):
        for story in report.changes():
            axes.axvline(
                at(story.lead.onset.offset, story.lead.onset.timestamp), color="tab:red", ls="--", lw=1
            )
        axes.legend(
            loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, frameon=False, fontsize=8
        )
        axes.tick_params(labelsize=8)
        axes.set_xlabel("" if report.dated else "record", fontsize=8)
    return picture
