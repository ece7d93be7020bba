"""Every entry of the catalogue against the emulator: one platform, one browser, several entries at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import ROOT, Kubectl, Organisation, an_organisation
from tests.harness.console.chromium import install_chromium
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.harness.processes.ports import free_port
from tests.harness.session.proven import chosen_keys
from tests.integration.api.conftest import Client, Server, of_engine
from tests.integration.catalogue.emulated_internet import EmulatedInternet, emulated
from tests.integration.catalogue.objects import allow_refreshes, install
from tests.integration.catalogue.proof import Shown, prove_all
from tieline.emulator.provider import Provider
from tieline_catalogue import packing

CATALOGUE = ROOT / "catalogue"
KINDS = (
    "amazon-selling-partner",
    "asana",
    "box",
    "confluence",
    "discord",
    "github",
    "gitlab",
    "gmail",
    "hubspot",
    "linkedin",
    "notion",
    "okta",
    "outlook",
    "pipedrive",
    "quickbooks",
    "salesforce",
    "sendgrid",
    "shopify",
    "slack",
    "stripe",
    "twilio",
    "xero",
    "zendesk",
    "zoho-crm",
)
"""An entry of each kind. All of them take a browser a quarter of an hour."""


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def emulated_keys() -> Sequence[str]:
    """The entries whose providers are emulated."""
    return chosen_keys(KINDS)


@pytest.fixture(scope="module")
def platform_settings() -> Mapping[str, Any]:
    """Further settings of the API."""
    return {}


@pytest.fixture(scope="module")
def internet(
    emulated_keys: Sequence[str], port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmulatedInternet]:
    """The providers, where the application of this platform is registered."""
    callback = f"http://127.0.0.1:{port}/oauth2/callback"
    providers = [
        Provider(packing.read_entry(CATALOGUE / f"{key}.yaml"), redirect_uris=frozenset({callback}))
        for key in emulated_keys
    ]
    with emulated(providers, tmp_path_factory.mktemp("emulator")) as running:
        yield running


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """The engine, by which the limits of connections are kept."""
    with running_nats_server(tmp_path_factory.mktemp("engine")) as running:
        yield running


@pytest.fixture(scope="module")
def platform(
    api_kubeconfig: Path,
    internet: EmulatedInternet,
    platform_settings: Mapping[str, Any],
    engine: NatsServer,
    port: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("platform")
    settings = {
        **of_engine(engine, folder),
        "public_api_url": f"http://127.0.0.1:{port}",
        "traces_file": str(folder / "traces.db"),
        "egress": internet,
        **platform_settings,
    }
    with Server(api_kubeconfig, port=port, **settings) as started:
        yield started


@pytest.fixture(scope="module")
def organisation_of_catalogue(kubectl: Kubectl, crds_installed: None) -> Iterator[Organisation]:
    with an_organisation(kubectl) as made:
        yield made


@pytest.fixture(scope="module")
def admin(platform: Server, organisation_of_catalogue: Organisation, token_for: Callable[..., str]) -> Client:
    """The administrator of the organisation."""
    org = organisation_of_catalogue
    made = Client(platform.url, token_for(org.namespace, "admin", "tieline-admin"), org.id)
    made.until_known()
    return made


@pytest.fixture(scope="module")
def proven(
    platform: Server,
    internet: EmulatedInternet,
    kubectl: Kubectl,
    organisation_of_catalogue: Organisation,
    admin: Client,
) -> dict[str, Shown]:
    """What is shown of each entry."""
    org = organisation_of_catalogue

    def let_tokens_age() -> None:
        platform.let_tokens_age()
        allow_refreshes(kubectl, org)

    installed, environment = install(kubectl, org, admin, list(internet.emulator.providers.values()))
    install_chromium()
    return asyncio.run(
        prove_all(
            installed,
            admin=admin,
            environment=environment,
            internet=internet,
            let_tokens_age=let_tokens_age,
        )
    )
