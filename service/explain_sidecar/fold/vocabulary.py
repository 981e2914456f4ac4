"""The labels and features that a partition has seen, and which new ones it accepts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from explain_core.losses import Prediction
from explain_core.models import FeatureKind, Row
from explain_core.state import Value, check
from explain_sidecar.fold.models import labels_of
from explain_sidecar.fold.records import MAX_CLASSES, Sample
from explain_sidecar.fold.served import coded
from explain_sidecar.fold.sizes import ExplanationSize
from explain_sidecar.formats.errors import BadRecord
from explain_sidecar.settings import Settings


class Vocabulary:
    """``labels`` numbers the classes in order of appearance; ``kinds`` has each feature's kind. Both grow with the records."""

    def __init__(self, settings: Settings, size: ExplanationSize) -> None:
        self.labels: dict[Any, int] = {label: code for code, label in enumerate(labels_of(settings))}
        self.kinds: dict[str, FeatureKind] = {}
        self._fixed = list(self.labels)
        self._shape: tuple[Any, ...] = ()  # names and types of the last record's features
        self._wanted: Mapping[str, FeatureKind] | None = None  # the kinds that its model wants
        self._task = settings.model.task
        self._limit: float = 2 if self._task == "binary" else MAX_CLASSES
        self._limited_by = ""  # "model" or "challenger" where that sets the limit
        self._max_features = settings.record.max_features
        self._max_bytes = settings.emit.max_bytes
        self._size = size
        self._group_names = {
            name
            for explainer in settings.explainers
            for name in explainer.groups
            if not any(name in features for features in explainer.groups.values())
        }

    def bound(self, section: str, classes: float) -> None:
        """Accept no more classes than the model of a section of the settings tells apart."""
        if classes < self._limit:
            self._limit, self._limited_by = classes, section

    def accept(
        self, sample: Sample, classes: Collection[Any] = (), wanted: Mapping[str, FeatureKind] | None = None
    ) -> Any:
        """Check the sample against what the partition has seen; returns the label as the model gets it, None where it has none.

        Classes become 0, 1, … in order of appearance: with strings some models depend on the interpreter's hash seed. ``classes``: those
        that the model has, where they are fixed. ``wanted``: the kinds of the features whose kind the model fixes.
        """
        labels, x, y = self.labels, sample.x, sample.y
        if sample.labelled and self._task != "regression":
            classes = classes or self._fixed
            if classes and y not in classes:
                known = ", ".join(map(repr, list(classes)[:5]))
                raise BadRecord(
                    "unknown_label",
                    f"the label {y!r} is none of the model's classes {known}; name its labels in model.classes",
                )
            if y not in labels and len(labels) >= self._limit:
                known = ", ".join(map(repr, list(labels)[:5]))
                by = self._limited_by
                limit = f"the {by} tells {self._limit} apart" if by else f"model.task is {self._task}"
                remedy = f"; name one of more classes in {by}.factory" if by else ""
                raise BadRecord(
                    "unknown_label",
                    f"the label {y!r} would be class {self._limit + 1}; {limit} and has seen {known}{remedy}",
                )
        shape = tuple(x), tuple(map(type, x.values()))
        if shape != self._shape or wanted is not self._wanted:
            self._accept_features(x, wanted or {})
            self._shape, self._wanted = shape, wanted
        if not sample.labelled:
            return None
        if self._task == "regression":
            return y
        return labels.setdefault(y, len(labels))

    def served(self, served: Any, y: Any, classes: Collection[Any] = ()) -> Prediction | None:
        """The prediction that was served for a record with that label, as the model predicts; None where the settings name none. Call it before ``accept``."""
        if served is None or self._task == "regression":
            return served  # type: ignore[no-any-return]
        return coded(served, y, self.labels, classes or self._fixed)

    def unfit(self, classes: Collection[Any]) -> str | None:
        """Why a model with these classes cannot be explained beside those so far; None where it can."""
        found = dict.fromkeys([*self.labels, *classes])
        if len(found) <= self._limit:
            return None
        known = ", ".join(map(repr, list(found)[:5]))
        return f"with its classes there are {len(found)} in all ({known} …), and model.task is {self._task}; model.classes names those of all versions"

    def learn(self, classes: Iterable[Any]) -> None:
        """Number the classes of a version of the model."""
        for label in classes:
            self.labels.setdefault(label, len(self.labels))

    def _accept_features(self, x: Row, wanted: Mapping[str, FeatureKind]) -> None:
        kinds = self.kinds
        fresh: dict[str, FeatureKind] = {}
        for name, value in x.items():
            kind: FeatureKind = "string" if type(value) is str else "number"
            before = kinds.get(name)
            if wanted.get(name, kind) != kind:
                raise BadRecord(
                    "feature_type", f"feature {name!r} is a {kind}, and the model takes a {wanted[name]}"
                )
            if before is None:
                if name in self._group_names:
                    raise BadRecord(
                        "group_name",
                        f"feature {name!r} has the name of a group of the explainers; rename one of them",
                    )
                fresh[name] = kind
            elif before != kind:
                raise BadRecord("feature_type", f"feature {name!r} is a {kind} and was a {before} so far")
        if fresh:
            if len(kinds) + len(fresh) > self._max_features:
                raise BadRecord(
                    "too_many_features",
                    f"{len(fresh)} new features come to {len(kinds)} known; record.max_features is {self._max_features}",
                )
            size = self._size.of([*kinds, *fresh])
            if size > self._max_bytes:
                raise BadRecord(
                    "names_too_long",
                    f"the names of {len(fresh)} new features and of {len(kinds)} known would let an explanation take up to {size} bytes; "
                    f"emit.max_bytes is {self._max_bytes}",
                )
            kinds.update(fresh)

    def restore(self, labels: Sequence[Value], kinds: dict[str, FeatureKind]) -> None:
        """Restore what was stored, before the first record. Raises ``StateError`` where it is not of these settings."""
        check(len(set(labels)) == len(labels) <= MAX_CLASSES, "labels: one twice, or too many")
        check(not self._fixed or list(labels) == self._fixed, "labels: others than the model's classes")
        self.labels.clear()
        self.labels.update((label, code) for code, label in enumerate(labels))
        self.kinds.update(kinds)
