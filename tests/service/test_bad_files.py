"""What a user's file or argument can cause is said with its name and the remedy."""

import gzip
from pathlib import Path

import pandas
import pyarrow
import pytest
from pyarrow import parquet

from explain_core import watch
from explain_sidecar.broker.embedded import Broker
from explain_sidecar.broker.jars import kafka_jars
from explain_sidecar.commands import config
from explain_sidecar.commands.check import _made, _model
from explain_sidecar.commands.csv_rows import converters_of, read_rows
from explain_sidecar.commands.produce import produce
from explain_sidecar.commands.state import warm_up
from explain_sidecar.commands.tables import read_table
from explain_sidecar.errors import UserError
from explain_sidecar.fold.models import load_model
from explain_sidecar.settings import Settings
from explain_sidecar.settings.model import ModelSettings


def written(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    file = folder / "rows.csv"
    file.write_text(text, encoding=encoding)
    return file


def test_whole_numbers_beyond_64_bits_are_numbers_all_the_same(tmp_path: Path) -> None:
    file = written(tmp_path, f"a,b\n{2**64},{2**64 - 1}\n")
    converters, _ = converters_of(read_rows("--input", file))
    (row,) = read_rows("--input", file)
    assert {name: converters[name](cell) for name, cell in row.items()} == {"a": 2.0**64, "b": 2**64 - 1}


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    (row,) = read_rows("--input", written(tmp_path, "a,b\n1,2\n", "utf-8-sig"))
    assert list(row) == ["a", "b"]


def test_a_column_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"the header has a more than once; rename one"):
        list(read_rows("--input", written(tmp_path, "a,b,a\n1,2,3\n")))
    file = tmp_path / "rows.parquet"
    table = pyarrow.table([[1, 2], [3, 4], [0, 1]], names=["a", "a", "y"])
    parquet.write_table(table, file)
    with pytest.raises(UserError, match=r"--input .*rows\.parquet: it has a more than once; rename one"):
        read_table("--input", file, None, ())
    for data in (table, pandas.DataFrame([[1, 3, 0], [2, 4, 1]], columns=["a", "a", "y"])):
        with pytest.raises(ValueError, match="more than one column a; rename one"):
            watch(data, label="y", progress=False)


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv.gz"
    packed = gzip.compress(b"a,b\n" + b"1,2\n" * 10_000)
    file.write_bytes(packed[:30] + bytes(30) + packed[60:])
    with pytest.raises(UserError, match=r"--input .*rows\.csv\.gz: cannot be read as CSV"):
        list(read_rows("--input", file))


def test_a_label_that_would_hide_another_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"--label y: .*'label', and rows.csv has another column of that name"
    ):
        produce(Settings(), file=written(tmp_path, "y,label,a\n1,2,3\n"), label="y")


def test_a_version_that_is_a_path_is_refused_and_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--kafka-version '../../x'"):
        kafka_jars("../../x", tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"--data .*file/data: cannot be made: Not a directory"):
        Broker(data=tmp_path / "file" / "data").start()


def test_a_factory_that_ends_the_program_is_an_error() -> None:
    with pytest.raises(UserError, match=r"model.params: sys:exit failed"):
        load_model(ModelSettings(factory="sys:exit"), 0)


def test_config_check_reads_the_keys(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"checkpoint.hmac_key_file: .* cannot be read"):
        config.check(Settings(checkpoint={"hmac_key_file": tmp_path / "absent"}), config=None)


@pytest.mark.parametrize(
    ("text", "known", "message"),
    [
        (None, {}, "nowhere: it cannot be read: No such file"),
        ("a,b\n1,2\n", {}, "it holds no state of a sidecar"),
        ("model", {"name": "linear"}, "holds another model"),
        ("model", {"task": "regression"}, "holds another model"),
    ],
)
def test_the_checks_read_the_model_that_partitions_begin_with(
    text: str | None, known: dict[str, str], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "nowhere"
    if text == "model":
        warm_up(Settings(), out=file, file=written(tmp_path, "label,a\n1,2\n0,1\n"))
        config.check(Settings(model={"initial": file}))
    elif text is not None:
        file.write_text(text)
    settings = Settings(model={"initial": file, **known})
    with pytest.raises(UserError, match=f"model.initial: .*{message}"):
        config.check(settings)
    found = _made("model", settings, _model)
    assert found.ok is False and message in found.detail
