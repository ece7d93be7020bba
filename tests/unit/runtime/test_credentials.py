"""``ctx.credentials``: typed values for code where both sides allow it, and none of them in what is written."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.clients.secret_leaks import leaks
from tests.unit.runtime.telemetry.test_redaction import KEY
from tieline.configuration.snapshot import parse
from tieline.credentials import Credentials
from tieline.telemetry.otlp_json import encode
from tieline.testing import Project

Serve = Callable[..., Project]
PASSWORD, HOST, TOKEN = "corr3ct-h0rse", "db-17.internal.example", "acc3ss-tok3n-value"
DATABASE = {
    "name": "main",
    "type": "basic-auth",
    "authScheme": {"type": "basic-auth"},
    "data": {"username": "orders", "password": PASSWORD},
    "fields": {"host": HOST, "ssh": KEY},
}
HEAD = """
import base64
from tieline import *

integration = Integration()
"""
READ = (
    HEAD
    + """
@integration.webhook("read")
async def read(ctx: Context) -> dict:
    db = await ctx.credentials("db")
    return {"user": db.login.username, "password": db.login.password, "host": db.fields["host"], "url": db.base_url}


@integration.webhook("plain")
def plain(ctx: SyncContext) -> dict:
    db = ctx.credentials("db")
    return {"user": db.login.username, "password": db["main"].login.password, "host": db.fields["host"]}
"""
)
ERROR = (
    HEAD
    + """
@integration.webhook("read")
async def read(ctx: Context) -> str:
    try:
        db = await ctx.credentials("db")
        return str(EXPRESSION)
    except TielineError as error:
        return type(error).__name__ + ": " + str(error)
"""
)
LEAK = (
    HEAD
    + """
@integration.webhook("leak")
async def leak(ctx: Context) -> None:
    db = await ctx.credentials("db")
    login = db.login
    print(login.password, db, login, vars(login))
    print(db.fields["ssh"])
    ctx.log.info("Logged " + login.password, password=login.password, nested={"host": db.fields["host"]})
    print(base64.b64encode(f"{login.username}:{login.password}".encode()).decode())
    print(login.password.encode().hex(), repr(db.fields))
    with ctx.trace("connect", dsn=f"postgresql://orders:{login.password}@{db.fields['host']}/x") as span:
        span.set(password=login.password)
        raise RuntimeError(f"cannot sign in with {login.password} at {db.fields['host']}")
"""
)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(code: str, *credentials: dict[str, Any], expose: bool | None = True) -> Project:
            (tmp_path / "main.py").write_text(code)
            project = stack.enter_context(Project(tmp_path))
            project.connection("db", credentials=credentials or (DATABASE,), expose_to_code=expose)
            return project

        yield start


@pytest.mark.parametrize("webhook", ["read", "plain"])
def test_code_reads_a_login_and_what_else_the_secret_holds(serve: Serve, webhook: str) -> None:
    found = serve(READ).post(f"/{webhook}").json()
    assert found.items() >= {"user": "orders", "password": PASSWORD, "host": HOST}.items()


@pytest.mark.parametrize(
    ("expose", "words"),
    [(None, "set exposeToCode of the template"), (False, "the right to expose connections")],
)
def test_without_either_side_the_error_says_whose_consent_is_missing(
    serve: Serve, expose: bool | None, words: str
) -> None:
    text = serve(ERROR.replace("EXPRESSION", "db.login"), expose=expose).post("/read").text
    assert text.startswith("CredentialsNotExposedError")
    assert words in text
    assert PASSWORD not in text


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("db.access_token", "no credential of type oauth2-token"),
        ("db['replica'].login", "no credential with the id 'replica' (there are: main)"),
        ("db.secret", "(there are: basic-auth)"),
    ],
)
def test_what_the_connection_does_not_have_is_named_without_values(
    serve: Serve, expression: str, words: str
) -> None:
    text = serve(ERROR.replace("EXPRESSION", expression)).post("/read").text
    assert text.startswith("MissingCredentialError")
    assert words in text


def test_a_secret_without_its_key_is_an_error_that_names_the_key(serve: Serve) -> None:
    lacking = {**DATABASE, "data": {"username": "orders"}}
    text = serve(ERROR.replace("EXPRESSION", "db.login"), lacking).post("/read").text
    assert "'password'" in text


def test_an_expired_credential_is_not_given(serve: Serve) -> None:
    old = {**DATABASE, "expiresAt": "2020-01-01T00:00:00Z"}
    assert "expired" in serve(ERROR.replace("EXPRESSION", "db.login"), old).post("/read").text


def test_a_user_s_credentials_are_read_in_that_user_s_runs_alone(serve: Serve) -> None:
    project = serve(READ.replace('"db"', '"own"'))
    for user in ("ann", "ben"):
        own = {**DATABASE, "data": {"username": user, "password": f"pass-of-{user}"}}
        project.connection("own", user=user, credentials=[own], expose_to_code=True)
    assert project.post("/read", user="ann").json()["password"] == "pass-of-ann"
    assert project.post("/read", user="ben").json()["user"] == "ben"


def test_nothing_that_code_writes_shows_a_value(serve: Serve) -> None:
    project = serve(LEAK)
    assert project.post("/leak").status == 500
    written = "\n".join(f"{entry.message} {entry.error} {entry.fields}" for entry in project.logs)
    spans = encode(project.spans, resource={}, redact=project._redactor).decode()
    secrets = {"password": PASSWORD, "line of the key": KEY.splitlines()[3]}
    assert f"cannot sign in with *** at {HOST}" in written, "a host is no secret"
    assert not leaks(secrets, {"logs": written, "spans": spans})


def connection(*credentials: dict[str, Any]) -> Any:
    body = {"baseUrl": "https://a.example", "credentials": list(credentials), "exposeToCode": True}
    return parse({"connections": {"a": body}}).connection("a")


def test_each_type_of_credential_has_its_own_values() -> None:
    found = Credentials(
        connection(
            {"name": "key", "type": "string", "authScheme": {"type": "api-key"}, "data": {"value": "k3y"}},
            {
                "name": "other",
                "type": "string",
                "authScheme": {"type": "none"},
                "data": {"value": "0ther"},
            },
            {
                "type": "binary",
                "authScheme": {"type": "hmac"},
                "data": {"valueBase64": base64.b64encode(b"\x00\xff").decode()},
            },
            {
                "type": "oauth2-client",
                "authScheme": {"type": "oauth2"},
                "data": {"accessToken": TOKEN, "expiresAt": "2099-01-01T00:00:00Z", "scopes": ["a", "b"]},
            },
            {
                "type": "certificate",
                "authScheme": {"type": "certificate"},
                "data": {"certificate": "C", "key": KEY, "ca": "CA"},
            },
            {"type": "jwt-bearer", "authScheme": {"type": "jwt-bearer"}, "data": {"key": KEY, "keyId": "k"}},
        )
    )
    assert (found.secret, found["other"].secret, found.content) == ("k3y", "0ther", b"\x00\xff")
    token = found.access_token
    assert (token.value, token.type, token.scopes) == (TOKEN, "Bearer", ("a", "b"))
    assert token.expires_at is not None
    assert (found.certificate.key, found.certificate.ca, found.signing_key.key_id) == (KEY, "CA", "k")
    shown = repr([found, token, found.certificate, found.signing_key])
    assert TOKEN not in shown
    assert KEY.splitlines()[2] not in shown


@given(password=st.text(min_size=4), username=st.text(), host=st.text(min_size=4))
def test_no_repr_or_error_has_a_value(password: str, username: str, host: str) -> None:
    marked = f"<secret>{password}"
    data = {"username": username, "password": marked}
    item = {**DATABASE, "data": data, "fields": {"host": f"<secret>{host}"}}
    found = Credentials(connection(item))
    assert found.login.password == marked
    assert "<secret>" not in repr(found) + repr(found.login) + repr(connection(item))
