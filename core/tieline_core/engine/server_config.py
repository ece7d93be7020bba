"""The configuration file of nats-server."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tieline_core.tls import CERTIFICATE, KEY, TlsMode
from tieline_protocol.event_streams import MAX_MESSAGE_BYTES

SINGLE_NAME = "TIELINE_SERVER_NAME"
"""The variable with a server's name, where there is one server."""
CLUSTERED_NAME = "TIELINE_CLUSTERED_SERVER_NAME"
"""The same, where there are several."""

_MAX_PENDING = 32 << 20
# How long a server that serves both waits for a client to begin with TLS before it greets in plain text.
_TLS_FIRST = "300ms"
_ASK_OTHERS, _ASK_NOBODY = "1500ms", "100ms"


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """The configuration of a server of the engine."""

    operator: str
    """The operator's JWT."""
    system_account: str
    """Public key."""
    accounts: Mapping[str, str]
    """JWTs by public key, the system account's among them. Accounts of environments are pushed to the servers."""
    storage: str
    """Folder."""
    encryption_key: str
    """A secret: what is stored is encrypted with it. The variable of the server's environment that has it, after $."""
    host: str = "0.0.0.0"  # noqa: S104 - a pod's own address
    port: int = 4222
    monitoring_host: str = "127.0.0.1"
    """Only the pod itself reaches the monitoring port: it answers anyone, with the names of all organisations and
    environments.
    """
    monitoring_port: int = 8222
    server_name: str = ""
    """By default a variable of the server's environment has it: SINGLE_NAME, or with routes CLUSTERED_NAME. A pod has
    one of them, so it does not start with a configuration that is meant for another number of servers.
    """
    routes: Sequence[str] = ()
    """URLs of all servers of the cluster; none for a server of its own."""
    max_payload: int = MAX_MESSAGE_BYTES
    """Bytes."""
    ping_interval: str = "10s"
    """A client that does not answer two pings is disconnected: a pod that hangs gets no more events then."""
    max_file_store: int = 1 << 50
    """Bytes that the bounds of all streams may add up to. JetStream reserves a stream's bound when it makes the stream,
    whatever is stored. The volume is smaller: it bounds what is stored, and a full one refuses.
    """
    sync_interval: str = "always"
    """When stored events are synced to the disk: before they are acknowledged."""

    def text(self) -> str:
        """The file."""
        accounts = "\n".join(f"  {account}: {json.dumps(jwt)}" for account, jwt in self.accounts.items())
        server_name = self.server_name or f"${CLUSTERED_NAME if self.routes else SINGLE_NAME}"
        # A server that joins others deletes streams of the time when it was alone: it never gets to see them.
        folder = f"{self.storage}/{'cluster' if self.routes else 'single'}"
        return (
            f"listen: {json.dumps(f'{self.host}:{self.port}')}\n"
            f"http: {json.dumps(f'{self.monitoring_host}:{self.monitoring_port}')}\n"
            f"server_name: {server_name}\n"
            f"operator: {json.dumps(self.operator)}\n"
            f"system_account: {self.system_account}\n"
            "resolver {\n"
            "  type: full\n"
            f"  dir: {json.dumps(f'{self.storage}/accounts')}\n"
            "  allow_delete: true\n"
            '  interval: "2m"\n'
            # How long it asks other servers for an account that it does not know, while a client waits to be let in.
            f"  timeout: {json.dumps(_ASK_OTHERS if self.routes else _ASK_NOBODY)}\n"
            "}\n"
            f"resolver_preload {{\n{accounts}\n}}\n"
            f"max_payload: {self.max_payload}\n"
            f"ping_interval: {json.dumps(self.ping_interval)}\n"
            "ping_max: 2\n"
            'write_deadline: "10s"\n'
            # What the server keeps in memory for a client that does not read.
            f"max_pending: {_MAX_PENDING}\n"
            "jetstream {\n"
            f"  store_dir: {json.dumps(folder)}\n"
            f"  max_file_store: {self.max_file_store}\n"
            f"  sync_interval: {self.sync_interval}\n"
            "  cipher: chachapoly\n"
            f"  key: {self.encryption_key}\n"
            "}\n"
            f"{self._cluster()}"
        )

    def _cluster(self) -> str:
        if not self.routes:
            return ""
        routes = "".join(f"    {json.dumps(route)}\n" for route in self.routes)
        return f'cluster {{\n  name: tieline\n  listen: "{self.host}:6222"\n  routes: [\n{routes}  ]\n}}\n'


def tls_config(base: str, mode: TlsMode, certificates: str) -> str:
    """The file of a server that serves TLS: the configuration in the file ``base`` beside it, and what adds TLS.

    ``certificates`` is the folder with certificate and key, which the server reads again at SIGHUP.
    """
    first = "true" if mode is TlsMode.REQUIRED else json.dumps(_TLS_FIRST)
    return (
        f"include {json.dumps(base)}\n"
        "tls {\n"
        f"  cert_file: {json.dumps(f'{certificates}/{CERTIFICATE}')}\n"
        f"  key_file: {json.dumps(f'{certificates}/{KEY}')}\n"
        '  min_version: "1.2"\n'
        f"  handshake_first: {first}\n"
        "  timeout: 5\n"
        "}\n"
        f"{'allow_non_tls: true' if mode.is_plain_served else ''}\n"
    )
