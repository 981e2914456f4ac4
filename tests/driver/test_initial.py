"""A partition that begins with the model of a file: what is published is what the model gives, also when workers die and the file is gone."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from explain_sidecar.commands.state import warm_up
from explain_sidecar.errors import SettingsError, UserError
from explain_sidecar.settings import Settings
from explain_sidecar.snapshots.files import first_state
from tests.changes import Epochs, merged
from tests.driver.driver import TINY, Driver, values
from tests.driver.test_changes import LOGISTIC, differences, first_messages


def history(path: Path, rows: int = 200) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["a", "b", "outcome"])
        writer.writeheader()
        writer.writerows({"a": i % 7, "b": i % 3, "outcome": int(i % 7 > 3)} for i in range(rows))
    return path


def settings(**changes: Any) -> Settings:
    return Settings(**merged(merged(TINY, LOGISTIC), changes))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """That of 200 rows."""
    warm_up(settings(), file=history(tmp_path / "history.csv"), label="outcome", out=tmp_path / "model")
    return tmp_path / "model"


def test_the_same_rows_give_the_same_file(model: Path, tmp_path: Path, capsys) -> None:
    again, more = tmp_path / "again", tmp_path / "more"
    warm_up(settings(), file=tmp_path / "history.csv", label="outcome", out=again)
    assert again.read_bytes() == model.read_bytes()
    assert "learnt from 200 records, 0 could not be used" in capsys.readouterr().out
    warm_up(settings(), file=tmp_path / "history.csv", label="outcome", out=more, limit=150)
    assert more.read_bytes() != model.read_bytes()


def test_a_warm_up_has_one_source_and_a_label(model: Path, tmp_path: Path) -> None:
    for given in (
        {},
        {"file": tmp_path / "history.csv", "topic": "history"},
        {"topic": "history", "label": "a"},
    ):
        with pytest.raises(SettingsError, match="--input or --topic"):
            warm_up(settings(), out=tmp_path / "other", **given)
    with pytest.raises(UserError, match="it has a, b, outcome"):
        warm_up(settings(), file=tmp_path / "history.csv", out=tmp_path / "other")


def test_records_that_cannot_be_used_are_told_and_of_these_alone_no_model_is_written(
    tmp_path: Path, capsys
) -> None:
    file, out = history(tmp_path / "history.csv", 20), tmp_path / "model"
    with pytest.raises(UserError, match=r"no record could be used \(the first, record 0: .*\), so that"):
        warm_up(settings(record={"features": ["c"]}), file=file, label="outcome", out=out)
    assert not out.exists()
    with file.open("a") as more:
        more.write("1,2,\n")
    warm_up(settings(), file=file, label="outcome", out=out)
    assert "1 could not be used (the first, record 20: " in capsys.readouterr().out


@pytest.mark.parametrize("killed_after", [0, 1, 9, 20])
def test_a_partition_that_begins_with_a_file_is_exact_after_crashes_and_without_it(
    model: Path, killed_after: int
) -> None:
    known = settings(model={"initial": str(model)})
    oracle = Epochs(known, 0, [], first_state(known, 0))
    driver = Driver(known, partitions=1)
    driver.feed(0, values(60))
    driver.start()
    running = driver.workers[0]
    while not (running.worker and 0 in running.worker._owned and running.worker._owned[0].state):
        driver.turn(0)
    owned = running.worker._owned[0]
    while owned.state.records <= killed_after:
        driver.turn(0)
    driver.lose()
    model.unlink()
    assert driver.run_to_end(settings()) == []
    assert differences(driver, known, [], oracle=oracle) == []
    first = first_messages(driver)[0]
    assert first["carried"]["carried"] == ["labels", "model"]
    assert "history.csv, after 200 records (fold digest " in first["notices"][0]
    assert json.loads(driver.published(0)["explanations"][0][1])["epoch"] == 0
