"""Addresses by which this machine reaches a cluster's Services: their own, or ports that kubectl forwards."""

import re
import socket
import time
from pathlib import Path
from typing import Protocol

from tieline_cluster.deployment.kubectl import Kubectl
from tieline_cluster.errors import ClusterError
from tieline_cluster.interface import Cluster
from tieline_cluster.processes import ProcessRecords, end

_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")
_FORWARD_TIMEOUT = 30.0


class ServiceAccess(Protocol):
    """How Services are reached."""

    def url(self, namespace: str, service: str) -> str:
        """A base URL of port 80 of the Service. Raises ClusterError."""
        ...

    def address(self, namespace: str, service: str) -> str:
        """What ``url`` will be, for a Service that may have no ready pods yet."""
        ...


class Direct:
    """The Services' own addresses."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl

    def url(self, namespace: str, service: str) -> str:
        """The Service's cluster IP."""
        address = self._kubectl(
            "get", "service", service, "-n", namespace, "-o", "jsonpath={.spec.clusterIP}"
        )
        return f"http://{address.strip()}"

    address = url


# kubectl ends when the pod that it forwards to is replaced.
_AGAIN = """trap 'kill $! 2>/dev/null; exit' TERM
while :; do "$@" & wait $!; sleep 1; done"""


class Forwarded:
    """Ports of this machine, by ``kubectl port-forward`` in the background until ``stop``.

    They are named by localhost, which browsers trust as they trust HTTPS: they keep cookies there that are for secure
    connections only.
    """

    def __init__(self, kubectl: Kubectl, folder: Path) -> None:
        self._kubectl = kubectl
        self._folder = folder
        self._records = ProcessRecords(folder)

    def address(self, namespace: str, service: str) -> str:
        """The port that ``url`` forwards; it stays the same for the Service."""
        return f"http://localhost:{self._port(f'{namespace}.{service}')}"

    def _port(self, name: str) -> int:
        """The Service's port on this machine: a free one, noted when it is first asked for."""
        note = self._folder / f"{name}.port"
        if not note.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                note.write_text(str(probe.getsockname()[1]))
        return int(note.read_text())

    def url(self, namespace: str, service: str) -> str:
        """A forwarded port; the forwarding that an earlier call began goes on."""
        name = f"{namespace}.{service}"
        log = self._folder / f"{name}.log"
        if self._records.find(name) is None:
            ports = f"{self._port(name)}:80"
            argv = self._kubectl.command("port-forward", "-n", namespace, f"service/{service}", ports)
            again = ["sh", "-c", _AGAIN, "sh", *argv]
            self._records.start(name, again, fingerprint="", log=log, env=self._kubectl.environment)
        until = time.monotonic() + _FORWARD_TIMEOUT
        while time.monotonic() < until:
            found = _FORWARDING.search(log.read_text())
            if found:
                return f"http://localhost:{found.group(1)}"
            if self._records.find(name) is None:
                break
            time.sleep(0.1)
        raise ClusterError(
            f"kubectl does not forward a port to {namespace}/{service}: {log.read_text().strip()}"
        )


def service_access_for(cluster: Cluster, kubectl: Kubectl, folder: Path) -> ServiceAccess:
    """The Services' own addresses where this machine reaches them, else forwarded ports kept in ``folder``."""
    return Direct(kubectl) if cluster.host_reachable else Forwarded(kubectl, folder)


def stop(folder: Path) -> None:
    """Ends all forwarding that is recorded in ``folder``."""
    records = ProcessRecords(folder)
    found = records.all()
    end(found.values(), grace=2)
    for name in found:
        records.forget(name)
    for note in folder.glob("*.port"):
        note.unlink(missing_ok=True)
