"""What is wrong with schemes and credentials is in the answer to the very request that brought them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.harness.identity.certificate_authority import Authority, pem
from tests.integration.api.conftest import Client
from tests.integration.api.objects import make_project, make_system, make_template
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

TLS = {"type": "certificate", "certificate": {"id": "tls"}}


def oauth2(**fields: Any) -> dict[str, Any]:
    usual = {"id": "oauth", "tokenUrl": "https://login.example/token", "grant": {"type": "clientCredentials"}}
    return {"type": "oauth2", "oauth2": {**usual, **fields}}


def messages(config: dict[str, Any], kind: str = "oauth2") -> list[tuple[str, list[str]]]:
    return [(one["severity"], one.get("detail") or []) for one in config[kind]["validationMessages"]]


def test_an_auth_scheme_is_judged_in_the_answer(client: Client) -> None:
    wrong = oauth2(
        tokenUrl="https://{shop}.example/t", scopes=[{"name": "r"}], defaultScopes=["w"], pkce=True
    )
    made = make_system(client, [wrong])
    found = messages(made["authSchemeConfigs"][0])
    assert found[0] == ("error", [])
    assert ("warning", ["w"]) in found
    path = f"/systems/{made['id']}/auth-scheme-configs/oauth"
    mended = client.ok("PUT", path, oauth2(defaultScopes=["r"], pkce=False), status=201)
    assert messages(mended) == []
    assert messages(client.ok("GET", f"/systems/{made['id']}")["authSchemeConfigs"][0]) == []
    listed = client.ok("GET", f"/systems?search={quote(made['name'])}")["items"]
    shown = next(one for one in listed if one["id"] == made["id"])
    assert messages(shown["authSchemeConfigs"][0]) == []


def test_a_template_tells_of_its_systems_schemes(client: Client) -> None:
    _, template = make_template(client, schemes=[oauth2(mtlsEnabled=True)])
    assert messages(template["authSchemeConfigs"][0])[0][0] == "error"


def test_a_certificate_is_judged_in_the_answer_and_after_each_change(client: Client) -> None:
    certificate, key = Authority().issue("client")
    wrong = pem(ec.generate_private_key(ec.SECP256R1()))
    _, template = make_template(client, schemes=[TLS])
    values = {"certificate": certificate, "key": wrong}
    credential = {
        "id": "tls",
        "authSchemeConfig": TLS,
        "credential": {"type": "certificate", "data": {"certificate": values}},
    }
    body = {
        "connectionTemplateId": template["connectionTemplateId"],
        "connection": {"name": "C", "credentials": [credential]},
    }
    made = client.ok("POST", "/connections", body, status=201)
    (told,) = made["credentials"][0]["credential"]["errors"]
    assert "does not belong" in told
    change = {"id": "tls", "credential": {"data": {"certificate": {**values, "key": pem(key)}}}}
    mended = client.ok("PUT", f"/connections/{made['id']}", {"credentials": [change]})
    assert mended["credentials"][0]["credential"]["errors"] == []


def test_a_client_that_does_not_exist_is_told_of_scheme_and_credential(client: Client) -> None:
    grant = {"type": "password", "password": {"credentialId": new_id(), "clientId": "me"}}
    scheme = oauth2(grant=grant)
    _, template = make_template(client, schemes=[scheme])
    assert messages(template["authSchemeConfigs"][0])[0][0] == "error"
    credential = {
        "id": "login",
        "authSchemeConfig": scheme,
        "credential": {
            "type": "oauth2-password",
            "data": {"oauth2Password": {"username": "ann", "password": "hush-hush"}},
        },
    }
    body = {
        "connectionTemplateId": template["connectionTemplateId"],
        "connection": {"name": "C", "credentials": [credential]},
    }
    answer = client("POST", "/connections", body)
    assert answer.status == 201
    (told,) = answer.json["credentials"][0]["credential"]["errors"]
    assert "There is no credential" in told
    assert b"hush-hush" not in answer.raw


ODD = "\x00\x7f\x80\x85\x9f\u2028\u2029\ufeff\ufffe\uffff\U0001fffe\U0010ffff \"'\\\n\t"


def test_variables_are_kept_letter_by_letter(client: Client) -> None:
    """Kubernetes reads what is applied as YAML, which folds some of these and refuses others."""
    path = f"/projects/{make_project(client)['id']}/variables"
    schema = {
        "type": "object",
        "description": ODD,
        "properties": {f"a{ODD}b": {"type": "string", "default": ODD, "enum": list(ODD)}, "k" * 1500: {}},
    }
    assert client.ok("PUT", path, schema) == schema
    assert client.ok("GET", path) == schema


def test_names_are_refused_by_field_before_kubernetes_sees_them(client: Client) -> None:
    for letter in ("\x7f", "\x85", "\u202e", "\u2028"):
        answer = client("POST", "/projects", {"name": f"a{letter}b"})
        assert (answer.status, answer.fields) == (422, ["name"]), answer.raw
        assert f"U+{ord(letter):04X}" in answer.json["message"]
