"""Small trained models of every kind, as files, beside what their libraries predict."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

RNG = np.random.Generator(np.random.PCG64(7))
N = 400
COLOURS = np.array(["red", "green", "blue", "grey"])
TABLE = pd.DataFrame(
    {
        "age": RNG.normal(size=N),
        "debt": RNG.normal(size=N).round(1),
        "colour": pd.Categorical(RNG.choice(COLOURS, N)),
    }
)
TABLE.loc[RNG.random(N) < 0.1, "age"] = np.nan
TABLE.loc[::7, "debt"] = 0.0
SCORE = TABLE.age.fillna(0.4) + TABLE.debt + 2 * (TABLE.colour == "red") - (TABLE.colour == "grey")
TWO = (SCORE > 0.5).astype(int).to_numpy()
THREE = TWO + (SCORE > 1.5).to_numpy()
NAMED = np.array(["low", "middle", "high"])[THREE]
NUMBERS = TABLE[["age", "debt"]]
WHOLE = NUMBERS.fillna(0.0)


def records(table: pd.DataFrame) -> list[dict[str, object]]:
    """The rows as records, without what is missing."""
    return [
        {name: value for name, value in row.items() if value == value} for row in table.to_dict("records")
    ]


def xgboost(
    folder: Path, suffix: str = "json", target: np.ndarray = TWO, **params: object
) -> tuple[Path, np.ndarray]:
    library = pytest.importorskip("xgboost")
    data = library.DMatrix(TABLE, target, enable_categorical=True)
    settings = {
        "objective": "binary:logistic",
        "max_depth": 4,
        "nthread": 1,
        "max_cat_to_onehot": 2,
        **params,
    }
    booster = library.train(settings, data, 12)
    path = folder / f"xgboost.{suffix}"
    booster.save_model(path)
    return path, booster.predict(data)


def lightgbm(folder: Path, target: np.ndarray = TWO, **params: object) -> tuple[Path, np.ndarray]:
    library = pytest.importorskip("lightgbm")
    settings = {"objective": "binary", "num_threads": 1, "verbose": -1, "min_data_in_leaf": 5, **params}
    booster = library.train(settings, library.Dataset(TABLE, target), 12)
    path = folder / "lightgbm.txt"
    booster.save_model(path)
    return path, booster.predict(TABLE)


def sklearn(
    folder: Path, model: object, table: pd.DataFrame = WHOLE, target: np.ndarray = NAMED
) -> tuple[Path, np.ndarray]:
    skops = pytest.importorskip("skops.io")
    model.fit(table, target)
    path = folder / "model.skops"
    skops.dump(model, path)
    return path, model.predict_proba(table) if hasattr(model, "predict_proba") else model.predict(table)


def catboost(folder: Path, target: np.ndarray = NAMED) -> tuple[Path, np.ndarray]:
    library = pytest.importorskip("catboost")
    table = TABLE.assign(colour=TABLE.colour.astype(str))
    model = library.CatBoostClassifier(
        iterations=8, verbose=0, thread_count=1, cat_features=["colour"], allow_writing_files=False
    )
    model.fit(table, target)
    path = folder / "model.cbm"
    model.save_model(path)
    return path, model.predict_proba(table)


def onnx(
    folder: Path,
    target: np.ndarray = NAMED,
    model: object = None,
    width: type = np.float32,
    **options: object,
) -> tuple[Path, np.ndarray]:
    from skl2onnx import to_onnx
    from sklearn.ensemble import RandomForestClassifier

    if model is None:
        model = RandomForestClassifier(6, max_depth=4, random_state=0)
    model.fit(WHOLE.to_numpy(), target)
    graph = to_onnx(model, WHOLE.to_numpy(width)[:1], options={id(model): options})
    path = folder / "model.onnx"
    path.write_bytes(graph.SerializeToString())
    predict = getattr(model, "predict_proba", model.predict)
    return path, predict(WHOLE.to_numpy(np.float32))


@functools.cache
def contents(kind: str) -> bytes:
    """The bytes of a small file of that kind."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        if kind == "sklearn":
            from sklearn.ensemble import RandomForestClassifier

            return sklearn(Path(folder), RandomForestClassifier(3, max_depth=3, random_state=0))[
                0
            ].read_bytes()
        if kind in ("json", "ubj"):
            return xgboost(Path(folder), kind)[0].read_bytes()
        return {"lightgbm": lightgbm, "catboost": catboost, "onnx": onnx}[kind](Path(folder))[0].read_bytes()
