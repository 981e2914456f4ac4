"""The library's example of a trained model runs as its page says, on its own files and on those that it is given."""

import csv
import re
import sys
from importlib import import_module

import pytest

example = import_module("explain_core.examples.trained_model")


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["trained_model.py", *map(str, arguments)])
    example.main()
    return capsys.readouterr().out


def test_it_says_what_drives_the_model_and_that_the_better_one_is_better(monkeypatch, capsys, tmp_path):
    pytest.importorskip("xgboost")
    monkeypatch.setattr(example, "RECORDS", 4_000)
    monkeypatch.setattr(example, "TRAINED_ON", 2_000)
    printed = run(monkeypatch, capsys, "--make", tmp_path)
    own, without = map(
        float, re.search(r"cross-entropy (\S+), without any feature (\S+)\n", printed).groups()
    )
    assert own < without - 0.05
    assert re.search(r"^ipfi: salary 0\.\d+", printed, re.MULTILINE)
    assert re.search(r"^isage: salary 0\.\d+", printed, re.MULTILINE)
    assert "after 4,000: next loses less than current, by 0." in printed
    assert re.search(r"^age matters more to next by 0\.\d+", printed, re.MULTILINE)
    # The same files again, given by name; the other way round the first is the better one.
    given = ["--csv", tmp_path / "loans.csv", "--model", tmp_path / "next.ubj"]
    again = run(monkeypatch, capsys, *given, "--challenger", tmp_path / "current.ubj", "--label", "granted")
    assert "after 4,000: next loses less than current, by 0." in again
    assert "after" not in run(monkeypatch, capsys, *given)


def test_an_empty_cell_is_a_missing_value_and_a_text_a_category(tmp_path):
    path = tmp_path / "some.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["a", "b", "y"], ["1.5", "", "no"], ["", "red", "1"]])
    assert list(example.records(path, "y")) == [({"a": 1.5}, "no"), ({"b": "red"}, 1.0)]


def test_without_files_it_says_how_to_come_by_some(monkeypatch, capsys):
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch, capsys)
    said = capsys.readouterr().err
    assert "--csv and --model: name both files, or let --make FOLDER make them" in said
