"""The official clients of the Model Context Protocol sign in at a real Keycloak by discovery alone."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from aiohttp import web
from mcp import Client as Agent
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from playwright.sync_api import expect
from pydantic import AnyUrl

from tests.harness.cluster.deployed_platform import http
from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.console.chromium import chromium, open_context
from tests.harness.identity import mcp_client
from tests.harness.identity.keycloak import Keycloak, Person
from tests.harness.processes.local_servers import serving
from tests.harness.processes.running_api import RunningApi
from tests.harness.session.waiting import eventually

pytestmark = pytest.mark.cluster

AUDIENCE, PREFIX = "tieline-agents", "agents:"
BACK = "http://127.0.0.1:9/back"
"""Where Keycloak sends a person back to; nobody listens there."""
TOOLS = {"list_connections", "search_operations", "call_operation", "run_webhook"}
_PAGE = """<!doctype html><title>An agent</title><p id="result"></p>
<script>window.settings = SETTINGS;</script><script type="module" src="/client.js"></script>"""


@dataclass(frozen=True)
class Stage:
    """An API whose callers sign in at Keycloak, and a page that is an agent."""

    api: RunningApi
    keycloak: Keycloak
    org: Organisation
    person: Person
    page: str
    scope: str

    @property
    def url(self) -> str:
        return f"{self.api.url}/api/v2/o/{self.org.id}/mcp"


@pytest.fixture(scope="module")
def page() -> Iterator[dict[str, str]]:
    """A page's files by their paths, and its address under the name ``url``."""
    files: dict[str, str] = {}

    async def handle(request: web.Request) -> web.Response:
        kind = "text/javascript" if request.path.endswith(".js") else "text/html"
        return web.Response(text=files[request.path], content_type=kind)

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    with serving(app) as url:
        files["url"] = url
        yield files


@pytest.fixture(scope="module")
def stage(
    keycloak: Keycloak,
    api_kubeconfig: Path,
    kubectl: Kubectl,
    oauth_org: Organisation,
    page: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stage]:
    default_scope = _audience_for_all(keycloak)
    _trust_this_machine(keycloak)
    folder = tmp_path_factory.mktemp("agents-sign-in")
    issuer = {
        "issuer": keycloak.issuer,
        "jwksUrl": f"{keycloak.issuer}/protocol/openid-connect/certs",
        "audiences": [AUDIENCE],
        "usernameClaim": "preferred_username",
        "prefix": PREFIX,
        # Without it clients ask for every scope of Keycloak, and its policy for registrations refuses some.
        "scopes": ["profile", AUDIENCE],
    }
    (folder / "issuers.json").write_text(json.dumps([issuer]))
    variables = {"TIELINE_ISSUERS_FILE": str(folder / "issuers.json"), "TIELINE_CORS_ORIGINS": page["url"]}
    person = keycloak.person()
    role = ("create", "rolebinding", f"{person.name}-views", "--clusterrole=tieline-viewer")
    kubectl(*role, f"--user={PREFIX}{person.name}", namespace=oauth_org.namespace)
    with RunningApi(kubeconfig=api_kubeconfig, log=folder / "log", variables=variables) as api:
        yield Stage(api, keycloak, oauth_org, person, page["url"], AUDIENCE)
    # Clients that other tests register have the scopes that they ask for.
    keycloak.admin("DELETE", default_scope)


def _audience_for_all(keycloak: Keycloak) -> str:
    """The path of a scope that brings the audience to every client that is registered from now on."""
    mapper = {
        "name": "audience",
        "protocol": "openid-connect",
        "protocolMapper": "oidc-audience-mapper",
        "config": {"included.custom.audience": AUDIENCE, "access.token.claim": "true"},
    }
    scope = {"name": AUDIENCE, "protocol": "openid-connect", "protocolMappers": [mapper]}
    made = keycloak.admin("POST", "/client-scopes", scope, status=201).headers["Location"].rpartition("/")[2]
    path = f"/default-default-client-scopes/{made}"
    keycloak.admin("PUT", path)
    return path


def _trust_this_machine(keycloak: Keycloak) -> None:
    """Lets clients of this machine register themselves."""
    kind = "org.keycloak.services.clientregistration.policy.ClientRegistrationPolicy"
    for policy in keycloak.admin("GET", f"/components?type={kind}").json:
        if policy["providerId"] == "trusted-hosts" and policy["subType"] == "anonymous":
            policy["config"]["trusted-hosts"] = ["127.0.0.1", "localhost"]
            keycloak.admin("PUT", f"/components/{policy['id']}", policy)


class Kept(TokenStorage):
    """What a client keeps."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def test_the_python_client_registers_itself_and_signs_in(stage: Stage) -> None:
    back: list[str] = []

    async def sign_in(url: str) -> None:
        back.append(await asyncio.to_thread(stage.keycloak.log_in, url, stage.person))

    async def came_back() -> AuthorizationCodeResult:
        found = parse_qs(urlsplit(back[-1]).query)
        return AuthorizationCodeResult(
            code=found["code"][0], state=found["state"][0], iss=found.get("iss", [None])[0]
        )

    kept = Kept()
    metadata = OAuthClientMetadata(redirect_uris=[AnyUrl(BACK)], client_name="Tieline's tests")
    auth = OAuthClientProvider(stage.url, metadata, kept, sign_in, came_back)
    async with (
        httpx2.AsyncClient(auth=auth, timeout=60) as requests,
        Agent(streamable_http_client(stage.url, http_client=requests)) as agent,
    ):
        tools = {tool.name for tool in (await agent.list_tools()).tools}
        result = await agent.call_tool("list_connections", {})
    assert tools >= TOOLS
    assert not result.is_error
    assert kept.client is not None
    assert len(back) == 1


def test_the_typescript_client_in_node_registers_itself_and_signs_in(stage: Stage) -> None:
    settings = {"url": stage.url, "redirectUrl": BACK}
    command = ["node", "in_node.mjs", json.dumps(settings)]
    with subprocess.Popen(
        command,
        cwd=mcp_client.installed(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if url:
            code = parse_qs(urlsplit(stage.keycloak.log_in(url, stage.person)).query)["code"][0]
            process.stdin.write(f"{code}\n")
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    _signed_in(output)


def test_the_typescript_client_in_a_page_signs_in(stage: Stage, page: dict[str, str]) -> None:
    application = stage.keycloak.register(
        publicClient=True, redirectUris=[f"{stage.page}/*"], webOrigins=[stage.page]
    )
    settings = {"url": stage.url, "redirectUrl": f"{stage.page}/back", "clientId": application.id}
    page["/"] = page["/back"] = _PAGE.replace("SETTINGS", json.dumps(settings))
    page["/client.js"] = (mcp_client.installed() / "in_browser.js").read_text()
    with chromium() as browser:
        tab = open_context(browser, locale="en-GB").new_page()
        said: list[str] = []
        tab.on("console", lambda message: said.append(message.text))
        tab.goto(f"{stage.page}/")
        try:
            tab.fill("#username", stage.person.name)
        except Exception:
            raise AssertionError(f"{tab.url}: {tab.text_content('body')} {said}") from None
        tab.fill("#password", stage.person.password)
        tab.click("#kc-login")
        expect(tab.locator("#result")).not_to_be_empty()
        _signed_in(tab.text_content("#result") or "")


def _signed_in(output: str) -> None:
    assert output.startswith("{"), output
    found: dict[str, Any] = json.loads(output)
    assert set(found["tools"]) >= TOOLS
    assert found["said"] == {"connections": [], "total": 0}


def test_a_401_leads_to_the_metadata_and_other_organisations_have_their_own(stage: Stage) -> None:
    refused = eventually("an answer", lambda: http("POST", stage.url, body={}))
    assert refused.status == 401
    url = refused.headers["WWW-Authenticate"].partition('resource_metadata="')[2].strip('"')
    found = http("GET", url)
    assert (found.status, found.json["resource"]) == (200, stage.url)
    assert found.json["authorization_servers"] == [stage.keycloak.issuer]
    assert http("GET", url.replace(stage.org.id, "no-id")).status == 404
