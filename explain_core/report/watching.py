"""``watch``: from records and a model to a report."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from explain_core.artefacts.artefact import Artefact
from explain_core.artefacts.load import load_artefact
from explain_core.artefacts.objects import artefact_of
from explain_core.learners.choice import learner_of
from explain_core.learners.named import Name, Task, named_model
from explain_core.losses import AnyTask
from explain_core.losses import Task as Kind
from explain_core.models import Model, wrap
from explain_core.models.river import last_step
from explain_core.progress import track
from explain_core.random import derive_seed
from explain_core.report.report import BLOCK, Report
from explain_core.report.rows import Source, classes_of, source_of, task_of
from explain_core.stream.identity import beginning
from explain_core.stream.options import Alarming, Explainer, Options, Windowing
from explain_core.taught import Taught, load_taught

ALARMS, DRIFT = Alarming(), Windowing(on_alarm=True)


def watch(
    data: Any = None,
    label: str | None = None,
    *,
    model: Any = None,
    initial: str | Path | None = None,
    task: AnyTask | None = None,
    time: str | None = None,
    explainers: Sequence[Explainer] = (Explainer(kind="ipfi"), Explainer(kind="isage")),
    alarms: Alarming | None = ALARMS,
    drift: Windowing | None = DRIFT,
    ignore: Sequence[str] = (),
    features: Sequence[str] | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Report:
    """Let a model predict each record and then learn it, and say what drives it, what changed and when, and why its risk moved.

    This is what the sidecar does for a partition of a topic, with the same numbers and the same digest.

    ==============  ============================================================================================
    ``data``        records in the order of time: a data frame (pandas, polars or of Arrow), the path of a CSV or Parquet file, an iterable of
                    dicts, or of (features, label) as river's data sets are; None to give them to ``update`` one by one
    ``label``       the column to be predicted
    ``model``       of river: learns each record after it was predicted. Of scikit-learn, XGBoost and their like, or the path of a model's file:
                    is explained as it is. By default the sidecar's mixture of no model, a linear model and a forest. It is copied, never changed
    ``initial``     the file of a sidecar's ``model export`` or ``warm-up``: the model goes on with what that one has learnt, as with ``model.initial``.
                    ``model`` is then by default that of the file; one of river is given as it was new
    ``task``        binary, multiclass or regression; by default told from the model or the labels, and of a classification its number of classes
    ``time``        the column of event times; by default the only column of moments
    ``explainers``  estimators of importance
    ``alarms``      how changes are noticed; None: they are not
    ``drift``       how the change of risk is attributed; None: it is not
    ``ignore``      features that are no part of the inputs when a change is attributed, such as a date, which tells any two times apart
    ``features``    those that are explained; by default all. Of a model that was fitted on an array its columns, in their order
    ``seed``        of all draws
    ``progress``    whether a bar on stderr shows how far it is; by default where that is a terminal or a notebook
    ==============  ============================================================================================

    Raises ``ValueError`` for records and models that do not fit each other, and ``ImportError`` where a package is missing; both name the remedy.

    >>> from itertools import islice
    >>> from river import datasets
    >>> report = watch(list(islice(datasets.Phishing(), 1_000)), model="linear", progress=False)
    >>> print(report.drivers())  # doctest: +ELLIPSIS
    empty_server_form_handler ...
    """
    if not explainers:
        raise ValueError("explainers: there is none; pass at least one, such as Explainer(kind='ipfi')")
    if isinstance(ignore, str):
        raise ValueError(f"ignore: {ignore!r} is one string; pass a list of names")
    source = None if data is None else source_of(data, label, time)
    taught = None if initial is None else load_taught(initial)
    if taught is not None:
        model, task = _of_file(taught, model, task)
    found = model_of(model, task, source, features, seed)
    if source is not None and source.total is not None and not found.static:
        for name in features or ():
            if name not in source.features:
                raise ValueError(f"features: no record has {name!r}; there are {', '.join(source.features)}")
    options = Options(
        explainers=explainers,
        features=features,
        periods=[str(BLOCK)],
        alarms=alarms,
        drift=drift and replace(drift, ignore=[*drift.ignore, *ignore]),
    )
    own_seed, digest = beginning(seed)
    report = Report(
        found.model,
        options,
        own_seed,
        static=found.static,
        fresh=found.fresh,
        labels=found.labels,
        digest=digest,
        dated=source is not None and source.dated,
    )
    if taught is not None:
        if found.static:
            raise ValueError(
                "initial: the model never learns, so that there is nothing to go on with; take initial out"
            )
        report.explainer.begin_with(taught)
    if source is not None:
        show = sys.stderr.isatty() or "ipykernel" in sys.modules if progress is None else progress
        report.update_many(track(source.samples, "records", source.total, show))
    return report


def _task(model: Any, given: AnyTask | None, source: Source | None) -> Task | None:
    """The task that is given, or told from the model or the labels; of a classification with how many classes."""
    if given is not None and given != "classification":
        return given
    of_model = _task_of_model(model)
    if of_model == "classification":
        given, of_model = of_model, None
    if given is None:
        return of_model or (None if source is None else task_of(source.labels))
    if of_model not in (None, "regression"):
        return of_model
    return None if source is None else classes_of(set(source.labels))


class Chosen:
    """The model that is explained, whether it never learns, how it is made once more, and the labels that it has from the start."""

    def __init__(
        self, make: Callable[[], Model], static: bool = False, labels: Sequence[Any] | None = None
    ) -> None:
        self.fresh, self.static = make, static
        self.model = make()
        self.labels = {label: code for code, label in enumerate(labels or ())}


def model_of(
    model: Any, given: AnyTask | None, source: Source | None, features: Sequence[str] | None, seed: int
) -> Chosen:
    """The model to explain. Raises ``ValueError`` where none can be made of it."""
    if isinstance(model, type):
        raise ValueError(
            f"model: {model.__name__} is a class; pass a model of it, such as {model.__name__}()"
        )
    if given is not None and given not in get_args(AnyTask):
        raise ValueError(
            f"task: {given!r} is not one of {', '.join(get_args(Task))}: binary is classification with two classes, multiclass with more. "
            "Name one of these, or leave it out: the labels tell"
        )
    task = _task(model, given, source)
    if task is None and not _is_path(model):
        raise ValueError(
            "task: pass task='binary', 'multiclass' or 'regression': there are no records yet to tell it from"
        )
    kind: Kind = "regression" if task == "regression" else "classification"
    if task is not None and (model is None or model in get_args(Name)):
        own_seed = derive_seed(beginning(seed)[0], "model") % 2**31

        def named() -> Model:
            made = learner_of(named_model(model or "mixture", task, own_seed), kind)
            assert made is not None
            return made

        return Chosen(named)
    if _is_path(model):
        return _as_it_is(load_artefact(model, None if task is None else kind))
    if isinstance(model, Model):
        if type(model).learn is not Model.learn:
            return Chosen(lambda: copy.deepcopy(model))
        return Chosen(lambda: model, True, None if kind == "regression" else getattr(model, "classes", None))
    if hasattr(model, "learn_one"):

        def of_river() -> Model:
            own = copy.deepcopy(model)
            return learner_of(own, kind) or wrap(own, kind)

        return Chosen(of_river)
    classes = getattr(model, "classes_", None) if kind == "classification" else None
    known = None if classes is None else [_python(label) for label in classes]
    # One that was fitted on an array has no names for its columns: they are the records', in their order.
    columns = features or (source.features if source else None)
    if hasattr(model, "feature_names_in_") or getattr(model, "n_features_in_", None) != len(columns or ()):
        columns = None
    wrapped = wrap(model, kind, columns)
    artefact = artefact_of(model, wrapped, kind, columns, known)
    if artefact is not None:
        return _as_it_is(artefact)
    return Chosen(lambda: wrapped, True, known)


def _as_it_is(artefact: Artefact) -> Chosen:
    return Chosen(lambda: artefact.model, True, artefact.classes)


def _of_file(taught: Taught, model: Any, task: AnyTask | None) -> tuple[Any, Task | None]:
    """The model and the task of a file, where none are given. Raises ``ValueError`` where it has others, or does not tell how the model is made."""
    known = taught.settings.get("model", {})
    factory, name = known.get("factory"), known.get("name", "mixture")
    if model is None and factory is not None:
        raise ValueError(
            f"initial: the file has what a model of {factory} has learnt (params {known.get('params', {})}); pass that model as model, before it has learnt anything"
        )
    if isinstance(model or name, str) and (factory or model not in (None, name)):
        raise ValueError(
            f"initial: the file has what the model {factory or name} has learnt, and model is {model!r}; pass that one, or take model out"
        )
    its: Task = known.get("task", "binary")
    if task is not None and task != its and (task != "classification" or its == "regression"):
        raise ValueError(f"initial: the file has a model of the task {its}, and task is {task}; take it out")
    return name if model is None else model, its


def _is_path(model: Any) -> bool:
    return isinstance(model, str | Path) and model not in get_args(Name)


def _task_of_model(model: Any) -> AnyTask | None:
    """What a model is for, where it alone says so: a regression, or classes, and how many where it says that."""
    if hasattr(model, "learn_one"):
        from river import base

        last = last_step(model)
        if isinstance(last, base.Regressor):
            return "regression"
        return "classification" if isinstance(last, base.Classifier) else None
    if isinstance(model, Model):
        return "regression" if model.task == "regression" else None
    classes = getattr(model, "classes_", None)
    if hasattr(model, "predict") and not hasattr(model, "predict_proba") and classes is None:
        return "regression"
    return None if classes is None else ("binary" if len(classes) == 2 else "multiclass")


def _python(label: Any) -> Any:
    return label.item() if hasattr(label, "item") else label
