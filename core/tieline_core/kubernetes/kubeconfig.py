"""How the API server is reached: kubeconfig or the pod's own ServiceAccount, read by ``kubernetes.aio``."""

import asyncio
import logging
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.aio.config.incluster_config import SERVICE_HOST_ENV_NAME

from tieline_core.kubernetes.errors import Unavailable

logger = logging.getLogger(__name__)

DEFAULT_KUBECONFIG = str(Path.home() / ".kube" / "config")
# Plugins that fetch credentials may ask over the network.
_LOADING_SECONDS = 30.0
_RENEWAL_PAUSE = 10.0
_UNREADABLE = (ConfigException, OSError, TypeError, ValueError, AttributeError, KeyError, yaml.YAMLError)


class NoClusterError(Exception):
    """There is no way to a cluster; the message says what to set."""


@dataclass
class _Renewals:
    """When credentials were last read again; one reader at a time."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    last: float = float("-inf")


@dataclass(frozen=True)
class ClusterConnection:
    """Address, TLS and credentials of an API server."""

    url: str
    tls: ssl.SSLContext | bool
    configuration: Configuration
    proxy: str | None = None
    server_hostname: str | None = None
    reload: Callable[[], Awaitable[None]] | None = None
    """Reads the credentials again, into ``configuration``."""
    _renewals: _Renewals = field(default_factory=_Renewals, repr=False, compare=False)

    async def authorization(self) -> str | None:
        """The Authorization header's value. A pod's token is read again each minute.

        Raises Unavailable when the token cannot be read just now.
        """
        try:
            token: str | None = await self.configuration.get_api_key_with_prefix("BearerToken")
        except (ConfigException, OSError) as error:
            raise Unavailable(
                f"The ServiceAccount's token cannot be read: {_without_values(error)}"
            ) from None
        if token:
            # The library writes "bearer" in lower case; some proxies compare letters.
            scheme, _, value = token.partition(" ")
            return f"Bearer {value.strip()}" if scheme.lower() == "bearer" else token
        if self.configuration.username:
            return str(self.configuration.get_basic_auth_token())
        return None

    async def renew(self, refused: str | None) -> bool:
        """Whether there are other credentials than those that were refused, if need be by reading them again.

        This is how short-lived tokens of plugins (the clouds') and token files are followed.
        """
        if self.reload is None:
            return False
        async with self._renewals.lock:
            if await self.authorization() != refused:
                return True
            if time.monotonic() - self._renewals.last < _RENEWAL_PAUSE:
                return False
            self._renewals.last = time.monotonic()
            try:
                async with asyncio.timeout(_LOADING_SECONDS):
                    await self.reload()
            except _UNREADABLE as error:
                logger.warning("The credentials cannot be read again: %s", _without_values(error))
                return False
            return await self.authorization() != refused


async def connection(
    *, kubeconfig: str | Path | None = None, context: str | None = None
) -> ClusterConnection:
    """The connection of an explicit kubeconfig, else KUBECONFIG, else the pod's, else ``~/.kube/config``.

    Raises NoClusterError when there is none, or when it cannot be read.
    """
    configuration = Configuration()
    path = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG")
    in_cluster = not path and SERVICE_HOST_ENV_NAME in os.environ

    async def load() -> None:
        await load_kube_config(  # type: ignore[no-untyped-call]
            config_file=path or DEFAULT_KUBECONFIG,
            context=context,
            client_configuration=configuration,
            persist_config=False,
        )

    try:
        if in_cluster:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            async with asyncio.timeout(_LOADING_SECONDS):
                await load()
        tls = _tls(configuration)
    except _UNREADABLE as error:
        where = "the pod's ServiceAccount" if in_cluster else path or DEFAULT_KUBECONFIG
        raise NoClusterError(
            f"No Kubernetes cluster by {where}: {_without_values(error)}. "
            "Set KUBECONFIG to a kubeconfig file, or run inside a cluster"
        ) from None
    return ClusterConnection(
        url=str(configuration.host).rstrip("/"),
        tls=tls,
        configuration=configuration,
        proxy=configuration.proxy or None,
        server_hostname=configuration.tls_server_name or None,
        reload=None if in_cluster else load,
    )


def _without_values(error: Exception) -> str:
    """The first words: the library's messages go on with the whole user entry, token and all."""
    text = str(error) or type(error).__name__
    if isinstance(error, OSError):
        return text
    return text.partition(" in ")[0].partition("\n")[0][:200]


def _tls(configuration: Configuration) -> ssl.SSLContext | bool:
    if not str(configuration.host).startswith("https"):
        return True
    context = ssl.create_default_context(
        cafile=configuration.ssl_ca_cert, cadata=getattr(configuration, "ca_cert_data", None)
    )
    # Clusters' own authorities often lack what RFC 5280 wants of them since Python 3.13.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
