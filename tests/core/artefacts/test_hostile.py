"""A file that is damaged, disguised or made to do harm is refused in words, and none of it is run."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import signal
import struct
import time
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest

from explain_core.artefacts import trial
from explain_core.artefacts.artefact import ArtefactError
from explain_core.artefacts.load import load_artefact
from tests.core.artefacts import trained

RAN: list[str] = []


class Evil:
    def __reduce__(self):
        return RAN.append, ("ran",)


def of(kind):
    return lambda: trained.contents(kind)


def cut(kind, share):
    def make():
        whole = trained.contents(kind)
        return whole[: int(len(whole) * share)]

    return make


def edited(change):
    """The JSON of XGBoost after a change to its learner."""

    def make():
        model = json.loads(trained.contents("json"))
        change(model["learner"])
        return json.dumps(model).encode()

    return make


def many_classes():
    text = trained.contents("lightgbm").decode()
    for name in ("num_class", "num_tree_per_iteration"):
        text = text.replace(f"\n{name}=1\n", f"\n{name}=2147483647\n")
    return text.encode()


def tree(name, value):
    """The first tree's array, changed at a node that splits."""

    def change(learner):
        first = learner["gradient_booster"]["model"]["trees"][0]
        inside = first["left_children"].index(next(child for child in first["left_children"] if child > 0))
        first[name][inside] = value

    return edited(change)


def line(name, value):
    """LightGBM's text with another value in the first line of that name."""

    def make():
        text = trained.contents("lightgbm").decode()
        start = text.index(f"\n{name}=") + 1
        end = text.index("\n", start)
        return (text[:start] + f"{name}={value}" + text[end:]).encode()

    return make


def archive(*members, compressed=zipfile.ZIP_DEFLATED):
    def make():
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", compressed) as found:
            for name, data in members:
                found.writestr(name, data)
        return file.getvalue()

    return make


def bomb():
    """A member of more than 1 GiB, by what the archive says of it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as found:
        for name in ("schema.json", "zeros.npy"):
            found.writestr(name, "{}")
        found.filelist[-1].file_size = 2**30
    return file.getvalue()


def skops_with(change):
    """The skops file of a forest with its schema changed."""

    def make():
        file = io.BytesIO()
        with (
            zipfile.ZipFile(io.BytesIO(trained.contents("sklearn"))) as source,
            zipfile.ZipFile(file, "w") as found,
        ):
            for name in source.namelist():
                data = source.read(name)
                if name == "schema.json":
                    data = change(data.decode()).encode()
                found.writestr(name, data)
        return file.getvalue()

    return make


def header(shape):
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return out.getvalue()


def untrusted():
    skops = pytest.importorskip("skops.io")
    from sklearn.preprocessing import FunctionTransformer

    return skops.dumps(FunctionTransformer(np.loadtxt.__class__))


def loose_tree(field, value):
    """A forest whose first tree has a node that points outside of it."""

    def make():
        skops = pytest.importorskip("skops.io")
        from sklearn.ensemble import RandomForestClassifier

        model = RandomForestClassifier(2, max_depth=3, random_state=0).fit(trained.WHOLE, trained.NAMED)
        state = model.estimators_[0].tree_.__getstate__()
        state["nodes"] = state["nodes"].copy()
        state["nodes"][field][0] = value
        model.estimators_[0].tree_.__setstate__(state)
        return skops.dumps(model)

    return make


NESTED = b"{" + b"L" + struct.pack(">q", 1) + b"a" + b"[" * 100_000

FILES = {
    "empty": (lambda: b"", "no known format"),
    "zeros": (lambda: bytes(1000), "no known format"),
    "text": (lambda: b"model: xgboost\n", "no known format"),
    "csv": (lambda: b"a,b,c\n1,2,3\n", "no known format"),
    "png": (lambda: b"\x89PNG\r\n\x1a\n" + bytes(100), "no known format"),
    "pickle, protocol 2": (lambda: pickle.dumps(Evil(), 2), "is a pickle"),
    "pickle, protocol 4": (lambda: pickle.dumps(Evil(), 4), "is a pickle"),
    "pickle, protocol 5": (lambda: pickle.dumps(Evil(), 5), "is a pickle"),
    "pickle, protocol 0": (lambda: pickle.dumps(Evil(), 0), "no known format"),
    "pickle, compressed": (lambda: zlib.compress(pickle.dumps(Evil())), "joblib"),
    "gzip": (lambda: b"\x1f\x8b\x08" + bytes(20), "joblib"),
    "bzip2": (lambda: b"BZh9" + bytes(20), "joblib"),
    "xz": (lambda: b"\xfd7zXZ\x00" + bytes(20), "joblib"),
    "PMML": (lambda: b"<?xml version='1.0'?><PMML/>", "PMML"),
    "HDF5": (lambda: b"\x89HDF\r\n\x1a\n", "Keras"),
    "XGBoost, old": (lambda: b"binf" + bytes(50), "save the model as JSON"),
    "JSON, truncated": (cut("json", 0.5), "XGBoost: .* damaged"),
    "JSON, almost whole": (cut("json", 0.99), "XGBoost: .* damaged"),
    "JSON of something else": (lambda: b'{"model": 1}', "XGBoost: .*learner"),
    "JSON, nested": (lambda: b'{"learner": ' + b"[" * 100_000, "XGBoost"),
    "UBJSON, truncated": (cut("ubj", 0.5), "truncated"),
    "UBJSON, almost whole": (cut("ubj", 0.999), "truncated"),
    "UBJSON, nested": (lambda: NESTED, "nested deeper"),
    "UBJSON, a huge string": (lambda: b"{L" + struct.pack(">q", 2**62), "truncated"),
    "UBJSON, a huge array": (lambda: b"{U\x01a[$d#L" + struct.pack(">q", 2**60), "truncated"),
    "UBJSON, a huge list": (lambda: b"{U\x01a[#L" + struct.pack(">q", 2**60), "longer than the file"),
    "UBJSON, a negative length": (lambda: b"{U\x01a[$d#l" + struct.pack(">i", -5), "truncated"),
    "UBJSON, an unknown marker": (lambda: b"{U\x01aQ}", "unknown marker"),
    "UBJSON, more after it": (lambda: trained.contents("ubj") + b"}", "after the end"),
    "UBJSON, no text": (lambda: b"{U\x01\xffT}", "not UTF-8"),
    "XGBoost, a cycle": (tree("left_children", 0), "parent"),
    "XGBoost, a child twice": (tree("left_children", 2), "parent"),
    "XGBoost, a child outside": (tree("right_children", 10**6), "parent"),
    "XGBoost, a column outside": (tree("split_indices", 10**6), "a column beyond the 3"),
    "XGBoost, a column below 0": (tree("split_indices", -1), "a column beyond the 3"),
    "XGBoost, a threshold of no number": (tree("split_conditions", None), "XGBoost"),
    "XGBoost, a text for a number": (tree("split_conditions", "1"), "XGBoost"),
    "XGBoost, linear": (edited(lambda model: model["gradient_booster"].update(name="gblinear")), "booster 'gblinear'"),
    "XGBoost, no trees": (edited(lambda model: model["gradient_booster"]["model"].update(trees=[], tree_info=[])), "has no tree"),
    "XGBoost, trees without outputs": (edited(lambda model: model["gradient_booster"]["model"].update(tree_info=[9] * 12)), "output that is not there"),
    "XGBoost, an objective of another day": (edited(lambda model: model["objective"].update(name="magic")), "objective 'magic'"),
    "XGBoost, a name too few": (edited(lambda model: model.update(feature_names=["a", "b"])), "2 different names for the 3 columns"),
    "XGBoost, a name twice": (edited(lambda model: model.update(feature_names=["a", "b", "a"])), "2 different names for the 3 columns"),
    "XGBoost, no names": (edited(lambda model: model.update(feature_names=[])), "does not name its 3 columns"),
    "XGBoost, a constant of no number": (edited(lambda model: model["learner_model_param"].update(base_score="nan")), "base_score"),
    "LightGBM, truncated": (cut("lightgbm", 0.5), "truncated|damaged"),
    "LightGBM, before the first tree": (lambda: b"tree\nversion=v4\n", "truncated"),
    "LightGBM, a leaf too few": (line("num_leaves", "3"), "instead of"),
    "LightGBM, a leaf too many": (line("num_leaves", "1000000000"), "instead of"),
    "LightGBM, columns too many": (line("max_feature_idx", "7"), "names for the 8 columns|damaged"),
    "LightGBM, a child outside": (line("left_child", "1 2 3 999 5 6 7 8 9 10 11 12 13 14"), "instead of|parent"),
    "LightGBM, no number": (line("leaf_value", "a b c"), "damaged"),
    "LightGBM, no objective of ours": (line("objective", "magic"), "objective 'magic'"),
    "LightGBM, linear": (line("is_linear", "1"), "linear"),
    "LightGBM, not UTF-8": (lambda: b"tree\n\xff\xfe", "damaged"),
    "skops, truncated": (cut("sklearn", 0.6), "damaged"),
    "skops, a bomb": (bomb, "at most"),
    "zip of something else": (archive(("weights.bin", b"1")), "without schema.json"),
    "zip of nothing": (archive(), "without schema.json"),
    "skops, no schema": (archive(("schema.json", b"[]")), "damaged"),
    "skops, a huge array": (archive(("schema.json", b"{}"), ("a.npy", header((10**12,)) + bytes(8))), "is an array of 8000000000000 bytes"),
    "skops, no array": (archive(("schema.json", b"{}"), ("a.npy", b"no array")), "damaged"),
    "skops, an array's header without an end": (archive(("schema.json", b"{}"), ("a.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 64) + b"{(".ljust(64))), "skops: .* damaged"),
    "skops, unknown types": (skops_with(lambda text: text.replace('"RandomForestClassifier"', '"Pickled"')), "may run code of its own|damaged"),
    "skops, os.system": (skops_with(lambda text: text.replace('"sklearn.ensemble._forest"', '"os"').replace('"RandomForestClassifier"', '"system"')), "may run code of its own|damaged"),
    "skops, a function": (untrusted, "may run code of its own|no predict|damaged"),
    "skops, a tree that points outside": (loose_tree("left_child", 10**6), "outside of it"),
    "skops, a tree in a circle": (loose_tree("right_child", 0), "outside of it"),
    "skops, a tree of another column": (loose_tree("feature", 77), "outside of it"),
    "LightGBM, classes beyond number": (many_classes, "do not fit"),
    "XGBoost, classes beyond number": (edited(lambda learner: learner["learner_model_param"].update(num_class="200000000")), "200000000 classes"),
    "ONNX, truncated": (cut("onnx", 0.5), "ONNX"),
    "ONNX, noise": (lambda: b"\x08" + bytes(range(256)), "ONNX"),
    "CatBoost, truncated": (cut("catboost", 0.5), "CatBoost"),
    "CatBoost, noise": (lambda: b"CBM1" + bytes(range(256)), "CatBoost"),
}  # fmt: skip


def endless():
    """A graph that counts to 2⁶²."""
    import onnx

    of, kinds = onnx.helper, onnx.TensorProto
    x, y = (of.make_tensor_value_info(name, kinds.FLOAT, [None, n]) for name, n in (("x", 2), ("y", 1)))
    inside = of.make_graph(
        [of.make_node("Identity", ["c"], ["d"]), of.make_node("Identity", ["v"], ["w"])],
        "body",
        [of.make_tensor_value_info("i", kinds.INT64, []), of.make_tensor_value_info("c", kinds.BOOL, []), of.make_tensor_value_info("v", kinds.FLOAT, [1])],
        [of.make_tensor_value_info("d", kinds.BOOL, []), of.make_tensor_value_info("w", kinds.FLOAT, [1])],
    )  # fmt: skip
    nodes = [
        of.make_node("Loop", ["n", "t", "z"], ["l"], body=inside),
        of.make_node("ReduceSum", ["x", "axis"], ["s"]),
        of.make_node("Add", ["s", "l"], ["y"]),
    ]
    given = [
        of.make_tensor("n", kinds.INT64, [], [2**62]),
        of.make_tensor("t", kinds.BOOL, [], [True]),
        of.make_tensor("z", kinds.FLOAT, [1], [0.0]),
        of.make_tensor("axis", kinds.INT64, [1], [1]),
    ]
    return graph(nodes, x, y, given)


def enormous():
    """A graph that asks for 32 GiB."""
    import onnx

    of, kinds = onnx.helper, onnx.TensorProto
    x, y = (of.make_tensor_value_info(name, kinds.FLOAT, [None, n]) for name, n in (("x", 2), ("y", 1)))
    nodes = [
        of.make_node("ConstantOfShape", ["n"], ["big"]),
        of.make_node("ReduceSum", ["big"], ["r"], keepdims=0),
        of.make_node("ReduceSum", ["x", "axis"], ["s"]),
        of.make_node("Add", ["s", "r"], ["y"]),
    ]
    given = [of.make_tensor("n", kinds.INT64, [1], [2**33]), of.make_tensor("axis", kinds.INT64, [1], [1])]
    return graph(nodes, x, y, given)


def graph(nodes, x, y, given):
    import onnx

    made = onnx.helper.make_graph(nodes, "g", [x], [y], given)
    return onnx.helper.make_model(
        made, opset_imports=[onnx.helper.make_opsetid("", 15)], ir_version=8
    ).SerializeToString()


@pytest.mark.parametrize(
    "make, seconds, words", [(endless, 3, "graph without end"), (enormous, 30, "more than 8 GiB of memory")]
)
def test_a_graph_without_an_end_or_of_any_size_is_refused(make, seconds, words, tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "MAX_SECONDS", seconds)
    path = tmp_path / "model"
    path.write_bytes(make())
    with pytest.raises(ArtefactError, match=words):
        load_artefact(path, "regression", ["a", "b"])


def test_a_file_of_which_a_process_dies_is_refused(tmp_path):
    """The process with the graph is killed as a library that follows a damaged file is."""
    path = tmp_path / "model"
    path.write_bytes(endless())
    with ThreadPoolExecutor(1) as pool:
        loading = pool.submit(load_artefact, path, "regression", ["a", "b"])
        while not loading.done():
            for child in psutil.Process().children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    if "explain_core.artefacts.trial" in child.cmdline():
                        child.send_signal(signal.SIGSEGV)
            time.sleep(0.05)
        with pytest.raises(ArtefactError, match="died of SIGSEGV"):
            loading.result()


@pytest.mark.parametrize("name", FILES)
def test_the_file_is_refused(name, tmp_path):
    make, words = FILES[name]
    path = tmp_path / "model"
    path.write_bytes(make())
    with pytest.raises(ArtefactError, match=words) as refused:
        load_artefact(path)
    assert len(str(refused.value)) < 2_000
    assert RAN == []


@pytest.mark.parametrize("kind", ["json", "ubj", "lightgbm", "sklearn"])
def test_a_changed_byte_is_refused_or_harmless(kind, tmp_path):
    """Of 60 files with a byte changed each is refused, or predicts without an error."""
    whole = trained.contents(kind)
    rng = np.random.Generator(np.random.PCG64(5))
    refused = 0
    for place in rng.integers(0, len(whole), 60):
        path = tmp_path / "model"
        path.write_bytes(whole[:place] + bytes([int(rng.integers(256))]) + whole[place + 1 :])
        try:
            model = load_artefact(path).model
        except ArtefactError:
            refused += 1
            continue
        model.predict({"age": 1.0, "debt": 0.1})
    assert refused > 0


def mlmodel(folder, text):
    (folder / "MLmodel").write_text(text)
    return folder


DIRECTORIES = {
    "no MLmodel": (None, "file MLmodel"),
    "no YAML": ("flavors: [", "damaged"),
    "no flavours": ("artifact_path: model", "damaged"),
    "another flavour": ("flavors: {pytorch: {data: x}}", "the flavours pytorch"),
    "outside": ("flavors: {xgboost: {data: ../../etc/passwd}}", "outside of the directory"),
    "absolute": ("flavors: {xgboost: {data: /etc/passwd}}", "outside of the directory"),
    "absent": ("flavors: {xgboost: {data: model.ubj}}", "No such file"),
    "a pickle": ("flavors: {sklearn: {pickled_model: model.pkl}}", "is a pickle"),
    "Python objects": ("flavors: !!python/object/apply:os.system ['true']", "damaged"),
    "too long": ("a: b\n" * 300_000, "at most"),
}


@pytest.mark.parametrize("name", DIRECTORIES)
def test_the_directory_is_refused(name, tmp_path):
    text, words = DIRECTORIES[name]
    if text is not None:
        mlmodel(tmp_path, text)
        (tmp_path / "model.pkl").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ArtefactError, match=words):
        load_artefact(tmp_path)
    assert RAN == []


def test_a_directory_of_mlflow_is_read(tmp_path):
    (tmp_path / "model.ubj").write_bytes(trained.contents("ubj"))
    inputs = json.dumps([{"name": name, "type": "double"} for name in ("age", "debt", "colour")])
    mlmodel(tmp_path, f"flavors: {{xgboost: {{data: model.ubj}}}}\nsignature: {{inputs: '{inputs}'}}\n")
    found = load_artefact(tmp_path)
    assert (found.kind, found.features) == ("xgboost", ["age", "debt", "colour"])
    swapped = inputs.replace("age", "debt", 1)
    mlmodel(tmp_path, f"flavors: {{xgboost: {{data: model.ubj}}}}\nsignature: {{inputs: '{swapped}'}}\n")
    with pytest.raises(ArtefactError, match="features"):
        load_artefact(tmp_path)


@pytest.mark.parametrize(
    "uri",
    ["s3://bucket/model", "https://host/model.json", "no/such/file", "folder/" + "v" * 300, "a\0file"],
)
def test_an_address_that_is_not_read_is_refused(uri):
    with pytest.raises(ArtefactError, match=r"model\.uri"):
        load_artefact(uri)
