"""What requests may say beyond what we know, and how it is told back."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator

from tieline_api.errors import ApiError
from tieline_api.http.request_body import (
    MAX_WARNINGS,
    element_texts,
    member_text,
    parse_json,
    read_model,
    refuse_unknown_fields,
    refuse_unknown_parameters,
    unknown_parameters,
    validate,
    validate_query,
    warning_header,
)
from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.schemas.authorisations import CredentialOfOrganisation
from tieline_api.schemas.base import PageQuery, Rest
from tieline_api.schemas.connections import ConnectionUpdate, NewConnection
from tieline_api.schemas.events import EventCreate
from tieline_api.schemas.examples import MODELS
from tieline_api.schemas.notifications import NotificationChannelCreate
from tieline_api.schemas.projects import DeployBody, FilesBody, ProjectCreate, ProjectUpdate, SuspendQuery
from tieline_api.schemas.runs import SelectionBody, SelectionQuery
from tieline_api.schemas.systems import SystemCreate, SystemUpdate
from tieline_api.schemas.templates import TemplateCreate, TemplateUpdate
from tieline_api.schemas.users import ActivationCreate, GivenConnection, UserCreate, Variables
from tieline_core.identity.ids import parse_id

SYSTEM_CREATE = MODELS["SystemCreate"]
SYSTEM_ID = MODELS["System"]["id"]
NEW_CONNECTION = MODELS["ConnectionCreate"]["connection"]
API_KEY = {"type": "api-key", "apiKey": {"id": "k", "name": "X-Key", "in": "header"}}


def test_unknown_fields_are_named_with_their_paths() -> None:
    body = {
        "name": "a",
        "domain": "d",
        "templateBaseUrl": "https://d",
        "colour": "red",
        "authSchemeConfigs": [{**API_KEY, "new": 1, "apiKey": {**API_KEY["apiKey"], "hue": 2}}],  # type: ignore[dict-item]
    }
    parsed, unknown = validate(SystemCreate, body)
    assert sorted(unknown) == [
        'unknown field "authSchemeConfigs[0].apiKey.hue"',
        'unknown field "authSchemeConfigs[0].new"',
        'unknown field "colour"',
    ]
    assert "red" not in parsed.model_dump_json()


def test_sub_objects_of_other_types_are_dropped_and_named_even_when_malformed() -> None:
    parsed, unknown = validate(
        AuthSchemeConfig, {**API_KEY, "oauth2": "not even an object", "hmac": {"id": 1}}
    )
    assert sorted(unknown) == [
        'field "hmac" does not belong to this type and was ignored',
        'field "oauth2" does not belong to this type and was ignored',
    ]
    assert parsed.id == "k"
    assert parsed.oauth2 is None


def test_validation_messages_in_a_request_are_ignored_without_a_word() -> None:
    config = {"type": "none", "none": {"id": "n", "validationMessages": "anything"}}
    parsed, unknown = validate(AuthSchemeConfig, config)
    assert unknown == []
    assert parsed.none is not None
    assert parsed.none.validation_messages == []


def test_snake_case_is_not_our_field_names() -> None:
    _, unknown = validate(ProjectUpdate, {"settings": {"accept_code_changes_automatically": True}})
    assert unknown == ['unknown field "settings.accept_code_changes_automatically"']


def test_null_is_the_same_as_leaving_out() -> None:
    parsed, _ = validate(ProjectUpdate, {"name": None, "settings": None})
    assert (parsed.name, parsed.settings) == (None, None)


@pytest.mark.parametrize(
    "kind", ["api-key", "oauth2", "hmac", "jwt-bearer", "oauth1", "secret", "none", "certificate"]
)
def test_a_scheme_without_its_sub_object_is_422(kind: str) -> None:
    with pytest.raises(ApiError) as caught:
        validate(AuthSchemeConfig, {"type": kind})
    assert caught.value.status == 422


ZERO = "0" * 26
SENT_BY_CLIENTS: list[tuple[type[BaseModel], dict[str, Any], dict[str, Any]]] = [
    (SystemCreate, {**SYSTEM_CREATE, "authSchemeConfigs": None}, {"auth_scheme_configs": []}),
    (NewConnection, {"name": "C", "credentials": None}, {"credentials": []}),
    (NewConnection, {"name": "C", "credentials": [], "externalId": ""}, {"external_id": None}),
    (ConnectionUpdate, {"credentials": None}, {"credentials": None}),
    (ProjectCreate, {"name": "P", "id": ZERO}, {"id": None}),
    (ProjectCreate, {"name": "P", "id": ""}, {"id": None}),
    (TemplateCreate, {"systemId": SYSTEM_ID, "name": "t", "environmentId": ZERO}, {"environment_id": None}),
    (TemplateUpdate, {"authSchemeConfigIds": None}, {"auth_scheme_config_ids": None}),
    (UserCreate, {"externalId": "e"}, {"display_name": ""}),
    (UserCreate, {"externalId": "e", "displayName": None}, {"display_name": ""}),
    (UserCreate, {"externalId": "e", "displayName": ""}, {"display_name": ""}),
    (FilesBody, {"files": [], "labels": None}, {"labels": {}}),
    (DeployBody, {"files": None, "labels": None}, {"files": None, "labels": None}),
    (
        ActivationCreate,
        {"userId": "u", "environmentId": SYSTEM_ID, "connections": None, "dynamicVariables": None},
        {"connections": [], "dynamic_variables": None},
    ),
    (
        GivenConnection,
        {"connectionTemplateId": SYSTEM_ID, "existingConnectionId": ZERO, "connection": NEW_CONNECTION},
        {"existing_connection_id": None},
    ),
    (CredentialOfOrganisation, {"id": "c", "organisationId": ZERO}, {"organisation_id": None}),
]


@pytest.mark.parametrize(("model", "body", "read"), SENT_BY_CLIENTS)
def test_what_existing_clients_send_is_accepted(
    model: type[BaseModel], body: dict[str, Any], read: dict[str, Any]
) -> None:
    parsed, unknown = validate(model, body)
    assert unknown == []
    assert {name: getattr(parsed, name) for name in read} == read


def test_a_new_connection_counts_before_an_existing_one() -> None:
    body = {
        "connectionTemplateId": SYSTEM_ID,
        "existingConnectionId": SYSTEM_ID,
        "connection": NEW_CONNECTION,
    }
    parsed, _ = validate(GivenConnection, body)
    assert parsed.connection is not None


@pytest.mark.parametrize("no_id", [None, "", ZERO])
def test_a_scheme_without_an_id_gets_one(no_id: str | None) -> None:
    body = {"type": "api-key", "apiKey": {"id": no_id, "name": "X-Key", "in": "header"}}
    parsed, unknown = validate(AuthSchemeConfig, body)
    assert unknown == []
    assert parse_id(parsed.id) == parsed.id
    assert not parsed.has_own_id


def test_null_means_empty_in_every_part_of_a_scheme() -> None:
    endpoint = {"url": "https://x.example", "additionalParamConfigs": None, "parameterTransmission": None}
    oauth1 = {"id": "a", "description": None, "validationMessages": None, "tokenEndpoint": endpoint}
    parsed, _ = validate(AuthSchemeConfig, {"type": "oauth1", "oauth1": oauth1, "oauth2": None, "none": None})
    assert parsed.oauth1 is not None
    assert parsed.oauth1.token_endpoint is not None
    assert parsed.oauth1.token_endpoint.additional_param_configs == []
    grant = {"type": "authorizationCode", "authorizationCode": {"clientId": "me", "credentialId": ZERO}}
    oauth2 = {
        "id": "a", "tokenUrl": "https://x.example/token", "grant": grant, "scopes": None, "defaultScopes": None,
        "mtlsCredentialId": ZERO, "mtlsEnabled": None, "additionalTokenParams": None,
    }  # fmt: skip
    parsed, _ = validate(AuthSchemeConfig, {"type": "oauth2", "oauth2": oauth2})
    assert parsed.oauth2 is not None
    assert (parsed.oauth2.default_scopes, parsed.oauth2.scopes) == ([], [])
    assert parsed.oauth2.mtls_credential_id is None
    assert [parsed.oauth2.grant.authorization_code.credential_id] == [""]  # type: ignore[union-attr]


def test_values_of_variables_keep_their_nulls() -> None:
    parsed, _ = validate(Variables, {"region": None})
    assert parsed.root == {"region": None}


@given(st.lists(st.text(), max_size=20))
def test_a_warning_header_is_always_fit_for_http(texts: list[str]) -> None:
    header = warning_header(texts)
    if not texts:
        assert header is None
        return
    assert header is not None
    assert header.isascii()
    assert header.isprintable()
    assert header.count("299 - ") <= MAX_WARNINGS + 1


def test_a_long_list_of_warnings_is_bounded() -> None:
    header = warning_header([f"unknown {number}" for number in range(100)])
    assert header is not None
    assert header.endswith('299 - "and 95 more"')


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_no_json_makes_reading_fail_otherwise_than_by_422(value: object) -> None:
    def status(model: type[Rest]) -> int:
        try:
            validate(model, value)
        except ApiError as error:
            return error.status
        return 200

    assert {status(model) for model in (SystemCreate, AuthSchemeConfig, ProjectUpdate)} <= {200, 422}


def _refusal(model: type[BaseModel], body: dict[str, Any]) -> str:
    with pytest.raises(ApiError) as caught:
        validate(model, body)
    assert caught.value.status == 422
    return caught.value.message


def test_a_misspelt_required_field_is_named() -> None:
    body = {key: value for key, value in SYSTEM_CREATE.items() if key != "templateBaseUrl"}
    refused = _refusal(SystemCreate, {**body, "templateBaseURL": "https://shop.example"})
    assert refused == 'templateBaseUrl: is required; rename the unknown field "templateBaseURL"'
    assert _refusal(SystemCreate, body) == "templateBaseUrl: is required"


def test_a_misspelt_required_field_is_named_within_lists_and_known_siblings_are_not() -> None:
    item = {"connection_template_id": SYSTEM_ID, "existingConnectionId": SYSTEM_ID}
    body = {"userId": "u", "environmentId": SYSTEM_ID, "connections": [item]}
    refused = _refusal(ActivationCreate, body)
    assert refused.endswith(
        'connectionTemplateId: is required; rename the unknown field "connection_template_id"'
    )


def test_an_id_that_is_none_is_refused_in_words() -> None:
    refused = _refusal(TemplateCreate, {"systemId": "shop", "name": "t"})
    assert refused.startswith("systemId: must be an id (a ULID)")


@pytest.mark.parametrize("blank", [" ", "   ", "\u00a0\u3000"])
@pytest.mark.parametrize(
    ("model", "body"),
    [
        (ProjectCreate, {"name": None}),
        (TemplateCreate, {"systemId": SYSTEM_ID, "name": None}),
        (UserCreate, {"externalId": None}),
    ],
)
def test_a_blank_name_is_refused(model: type[BaseModel], body: dict[str, Any], blank: str) -> None:
    refused = _refusal(model, {key: blank if value is None else value for key, value in body.items()})
    assert "must not be blank" in refused


def test_a_field_that_is_a_parameter_is_said_to_be_one() -> None:
    _, warnings = validate(DeployBody, {"project_env": "production"}, elsewhere={"project_env": "query"})
    assert warnings == ['unknown field "project_env": it is a query parameter']


def test_a_missing_parameter_says_that_it_belongs_in_the_query() -> None:
    with pytest.raises(ApiError) as bare:
        validate_query(SuspendQuery, make_mocked_request("POST", "/suspend"))
    assert bare.value.message == "environment: is required (a query parameter: ?environment=…)"
    with pytest.raises(ApiError) as sent:
        validate_query(SuspendQuery, make_mocked_request("POST", "/suspend"), body_fields={"environment"})
    assert "it was sent in the body" in sent.value.message
    with pytest.raises(ApiError) as renamed:
        validate_query(SuspendQuery, make_mocked_request("POST", "/suspend?project_env=production"))
    assert 'rename the unknown "project_env"' in renamed.value.message


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("first=1", None),
        ("limit=1", 'unknown query parameter "limit" was ignored; this operation takes first, after, before'),
        ("First=1", 'unknown query parameter "First" was ignored; did you mean "first"?'),
        ("frist=1", 'unknown query parameter "frist" was ignored; did you mean "first"?'),
    ],
)
def test_an_unknown_query_parameter_is_named_with_what_may_be_meant(query: str, says: str | None) -> None:
    warnings = unknown_parameters(PageQuery, make_mocked_request("GET", f"/systems?{query}"))
    assert warnings == ([says] if says else [])


def test_a_misspelt_filter_of_an_operation_on_many_runs_is_refused_by_name() -> None:
    for body in ({"status": "dead"}, {"project_env": "a", "dryRun": True, "search": None}, None, []):
        refuse_unknown_fields(SelectionBody, body)
    with pytest.raises(ApiError) as refused:
        refuse_unknown_fields(SelectionBody, {"status": "dead", "tsak": "x", "dry_run": True})
    assert [one.field for one in refused.value.fields] == ["tsak", "dry_run"]
    assert 'did you mean "task"?' in refused.value.message
    refuse_unknown_parameters(
        SelectionQuery, make_mocked_request("POST", "/runs/cancel?status=dead&dryRun=true")
    )
    with pytest.raises(ApiError) as refused:
        refuse_unknown_parameters(SelectionQuery, make_mocked_request("POST", "/runs/cancel?stauts=dead"))
    assert (refused.value.status, [one.field for one in refused.value.fields]) == (422, ["stauts"])


def test_an_operation_without_parameters_says_so() -> None:
    warnings = unknown_parameters(None, make_mocked_request("GET", "/x?a=1"))
    assert warnings == ['unknown query parameter "a" was ignored; this operation takes none']


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)  # fmt: skip


@given(
    value=JSON,
    others=st.dictionaries(st.sampled_from(["a", '"', "payload ", "\\", "ä"]), JSON),
    position=st.integers(0, 5),
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, 1]),
)
def test_a_member_of_an_object_is_found_as_it_was_sent(
    value: Any, others: dict[str, Any], position: int, ascii_only: bool, indent: int | None
) -> None:
    names = list(others)
    names.insert(position, "payload")
    body = json.dumps(
        {name: value if name == "payload" else others[name] for name in names},
        ensure_ascii=ascii_only,
        indent=indent,
    ).encode()
    found = member_text(body, "payload").decode()
    assert json.loads(found) == value
    assert found == found.strip()
    assert found in body.decode()


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"payload":18446744073709551616}', b"18446744073709551616"),
        (b'\xef\xbb\xbf \r\n{ "payload" :\t1.10E+2 , "a":1}', b"1.10E+2"),
        (b'{"payload":1,"a":{"payload":2},"payload":{"n": 0.10000000000000000555} }', b'{"n": 0.10000000000000000555}'),
        (b'{"p\\u0061yload":{"a":1,"a":2}}', b'{"a":1,"a":2}'),
        (b'{"payload":null}', b"null"),
    ],
    ids=["large", "spaces", "the last", "escaped, and names that come twice", "null"],
)  # fmt: skip
def test_numbers_and_names_that_come_twice_stay_as_they_were_sent(body: bytes, found: bytes) -> None:
    parse_json(make_mocked_request("POST", "/events"), body)
    assert member_text(body, "payload") == found


@pytest.mark.parametrize("number", [b"1e400", b"-1e400", b"9" * 400, b"NaN", b"Infinity"])
def test_a_number_that_no_double_can_be_near_to_is_refused(number: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        parse_json(make_mocked_request("POST", "/events"), b'{"payload": {"n": %b}}' % number)
    assert (refused.value.status, refused.value.code) == (400, "malformed")
    assert "line 1" in refused.value.message


WEBHOOK = {"type": "webhook", "name": "C"}
SIGNING = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


@pytest.mark.parametrize(
    ("model", "body", "field"),
    [
        (NotificationChannelCreate, {**WEBHOOK, "config": {"url": "URL", "secret": SIGNING}}, "config.url"),
        (SystemUpdate, {"templateBaseUrl": "URL"}, "templateBaseUrl"),
        (ConnectionUpdate, {"baseUrl": "URL"}, "baseUrl"),
        (NewConnection, {"name": "C", "credentials": [], "baseUrl": "URL"}, "baseUrl"),
    ],
)
def test_a_password_in_a_url_is_refused(model: type[BaseModel], body: dict[str, Any], field: str) -> None:
    """URLs are stored in clear, and shown to everybody who may read the object."""
    for good in ("https://a.example", "https://a.example/@me?to=a@b", "https://{shop}.a.example:8443/x"):
        validate(model, json.loads(json.dumps(body).replace("URL", good)))
    for wrong in ("https://me:hush@a.example/", "http://hush@a.example", "https://a.example\\\\@b.example"):
        with pytest.raises(ApiError) as caught:
            validate(model, json.loads(json.dumps(body).replace("URL", wrong)))
        (told,) = caught.value.fields
        assert told.field == field
        assert "Secret" in told.message
        assert "hush" not in told.message


def test_elements_of_an_array_stay_as_they_were_sent() -> None:
    body = b'{"events": [ {"payload": 1.10}, [ ] ,18446744073709551616,"]" ], "a": 1}'
    found = [b'{"payload": 1.10}', b"[ ]", b"18446744073709551616", b'"]"']
    assert element_texts(member_text(body, "events")) == found
    assert element_texts(b"[ ]") == []


class Parts(list[int]):
    """A list that counts how often somebody looks through it."""

    looked = 0

    def __iter__(self) -> Iterator[int]:
        self.looked += 1
        return super().__iter__()


def test_a_payload_is_looked_through_only_for_its_depth() -> None:
    payload = Parts([1, 2, 3])
    parsed, _ = validate(EventCreate, {"task": "order", "payload": payload})
    assert parsed.payload is payload
    assert payload.looked == 1


@pytest.mark.parametrize(("levels", "refused"), [(63, False), (64, True)])
def test_a_body_nests_as_deep_as_it_may(levels: int, refused: bool) -> None:
    body = {"task": "order", "payload": json.loads("[" * (levels - 1) + "1" + "]" * (levels - 1))}
    with pytest.raises(ApiError, match="deeper than 64") if refused else nullcontext():
        validate(EventCreate, body)


class _Waits(Rest):
    """Is valid once somebody else has had a turn."""

    text: str

    @field_validator("text")
    @classmethod
    def wait(cls, text: str) -> str:
        assert OTHERS.wait(10)
        return text


OTHERS = threading.Event()


async def test_a_large_body_does_not_hold_up_other_requests() -> None:
    asyncio.get_running_loop().call_soon(OTHERS.set)
    body = json.dumps({"text": "x" * 1_000_000}).encode()
    parsed, _ = await read_model(make_mocked_request("POST", "/"), _Waits, body)
    assert len(parsed.text) == 1_000_000
