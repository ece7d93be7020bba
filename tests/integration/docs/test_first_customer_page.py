"""docs/first-customer.md, block by block: operator and API, a pod's process, the product, Keycloak, and Chromium."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, Page, expect

from tests.harness.cluster.deployed_platform import Answer, http
from tests.harness.cluster.kubectl import ROOT, Kubectl
from tests.harness.console.chromium import WHOLE_PROGRAM, chromium, open_context
from tests.harness.identity.keycloak import Keycloak, Person
from tests.harness.processes.local_servers import HandlerServer, Quiet
from tests.harness.processes.ports import free_ports
from tests.harness.processes.running_api import RunningApi
from tests.harness.processes.running_process import RunningProcess
from tests.harness.processes.running_runtime import RunningRuntime
from tests.harness.session.waiting import eventually
from tests.integration.api.pods import account_token
from tests.integration.docs.reader import Reader
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
        lines = self.log.read_text().splitlines()
        return [line for line in lines if re.match(r"(connection|activation)\.", line)]

    def hears(self, *messages: str, after: int) -> None:
        """Returns once it was told these, in any order, after so many others."""
        eventually(
            f"{messages} are told",
            lambda: sorted(self.told()[after:]) == sorted(messages),
            seen=self.log.read_text,
        )


BRAND = """
name: Zeder
colours: {accent: "#0b5d3b"}
languages: [de]
texts:
  de: {title: Ihre Werkzeuge, field.value: Ihr Schlüssel}
systems:
  shop.example: {name: Laden, purpose: {de: Wir grüßen Sie.}}
"""


@pytest.fixture
def api(api_kubeconfig: Path, tmp_path: Path) -> Iterator[RunningApi]:
    brand = tmp_path / "brand.yaml"
    brand.write_text(BRAND)
    with RunningApi(kubeconfig=api_kubeconfig, log=tmp_path / "api.log", variables=OPEN) as running:
        yield running


@dataclass
class Team:
    """A product team that follows the page, and what it starts."""

    reader: Reader
    operator: RunningOperator
    api: RunningApi
    kubectl: Kubectl
    ports: list[int]
    """Of the product, and of the pod with its probes."""

    def set_up(self) -> None:
        """All commands of the page up to the product's start."""
        organisation, *blocks = [block for block in PAGE.blocks("sh") if not block.mark]
        self.reader.do(organisation)
        self.operator.start()
        for block in blocks:
            self.reader.do(block)

    def do(self, mark: str) -> str:
        """What the commands of the block with this mark print."""
        (block,) = [block for block in PAGE.blocks("sh") if block.mark == mark]
        return self.reader.do(block)

    @contextmanager
    def running(self) -> Iterator[Product]:
        """The product, and the environment's pod as a process on this machine."""
        project = next(yaml.safe_load_all((self.reader.folder / "greeting.yaml").read_text()))
        pod = RunningRuntime(
            folder=self.reader.folder / "pod",
            code=project["spec"]["source"]["files"][0]["content"],
            token=account_token(self.kubectl, self.reader.organisation, {"id": "greeting"}),
            variables={"TIELINE_API_URL": self.api.internal_url, **OPEN},
            port=self.ports[1],
            health_port=self.ports[2],
        )
        with Product(self.reader.folder, self.ports[0]) as product, pod:
            yield product

    def run_for(self, customer: str) -> Answer:
        """A run of the integration for a customer."""
        return http("GET", f"http://127.0.0.1:{self.ports[1]}/greet/users/{customer}")


@contextmanager
def a_team(
    kubectl: Kubectl, kubeconfig: Path, api: RunningApi, folder: Path, replaced: Mapping[str, str]
) -> Iterator[Team]:
    """``replaced``: what of the page's text is the team's own, beside the addresses of its product."""
    ports = list(free_ports(3))
    (folder / "product").mkdir()
    reader = Reader(
        folder / "product",
        kubectl,
        namespace="cedar",
        organisation="01M8CEDAR00000000000000000",
        variables={"TIELINE_URL": api.url, "CHECKOUT": str(ROOT)},
        replaced={
            "https://product.example": f"http://127.0.0.1:{ports[0]}",
            "8000": str(ports[0]),
            **replaced,
        },
    )
    reader.save(PAGE, "yaml", "python", "html", "js")
    operator = RunningOperator(
        kubeconfig=kubeconfig,
        namespaces=(reader.namespace,),
        log=folder / "operator.log",
        variables={**OPEN, "TIELINE_PUBLIC_URL_TEMPLATE": f"http://127.0.0.1:{ports[1]}"},
    )
    try:
        yield Team(reader, operator, api, kubectl, ports)
    finally:
        operator.stop()
        kubectl("delete", "namespace", reader.namespace, "--ignore-not-found", "--wait=false")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium("--test-third-party-cookie-phaseout", program=WHOLE_PROGRAM) as running:
        yield running


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


def test_a_team_that_follows_the_page_has_its_first_customer(
    kubectl: Kubectl,
    operator_kubeconfig: Path,
    api: RunningApi,
    keycloak: Keycloak,
    browser: Browser,
    tmp_path: Path,
) -> None:
    client, person = keycloak.register(), keycloak.person()
    replaced = {
        "https://api.shop.example": f"{keycloak.issuer}/protocol/openid-connect",
        "https://login.shop.example/authorize": keycloak.authorize_url,
        "https://login.shop.example/token": keycloak.token_url,
        "the-client-id": client.id,
        "the-client-secret": client.secret,
    }
    with a_team(kubectl, operator_kubeconfig, api, tmp_path, replaced) as team:
        team.set_up()
        with team.running() as product:
            assert team.run_for("customer-17").status == 404
            connect(open_context(browser, locale="en-GB").new_page(), product, person)
            product.hears("activation.created customer-17", "connection.created customer-17", after=0)
            forged = http("POST", f"{product.url}/tieline", body=b"{}")
            assert forged.status == 401, "nobody else tells it anything"

            eventually("the pod knows the customer", lambda: team.run_for("customer-17").status == 200)
            run = json.loads(team.do("run"))
            assert (run["customer"], run["region"]) == ("customer-17", "us")
            assert run["shop"]["preferred_username"] == person.name

            team.do("disconnect")
            product.hears("activation.deleted customer-17", "connection.deleted customer-17", after=2)
            eventually("the pod forgets the customer", lambda: team.run_for("customer-17").status == 404)
        team.do("tidy up")


class KeyShop(HandlerServer):
    """A shop whose customers have keys."""

    def __init__(self) -> None:
        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = {"key-of-ann": "Ann", "key-of-ben": "Ben"}.get(self.headers["X-API-Key"])
                body = json.dumps({"name": name}).encode()
                self.send_response(200 if name else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        super().__init__(Handler)


def test_a_team_whose_customers_enter_keys_in_german_has_two_and_one_mistypes(
    kubectl: Kubectl, operator_kubeconfig: Path, api: RunningApi, browser: Browser, tmp_path: Path
) -> None:
    api.stop()
    api.variables = {**OPEN, "TIELINE_CONNECT_BRAND_FILE": str(tmp_path / "brand.yaml")}
    api.start()
    replaced = {
        'return "customer-17", "Ann"': 'return request.cookies["customer"], request.cookies["customer"].title()',
        "open({ token, page })": 'open({ token, page, language: "de" })',
    }
    with KeyShop() as shop, a_team(kubectl, operator_kubeconfig, api, tmp_path, replaced) as team:
        system = yaml.safe_load((team.reader.folder / "shop.yaml").read_text())
        scheme = {"id": "key", "type": "api-key", "apiKey": {"name": "X-API-Key", "in": "header"}}
        system["spec"] |= {"templateBaseUrl": shop.url, "authSchemeConfigs": [scheme]}
        (team.reader.folder / "shop.yaml").write_text(yaml.safe_dump(system))
        team.set_up()
        with team.running() as product:
            ann, ben = (_signed_in(browser, product, name) for name in ("ann", "ben"))
            _enter(ann, product, "key-of-ann")
            _enter(ben, product, "a typing error")
            product.hears(
                *(
                    f"{what}.created {name}"
                    for what in ("activation", "connection")
                    for name in ("ann", "ben")
                ),
                after=0,
            )
            eventually("Ann is greeted", lambda: team.run_for("ann").json["shop"] == {"name": "Ann"})
            eventually("Ben is known", lambda: team.run_for("ben").status not in (404, 200))
            product.hears("connection.needs_authorisation ben", after=4)

            _enter(ben, product, "key-of-ben", again=True)
            eventually("Ben is greeted", lambda: team.run_for("ben").json["shop"] == {"name": "Ben"})
            assert team.run_for("ann").json["shop"] == {"name": "Ann"}


def _signed_in(browser: Browser, product: Product, customer: str) -> Page:
    context = open_context(browser, locale="en-GB")
    context.add_cookies([{"name": "customer", "value": customer, "url": product.url}])
    return context.new_page()


def _enter(page: Page, product: Product, key: str, *, again: bool = False) -> None:
    page.goto(product.url)
    page.get_by_role("button", name="Connect your shop").click()
    frame = page.frame_locator("iframe")
    expect(frame.get_by_role("heading", level=1)).to_have_text("Ihre Werkzeuge")
    expect(frame.get_by_text("Wir grüßen Sie.")).to_be_visible()
    if again:
        expect(frame.get_by_text("Bitte prüfen: Laden lehnt die Verbindung ab")).to_be_visible()
    frame.get_by_role("button", name="Neu verbinden" if again else "Laden verbinden").click()
    frame.get_by_label("Ihr Schlüssel").fill(key)
    frame.get_by_role("button", name="Laden verbinden").click()
    expect(frame.get_by_label("Ihr Schlüssel")).to_have_count(0)
    frame.get_by_role("button", name="Fertig").click()
    expect(page.get_by_role("status")).to_have_text("done")
