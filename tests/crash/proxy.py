"""A TCP proxy in front of a broker: it makes the broker slow, or cuts it off, for those who connect through it."""

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Self

from explain_sidecar.broker.embedded import Broker, free_port
from tests.brokers import BRIEF_SESSION

SESSION_SECONDS = 3.0


class Proxy:
    """Forwards connections from ``port`` to ``target``, both on loopback; ``delay``, ``lost`` and ``cut`` may change at any time."""

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self.delay = 0.0  # seconds before each piece of data goes on, in either direction
        self.lost: int | None = None  # API key of requests that do not go on
        self.hold: int | None = (
            None  # API key of a request that is kept, and its connection cut: its client asks again
        )
        self.held = b""
        self.asked: Counter[int] = Counter()  # how many requests came, by API key
        self.instead: tuple[int, Callable[[bytes], bytes]] | None = (
            None  # API key of a request that is answered in the broker's place, once
        )
        self.tearing = False  # whether a transaction is being torn
        # By API key: its newest version, as the broker's list says; below 0 the key is not in it.
        self.limits: dict[int, int] = {}
        self._target = target
        self._cut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._connected, "127.0.0.1", port), self._loop
        ).result()

    def cut(self, off: bool) -> None:
        """Drop every connection and refuse new ones, or let them in again."""
        self._cut = off
        if off:
            self._loop.call_soon_threadsafe(self._drop)

    def late(self) -> int:
        """Hand the held request to the broker, as when it comes out of the network late; returns the error code of the answer (EndTxn 0 and 1)."""
        with socket.create_connection(("127.0.0.1", self._target), 10) as broker:
            broker.sendall(self.held)
            answer = broker.makefile("rb").read(14)
        return int.from_bytes(answer[12:14])

    def tear(self, keys: tuple[int, ...], end: int, answer: Callable[[bytes], bytes]) -> None:
        """Answer requests with these API keys in the broker's place, up to the next one with the key ``end``; cut the connection before its answer."""
        self._keys, self._until, self._answer = keys, end, answer
        self._torn, self.tearing = False, True

    def close(self) -> None:
        """Close the port and every connection, and end once nothing of them is left to be done."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._cut = True
        self._server.close()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            self._drop()
            await asyncio.wait(others, timeout=0.1)

    def _drop(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            if not self._cut:
                upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._target)
                both = {writer, upstream_writer}
                self._writers |= both
                await asyncio.gather(
                    self._requests(reader, upstream_writer, writer), self._answers(upstream_reader, writer)
                )
                self._writers -= both
        writer.close()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                size = await reader.readexactly(4)
                request = await reader.readexactly(int.from_bytes(size))
                await asyncio.sleep(self.delay)
                key = int.from_bytes(request[:2])
                self.asked[key] += 1
                answer = None
                if self.tearing and key in self._keys:
                    answer, self._torn = self._answer, True
                elif self.instead is not None and key == self.instead[0]:
                    (_, answer), self.instead = self.instead, None
                if answer is not None:
                    said = answer(request)
                    back.write(len(said).to_bytes(4) + said)
                    await back.drain()
                    continue
                if self.tearing and self._torn and key == self._until:
                    # The broker decides, and nobody hears of it.
                    writer.write(size + request)
                    await writer.drain()
                    await asyncio.sleep(0.2)
                    self.tearing = False
                    self._drop()
                    break
                if key == self.hold:
                    self.hold, self.held = None, size + request
                    break
                if key != self.lost:
                    writer.write(size + request)
                    await writer.drain()
        writer.close()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            first = True
            while data := await reader.read(2**16):
                await asyncio.sleep(self.delay)
                writer.write(self._limited(data) if first else data)
                await writer.drain()
                first = False
        writer.close()

    def _limited(self, answer: bytes) -> bytes:
        """The list of APIs (ApiVersions 3 and 4), for which a client asks first: entries of 7 bytes behind their number."""
        limited = bytearray(answer)
        for at in range(11, 11 + 7 * (answer[10] - 1), 7):
            most = self.limits.get(int.from_bytes(answer[at : at + 2]))
            if most is not None and most < 0:
                limited[at : at + 2] = b"\x7f\xff"
            elif most is not None:
                limited[at + 4 : at + 6] = most.to_bytes(2)
        return bytes(limited)


def proxied_broker(data: Path | None, more: Mapping[str, str] = MappingProxyType({})) -> tuple[Broker, Proxy]:
    """A broker with two listeners: its own for whoever observes, and one behind a proxy, which it advertises, for workers."""
    direct, behind, controller, proxy = (free_port() for _ in range(4))
    local = "://127.0.0.1:"
    config = {
        "listeners": f"PLAINTEXT{local}{direct},PROXIED{local}{behind},CONTROLLER{local}{controller}",
        "advertised.listeners": f"PLAINTEXT{local}{direct},PROXIED{local}{proxy}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "group.min.session.timeout.ms": "1000",
        **BRIEF_SESSION,
        **more,
    }
    made = Controlled if more.get("process.roles") == "broker" else Broker
    return made(data, port=direct, config=config), Proxy(proxy, behind)


class Controlled(Broker):
    """A broker whose controller is a process of its own and lives on when the broker is killed, as that of a cluster does.

    Kafka 4.3.0 with both in one process loads the group's coordinator of the epoch before the kill, then that of the new one, and may take
    the first for the second. This controller lets the broker in once its old session is over.
    """

    def __init__(self, data: Path | None, port: int, config: Mapping[str, str]) -> None:
        voter = f"2@{config['controller.quorum.voters'].partition('@')[2]}"
        *listeners, controller = config["listeners"].split(",")
        common = {**config, "controller.quorum.voters": voter}
        super().__init__(data, port, config={**common, "listeners": ",".join(listeners)})
        own = {"process.roles": "controller", "node.id": "2", "listeners": controller}
        # Not in the broker's folder, whose disk may be full.
        self._controller = _Controller(config={**common, **own, "advertised.listeners": controller})

    def start(self) -> Self:
        if not self._controller.pid:
            self._controller.start()
        return super().start()

    def stop(self) -> None:
        super().stop()
        self._controller.stop()


class _Controller(Broker):
    def _wait_until_it_answers(self) -> None:
        """No client reaches it; the broker does, which waits for it."""
