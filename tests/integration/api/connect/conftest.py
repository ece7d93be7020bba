"""End users at the hosted page, in a real Chromium that blocks cookies of third parties."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.harness.cluster.kubectl import Organisation
from tests.harness.console.chromium import WHOLE_PROGRAM, chromium, open_context
from tests.harness.console.watching import watch
from tests.harness.processes.ports import free_port
from tests.integration.api.conftest import Client, Server
from tests.integration.api.connect.product import AskingProvider
from tests.integration.api.objects import API_KEY, make_project, make_system, make_template
from tieline_core.identity.ids import new_id
from tieline_protocol.egress import Egress

SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "enum": ["eu", "us"], "title": "Region"},
        "limit": {"type": "integer", "title": "Orders a day", "minimum": 1},
    },
    "required": ["region"],
}
FAR_HOST = "tieline.internal"
"""A host that is not the browser's own machine: by plain HTTP it is no secure context."""
SHOP_INPUT = {
    "name": "shop",
    "label": "Shop",
    "description": "The first part of your shop's address.",
    "example": "my-shop",
    "pattern": "^[a-z0-9][a-z0-9-]*$",
    "suffix": ".shop.example",
}
DOT = "data:image/png;base64," + (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
"""A picture of one pixel."""
BRAND = {
    "name": "Acme Hub",
    "logo": DOT,
    "colours": {"accent": "#0b5d3b"},
    "texts": {
        "de": {"title": "Ihre Werkzeuge"},
        "fr": {"title": "Vos outils", "connect": "Connecter {system}", "where": "Où le trouver ?"},
    },
    "systems": {
        "shop.example": {
            "name": "The Shop",
            "logo": DOT,
            "purpose": {"en": "Reads your orders", "de": "Liest Aufträge"},
        }
    },
}


@dataclass(frozen=True)
class Scene:
    """A project whose users bring a login and a key."""

    admin: Client
    environment: str
    login: dict[str, Any]
    key: dict[str, Any]
    checked: dict[str, Any]
    """A key of a system that names a check request."""
    shop: dict[str, Any]
    """A login at one of many shops."""
    provider: AskingProvider
    users: list[str] = field(default_factory=list)

    def begin(self, *, templates: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
        """A session of a new user, who is called Ann."""
        body = {
            "user": {"externalId": f"ann-{new_id()}", "displayName": "Ann"},
            "environmentId": self.environment,
            "templates": list(templates),
            **more,
        }
        made: dict[str, Any] = self.admin.ok("POST", "/connect-sessions", body, status=201)
        self.users.append(body["user"]["externalId"])
        return {**made, "externalId": self.users[-1]}

    @property
    def last_user(self) -> str:
        """The external id of the user of the newest session."""
        return self.users[-1]

    def connections(self, user: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.admin.ok("GET", f"/connections?end_user_id={user}")["items"]
        return found


@pytest.fixture(scope="session")
def server(api_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The API under the URL that browsers have."""
    folder, port = tmp_path_factory.mktemp("connect"), free_port()
    (folder / "brand.json").write_text(json.dumps(BRAND))
    settings = {
        "public_api_url": f"http://127.0.0.1:{port}",
        "traces_file": str(folder / "traces.db"),
        "connect_brand_file": str(folder / "brand.json"),
        "egress": Egress.parse(allowed=["127.0.0.0/8"]),
    }
    with Server(api_kubeconfig, port=port, **settings) as started:
        yield started


@pytest.fixture(scope="module")
def scene(server: Server, org: Organisation, token_for: Callable[..., str]) -> Iterator[Scene]:
    admin = Client(server.url, token_for(org.namespace, "admin", "tieline-admin"), org.id)
    admin.until_known()
    with AskingProvider() as provider:
        scopes = [
            {"name": "orders", "description": "Read orders"},
            {"name": "refunds", "description": "Refund"},
        ]
        scheme = provider.scheme(scopes=scopes, defaultScopes=["orders"])
        project = make_project(admin)
        _, login = make_template(
            admin, project=project, system=make_system(admin, [scheme])["id"], dynamic=True
        )
        other = make_system(admin, [API_KEY])
        _, key = make_template(admin, project=project, system=other["id"], name="stock", dynamic=True)
        asked = make_system(admin, [API_KEY], templateBaseUrl=f"{provider.url}/api", check={"path": "/me"})
        _, checked = make_template(admin, project=project, system=asked["id"], name="books", dynamic=True)
        many = provider.scheme(
            authorizeUrl=f"{provider.url}/{{shop}}/authorize",
            tokenUrl=f"{provider.url}/{{shop}}/token",
            scopes=[{"name": "orders"}],
            defaultScopes=["orders"],
        )
        shops = make_system(
            admin, [many], templateBaseUrl="https://{shop}.shop.example/admin", inputs=[SHOP_INPUT]
        )
        _, shop = make_template(admin, project=project, system=shops["id"], name="shops", dynamic=True)
        admin.ok("PUT", f"/projects/{project['id']}/variables", SCHEMA)
        yield Scene(admin, project["environments"][0]["id"], login, key, checked, shop, provider)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    options = ("--test-third-party-cookie-phaseout", f"--host-resolver-rules=MAP {FAR_HOST} 127.0.0.1")
    with chromium(*options, program=WHOLE_PROGRAM) as running:
        yield running


@pytest.fixture
def complaints() -> list[str]:
    return []


@pytest.fixture
def context(browser: Browser, complaints: list[str]) -> Iterator[BrowserContext]:
    """A browser of a new user. What it refuses or throws fails the test."""
    made = open_context(browser, locale="en-GB")
    watch(made, complaints)
    yield made
    made.close()
    assert complaints == []


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()
