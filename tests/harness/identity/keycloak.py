"""A real OAuth server and the people who log in there, for tests."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urljoin

from tests.harness.cluster.deployed_platform import Answer, http
from tests.harness.cluster.kubectl import ROOT
from tests.harness.identity.certificate_authority import Authority, pem
from tests.harness.identity.http_browser import FormClient, form_of, hidden_fields
from tests.harness.processes.ports import free_ports

REALM = "shop"
START_SECONDS = 480.0
"""With the installation, on a busy machine. The start alone takes 11 s on two idle cores."""
EVENTS = ("LOGIN", "CODE_TO_TOKEN", "REFRESH_TOKEN", "CLIENT_LOGIN")
"""What is recorded, with the failures of each."""
_ADMIN = "tests"


@dataclass(frozen=True)
class Application:
    """A client that is registered at Keycloak."""

    id: str
    uuid: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class Person:
    """Somebody with an account at Keycloak."""

    id: str
    name: str
    password: str = field(repr=False)


class Keycloak:
    """One server, with one realm in which refresh tokens rotate and may be used once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "keycloak.log"
        self.authority = Authority()
        self._port, self._tls_port = free_ports(2)
        self._password = secrets.token_urlsafe(16)
        self._process: subprocess.Popen[bytes] | None = None
        self._token = ""
        self._token_until = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def issuer(self) -> str:
        """The realm's address."""
        return f"{self.url}/realms/{REALM}"

    @property
    def token_url(self) -> str:
        return f"{self.issuer}/protocol/openid-connect/token"

    @property
    def authorize_url(self) -> str:
        return f"{self.issuer}/protocol/openid-connect/auth"

    @property
    def tls_token_url(self) -> str:
        """The token URL that asks for a client certificate of ``authority``."""
        return f"https://127.0.0.1:{self._tls_port}/realms/{REALM}/protocol/openid-connect/token"

    def start(self) -> None:
        """Starts it and returns at once. It dies with the thread that calls this."""
        certificate, key = self.authority.issue("Keycloak")
        for name, text in (
            ("ca.pem", self.authority.ca),
            ("server.pem", certificate),
            ("server.key", pem(key)),
        ):
            path = self.folder / name
            path.touch(mode=0o600)
            path.write_text(text)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(
                        "setpriv",
                        "--pdeathsig",
                        "KILL",
                        sys.executable,
                        "-m",
                        "tests.harness.identity.keycloak_process",
                    ),
                    *(str(self.folder), str(self._port), str(self._tls_port)),
                ],
                cwd=ROOT,
                env=_environment(self._password),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait(self) -> None:
        """Returns once it answers and has its realm."""
        assert self._process is not None, "Keycloak has not been started"
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            said = self.log.read_text(errors="replace")[-4000:]
            assert self._process.poll() is None, f"Keycloak ended ({self._process.returncode}):\n{said}"
            assert time.monotonic() < until, (
                f"Keycloak does not answer after {START_SECONDS:.0f} s; its log {self.log} ends with:\n{said}"
            )
            time.sleep(0.2)
        self.admin("POST", "", _realm(), realm="", status=201)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=30)

    def admin(
        self, method: str, path: str, body: Any = None, *, realm: str = f"/{REALM}", status: int = 0
    ) -> Answer:
        """A call of the admin API below the realm; it must have succeeded (with ``status``, where given)."""
        headers = {"Authorization": f"Bearer {self._admin_token()}"}
        url = f"{self.url}/admin/realms{realm}{path}"
        answer = http(method, url, body=body, headers=headers, timeout=START_SECONDS)
        expected = answer.status == status if status else answer.status < 300
        assert expected, f"{method} {path}: {answer.status} {answer.body.decode(errors='replace')[:2000]}"
        return answer

    def register(
        self, *, lifetime: int = 300, attributes: dict[str, str] | None = None, **more: Any
    ) -> Application:
        """A confidential client for the authorisation code, with PKCE required; ``more`` changes that.

        ``lifetime`` is its access tokens', in seconds.
        """
        identifier, secret = f"client-{secrets.token_hex(6)}", secrets.token_urlsafe(24)
        representation = {
            "clientId": identifier,
            "secret": secret,
            "publicClient": False,
            "standardFlowEnabled": True,
            "directAccessGrantsEnabled": False,
            "serviceAccountsEnabled": False,
            "redirectUris": ["*"],
            "attributes": {
                "pkce.code.challenge.method": "S256",
                "access.token.lifespan": str(lifetime),
                **(attributes or {}),
            },
            **more,
        }
        answer = self.admin("POST", "/clients", representation, status=201)
        return Application(id=identifier, uuid=_made(answer), secret=secret)

    def register_service(self, **more: Any) -> Application:
        """A client for client credentials."""
        return self.register(**{"standardFlowEnabled": False, "serviceAccountsEnabled": True, **more})

    def register_for_passwords(self, **more: Any) -> Application:
        """A client that takes its users' passwords."""
        return self.register(**{"standardFlowEnabled": False, "directAccessGrantsEnabled": True, **more})

    def register_for_devices(self, *, code_seconds: int = 300, **more: Any) -> Application:
        """A public client whose users sign in on another device, such as a command line."""
        attributes = {
            "pkce.code.challenge.method": "",
            "oauth2.device.authorization.grant.enabled": "true",
            "oauth2.device.code.lifespan": str(code_seconds),
            "oauth2.device.polling.interval": "1",
        }
        return self.register(
            attributes=attributes, **{"publicClient": True, "standardFlowEnabled": False, **more}
        )

    def register_for_certificate(self, subject: str, **more: Any) -> Application:
        """A client for client credentials whose certificate is its proof (RFC 8705, section 2.1)."""
        attributes = {"x509.subjectdn": subject, "x509.allow.regex.pattern.comparison": "false"}
        return self.register_service(clientAuthenticatorType="client-x509", attributes=attributes, **more)

    def person(self) -> Person:
        """Somebody new with an account and a password."""
        name, password = f"person-{secrets.token_hex(6)}", secrets.token_urlsafe(16)
        representation = {
            "username": name,
            "enabled": True,
            "email": f"{name}@shop.example",
            "emailVerified": True,
            "firstName": "Pat",
            "lastName": "Doe",
            "credentials": [{"type": "password", "value": password, "temporary": False}],
        }
        return Person(
            id=_made(self.admin("POST", "/users", representation, status=201)), name=name, password=password
        )

    def events(self, kind: str, application: Application) -> list[dict[str, Any]]:
        """What happened to a client, as Keycloak has recorded it: one of EVENTS, or that with ``_ERROR``."""
        assert kind.removesuffix("_ERROR") in EVENTS, f"{kind} is not recorded"
        query = urlencode({"type": kind, "client": application.id, "max": 500})
        found: list[dict[str, Any]] = self.admin("GET", f"/events?{query}").json
        return found

    def owner_of(self, access_token: str) -> str:
        """Whom Keycloak takes the bearer of an access token for; it needs the scope ``openid``."""
        url = f"{self.issuer}/protocol/openid-connect/userinfo"
        answer = http("GET", url, headers={"Authorization": f"Bearer {access_token}"})
        assert answer.status == 200, f"Keycloak does not take the token: {answer.status} {answer.body!r}"
        return str(answer.json["preferred_username"])

    def end_sessions(self, person: Person, application: Application) -> None:
        """Takes from the client all that the person has granted it: its refresh tokens are void."""
        self.admin("POST", f"/users/{person.id}/logout")
        sessions = self.admin("GET", f"/users/{person.id}/offline-sessions/{application.uuid}").json
        for session in sessions:
            self.admin("DELETE", f"/sessions/{session['id']}?isOffline=true")

    def log_in(self, url: str, person: Person, *, grant: bool = True) -> str:
        """What a person's browser does with an authorise URL: where it is sent in the end."""
        client = FormClient()
        page, location = client.get(url)
        while not location:
            if 'name="password"' in page:
                fields = {"username": person.name, "password": person.password}
            else:
                fields = hidden_fields(page) | ({"accept": "Yes"} if grant else {"cancel": "No"})
            page, location = client.post(form_of(page, url), fields)
            if location.startswith(self.url):
                page, location = client.get(location)
        return location

    def enter_device_code(self, url: str, code: str, person: Person, *, grant: bool = True) -> str:
        """What a person does with a code for another device; the page at the end."""
        client = FormClient()
        page, location = client.get(url)
        while True:
            while location:
                page, location = client.get(urljoin(url, location))
            if 'name="device_user_code"' in page:
                fields = {"device_user_code": code}
            elif 'name="password"' in page:
                fields = {"username": person.name, "password": person.password}
            elif 'name="accept"' in page:
                fields = hidden_fields(page) | ({"accept": "Yes"} if grant else {"cancel": "No"})
            else:
                return page
            page, location = client.post(form_of(page, url), fields)

    def _answers(self) -> bool:
        with suppress(OSError):
            return http("GET", f"{self.url}/realms/master", timeout=5).status == 200
        return False

    def _admin_token(self) -> str:
        if time.monotonic() > self._token_until:
            form = {
                "grant_type": "password",
                "client_id": "admin-cli",
                "username": _ADMIN,
                "password": self._password,
            }
            url = f"{self.url}/realms/master/protocol/openid-connect/token"
            with urllib.request.urlopen(url, data=urlencode(form).encode(), timeout=30) as response:
                self._token = json.load(response)["access_token"]
            self._token_until = time.monotonic() + 30
        return self._token


def _realm() -> dict[str, Any]:
    return {
        "realm": REALM,
        "enabled": True,
        "accessTokenLifespan": 300,
        "revokeRefreshToken": True,
        "refreshTokenMaxReuse": 0,
        "eventsEnabled": True,
        "eventsExpiration": 3600,
        "enabledEventTypes": [*EVENTS, *(f"{kind}_ERROR" for kind in EVENTS)],
        "loginTheme": "keycloak",
    }


def _environment(password: str) -> dict[str, str]:
    return {**os.environ, "KC_BOOTSTRAP_ADMIN_USERNAME": _ADMIN, "KC_BOOTSTRAP_ADMIN_PASSWORD": password}


def _made(answer: Answer) -> str:
    return answer.headers["Location"].rpartition("/")[2]
