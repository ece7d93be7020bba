"""Connections: made by a form of the auth scheme, connected in a window, tested, rotated; and who uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiohttp import web
from playwright.sync_api import Page, expect

from tests.harness.processes.local_servers import serving
from tests.integration.api.conftest import Client, Server
from tests.integration.api.console.person import Person
from tests.integration.api.oauth_provider import Provider
from tests.integration.api.objects import activate, connect, make_project, make_system, make_template
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

Person_ = Callable[[Client], Person]
TOKEN_URL = "https://login.shop.example/token"
GRANTS = {
    "clientCredentials": {"type": "clientCredentials", "clientCredentials": {}},
    "password": {"type": "password", "password": {"clientId": "tieline", "clientSecret": "s"}},
}
PEM = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIBlLZ2V5\n-----END PRIVATE KEY-----\n"
# Schemes, what is typed into their forms, and the type of the credential that comes of it.
SCHEMES: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "api-key": (
        {"type": "api-key", "apiKey": {"id": "k", "name": "X-API-Key", "in": "header"}},
        {"Key (sent as X-API-Key)": "a-key"},
        "string",
    ),
    "secret": (
        {"type": "secret", "secret": {"id": "k", "name": "token", "in": "query"}},
        {"Secret (sent as token)": "a-secret"},
        "string",
    ),
    "hmac": (
        {
            "type": "hmac",
            "hmac": {
                "id": "k",
                "name": "X-Sig",
                "in": "header",
                "algorithm": "sha256",
                "digestInputs": ["body"],
            },
        },
        {"Signing secret": "a-secret"},
        "string",
    ),
    "basic-auth": (
        {"type": "basic-auth", "basicAuth": {"id": "k"}},
        {"User name": "ann", "Password": "a-password"},
        "basic-auth",
    ),
    "oauth2-client": (
        {
            "type": "oauth2",
            "oauth2": {"id": "k", "tokenUrl": TOKEN_URL, "grant": GRANTS["clientCredentials"]},
        },
        {"Client id": "tieline", "Client secret": "a-secret", "Scopes": "read write"},
        "oauth2-client",
    ),
    "oauth2-password": (
        {"type": "oauth2", "oauth2": {"id": "k", "tokenUrl": TOKEN_URL, "grant": GRANTS["password"]}},
        {"User name": "ann", "Password": "a-password"},
        "oauth2-password",
    ),
    "jwt-bearer": (
        {"type": "jwt-bearer", "jwtBearer": {"id": "k", "algorithm": "HS256", "payload": {}}},
        {"Private key (PEM)": "a-shared-secret-of-32-bytes-at-least", "Id of the key": "one"},
        "jwt-bearer",
    ),
    "none": ({"type": "none", "none": {"id": "k"}}, {}, "none"),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_connection_is_made_by_the_form_of_its_scheme(person: Person_, admin: Client, scheme: str) -> None:
    config, typed, kind = SCHEMES[scheme]
    name = f"By form {new_id()}"
    project, _ = make_template(admin, schemes=[config], name="shop")
    admin.ok("PUT", f"/projects/{project['id']}", {"name": f"Project of {name}"})
    ann = person(admin)
    ann.open("/connections")
    ann.button("New connection…").click()
    dialog = ann.page.get_by_role("dialog")
    dialog.get_by_label("Environment").select_option(label=f"Project of {name} · production")
    dialog.get_by_label("Name", exact=True).fill(name)
    for label, value in typed.items():
        dialog.get_by_label(label).fill(value)
    dialog.get_by_role("button", name="Create").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text(name)
    expect(ann.region("Used by")).to_contain_text(f"Project of {name}")
    (made,) = [one for one in admin.ok("GET", "/connections?first=200")["items"] if one["name"] == name]
    assert [one["credential"]["type"] for one in made["credentials"]] == [kind]
    for value in typed.values():
        assert value not in admin("GET", f"/connections/{made['id']}").raw.decode() or value in ("one", "ann")


def test_the_address_is_asked_for_and_changed(person: Person_, admin: Client) -> None:
    inputs = [{"name": "shop", "label": "Shop", "example": "my-shop", "suffix": ".shop.example"}]
    system = make_system(admin, templateBaseUrl="https://{shop}.shop.example", inputs=inputs)
    name = f"Addressed {new_id()}"
    project, _ = make_template(admin, system=system["id"], name="shop")
    admin.ok("PUT", f"/projects/{project['id']}", {"name": f"Project of {name}"})
    ann = person(admin)
    ann.open("/connections")
    ann.button("New connection…").click()
    dialog = ann.page.get_by_role("dialog")
    dialog.get_by_label("Environment").select_option(label=f"Project of {name} · production")
    dialog.get_by_label("Name", exact=True).fill(name)
    dialog.get_by_label("Key (sent as").fill("a-key")
    for hostile in ("evil.com/", "a.b", "x@evil", "..", "shöp", "%2e"):
        dialog.get_by_label("Shop", exact=True).fill(hostile)
        dialog.get_by_role("button", name="Create").click()
        expect(dialog.get_by_role("alert")).to_contain_text("my-shop")
    dialog.get_by_label("Shop", exact=True).fill("https://my-shop.shop.example/admin")
    dialog.get_by_role("button", name="Create").click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text(name)
    expect(ann.region("Address")).to_contain_text("my-shop.shop.example")
    ann.region("Address").get_by_role("button", name="Change…").click()
    ann.finds_it_accessible()
    ann.page.get_by_role("dialog").get_by_label("Shop", exact=True).fill("another")
    ann.page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(ann.region("Address")).to_contain_text("another.shop.example")
    (made,) = [one for one in admin.ok("GET", "/connections?first=200")["items"] if one["name"] == name]
    assert made["variables"] == [{"name": "shop", "value": "another"}]


def test_a_certificate_is_entered_as_several_lines(person: Person_, admin: Client) -> None:
    _, template = make_template(admin, schemes=[{"type": "certificate", "certificate": {"id": "k"}}])
    body = {
        "connectionTemplateId": template["connectionTemplateId"],
        "connection": {
            "name": f"Certified {new_id()}",
            "credentials": [
                {
                    "authSchemeConfig": {"type": "certificate", "certificate": {"id": "k"}},
                    "credential": {"type": "none"},
                }
            ],
        },
    }
    made = admin.ok("POST", "/connections", body, status=201)
    ann = person(admin)
    ann.open(f"/connections/{made['id']}")
    ann.button("Rotate…").click()
    dialog = ann.page.get_by_role("dialog")
    dialog.get_by_label("Certificate (PEM)").fill("no certificate")
    dialog.get_by_label("Private key (PEM)").fill(PEM)
    ann.finds_it_accessible()
    dialog.get_by_role("button", name="Rotate").click()
    expect(ann.region("Credentials").or_(dialog.get_by_role("alert")).first).to_contain_text("certificate")


def test_a_key_is_rotated_and_the_other_credentials_stay(person: Person_, admin: Client) -> None:
    schemes = [
        SCHEMES["basic-auth"][0],
        {"type": "api-key", "apiKey": {"id": "x", "name": "X", "in": "header"}},
    ]
    _, template = make_template(admin, schemes=schemes)
    given = [
        {
            "authSchemeConfig": schemes[0],
            "credential": {
                "type": "basic-auth",
                "data": {"basicAuth": {"username": "a", "password": "b"}},
            },
        },
        {
            "authSchemeConfig": schemes[1],
            "credential": {"type": "string", "data": {"string": {"value": "old"}}},
        },
    ]
    name = f"Shop of Ann {new_id()}"
    body = {
        "connectionTemplateId": template["connectionTemplateId"],
        "connection": {"name": name, "credentials": given},
    }
    made = admin.ok("POST", "/connections", body, status=201)
    ann = person(admin)
    ann.open(f"/connections?search={name}")
    ann.page.get_by_role("link", name=name).click()
    expect(ann.region("Credentials")).to_contain_text("basic-auth")
    ann.finds_it_accessible()
    ann.button("Rotate…").last.click()
    dialog = ann.page.get_by_role("dialog")
    dialog.get_by_label("Key (sent as X)").fill("new-key-by-hand")
    dialog.get_by_role("button", name="Rotate").click()
    expect(ann.page.get_by_role("status").filter(has_text="The new values are saved")).to_be_visible()
    assert "new-key-by-hand" not in ann.page.content()
    after = admin.ok("GET", f"/connections/{made['id']}")["credentials"]
    assert [one["id"] for one in after] == [one["id"] for one in made["credentials"]]
    assert [one["credential"]["type"] for one in after] == ["basic-auth", "string"]


def test_who_uses_a_connection_is_said_and_what_nothing_uses_is_found(
    person: Person_, admin: Client, viewer: Client
) -> None:
    project, template = make_template(admin, dynamic=True)
    user, activation = activate(admin, project, template, "key")
    used = activation["connections"][0]["id"]
    _, static = make_template(admin)
    first = connect(admin, static, "key", name=f"Linked {new_id()}")
    unused = connect(admin, static, "key", name=f"Left over {new_id()}")
    ann = person(viewer)
    ann.open(f"/connections/{used}")
    expect(ann.region("Used by").get_by_role("link", name=user["displayName"])).to_be_visible()
    ann.open("/connections?state=unused&search=l")
    expect(ann.main.get_by_role("link", name=unused["name"])).to_be_visible()
    expect(ann.main.get_by_role("link", name=first["name"])).to_have_count(0)
    ann.finds_it_accessible()


def test_an_editor_opens_a_connection_to_agents_and_a_viewer_sees_it(
    person: Person_, admin: Client, viewer: Client
) -> None:
    _, template = make_template(admin)
    made = connect(admin, template, "key", name=f"For agents {new_id()}")
    ann = person(admin)
    ann.open(f"/connections/{made['id']}")
    expect(ann.region("Agents")).to_contain_text("Agents may call nothing through it.")
    ann.region("Agents").get_by_role("button", name="Change…").click()
    dialog = ann.page.get_by_role("dialog")
    dialog.get_by_label("All operations with GET or HEAD").check()
    dialog.get_by_label("Further operations").fill("createOrder\n\n payOrder ")
    ann.finds_it_accessible()
    dialog.get_by_role("button", name="Save").click()
    expect(ann.region("Agents")).to_contain_text("They may call createOrder, payOrder.")
    opened = {"read": True, "operations": ["createOrder", "payOrder"]}
    assert admin.ok("GET", f"/connections/{made['id']}")["tools"] == opened
    bob = person(viewer)
    bob.open(f"/connections/{made['id']}")
    expect(bob.region("Agents")).to_contain_text("Agents may call all operations with GET or HEAD.")
    expect(bob.region("Agents").get_by_role("button")).to_have_count(0)


def test_a_connection_is_tested_and_what_the_other_side_says_is_shown(person: Person_, admin: Client) -> None:
    async def me(request: web.Request) -> web.Response:
        return web.Response(
            status=200 if request.headers.get("X-API-Key") == "good" else 401, text="no such key"
        )

    app = web.Application()
    app.router.add_get("/me", me)
    _, template = make_template(admin)
    with serving(app) as url:
        made = connect(admin, template, "bad", name=f"Tested {new_id()}", baseUrl=url)
        ann = person(admin)
        ann.open(f"/connections/{made['id']}")
        ann.page.get_by_label("Path to request").fill("/me")
        expect(ann.main).to_contain_text("not checked")
        ann.region("Test").get_by_role("button", name="Test").click()
        expect(ann.region("Test")).to_contain_text("401")
        expect(ann.main).to_contain_text("no such key")
        expect(ann.page.get_by_role("note", name="Refused by the system")).to_be_visible()
        expect(ann.main.get_by_text("works", exact=True)).to_have_count(0)
        ann.finds_it_accessible()


def test_new_credentials_are_checked_and_nothing_works_before(person: Person_, admin: Client) -> None:
    async def me(request: web.Request) -> web.Response:
        good = request.headers.get("X-API-Key") == "good"
        return web.json_response({"ok": good, "error": None if good else "invalid_auth"})

    app = web.Application()
    app.router.add_get("/me", me)
    check = {"path": "/me", "expect": {"contains": '"ok": true'}}
    with serving(app) as url:
        system = make_system(admin, [SCHEMES["api-key"][0]], templateBaseUrl=url, check=check)
        _, template = make_template(admin, system=system["id"])
        body = {
            "connectionTemplateId": template["connectionTemplateId"],
            "connection": {
                "name": f"Checked {new_id()}",
                "credentials": [
                    {
                        "authSchemeConfig": SCHEMES["api-key"][0],
                        "credential": {"type": "string", "data": {"string": {"value": "mistyped"}}},
                    }
                ],
            },
        }
        made = admin.ok("POST", "/connections", body, status=201)
        assert made["state"] == "not_checked"
        ann = person(admin)
        ann.open(f"/connections/{made['id']}")
        expect(ann.page.get_by_role("note", name="Refused by the system")).to_contain_text("invalid_auth")
        ann.button("Rotate…").click()
        dialog = ann.page.get_by_role("dialog")
        dialog.get_by_label("Key (sent as X-API-Key)").fill("good")
        dialog.get_by_role("button", name="Rotate").click()
        expect(ann.main.get_by_text("works", exact=True)).to_be_visible()
        expect(ann.main).to_contain_text("last success")
        assert admin.ok("GET", f"/connections/{made['id']}")["state"] == "works"


def test_a_connection_that_nobody_has_authorised_says_so(
    person: Person_, admin: Client, login: Provider
) -> None:
    made = new_oauth_connection(admin, login)
    assert made["state"] == "not_authorised"
    ann = person(admin)
    ann.open(f"/connections/{made['id']}")
    expect(ann.main.get_by_text("not authorised", exact=True)).to_be_visible()
    expect(ann.region("Credentials")).to_contain_text("Nobody has signed in yet.")
    expect(ann.main.get_by_text("works", exact=True)).to_have_count(0)


def test_a_connection_is_deleted(person: Person_, admin: Client) -> None:
    _, template = make_template(admin)
    made = connect(admin, template, "key", name=f"Gone soon {new_id()}")
    ann = person(admin)
    ann.open(f"/connections/{made['id']}")
    ann.button("Delete…").click()
    ann.page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(ann.page.get_by_role("heading", level=1)).to_have_text("Connections")
    assert admin("GET", f"/connections/{made['id']}").status == 404


@pytest.fixture
def login(server: Server) -> Iterator[Provider]:
    """A provider whose page has a button to agree; it sends people back to this API's own address."""
    with Provider() as made:

        async def page(request: web.Request) -> web.Response:
            return web.Response(
                text=f'<h1>Allow?</h1><a href="/agreed?{request.query_string}">Allow</a>'
                f'<a href="/refused?{request.query_string}">Refuse</a>',
                content_type="text/html",
            )

        async def agreed(request: web.Request) -> web.Response:
            back = made.agree(f"{made.url}/authorize?{request.query_string}")
            raise web.HTTPFound(f"{server.url}/oauth2/callback?code={back['code']}&state={back['state']}")

        async def refused(request: web.Request) -> web.Response:
            state = request.query["state"]
            raise web.HTTPFound(f"{server.url}/oauth2/callback?error=access_denied&state={state}")

        app = web.Application()
        app.add_routes(
            [web.get("/authorize", page), web.get("/agreed", agreed), web.get("/refused", refused)]
        )
        with serving(app) as url:
            made.page = url  # type: ignore[attr-defined]
            yield made


def new_oauth_connection(admin: Client, login: Provider) -> dict[str, Any]:
    scheme = login.scheme(authorizeUrl=f"{login.page}/authorize")  # type: ignore[attr-defined]
    system = make_system(admin, [scheme])
    project = make_project(admin)
    _, template = make_template(admin, project=project, system=system["id"])
    shown = template["authSchemeConfigs"][0]
    new = {
        "name": f"By window {new_id()}",
        "credentials": [{"authSchemeConfig": shown, "credential": {"type": "none"}}],
    }
    body = {"connectionTemplateId": template["connectionTemplateId"], "connection": new}
    made: dict[str, Any] = admin.ok("POST", "/connections", body, status=201)
    return made


def until(page: Page, what: str, probe: Callable[[], Page | None]) -> Page:
    """What ``probe`` finds, while the browser goes on."""
    for _ in range(200):
        if found := probe():
            return found
        page.wait_for_timeout(100)
    raise AssertionError(f"Never: {what}. The page says: {page.locator('main').inner_text()}")


def window_of(person: Person, login: Provider) -> Page:
    """The window that shows the provider's page. Chromium makes it a new one as it leaves the console's origin."""
    url = f"{login.page}/authorize"  # type: ignore[attr-defined]

    def probe() -> Page | None:
        return next((one for one in person.page.context.pages if one.url.startswith(url)), None)

    return until(person.page, "a window shows the provider's page", probe)


def decide(person: Person, login: Provider, link: str) -> None:
    """Follows a link of the provider. Its answer leads away from the page that Playwright's click would wait for."""
    window_of(person, login).get_by_role("link", name=link).evaluate("link => setTimeout(() => link.click())")


def test_a_connection_is_connected_in_a_window_that_closes_itself(
    person: Person_, admin: Client, login: Provider
) -> None:
    made = new_oauth_connection(admin, login)
    ann = person(admin)
    ann.open(f"/connections/{made['id']}")
    for name in ("Connect", "Connect again"):
        ann.main.get_by_role("button", name=name).click()
        window = window_of(ann, login)
        window.get_by_role("link", name="Allow").wait_for()
        assert window.evaluate("window.opener") is None, "the other side cannot reach the console"
        decide(ann, login, "Allow")
        expect(ann.region("Credentials")).to_contain_text("Connected.")
        until(ann.page, "it closes", lambda: ann.page if ann.page.context.pages == [ann.page] else None)
        (credential,) = admin.ok("GET", f"/connections/{made['id']}")["credentials"]
        assert credential["credential"]["type"] == "oauth2-token"
        assert credential["credential"]["data"]["oauth2Token"]["scopes"] == ["orders"]
        ann.finds_it_accessible()


def test_a_refusal_in_the_window_is_told(person: Person_, admin: Client, login: Provider) -> None:
    made = new_oauth_connection(admin, login)
    ann = person(admin)
    ann.open(f"/connections/{made['id']}")
    ann.main.get_by_role("button", name="Connect").click()
    decide(ann, login, "Refuse")
    expect(ann.page.get_by_role("alert")).to_contain_text("Access was not allowed")
