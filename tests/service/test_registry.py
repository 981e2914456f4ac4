"""A Schema Registry that does not answer, or is none: one message that names the setting, its value and what to do."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from explain_sidecar.errors import SettingsError, UserError
from explain_sidecar.settings import load_settings
from explain_sidecar.wire.registry import Registry, json_reader
from tests.loopback import serving


@contextmanager
def server(state: str) -> Iterator[str]:
    """The address of nobody, of one that never answers, or of something else."""
    if state == "other":
        with serving(lambda path, body: (405, b"")) as address:
            yield address
        return
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if state == "silent":
            silent.listen()
        yield f"http://127.0.0.1:{silent.getsockname()[1]}"


@pytest.mark.parametrize(
    ("state", "problem"),
    [("nobody", "no answer that can be used"), ("silent", "no answer that can be used"), ("other", "405")],
)
def test_a_registry_that_does_not_answer_is_named_with_what_to_do(state: str, problem: str) -> None:
    with server(state) as address:
        settings = load_settings(
            environ={"EXPLAIN_REGISTRY__URL": address, "EXPLAIN_REGISTRY__CONFIG": '{"timeout": 1}'}
        )
        for ask in (Registry(settings).resolve, Registry(settings).register):
            with pytest.raises(UserError) as error:
                ask()
            message = str(error.value)
            assert message.startswith(f"registry.url {address}: ") and problem in message
            assert "check the address" in message and "\n" not in message


def test_registering_without_an_address_or_with_a_wrong_property_is_a_wrong_setting() -> None:
    with pytest.raises(SettingsError, match=r"registry\.url is not set: .*EXPLAIN_REGISTRY__URL"):
        Registry(load_settings(environ={}))
    wrong = {"EXPLAIN_REGISTRY__URL": "http://registry:8081", "EXPLAIN_REGISTRY__CONFIG": '{"no.such": 1}'}
    with pytest.raises(SettingsError, match=r"registry\.config: .*no\.such"):
        Registry(load_settings(environ=wrong))


def test_a_message_in_avro_without_a_registry_is_an_error_and_not_taken_for_a_stranger() -> None:
    read = json_reader(None)
    assert read(b"{}") == read(b"\0\0\0\0\1{}") == b"{}"
    with pytest.raises(UserError, match=r"in Avro, and registry\.url is not set"):
        read(b"\0\0\0\0\1\x1aexplanation/1")
