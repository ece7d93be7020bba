"""The providers that people connect first: from the authorise URL to a call of the API, as each documents it."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.unit.api.authorisation.provider_cases import (
    CASES,
    CLIENT,
    CODE,
    REDIRECT,
    SECRET,
    STATE,
    Ask,
    Case,
)
from tests.unit.runtime.external_systems import configured, context, environment, scheme_credential
from tieline.http_client.session import new_client
from tieline_api.authorisation.authorize_url import AuthorizeUrlError, AuthorizeUrlParameters, authorize_url
from tieline_api.schemas.auth_schemes import OAuth2Scheme
from tieline_core.oauth import token_secret_codec
from tieline_core.resources.auth_schemes import OAuth2
from tieline_core.resources.oauth2_dialect import AuthorizationDialect
from tieline_protocol.oauth.dialect import Dialect
from tieline_protocol.oauth.kept import collect
from tieline_protocol.oauth.token_client import Endpoint, TokenClient, Tokens

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CASE = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@dataclass
class Provider:
    """Takes the requests that it expects, in their order, and refuses any other."""

    url: str = ""
    expected: list[Ask] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    called: list[web.Request] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        if request.path == "/api":
            self.called.append(request)
            return web.json_response({})
        wanted = self.expected.pop(0) if self.expected else Ask(path="nothing")
        got = await _seen(request)
        if got != (wanted.path, wanted.method, wanted.form, wanted.json, wanted.query) or any(
            request.headers.get(name) != value for name, value in wanted.headers.items()
        ):
            self.refused.append(f"{got} {dict(request.headers)}")
            return web.json_response({"error": "invalid_request"}, status=400)
        return web.json_response(wanted.answer, status=wanted.status)


async def _seen(request: web.Request) -> tuple[Any, ...]:
    text = await request.text()
    kind = request.content_type if text else ""
    form = dict(parse_qsl(text)) if kind == "application/x-www-form-urlencoded" else None
    body = json.loads(text) if kind == "application/json" else None
    return request.path, request.method, form, body, dict(request.query)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    found = Provider()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", found.handle)
    async with TestServer(app) as server:
        found.url = str(server.make_url("")).rstrip("/")
        yield found


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with new_client() as made:
        yield made


def scheme_at(url: str, case: Case) -> OAuth2:
    """The scheme as a custom resource has it, and REST takes it."""
    given = json.loads(json.dumps(case.scheme).replace("{url}", url))
    OAuth2Scheme.model_validate(given)
    return OAuth2.model_validate(given)


def endpoint_of(scheme: OAuth2) -> Endpoint:
    return Endpoint(
        token_url=scheme.token_url,
        refresh_url=scheme.refresh_url or "",
        client_id=CLIENT,
        client_secret=SECRET,
        authentication="body" if scheme.client_authentication == "body" else "header",
        dialect=Dialect.of(scheme.to_dict()),
    )


@CASE
def test_the_authorise_url_has_what_the_provider_knows(case: Case) -> None:
    scheme = scheme_at("https://provider.example", case)
    names = [*(one.name for one in scheme.scopes), *scheme.default_scopes]
    wanted = AuthorizeUrlParameters(
        authorize_url=scheme.authorize_url or "",
        client_id=CLIENT,
        scopes=case.scopes,
        additional_params=scheme.additional_authorize_params,
        scope_separator=scheme.scope_separator,
        dialect=scheme.authorization or AuthorizationDialect(),
        follows_scheme=True,
        lists_offline_access="offline_access" in names,
    )
    url = authorize_url(wanted, redirect_uri=REDIRECT, state=STATE, verifier=None)
    assert dict(parse_qsl(urlsplit(url).query)) == case.authorise


@CASE
async def test_a_code_becomes_tokens_that_are_refreshed(
    provider: Provider, client: aiohttp.ClientSession, case: Case
) -> None:
    scheme = scheme_at(provider.url, case)
    endpoint, tokens_of = endpoint_of(scheme), TokenClient(client, now=lambda: NOW)
    provider.expected = [case.code, *case.then]
    query = dict(parse_qsl(f"code={CODE}&state={STATE}{case.callback}"))
    callback = collect(endpoint.dialect.callback, query.get, hosts=endpoint.dialect.hosts)
    scopes = case.authorise.get("scope", "").replace(",", " ") or " ".join(case.scopes)
    tokens = await tokens_of.exchange(
        endpoint, code=CODE, redirect_uri=REDIRECT, scopes=scopes.split(), kept=callback
    )
    assert (provider.refused, provider.expected) == ([], [])
    assert (tokens.access_token, tokens.refresh_token) == (case.access, case.refresh_token)
    assert (tokens.scopes, tokens.kept) == (case.granted, case.kept)
    assert tokens.expires_at == (NOW + timedelta(seconds=case.lifetime) if case.lifetime else None)
    assert stored(tokens) == tokens
    if case.refresh is not None:
        provider.expected = [case.refresh]
        new = await tokens_of.refresh(
            endpoint, refresh_token=tokens.refresh_token, scopes=tokens.scopes, kept=tokens.kept
        )
        assert provider.refused == []
        assert (new.access_token, new.kept) == (case.refreshed, case.kept)
        assert new.refresh_token


def stored(tokens: Tokens) -> Tokens:
    """Tokens that were in a Secret."""
    secret = token_secret_codec.with_tokens({"metadata": {"name": "tokens"}}, tokens)
    return token_secret_codec.read(secret).tokens


@CASE
async def test_requests_carry_the_token_as_the_api_wants_it(
    provider: Provider, client: aiohttp.ClientSession, case: Case
) -> None:
    options = scheme_at(provider.url, case).to_dict()
    credential = scheme_credential("oauth2", options, type="oauth2-code", accessToken=case.access)
    credential["data"] |= {"variables": dict(case.kept.variables), "tokenType": "bot", "clientSecret": SECRET}
    configuration = configured(environment(provider.url, credential))
    await context(client, configuration).fetch("shop", "/api")
    (request,) = provider.called
    for name, value in case.call.items():
        assert request.headers.get(name) == value
    assert ("Authorization" in request.headers) == ("Authorization" in case.call)
    in_query = {"access_token": case.access} if (case.scheme.get("token") or {}).get("in") == "query" else {}
    assert dict(request.query) == in_query


def test_a_prompt_that_the_provider_does_not_know_is_refused() -> None:
    dialect = AuthorizationDialect(prompts=["none", "consent"])
    wanted = AuthorizeUrlParameters(
        authorize_url="https://a.example/",
        client_id="c",
        prompt="login",
        dialect=dialect,
        follows_scheme=True,
    )
    with pytest.raises(AuthorizeUrlError, match="none or consent") as refused:
        authorize_url(wanted, redirect_uri=REDIRECT, state=STATE, verifier=None)
    assert refused.value.field == "prompt"


def test_a_prompt_in_the_additional_parameters_wins() -> None:
    wanted = AuthorizeUrlParameters(
        authorize_url="https://a.example/",
        client_id="c",
        additional_params="prompt=select_account&access_type=online",
        dialect=AuthorizationDialect(
            prompt="consent", offline_parameters="access_type=offline", offline_access="parameters"
        ),
        follows_scheme=True,
    )
    url = authorize_url(wanted, redirect_uri=REDIRECT, state=STATE, verifier=None)
    said = parse_qsl(urlsplit(url).query)
    assert [pair for pair in said if pair[0] in ("prompt", "access_type")] == [
        ("prompt", "select_account"),
        ("access_type", "online"),
    ]


def test_offline_parameters_that_the_service_sets_are_the_schemes_mistake() -> None:
    wanted = AuthorizeUrlParameters(
        authorize_url="https://a.example/",
        client_id="c",
        additional_params="a=b",
        dialect=AuthorizationDialect(offline_parameters="state=mine", offline_access="parameters"),
        follows_scheme=True,
    )
    with pytest.raises(AuthorizeUrlError, match="correct the auth scheme") as refused:
        authorize_url(wanted, redirect_uri=REDIRECT, state=STATE, verifier=None)
    assert refused.value.field == "offlineParameters"


@pytest.mark.parametrize(
    "authorization", [{"offlineAccess": "none"}, {"prompt": "consent", "scopeParameter": "s"}]
)
def test_other_callers_get_the_defaults_of_the_specification(authorization: dict[str, str]) -> None:
    dialect = AuthorizationDialect.model_validate(authorization)
    wanted = AuthorizeUrlParameters(
        authorize_url="https://a.example/", client_id="c", scopes=("a",), dialect=dialect
    )
    said = dict(
        parse_qsl(urlsplit(authorize_url(wanted, redirect_uri=REDIRECT, state=STATE, verifier=None)).query)
    )
    assert (said[dialect.scope_parameter], said["prompt"]) == ("a offline_access", "login")
