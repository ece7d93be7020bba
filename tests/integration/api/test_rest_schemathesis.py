"""Schemathesis on the running API: requests made from the OpenAPI document, good and bad ones."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.kubectl import Kubectl, Organisation, make_organisation
from tests.integration.api.conftest import Client, Server
from tests.integration.api.objects import make_template

pytestmark = pytest.mark.cluster

SECONDS = 50
"""For the whole run."""
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


@pytest.fixture
def admin(
    server: Server, kubectl: Kubectl, token_for: Callable[..., str], crds_installed: None
) -> Iterator[Client]:
    """The administrator of an organisation of this test's own: much is made in it."""
    made: Organisation = make_organisation(kubectl)
    client = Client(server.url, token_for(made.namespace, "schemathesis", "tieline-admin"), made.id)
    until = time.monotonic() + 10
    while client("GET", "/projects").status != 200:
        assert time.monotonic() < until
        time.sleep(0.05)
    yield client
    kubectl("delete", "namespace", made.namespace, "--wait=false")


def test_what_it_makes_of_the_document_is_answered_as_the_document_says(
    admin: Client, tmp_path: Path
) -> None:
    project, template = make_template(admin)
    known = {
        "organisation_id": admin.organisation,
        "project_id": project["id"],
        "system_id": template["id"],
        "template_id": template["connectionTemplateId"],
        "environment_id": project["environments"][0]["id"],
    }
    config = tmp_path / "schemathesis.toml"
    lines = ["[parameters]", *(f'"path.{name}" = {json.dumps(value)}' for name, value in known.items())]
    config.write_text("\n".join(lines) + "\n")
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("schemathesis")),
            f"--config-file={config}",
            "run",
            f"{admin.url}/openapi.json",
            f"--header=Authorization: Bearer {admin.token}",
            f"--checks={','.join(CHECKS)}",
            "--phases=examples,coverage,fuzzing,stateful",
            "--mode=all",
            f"--max-time={SECONDS}",
            "--max-examples=10",
            "--generation-deterministic",
            "--generation-with-security-parameters=false",
            "--continue-on-failure",
            "--no-shrink",
            "--no-color",
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS + 60,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    said = done.stdout.replace(str(admin.token), "<token>")
    assert done.returncode == 0, said[-20000:] + done.stderr[-2000:]
