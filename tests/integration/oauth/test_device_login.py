"""``tieline login`` at a real OpenID Connect issuer on another device (RFC 8628), and commands with its tokens."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.identity.keycloak import Application, Keycloak, Person
from tests.harness.processes.ports import free_port
from tests.harness.processes.running_api import RunningApi
from tests.harness.session.waiting import eventually
from tests.integration.console.issuer import AUDIENCE_MAPPER, PREFIX

pytestmark = pytest.mark.cluster

COMMAND = (sys.executable, "-c", "from tieline.cli.main import main; main()")


@dataclass(frozen=True)
class Platform:
    """An API that accepts the issuer's tokens, and the client of the command line there."""

    api: RunningApi
    keycloak: Keycloak
    application: Application
    kubectl: Kubectl
    org: Organisation

    def person(self) -> Person:
        """Somebody with an account at Keycloak and a role in the organisation."""
        person = self.keycloak.person()
        self.kubectl(
            *("create", "rolebinding", f"{person.name}-edits", "--clusterrole=tieline-editor"),
            f"--user={PREFIX}{person.name}",
            namespace=self.org.namespace,
        )
        return person


@dataclass
class Terminal:
    """The commands of one person, with a configuration of their own."""

    platform: Platform
    folder: Path
    application: Application
    issuer: str
    more: tuple[str, ...] = ()
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("TIELINE_")}
        self.environment = {**clean, "TIELINE_CONFIG_FOLDER": str(self.folder), "TIELINE_NO_KEYRING": "1"}

    @property
    def tokens(self) -> Path:
        """The file with the tokens."""
        return self.folder / "tokens" / "test.json"

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """What a command writes to standard output, or to standard error if it has to fail."""
        ended = subprocess.run(
            [*COMMAND, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert ended.returncode == code, f"{arguments}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        return ended.stdout if code == 0 else ended.stderr

    def begin(self) -> tuple[subprocess.Popen[str], str, str]:
        """The command that waits for a sign-in, the page to open and the code to enter there."""
        process = subprocess.Popen(
            [
                *COMMAND,
                *("login", self.platform.api.url, "--organisation", self.platform.org.id, "--name", "test"),
                *("--issuer", self.issuer, "--client-id", self.application.id, *self.more),
            ],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.fullmatch(r"Open (\S+) and enter the code (\S+)\n", line)
        assert found, line + process.communicate(timeout=60)[1]
        return process, found[1], found[2]

    def login(self, person: Person) -> str:
        """Signs in, once the API knows the person's role."""
        return eventually("the role known", lambda: self.try_login(person))

    def try_login(self, person: Person, *, code: int = 0) -> str:
        """Signs in; the person enters the code in a browser."""
        process, page, user_code = self.begin()
        shown = self.platform.keycloak.enter_device_code(page, user_code, person)
        assert "Device Login Successful" in shown, shown
        return _end(process, code)

    def expire(self) -> None:
        """The stored token is no longer to be used."""
        self.tokens.write_text(json.dumps({**self.stored(), "expires": 0}))

    def stored(self) -> Any:
        """What is stored of the tokens."""
        return json.loads(self.tokens.read_text())


def _end(process: subprocess.Popen[str], code: int) -> str:
    output, errors = process.communicate(timeout=120)
    assert process.returncode == code, f"{process.returncode}\n{output}\n{errors}"
    return output if code == 0 else errors


@pytest.fixture(scope="module")
def platform(
    keycloak: Keycloak,
    api_kubeconfig: Path,
    kubectl: Kubectl,
    oauth_org: Organisation,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Platform]:
    application = keycloak.register_for_devices()
    folder = tmp_path_factory.mktemp("device-login")
    issuer = {
        "issuer": keycloak.issuer,
        "jwksUrl": f"{keycloak.issuer}/protocol/openid-connect/certs",
        "audiences": [application.id, "tieline"],
        "usernameClaim": "preferred_username",
        "prefix": PREFIX,
    }
    (folder / "issuers.json").write_text(json.dumps([issuer]))
    variables = {"TIELINE_ISSUERS_FILE": str(folder / "issuers.json"), "TIELINE_FAILED_LIMIT": "0"}
    with RunningApi(kubeconfig=api_kubeconfig, log=folder / "log", variables=variables) as running:
        yield Platform(running, keycloak, application, kubectl, oauth_org)


@pytest.fixture
def terminal(platform: Platform, tmp_path: Path) -> Terminal:
    return Terminal(platform, tmp_path / "configuration", platform.application, platform.keycloak.issuer)


def test_somebody_signs_in_with_a_code_and_works_with_the_issuer_s_tokens(
    terminal: Terminal, platform: Platform
) -> None:
    person = platform.person()
    assert f"Signed in to {platform.api.url}" in terminal.login(person)
    assert f"{PREFIX}{person.name}" in terminal("whoami")
    terminal("projects", "create", f"Of {person.name}")
    assert f"Of {person.name}" in terminal("projects", "list")
    assert terminal.tokens.stat().st_mode & 0o777 == 0o600


def test_an_expired_token_is_refreshed_once_by_many_commands(terminal: Terminal, platform: Platform) -> None:
    terminal.login(platform.person())
    before = len(platform.keycloak.events("REFRESH_TOKEN", platform.application))
    first = terminal.stored()
    terminal.expire()
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: terminal("projects", "list"), range(3)))
    assert len(platform.keycloak.events("REFRESH_TOKEN", platform.application)) == before + 1
    assert terminal.stored()["refresh"] != first["refresh"], "this issuer takes each of them once"
    terminal.expire()
    terminal("projects", "list")
    assert platform.keycloak.events("REFRESH_TOKEN_ERROR", platform.application) == []


def test_a_sign_in_that_the_user_denies_ends_the_command(terminal: Terminal, platform: Platform) -> None:
    process, page, user_code = terminal.begin()
    platform.keycloak.enter_device_code(page, user_code, platform.person(), grant=False)
    assert "refuses the sign-in: The end user denied" in _end(process, 3)
    assert "not signed in" in terminal("projects", "list", code=3)


def test_a_code_that_nobody_enters_expires(platform: Platform, tmp_path: Path) -> None:
    hasty = platform.keycloak.register_for_devices(code_seconds=3)
    terminal = Terminal(platform, tmp_path, hasty, platform.keycloak.issuer)
    assert "The code has expired; run `tieline login` again" in _end(terminal.begin()[0], 3)


def test_an_issuer_that_is_away_is_told_and_leaves_the_sign_in(
    terminal: Terminal, platform: Platform
) -> None:
    terminal.login(platform.person())
    away = f"http://127.0.0.1:{free_port()}/realms/shop"
    login = ("login", platform.api.url, "--name", "test", "--issuer", away, "--client-id", "x")
    assert "cannot be reached" in terminal(*login, code=5)
    terminal("projects", "list")
    terminal.expire()
    configuration = terminal.folder / "config.yaml"
    text = configuration.read_text()
    configuration.write_text(text.replace(platform.keycloak.issuer, away))
    assert "cannot be reached" in terminal("projects", "list", code=5)
    configuration.write_text(text)
    terminal("projects", "list")


def test_a_session_that_ended_at_the_issuer_asks_for_a_new_sign_in(
    terminal: Terminal, platform: Platform
) -> None:
    person = platform.person()
    terminal.login(person)
    platform.keycloak.end_sessions(person, platform.application)
    terminal.expire()
    assert "Your sign-in has expired; run `tieline login` again" in terminal("projects", "list", code=3)


def test_a_sign_out_revokes_the_tokens_at_the_issuer(terminal: Terminal, platform: Platform) -> None:
    terminal.login(platform.person())
    kept = terminal.tokens.read_text()
    assert "Signed out of test" in terminal("logout")
    assert not terminal.tokens.exists()
    terminal.tokens.touch(mode=0o600)
    terminal.tokens.write_text(kept)
    terminal.expire()
    assert "Your sign-in has expired" in terminal("projects", "list", code=3)


def test_access_tokens_are_used_where_the_issuer_makes_them_for_the_api(
    platform: Platform, tmp_path: Path
) -> None:
    usual = Terminal(
        platform,
        tmp_path / "usual",
        platform.application,
        platform.keycloak.issuer,
        ("--oidc-token", "access"),
    )
    assert "the audience of its access tokens" in usual.try_login(platform.person(), code=3)
    mapped = platform.keycloak.register_for_devices(protocolMappers=[AUDIENCE_MAPPER])
    terminal = Terminal(
        platform, tmp_path / "mapped", mapped, platform.keycloak.issuer, ("--oidc-token", "access")
    )
    terminal.login(platform.person())
    terminal.expire()
    terminal("projects", "list")
