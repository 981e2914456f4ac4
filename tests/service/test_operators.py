"""What kafka-python says where a connection breaks: an error of ours, once, and no traceback of its own in the log. And what a torn transaction asks an operator to do."""

import logging
import socket
import struct
import threading
from dataclasses import replace

import pytest

from explain_sidecar.errors import UserError
from explain_sidecar.kafka.operators import Open, find_open
from explain_sidecar.settings import Settings


def test_a_broker_that_resets_connections_is_an_error_in_words_and_no_traceback_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def reset() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                connection.recv(4)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()

        threading.Thread(target=reset, daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        known = Settings.model_validate({"kafka": {"bootstrap_servers": address}})
        with caplog.at_level(logging.DEBUG), pytest.raises(UserError, match="kafka"):
            find_open(known, [("explanations", 0)])
        server.shutdown(socket.SHUT_RDWR)
    assert not [record for record in caplog.records if record.name.startswith("kafka")]


def test_a_torn_transaction_names_the_command_that_loses_nothing_or_what_is_lost() -> None:
    torn = Open("records", 1, 7, 5, 0, 0, "app-join-0", torn=True)
    assert str(torn).endswith(
        "is published again from the replay"
    ) and "`explain-sidecar transactions abort --yes`" in str(torn)
    assert str(replace(torn, replayed=False)).endswith(
        "`kafka-transactions.sh abort` ends it; what its program wrote with it is lost then"
    )
