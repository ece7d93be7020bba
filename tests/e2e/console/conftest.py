"""The console of the deployed platform, where people sign in at Keycloak, and a project that they look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser

from tests.e2e.console.stage import Stage, make_stage
from tests.harness.cluster.deployed_platform import Platform, Tenant, administrator
from tests.harness.cluster.kubectl import an_organisation
from tests.harness.console.at_issuer import ConsoleAtIssuer, console_at_issuer
from tests.harness.console.chromium import SIZE, chromium, open_context
from tests.harness.console.watching import watch
from tests.harness.identity.keycloak import Keycloak
from tests.integration.api.console.person import Person


@dataclass
class People:
    """A viewer, an editor and an administrator, each at a browser of their own."""

    viewer: Person
    editor: Person
    admin: Person
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="package")
def console(platform: Platform, keycloak: Keycloak, runtime_image: str) -> Iterator[ConsoleAtIssuer]:
    with console_at_issuer(platform, keycloak, runtime_image) as made:
        yield made


@pytest.fixture(scope="package")
def stage(platform: Platform, console: ConsoleAtIssuer, runtime_image: str) -> Iterator[Stage]:
    with an_organisation(platform.kubectl) as organisation:
        tenant = Tenant(kubectl=platform.kubectl, namespace=organisation.namespace)
        yield make_stage(tenant, administrator(platform, organisation), runtime_image)


@pytest.fixture(scope="package")
def complaints() -> list[str]:
    """What browsers refuse or throw."""
    return []


@pytest.fixture(scope="package")
def signed_in(
    console: ConsoleAtIssuer, stage: Stage, browser: Browser, complaints: list[str]
) -> Callable[[str, str], Person]:
    """Somebody with a role in an organisation, who has signed in at Keycloak with a browser of their own."""

    def sign_in(namespace: str, role: str) -> Person:
        context = open_context(browser, viewport=SIZE, locale="en-GB", timezone_id="Europe/Berlin")
        watch(context, complaints, allowed=(console.url, console.keycloak.url, stage.club))
        page = context.new_page()
        console.sign_in(page, console.person(namespace, role))
        return Person(page, console.url, namespace)

    return sign_in


@pytest.fixture(scope="package")
def everybody(signed_in: Callable[[str, str], Person], stage: Stage, complaints: list[str]) -> People:
    viewer, editor, admin = (signed_in(stage.tenant.namespace, one) for one in ("viewer", "editor", "admin"))
    return People(viewer, editor, admin, complaints)


@pytest.fixture
def people(everybody: People) -> Iterator[People]:
    """They, and nothing that their browsers refuse or throw."""
    yield everybody
    assert everybody.complaints == []
