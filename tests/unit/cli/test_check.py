"""``tieline check`` says before a deploy what the deploy would say, with file and line."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.commands import project, tieline
from tests.unit.protocol.deploy_cases import CASES, Case
from tieline.cli.check import CheckReport, check
from tieline.configuration.project_folder import FolderError, find
from tieline_core.project_files.deploy_findings import check_files

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*/integration"))
# The others are project templates alone.
WITH_MANIFESTS = [folder for folder in EXAMPLES if (folder.parent / "kustomization.yaml").exists()]


def checked(folder: Path, **options: Any) -> CheckReport:
    return check(find(folder), **options)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_says_what_the_platform_says(case: Case, tmp_path: Path) -> None:
    for name, content in case.files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    platform = check_files(case.files, case.labels, case.templates)
    report = checked(tmp_path, labels=case.labels, templates=case.templates, load=False)
    assert [(item.message, item.line) for item in report.findings] == [
        (item.message, item.line) for item in platform
    ]
    assert report.ok == (not case.words)
    for mine, theirs in zip(report.findings, platform, strict=True):
        assert mine.filename == str(tmp_path / theirs.filename if theirs.filename else tmp_path)


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_examples_would_be_deployed(folder: Path) -> None:
    report = checked(folder)
    assert report.findings == ()
    assert report.loaded is not None
    assert bool(report.loaded.webhooks) == (folder.parent.name != "empty")


def test_webhooks_events_and_schedules_are_listed(tmp_path: Path) -> None:
    code = """\
from tieline import Integration, Retry
integration = Integration()
@integration.webhook("orders", delivery="queued", key="customer", connection="storefront")
def orders(): ...
@integration.event("order.created", key="customer", retry=Retry(attempts=1))
def order_created(): ...
@integration.schedule("nightly", "0 3 * * *")
def nightly(): ...
"""
    project(tmp_path, {"main.py": code})
    lines = tieline("check", str(tmp_path)).stdout.splitlines()
    assert lines[:2] == [
        "  POST     /orders  (queued, in order by customer, 15 attempts; callers show the credential of storefront)",
        "  event    order.created, in order by customer, 1 attempt",
    ]
    assert lines[2].startswith("  0 3 * * * nightly, next at ")
    told = json.loads(tieline("check", str(tmp_path), "--format=json").stdout)
    assert told["webhooks"][0]["delivery"] == "queued"
    assert told["events"] == [
        {
            "name": "order.created",
            "key": "customer",
            "attempts": 1,
            "cancelOn": None,
            "debounce": None,
            "throttle": None,
            "batch": None,
            "priority": 0,
        }
    ]


def test_a_batch_is_listed_with_its_size(tmp_path: Path) -> None:
    code = """\
from tieline import Batch, Integration
integration = Integration()
@integration.event("price.changed", batch=Batch(100, seconds=5, key="shop"))
def price_changed(ctx, events): ...
"""
    project(tmp_path, {"main.py": code})
    assert tieline("check", str(tmp_path)).stdout.splitlines()[0] == (
        "  event    price.changed, 15 attempts, in batches by shop of at most 100 in 5 s"
    )


def findings(folder: Path, **options: Any) -> list[str]:
    return [str(item).removeprefix(f"{folder}/") for item in checked(folder, **options).findings]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import pandas\n", 'main.py:1: there is no module "pandas"'),
        ("from connectors.shop import Shop\n", "`tieline connectors add shop` writes it"),
        ("import connectors\n", "`tieline connectors add NAME` writes it"),
        ("x = 1\nraise ValueError('no')\n", "main.py:2: ValueError: no"),
        ("import sys\nsys.exit(3)\n", "main.py:2: SystemExit: 3 (code must not exit while it is loaded)"),
        ("import os\nos._exit(3)\n", ": the process that loads the code ended with 3"),
        ("x = 1\n", "main.py: main.py holds no Integration"),
        (
            "from tieline import Integration\ni = Integration()\n@i.webhook('a b')\ndef f(): ...\n",
            "main.py:3: The webhook name 'a b' must be",
        ),
    ],
)
def test_what_would_fail_in_the_pod_is_told_with_its_line(tmp_path: Path, code: str, told: str) -> None:
    (found,) = findings(project(tmp_path, {"main.py": code}))
    assert told in found


def test_modules_of_an_image_of_ones_own_are_there(tmp_path: Path) -> None:
    project(tmp_path, {"later.py": "import pandas\n", "main.py": "import later\n"})
    (found,) = findings(tmp_path)
    assert found.startswith('later.py:1: there is no module "pandas"')
    assert findings(tmp_path, modules=["pandas"], load=False) == []


CONNECTIONS = """\
connections:
  shop:
    baseURL: https://shop.example
    credentials:
      - authScheme: {type: apikey}
        data: {value: "${SHOP_KEY}"}
users:
  ann:
    variables: {region: 7}
variables: {}
"""


def test_mistakes_in_local_files_are_reported_with_their_lines(tmp_path: Path) -> None:
    schema = {"type": "object", "required": ["region"], "properties": {"region": {"type": "string"}}}
    files = {"connections.yaml": CONNECTIONS, "variables.schema.json": json.dumps(schema)}
    assert findings(project(tmp_path, files), load=False) == [
        'connections.yaml:3: there is no field "baseURL" here; there are baseUrl, credentials, exposeToCode, '
        "graphqlPath, id, inputs, limits, lists, name, system, templateId, variables",
        'connections.yaml:2: the connection "shop" needs a baseUrl such as https://shop.example',
        "connections.yaml:5: authScheme.type is 'apikey'; it must be one of api-key, basic-auth, certificate, "
        "hmac, jwt-bearer, none, oauth1, oauth2, secret",
        'connections.yaml:9: the variables break the project\'s schema: region: the value is not of type "string"',
    ]


def test_variables_of_a_connections_urls_are_known(tmp_path: Path) -> None:
    text = """\
connections:
  shop:
    baseUrl: https://{shop}.shop.example/admin
    inputs: [{name: shop, pattern: "^[a-z-]+$"}]
    variables: {shop: my-shop}
"""
    assert findings(project(tmp_path, {"connections.yaml": text}), load=False) == []


def test_limits_and_lists_are_checked_with_their_lines(tmp_path: Path) -> None:
    text = """\
connections:
  shop:
    baseUrl: https://shop.example
    limits: {answers: [{status: 403, header: Retry-After, when: later}], cost: {available: left, reset: at}}
    lists: {default: {kind: link}, paths: [{path: /orders, kind: cursor, following: {keeps: []}}]}
  crm:
    baseUrl: https://crm.example
    limits: {answers: [{header: Retry-After}]}
    lists: {default: {kind: cursor, parameter: after}}
"""
    found = findings(project(tmp_path, {"connections.yaml": text}), load=False)
    assert [line.partition(";")[0] for line in found] == [
        'connections.yaml:4: there is no field "when" here',
        'connections.yaml:5: there is no field "keeps" here',
        "connections.yaml:8: limits: answers[0]: needs status, path or remaining",
        "connections.yaml:9: lists: default: next is needed: the place of the next cursor in an answer",
    ]


def test_a_signature_that_cannot_be_is_told_with_its_line(tmp_path: Path) -> None:
    text = (
        "connections:\n  shop:\n    baseUrl: https://shop.example\n    credentials:\n"
        "      - authScheme:\n          type: hmac\n          hmac: {preset: stripe, prefix: x}\n"
        "        data: {value: k}\n"
    )
    assert findings(project(tmp_path, {"connections.yaml": text}), load=False) == [
        "connections.yaml:7: preset stripe sets prefix: leave that out, or leave out preset and set all of name, in, "
        "algorithm and digestInputs"
    ]


def test_a_schema_that_is_none_is_reported(tmp_path: Path) -> None:
    project(tmp_path, {"variables.schema.yaml": "type: object\nproperties: {a: {type: strin}}\n"})
    (found,) = findings(tmp_path)
    assert found.startswith("variables.schema.yaml: the schema of variables: properties.a.type: ")


def test_templates_come_from_the_connections_file_or_the_command(tmp_path: Path) -> None:
    code = "async def f(ctx):\n    await ctx.fetch('shop')\n    await ctx.fetch('crm')\n"
    project(tmp_path, {"shop.py": code, "connections.yaml": "connections: {shop: {baseUrl: http://x}}\n"})
    (found,) = findings(tmp_path)
    assert found.startswith(
        'shop.py:3: the code uses the connection template "crm", which connections.yaml does not'
    )
    assert "ConnectionTemplate" not in found
    assert findings(tmp_path, templates=["crm"]) == []
    (found,) = findings(tmp_path, templates=["other"])
    assert 'create a ConnectionTemplate with spec.name "crm"' in found


def test_a_locked_package_is_found_beside_other_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    (packages / "dateutil").mkdir(parents=True)
    monkeypatch.setattr("tieline.cli.check.installed_folder", lambda _: packages)
    code = tmp_path / "code"
    project(code, {"orders.py": "import dateutil\n", "broken.py": "def f(:\n"})
    (found,) = findings(code)
    assert found.startswith("broken.py:1: ")


def test_the_command_ends_with_1_for_errors_and_tells_them_as_text_and_as_json(tmp_path: Path) -> None:
    project(tmp_path, {"orders.py": "def f(:\n"})
    text = tieline("check", ".", cwd=tmp_path)
    assert (text.returncode, text.stdout.splitlines()[-1]) == (1, "1 error")
    assert text.stdout.startswith("orders.py:1: error: Python cannot read this: ")
    told = json.loads(tieline("check", ".", "--format=json", cwd=tmp_path).stdout)
    assert not told["ok"]
    assert {**told["findings"][0], "message": ""} == {
        "severity": "error",
        "file": "orders.py",
        "line": 1,
        "message": "",
    }
    (tmp_path / "orders.py").unlink()
    sound = tieline("check", cwd=tmp_path)
    assert (sound.returncode, sound.stdout) == (0, "  GET      /where\nNothing refuses a deploy\n")
    nowhere = tieline("check", "nowhere", cwd=tmp_path)
    assert (nowhere.returncode, "nowhere is no folder" in nowhere.stderr) == (2, True)


def test_what_is_for_local_runs_is_not_deployed(tmp_path: Path) -> None:
    files = {".env": "", ".git/x": "", "__pycache__/x.pyc": "", "connections.yaml": "", "shop/x.json": "{}"}
    assert [path for path, _ in find(project(tmp_path, files)).files()] == ["main.py", "shop/x.json"]


def test_the_folder_may_be_the_one_above_the_code(tmp_path: Path) -> None:
    project(tmp_path / "integration")
    (tmp_path / "connections.json").write_text("{}")
    for start in (tmp_path, tmp_path / "integration"):
        found = find(start)
        assert (found.code, found.connections) == (tmp_path / "integration", tmp_path / "connections.json")
    with pytest.raises(FolderError, match="no file"):
        find(tmp_path, schema=tmp_path / "nowhere.json")


@pytest.mark.parametrize("folder", WITH_MANIFESTS, ids=lambda path: path.parent.name)
def test_the_examples_manifests_deploy_what_is_checked_and_run(folder: Path) -> None:
    found = find(folder)
    example = folder.parent
    kustomization = yaml.safe_load((example / "kustomization.yaml").read_text())
    deployed = [path for item in kustomization["configMapGenerator"] for path in item["files"]]
    own = {path.removeprefix("integration/") for path in deployed if path.startswith("integration/")}
    assert own == {path for path, _ in found.files()}
    projects = list(yaml.safe_load_all((example / "project.yaml").read_text()))
    (project,) = [item for item in projects if item["kind"] == "Project"]
    schema = json.loads(found.schema.read_text()) if found.schema else None
    assert project["spec"].get("dynamicVariablesSchema") == schema
