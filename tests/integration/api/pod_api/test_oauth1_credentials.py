"""What a pod is told for OAuth 1.0: also the secrets that its signatures need and REST does not show."""

from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Client
from tests.integration.api.objects import bring_connection, make_template, wait_for
from tests.integration.api.pods import account_token, ask

pytestmark = pytest.mark.cluster

SCHEME: dict[str, Any] = {
    "type": "oauth1",
    "oauth1": {"id": "signed", "consumerKey": "consumer", "consumerSecret": "consumer-s3cr3t"},
}


def test_a_pod_is_told_the_consumers_and_the_tokens_secret(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client, schemes=[SCHEME])
    bring_connection(
        kubectl,
        org.namespace,
        name="signing",
        system=template["id"],
        credential={"id": "signed", "type": "oauth1", "authSchemeConfigId": "signed"},
        values={"oauthToken": "t0ken", "oauthTokenSecret": "t0ken-s3cr3t", "other": "unknown"},
    )
    shown = wait_for(client, f"/connections?system_id={template['id']}")["items"][0]
    body = {"connectionTemplateId": template["connectionTemplateId"]}
    client.ok("POST", f"/connections/{shown['id']}/link", body, status=201)
    token = account_token(kubectl, org, project)
    credential = ask(client, token).json["connections"]["shop"]["credentials"][0]
    assert credential["data"] == {
        "oauthToken": "t0ken",
        "oauthTokenSecret": "t0ken-s3cr3t",
        "consumerSecret": "consumer-s3cr3t",
    }
    assert credential["authScheme"]["oauth1"]["consumerKey"] == "consumer"
    assert "secretRef" not in credential["authScheme"]["oauth1"]
