"""A challenger: a second model on the same records, compared with the first one; part of the fold, its state and its messages."""

import json

import numpy as np
import pytest
from rich.console import Console

from explain_client import Explanation, SchemaError
from explain_core.artefacts.ensemble import TreeEnsemble
from explain_sidecar.commands import config
from explain_sidecar.commands.tail import view
from explain_sidecar.errors import SnapshotError, UserError
from explain_sidecar.fold.identity import fold_settings
from explain_sidecar.fold.metrics import measure
from explain_sidecar.fold.models import foreign_code, labels_of, load_challenger, record_settings
from explain_sidecar.fold.partition import FoldError, PartitionState
from explain_sidecar.fold.sizes import CELL
from explain_sidecar.http.feed import Feed
from explain_sidecar.http.views import Page, ViewSelection
from explain_sidecar.snapshots.snapshot import encode
from tests.core.artefacts import trained
from tests.folds import fold, fold_with_restores, messages, new_state, restored, settings, values

TREE = {"factory": "river.tree:HoeffdingTreeClassifier", "every": 1}
WORSE = {"factory": "tests.service.test_challenger:Coin", "static": True, "every": 1}
ONLY_TREE = {"factory": TREE["factory"]}


class Coin:
    """Knows nothing."""

    def predict_proba_one(self, x):
        return {0: 0.5, 1: 0.5}

    def learn_one(self, x, y):
        pass


class Fails(Coin):
    def predict_proba_one(self, x):
        raise ArithmeticError("out of luck")


def compared(challenger, n=400, **sections):
    state = PartitionState(settings(challenger=challenger, **sections), 3)
    return state, fold(state, values(n))


def test_the_challenger_s_figures_are_those_that_it_has_as_the_model():
    _, outputs = compared(TREE)
    found = messages(outputs)[-1]
    own = messages(fold(PartitionState(settings(model=ONLY_TREE), 3), values(400)))[-1]
    assert found["challenger"]["performance"] == own["performance"]
    assert found["challenger"]["importance"] == own["importance"]
    difference = found["challenger"]["importance_difference"]["ipfi"]["cross_entropy"]
    for feature, cell in difference.items():
        both = [message["importance"]["ipfi"]["cross_entropy"][feature] for message in (own, found)]
        assert cell["value"] == pytest.approx(both[0]["value"] - both[1]["value"], abs=1e-9)


@pytest.mark.parametrize("every", [3, 4])
def test_on_the_records_that_the_challenger_is_explained_on_both_draw_alike(every):
    """The same model twice, one of which is explained on some records only, does not differ from itself by a bit; but in iSAGE, whose mean
    prediction is that of the explained records.
    """
    again = {"factory": "river.tree:HoeffdingTreeClassifier", "every": every}
    _, outputs = compared(again, model=ONLY_TREE, explain={"every": 2})
    found = messages(outputs)[-1]
    own, other = (about["importance"]["ipfi"]["cross_entropy"]["a"] for about in (found, found["challenger"]))
    assert own["value"] != other["value"] != 0.0
    differences = found["challenger"]["importance_difference"]
    assert [cell["value"] for cell in differences["ipfi"]["cross_entropy"].values()] == [0.0] * 5
    assert all(abs(cell["value"]) < 0.02 for cell in differences["isage"]["cross_entropy"].values())


def test_the_state_of_other_settings_is_refused():
    state, _ = compared(TREE, 50)
    with pytest.raises(SnapshotError, match="challenger: with one, or without"):
        restored(encode(state), settings())
    with pytest.raises(SnapshotError, match="model"):
        restored(encode(state), settings(challenger=WORSE))
    with pytest.raises(SnapshotError, match="no limit"):
        restored(encode(state), settings(challenger={**TREE, "limits": {"cross_entropy": 3}}))


def test_the_challenger_belongs_to_the_settings_that_the_state_belongs_to():
    assert "challenger" not in fold_settings(settings())
    found = fold_settings(settings(challenger=TREE))
    assert found["challenger"]["factory"] == TREE["factory"]
    for other in ({**TREE, "params": {"grace_period": 50}}, {**TREE, "confidence": 0.99}, WORSE):
        assert fold_settings(settings(challenger=other)) != found


def test_the_better_one_is_named_in_words_by_message_client_tail_and_dashboard():
    state, outputs = compared(WORSE, 1_200, emit={"every": 1_200})
    (value,) = (output.value for output in outputs if output.destination == "explanations")
    explanation = Explanation.from_json(value)
    challenger = explanation.challenger
    assert challenger is not None
    assert challenger.name == WORSE["factory"]
    difference = challenger.loss_difference()
    assert difference.better == "model"
    assert 0.0 < difference.low < difference.value < difference.high
    assert difference.records == 1_100
    assert difference.sentence.startswith("the model loses less than the challenger, by ")
    assert challenger.importance("ipfi")["a"].value == 0.0
    cell, own = challenger.importance_difference("ipfi")["a"], explanation.importance("ipfi")["a"]
    assert cell.value == pytest.approx(-own.value)
    with pytest.raises(KeyError, match="cross_entropy"):
        challenger.loss_difference("brier")
    console = Console(record=True, width=400, force_terminal=False)
    console.print(view(settings(), {3: json.loads(value)}))
    shown = console.export_text()
    told = difference.sentence.replace(" in cross_entropy: ", " in log loss: ")
    assert told in shown and told != difference.sentence
    assert "less to the challenger" in shown
    assert state.chains["explanations"].seq == 1
    feed = Feed(state.settings)
    feed.explanation(3, value)
    about = Page(feed, ViewSelection(view="importance")).next()["challenger"]
    assert about["name"] == WORSE["factory"] and about["difference"]["better"] == "model"
    assert about["loss"]["model"] == pytest.approx(np.log(2))
    sizes = [abs(row["value"]) for row in about["rows"]]
    assert sizes == sorted(sizes, reverse=True)
    assert about["difference"]["sentence"] == told


def test_where_no_difference_is_seen_the_message_says_which_one_would_have_been():
    _, outputs = compared(
        {
            **TREE,
            "factory": "explain_core.learners.named:linear_model_of",
            "params": {"task": "binary"},
        }
    )
    difference = messages(outputs)[-1]["challenger"]["difference"]["cross_entropy"]
    assert difference["better"] is None  # the same model: it never differs
    assert difference["sentence"].endswith(
        "yet: by default that takes 100 records, and one on which they differ"
    )
    _, outputs = compared({**TREE, "params": {"grace_period": 30}}, model=ONLY_TREE)
    difference = messages(outputs)[-1]["challenger"]["difference"]["cross_entropy"]
    assert difference["better"] is None
    assert "no difference seen between the model and the challenger" in difference["sentence"]
    assert "would have been seen" in difference["sentence"]


@pytest.mark.parametrize(
    "change",
    [
        {"better": "nobody"},
        {"records": None},
        {"value": "much"},
        {"sentence": 5},
    ],
)
def test_a_message_of_another_shape_is_refused_by_the_client(change):
    body = messages(compared(TREE, 20)[1])[-1]
    body["challenger"]["difference"]["cross_entropy"] |= change
    with pytest.raises(SchemaError, match="not an explanation"):
        Explanation.from_json(json.dumps(body).encode())
    del body["challenger"]
    assert Explanation.from_json(json.dumps(body).encode()).challenger is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"factory": "nowhere:Model"}, r"^challenger.factory: 'nowhere:Model' cannot be imported"),
        ({**TREE, "params": {"depth": 1}}, r"^challenger.params: "),
        (
            {"factory": "explain_core.learners.named:linear_model_of", "static": True},
            r"^challenger.params: ",
        ),
        ({"uri": "nothing.json"}, r"^challenger.uri: nothing.json: No such file"),
        ({"factory": "builtins:dict"}, r"^challenger.factory: builtins:dict with model.task binary"),
    ],
)
def test_a_challenger_that_cannot_be_made_is_refused_by_its_own_name(given, words):
    with pytest.raises(UserError, match=words):
        PartitionState(settings(challenger=given), 0)


def test_a_challenger_that_fails_is_named():
    state = PartitionState(
        settings(challenger={**WORSE, "factory": "tests.service.test_challenger:Fails"}), 3
    )
    words = r"the challenger \(Fails\) failed: ArithmeticError: out of luck.* Correct challenger.factory or challenger.params"
    with pytest.raises(FoldError, match=words):
        fold(state, values(1))


def test_a_challenger_of_foreign_code_needs_a_key_too():
    assert foreign_code(settings(challenger=TREE)) is None
    assert foreign_code(settings(challenger=WORSE)) is None
    foreign = {**WORSE, "static": False}
    assert foreign_code(settings(challenger=foreign)) == "the challenger (Coin)"
    known = settings(challenger=foreign, model={"factory": WORSE["factory"]})
    assert foreign_code(known) == "the model (Coin) and the challenger (Coin)"
    state = PartitionState(known, 3)
    fold(state, values(30))
    assert encode(restored(encode(state), known)) == encode(state)


def test_config_check_shows_both_models(capsys):
    config.check(settings(challenger=TREE))
    shown = capsys.readouterr().err
    assert "the model is a LogisticRegression for binary and learns in arrays" in shown
    assert "the challenger is a HoeffdingTreeClassifier for binary and learns in arrays" in shown


def trained_pair(tmp_path, **challenger):
    (path, predicted), (other, others) = trained.xgboost(tmp_path), trained.lightgbm(tmp_path)
    given = settings(
        model={"uri": str(path), "classes": ["no", "yes"]},
        challenger={"uri": str(other), "classes": ["no", "yes"], **challenger},
        explainers=[{"kind": "ipfi", "alpha": 0.05, "losses": ["brier"], "reservoir": {"size": 20}}],
    )
    rows = [
        {**row, "other": i % 3, "label": ["no", "yes"][y]}
        for i, (row, y) in enumerate(zip(trained.records(trained.TABLE), trained.TWO.tolist(), strict=True))
    ]
    return given, rows, predicted, others


def test_two_files_are_compared_on_their_columns_and_the_labels_of_both(tmp_path):
    given, rows, own, other = trained_pair(tmp_path)
    state = PartitionState(given, 3)
    assert isinstance(state.challenger.explained.model, TreeEnsemble)
    found = messages(fold(state, rows))[-1]["challenger"]
    expected = (2 * (other - trained.TWO) ** 2 - 2 * (own - trained.TWO) ** 2).mean()
    difference = found["difference"]["brier"]
    assert difference["records"] == len(rows)
    assert difference["value"] == pytest.approx(expected, abs=1e-6)
    assert set(found["importance"]["ipfi"]["brier"]) == {"age", "debt", "colour"}
    identity = fold_settings(given)
    assert identity["challenger"]["uri"]["sha256"] != identity["model"]["uri"]["sha256"]


def test_labels_of_the_challenger_s_file_in_another_order_are_the_same_labels(tmp_path):
    """The challenger's library numbers no and yes the other way round: what it calls 0 is yes."""
    given, rows, own, other = trained_pair(tmp_path, classes=["yes", "no"])
    state = PartitionState(given, 3)
    assert state.labels == {"no": 0, "yes": 1}
    difference = messages(fold(state, rows))[-1]["challenger"]["difference"]["brier"]
    truth = trained.TWO
    expected = (2 * ((1 - other) - truth) ** 2 - 2 * (own - truth) ** 2).mean()
    assert difference["value"] == pytest.approx(expected, abs=1e-6)
    given, *_ = trained_pair(tmp_path, classes=["no", "maybe"])
    with pytest.raises(UserError, match=r"challenger.classes: no, maybe, and those of the model are no, yes"):
        PartitionState(given, 3)


def test_features_are_the_columns_of_both_files(tmp_path):
    library = pytest.importorskip("xgboost")
    path, _ = trained.xgboost(tmp_path)
    other = tmp_path / "other.ubj"
    table = trained.TABLE[["debt"]].assign(more=np.arange(len(trained.TABLE)) % 5)
    library.train({"objective": "binary:logistic"}, library.DMatrix(table, trained.TWO), 3).save_model(other)
    given = settings(model={"uri": str(path)}, challenger={"uri": str(other)})
    assert record_settings(given).features == ["age", "debt", "colour", "more"]
    rows = [
        {**row, "more": i % 5, "label": int(y)}
        for i, (row, y) in enumerate(zip(trained.records(trained.TABLE), trained.TWO, strict=True))
    ]
    found = messages(fold(PartitionState(given, 3), rows))[-1]
    for about, unused in ((found, ["more"]), (found["challenger"], ["age", "colour"])):
        cells = about["importance"]["ipfi"]["cross_entropy"]
        assert set(cells) == {"age", "debt", "colour", "more"}
        assert [cells[name]["value"] for name in unused] == [0.0] * len(unused)
        assert cells["debt"]["value"] > 0.0
    with pytest.raises(UserError, match=r"record.label: 'more' is also a column of .*other.ubj"):
        PartitionState(
            given.model_copy(update={"record": given.record.model_copy(update={"label": "more"})}), 3
        )


def test_a_file_challenges_a_model_that_learns(tmp_path):
    path, _ = trained.xgboost(tmp_path)
    given = settings(challenger={"uri": str(path), "classes": ["no", "yes"]})
    assert labels_of(given) == ["no", "yes"]
    assert load_challenger(given, 0).classes == ["no", "yes"]
    rows = [
        {**row, "label": ["no", "yes"][y]}
        for row, y in zip(trained.records(trained.TABLE), trained.TWO.tolist(), strict=True)
    ]
    found = messages(fold(PartitionState(given, 3), rows))[-1]["challenger"]
    assert found["difference"]["cross_entropy"]["better"] == "challenger"


def test_a_regression_has_a_challenger():
    tree = {"factory": "river.tree:HoeffdingTreeRegressor", "params": {"leaf_prediction": "mean"}}
    given = settings("regression", challenger=tree)
    state = PartitionState(given, 3)
    outputs = fold(state, values(400, "regression"))
    found = messages(outputs)[-1]["challenger"]
    assert found["difference"]["squared"]["records"] == 300
    again = restored(encode(state), given)
    assert encode(again) == encode(state)


def test_no_message_is_larger_than_stated(monkeypatch):
    state, outputs = compared(TREE)
    size = state._vocabulary._size
    assert len(next(o.value for o in outputs[::-1] if o.value)) < size.of(state.kinds)
    alone = PartitionState(settings(), 3)._vocabulary._size
    cells = 2 * sum(len(json.dumps(name)) + CELL for name in state.kinds)
    assert size.of(state.kinds) - size.of(()) == alone.of(state.kinds) - alone.of(()) + 2 * cells


def test_metrics_have_the_challenger_s_loss_and_the_difference():
    state, _ = compared(WORSE, 500)
    found = measure(state)
    losses = {tuple(labels): value for labels, value in found["smoothed_loss_challenger"]}
    assert losses["cross_entropy", ""] == pytest.approx(np.log(2))
    low, mean, high = (found[f"challenger_loss_difference{end}"][0][1] for end in ("_low", "", "_high"))
    assert low < mean < high
    assert measure(PartitionState(settings(), 3))["challenger_loss_difference"] == []


@pytest.mark.parametrize("shift_every", [None, 1, 3])
def test_a_challenger_knows_the_features_that_records_without_a_label_bring(shift_every):
    known = {
        "record": {"unlabelled": "predict"},
        "challenger": {"name": "tree", "shift_every": shift_every},
    }
    given = values(240)
    for i in range(100, 240, 3):
        given[i] = {**given[i], f"from {i}": 1.0, "label": None}
    for i in range(140, 240, 7):  # in another order
        given[i] = {**given[i], f"from {100 + 3 * (240 - i)}": 1.0}
    told = messages(fold(new_state(**known), given))
    assert messages(fold_with_restores(known, given, range(10, 250, 10))) == told
    assert told[-1]["challenger"]["importance"].keys() == told[-1]["importance"].keys()
