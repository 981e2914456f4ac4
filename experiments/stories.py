"""``python -m experiments.stories --data DIR``: whether a change is told as one story, with its cause and its feature, by the sidecar's fold.

A gradient boosting that learnt from a random part of the rows of a real set is read from its file and judges a stream of 9,000 others (bike, california: whether the number is above its median). From record 6,000 on the
stream is altered in one feature, the one whose alteration costs the model most, of those of whose values none has more than half of the rows:

- *concept*: the other class, with a chance of 60 %, where the feature is above its median;
- *drawn*: rows are drawn nine times as often from the quarter of the feature's values in which the model errs most;
- *offset*: 1.5 standard deviations more, of a number with more than ten values; *missing* in 60 % of the records;
- *none*: nothing is altered.

With ``drift.on_alarm`` the first alarm asks why. *Noticed*: an alarm came from then on; where an alteration hardly changes the loss or an importance, none does. *One story*: all these alarms are of one story, which is not said to be over.
*Cause*: that of the change and no other; for an offset, a fault or both. *Feature*: that one is named as what changed, or in a new concept as where it did. *Else*: another cause or feature is named, or a second story is told; without a change any story.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import orjson
import pandas as pd
import skops.io
from rich.console import Console
from rich.table import Table as Report
from sklearn.ensemble import HistGradientBoostingClassifier

from experiments.data import Table, load
from experiments.drift_features import twins
from experiments.drift_naming import Matrix, rank, rows
from experiments.options import data_option, quick_option
from explain_client import Alarm, Drift, Explanation, Stories, Story
from explain_core.progress import track
from explain_sidecar.fold.partition import PartitionState
from explain_sidecar.fold.records import InputRecord
from explain_sidecar.settings import Settings

SETS = ("elec2", "adult", "bank", "bike", "california", "airlines")
BEFORE, AFTER, LEARNT = 6_000, 3_000, 5_000
CAUSES = {
    "concept": ("concept",),
    "drawn": ("inputs",),
    "offset": ("concept", "inputs"),
    "missing": ("inputs",),
}
KINDS = (*CAUSES, "none")


class Stream(NamedTuple):
    """The records, the model that judges them, and the feature that was altered, with those that are one to one with it."""

    records: list[dict[str, Any]]
    model: HistGradientBoostingClassifier
    features: set[str]


def settings(file: Path) -> Settings:
    return Settings(
        app_id="stories",
        model={"uri": str(file), "task": "binary"},
        explainers=[{"kind": "ipfi", "alpha": 0.01}],
        alarms={"enabled": True, "one_in": 100_000},
        drift={"enabled": True, "on_alarm": True},
        emit={"every": 1_000, "periods": [1_000]},
    )


def stream(name: str, kind: str, seed: int, directory: Path) -> Stream:
    """The stream of a data set with a change of this kind."""
    rng = np.random.Generator(np.random.PCG64(seed))
    table = load(name, directory)
    if table.regression:
        table = Table(name, table.X, (table.y > np.median(table.y)).astype(int), table.features)
    table = table.take(rng.permutation(len(table.y)))
    learnt, rest = table.take(np.arange(LEARNT)), table.take(np.arange(LEARNT, len(table.y)))
    model = HistGradientBoostingClassifier(max_iter=50, random_state=0)
    model.fit(pd.DataFrame(learnt.X, columns=learnt.features), learnt.y)
    some, before, others = (
        rest.take(np.arange(*ends)) for ends in ((0, 2_000), (0, BEFORE), (BEFORE, len(rest.y)))
    )
    counts = [np.unique(column, return_counts=True)[1] for column in some.X.T]
    varied = [
        j for j, of in enumerate(counts) if of.max() <= len(some.y) / 2 and (kind != "offset" or len(of) > 10)
    ]
    j = max(varied, key=lambda j: losses(model, altered(kind, some, j, model, rng)).mean())
    since = altered(kind, others, j, model, rng)
    since = since.take(np.arange(min(AFTER, len(since.y))))
    records = [
        {**x, "label": int(y)} for part in (before, since) for x, y in rows(part.X, part.y, part.features)
    ]
    return Stream(records, model, {rest.features[k] for k in twins(rest.X, j)})


def altered(
    kind: str, table: Table, j: int, model: HistGradientBoostingClassifier, rng: np.random.Generator
) -> Table:
    """The table, altered in the feature j."""
    X, y = table.X.copy(), table.y.copy()
    if kind == "concept":
        hit = (X[:, j] > np.median(X[:, j])) & (rng.random(len(y)) < 0.6)
        y[hit] = 1 - y[hit]
    elif kind == "offset":
        X[:, j] += 1.5 * X[:, j].std()
    elif kind == "missing":
        X[rng.random(len(y)) < 0.6, j] = np.nan
    elif kind == "drawn":
        quarter = np.minimum(4.0 * rank(X[:, j]), 3.0).astype(int)
        sums = np.bincount(quarter, losses(model, table), minlength=4)
        worst = np.argmax(sums / np.maximum(np.bincount(quarter, minlength=4), 100.0))
        kept = rng.random(len(y)) < np.where(quarter == worst, 1.0, 1.0 / 9.0)
        X, y = X[kept], y[kept]
    return Table(table.name, X, y, table.features)


def losses(model: HistGradientBoostingClassifier, table: Table) -> Matrix:
    """The cross-entropy of each row."""
    chances = model.predict_proba(pd.DataFrame(table.X, columns=table.features))
    return np.asarray(-np.log(chances[np.arange(len(table.y)), table.y]))


def told(model: HistGradientBoostingClassifier, records: list[dict[str, Any]]) -> list[Story]:
    """The stories of a stream."""
    with tempfile.TemporaryDirectory() as folder:
        skops.io.dump(model, file := Path(folder) / "model.skops")
        state, stories = PartitionState(settings(file), 0), Stories()
    kinds: dict[str, Any] = {"alarms": Alarm, "drift": Drift, "explanations": Explanation}
    for offset, record in enumerate(records):
        for output in state.step(InputRecord(offset, 60_000 * offset, None, orjson.dumps(record), ())):
            if output.destination in kinds:
                stories.add(kinds[output.destination].from_json(output.value or b""))
    return list(stories)


def judged(kind: str, features: set[str], stories: list[Story]) -> dict[str, bool]:
    """What is right about the stories of a change."""
    if kind == "none":
        return {"else": bool(stories)}
    since = [story for story in stories if story.lead.offset >= BEFORE]
    story = min(since, key=lambda story: story.lead.subject != "loss", default=None)
    why = story.why if story else None
    causes = set(why.causes) if why else set()
    named = [] if why is None else [why.feature, *(why.place or ())[:1]]
    told = {name for name in named if name is not None}
    right = {
        "one story": story is not None and story.over is None and len(since) == 1,
        "cause": why is not None and (causes == set(CAUSES[kind]) or (kind == "offset" and why.fault)),
        "feature": bool(told) and told <= features,
    }
    return {
        "noticed": story is not None,
        **right,
        "all three": all(right.values()),
        "else": not told <= features or not causes <= set(CAUSES[kind]) or len(stories) > 1,
    }


@click.command(help=__doc__)
@data_option
@click.option("--seeds", default=4, show_default=True, help="Streams of each set and change.")
@click.option("--first-seed", default=0, show_default=True, help="Of the streams: others are other rows.")
@click.option("--set", "sets", multiple=True, type=click.Choice(SETS), help="These data sets alone.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="These changes alone.")
@click.option("--show", is_flag=True, help="Print the sentences too.")
@quick_option
def main(
    data: Path,
    seeds: int,
    first_seed: int,
    sets: tuple[str, ...],
    kinds: tuple[str, ...],
    show: bool,
    quick: bool,
) -> None:
    sets, seeds = (SETS[:1], 1) if quick else (sets or SETS, seeds)
    columns = ("noticed", "one story", "cause", "feature", "all three", "else")
    report = Report("change", "streams", *columns, box=None)
    for kind in kinds or KINDS:
        cases = [(name, first_seed + seed) for name in sets for seed in range(seeds)]
        counts: Counter[str] = Counter()
        for name, seed in track(cases, kind, len(cases), not quick):
            records, model, features = stream(name, kind, seed, data)
            stories = told(model, records)
            verdict = judged(kind, features, stories)
            counts.update(key for key, right in verdict.items() if right)
            if show:
                print(
                    f"{kind}, {name} {seed}, {', '.join(sorted(features))}: {', '.join(key for key, right in verdict.items() if right)}",
                    flush=True,
                )
                for story in stories:
                    print(f"  {story.sentence()}", flush=True)
        shown = ("–" if kind == "none" and column != "else" else str(counts[column]) for column in columns)
        report.add_row(kind, str(len(cases)), *shown)
    Console().print(report)


if __name__ == "__main__":
    main()
