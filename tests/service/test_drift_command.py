"""``explain-sidecar dbshap``: two files in, why the risk changed out."""

import csv
import gzip
import json
import sys

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from river import linear_model, naive_bayes

from explain_core.drift import RiskChange
from explain_sidecar import cli

HEADER = ["x", "colour", "ok", "y"]


def fitted():
    """What ``--model`` names: a model for the files below."""
    return lambda record: {"up": 1.0} if record["x"] > 0.0 else {"down": 1.0}


def number():
    return lambda record: record["x"]


def classifier():
    return naive_bayes.GaussianNB()


def regressor():
    return linear_model.LinearRegression()


def sample(seed, mean, threshold):
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(mean, 1.0, 400), 3).tolist()
    colours = rng.choice(["red", "green", ""], size=400).tolist()
    return [[a, c, a > 1, "up" if a > threshold else "down"] for a, c in zip(x, colours, strict=True)]


@pytest.fixture
def files(tmp_path):
    """The same two samples as CSV and as JSON lines."""
    for name, rows in (("before", sample(0, 0.0, 0.0)), ("after", sample(1, 0.0, 1.5))):
        with gzip.open(tmp_path / f"{name}.csv.gz", "wt", newline="") as file:
            csv.writer(file).writerows([HEADER, *rows])
        lines = (json.dumps({k: v for k, v in zip(HEADER, row, strict=True) if v != ""}) for row in rows)
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n\n")
    return tmp_path


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs the command; returns its status, stdout and stderr."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["explain-sidecar", "dbshap", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, *capsys.readouterr()

    return run


MODEL = ("--label", "y", "--model", f"{__name__}:fitted", "--bootstrap", "20")


def test_csv_and_json_lines_give_the_same_result(files, command):
    status, out, _ = command(files / "before.csv.gz", files / "after.csv.gz", *MODEL, "--json")
    assert status == 0
    change = RiskChange.from_json(out)
    assert [cause.name for cause in change.causes] == ["concept"]
    assert change.baseline.empirical == 0.0
    assert sorted(change.bins["colour"]["categories"]) == ["green", "red"]
    assert change.bins["ok"] == {"categories": [False, True]}
    _, again, _ = command(files / "before.jsonl", files / "after.jsonl", *MODEL, "--json")
    assert RiskChange.from_json(again) == change


def test_parquet_gives_the_same_result(files, command):
    for name in ("before", "after"):
        records = [json.loads(line) for line in (files / f"{name}.jsonl").read_text().split("\n") if line]
        schema = pyarrow.schema([("x", "float64"), ("colour", "string"), ("ok", "bool"), ("y", "string")])
        parquet.write_table(pyarrow.Table.from_pylist(records, schema), files / f"{name}.parquet")
    _, expected, _ = command(files / "before.jsonl", files / "after.jsonl", *MODEL, "--json")
    status, out, err = command(files / "before.parquet", files / "after.parquet", *MODEL, "--json")
    assert (status, err) == (0, "")
    assert RiskChange.from_json(out) == RiskChange.from_json(expected)


def test_people_get_a_sentence_a_table_and_a_plot(files, command):
    status, out, err = command(
        files / "before.csv.gz", files / "after.csv.gz", *MODEL, "--plot", files / "change.png"
    )
    assert (status, err) == (0, "")
    first, *rest = out.splitlines()
    assert first.startswith("error rate rose by 0.4")
    assert "from before.csv.gz to after.csv.gz" in first
    assert ": concept +0.4" in first
    shown = "\n".join(rest)
    for name in ("concept", "inputs", "  x ", "  colour", "  dependence", "alike in the other", "rows"):
        assert name in shown
    assert (files / "change.png").read_bytes().startswith(b"\x89PNG")


def test_a_column_that_tells_the_files_apart_is_named_and_ignored_where_that_is_asked_for(files, command):
    for day, name in (("mon", "before"), ("tue", "after")):
        records = [json.loads(line) for line in (files / f"{name}.jsonl").read_text().split("\n") if line]
        lines = (json.dumps(record | {"the day": day}) for record in records)
        (files / f"{name}.jsonl").write_text("\n".join(lines))
    pair = (files / "before.jsonl", files / "after.jsonl", *MODEL)
    status, out, err = command(*pair, "--plot", files / "change.png")
    assert (status, err) == (0, "")
    first = out.splitlines()[0]
    assert first.endswith(
        "; the day tells them apart; to attribute the change without it, pass --ignore 'the day'"
    )
    assert "contribution" not in out and "single features" not in out and "alike in the other" in out
    assert "\nthe day is tue in 100% of the rows (before: 0%) " in out, (
        "how it differs, and its part of the risk"
    )
    status, out, err = command(*pair, "--ignore", "the day")
    assert (status, err) == (0, "warning: features: the day is ignored, and no part of the inputs\n")
    assert ": concept +0.4" in out.splitlines()[0]
    assert RiskChange.from_json(command(*pair, "--json")[1]).separation.features == ("the day",)


def test_a_tree_and_a_group_and_the_joint_game_alone(files, command):
    pair = (files / "before.csv.gz", files / "after.csv.gz", "--label", "y", "--bootstrap", "0", "--json")
    grouped = RiskChange.from_json(command(*pair, "--group", "rest=colour,ok")[1])
    assert [cause.name for cause in grouped.product.inputs] == ["x", "rest"]
    assert grouped.baseline.rows == 200  # the other half has taught the tree
    assert RiskChange.from_json(command(*pair, "--joint", "--hypothesis", "tree")[1]).product is None


def test_a_regression_takes_a_loss_for_numbers(files, command):
    given = ("--label", "ok", "--model", f"{__name__}:number", "--loss", "absolute", "--bootstrap", "0")
    status, _, err = command(files / "before.csv.gz", files / "after.csv.gz", *given)
    assert (status, "a regression needs a number" in err) == (1, True)


def test_labels_that_are_numbers_to_be_predicted_take_the_squared_loss(files, command):
    pair = (files / "before.csv.gz", files / "after.csv.gz", "--label", "x", "--bootstrap", "0", "--json")
    assert RiskChange.from_json(command(*pair)[1]).loss == "squared"
    assert RiskChange.from_json(command(*pair, "--loss", "absolute")[1]).loss == "absolute"


@pytest.mark.parametrize(("model", "loss"), [("classifier", "zero_one"), ("regressor", "squared")])
@pytest.mark.parametrize("classes", [5, 30])
def test_whole_numbers_are_what_the_model_takes_them_for(model, loss, classes, tmp_path, command):
    """Labels alone do not tell 30 classes from a number, nor a count of up to 4 from classes."""
    pair = [tmp_path / name for name in ("before.csv", "after.csv")]
    for seed, file in enumerate(pair):
        file.write_text("x,y\n" + "".join(f"{i % classes + seed},{i % classes}\n" for i in range(300)))
    given = ("--label", "y", "--model", f"{__name__}:{model}", "--bootstrap", "0", "--json")
    status, out, err = command(*pair, *given)
    assert (status, RiskChange.from_json(out).loss) == (0, loss), err


def test_rows_without_a_label_are_left_out_and_counted(tmp_path, command):
    rows = [f"{i % 7},{i % 2}" for i in range(200)]
    for name, more in (("whole.csv", []), ("with.csv", ["3,", "4,"])):
        (tmp_path / name).write_text("\n".join(["x,y", *rows[:100], *more, *rows[100:]]))
    (tmp_path / "none.csv").write_text("\n".join(["x,y", *(f"{i}," for i in range(20))]))
    given = ("--label", "y", "--bootstrap", "0", "--json")
    status, out, err = command(tmp_path / "whole.csv", tmp_path / "with.csv", *given)
    assert (status, out) == command(tmp_path / "whole.csv", tmp_path / "whole.csv", *given)[:2]
    assert err.startswith("warning: TARGET: 2 of 202 rows have no label and are left out\n")
    status, _, err = command(tmp_path / "whole.csv", tmp_path / "none.csv", *given)
    assert (status, "has the label None" in err) == (1, True)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_text_among_numbers_is_named_and_is_a_missing_value_on_request(suffix, files, command):
    """Else the numbers would be texts, of which a tree learns nothing."""
    for name in ("before", "after"):
        rows = [json.loads(line) for line in (files / f"{name}.jsonl").read_text().split("\n") if line]
        rows = [{"x": "NaN" if i % 9 == 0 else row["x"], "y": row["y"]} for i, row in enumerate(rows)]
        lines = {
            "jsonl": map(json.dumps, rows),
            "csv": ("x,y", *(",".join(map(str, row.values())) for row in rows)),
        }
        (files / f"{name}.{suffix}").write_text("\n".join(lines[suffix]))
    pair = (files / f"before.{suffix}", files / f"after.{suffix}", "--label", "y", "--json")
    err = command(*pair)[2]
    assert "x: numbers, but for 'NaN' in 11%; if that stands for a missing value, pass --missing\n" in err
    status, out, err = command(*pair, "--missing", "NaN")
    assert (status, "numbers, but for" in err) == (0, False)
    change = RiskChange.from_json(out)
    assert change.bins["x"]["edges"] and change.baseline.empirical < 0.15


def test_columns_are_named_in_the_order_of_the_file(files, command):
    names = list("hcgafbed")
    row = ["?", *("1" for _ in range(9))]
    (files / "a.csv").write_text(
        "\n".join([",".join([*names, "y"]), *(",".join([cell] * 8 + ["0"]) for cell in row)])
    )
    err = command(files / "a.csv", files / "a.csv", "--label", "y", "--json")[2]
    assert [line.split(": ")[1] for line in err.split("\n") if "numbers, but for" in line] == names


def test_a_warning_goes_to_stderr(files, command):
    (files / "a.csv").write_text("x,y\n1,up\n1,up\n")
    status, out, err = command(files / "a.csv", files / "a.csv", *MODEL, "--json")
    assert (status, json.loads(out)["causes"]) == (0, [])
    assert "warning: features: x is constant, cannot be a cause\n" in err
    assert "warning: label: every row has 'up'\n" in err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "x,y\n1,up\n2\n", "row 3 has not as many cells"),
        ("t.csv", "x,y\n", "there are no rows"),
        ("t.csv", "x,z\n1,up\n2,up\n", "--label y: TARGET has no such column; it has x, z"),
        ("t.csv", "z,y\n1,up\n2,up\n", "columns: only baseline has x; only target has z"),
        ("t.csv.gz", "x,y\n1,up\n", "cannot be read as CSV"),
        ("t.jsonl", '{"x": 1}\n[1]\n', "line 2 is no JSON object"),
        ("t.jsonl", '{"x": 1}\n{"x"\n', "line 2 is no JSON: "),
        ("t.jsonl", '{"x": [1], "y": "up"}\n{"x": 2, "y": "up"}\n', "x: a value is a number, a string or missing"),
        ("t.txt", "x,y\n", "the name must end in .csv"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_is_one_message(name, content, message, files, command):
    (files / "b.csv").write_text("x,y\n1,up\n2,down\n3,up\n4,up\n")
    (files / name).write_text(content)
    status, out, err = command(files / "b.csv", files / name, "--label", "y", "--bootstrap", "0")
    assert (status, out) == (1, "")
    assert err.startswith("error: ")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--model", "a:b", "--hypothesis", "tree"], 2, "--model and --hypothesis exclude each other"),
        (["--joint", "--group", "a=x"], 2, "exclude each other; give one kind"),
        (["--group", "x"], 2, "--group x: write NAME=FEATURE"),
        (["--group", "a=z"], 1, "'a' names the unknown feature 'z'"),
        (
            ["--ignore", "z"],
            1,
            "--ignore z: neither file has a feature of that name; they have x, colour, ok",
        ),
        (["--ignore", "y"], 1, "--ignore y: neither file has a feature of that name"),
        (["--model", "no_such_module:load"], 1, "--model: 'no_such_module:load' cannot be imported"),
        (["--model", "load"], 1, "--model load: write module:function"),
        (["--loss", "zero"], 1, "loss: 'zero' is not one of"),
        (["--plot", "change.doc"], 1, "--plot change.doc: the name must end in one of"),
        (["--plot", "no/such/change.png"], 1, "there is no directory no/such"),
    ],
)
def test_an_option_that_is_wrong_is_one_message(arguments, status, message, files, command):
    given = (files / "before.jsonl", files / "after.jsonl", "--label", "y", "--bootstrap", "0")
    found, out, err = command(*given, *arguments)
    assert (found, out) == (status, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        ("pyarrow", ["before.parquet"], 'Parquet needs pyarrow; pip install "explanation-sidecar[parquet]"'),
        ("matplotlib", ["before.jsonl", "--plot", "p.png"], 'pip install "explanation-sidecar[plots]"'),
    ],
)
def test_what_is_not_installed_is_named(module, arguments, message, files, command, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    (files / "before.parquet").write_bytes(b"")
    first, *options = arguments
    status, _, err = command(files / first, files / "after.jsonl", "--label", "y", *options)
    assert (status, message in err) == (1, True)
