"""Every entry of the catalogue fits the schema, and the packed catalogue says what the files say."""

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest

from deploy import provider_table
from hatch_build import CatalogueHook
from tieline.emulator.check import findings as emulator_findings
from tieline.emulator.provider import Provider
from tieline_catalogue import packing
from tieline_catalogue.catalogue import Catalogue, UnknownEntryError
from tieline_catalogue.entry import Category
from tieline_core.catalogue import findings
from tieline_core.credentials.tenants import tenant_of
from tieline_core.systems import base_url_problem, connection_base_url

FOLDER = Path(__file__).parents[3] / "catalogue"
GITHUB = packing.read_entry(FOLDER / "github.yaml")


@pytest.mark.parametrize("key", packing.keys(FOLDER))
def test_the_entry_fits_the_schema(key: str) -> None:
    content = packing.read_entry(FOLDER / f"{key}.yaml")
    assert [*findings(content), *emulator_findings(content)] == []


@pytest.mark.parametrize("key", packing.keys(FOLDER))
def test_its_urls_take_the_values_that_it_names(key: str) -> None:
    provider = Provider(packing.read_entry(FOLDER / f"{key}.yaml"))
    connection, system = {"variables": provider.values}, provider.system
    assert base_url_problem(connection, system) is None
    assert "{" not in connection_base_url(connection, system)
    for scheme in system["authSchemeConfigs"]:
        tenant = tenant_of(connection, system, scheme)
        urls = scheme.get("oauth2") or {}
        for name in urls.keys() & {"authorizeUrl", "tokenUrl", "refreshUrl"}:
            assert tenant.url(urls[name])
        if after := urls.get("afterToken"):
            assert tenant.url(after["url"])


def test_the_template_for_authors_fits_the_schema(tmp_path: Path) -> None:
    (tmp_path / "acme.yaml").write_text(provider_table.PAGE.with_name("template.yaml").read_text())
    content = packing.read_entry(tmp_path / "acme.yaml")
    assert [*findings(content), *emulator_findings(content)] == []


def test_the_table_in_the_documentation_is_current() -> None:
    assert provider_table.page() == provider_table.PAGE.read_text(), "run: make manifests"


def test_the_table_says_what_tests_have_shown(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "github.yaml", tmp_path)
    (tmp_path / packing.PROVEN).write_text("github: [connect, check]\n")
    *_, row = provider_table.page(tmp_path).splitlines()
    assert row.split(" | ")[1:-1] == [
        "`github`",
        "oauth2, api-key",
        "yes",
        "no",
        "no",
        "",
        "yes",
        "no",
        "no",
        "no",
    ]


@pytest.mark.parametrize(
    ("key", "cells"),
    [
        ("activecampaign", {"refuse": "no", "again": "", "refresh": ""}),
        ("airtable", {"refuse": "no", "again": "no", "refresh": "no"}),
        ("github", {"refuse": "no", "again": "no", "refresh": ""}),
        ("ashby", {"refuse": "", "again": "", "refresh": ""}),
    ],
)
def test_the_table_says_what_an_entry_describes(tmp_path: Path, key: str, cells: dict[str, str]) -> None:
    shutil.copy(FOLDER / f"{key}.yaml", tmp_path)
    *_, head, _, row = (line.split("|") for line in provider_table.page(tmp_path).splitlines())
    shown = dict(zip((one.strip() for one in head), (one.strip() for one in row), strict=True))
    assert {name: shown[name] for name in cells} == cells


def changed(path: str, value: Any) -> dict[str, Any]:
    """The entry of GitHub with another value at a dotted path; None removes it."""
    content = copy.deepcopy(GITHUB)
    *parents, last = path.split(".")
    place: Any = content
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place[part]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return content


_WRONG = {
    "an unknown field of the entry": ("logo", "x", "logo"),
    "a key that is no DNS label": ("key", "Git_Hub", "key"),
    "an unknown field of the System": ("system.baseUrl", "https://x.example", "system.baseUrl"),
    "a value that the System refuses": ("system.limits.per", "1 hour", "limits.per"),
    "a variable that nothing fills": ("system.templateBaseUrl", "https://{shop}.github.com", "{shop}"),
    "a URL that the platform refuses": (
        "system.authSchemeConfigs.0.oauth2.tokenUrl",
        "https://{host}/token",
        "tokenUrl leaves the host's domain",
    ),
    "hosts of everybody": ("system.authSchemeConfigs.0.oauth2.hosts", ["*.co.uk"], "(*.co.uk)"),
    "an input without a usable pattern": (
        "system.inputs",
        [{"name": "shop", "pattern": "^(?=a)$", "label": "Shop"}],
        'The pattern of the input "shop"',
    ),
    "a check whose body is no JSON": (
        "system.check",
        {"method": "POST", "path": "/graphql", "body": "{ viewer }"},
        "check.body is no JSON",
    ),
    "a client": ("system.authSchemeConfigs.0.oauth2.grant.authorizationCode.clientId", "c", "names a client"),
    "a set-up for no scheme": ("setup.0.scheme", "login", "login"),
    "OAuth without a redirect URL": ("setup.0.redirectUrl", None, "redirectUrl"),
    "OAuth without a client secret": ("setup.0.clientSecret", None, "setup of oauth needs clientSecret:"),
    "a template with an unlisted scope": ("templates.0.scopes", ["everything"], "everything"),
    "webhooks of no hmac scheme": ("webhooks.scheme", "token", "hmac"),
    "facts without a source": ("sources.2.facts", ["api"], "no source covers limits"),
    "a source of tomorrow": ("sources.2.date", "2999-01-01", "future"),
}


@pytest.mark.parametrize(("path", "value", "words"), _WRONG.values(), ids=_WRONG)
def test_a_wrong_entry_is_explained(path: str, value: Any, words: str) -> None:
    found = findings(changed(path, value))
    assert len(found) == 1
    assert words in found[0]


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "twice.yaml").write_text("key: twice\nname: a\nname: b\n")
    with pytest.raises(packing.EntryError, match="'name' is there twice"):
        packing.read_entry(tmp_path / "twice.yaml")


@pytest.fixture(scope="module", params=["folder", "packed"])
def read(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    """The catalogue of this checkout, as a checkout and as a wheel have it."""
    if request.param == "folder":
        return Catalogue(FOLDER)
    target = tmp_path_factory.mktemp("catalogue") / "catalogue.zip"
    packing.pack(FOLDER, target)
    return Catalogue(target)


def test_all_entries_are_listed_and_read(read: Catalogue) -> None:
    assert {one.key for one in read.summaries} == set(packing.keys(FOLDER))
    assert read.get("github").system == GITHUB["system"]


@pytest.mark.parametrize("words", ["github", "GitHub", "pull req", "hub code", "developer-tools git"])
def test_search_finds_all_words(read: Catalogue, words: str) -> None:
    found = [one.key for one in read.search(words)]
    assert ("github" in found) == (words != "hub code")


def test_search_keeps_to_a_category(read: Catalogue) -> None:
    assert "shopify" in [one.key for one in read.search(category=Category.COMMERCE)]
    assert "github" not in [one.key for one in read.search(category=Category.COMMERCE)]


@pytest.mark.parametrize("key", ["no-such", "../github", "index", "proven", ""])
def test_what_is_no_entry_is_unknown(read: Catalogue, key: str) -> None:
    with pytest.raises(UnknownEntryError):
        read.get(key)


def test_the_packed_file_is_the_same_for_the_same_files(tmp_path: Path) -> None:
    packing.pack(FOLDER, tmp_path / "one.zip")
    packing.pack(FOLDER, tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_a_wheel_holds_the_packed_catalogue(tmp_path: Path) -> None:
    root = FOLDER.parent
    unused: Any = None
    hook = CatalogueHook(str(root), {}, unused, unused, str(tmp_path), "wheel")
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize("editable", data)
    assert data["force_include"] == {}
    hook.initialize("standard", data)
    packed = {place: path for path, place in data["force_include"].items()}["tieline_catalogue/catalogue.zip"]
    assert {one.key for one in Catalogue(Path(packed)).summaries} == set(packing.keys(FOLDER))
