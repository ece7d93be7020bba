"""The files that ``tieline init`` writes."""

import json
from collections.abc import Mapping

import yaml

_MAIN = '''\
"""What this integration does, in one sentence."""

from typing import Any

from tieline import Context, Event, Integration, Request, Retry

integration = Integration()


@integration.webhook("orders", delivery="queued")
async def orders(ctx: Context, request: Request) -> None:
    """Accepts an order: it is stored before the caller gets 202, and tried until the other side takes it."""
    order: dict[str, Any] = await request.json()
    await ctx.publish("order.received", order, key=str(order["customer"]))


@integration.event("order.received", retry=Retry(attempts=10))
async def order_received(ctx: Context, event: Event) -> None:
    """Sends an order to the system that `connections.yaml` and the platform call "shop"."""
    headers = {"Idempotency-Key": ctx.idempotency_key}
    response = await ctx.fetch("shop", "/orders", method="POST", json=event.payload, headers=headers)
    response.raise_for_status()
    ctx.log.info("Sent an order", customer=event.payload["customer"])
'''

_TEST = '''\
"""What the integration does; the other side is a fake."""

from datetime import timedelta

from tieline.testing import Project

ORDER = {"number": "A-1", "customer": "ann"}


def test_an_order_is_sent_to_the_shop(tieline_project: Project) -> None:
    shop = tieline_project.connection("shop")
    shop.on("POST", "/orders").answer(201, json={"id": "7"})
    assert tieline_project.post("/orders", json=ORDER).status == 202
    tieline_project.run_events()
    (request,) = shop.requests
    assert request.json() == ORDER


def test_an_order_survives_a_shop_that_is_away(tieline_project: Project) -> None:
    shop = tieline_project.connection("shop")
    shop.on("POST", "/orders").answer(503).answer(503).answer(201, json={"id": "7"})
    assert tieline_project.post("/orders", json=ORDER).status == 202
    tieline_project.advance(timedelta(minutes=5))
    assert [request.json() for request in shop.requests] == [ORDER] * 3
    assert tieline_project.dead_letters == []
'''

_CONNECTIONS = """\
# For `tieline run` and tests. On the platform, connections and their Secrets say the same.
connections:
  shop:
    baseUrl: ${SHOP_URL}
    credentials:
      - type: string
        authScheme: {type: api-key, apiKey: {name: X-API-Key, in: header}}
        data: {value: "${SHOP_API_KEY}"}
"""

_README = """\
# {name}

```console
pip install 'tieline[desk]' pytest   # from your Tieline's checkout or package index
tieline check                        # what a deploy would refuse
pytest                               # the other side is a fake
SHOP_URL=http://localhost:9000 SHOP_API_KEY=any-key tieline run
```

Deploy it, and see what it does:

```console
tieline login https://tieline.example
tieline deploy --create              # later: tieline deploy
tieline logs --follow
tieline runs list --status dead
```

`shop` in the code is a connection template. Add it to the environment in the console, by REST, or with manifests:
`tieline manifests` writes them.
"""

_GITHUB = """\
# Needs the variables TIELINE_PACKAGE (where pip finds Tieline), TIELINE_URL and TIELINE_ORGANISATION, and the secret
# TIELINE_TOKEN: an API key of an editor.
name: integration
on:
  push: {branches: [main]}
  pull_request:
permissions: {contents: read}
concurrency: {group: "${{ github.ref }}"}
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "3.11"}
      - run: pip install "tieline[desk] @ ${{ vars.TIELINE_PACKAGE }}" pytest
      - run: tieline check
      - run: pytest
  deploy:
    needs: test
    if: github.event_name == 'push'
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "3.11"}
      - run: pip install "tieline[desk] @ ${{ vars.TIELINE_PACKAGE }}"
      - run: tieline deploy --version-name "${GITHUB_SHA::12}"
        env:
          TIELINE_URL: ${{ vars.TIELINE_URL }}
          TIELINE_ORGANISATION: ${{ vars.TIELINE_ORGANISATION }}
          TIELINE_TOKEN: ${{ secrets.TIELINE_TOKEN }}
"""

_GITLAB = """\
# Needs the CI/CD variables TIELINE_PACKAGE (where pip finds Tieline), TIELINE_URL, TIELINE_ORGANISATION, and
# TIELINE_TOKEN (masked): an API key of an editor.
default:
  image: python:3.11
  before_script:
    - pip install "tieline[desk] @ $TIELINE_PACKAGE" pytest
test:
  script:
    - tieline check
    - pytest
deploy:
  stage: deploy
  rules:
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
  script:
    - tieline deploy --version-name "$CI_COMMIT_SHORT_SHA"
"""

CI_FILES: Mapping[str, tuple[str, str]] = {
    "github": (".github/workflows/integration.yaml", _GITHUB),
    "gitlab": (".gitlab-ci.yml", _GITLAB),
}


def _yaml(name: str) -> str:
    """A name in YAML; in quotes where it would be a number, a date or a truth value otherwise."""
    return name if yaml.safe_load(name) == name else json.dumps(name)


def scaffold(name: str, ci: str) -> dict[str, str]:
    """The files of a new project by path. ``ci`` is a key of ``CI_FILES``, or ``none``."""
    files = {
        "tieline.yaml": (
            f"# What `tieline deploy` and the other commands here are about.\nproject: {_yaml(name)}\n"
        ),
        "integration/main.py": _MAIN,
        "tests/test_integration.py": _TEST,
        "connections.yaml": _CONNECTIONS,
        "README.md": _README.format(name=name),
        ".gitignore": ".tieline/\n__pycache__/\n.pytest_cache/\n.venv/\n",
    }
    if ci in CI_FILES:
        path, content = CI_FILES[ci]
        files[path] = content
    return files
