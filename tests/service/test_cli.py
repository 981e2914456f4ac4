"""The command line: help without weight, exit statuses, one message and no traceback for what a user can cause."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from pkgutil import resolve_name

import click
import pytest

from explain_sidecar import cli as command_line
from explain_sidecar.errors import SettingsError, UserError
from explain_sidecar.forks import Forks

Run = Callable[..., subprocess.CompletedProcess[str]]

HEAVY = ("river", "confluent_kafka", "numpy", "starlette", "pydantic", "rich")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line as ``_run`` runs it, in this process: where it raised anything but its status the test would fail."""

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patch:
            for name in [name for name in os.environ if name.startswith("EXPLAIN_")]:
                patch.delenv(name)
            for name, value in environ.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["explain-sidecar", *arguments])
            status = _status()
        captured = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, status, captured.out, captured.err)

    return run


def _run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("EXPLAIN_")}
    return subprocess.run(
        [sys.executable, "-c", "from explain_sidecar.cli import main; main()", *arguments],
        env=clean | environ,
        capture_output=True,
        text=True,
        timeout=120,
    )


def _commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _commands(inner, (*path, name))


COMMANDS = list(_commands(command_line.cli))


def _command(path: tuple[str, ...]) -> click.Command:
    command: click.Command = command_line.cli
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    return command


def test_every_promised_command_is_there() -> None:
    leaves = {" ".join(path) for path in COMMANDS}
    assert leaves >= {
        "run",
        "produce",
        "tail",
        "topics create",
        "topics show",
        "reset",
        "checkpoint show",
        "kafka run",
        "demo",
        "dbshap",
        "explain",
        "dashboard",
        "check",
        "dead-letters show",
        "dead-letters replay",
        "join",
        "join show",
        "completion",
        "config check",
        "config show",
    }


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_of_every_command_explains_it_and_each_option(
    path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["explain-sidecar", *path, "--help"])
    assert _status() == 0
    shown = capsys.readouterr().out
    command = _command(path)
    assert command.help
    assert "..." not in shown.replace("[ARGS]...", "")  # no sentence is cut off in the list of commands
    for option in command.params:
        if isinstance(option, click.Argument):
            assert option.human_readable_name in shown
        else:
            assert isinstance(option, click.Option) and option.help and option.opts[0] in shown


DELEGATED = [path for path in COMMANDS if hasattr(_command(path).callback, "target")]


@pytest.mark.parametrize("path", DELEGATED, ids=" ".join)
def test_the_function_of_a_command_takes_its_options_and_no_other_arguments(path: tuple[str, ...]) -> None:
    assert len(DELEGATED) > 20
    command = _command(path)
    known = signature(resolve_name(command.callback.target)).parameters  # type: ignore[union-attr]
    assert {option.name for option in command.params} == known.keys() - {"settings", "config"}


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom explain_sidecar.cli import cli\n"
        "for path in ([], ['run'], ['topics', 'create'], ['config', 'show'], ['demo'], ['dbshap'], ['dashboard'], ['check']):\n"
        "    cli.main([*path, '--help'], standalone_mode=False)\n"
        f"sys.stderr.write(' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.count("Usage:") == 8
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupt_while_the_command_is_still_imported_ends_it_without_a_traceback(
    tmp_path: Path,
) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt")
    done = _run("--help", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (UserError("the broker is gone; start it"), 1, "error: the broker is gone; start it\n"),
        (SettingsError("seed = -1: too small"), 2, "error: seed = -1: too small\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_errors_become_one_message_and_a_status(
    error: BaseException,
    status: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("explain_sidecar.commands.run.run", fail)
    monkeypatch.setattr(sys, "argv", ["explain-sidecar", "run"])
    assert _status() == status
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.lstrip("\n") == message


def test_run_ends_with_the_status_of_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {}

    def run(settings: object, forks: Forks, **arguments: object) -> int:
        given.update(arguments)
        forks.stop()  # which has begun
        return 3

    monkeypatch.setattr("explain_sidecar.commands.run.run", run)
    monkeypatch.setattr(sys, "argv", ["explain-sidecar", "run", "--workers", "2", "--until-caught-up"])
    assert _status() == 3
    assert given == {"config": None, "workers": 2, "until_caught_up": True, "stages": ("fold",)}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["runn"], "runn"),
        (["run", "--workers", "0"], "--workers"),
        (["produce", "--label", "y"], "--input"),
        (["produce", "--label", "y", "--input", "absent.csv"], "absent.csv"),
        (["--config", "absent.yaml", "config", "show"], "absent.yaml"),
        (["reset"], "--partition"),
        ([], "Usage"),
    ],
)
def test_wrong_usage_is_status_2_and_names_what_is_wrong(
    arguments: list[str],
    word: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["explain-sidecar", *arguments])
    assert _status() == 2
    captured = capsys.readouterr()
    assert word in captured.err and captured.out == ""


def test_wrong_setting_is_status_2_on_stderr_without_a_traceback(run: Run) -> None:
    done = run("config", "show", EXPLAIN_EMIT__EVRY="1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: emit.evry" in done.stderr and "EXPLAIN_EMIT__EVERY" in done.stderr
    assert "Traceback" not in done.stderr


def test_run_without_brokers_says_how_to_name_them(run: Run) -> None:
    done = run("run")
    assert done.returncode == 2 and "EXPLAIN_KAFKA__BOOTSTRAP_SERVERS" in done.stderr
    assert "Traceback" not in done.stderr


def test_run_without_a_key_names_the_remedy_where_the_model_is_stored_by_its_own_code() -> None:
    environ = {"EXPLAIN_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    done = _run("run", EXPLAIN_MODEL__FACTORY="river.naive_bayes:GaussianNB", **environ)
    assert done.returncode == 2 and "error: checkpoint.hmac_key_file is not set" in done.stderr
    assert "GaussianNB" in done.stderr
    for remedy in ("explain-sidecar key new", "EXPLAIN_CHECKPOINT__HMAC_KEY_FILE="):
        assert remedy in done.stderr


def test_config_show_prints_value_and_source_of_every_setting(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "sidecar.yaml"
    file.write_text("emit: {every: 7}\n")
    environ = {"EXPLAIN_HTTP__TOKEN": "hunter2", "EXPLAIN_SEED": "4"}
    as_json = run("--config", str(file), "config", "show", "--json", **environ)
    data = json.loads(as_json.stdout)
    assert data["emit.every"] == {"value": 7, "source": f"file {file}"}
    assert data["seed"] == {"value": 4, "source": "environment EXPLAIN_SEED"}
    assert data["log.level"] == {"value": "info", "source": "default"}
    table = run("--config", str(file), "config", "show", **environ)
    lines = {line.split()[0]: line for line in table.stdout.splitlines()}
    assert lines.keys() - {"setting"} == data.keys()
    assert lines["emit.every"].split(maxsplit=2)[1:] == ["7", f"file {file}"]
    assert "hunter2" not in as_json.stdout + table.stdout


def test_config_check_makes_the_model(run: Run) -> None:
    good = run("config", "check", "--json", EXPLAIN_MODEL__FACTORY="river.tree:HoeffdingTreeClassifier")
    assert good.returncode == 0 and "HoeffdingTreeClassifier" in good.stderr
    assert json.loads(good.stdout)["model.factory"]["value"] == "river.tree:HoeffdingTreeClassifier"
    bad = run(
        "config",
        "check",
        EXPLAIN_MODEL__FACTORY="river.tree:HoeffdingTreeClassifier",
        EXPLAIN_MODEL__PARAMS__GRACE="5",
    )
    assert bad.returncode == 1 and "Traceback" not in bad.stderr
    assert "'grace'" in bad.stderr and "grace_period" in bad.stderr


def test_config_check_names_what_is_set_and_off(run: Run) -> None:
    checked = run("config", "check", EXPLAIN_HTTP__PORT="9000")
    assert (
        checked.returncode == 0
        and "warning: http.port: nothing comes of it while http.enabled is false" in checked.stderr
    )


def test_config_check_makes_the_explainers(run: Run) -> None:
    bad = run("config", "check", EXPLAIN_EXPLAINERS='[{"kind": "nowhere:Estimator"}]')
    assert (bad.returncode, bad.stderr) == (
        1,
        "error: explainers: kind: No module named 'nowhere'; see docs/how-to/extend.md\n",
    )


def test_config_check_refuses_properties_that_the_client_does_not_have(run: Run) -> None:
    for wrong, said in (
        ('{"ssl.keyy.location": "key.pem"}', 'No such configuration property: "ssl.keyy.location"'),
        ('{"session.timeout.ms": "soon"}', 'Invalid value for configuration property "session.timeout.ms"'),
    ):
        bad = run("config", "check", EXPLAIN_KAFKA__CONFIG=wrong)
        assert bad.returncode == 1 and f"error: kafka.config: {said}" in bad.stderr
    elsewhere = run(
        "config",
        "check",
        EXPLAIN_KAFKA__CONFIG='{"security.protocol": "ssl", "ssl.key.location": "/not/here"}',
    )
    assert elsewhere.returncode == 0, elsewhere.stderr


def test_config_check_asks_for_the_key_that_run_would_ask_for(run: Run, tmp_path: Path) -> None:
    foreign = {"EXPLAIN_MODEL__FACTORY": "river.naive_bayes:GaussianNB"}
    refused = run("config", "check", **foreign)
    assert refused.returncode == 2 and "Traceback" not in refused.stderr
    assert "checkpoint.hmac_key_file is not set" in refused.stderr and "GaussianNB" in refused.stderr
    keys = tmp_path / "snapshot.keys"
    assert run("key", "new", str(keys)).returncode == 0
    accepted = run("config", "check", EXPLAIN_CHECKPOINT__HMAC_KEY_FILE=str(keys), **foreign)
    assert accepted.returncode == 0 and "learns by its own code" in accepted.stderr


def test_config_check_refuses_schema_files_that_run_would_refuse(tmp_path: Path, run: Run) -> None:
    (tmp_path / "bad.avsc").write_text('{"type": "long"}')
    for section, more in (
        ("RECORD", {}),
        ("JOIN__EVENTS", {"EXPLAIN_JOIN__EVENTS__TOPIC": "e", "EXPLAIN_JOIN__LABELS__TOPIC": "l"}),
    ):
        for file, words in (("none.avsc", "No such file"), ("bad.avsc", "not a record")):
            environ = {
                f"EXPLAIN_{section}__FORMAT": "avro",
                f"EXPLAIN_{section}__FRAMING": "none",
                f"EXPLAIN_{section}__SCHEMA_FILE": str(tmp_path / file),
            }
            refused = run("config", "check", **environ, **more)
            assert refused.returncode == 2 and "Traceback" not in refused.stderr
            assert (
                f"{section.lower().replace('__', '.')}.schema_file" in refused.stderr
                and words in refused.stderr
            )


def test_config_check_keeps_what_a_model_prints_off_stdout(run: Run) -> None:
    done = run(
        "config",
        "check",
        "--json",
        EXPLAIN_MODEL__FACTORY="river.tree:HoeffdingTreeClassifier",
        EXPLAIN_MODEL__PARAMS__SPLIT_CRITERION="nonsense",
    )
    assert "nonsense" in done.stderr
    assert json.loads(done.stdout)["model.params.split_criterion"]["value"] == "nonsense"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_and_the_script_finds_commands(shell: str, run: Run) -> None:
    script = run("completion", shell)
    assert script.returncode == 0 and "_EXPLAIN_SIDECAR_COMPLETE" in script.stdout
    asked = {"COMP_WORDS": "explain-sidecar dead-letters re", "COMP_CWORD": "2" if shell != "fish" else "re"}
    found = run(_EXPLAIN_SIDECAR_COMPLETE=f"{shell}_complete", **asked)
    assert "replay" in found.stdout and "show" not in found.stdout


def test_what_the_locale_cannot_print_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "sidecar.yaml").write_text("record: {label: größe}", encoding="utf-8")
    ascii = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = _run("--config", str(tmp_path / "sidecar.yaml"), "config", "show", **ascii)
    assert done.returncode == 0, done.stderr
    assert "gr\\xf6\\xdfe" in done.stdout and done.stdout.isascii()


def test_output_to_a_closed_pipe_ends_without_a_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "from explain_sidecar.cli import main; main()", "config", "show", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert process.wait(timeout=60) == 1


@pytest.mark.parametrize("form", ["json", "console"])
def test_logs_have_partition_and_offset_as_fields_on_stderr(form: str) -> None:
    code = (
        "import logging\nfrom explain_sidecar.logs import set_up_logging\nfrom explain_sidecar.settings.operation import LogSettings\n"
        f"set_up_logging(LogSettings(format={form!r}, level='warning'), worker=1)\n"
        "logging.getLogger('x').info('too low')\n"
        "logging.getLogger('x').warning('moved to %d', 5, extra={'partition': 3, 'offset': 42})\n"
        "logging.getLogger('x').error('nowhere')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    first, second = done.stderr.splitlines()
    assert done.stdout == ""
    if form == "json":
        line = json.loads(first)
        assert (line["level"], line["message"]) == ("warning", "moved to 5")
        assert (line["worker"], line["partition"], line["offset"]) == (1, 3, 42)
        assert "partition" not in json.loads(second)
    else:
        assert first.endswith("warning moved to 5 worker=1 partition=3 offset=42")
        assert second.endswith("nowhere worker=1")


def _status() -> int:
    """The exit status of ``main`` with the arguments in ``sys.argv``."""
    with pytest.raises(SystemExit) as caught:
        command_line.main()
    return int(caught.value.code or 0)
