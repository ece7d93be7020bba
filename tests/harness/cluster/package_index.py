"""A package index of the test's own: wheels that it makes, behind a password and a certificate of its own authority."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.harness.cluster.deployed_platform import external_system
from tests.harness.cluster.kubectl import Kubectl
from tests.harness.identity.certificate_authority import Authority, pem

NAMESPACE = "package-index"
_HOST = f"index.{NAMESPACE}.svc"
URL = f"https://{_HOST}:80/simple"
SECRET = "package-index"
USER, PASSWORD = "reader", "an-index-password"
_AUTHORITY = Authority()
SETTINGS = {
    "TIELINE_PACKAGES_INDEX_URL": URL,
    "TIELINE_PACKAGES_INDEX_SECRET": SECRET,
    "TIELINE_PACKAGES_CA": _AUTHORITY.ca,
}
"""Of a platform that installs from it."""

_PROGRAM = """
import base64, http.server, ssl

CERTIFICATE = {certificate!r}
FILES = {files!r}
ALLOWED = 'Basic ' + base64.b64encode(b'{user}:{password}').decode()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        parts = self.path.strip('/').split('/')
        names = [name for name in FILES if parts[:1] == ['simple'] and name.split('-')[0] == parts[-1]]
        if self.path == '/':
            return self.answer(200, b'')
        if self.headers.get('Authorization') != ALLOWED:
            return self.answer(401, b'', ('WWW-Authenticate', 'Basic'))
        if parts[-1] in FILES:
            return self.answer(200, base64.b64decode(FILES[parts[-1]]))
        links = ''.join(f'<a href="/files/{{name}}">{{name}}</a>' for name in names)
        self.answer(200 if names else 404, links.encode(), ('Content-Type', 'text/html'))

    def answer(self, status, body, *headers):
        self.send_response(status)
        for name, value in (*headers, ('Content-Length', str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


server = http.server.ThreadingHTTPServer(('', 8080), Handler)
tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
with open('/tmp/certificate.pem', 'w') as file:
    file.write(CERTIFICATE)
tls.load_cert_chain('/tmp/certificate.pem')
server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
server.serve_forever()
"""


@dataclass(frozen=True)
class Wheel:
    """A package with one module."""

    name: str
    version: str
    code: str

    @property
    def filename(self) -> str:
        return f"{self.name}-{self.version}-py3-none-any.whl"

    @property
    def content(self) -> bytes:
        """The wheel, the same each time."""
        info = f"{self.name}-{self.version}.dist-info"
        files = {
            f"{self.name}.py": self.code,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {self.version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w") as archive:
            for name, text in files.items():
                archive.writestr(zipfile.ZipInfo(name), text)
        return target.getvalue()

    @property
    def locked(self) -> str:
        """The wheel as a line of a lock."""
        digest = hashlib.sha256(self.content).hexdigest()
        return f"{self.name}=={self.version} --hash=sha256:{digest}\n"


def serve(kubectl: Kubectl, image: str, *wheels: Wheel) -> None:
    """Has the index serve these wheels, and no others; returns once it does."""
    manifests = index(image, *wheels)
    kubectl("delete", "pod", "index", "--ignore-not-found", "--wait", namespace=NAMESPACE)
    kubectl("create", "namespace", NAMESPACE, check=False)
    _apply(kubectl, NAMESPACE, *manifests)
    kubectl("wait", "--for=condition=Ready", "pod/index", "--timeout=60s", namespace=NAMESPACE)


def stop(kubectl: Kubectl) -> None:
    """Takes the index away."""
    kubectl("delete", "pod", "index", "--ignore-not-found", "--wait", namespace=NAMESPACE)


def let_in(kubectl: Kubectl, namespace: str, password: str = PASSWORD) -> None:
    """Gives an organisation the credentials of the index."""
    data = {"username": USER, "password": password}
    metadata = {"name": SECRET}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}
    _apply(kubectl, namespace, secret)


def index(image: str, *wheels: Wheel) -> list[Mapping[str, Any]]:
    """The index as a pod and its Service."""
    files = {wheel.filename: base64.b64encode(wheel.content).decode() for wheel in wheels}
    certificate, key = _AUTHORITY.issue("index", host=_HOST)
    program = _PROGRAM.format(files=files, user=USER, password=PASSWORD, certificate=certificate + pem(key))
    pod, service = external_system("index", image=image, program=program)
    (container,) = pod["spec"]["containers"]
    container["readinessProbe"]["httpGet"]["scheme"] = "HTTPS"
    return [pod, service]


def _apply(kubectl: Kubectl, namespace: str, *manifests: Mapping[str, Any]) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    kubectl("apply", "-f", "-", namespace=namespace, stdin=text)
