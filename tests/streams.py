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


def nominal_stream(
    n: int, seed: int, task: str = "classification", numbers: bool = True
) -> Iterator[tuple[dict[str, Any], Any]]:
    """n records with features of one, two and many categories, of which some come late; values are missing now and then.

    Without ``numbers`` the first half has so few categories that leaves split on a feature of which they know one.
    """
    rng = Generator(seed)
    for i in range(n):
        rare = 3 * i > n and not rng.below(30)
        x: dict[str, Any] = {"one": "always", "two": ("left", "right")[rng.below(2)]}
        x |= {"rare": "yes" if rare else "no", "day": f"d{i // 30 % 3}"}
        if numbers or 2 * i > n:
            x["many"] = f"m{min(rng.below(9), rng.below(9))}"
        if numbers:
            x |= {"a": 4 * rng.uniform() - 2, "b": float(rng.below(8))}
        if 3 * i > 2 * n:
            x["late"] = ("new", "newer")[rng.below(2)]
        phase = 6 * i // n % 3 - 1
        score = phase * (x["two"] == "left") + phase * x.get("a", 0.0) + 0.8 * rng.uniform() - 0.4
        score += 0.3 * (x.get("many", "m0") > "m3")
        if not rng.below(12):
            del x[list(x)[rng.below(len(x))]]
        yield x, score if task == "regression" else int(score > 0)


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
