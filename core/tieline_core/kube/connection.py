"""How the API server is reached: kubeconfig or the pod's own ServiceAccount, read by ``kubernetes.aio``."""

import os
import ssl
from dataclasses import dataclass
from pathlib import Path

from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from kubernetes.aio.config.incluster_config import SERVICE_HOST_ENV_NAME

from tieline_core.kube.errors import Unauthorized

DEFAULT_KUBECONFIG = str(Path.home() / ".kube" / "config")


class NoClusterError(Exception):
    """There is no way to a cluster; the message says what to set."""


@dataclass(frozen=True)
class Connection:
    """Address, TLS and credentials of an API server."""

    url: str
    tls: ssl.SSLContext | bool
    configuration: Configuration
    proxy: str | None = None

    async def authorization(self) -> str | None:
        """The Authorization header's value; tokens from files and plugins are refreshed here.

        Raises Unauthorized when that fails.
        """
        try:
            token: str | None = await self.configuration.get_api_key_with_prefix("BearerToken")
        except (ConfigException, OSError, ValueError) as error:
            raise Unauthorized(f"Cannot get credentials for {self.url}: {error}", status=401) from error
        if token:
            # The library writes "bearer" in lower case; some proxies compare letters.
            scheme, _, value = token.partition(" ")
            return f"Bearer {value.strip()}" if scheme.lower() == "bearer" else token
        if self.configuration.username:
            return str(self.configuration.get_basic_auth_token())
        return None


async def connection(*, kubeconfig: str | Path | None = None, context: str | None = None) -> Connection:
    """The connection of an explicit kubeconfig, else KUBECONFIG, else the pod's, else ``~/.kube/config``.

    Raises NoClusterError when there is none, or when it cannot be read.
    """
    configuration = Configuration()
    path = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG")
    try:
        if path is None and SERVICE_HOST_ENV_NAME in os.environ:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            await load_kube_config(  # type: ignore[no-untyped-call]
                config_file=path or DEFAULT_KUBECONFIG,
                context=context,
                client_configuration=configuration,
            )
    except (ConfigException, OSError, TypeError, ValueError) as error:
        raise NoClusterError(
            f"No Kubernetes cluster: {error}. Set KUBECONFIG to a kubeconfig file, or run inside a cluster"
        ) from error
    return Connection(
        url=str(configuration.host).rstrip("/"),
        tls=_tls(configuration),
        configuration=configuration,
        proxy=configuration.proxy or None,
    )


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
