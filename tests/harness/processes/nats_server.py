"""A real nats-server with JetStream, built from its Go module: what it trusts, and clients with the rights of pods."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.harness.cluster.kubectl import ROOT
from tests.harness.processes.ports import free_ports
from tieline_cluster.definition.nats_server import ensure_nats_server
from tieline_cluster.progress import Progress
from tieline_common.authorities import trusting
from tieline_core.engine.accounts import push_account
from tieline_core.engine.claims import Permissions
from tieline_core.engine.management import MANAGEMENT_PREFIX, managing_client
from tieline_core.engine.server_config import EngineConfig, tls_config
from tieline_core.engine.streams import StreamLimits, account_limits, ensure_environment
from tieline_core.engine.trust import MANAGEMENT, AccountSigner, EngineTrust, new_encryption_key
from tieline_core.tls import AUTHORITIES, CERTIFICATE, TlsMode
from tieline_engine.client import EngineClient
from tieline_engine.credentials import Credentials
from tieline_protocol.event_streams import EventStreams

_START_SECONDS = 30.0


@cache
def _start_command() -> list[str]:
    """The command of the deployed engine's container, without arguments."""
    manifest = yaml.safe_load_all((ROOT / "deploy/base/engine.yaml").read_text())
    (pod,) = [one["spec"]["template"]["spec"] for one in manifest if one["kind"] == "StatefulSet"]
    command: list[str] = pod["containers"][0]["command"]
    return command


class ManagingClient(EngineClient):
    """A client whose requests that manage streams and consumers go through the system account, as the operator's do."""

    def __init__(self, system: Client, account: str) -> None:
        super().__init__()
        self._system = system
        self._managed = managing_client(system, account)

    async def request(  # type: ignore[override]
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = 0.5,  # noqa: ASYNC109
        **more: Any,
    ) -> Msg:
        """See Client."""
        operation = subject.removeprefix("$JS.API.")
        # The consumer itself listens to its reset, in its account.
        managed = operation.startswith(MANAGEMENT) and not operation.startswith("CONSUMER.RESET")
        if operation != subject and managed:
            return await self._managed.request(f"{MANAGEMENT_PREFIX}.{operation}", payload, timeout=timeout)
        return await super().request(subject, payload, timeout, **more)

    async def close(self) -> None:
        """See Client. nats-py raises where the server has cut the connection, as it does when an account changes."""
        with suppress(ConnectionError):
            await self._system.close()
        with suppress(ConnectionError):
            await super().close()


@dataclass
class NatsServer:
    """A server, and the keys of those that it trusts."""

    folder: Path
    port: int
    monitoring_port: int
    sync_interval: str = "always"
    ping_interval: str = "3s"
    host: str = "127.0.0.1"
    """Where it listens."""
    cluster_port: int = 0
    routes: tuple[str, ...] = ()
    """URLs of all servers of its cluster."""
    name: str = "test"
    tls: TlsMode = TlsMode.DISABLED
    """Otherwise the folder has a certificate for localhost, its key, and the authorities that clients trust."""
    encryption_key: str = field(default_factory=new_encryption_key)
    trust: EngineTrust = field(default_factory=EngineTrust)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"{'tls' if self.tls.is_served else 'nats'}://{self.host}:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def pid(self) -> int:
        """Its number once it was started."""
        assert self._process is not None
        return self._process.pid

    def start(self, within: float = _START_SECONDS) -> None:
        """Starts it, and returns once it takes connections."""
        self.spawn()
        until = time.monotonic() + within
        while not self.ready():
            assert self._process is not None
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, self.log.read_text()
            time.sleep(0.02)

    def spawn(self) -> None:
        """Starts it, and does not wait."""
        program = ensure_nats_server(Progress())
        file = self.folder / "nats.conf"
        (self.folder / "data").mkdir(exist_ok=True)
        # One machine has all servers of a cluster here, so each has a port of its own for the others.
        file.write_text(
            self._config().text().replace(f"{self.host}:6222", f"{self.host}:{self.cluster_port}")
        )
        if self.tls.is_served:
            (self.folder / "tls.conf").write_text(tls_config(file.name, self.tls, str(self.folder)))
            file = self.folder / "tls.conf"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "setpriv",
                    "--pdeathsig",
                    "KILL",
                    *_start_command(),
                    str(self.folder / "data"),
                    str(self.folder / CERTIFICATE),
                    "-c",
                    str(file),
                ],
                env={
                    **os.environ,
                    "ENCRYPTION_KEY": self.encryption_key,
                    "TIELINE_CERTIFICATE_SECONDS": "0.2",
                    "PATH": f"{program.parent}:{os.environ['PATH']}",
                },
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """Ends it as a power failure of the process does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """SIGSTOP pauses it, SIGCONT lets it go on."""
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self, within: float = 20.0) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(within)

    def credentials_file(self) -> Path:
        """The file with which the platform connects."""
        file = self.folder / "platform.creds"
        if not file.exists():
            file.write_text(self.trust.credentials("platform", at=datetime.now(UTC)))
        return file

    def api_seed_file(self) -> Path:
        """The file with the key by which the API signs users of environments' accounts."""
        file = self.folder / "api.seed"
        if not file.exists():
            file.write_text(self.trust.api.seed)
        return file

    async def admin(self, **options: Any) -> Client:
        """A client with all rights in the platform's account, that manages its streams."""
        return await self._managing(self.trust.users, **options)

    async def environment(self, streams: EventStreams, **options: Any) -> Client:
        """A client with all rights in an environment's account, that manages its streams, once that was made."""
        return await self._managing(self.trust.users.of_environment(streams), **options)

    async def _managing(self, signer: AccountSigner, **options: Any) -> Client:
        client = ManagingClient(await self.client(None, signer=self.trust.system_users), signer.account)
        return await self.client(None, signer=signer, client=client, **options)

    async def pod(self, streams: EventStreams, **options: Any) -> Client:
        """A client with the rights of an environment's pods."""
        rights = Permissions(publish=streams.pods_publish(), subscribe=streams.pods_subscribe())
        signer = self.trust.users.of_environment(streams)
        return await self.client(rights, signer=signer, inbox_prefix=streams.inbox, **options)

    async def client(
        self,
        permissions: Permissions | None,
        *,
        signer: AccountSigner | None = None,
        expires: datetime | None = None,
        client: Client | None = None,
        **options: Any,
    ) -> Client:
        """A client of a user who is made for it, by default of the platform's account."""
        signer = signer or self.trust.users
        text = signer.credentials("test", at=datetime.now(UTC), expires=expires, permissions=permissions)
        user = Credentials.parse(text)
        chosen = {
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": 0.1,
            "user_jwt_cb": user.user_jwt_cb,
            "signature_cb": user.signature_cb,
            **options,
        }
        if self.tls.is_served:
            trusted = trusting((self.folder / AUTHORITIES).read_text())
            chosen |= {"tls": trusted, "tls_hostname": "localhost", "tls_handshake_first": True}
        client = client or Client()
        await client.connect(self.url, **chosen)
        return client

    async def make_account(self, streams: EventStreams, limits: StreamLimits) -> None:
        """Gives the server the account of an environment, as the operator does."""
        jwt = self.trust.environment_jwt(streams, account_limits(limits), at=datetime.now(UTC))
        system = await self.client(None, signer=self.trust.system_users)
        try:
            await push_account(system, jwt)
        finally:
            await system.close()

    async def make_environment(self, streams: EventStreams, limits: StreamLimits) -> None:
        """Makes the account and the streams of an environment, as the operator does."""
        await self.make_account(streams, limits)
        client = await self.environment(streams)
        try:
            await ensure_environment(client.jetstream(), streams, limits)
        finally:
            await client.close()

    def _config(self) -> EngineConfig:
        now = datetime.now(UTC)
        return EngineConfig(
            operator=self.trust.operator_jwt(now),
            system_account=self.trust.system.public_key,
            accounts=self.trust.accounts(now),
            storage=str(self.folder / "data"),
            encryption_key="$ENCRYPTION_KEY",
            host=self.host,
            routes=self.routes,
            port=self.port,
            monitoring_host=self.host,
            monitoring_port=self.monitoring_port,
            server_name=self.name,
            sync_interval=self.sync_interval,
            ping_interval=self.ping_interval,
        )

    def ready(self) -> bool:
        """Whether it works, with the others of its cluster."""
        url = f"http://{self.host}:{self.monitoring_port}/healthz"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@contextmanager
def running_nats_server(
    folder: Path,
    *,
    sync_interval: str = "always",
    ping_interval: str = "3s",
    tls: TlsMode = TlsMode.DISABLED,
) -> Iterator[NatsServer]:
    """A server that keeps its files in ``folder``."""
    port, monitoring_port = free_ports(2)
    server = NatsServer(
        folder=folder,
        port=port,
        monitoring_port=monitoring_port,
        sync_interval=sync_interval,
        ping_interval=ping_interval,
        tls=tls,
    )
    server.start()
    try:
        yield server
    finally:
        server.stop()
