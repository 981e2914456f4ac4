"""The proxy of the crash tests."""

import subprocess
import sys

CONNECTED = """
import gc, socket, threading, time
from explain_sidecar.broker.embedded import free_port
from tests.crash.proxy import Proxy

with socket.create_server(("127.0.0.1", 0)) as broker:
    port = free_port()
    proxy = Proxy(port, broker.getsockname()[1])
    clients = [socket.create_connection(("127.0.0.1", port), 10.0) for _ in range(3)]
    clients[0].sendall((4).to_bytes(4) + b"asks")
    behind = [broker.accept()[0] for _ in clients]
    assert behind[0].recv(8) or behind[1].recv(8)
    proxy.close()
    assert [client.recv(1) for client in clients] == [b""] * 3
while threading.active_count() > 1:
    time.sleep(0.01)
del proxy
gc.collect()
"""


def test_a_closed_proxy_leaves_no_connection_and_no_task() -> None:
    done = subprocess.run([sys.executable, "-c", CONNECTED], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
