"""Between REST and custom resources nothing is lost but secrets."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tieline_api.conversion import auth_schemes
from tieline_api.conversion.connections import connection_to_rest, credential_id
from tieline_api.conversion.credential_plans import plan_credential, stored_item
from tieline_api.conversion.credential_values import from_secret, to_secret
from tieline_api.conversion.lists import readable
from tieline_api.conversion.projects import project_item, project_to_rest, version_to_rest
from tieline_api.conversion.systems import new_system_spec, system_to_rest
from tieline_api.conversion.times import expired, in_utc, remember_update, updated_at
from tieline_api.errors import ApiError
from tieline_api.schemas import projects as rest_projects
from tieline_api.schemas.auth_schemes import SUB_OBJECTS, AuthSchemeConfig, OAuth1Parameter
from tieline_api.schemas.connections import ConnectionCredential
from tieline_api.schemas.credential_data import CredentialData
from tieline_api.schemas.systems import SystemCreate
from tieline_core.credentials.linker import canonical
from tieline_core.identity.ids import client_credential_id, credential_item_id, format_time, new_id, parse_id
from tieline_core.resources.auth_schemes import AuthSchemeConfig as CoreScheme
from tieline_core.resources.auth_schemes import AuthSchemeType
from tieline_core.resources.connections import CredentialType
from tieline_core.resources.limits import limits_in_effect
from tieline_protocol import signatures
from tieline_protocol.signature_presets import PRESETS

ITEMS: dict[str, dict[str, Any]] = {
    "none": {"id": "a", "type": "none", "none": {}},
    "api-key": {
        "id": "a",
        "type": "api-key",
        "description": "d",
        "apiKey": {"name": "X-Key", "in": "cookie"},
    },
    "basic-auth": {"id": "a", "type": "basic-auth", "basicAuth": {}},
    "certificate": {"id": "a", "type": "certificate", "certificate": {}},
    "hmac": {
        "id": "a",
        "type": "hmac",
        "hmac": {
            "name": "X-Sig",
            "in": "header",
            "algorithm": "sha256",
            "digestInputs": ["url", "body"],
            "encoding": "base64",
        },
    },
    "jwt-bearer": {
        "id": "a",
        "type": "jwt-bearer",
        "jwtBearer": {"algorithm": "ES384", "payload": {"sub": "x", "n": None}, "expiresIn": 60},
    },
    "secret": {"id": "a", "type": "secret", "secret": {"name": "token", "in": "body"}},
    "oauth2": {
        "id": "a",
        "type": "oauth2",
        "oauth2": {
            "tokenUrl": "https://x.example/token",
            "authorizeUrl": "https://x.example/authorize",
            "scopes": [{"name": "a", "description": "A"}],
            "defaultScopes": ["a"],
            "grant": {"type": "password", "password": {"clientId": "me"}},
            "additionalTokenParams": "a=b",
            "mtlsEnabled": True,
            "pkce": True,
        },
    },
    "oauth1": {
        "id": "a",
        "type": "oauth1",
        "oauth1": {
            "consumerKey": "me",
            "signatureMethod": "PLAINTEXT",
            "tokenEndpoint": {
                "url": "https://x.example/token",
                "parameterTransmission": "AUTH_STYLE_FORM",
                "additionalParamConfigs": [{"parameterName": "p", "usages": "USAGE_TOKEN_REQUEST_ENDPOINT"}],
            },
        },
    },
}


ORGANISATION = "01JD3Y000000000000000000RG"
OWNER = auth_schemes.SchemeOwner(id="01JD3Y7M5RZX9KQW8T2V4N6P0A", organisation=ORGANISATION)


def _shown(item: dict[str, Any]) -> AuthSchemeConfig:
    return auth_schemes.to_rest(item, owner=OWNER)


def _same(config: AuthSchemeConfig, item: dict[str, Any]) -> bool:
    return auth_schemes.same(config, item, owner=OWNER)


def _wire(config: AuthSchemeConfig) -> AuthSchemeConfig:
    """``config`` as a client gets it and sends it back."""
    sent = json.loads(config.model_dump_json(by_alias=True, exclude_none=True))
    return AuthSchemeConfig.model_validate(sent, by_alias=True, by_name=False)


@pytest.mark.parametrize("kind", list(AuthSchemeType))
def test_a_scheme_that_is_sent_back_is_the_same_scheme(kind: str) -> None:
    item = ITEMS[kind]
    CoreScheme.model_validate(item)
    back = auth_schemes.to_item(_wire(_shown(item)))
    assert _shown(back) == _shown(item)
    assert CoreScheme.model_validate(back) == CoreScheme.model_validate(
        {"description": "", **item, **_defaults(back, item)}
    )
    assert _same(_wire(_shown(item)), item)


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        ("USAGE_TOKEN_REQUEST_ENDPOINT", "USAGE_TOKEN_REQUEST_ENDPOINT"),
        (["USAGE_TOKEN_REQUEST_ENDPOINT"], "USAGE_TOKEN_REQUEST_ENDPOINT"),
        (["USAGE_TOKEN_REQUEST_ENDPOINT"] * 2, "USAGE_TOKEN_REQUEST_ENDPOINT"),
        (["USAGE_TOKEN_REQUEST_ENDPOINT", "USAGE_TEMP_CREDENTIAL_ENDPOINT"], "USAGE_UNKNOWN"),
        ([], "USAGE_UNKNOWN"),
        (None, "USAGE_UNKNOWN"),
    ],
)
def test_usages_are_answered_as_one_enum_string(sent: object, answered: str) -> None:
    parameter = {"parameterName": "p", "usages": sent}
    endpoint = {"url": "https://x.example/token", "additionalParamConfigs": [parameter]}
    config = AuthSchemeConfig.model_validate(
        {"type": "oauth1", "oauth1": {"id": "a", "tokenEndpoint": endpoint}}
    )
    item = auth_schemes.to_item(config)
    CoreScheme.model_validate(item)
    (shown,) = _shown(item).model_dump(mode="json", by_alias=True)["oauth1"]["tokenEndpoint"][
        "additionalParamConfigs"
    ]
    assert shown["usages"] == answered


@pytest.mark.parametrize("sent", ["USAGE_OTHER", ["USAGE_OTHER"], [[]], 1, {}])
def test_unknown_usages_are_refused(sent: object) -> None:
    with pytest.raises(ValidationError, match="usages"):
        OAuth1Parameter.model_validate({"parameterName": "p", "usages": sent})


def _hmac(**fields: Any) -> AuthSchemeConfig:
    return AuthSchemeConfig.model_validate({"type": "hmac", "hmac": {"id": "a", **fields}})


EXPLICIT = {"name": "X-Sig", "in": "header", "algorithm": "sha256", "digestInputs": ["body"]}


def test_a_preset_is_shown_as_it_was_written() -> None:
    item = {"id": "a", "type": "hmac", "hmac": {"preset": "stripe", "toleranceSeconds": 60}}
    shown = json.loads(_shown(item).model_dump_json(by_alias=True, exclude_none=True))["hmac"]
    assert (shown["preset"], shown["toleranceSeconds"]) == ("stripe", 60)
    assert not {"encoding", "signatureFormat"} & shown.keys()
    # Clients of the specification cannot read a scheme without these.
    needed = {name: shown[name] for name in ("name", "in", "algorithm", "digestInputs")}
    assert (needed["name"], needed["in"], needed["algorithm"]) == ("Stripe-Signature", "header", "sha256")
    back = auth_schemes.to_item(_wire(_shown(item)), item)
    assert not set(back["hmac"]) & set(needed)
    assert _shown(back) == _shown(item)


@pytest.mark.parametrize("stored", [False, True])
def test_a_preset_that_is_sent_back_verifies_as_before(stored: bool) -> None:
    for preset in PRESETS:
        item: dict[str, Any] = {"id": "a", "type": "hmac", "hmac": {"preset": preset}}
        back = auth_schemes.to_item(_wire(_shown(item)), item if stored else None)
        CoreScheme.model_validate(back)
        assert signatures.parse(back["hmac"]) == signatures.parse(item["hmac"])
        assert _same(_wire(_shown(item)), item)


def test_a_default_that_a_client_sends_does_not_shorten_a_presets_tolerance() -> None:
    item = auth_schemes.to_item(_hmac(preset="box", toleranceSeconds=300))
    assert item["hmac"] == {"preset": "box"}
    shown = _shown(item).hmac
    assert shown is not None
    assert shown.tolerance_seconds == 600
    own = {"id": "a", "type": "hmac", "hmac": {"preset": "box", "toleranceSeconds": 60}}
    longer = auth_schemes.to_item(_hmac(preset="box", toleranceSeconds=300), own)
    assert longer["hmac"] == {"preset": "box", "toleranceSeconds": 300}


def test_a_preset_replaces_the_fields_that_it_stands_for_and_they_replace_it() -> None:
    explicit = {"id": "a", "type": "hmac", "hmac": {**EXPLICIT, "prefix": "v0=", "toleranceSeconds": 60}}
    to_preset = auth_schemes.to_item(_hmac(preset="slack"), explicit)
    assert to_preset["hmac"] == {"preset": "slack", "toleranceSeconds": 60}
    back = auth_schemes.to_item(_hmac(**EXPLICIT), to_preset)
    assert back["hmac"] == {**EXPLICIT, "toleranceSeconds": 60}


def test_encodings_have_their_default_in_answers_as_before() -> None:
    shown = _shown({"id": "a", "type": "hmac", "hmac": EXPLICIT})
    assert shown.hmac is not None
    assert shown.hmac.encoding == "hex"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "set name, in, algorithm, digestInputs, or a preset"),
        ({"preset": "stripe", "name": "X"}, "preset stripe sets name"),
        ({**EXPLICIT, "digestInputs": ["host"]}, "digestInputs"),
        ({**EXPLICIT, "digestInputs": ["timestamp"]}, "set timestampHeader"),
        ({"preset": "acme"}, "preset"),
    ],
)
def test_contradictions_are_refused_with_words(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        _hmac(**fields)


def _defaults(back: dict[str, Any], item: dict[str, Any]) -> dict[str, Any]:
    """REST writes defaults out; what ``item`` says must be in what came back."""
    key = SUB_OBJECTS[item["type"]]
    assert _holds(back[key], item[key])
    return {key: back[key]}


def _holds(bigger: Any, smaller: Any) -> bool:
    if isinstance(smaller, dict):
        return all(
            key in bigger and _holds(bigger[key], value)
            for key, value in smaller.items()
            if value is not None
        )
    if isinstance(smaller, list):
        return len(bigger) == len(smaller) and all(map(_holds, bigger, smaller))
    return bool(bigger == smaller)


@pytest.mark.parametrize(("kind", "key"), [("oauth2", "clientSecret"), ("oauth1", "consumerSecret")])
def test_secrets_leave_a_scheme_and_only_a_reference_stays(kind: str, key: str) -> None:
    body = json.loads(
        json.dumps(_shown(ITEMS[kind]).model_dump(mode="json", by_alias=True, exclude_none=True))
    )
    holder = body["oauth2"]["grant"]["password"] if kind == "oauth2" else body["oauth1"]
    holder[key] = "s3cr3t"
    holder["secretRef"] = {"name": "somebody-elses"}
    config = AuthSchemeConfig.model_validate(body, by_alias=True, by_name=False)
    assert auth_schemes.secret_of(config) == (key, "s3cr3t")
    item = auth_schemes.to_item(config)
    assert "s3cr3t" not in str(item)
    assert "somebody-elses" not in str(item), "a client cannot point at a Secret"
    auth_schemes.refer_to_secret(item, "mine")
    assert auth_schemes.secret_name_of(item) == "mine"
    assert "mine" not in str(_shown(item))
    assert "mine" not in str(auth_schemes.without_references(item))
    # Sent back without the secret, the reference stays.
    again = auth_schemes.to_item(_wire(_shown(item)), item)
    assert auth_schemes.secret_name_of(again) == "mine"


def test_a_stored_scheme_of_another_type_leaves_nothing_behind() -> None:
    item = auth_schemes.to_item(_wire(_shown(ITEMS["api-key"])), ITEMS["oauth2"])
    assert "oauth2" not in item


@pytest.mark.parametrize(
    ("changes", "same"),
    [({}, True), ({"in": "query"}, False), ({"name": "other"}, False), ({"description": "other"}, False)],
)
def test_a_scheme_is_the_systems_when_all_that_is_said_agrees(changes: dict[str, str], same: bool) -> None:
    body = {"type": "api-key", "apiKey": {"id": "a", "name": "X-Key", "in": "cookie", **changes}}
    config = AuthSchemeConfig.model_validate(body, by_alias=True, by_name=False)
    assert _same(config, ITEMS["api-key"]) is same


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
WORD = st.text("abcdefgh:/._", min_size=1, max_size=12)
VALUES: dict[CredentialType, st.SearchStrategy[dict[str, Any]]] = {
    CredentialType.STRING: st.fixed_dictionaries({}, optional={"value": TEXT}),
    CredentialType.BINARY: st.fixed_dictionaries(
        {}, optional={"valueBase64": st.binary(max_size=40).map(lambda raw: base64.b64encode(raw).decode())}
    ),
    CredentialType.BASIC_AUTH: st.fixed_dictionaries({}, optional={"username": TEXT, "password": TEXT}),
    CredentialType.OAUTH2_CLIENT: st.fixed_dictionaries(
        {},
        optional={
            "clientId": TEXT,
            "clientSecret": TEXT,
            "scopes": st.lists(WORD, max_size=4),
            "mTLSEnabled": st.booleans(),
            "additionalParams": TEXT,
        },
    ),
    CredentialType.OAUTH2_TOKEN: st.fixed_dictionaries(
        {}, optional={"accessToken": TEXT, "refreshToken": TEXT, "scopes": st.lists(WORD, max_size=4)}
    ),
    CredentialType.CERTIFICATE: st.fixed_dictionaries(
        {}, optional={"certificate": TEXT, "key": TEXT, "ca": TEXT}
    ),
    CredentialType.OAUTH1: st.fixed_dictionaries({}, optional={"state": TEXT, "oauthToken": TEXT}),
    CredentialType.JWT_BEARER: st.fixed_dictionaries({}, optional={"key": TEXT, "keyId": TEXT}),
}


@given(st.sampled_from(sorted(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind])))
def test_values_come_out_of_a_secret_as_they_went_in(case: tuple[CredentialType, dict[str, Any]]) -> None:
    kind, values = case
    first, *others = kind.value.split("-")
    key = first + "".join(word.capitalize() for word in others)
    data = CredentialData.model_validate({key: values}, by_alias=True, by_name=False)
    secret = {name: base64.b64encode(value).decode() for name, value in to_secret(data.given()[kind]).items()}
    assert from_secret(kind, secret) == values


def test_a_secret_made_by_hand_may_hold_bytes_where_text_was_meant() -> None:
    raw = base64.b64encode(b"\xff\xfe").decode()
    assert from_secret(CredentialType.STRING, {"value": raw}) == {"valueBase64": raw}


SYSTEM = {
    "metadata": {
        "name": "shop",
        "namespace": "acme",
        "uid": "1",
        "resourceVersion": "7",
        "creationTimestamp": "2026-11-21T10:00:00Z",
    },
    "spec": {
        "name": "Shop",
        "domain": "shop.example",
        "templateBaseUrl": "https://shop.example",
        "authSchemeConfigs": [ITEMS["api-key"], {**ITEMS["oauth2"], "id": "b"}],
    },
    "status": {
        "authSchemes": [
            {"id": "b", "validationMessages": [{"text": "t", "severity": "warning", "detail": ["x"]}]}
        ]
    },
}
CONNECTION_ID = new_id()
FOUND = new_id()
CONNECTION = {
    "metadata": {**SYSTEM["metadata"], "labels": {"tieline.dev/id": CONNECTION_ID}},
    "spec": {
        "name": "C",
        "systemRef": {"name": "shop"},
        "credentials": [
            {
                "id": "one",
                "type": "string",
                "authSchemeConfigId": "a",
                "secretRef": {"name": "s"},
                "name": "N",
            },
            {"id": "two", "type": "none", "authSchemeConfig": ITEMS["none"]},
            {"id": "three", "type": "none", "authSchemeConfigId": "gone"},
        ],
    },
    "status": {"credentials": [{"id": "one", "errors": []}, {"id": "two", "errors": ["bad"]}]},
}


def test_a_system_shows_the_findings_about_its_schemes() -> None:
    shown = system_to_rest(SYSTEM, organisation=ORGANISATION)
    assert shown.auth_scheme_configs[0].api_key is not None
    assert shown.auth_scheme_configs[0].api_key.validation_messages == []
    assert shown.auth_scheme_configs[1].oauth2 is not None
    assert shown.auth_scheme_configs[1].oauth2.validation_messages[0].text == "t"


def test_inputs_of_a_system_come_back_as_they_were_sent() -> None:
    given = {
        "name": "shop",
        "label": "Shop",
        "description": "The first part of its address",
        "example": "my-shop",
        "pattern": "^[a-z0-9-]+$",
        "suffix": ".shop.example",
        "required": False,
        "hosts": ["*.shop.example"],
    }
    body = {"name": "Shop", "domain": "shop.example", "templateBaseUrl": "https://{shop}.shop.example"}
    created = SystemCreate.model_validate({**body, "authSchemeConfigs": [], "inputs": [given, {"name": "b"}]})
    spec = new_system_spec(created)
    assert spec["inputs"] == [given, {"name": "b"}]
    system = {**SYSTEM, "spec": {**SYSTEM["spec"], "inputs": spec["inputs"], "variables": {"b": "x"}}}
    shown = json.loads(
        system_to_rest(system, organisation=ORGANISATION).model_dump_json(by_alias=True, exclude_none=True)
    )
    assert shown["inputs"] == [given, {"name": "b"}]
    for wrong in ({**given, "pattern": "[a-z]"}, {**given, "pattern": "^(?=a)$"}, {**given, "name": "a b"}):
        with pytest.raises(ValidationError):
            SystemCreate.model_validate({**body, "authSchemeConfigs": [], "inputs": [wrong]})
    with pytest.raises(ValidationError, match="two inputs of one name"):
        SystemCreate.model_validate({**body, "authSchemeConfigs": [], "inputs": [given, given]})


DIALECTS: dict[str, Any] = {
    "limits": {
        "concurrent": 4,
        "answers": [
            {
                "status": 403,
                "remaining": "X-RateLimit-Remaining",
                "header": "X-RateLimit-Reset",
                "wait": "1m",
            },
            {"status": 200, "path": "error", "in": ["ratelimited"], "unit": "seconds"},
        ],
        "cost": {"available": "data.rateLimit.remaining", "reset": "data.rateLimit.resetAt"},
    },
    "lists": {
        "default": {
            "kind": "cursor",
            "next": "paging.next.after",
            "parameter": "after",
            "items": "results",
            "limitParameter": "limit",
            "limit": 100,
            "following": {"keep": [], "path": "/continue"},
        },
        "paths": [{"path": "/v1/*", "kind": "lastId", "parameter": "starting_after", "hasMore": "has_more"}],
    },
    "graphqlPath": "/graphql.json",
}


def test_limits_and_lists_of_a_system_come_back_as_they_were_sent() -> None:
    body = {
        "name": "Shop",
        "domain": "a.example",
        "templateBaseUrl": "https://a.example",
        "authSchemeConfigs": [],
    }
    spec = new_system_spec(SystemCreate.model_validate({**body, **DIALECTS}))
    assert spec.items() >= DIALECTS.items()
    shown = system_to_rest({**SYSTEM, "spec": spec}, organisation=ORGANISATION)
    again = shown.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert SystemCreate.model_validate({**body, **{name: again[name] for name in DIALECTS}}) == (
        SystemCreate.model_validate({**body, **DIALECTS})
    )
    assert new_system_spec(SystemCreate.model_validate(again)).items() >= DIALECTS.items()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"lists": {"default": {"kind": "cursor", "parameter": "after"}}}, "next is needed"),
        ({"lists": {"paths": [{"path": "orders", "kind": "link"}]}}, "paths"),
        ({"limits": {"answers": [{"header": "Retry-After"}]}}, "needs status, path or remaining"),
        ({"limits": {"cost": {"available": "left"}}}, "restoreRate or reset"),
        ({"graphqlPath": "graphql"}, "graphqlPath"),
    ],
)
def test_a_dialect_that_cannot_be_is_refused(content: dict[str, Any], says: str) -> None:
    body = {
        "name": "Shop",
        "domain": "a.example",
        "templateBaseUrl": "https://a.example",
        "authSchemeConfigs": [],
    }
    with pytest.raises(ValidationError, match=says):
        SystemCreate.model_validate({**body, **content})


def test_limits_in_effect_have_the_connections_numbers_and_the_systems_answers() -> None:
    system = {"limits": DIALECTS["limits"]}
    answers = {name: DIALECTS["limits"][name] for name in ("answers", "cost")}
    assert limits_in_effect({}, system) == DIALECTS["limits"]
    assert limits_in_effect({"limits": {"requests": 5, "per": "1s"}}, system) == {
        "requests": 5,
        "per": "1s",
        **answers,
    }
    assert limits_in_effect({}, {}) is None


def test_a_connection_shows_schemes_findings_and_nothing_of_its_secrets() -> None:
    shown = connection_to_rest(CONNECTION, organisation=ORGANISATION, system=SYSTEM, template=None)
    one, two, three = shown.credentials
    assert one.auth_scheme_config is not None
    assert one.auth_scheme_config.id == "a"
    assert one.credential is not None
    assert one.credential.id == credential_id(CONNECTION_ID, {"id": "one"})
    assert one.credential.errors == []
    assert two.credential is not None
    assert two.credential.errors == ["bad"]
    assert three.auth_scheme_config is not None, "what typed clients need is there"
    assert (three.auth_scheme_config.type, three.auth_scheme_config.id) == ("none", "gone")
    missing = three.auth_scheme_config.none
    assert missing is not None
    assert [str(one.severity) for one in missing.validation_messages] == ["error"]
    assert three.credential is not None
    assert three.credential.errors is None
    assert "secretRef" not in shown.model_dump_json()


def test_a_connection_that_is_sent_back_stays_the_same() -> None:
    shown = connection_to_rest(CONNECTION, organisation=ORGANISATION, system=SYSTEM, template=None)
    for given_back, item in zip(shown.credentials, CONNECTION["spec"]["credentials"], strict=False):
        sent = json.loads(given_back.model_dump_json(by_alias=True, exclude_none=True))
        planned = plan_credential(
            ConnectionCredential.model_validate(sent, by_alias=True, by_name=False),
            live=item,
            mine=item,
            system=SYSTEM,
            connection=CONNECTION_ID,
            organisation=ORGANISATION,
            path="credentials[0]",
        )
        assert planned.secrets == ()
        planned.item.get("authSchemeConfig", {}).pop("description", None)
        assert planned.item == item


def test_a_certificate_that_was_found_is_shown_and_may_be_sent_back() -> None:
    oauth2 = {**ITEMS["oauth2"]["oauth2"], "mtlsEnabled": True}
    oauth2.pop("mtlsCredentialId", None)
    system = {
        **SYSTEM,
        "spec": {**SYSTEM["spec"], "authSchemeConfigs": [{**ITEMS["oauth2"], "oauth2": oauth2}]},
    }
    item = {"id": "one", "type": "oauth2-token", "authSchemeConfigId": "a", "secretRef": {"name": "s"}}
    connection = {
        **CONNECTION,
        "spec": {**CONNECTION["spec"], "credentials": [item]},
        "status": {"credentials": [{"id": "one", "errors": [], "mtlsCredentialId": FOUND}]},
    }
    shown = connection_to_rest(
        connection, organisation=ORGANISATION, system=system, template=None
    ).credentials[0]
    sent = json.loads(shown.model_dump_json(by_alias=True, exclude_none=True))
    assert sent["authSchemeConfig"]["oauth2"]["mtlsCredentialId"] == FOUND

    def planned(certificate: str) -> dict[str, Any]:
        sent["authSchemeConfig"]["oauth2"]["mtlsCredentialId"] = certificate
        given_back = ConnectionCredential.model_validate(sent, by_alias=True, by_name=False)
        return plan_credential(
            given_back,
            live=item,
            mine=item,
            system=system,
            connection=CONNECTION_ID,
            organisation=ORGANISATION,
            path="credentials[0]",
            linked=FOUND,
        ).item

    assert planned(FOUND) == item
    assert planned("ANOTHER")["authSchemeConfig"]["oauth2"]["mtlsCredentialId"] == "ANOTHER"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"id": "new"}, "c.authSchemeConfig"),
        ({"id": "new", "authSchemeConfig": {"type": "none", "none": {"id": "n"}}}, "c.credential"),
    ],
)
def test_a_new_credential_needs_scheme_and_values(body: dict[str, Any], field: str) -> None:
    given_credential = ConnectionCredential.model_validate(body, by_alias=True, by_name=False)
    with pytest.raises(ApiError) as caught:
        plan_credential(
            given_credential,
            live=None,
            mine=None,
            system=SYSTEM,
            connection=CONNECTION_ID,
            organisation=ORGANISATION,
            path="c",
        )
    assert [item.field for item in caught.value.fields] == [field]


VERSIONS = {
    "v": {
        "metadata": {
            **SYSTEM["metadata"],
            "name": "v",
            "uid": "2",
            "creationTimestamp": "2026-11-21T11:30:00Z",
        },
        "spec": {"versionName": "First", "digest": "digest of v"},
    },
    "u": {
        "metadata": {
            **SYSTEM["metadata"],
            "name": "u",
            "uid": "3",
            "creationTimestamp": "2026-11-21T11:00:00Z",
        },
        "spec": {"digest": "digest of u"},
    },
}


def _scale(environment: str) -> int:
    return {"scaled": 3}.get(environment, 1)


def _project(**spec: Any) -> dict[str, Any]:
    return {"metadata": {**SYSTEM["metadata"]}, "spec": {"name": "P", **spec}}


def test_an_environment_before_the_operators_first_visit_is_a_draft() -> None:
    shown = project_item(_project(), versions=VERSIONS.get, scale=_scale)
    assert [(item.name, item.status, item.created_at) for item in shown.environments] == [
        ("production", "draft", "2026-11-21T10:00:00Z")
    ]


def test_an_environment_has_the_pods_it_was_scaled_to_where_the_project_sets_no_number() -> None:
    fixed = {"name": "fixed", "runtime": {"replicas": 2}}
    project = _project(environments=[{"name": "scaled"}, fixed, {"name": "other"}])
    shown = project_item(project, versions=VERSIONS.get, scale=_scale).environments
    assert [one.config.deployment_spec.replicas for one in shown] == [3, 2, 1]


def test_an_environment_shows_what_the_operator_saw_and_what_is_deployed() -> None:
    project = _project(environments=[{"name": "a", "version": "v"}, {"name": "b"}], labels={"x": "y"})
    project["status"] = {
        "environments": [
            {
                "name": "a",
                "status": "error",
                "message": "It crashed",
                "sleeping": True,
                "publicUrl": "https://a",
                "createdAt": "2026-11-21T11:00:00Z",
                "updatedAt": "2026-11-21T12:00:00Z",
            }
        ]
    }
    shown = project_to_rest(
        project,
        versions=VERSIONS.get,
        scale=_scale,
        files=[("m", b"\xff")],
        deployed={"a": ([("main.py", b"1")], {"l": "1"})},
    )
    first, second = shown.environments
    assert (first.status, first.message, first.public_url) == ("error", "It crashed", "https://a")
    assert (first.sleeping, second.sleeping) == (True, None)
    assert first.files is not None
    assert first.files[0].content == "1"
    assert (second.status, second.files, second.public_url) == ("draft", None, "")
    assert first.deployed_version is not None
    assert first.deployed_version.name == "First"
    assert first.last_deployed_at == "2026-11-21T11:30:00Z", "the version's, where nobody noted more"
    assert (second.deployed_version, second.last_deployed_at) == (None, "2026-11-21T10:00:00Z")
    assert shown.current_files.files[0].content == "\ufffd"
    assert shown.current_files.labels == {"x": "y"}


@pytest.mark.parametrize(
    ("status", "observed", "told"),
    [
        ({}, 0, "progressing"),
        ({}, 2, "progressing"),
        ({"desiredVersion": "v", "version": "u", "rollout": "progressing"}, 2, "progressing"),
        ({"desiredVersion": "v", "version": "v", "rollout": "complete"}, 1, "progressing"),
        ({"desiredVersion": "v", "version": "v", "rollout": "complete"}, 2, "complete"),
        ({"desiredVersion": "v", "status": "suspended", "rollout": "progressing"}, 2, "progressing"),
        ({"desiredVersion": "v", "status": "suspended", "rollout": "complete"}, 2, "complete"),
        (
            {"desiredVersion": "v", "version": "u", "rollout": "failed", "deployFailure": "CrashLoop"},
            2,
            "failed",
        ),
        (
            {"desiredVersion": "v", "version": "u", "rollout": "failed", "deployFailure": "CrashLoop"},
            1,
            "progressing",
        ),
    ],
    ids=str,
)
def test_the_outcome_of_a_deploy_is_told_once_the_operator_has_seen_it(
    status: dict[str, Any], observed: int, told: str
) -> None:
    deployed, draft = _environments_with(status, observed)
    assert deployed.rollout is not None
    assert (deployed.rollout.state, deployed.rollout.reason) == (
        told,
        "CrashLoop" if told == "failed" else None,
    )
    assert draft.rollout is None


def _environments_with(
    status: dict[str, Any], observed: int, conditions: list[dict[str, Any]] | None = None
) -> list[rest_projects.Environment]:
    project = _project(environments=[{"name": "a", "version": "v"}, {"name": "b"}])
    project["metadata"] = {**project["metadata"], "generation": 2}
    project["status"] = {
        "observedGeneration": observed,
        "environments": [{"name": "a", **status}],
        "conditions": conditions or [],
    }
    return project_item(project, versions=VERSIONS.get, scale=_scale).environments


def test_a_failed_rollout_says_why_in_one_line() -> None:
    message = (
        "a: version v does not start: main.py:4: KeyError: 'A'; version u keeps serving\nTraceback:\n  boom"
    )
    status = {"version": "u", "desiredVersion": "v", "rollout": "failed", "deployFailure": "Crashed"}
    found = _environments_with({**status, "message": message}, 2)[0]
    assert found.rollout is not None
    named = "version First does not start: main.py:4: KeyError: 'A'; version u keeps serving"
    assert found.rollout.message == named
    assert found.message == f"a: {named}\nTraceback:\n  boom"


def test_a_deploy_to_a_refused_project_has_failed() -> None:
    ready = {"type": "Ready", "status": "False", "reason": "IdTaken", "message": "…"}
    deployed, _ = _environments_with({"desiredVersion": "u", "version": "u"}, 2, [ready])
    assert deployed.rollout is not None
    assert (deployed.rollout.state, deployed.rollout.reason) == ("failed", "IdTaken")


HEALTHY = {name: {"name": name, "digest": f"digest of {name}"} for name in ("u", "v", "gone")}
OTHER_U = {"name": "u", "digest": "of other files"}


@pytest.mark.parametrize(
    ("status", "deployed", "serving", "rollback"),
    [
        ({}, "v", None, None),
        ({"version": "u", "desiredVersion": "v"}, "v", "u", None),
        (
            {"version": "v", "desiredVersion": "v", "healthyVersions": [HEALTHY["v"], HEALTHY["u"]]},
            "v",
            "v",
            "u",
        ),
        ({"version": "u", "desiredVersion": "v", "healthyVersions": [HEALTHY["u"]]}, "v", "u", "u"),
        (
            {"desiredVersion": "v", "healthyVersions": [HEALTHY["v"], HEALTHY["gone"], HEALTHY["u"]]},
            "v",
            None,
            "u",
        ),
        ({"version": "v", "desiredVersion": "v", "healthyVersions": [HEALTHY["v"]]}, "v", "v", None),
        (
            {"version": "u", "desiredVersion": "u", "healthyVersions": [HEALTHY["u"], HEALTHY["v"]]},
            "u",
            "u",
            "v",
        ),
        ({"version": "v", "desiredVersion": "v", "healthyVersions": [HEALTHY["v"], OTHER_U]}, "v", "v", None),
    ],
    ids=str,
)
def test_deployed_and_serving_versions_are_two_fields(
    status: dict[str, Any], deployed: str, serving: str | None, rollback: str | None
) -> None:
    found, draft = _environments_with(status, 2)
    versions = (found.deployed_version, found.serving_version, found.rollback_version)
    assert [one and one.name for one in versions] == [_name(deployed), _name(serving), _name(rollback)]
    assert (draft.deployed_version, draft.serving_version, draft.rollback_version) == (None, None, None)


def _name(version: str | None) -> str | None:
    return "First" if version == "v" else version


def test_a_suspended_environment_has_no_rollout() -> None:
    project = _project(environments=[{"name": "a", "version": "v", "suspended": True}])
    assert project_item(project, versions=VERSIONS.get, scale=_scale).environments[0].rollout is None


def test_a_version_without_a_name_is_called_like_its_object() -> None:
    version = {"metadata": SYSTEM["metadata"], "spec": {"labels": {}}}
    assert (version_to_rest(version).name, version_to_rest(version).state) == ("shop", "draft")


def test_the_operators_own_writes_are_no_update() -> None:
    obj = {
        "metadata": {
            **SYSTEM["metadata"],
            "managedFields": [
                {"manager": "kubectl", "time": "2026-11-21T11:00:00Z"},
                {"manager": "tieline-operator", "time": "2026-11-21T12:00:00Z"},
                {"manager": "x", "subresource": "status", "time": "2026-11-21T13:00:00Z"},
            ],
        }
    }
    assert updated_at(obj) == "2026-11-21T11:00:00Z"
    remembered = remember_update(obj)
    del remembered["metadata"]["managedFields"]
    assert updated_at(remembered) == "2026-11-21T11:00:00Z"


def test_ids_that_are_free_text_are_answered_as_one_ulid_and_may_be_sent_back() -> None:
    client = {"credentialId": "shop-client", "organisationId": "", "clientId": "me"}
    grant = {"type": "authorizationCode", "authorizationCode": client}
    item = {"id": "a", "type": "oauth2", "oauth2": {"tokenUrl": "https://x.example/token", "grant": grant}}
    sent = _wire(_shown(item))
    assert sent.oauth2 is not None
    shown = sent.oauth2.grant.client()
    assert shown is not None
    assert parse_id(shown.credential_id) == shown.credential_id == canonical("shop-client")
    assert shown.organisation_id == ORGANISATION
    stored = auth_schemes.to_item(sent, item, owners=(OWNER.id,))["oauth2"]["grant"]["authorizationCode"]
    assert stored["credentialId"] == "shop-client"
    assert _same(sent, item)


@pytest.mark.parametrize("kind", ["oauth2", "oauth1"])
def test_a_client_given_with_the_scheme_is_answered_with_the_credential_made_for_it(kind: str) -> None:
    item = ITEMS[kind]
    sent = _wire(_shown(item))
    holder = sent.oauth1 if sent.oauth1 else sent.oauth2.grant.client() if sent.oauth2 else None
    assert holder is not None
    assert holder.credential_id == client_credential_id(OWNER.id, "a")
    stored = auth_schemes.to_item(sent, item, owners=(OWNER.id,))
    assert holder.credential_id not in str(stored), "an id that is only shown is not stored"
    assert _same(sent, item)


def test_a_scheme_that_does_not_fit_its_type_leaves_the_system_readable() -> None:
    broken = [{"id": "x", "type": "oauth2", "oauth2": {"grant": None}}, {"id": "y", "type": "oauth3"}]
    system = {**SYSTEM, "spec": {**SYSTEM["spec"], "authSchemeConfigs": [*broken, ITEMS["api-key"]]}}
    shown = system_to_rest(system, organisation=ORGANISATION).auth_scheme_configs
    assert [(one.type, one.id) for one in shown] == [("none", "x"), ("none", "y"), ("api-key", "a")]
    assert shown[0].none is not None
    assert "correct it" in shown[0].none.validation_messages[0].text


def test_a_credential_is_found_by_the_id_of_answers_and_by_that_of_the_manifest() -> None:
    items = CONNECTION["spec"]["credentials"]
    shown = credential_item_id(CONNECTION_ID, "two")
    for given_id in ("two", shown, shown.lower()):
        assert stored_item(given_id, items, connection=CONNECTION_ID) is items[1]
    assert stored_item(new_id(), items, connection=CONNECTION_ID) is None


def test_when_a_credential_ends_is_told_in_utc() -> None:
    item = {**CONNECTION["spec"]["credentials"][0], "expiresAt": "2027-01-01T00:30:00.5+02:00"}
    connection = {**CONNECTION, "spec": {**CONNECTION["spec"], "credentials": [item]}}
    shown = connection_to_rest(connection, organisation=ORGANISATION, system=SYSTEM, template=None)
    assert '"expires_at":"2026-12-31T22:30:00.500000Z"' in shown.model_dump_json()


def test_one_object_that_does_not_fit_leaves_the_rest_of_a_list_readable() -> None:
    broken = {**SYSTEM, "kind": "System", "spec": {"name": None}}
    shown = readable([SYSTEM, broken], lambda obj: system_to_rest(obj, organisation=ORGANISATION))
    assert [one.name for one in shown.items] == ["Shop"]
    (warning,) = shown.warnings
    assert "System" in warning


@pytest.mark.parametrize(
    ("written", "shown", "is_over"),
    [
        # What Kubernetes takes for a time (strfmt), and typed clients send for none (Go's zero time).
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z", True),
        ("0001-01-01T00:00:00+05:00", "0001-01-01T00:00:00Z", True),
        ("9999-12-31T23:59:59-01:00", "9999-12-31T23:59:59Z", False),
        ("2026-01-01T00:00:00+99:99", None, False),
    ],
)
def test_the_end_of_a_credential_is_read_whatever_a_manifest_has(
    written: str, shown: str | None, is_over: bool
) -> None:
    found = in_utc(written)
    assert (format_time(found) if found else None) == shown
    assert expired({"expiresAt": written}, datetime.now(UTC)) is is_over


@pytest.mark.parametrize("sent", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00"])
def test_an_end_that_a_client_sends_is_stored_in_four_digits(sent: str) -> None:
    given_one = ConnectionCredential.model_validate({"credential": {"expiresAt": sent}})
    assert given_one.credential
    assert given_one.credential.expires_at
    assert format_time(given_one.credential.expires_at) == f"{sent[:19]}Z"
