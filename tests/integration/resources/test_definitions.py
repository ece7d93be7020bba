"""What a real API server makes of the definitions: good manifests pass, bad ones are refused by name."""

import copy
import json
import textwrap
from typing import Any

import pytest
import yaml

from tests.harness.session import fast_yaml
from tests.harness.session.waiting import eventually

pytestmark = pytest.mark.cluster

_NOW = "2026-11-21T00:00:00Z"

SYSTEM: dict[str, Any] = {
    "kind": "System",
    "metadata": {"name": "shop"},
    "spec": {
        "name": "Shop",
        "domain": "shop.example",
        "templateBaseUrl": "https://api.shop.example/v1",
        "authSchemeConfigs": [{"id": "key", "type": "api-key", "apiKey": {"name": "X-Key", "in": "header"}}],
    },
}
CONNECTION: dict[str, Any] = {
    "kind": "Connection",
    "metadata": {"name": "shop"},
    "spec": {
        "name": "Shop",
        "systemRef": {"name": "shop"},
        "credentials": [
            {"id": "key", "type": "string", "authSchemeConfigId": "key", "secretRef": {"name": "shop-key"}}
        ],
    },
}
TEMPLATE: dict[str, Any] = {
    "kind": "ConnectionTemplate",
    "metadata": {"name": "shop"},
    "spec": {
        "name": "shop",
        "projectRef": {"name": "orders"},
        "environment": "production",
        "systemRef": {"name": "shop"},
    },
}
PROJECT: dict[str, Any] = {
    "kind": "Project",
    "metadata": {"name": "orders"},
    "spec": {
        "name": "Orders",
        "source": {"files": [{"filename": "main.py", "content": "print()"}]},
        "labels": {"team": "ops"},
        "environments": [{"name": "production"}],
    },
}
VERSION: dict[str, Any] = {
    "kind": "ProjectVersion",
    "metadata": {"name": "orders-1"},
    "spec": {"projectRef": {"name": "orders"}, "digest": "0" * 64, "configMaps": [{"name": "files"}]},
}
ACTIVATION: dict[str, Any] = {
    "kind": "Activation",
    "metadata": {"name": "jo"},
    "spec": {"projectRef": {"name": "orders"}, "environment": "production", "endUserRef": {"name": "jo"}},
}
USER: dict[str, Any] = {
    "kind": "EndUser",
    "metadata": {"name": "jo"},
    "spec": {"externalId": "42", "displayName": "Jo"},
}
CONNECTOR: dict[str, Any] = {"kind": "Connector", "metadata": {"name": "shop"}, "spec": {"name": "Shop"}}
CONNECTOR_VERSION: dict[str, Any] = {
    "kind": "ConnectorVersion",
    "metadata": {"name": "shop-1"},
    "spec": {
        "connectorRef": {"name": "shop"},
        "name": "1",
        "format": "openapi",
        "digest": "0" * 64,
        "configMaps": ["shop-1-0"],
    },
}
GRANT: dict[str, Any] = {
    "kind": "CredentialGrant",
    "metadata": {"name": "shop"},
    "spec": {
        "from": [{"organisationId": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}],
        "to": [{"connection": "shop", "credentialId": "client", "tokenUrls": ["https://shop.example/token"]}],
    },
}
CHANNEL: dict[str, Any] = {
    "kind": "NotificationChannel",
    "metadata": {"name": "ops"},
    "spec": {
        "name": "Operations",
        "type": "email",
        "email": {
            "host": "smtp.acme.example",
            "from": "tieline@acme.example",
            "to": ["ops@acme.example"],
            "username": "tieline",
            "secretRef": {"name": "smtp"},
        },
    },
}
NOTIFICATION: dict[str, Any] = {
    "kind": "Notification",
    "metadata": {"name": "orders"},
    "spec": {
        "name": "Orders",
        "projectRef": {"name": "orders"},
        "environment": "production",
        "channelRef": {"name": "ops"},
        "events": ["deploy_failed"],
    },
}
ALL = [
    SYSTEM,
    CONNECTION,
    TEMPLATE,
    PROJECT,
    VERSION,
    ACTIVATION,
    USER,
    CONNECTOR,
    CONNECTOR_VERSION,
    GRANT,
    CHANNEL,
    NOTIFICATION,
]
REMOVED = object()


def manifest(base: dict[str, Any], **changes: Any) -> str:
    """The manifest with fields of its spec changed, addressed like ``credentials__0__type``."""
    changed = copy.deepcopy(base)
    changed["apiVersion"] = "tieline.dev/v1alpha1"
    for path, value in changes.items():
        *parents, last = [int(step) if step.isdigit() else step for step in path.split("__")]
        node: Any = changed["spec"]
        for step in parents:
            node = node[step]
        if value is REMOVED:
            del node[last]
        else:
            node[last] = value
    return yaml.safe_dump(changed)


EXPLICIT = {"name": "X-Sig", "in": "header", "algorithm": "sha256", "digestInputs": ["body"]}


def signed(**hmac: Any) -> str:
    """A System with an auth scheme of type hmac."""
    return manifest(SYSTEM, authSchemeConfigs=[{"id": "h", "type": "hmac", "hmac": hmac}])


@pytest.mark.parametrize(
    "hmac",
    [
        EXPLICIT,
        {"preset": "standard-webhooks", "toleranceSeconds": 60, "prefix": "", "idHeader": ""},
        {
            **EXPLICIT,
            "digestInputs": ["literal:v0:\n", "header:X-Tenant", "id", "timestamp", "url", "body"],
            "timestampHeader": "X-Time",
            "idHeader": "X-Id",
            "signatureFormat": "list",
            "keyEncoding": "base64",
        },
        {
            "name": "items.*.signature",
            "in": "body",
            "algorithm": "ecdsa-sha256",
            "digestInputs": ["method", "path", "field:items.*.id", "bodyHash:sha256:base64"],
            "timestampPath": "sent.at",
            "timestampUnit": "iso8601",
            "idPath": "/id",
            "keyEncoding": "base64",
            "challenges": [
                {
                    "method": "GET",
                    "proof": "secret",
                    "proofIn": "query:hub.verify_token",
                    "when": ["query:hub.mode=subscribe"],
                    "value": "query:hub.challenge",
                    "body": "{challenge}",
                }
            ],
            "answer": {"status": 200, "body": "[accepted]"},
            "refusal": {"status": 401},
        },
        {"name": "Authorization", "in": "header", "algorithm": "jwt-hs256", "bodyHash": "claim:sha256"},
        {"preset": "sns", "answer": {"status": 204}},
    ],
)
def test_signatures_are_accepted_as_they_are_written(
    kubectl: Any, namespace: str, crds_installed: None, hmac: dict[str, Any]
) -> None:
    kubectl("apply", "-f", "-", namespace=namespace, stdin=signed(**hmac))
    found = json.loads(kubectl("get", "system", "shop", "-o", "json", namespace=namespace).stdout)
    assert found["spec"]["authSchemeConfigs"][0]["hmac"] == hmac


@pytest.mark.parametrize("base", ALL, ids=lambda base: base["kind"])
def test_a_plain_manifest_of_each_kind_is_accepted_twice(kubectl, namespace, base):
    assert "created" in kubectl("apply", "-f", "-", namespace=namespace, stdin=manifest(base)).stdout
    assert "unchanged" in kubectl("apply", "-f", "-", namespace=namespace, stdin=manifest(base)).stdout


BAD = {
    "a scheme without its sub-object": (
        manifest(SYSTEM, authSchemeConfigs__0__apiKey=REMOVED),
        ["spec.authSchemeConfigs[0]", "needs apiKey"],
    ),
    "a scheme with another type's sub-object": (
        manifest(SYSTEM, authSchemeConfigs__0__basicAuth={}),
        ["spec.authSchemeConfigs[0]", "basicAuth belongs to an auth scheme of type basic-auth"],
    ),
    "two schemes with one id": (
        manifest(
            SYSTEM, authSchemeConfigs=[{"id": "key", "type": "none"}, {"id": "key", "type": "basic-auth"}]
        ),
        ["spec.authSchemeConfigs[1]", "Duplicate value"],
    ),
    "an unknown scheme type": (
        manifest(SYSTEM, authSchemeConfigs__0__type="magic"),
        ["spec.authSchemeConfigs[0].type", "magic", "api-key"],
    ),
    "an unknown place of an API key": (
        manifest(SYSTEM, authSchemeConfigs__0__apiKey={"name": "k", "in": "trailer"}),
        ["spec.authSchemeConfigs[0].apiKey.in", "trailer"],
    ),
    "a header name with a space": (
        manifest(SYSTEM, authSchemeConfigs__0__apiKey={"name": "X Key", "in": "header"}),
        ["spec.authSchemeConfigs[0].apiKey.name"],
    ),
    "a grant without its sub-object": (
        manifest(
            SYSTEM,
            authSchemeConfigs=[
                {
                    "id": "o",
                    "type": "oauth2",
                    "oauth2": {"tokenUrl": "https://x.example", "grant": {"type": "authorizationCode"}},
                }
            ],
        ),
        ["spec.authSchemeConfigs[0].oauth2.grant", "needs authorizationCode"],
    ),
    "a signature that is not complete": (
        signed(name="X-Sig"),
        ["spec.authSchemeConfigs[0].hmac", "set name, in, algorithm and digestInputs, or a preset"],
    ),
    "a preset with a field that it sets": (
        signed(preset="stripe", prefix="v1="),
        ["spec.authSchemeConfigs[0].hmac", "a preset sets all fields but toleranceSeconds"],
    ),
    "a preset that is none": (
        signed(preset="acme"),
        ["spec.authSchemeConfigs[0].hmac.preset", "acme", "stripe"],
    ),
    "a digest input that is none": (
        signed(**{**EXPLICIT, "digestInputs": ["body", "header:a b"]}),
        ["spec.authSchemeConfigs[0].hmac.digestInputs[1]", "must be body, url, decodedUrl, method"],
    ),
    "a signature over nothing": (
        signed(name="X-Sig", **{"in": "header"}, algorithm="sha256"),
        ["spec.authSchemeConfigs[0].hmac", "set digestInputs"],
    ),
    "a challenge in no place": (
        signed(**EXPLICIT, challenges=[{"value": "path:a"}]),
        ["spec.authSchemeConfigs[0].hmac.challenges[0].value", "must be query:NAME, header:NAME"],
    ),
    "a period in words": (
        manifest(SYSTEM, limits={"requests": 5, "per": "1 minute"}),
        ["spec.limits.per", "must be a whole number with s, m or h, such as 1s or 10m"],
    ),
    "a rule for answers without a status, path or header": (
        manifest(SYSTEM, limits={"answers": [{"header": "Retry-After"}]}),
        ["spec.limits.answers[0]", "give status, path or remaining"],
    ),
    "a place in an answer without a value": (
        manifest(SYSTEM, limits={"answers": [{"status": 200, "path": "error"}]}),
        ["spec.limits.answers[0]", "path needs equals or in"],
    ),
    "a cost without a time": (
        manifest(SYSTEM, limits={"cost": {"available": "left"}}),
        ["spec.limits.cost", "give restoreRate or reset"],
    ),
    "a check by POST without a body": (
        manifest(SYSTEM, check={"method": "POST", "path": "/graphql"}),
        ["spec.check", "POST needs a body"],
    ),
    "a check by GET with a body": (
        manifest(SYSTEM, check={"path": "/me", "body": "{}"}),
        ["spec.check", "other methods have none"],
    ),
    "cursors that are nowhere": (
        manifest(SYSTEM, lists={"default": {"kind": "cursor", "parameter": "after"}}),
        ["spec.lists.default", "next is needed"],
    ),
    "a list with two places for its cursor": (
        manifest(SYSTEM, lists={"default": {"kind": "link", "next": "next", "nextRelation": "next"}}),
        ["spec.lists.default", "give one of next, nextHeader and nextRelation"],
    ),
    "page numbers without a parameter": (
        manifest(SYSTEM, lists={"paths": [{"path": "/orders", "kind": "numbered"}]}),
        ["spec.lists.paths[0]", "parameter is needed"],
    ),
    "two dialects of one path": (
        manifest(SYSTEM, lists={"paths": [{"path": "/orders", "kind": "link"}] * 2}),
        ["spec.lists.paths[1]", "Duplicate value"],
    ),
    "no domain": (manifest(SYSTEM, domain=REMOVED), ["spec", "domain and templateBaseUrl are needed"]),
    "a base URL that is none": (manifest(SYSTEM, templateBaseUrl="shop"), ["spec.templateBaseUrl"]),
    "more schemes than a system may have": (
        manifest(SYSTEM, authSchemeConfigs=[{"id": str(n), "type": "none"} for n in range(21)]),
        ["spec.authSchemeConfigs", "at most 20"],
    ),
    "a name longer than a name may be": (manifest(SYSTEM, name="x" * 201), ["spec.name", "Too long"]),
    "a label key with a dash": (
        manifest(PROJECT, labels={"my-team": "ops"}),
        ["spec.labels", "letters, digits and underscores"],
    ),
    "a label key of 64 letters": (
        manifest(PROJECT, labels={"a" * 64: "ops"}),
        ["spec.labels", "at most 63"],
    ),
    "a label value of 1,025 letters": (
        manifest(PROJECT, labels={"team": "a" * 1025}),
        ["spec.labels.team", "1024"],
    ),
    "two environments with one name": (
        manifest(PROJECT, environments=[{"name": "a"}, {"name": "a"}]),
        ["spec.environments[1]", "Duplicate value"],
    ),
    "an environment in capitals": (
        manifest(PROJECT, environments=[{"name": "Production"}]),
        ["spec.environments[0].name"],
    ),
    "replicas below zero": (manifest(PROJECT, runtime={"replicas": -1}), ["spec.runtime.replicas"]),
    "memory that is no quantity": (
        manifest(PROJECT, runtime={"resources": {"limits": {"memory": "lots"}}}),
        ["spec.runtime.resources.limits.memory"],
    ),
    "two files with one name": (
        manifest(PROJECT, source={"files": [{"filename": "a", "content": ""}] * 2}),
        ["spec.source.files[1]", "Duplicate value"],
    ),
    "a file that is too large for a manifest": (
        manifest(PROJECT, source={"files": [{"filename": "a", "content": "x" * 262145}]}),
        ["spec.source.files[0].content", "Too long"],
    ),
    "a credential without a Secret": (
        manifest(CONNECTION, credentials__0__secretRef=REMOVED),
        ["spec.credentials[0]", "secretRef is needed"],
    ),
    "a credential without a scheme": (
        manifest(CONNECTION, credentials__0__authSchemeConfigId=REMOVED),
        ["spec.credentials[0]", "authSchemeConfigId"],
    ),
    "a credential of an unknown type": (
        manifest(CONNECTION, credentials__0__type="password"),
        ["spec.credentials[0].type", "basic-auth"],
    ),
    "a connection to nothing": (
        manifest(CONNECTION, systemRef=REMOVED),
        ["spec.systemRef", "Required value"],
    ),
    "a dynamic template with a connection": (
        manifest(TEMPLATE, dynamic=True, connectionRef={"name": "shop"}),
        ["spec", "connectionRef is for static templates"],
    ),
    "a version called latest": (
        manifest({**VERSION, "metadata": {"name": "latest"}}),
        ["latest", "reserved"],
    ),
    "a digest that is none": (manifest(VERSION, digest="abc"), ["spec.digest"]),
    "a user without an id": (manifest(USER, externalId=REMOVED), ["spec.externalId", "Required value"]),
    "a channel without its target": (
        manifest(CHANNEL, email=REMOVED),
        ["spec", "email is needed for type email"],
    ),
    "a password over an open connection": (
        manifest(CHANNEL, email__security="none"),
        ["spec.email", "only sent over an encrypted connection"],
    ),
    "a user name without a password": (
        manifest(CHANNEL, email__secretRef=REMOVED),
        ["spec.email", "username and secretRef belong together"],
    ),
    "a header in an address": (
        manifest(CHANNEL, email__to=["ops@acme.example\r\nBcc: all@acme.example"]),
        ["spec.email.to[0]", "one e-mail address"],
    ),
    "an address that turns text": (
        manifest(CHANNEL, email__from="\u202etieline@acme.example"),
        ["spec.email.from", "one e-mail address"],
    ),
    "an address with a control character": (
        manifest(CHANNEL, email__to=["ops\x07@acme.example"]),
        ["spec.email.to[0]", "one e-mail address"],
    ),
    "an event that there is not": (
        manifest(NOTIFICATION, events=["weather"]),
        ["spec.events[0]", "deploy_failed"],
    ),
    "an unknown field": (manifest(SYSTEM, tempalteBaseUrl="x"), ['unknown field "spec.tempalteBaseUrl"']),
}


@pytest.mark.parametrize(("text", "parts"), BAD.values(), ids=BAD.keys())
def test_a_bad_manifest_is_refused_with_a_message_that_names_the_field(kubectl, namespace, text, parts):
    refused = kubectl("apply", "-f", "-", namespace=namespace, stdin=text, check=False)
    assert refused.returncode != 0
    missing = [part for part in parts if part not in refused.stderr]
    assert not missing, refused.stderr


CHANGES = {
    "a version's files": (VERSION, {"configMaps": [{"name": "other"}]}, "cannot be changed"),
    "a connection's system": (CONNECTION, {"systemRef": {"name": "other"}}, "spec.systemRef"),
    "a connection's user": (CONNECTION, {"endUserRef": {"name": "jo"}}, "endUserRef"),
    "a template's project": (TEMPLATE, {"projectRef": {"name": "other"}}, "spec.projectRef"),
    "a template's environment": (TEMPLATE, {"environment": "other"}, "spec.environment"),
    "an activation's user": (ACTIVATION, {"endUserRef": {"name": "al"}}, "spec.endUserRef"),
    "a user's external id": (USER, {"externalId": "43"}, "spec.externalId"),
    "an import's result": (CONNECTOR_VERSION, {"name": "2"}, "cannot be changed"),
}


@pytest.mark.parametrize(("base", "changes", "part"), CHANGES.values(), ids=CHANGES.keys())
def test_an_immutable_field_keeps_its_value(kubectl, namespace, base, changes, part):
    kubectl("apply", "-f", "-", namespace=namespace, stdin=manifest(base))
    refused = kubectl("apply", "-f", "-", namespace=namespace, stdin=manifest(base, **changes), check=False)
    assert refused.returncode != 0
    assert part in refused.stderr
    assert "cannot be changed" in refused.stderr


def test_kubectl_explain_reads_well(kubectl, crds_installed):
    text = kubectl("explain", "project.spec.environments").stdout
    assert "Environments of the project" in text
    assert textwrap.shorten("latest, which follows the current files", 200) in text.replace('"', "").replace(
        "\n", " "
    )
    assert "FIELDS" in text


def test_kubectl_get_shows_what_people_look_for(kubectl, namespace):
    for base in (SYSTEM, CONNECTION, PROJECT):
        kubectl("apply", "-f", "-", namespace=namespace, stdin=manifest(base))
    ready = {"type": "Ready", "status": "False", "reason": "SystemNotFound", "lastTransitionTime": _NOW}
    patch = {"status": {"conditions": [{**ready, "message": "Create the System shop. " * 8}]}}
    of_status = ("--subresource=status", "--type=merge", "-p", json.dumps(patch))
    kubectl("patch", "connection", "shop", *of_status, namespace=namespace)
    table = kubectl("get", "tlproj,tlsys,tlconn", namespace=namespace).stdout
    for word in ("NAME", "ENVIRONMENTS", "DOMAIN", "SYSTEM", "READY", "REASON", "AGE", "SystemNotFound"):
        assert word in table
    assert "MESSAGE" not in table
    assert all(row.split().count("NAME") <= 1 for row in table.splitlines())
    assert max(map(len, table.splitlines())) <= 100
    wide = kubectl("get", "connections", "-o", "wide", namespace=namespace).stdout
    assert "MESSAGE" in wide
    assert "Create the System shop." in wide
    assert "shop.example" in kubectl("get", "tieline", namespace=namespace).stdout


def test_a_new_object_is_in_progress_and_applied_again_without_a_change(kubectl, namespace):
    apply = ("apply", "--server-side", "-f", "-")

    def stored(base):
        place = (base["kind"], base["metadata"]["name"], "-o", "json", "--show-managed-fields")
        return json.loads(kubectl("get", *place, namespace=namespace).stdout)

    for base in ALL:
        kubectl(*apply, namespace=namespace, stdin=manifest(base))
        created = stored(base)
        assert created["status"] == {"observedGeneration": -1}, base["kind"]
        # What GitOps tools ask to find drift.
        differs = kubectl("diff", "--server-side", "-f", "-", namespace=namespace, stdin=manifest(base))
        assert differs.stdout == ""
        # The first write after the creation stores the default; no other writes anything.
        kubectl(*apply, namespace=namespace, stdin=manifest(base))
        again = stored(base)
        assert {**again, "metadata": {**again["metadata"], "resourceVersion": ""}} == {
            **created,
            "metadata": {**created["metadata"], "resourceVersion": ""},
        }
        kubectl(*apply, namespace=namespace, stdin=manifest(base))
        assert stored(base) == again


def test_the_definitions_fit_the_server_s_cost_budget_and_are_established(kubectl, crds_installed):
    listed = kubectl(
        "get",
        "crd",
        "-o",
        "jsonpath={range .items[?(@.spec.group=='tieline.dev')]}"
        "{.metadata.name} {.status.conditions[?(@.type=='Established')].status} "
        "{.status.conditions[?(@.type=='NonStructuralSchema')].status}\n{end}",
    ).stdout.split("\n")
    assert sorted(line for line in listed if line) == sorted(
        f"{plural}.tieline.dev True "
        for plural in (
            "systems",
            "connectiontemplates",
            "connections",
            "projects",
            "projectversions",
            "activations",
            "endusers",
            "connectors",
            "connectorversions",
            "credentialgrants",
            "notificationchannels",
            "notifications",
            "environments",
        )
    )


IN_WORDS = {
    "a name of an object": (
        manifest(CONNECTION, systemRef={"name": "The_Shop"}),
        "spec.systemRef.name",
        "lower case letters, digits, '-' and '.'",
    ),
    "a name in a list in a list": (
        manifest(
            PROJECT, environments=[{"name": "a", "runtime": {"imagePullSecrets": [{"name": "My Secret"}]}}]
        ),
        "spec.environments[0].runtime.imagePullSecrets[0].name",
        "must be the name of an object",
    ),
    "an environment": (
        manifest(PROJECT, environments=[{"name": "Production"}]),
        "spec.environments[0].name",
        "must hold lower case letters, digits and '-' only",
    ),
    "a name for people": (manifest(SYSTEM, name="a\u202eb"), "spec.name", "control characters"),
    "a user's id": (manifest(USER, externalId="a\u0085b"), "spec.externalId", "control characters"),
    "a name of a version": (
        manifest(
            CONNECTOR, description={"version": "a\tb", "configMaps": [{"name": "x", "key": "openapi.json"}]}
        ),
        "spec.description.version",
        "control characters",
    ),
    **{
        f"a blank name of a {base['kind']}, {len(name)}": (
            manifest(base, name=name),
            "spec.name",
            "must not be blank",
        )
        for base in (SYSTEM, PROJECT, CONNECTION, CONNECTOR, TEMPLATE)
        for name in ("   ", "\u00a0\u3000")
    },
    "a blank id of a user": (manifest(USER, externalId="  "), "spec.externalId", "must not be blank"),
    "a blank name of a version": (
        manifest(
            CONNECTOR, description={"version": " ", "configMaps": [{"name": "x", "key": "openapi.json"}]}
        ),
        "spec.description.version",
        "must not be blank",
    ),
    "a header": (
        manifest(SYSTEM, authSchemeConfigs__0__apiKey={"name": "X Key", "in": "header"}),
        "spec.authSchemeConfigs[0].apiKey.name",
        "so no spaces",
    ),
    "a URL": (manifest(SYSTEM, templateBaseUrl="shop"), "spec.templateBaseUrl", "http:// or https://"),
    "a password in a URL": (
        manifest(SYSTEM, templateBaseUrl="https://me:pw@shop.example"),
        "spec.templateBaseUrl",
        "belong in a Secret",
    ),
    "an organisation": (
        manifest({**GRANT, "spec": {**GRANT["spec"], "from": [{"organisationId": "acme".ljust(26, "-")}]}}),
        "spec.from[0].organisationId",
        "must be a ULID",
    ),
}


def test_what_kubectl_says_of_a_refused_name_is_no_regular_expression(kubectl: Any, namespace: str) -> None:
    for what, (text, field, words) in IN_WORDS.items():
        said = kubectl(
            "create", "--dry-run=server", "-f", "-", namespace=namespace, stdin=text, check=False
        ).stderr
        assert field in said, (what, said)
        assert words in said, (what, said)
        assert "should match" not in said, (what, said)


def test_a_name_from_before_such_a_rule_can_stay(kubectl: Any, namespace: str, crds_installed: None) -> None:
    """An upgrade leaves what is stored as it is: Kubernetes asks a rule only about what changes."""
    definition = kubectl("get", "crd", "systems.tieline.dev", "-o", "json").stdout
    lax = json.loads(definition)
    (version,) = lax["spec"]["versions"]
    name = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["name"]
    assert name.pop("x-kubernetes-validations")
    group = f"lax-{namespace}.example"
    lax = {
        **{key: lax[key] for key in ("apiVersion", "kind")},
        "metadata": {"name": f"oldsystems.{group}"},
        "spec": {**lax["spec"], "group": group},
    }
    lax["spec"]["names"] = {
        # Not those of Systems: kubectl, which remembers kinds for minutes, would take one for the other.
        "kind": "OldSystem",
        "plural": "oldsystems",
        "singular": "oldsystem",
        "listKind": "OldSystemList",
    }
    strict = copy.deepcopy(lax)
    schema = json.loads(definition)["spec"]["versions"][0]["schema"]
    strict["spec"]["versions"][0]["schema"] = schema
    try:
        kubectl("create", "-f", "-", stdin=json.dumps(lax))
        # kubectl refuses to wait for a definition that has no conditions yet.
        established = ("wait", "--for=condition=Established", "--timeout=60s", f"crd/oldsystems.{group}")
        eventually("the definition", lambda: kubectl(*established, check=False).returncode == 0)
        old = fast_yaml.load(manifest(SYSTEM, name=" \u2028"))
        old["apiVersion"], old["kind"] = f"{group}/v1alpha1", "OldSystem"
        eventually(
            "a System of before",
            lambda: kubectl("create", "-f", "-", namespace=namespace, stdin=json.dumps(old)),
        )
        kubectl("replace", "-f", "-", stdin=json.dumps(strict_over(kubectl, strict)))
        fresh = copy.deepcopy(old)
        fresh["metadata"]["name"] = "fresh"
        refused = ("create", "--dry-run=server", "-f", "-")
        eventually(
            "the rule in force",
            lambda: kubectl(*refused, namespace=namespace, stdin=json.dumps(fresh), check=False).returncode,
        )
        kubectl("label", f"oldsystems.{group}", "shop", "a=b", namespace=namespace)
        patch = json.dumps({"status": {"observedGeneration": 1}, "spec": {"domain": "other.example"}})
        kubectl("patch", f"oldsystems.{group}", "shop", "--type=merge", "-p", patch, namespace=namespace)
        status = ("--subresource=status", "--type=merge", "-p", patch)
        kubectl("patch", f"oldsystems.{group}", "shop", *status, namespace=namespace)
    finally:
        kubectl("delete", "crd", f"oldsystems.{group}", "--wait=false", check=False)


def strict_over(kubectl: Any, definition: dict[str, Any]) -> dict[str, Any]:
    """The definition as an update of the one that is there."""
    name = definition["metadata"]["name"]
    there = json.loads(kubectl("get", "crd", name, "-o", "json").stdout)
    return {**definition, "metadata": {"name": name, "resourceVersion": there["metadata"]["resourceVersion"]}}


def test_names_hold_no_characters_that_cannot_be_seen(kubectl: Any, namespace: str) -> None:
    def tried(*names: str) -> Any:
        made = []
        for base in (SYSTEM, PROJECT, CONNECTION, TEMPLATE):
            for name in names:
                manifest = {"apiVersion": "tieline.dev/v1alpha1", **copy.deepcopy(base)}
                manifest["spec"]["name"] = name
                made.append(manifest)
        text = yaml.safe_dump_all(made)
        return kubectl("create", "--dry-run=server", "-f", "-", namespace=namespace, stdin=text, check=False)

    bad = [f"a{letter}b" for letter in "\n\x1b\x7f\x85\u202e\u2066\ufeff"]
    refused = tried(*bad)
    assert refused.stdout == ""
    assert refused.stderr.count("is invalid: spec.name") == 4 * len(bad), refused.stderr
    taken = tried("Größe", "漢字", "\U0001f469\u200d\U0001f4bb")
    assert taken.stdout.count("created") == 12, taken.stderr
