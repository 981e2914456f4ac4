"""Records and models for the tests of estimators: mixed, missing and new features."""

import math
from collections.abc import Iterator
from typing import Any

from explain_core.random import Generator

COLOURS = ("red", "green", "blue")
CLASSES = ("up", "down", "flat")


def mixed_stream(n: int, seed: int, task: str = "classification") -> Iterator[tuple[dict[str, Any], Any]]:
    """n records with numbers and categories; each feature but "a" is missing now and then, "late" comes halfway."""
    rng = Generator(seed)
    for i in range(n):
        x: dict[str, Any] = {"a": rng.uniform() - 0.5}
        if rng.below(4):
            x["b"] = rng.uniform()
        if rng.below(5):
            x["colour"] = COLOURS[rng.below(3)]
        if rng.below(3):
            x["flag"] = bool(rng.below(2))
        if 2 * i >= n and rng.below(2):
            x["late"] = rng.below(5)
        score = x["a"] + 0.3 * (x.get("colour") == "red") + 0.2 * (rng.uniform() - 0.5)
        yield x, score if task == "regression" else CLASSES[0 if score > 0.2 else 1 if score > -0.2 else 2]


def number(x: dict[str, Any]) -> float:
    """A regression that uses every feature."""
    colour = COLOURS.index(x["colour"]) if x.get("colour") in COLOURS else -1
    return (
        2.0 * x.get("a", 0.1)
        + x.get("b", 0.7) * (colour - 0.5)
        + 0.1 * x.get("late", -1)
        + 0.3 * x.get("flag", 0.5)
    )


def probabilities(x: dict[str, Any]) -> dict[str, float]:
    """Three classes; one of them is left out where it has next to no probability."""
    score = max(-50.0, min(50.0, number(x)))
    weights = [math.exp(score), math.exp(-score), math.exp(0.3 * x.get("b", 0.0))]
    total = sum(weights)
    return {label: w / total for label, w in zip(CLASSES, weights, strict=True) if w / total > 0.05}


def model_for(task: str) -> Any:
    return number if task == "regression" else probabilities
