"""Schemathesis on the running API: requests made from the OpenAPI document, good and bad ones.

Each run of the tests makes as many as fit in a minute. Before a release, make at least 5,000 of them
(a quarter of an hour):

    TIELINE_SCHEMATHESIS_CASES=5000 pytest -s -k made_from_the_document \
        tests/integration/api/contract/test_schemathesis.py
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.harness.cluster.kubectl import Kubectl, an_organisation
from tests.harness.processes.nats_server import NatsServer
from tests.integration.api.conftest import Client, Server, of_engine
from tests.integration.api.engine_objects import make_streams
from tests.integration.api.objects import make_template
from tieline_api.handlers import store
from tieline_core.identity.ids import static_activation_id

pytestmark = pytest.mark.cluster

SECONDS = {"examples,coverage,fuzzing": 40, "stateful": 25}
"""For each run."""
CASES = int(os.environ.get("TIELINE_SCHEMATHESIS_CASES", "0"))
"""How many cases the document has to give at least; 0 for as many as there is time for."""
EXAMPLES, LONG_SECONDS = 10, 900
HOOKS = Path(__file__).with_name("schemathesis_hooks.py")
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "unsupported_method",
    "allow_header_conformance",
    "negative_data_rejection",
)
LIFE = ("use_after_free", "ensure_resource_availability")
"""What was deleted is gone, and what was made is there: needs requests that follow each other."""
LIVES = {
    "System": "create get update delete",
    "Project": "create get update delete",
    "ConnectionTemplate": "create update delete",
    "Connection": "create get update delete",
    "User": "create get delete",
    "Activation": "get delete",
}
LINKED = [f"{verb}{kind}" for kind, verbs in LIVES.items() for verb in verbs.split()]
LINKED += ["activateUser", "updateActivationVariables", "setVariablesSchema", "updateFiles"]

STORE = [one.id for one in store.OPERATIONS]


@pytest.fixture
def admin(
    api_kubeconfig: Path,
    kubectl: Kubectl,
    token_for: Callable[..., str],
    crds_installed: None,
    engine: NatsServer,
    tmp_path: Path,
) -> Iterator[Client]:
    """The administrator of an organisation of this test's own, at a server of its own: much is made in it."""
    with an_organisation(kubectl) as made, Server(api_kubeconfig, **of_engine(engine, tmp_path)) as server:
        client = Client(server.url, token_for(made.namespace, "schemathesis", "tieline-admin"), made.id)
        client.until_known()
        yield client


def _run(
    admin: Client,
    folder: Path,
    *,
    phases: str,
    checks: tuple[str, ...],
    config: list[str],
    only: Iterable[str] = (),
    without: Iterable[str] = (),
    **environment: str,
) -> None:
    file = folder / "schemathesis.toml"
    file.write_text("\n".join(config) + "\n")
    # It would wait 10 s for it, whatever else the machine does.
    document = file.with_name("openapi.json")
    document.write_bytes(admin.at("/openapi.json").raw)
    examples = max(EXAMPLES, CASES // 30)
    seconds = LONG_SECONDS if CASES else SECONDS[phases]
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            f"--config-file={file}",
            "run",
            str(document),
            f"--url={admin.url}",
            f"--header=Authorization: Bearer {admin.token}",
            f"--checks={','.join(checks)}",
            f"--phases={phases}",
            "--mode=all",
            f"--max-time={seconds}",
            f"--max-examples={examples}",
            "--generation-deterministic",
            "--generation-with-security-parameters=false",
            "--continue-on-failure",
            "--no-shrink",
            "--no-color",
            *(f"--include-operation-id={operation}" for operation in only),
            *(f"--exclude-operation-id={operation}" for operation in without),
        ],
        capture_output=True,
        text=True,
        timeout=seconds + 60,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONHASHSEED": "0", **environment},
    )
    said = done.stdout.replace(str(admin.token), "<token>")
    assert done.returncode == 0, said[-20000:] + done.stderr[-2000:]
    if CASES and "stateful" not in phases:
        generated = [int(number) for number in re.findall(r"(\d+) generated", said)]
        print(f"schemathesis made {max(generated)} cases")
        assert max(generated) >= CASES


def _parameters(**known: str) -> list[str]:
    return [f'"path.{name}" = {json.dumps(value)}' for name, value in known.items()]


def test_what_is_made_from_the_document_is_answered_as_the_document_says(
    admin: Client, engine: NatsServer, tmp_path: Path
) -> None:
    project, template = make_template(admin)
    make_streams(engine, admin.organisation, project["environments"][0]["id"])
    known = _parameters(
        organisation_id=admin.organisation,
        project_id=project["id"],
        system_id=template["id"],
        template_id=template["connectionTemplateId"],
        environment_id=project["environments"][0]["id"],
    )
    config = ["[parameters]", *known]
    _run(
        admin,
        tmp_path,
        phases="examples,coverage,fuzzing",
        checks=CHECKS,
        config=config,
        without=[*STORE, "watchOrganisation"],
        SCHEMATHESIS_HOOKS=str(HOOKS),
    )


def test_the_store_is_answered_as_the_document_says(
    admin: Client, engine: NatsServer, tmp_path: Path
) -> None:
    project, _ = make_template(admin)
    environment = project["environments"][0]["id"]
    make_streams(engine, admin.organisation, environment)
    known = _parameters(organisation_id=admin.organisation, activation_id=static_activation_id(environment))
    _run(
        admin,
        tmp_path,
        phases="examples,coverage,fuzzing",
        # A key may be called "list" or "count", so their paths have the methods of keys too.
        checks=tuple(one for one in CHECKS if one not in ("unsupported_method", "allow_header_conformance")),
        config=["[parameters]", *known],
        only=STORE,
        SCHEMATHESIS_HOOKS=str(HOOKS),
    )


def test_the_links_of_the_document_lead_through_the_life_of_everything(admin: Client, tmp_path: Path) -> None:
    project, template = make_template(admin)
    user = admin.ok("POST", "/users", {"externalId": "ann"}, status=201)
    # Links that schemathesis guesses would take the time of those that the document has.
    config = ["[phases.stateful]", "max-steps = 12", "inference.algorithms = []"]
    config += ["[parameters]", *_parameters(organisation_id=admin.organisation)]
    for operation in ("createConnectionTemplate", "updateConnectionTemplate", "deleteConnectionTemplate"):
        config += [
            "[[operations]]",
            f"include-operation-id = {json.dumps(operation)}",
            "[operations.parameters]",
        ]
        config += _parameters(organisation_id=admin.organisation, project_id=project["id"])
    seeds = {
        "projectId": project["id"],
        "systemId": template["id"],
        "environmentId": project["environments"][0]["id"],
        "connectionTemplateId": template["connectionTemplateId"],
        "userId": user["id"],
    }
    _run(
        admin,
        tmp_path,
        phases="stateful",
        checks=(*CHECKS, *LIFE),
        config=config,
        only=LINKED,
        SCHEMATHESIS_HOOKS=str(HOOKS),
        TIELINE_SEEDS=json.dumps(seeds),
    )
    counted = re.findall(
        r'tieline_api_requests_total\{operation="(\w+)",status="2\d\d"\}', admin.at("/metrics").raw.decode()
    )
    # How far it comes is a matter of time and chance: test_rest_links.py follows every link.
    assert any(operation.startswith("create") for operation in counted)
