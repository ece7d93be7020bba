"""A TCP relay, such as between a part of the platform and the API server, which tests can hold up or cut."""

import asyncio
import socket
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import yaml


class Relay:
    """A relay to a port of this machine, or of ``host``; it listens at the address ``listen``.

    With ``line_seconds`` every line from there comes on its own, so many seconds after the one before.
    """

    def __init__(
        self, port: int, *, host: str = "127.0.0.1", listen: str = "127.0.0.1", line_seconds: float = 0
    ) -> None:
        self._target = (host, port)
        self._address = listen
        self._line_seconds = line_seconds
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._cut = False
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.port: int = self._run(self._listen())

    def cut(self) -> None:
        """Breaks all connections and takes no new ones."""

        async def work() -> None:
            self._cut = True
            for writer in self._writers:
                writer.close()

        self._run(work())

    def mend(self) -> None:
        """Takes connections again."""

        async def work() -> None:
            self._cut = False

        self._run(work())

    def hold(self) -> None:
        """Lets nothing through, and keeps it."""
        self._run(self._set(False))

    def release(self) -> None:
        """Lets everything through again."""
        self._run(self._set(True))

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _set(self, flowing: bool) -> None:
        if flowing:
            self._flowing.set()
        else:
            self._flowing.clear()

    async def _listen(self) -> int:
        self._flowing = asyncio.Event()
        self._flowing.set()
        server = await asyncio.start_server(self._relay, self._address, 0)
        found: int = server.sockets[0].getsockname()[1]
        return found

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            writer.close()
            return
        try:
            there, back = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        both = {writer, back}
        self._writers |= both

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, line_seconds: float) -> None:
            try:
                while data := await source.read(65536):
                    for part in data.splitlines(keepends=True) if line_seconds else [data]:
                        await asyncio.sleep(line_seconds)
                        await self._flowing.wait()
                        sink.write(part)
                        await sink.drain()
            except OSError:
                pass
            finally:
                sink.close()

        await asyncio.gather(
            pump(reader, back, 0), pump(there, writer, self._line_seconds), return_exceptions=True
        )
        self._writers -= both


def through_relay(kubeconfig: Path, path: Path) -> tuple[Relay, Path]:
    """A relay, and a copy of ``kubeconfig`` at ``path`` that goes through it."""
    config = yaml.safe_load(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    host, _, port = cluster["server"].removeprefix("https://").partition(":")
    if socket.gethostbyname(host) != "127.0.0.1":
        pytest.skip("the API server's certificate must be good for 127.0.0.1, where the relay listens")
    relay = Relay(int(port))
    cluster["server"] = f"https://127.0.0.1:{relay.port}"
    path.write_text(yaml.safe_dump(config))
    return relay, path
