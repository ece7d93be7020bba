"""docs/first-customer.md, block by block: operator and API, a pod's process, the product, Keycloak, and Chromium."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Page, expect

from tests.harness.cluster.deployed_platform import http
from tests.harness.cluster.kubectl import ROOT, Kubectl
from tests.harness.console.chromium import PATIENCE_MS, chromium
from tests.harness.identity.keycloak import Keycloak, Person
from tests.harness.processes.ports import free_ports
from tests.harness.processes.running_api import RunningApi
from tests.harness.processes.running_process import RunningProcess
from tests.harness.processes.running_runtime import RunningRuntime
from tests.harness.session.waiting import eventually
from tests.integration.api.docs.reader import Reader
from tests.integration.api.pods import account_token
from tests.integration.operator.running_operator import RunningOperator
from tests.unit.docs.doc_pages import page

pytestmark = pytest.mark.cluster

PAGE = page("docs/first-customer.md")
OPEN = {"TIELINE_EGRESS_ALLOWED": "127.0.0.0/8"}


@dataclass
class Product(RunningProcess):
    """``. ./product.env; python3 product.py``"""

    module = "product"
    folder: Path
    port: int
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.folder / "product.log"

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def environment(self) -> dict[str, str]:
        settings = re.findall(r"^export (\w+)=(.*)$", (self.folder / "product.env").read_text(), re.M)
        return {**dict(settings), "PYTHONPATH": str(self.folder)}

    def ready(self) -> bool:
        try:
            return http("GET", self.url, timeout=5).status == 200
        except OSError:
            return False

    def told(self) -> list[str]:
        """What it has printed of Tieline's messages."""
        return [
            line for line in self.log.read_text().splitlines() if re.match(r"(connection|activation)\.", line)
        ]


@pytest.fixture
def api(api_kubeconfig: Path, tmp_path: Path) -> Iterator[RunningApi]:
    with RunningApi(kubeconfig=api_kubeconfig, log=tmp_path / "api.log", variables=OPEN) as running:
        yield running


@pytest.fixture
def ports() -> list[int]:
    """Of the product, and of the pod with its probes."""
    return list(free_ports(3))


@pytest.fixture
def reader(
    kubectl: Kubectl,
    crds_installed: None,
    keycloak: Keycloak,
    api: RunningApi,
    ports: list[int],
    tmp_path: Path,
) -> Iterator[Reader]:
    """A product team whose shop is Keycloak."""
    client = keycloak.register()
    folder = tmp_path / "product"
    folder.mkdir()
    following = Reader(
        folder,
        kubectl,
        namespace="cedar",
        organisation="01M8CEDAR00000000000000000",
        variables={"TIELINE_URL": api.url, "CHECKOUT": str(ROOT)},
        replaced={
            "https://api.shop.example": f"{keycloak.issuer}/protocol/openid-connect",
            "https://login.shop.example/authorize": keycloak.authorize_url,
            "https://login.shop.example/token": keycloak.token_url,
            "the-client-id": client.id,
            "the-client-secret": client.secret,
            "https://product.example": f"http://127.0.0.1:{ports[0]}",
            "8000": str(ports[0]),
        },
    )
    yield following
    kubectl("delete", "namespace", following.namespace, "--ignore-not-found", "--wait=false")


@pytest.fixture
def operator(
    reader: Reader, operator_kubeconfig: Path, ports: list[int], tmp_path: Path
) -> Iterator[RunningOperator]:
    running = RunningOperator(
        kubeconfig=operator_kubeconfig,
        namespaces=(reader.namespace,),
        log=tmp_path / "operator.log",
        variables={**OPEN, "TIELINE_PUBLIC_URL_TEMPLATE": f"http://127.0.0.1:{ports[1]}"},
    )
    yield running
    running.stop()


@pytest.fixture
def browser_page() -> Iterator[Page]:
    with chromium(PATIENCE_MS, "--test-third-party-cookie-phaseout") as browser:
        yield browser.new_page(locale="en-GB")


def connect(page: Page, product: Product, person: Person) -> None:
    """What the first customer does."""
    page.goto(product.url)
    page.get_by_role("button", name="Connect your shop").click()
    frame = page.frame_locator("iframe")
    frame.get_by_role("button", name="Connect Shop").click()
    with page.expect_popup() as opened:
        frame.get_by_role("button", name="Continue to Shop").click()
    opened.value.fill("#username", person.name)
    opened.value.fill("#password", person.password)
    with opened.value.expect_event("close"):
        opened.value.click("#kc-login, [name=login]")
    expect(frame.get_by_text("Connected", exact=True)).to_be_visible()
    frame.get_by_label("Region").select_option("us")
    frame.get_by_role("button", name="Done").click()
    expect(page.get_by_role("status")).to_have_text("done")


def code_of(reader: Reader) -> str:
    """The integration that the page deploys."""
    project = next(yaml.safe_load_all((reader.folder / "greeting.yaml").read_text()))
    return str(project["spec"]["source"]["files"][0]["content"])


def test_a_team_that_follows_the_page_has_its_first_customer(
    reader: Reader,
    operator: RunningOperator,
    api: RunningApi,
    kubectl: Kubectl,
    keycloak: Keycloak,
    ports: list[int],
    browser_page: Page,
    tmp_path: Path,
) -> None:
    reader.save(PAGE, "yaml", "python", "html", "js")
    blocks = PAGE.blocks("sh")
    marked = {block.mark: block for block in blocks if block.mark}
    organisation, *setting_up = [block for block in blocks if not block.mark]
    reader.do(organisation)
    operator.start()
    for block in setting_up:
        reader.do(block)

    product = Product(reader.folder, ports[0])
    token = account_token(kubectl, reader.organisation, {"id": "greeting"})
    pod = RunningRuntime(
        folder=tmp_path / "pod",
        code=code_of(reader),
        token=token,
        variables={"TIELINE_API_URL": api.internal_url, **OPEN},
        port=ports[1],
        health_port=ports[2],
    )
    with product, pod:
        customer = f"{pod.url}/greet/users/customer-17"
        assert http("GET", customer).status == 404
        person = keycloak.person()
        connect(browser_page, product, person)
        begun = ["activation.created customer-17", "connection.created customer-17"]
        eventually("the product is told", lambda: sorted(product.told()) == begun, seen=product.log.read_text)
        assert http("POST", f"{product.url}/tieline", body=b"{}").status == 401, (
            "nobody else tells it anything"
        )

        eventually("the pod knows the customer", lambda: http("GET", customer).status == 200)
        run = json.loads(reader.do(marked["run"]))
        assert (run["customer"], run["region"]) == ("customer-17", "us")
        assert run["shop"]["preferred_username"] == person.name

        reader.do(marked["disconnect"])
        ended = ["activation.deleted customer-17", "connection.deleted customer-17"]
        eventually(
            "the product is told", lambda: sorted(product.told()[2:]) == ended, seen=product.log.read_text
        )
        eventually("the pod forgets the customer", lambda: http("GET", customer).status == 404)
    reader.do(marked["tidy up"])
