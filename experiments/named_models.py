"""What are the models that ``model.name`` knows worth, and what do they cost?

*Sets*: whole real streams, in their order: mean log loss, or root of the mean squared error. No model is the frequencies of the labels, or their mean. A member's loss
is that of the same member in the mixture, which has the bits that it has alone; in a regression it is that behind the range of the target. *Above best*: the mixture's loss against
that of the best member, no model included; *above none*: against that of no model.

*Drift*: the same over the records from the 500th on after each change (or of each 5,000 records): the worst and the mean of these stretches. *Hostile*: a regression
whose target is another one from record 3,000 to 4,000: the error of the 1,000 records from the 5,000th on, of a mixture that knows nothing of it (*undisturbed*), and of one that begins with record 4,000 (*anew*). *Cost*: microseconds
of the thread: to predict and learn a record, and to fold it as the sidecar does with iPFI and iSAGE by default, by turns in one process.
"""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from experiments.data import FILES
from experiments.options import data_or_none, quick_option
from explain_client.fold import FoldDriver
from explain_core.learners.choice import learner_of
from explain_core.learners.mixture import MixtureLearner
from explain_core.learners.named import Name, Task, named_model
from explain_core.losses import get

Record = tuple[dict[str, Any], Any]
FIRST = 500
STRETCH = 5_000
NAMES: tuple[Name, ...] = ("linear", "tree", "forest", "mixture")


class Stream(NamedTuple):
    """Records in their order."""

    task: Task
    records: list[Record]


def table(name: str, data: Path) -> Stream:
    """A set of ``experiments.data`` as it comes: strings as strings, empty cells left out."""
    file, target = FILES[name]
    frame = pd.read_csv(data / file)
    if "dteday" in frame:
        frame = frame.drop(columns="dteday")
    y = frame.pop(target).tolist()
    rows = ({k: v for k, v in row.items() if v == v} for row in frame.to_dict("records"))
    task: Task = {"bike": "regression", "california": "regression", "covtype": "multiclass"}.get(
        name, "binary"
    )  # type: ignore[assignment]
    return Stream(task, list(zip(rows, y, strict=True)))


def of_river(name: str) -> Stream:
    from river import datasets

    records = list(getattr(datasets, name)())
    if name == "SolarFlare":
        records = [(x, y["c-class-flares"]) for x, y in records]
    if name == "WaterFlow":
        records = [({"hour": x["Time"].hour, "day": x["Time"].strftime("%a")}, y) for x, y in records]
    if name == "AirlinePassengers":
        records = [({"year": x["month"].year, "month": x["month"].strftime("%b")}, y) for x, y in records]
    tasks: dict[str, Task] = {"Bananas": "binary", "Phishing": "binary", "Shuttle": "binary", "ImageSegments": "multiclass"}  # fmt: skip
    return Stream(tasks.get(name, "regression"), records)


def of_sklearn(name: str) -> Stream:
    """In a random order: the files are sorted by class."""
    from sklearn import datasets

    found = getattr(datasets, f"load_{name}")()
    order = np.random.Generator(np.random.PCG64(1)).permutation(len(found.target))
    rows = (dict(zip(map(str, found.feature_names), row, strict=True)) for row in found.data[order].tolist())
    tasks: dict[str, Task] = {"breast_cancer": "binary", "diabetes": "regression"}
    return Stream(tasks.get(name, "multiclass"), list(zip(rows, found.target[order].tolist(), strict=True)))


def of_flights(airport: str) -> Stream:
    from explain_sidecar.demo.flights import flights

    own = [{**record} for record in flights(5) if record["origin"] == airport]
    return Stream("binary", [({k: v for k, v in x.items() if k not in ("origin", "scheduled", "late")}, x["late"]) for x in own])  # fmt: skip


def sets(data: Path | None, quick: bool) -> Iterator[tuple[str, Callable[[], Stream]]]:
    if quick:
        yield "Phishing", lambda: of_river("Phishing")
        yield "TrumpApproval", lambda: of_river("TrumpApproval")
        return
    for name in FILES if data else ():
        yield name, lambda name=name: table(name, data)  # type: ignore[misc,arg-type]
    yield "flights, JFK", lambda: of_flights("JFK")
    for name in ("Bananas", "Phishing", "Shuttle", "ImageSegments", "TrumpApproval", "ChickWeights", "SolarFlare", "WaterFlow"):  # fmt: skip
        yield name, lambda name=name: of_river(name)  # type: ignore[misc]
    for name in ("breast_cancer", "digits", "diabetes"):
        yield name, lambda name=name: of_sklearn(name)  # type: ignore[misc]


def labelled(stream: Stream) -> list[Record]:
    """The records as the sidecar passes them on: of two classes the second one is true."""
    if stream.task != "binary":
        return stream.records
    second = max(y for _, y in stream.records)
    return [(x, y == second) for x, y in stream.records]


def followed(stream: Stream, seed: int = 1) -> tuple[list[str], np.ndarray[Any, Any]]:
    """The losses of the mixture, of no model and of each member, models × records."""
    kind = "regression" if stream.task == "regression" else "classification"
    learner = learner_of(named_model("mixture", stream.task, seed), kind)  # type: ignore[arg-type]
    assert isinstance(learner, MixtureLearner)
    loss = get("squared" if kind == "regression" else "cross_entropy")
    found = []
    for x, y in labelled(stream):
        mixed = learner.predict(x)
        parts = learner.arrays["parts"].tolist()
        own = [part[0] if kind == "regression" else dict(zip(learner.labels, part, strict=True)) for part in parts]  # fmt: skip
        found.append([loss(y, prediction) for prediction in (mixed, *own)])
        learner.learn(x, y)
    losses = np.array(found).T
    assert np.isfinite(losses).all()
    return ["mixture", *learner.weights], losses


def above(value: float, other: float) -> float:
    return 0.0 if value == other else value / other - 1.0 if other > 0.0 else math.inf


def percent(value: float) -> str:
    return f"{value:+.1%}".replace("%", " %").replace("-", "−")


def of_sets(data: Path | None, quick: bool) -> Table:
    report = Table("set", "records", "no model", "linear", "forest", "mixture", "above best", "above none", title="Sets")  # fmt: skip
    for name, load in sets(data, quick):
        stream = load()
        names, losses = followed(stream)
        means = dict(zip(names, losses.mean(axis=1).tolist(), strict=True))
        if stream.task == "regression":
            means = {of: math.sqrt(mean) for of, mean in means.items()}
        best = min(mean for of, mean in means.items() if of != "mixture")
        report.add_row(
            name, f"{len(stream.records):,}", *(f"{means[of]:.4g}" for of in ("none", "linear", "forest", "mixture")),
            percent(above(means["mixture"], best)), percent(above(means["mixture"], means["none"])),
        )  # fmt: skip
    return report


def changing(name: str, n: int, seed: int) -> list[Record]:
    """A stream of river that changes each 5,000 records, or slowly all the time."""
    from river.datasets import synth

    if name == "hyperplane, slow":
        stream = synth.Hyperplane(seed=seed, n_features=10, n_drift_features=5, mag_change=0.001, noise_percentage=0.05)  # fmt: skip
        return [({f"x{i}": v for i, v in x.items()}, y) for x, y in stream.take(n)]
    made = {
        "Agrawal, abrupt": lambda k: synth.Agrawal(
            classification_function=(0, 3, 6, 1)[k % 4], seed=seed + k, perturbation=0.05
        ),
        "SEA, abrupt": lambda k: synth.SEA(variant=(0, 3, 1, 2)[k % 4], seed=seed + k, noise=0.1),
    }
    slowly = name == "Agrawal, slow"
    make = made["Agrawal, abrupt" if slowly else name]
    rng, records = random.Random(seed), []
    concepts = [iter(make(k)) for k in range(n // STRETCH + 1)]
    for i in range(n):
        k = i // STRETCH
        later = slowly and rng.random() < (i % STRETCH) / STRETCH
        x, y = next(concepts[k + later])
        records.append(({str(key): v for key, v in x.items()}, int(y)))
    return records


def of_drift(data: Path | None, quick: bool) -> Table:
    report = Table("stream", "no model", "linear", "forest", "mixture", "above best", "worst", title="Drift")
    n = 10_000 if quick else 40_000
    names = ["SEA, abrupt"] if quick else ["Agrawal, abrupt", "Agrawal, slow", "SEA, abrupt", "hyperplane, slow"]  # fmt: skip
    streams = [(name, Stream("binary", changing(name, n, 7))) for name in names]
    if data is not None:
        streams.append(("elec2", table("elec2", data)))
    for name, stream in streams:
        of, losses = followed(stream)
        starts = range(0, losses.shape[1] - STRETCH + 1, STRETCH)
        parts = [losses[:, start + FIRST : start + STRETCH].mean(axis=1) for start in starts]
        ratios = [above(part[0], part[1:].min()) for part in parts]
        means = dict(zip(of, np.mean(parts, axis=0).tolist(), strict=True))
        best = np.mean([part[1:].min() for part in parts])
        report.add_row(
            name, *(f"{means[of]:.4g}" for of in ("none", "linear", "forest", "mixture")),
            percent(above(means["mixture"], best)), percent(max(ratios)),
        )  # fmt: skip
    return report


HOSTILE: dict[str, Callable[[int, float, random.Random], float]] = {
    "10¹² once": lambda i, y, rng: 1e12 if i == 0 else y,
    "heavy tails": lambda i, y, rng: y + 1e3 * rng.paretovariate(0.8) * rng.choice((-1, 1)) * (i % 50 == 7),
    "constant": lambda i, y, rng: 7.0,
    "1,000 times as large": lambda i, y, rng: 1e3 * y,
    "shifted by 10⁶": lambda i, y, rng: y + 1e6,
}


def lines(n: int, seed: int = 2) -> list[Record]:
    """A line, a step and noise."""
    rng, found = random.Random(seed), []
    for _ in range(n):
        x = {"a": rng.gauss(0, 1), "b": rng.gauss(0, 1), "c": float(rng.randrange(3))}
        found.append((x, 3.0 * x["a"] - 2.0 * x["b"] + 2.0 * (x["c"] == 1.0) + rng.gauss(0, 0.5)))
    return found


def of_hostile(data: Path | None, quick: bool) -> Table:
    report = Table("target of records 3,000 to 4,000", "stream", "no model", "mixture", "undisturbed", "anew", "above undisturbed", "above anew", title="Hostile")  # fmt: skip
    k = 100 if quick else 1_000
    streams = {"lines": lines(6 * k)}
    if data is not None and not quick:
        streams["bike"] = table("bike", data).records[:6_000]
        streams["california"] = table("california", data).records[:6_000]

    def error(records: list[Record]) -> tuple[float, float]:
        losses = followed(Stream("regression", records))[1][:2, -k:]
        return tuple(np.sqrt(losses.mean(axis=1)).tolist())

    for of, records in streams.items():
        (plain, _), (anew, _) = error(records), error(records[4 * k :])
        for name, target in HOSTILE.items():
            rng, span = random.Random(3), range(3 * k, 4 * k)
            turned = [(x, target(i - 3 * k, y, rng) if i in span else y) for i, (x, y) in enumerate(records)]
            own, none = error(turned)
            report.add_row(name, of, *(f"{value:.4g}" for value in (none, own, plain, anew)), percent(above(own, plain)), percent(above(own, anew)))  # fmt: skip
    return report


def of_cost(data: Path | None, quick: bool) -> Table:
    report = Table("stream", "what", *NAMES, title="Cost, µs a record")
    streams = {"Bananas": of_river("Bananas"), "TrumpApproval": of_river("TrumpApproval")}
    if data is not None:
        streams = {name: table(name, data) for name in ("elec2", "adult", "covtype", "bike")}
    for name, stream in streams.items():
        records = labelled(stream)
        kind: Any = "regression" if stream.task == "regression" else "classification"
        learners = [learner_of(named_model(of, stream.task, 1), kind) for of in NAMES]
        drivers = [FoldDriver({"model.task": stream.task, "model.name": of, "record.label": "label"}) for of in NAMES]  # fmt: skip
        block, blocks = (100, 2) if quick else (1_000, 10)
        taken: dict[str, list[list[float]]] = {"learn": [[] for _ in NAMES], "explain": [[] for _ in NAMES]}
        for at in range(0, block * blocks, block):
            part = records[at : at + block]
            messages = [{"label": str(y) if kind == "classification" else y, **x} for x, y in part]
            for i, (learner, driver) in enumerate(zip(learners, drivers, strict=True)):
                assert learner is not None
                begin = time.thread_time()
                for x, y in part:
                    learner.predict(x)
                    learner.learn(x, y)
                middle = time.thread_time()
                driver.send(messages)
                taken["learn"][i].append(middle - begin)
                taken["explain"][i].append(time.thread_time() - middle)
        for what, words in (("learn", "predict and learn"), ("explain", "fold and explain")):
            report.add_row(name, words, *(f"{statistics.median(times[1:]) / block * 1e6:.0f}" for times in taken[what]))  # fmt: skip
    return report


PARTS = {"sets": of_sets, "drift": of_drift, "hostile": of_hostile, "cost": of_cost}


@click.command(help=__doc__)
@data_or_none()
@click.argument("parts", nargs=-1, type=click.Choice(list(PARTS)))
@quick_option
def main(data: Path | None, parts: tuple[str, ...], quick: bool) -> None:
    for part in parts or PARTS:
        Console(width=150).print(PARTS[part](data, quick))


if __name__ == "__main__":
    main()
