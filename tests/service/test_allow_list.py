"""A stored pickle reaches only the names on the allow-list."""

import io
import os
import pickle

import pytest
from river import stats
from river.utils import pandas as a_river_module

from explain_sidecar.errors import SnapshotError
from explain_sidecar.pickles.attributes import method_of
from explain_sidecar.pickles.codec import dumps, loads
from tests.folds import fold, new_state, values


@pytest.mark.parametrize("raw", [b"", b"text", b"\x80\x05", pickle.dumps([1, 2])[:-1]])
def test_bytes_that_are_no_pickle_are_refused(raw):
    with pytest.raises(SnapshotError, match="cannot be read"):
        loads(raw)


class Call:
    """Pickles as a call of ``function``."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


class Named:
    """Pickles as a global of any name, whatever it is."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self):
        """The pickler wants what it stores a call of to be callable."""


class Pickler(pickle._Pickler):  # type: ignore[name-defined]
    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, Named):
            for part in (obj.module, obj.name):
                super().save(part)
            self.write(pickle.STACK_GLOBAL)
        else:
            super().save(obj, save_persistent_id)


def hostile(what):
    file = io.BytesIO()
    Pickler(file, 4).dump(what)
    return file.getvalue()


REFUSED = [
    ("os", "system"),
    ("posix", "system"),
    ("subprocess", "Popen"),
    ("builtins", "eval"),
    ("builtins", "exec"),
    ("builtins", "__import__"),
    ("builtins", "open"),
    ("importlib", "import_module"),
    ("pickle", "loads"),
    ("operator", "attrgetter"),
    ("functools", "reduce"),
    ("numpy", "load"),
    ("numpy", "fromfile"),
    ("explain_sidecar.snapshots.snapshot", "loads"),
    ("explain_sidecar.commands.run", "run"),
    ("river.utils.pandas", "importlib.import_module"),
    ("river.utils.pandas", "importlib.util.find_spec"),
    ("explain_core.explanation", "np.load"),
    ("explain_core.models", "wrap"),
    ("explain_core.models", "Model.__init__"),
    ("river.stream", "Cache"),
    ("river.stream.cache", "Cache"),
    ("river.datasets.base", "RemoteDataset"),
    ("river.bandit.datasets.news", "NewsArticles"),
    ("river.checks.common", "inspect.getsource"),
    ("sklearn.tree._classes", "DecisionTreeClassifier"),
    ("tests.models", "bagging"),
    ("tests.models", "Majority"),
]


@pytest.mark.parametrize(("module", "name"), REFUSED)
def test_names_outside_the_allow_list_are_refused(module, name):
    for raw in (hostile(Named(module, name)), hostile([Call(Named(module, name), "argument")])):
        with pytest.raises(SnapshotError, match=r"is not on the allow-list|cannot be read: AttributeError"):
            loads(raw)


def test_a_pickle_that_calls_something_is_refused_before_the_call(tmp_path):
    mark = tmp_path / "called"
    with pytest.raises(SnapshotError, match=r"posix\.system is not on the allow-list"):
        loads(pickle.dumps(Call(os.system, f"touch {mark}")))
    assert not mark.exists()


@pytest.mark.parametrize(
    "name", ["__class__", "__init__", "__reduce_ex__", "__getattribute__", "no_such_method", "seed"]
)
def test_only_methods_of_river_s_objects_are_reached_by_name(name):
    reach = Call(method_of, stats.Var(), name)
    with pytest.raises(SnapshotError, match=r"the method Var.* is not on the allow-list"):
        loads(hostile(reach))


@pytest.mark.parametrize(("instance", "name"), [("text", "format"), ({}, "pop"), (1, "bit_length")])
def test_methods_of_other_objects_are_not(instance, name):
    for reach in (method_of, Named("builtins", "getattr")):
        with pytest.raises(SnapshotError, match="is not on the allow-list"):
            loads(hostile(Call(reach, instance, name)))


def test_classes_of_the_modules_that_the_settings_name_are_allowed_and_their_functions_are_not():
    state = new_state(model={"factory": "tests.models:Majority"})
    fold(state, values(10))
    with pytest.raises(
        SnapshotError, match=r"tests\.models\.Majority is not on the allow-list.*model\.modules"
    ):
        loads(dumps(state.explained.model))
    assert (
        loads(dumps(state.explained.model), ["tests.models"]).wrapped.counts
        == state.explained.model.wrapped.counts
    )
    with pytest.raises(SnapshotError, match="not on the allow-list"):
        loads(hostile(Named("tests.models", "bagging")), ["tests.models"])


def test_the_hostile_names_exist():
    """Refused because of the list, and not for want of the name."""
    assert callable(a_river_module.importlib.util.find_spec)
    for module, name in REFUSED:
        found = pickle._Unpickler(io.BytesIO(hostile(Named(module, name))))  # type: ignore[attr-defined]
        assert callable(found.load()), (module, name)
