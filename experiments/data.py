"""The data of the papers: synthetic streams of river, and the real sets as gzipped CSV files in a directory."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from river.datasets import synth

FILES = {
    "elec2": ("elec2.csv.gz", "class"),
    "adult": ("adult.csv.gz", "class"),
    "bank": ("bank_full.csv.gz", "y"),
    "bike": ("bike_hourly_dated.csv.gz", "count"),
    "california": ("california_housing.csv.gz", "MedHouseVal"),
    "covtype": ("covtype_train15120.csv.gz", "Cover_Type"),
    "airlines": ("airlines_moa_5pct.csv.gz", "Delay"),
}
"""File and target column of each real data set."""
REGRESSIONS = ("bike", "california")


@dataclass(frozen=True)
class Table:
    """n × d feature values with categories as whole numbers, their names, and the n targets."""

    name: str
    X: np.ndarray[Any, Any]
    y: np.ndarray[Any, Any]
    features: list[str]

    @property
    def regression(self) -> bool:
        return self.name in REGRESSIONS

    def rows(self) -> list[dict[str, float]]:
        return [dict(zip(self.features, row, strict=True)) for row in self.X.tolist()]

    def take(self, order: Any) -> Table:
        return Table(self.name, self.X[order], self.y[order], self.features)


def agrawal(n: int, function: int = 1, seed: int = 0) -> Table:
    """n records of river's Agrawal generator; its function 1 is the preprint's concept 1 (age and salary)."""
    stream = list(islice(synth.Agrawal(classification_function=function, seed=seed), n))
    features = list(stream[0][0])
    X = np.array([[x[name] for name in features] for x, _ in stream], dtype=float)
    return Table("agrawal", X, np.array([y for _, y in stream]), features)


def load(name: str, directory: Path) -> Table:
    """A real data set in file order; text columns ordinal by value, rows with an empty cell left out (adult: 45,222).

    Raises ``FileNotFoundError`` where the directory lacks the file.
    """
    file, target = FILES[name]
    frame = pd.read_csv(directory / file).dropna()
    if "dteday" in frame:
        frame = frame.drop(columns="dteday")
    y = frame.pop(target)
    for column in frame.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes]]:
        frame[column] = frame[column].astype("category").cat.codes
    labels = y if name in REGRESSIONS else y.astype("category").cat.codes
    return Table(name, frame.to_numpy(dtype=float), labels.to_numpy(), list(frame.columns))
