"""The deployed platform with a console where people sign in at Keycloak, set up as docs/console.md says.

Keycloak listens at this machine's loopback address, where an issuer may be without TLS. The API's pod gets a second
container that forwards the same port of the pod's loopback address.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Page, expect

from tests.harness.cluster.deployed_platform import RESTRICTED, Platform, http
from tests.harness.cluster.kubectl import Kubectl
from tests.harness.identity.keycloak import Application, Keycloak, Person
from tests.harness.processes.tcp_relay import Relay
from tests.harness.session.waiting import eventually

NAMESPACE = "tieline-system"
DEPLOYMENT = "deployment/tieline-api"
ISSUERS, CLIENT = "issuers-of-a-test", "tieline-console-client"
PREFIX = "kc:"
FORWARD = """
import asyncio, sys

host, there, here = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


async def pump(source, sink):
    try:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    finally:
        sink.close()


async def relay(reader, writer):
    other, back = await asyncio.open_connection(host, there)
    await asyncio.gather(pump(reader, back), pump(other, writer), return_exceptions=True)


async def main():
    async with await asyncio.start_server(relay, "127.0.0.1", here) as server:
        await server.serve_forever()


asyncio.run(main())
"""


@dataclass(frozen=True)
class ConsoleAtIssuer:
    """The deployed console, and who signs people in."""

    url: str
    """Where browsers on this machine open it."""
    keycloak: Keycloak
    kubectl: Kubectl

    def person(self, namespace: str, role: str) -> Person:
        """Somebody with an account at Keycloak and a role in the namespace."""
        person = self.keycloak.person()
        self.kubectl(
            *("create", "rolebinding", f"{person.name}-is-{role}"),
            *(f"--clusterrole=tieline-{role}", f"--user={PREFIX}{person.name}"),
            namespace=namespace,
        )
        return person

    def sign_in(self, page: Page, person: Person) -> None:
        """Signs in as people do; ends at the overview."""
        page.goto(f"{self.url}/console/")
        page.get_by_role("link", name="Continue with Keycloak").click()
        page.locator("#username").fill(person.name)
        page.locator("#password").fill(person.password)
        page.locator("#kc-login, [name=login]").first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


@contextmanager
def console_at_issuer(platform: Platform, keycloak: Keycloak, image: str) -> Iterator[ConsoleAtIssuer]:
    """Configures the platform, and gives it its settings back at the end. ``image`` has Python."""
    kubectl = platform.kubectl
    address = urlsplit(platform.url)
    relay = Relay(address.port or 80, host=address.hostname or "")
    url = f"http://127.0.0.1:{relay.port}"
    application = keycloak.register(redirectUris=[f"{url}/console/callback"])
    before = _template(kubectl)
    _objects(kubectl, keycloak, application)
    patch = _patched(kubectl, keycloak, application, url, image)
    kubectl("patch", DEPLOYMENT, "--type=strategic", "-p", json.dumps(patch), namespace=NAMESPACE)
    try:
        _rolled_out(kubectl, url)
        yield ConsoleAtIssuer(url, keycloak, kubectl)
    finally:
        back = [{"op": "replace", "path": "/spec/template", "value": before}]
        kubectl("patch", DEPLOYMENT, "--type=json", "-p", json.dumps(back), namespace=NAMESPACE)
        _rolled_out(kubectl, url)
        kubectl("delete", "configmap", ISSUERS, namespace=NAMESPACE)
        kubectl("delete", "secret", CLIENT, namespace=NAMESPACE)


def _template(kubectl: Kubectl) -> Any:
    found = kubectl("get", DEPLOYMENT, "-o", "json", namespace=NAMESPACE).stdout
    return json.loads(found)["spec"]["template"]


def _objects(kubectl: Kubectl, keycloak: Keycloak, application: Application) -> None:
    """The client's secret, and the file with the issuers whose tokens the API accepts."""
    issuer = {
        "issuer": keycloak.issuer,
        "jwksUrl": f"{keycloak.issuer}/protocol/openid-connect/certs",
        "audiences": [application.id],
        "usernameClaim": "preferred_username",
        "prefix": PREFIX,
    }
    for kind, name, data in (
        ("ConfigMap", ISSUERS, {"data": {"issuers.json": json.dumps([issuer])}}),
        ("Secret", CLIENT, {"stringData": {"client-secret": application.secret}}),
    ):
        made = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **data}
        kubectl("apply", "-f", "-", namespace=NAMESPACE, stdin=json.dumps(made))


def _patched(
    kubectl: Kubectl, keycloak: Keycloak, application: Application, url: str, image: str
) -> dict[str, Any]:
    variables = {
        "TIELINE_PUBLIC_API_URL": url,
        "TIELINE_ISSUERS_FILE": "/etc/tieline/issuers.json",
        "TIELINE_CONSOLE_OIDC_ISSUER": keycloak.issuer,
        "TIELINE_CONSOLE_OIDC_CLIENT_ID": application.id,
        "TIELINE_CONSOLE_OIDC_NAME": "Keycloak",
    }
    api = {
        "name": "api",
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "volumeMounts": [{"name": "issuers", "mountPath": "/etc/tieline", "readOnly": True}],
    }
    port = urlsplit(keycloak.issuer).port or 80
    host = _address_for_pods(kubectl)
    forwarder = {
        "name": "to-issuer",
        "image": image,
        "command": ["python", "-c", FORWARD, host, str(Relay(port, listen=host).port), str(port)],
        "securityContext": {**RESTRICTED, "readOnlyRootFilesystem": True},
    }
    volume = {"name": "issuers", "configMap": {"name": ISSUERS}}
    return {"spec": {"template": {"spec": {"containers": [api, forwarder], "volumes": [volume]}}}}


def _address_for_pods(kubectl: Kubectl) -> str:
    """An address of this machine that the cluster's node reaches."""
    kind = '{.items[0].status.addresses[?(@.type=="InternalIP")].address}'
    node = kubectl("get", "nodes", "-o", f"jsonpath={kind}").stdout.strip()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((node, 9))
        return str(probe.getsockname()[0])


def _rolled_out(kubectl: Kubectl, url: str) -> None:
    kubectl("rollout", "status", DEPLOYMENT, "--timeout=180s", namespace=NAMESPACE, timeout=200)
    eventually("the console", lambda: http("GET", f"{url}/console/session", timeout=5).status == 200)
