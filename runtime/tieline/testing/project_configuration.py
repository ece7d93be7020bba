"""The configuration of a test: the project's connections file, with fakes in the place of external systems."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from yarl import URL

from tieline.auth.hmac_signatures import scheme_of, shared_value
from tieline.configuration.connections_file import parsed, read, text_of
from tieline.configuration.project_folder import Folder
from tieline.configuration.snapshot import Connection, Credential
from tieline_protocol.python_source import named_templates
from tieline_protocol.signatures import VALUE_ALGORITHMS

Body = dict[str, Any]


def body_of(folder: Folder) -> Body:
    """What the connections file says; secrets that are not there are ``test-<NAME>``. Templates that the code names
    and the file does not have get a static connection without credentials.
    """
    body: Body = {}
    if folder.connections is not None:
        body = read(folder.connections, os.environ, missing=lambda name: f"test-{name}")
    if folder.schema is not None:
        body["variablesSchema"] = parsed(folder.schema, text_of(folder.schema))
    for key in ("connections", "templates", "users", "variables"):
        body[key] = dict(body.get(key) or {})
    for name in named_templates(folder.files()):
        if name not in body["templates"]:
            add_connection(body, name)
    return body


def add_connection(body: Body, name: str, *, user: str | None = None, credentials: Any = ()) -> None:
    """A connection of the template ``name``: the static one, or a user's of a dynamic template."""
    owner = body if user is None else add_user(body, user)
    owner.setdefault("connections", {})[name] = {
        "id": f"connection-{name}",
        "name": name,
        "baseUrl": "http://127.0.0.1",
        "credentials": list(credentials),
    }
    body["templates"][name] = {"id": name, "dynamic": user is not None, "linked": user is None}
    if user is not None:
        body["connections"].pop(name, None)


def add_user(body: Body, external_id: str, variables: Mapping[str, Any] | None = None) -> Body:
    """The user's activation, made when there is none."""
    user: Body = body["users"].setdefault(external_id, {"id": f"activation-{external_id}"})
    if variables is not None:
        user["variables"] = dict(variables)
    return user


def connections(body: Body) -> Iterator[tuple[str | None, str, Body]]:
    """All connections: the user's external id (None for the static ones), the template's name, the connection."""
    for name, connection in body["connections"].items():
        yield None, name, connection
    for external_id, user in body["users"].items():
        for name, connection in (user.get("connections") or {}).items():
            yield external_id, name, connection


def with_access_tokens(connection: Body) -> None:
    """Give OAuth 2.0 credentials without one the access token ``test-access-token``: tests ask no token URL."""
    connection["credentials"] = [
        {**item, "data": {"accessToken": "test-access-token", **(item.get("data") or {})}}
        if (item.get("authScheme") or {}).get("type") == "oauth2"
        else item
        for item in connection.get("credentials") or ()
    ]


def of_sender(connection: Connection) -> Connection:
    """The connection as the sender of a webhook has it: shared values, which only verify in a pod, are shown."""
    return replace(connection, credentials=tuple(map(_shown, connection.credentials)))


def _shown(credential: Credential) -> Credential:
    if credential.scheme != "hmac":
        return credential
    scheme = scheme_of(credential)
    if scheme.algorithm not in VALUE_ALGORITHMS or scheme.location == "body":
        return credential
    return replace(
        credential,
        scheme="api-key",
        options={"in": scheme.location, "name": scheme.name, "prefix": scheme.prefix},
        data={"value": shared_value(credential, scheme)},
    )


def base_path(connection: Mapping[str, Any]) -> str:
    """The path of the connection's base URL, which its fake has too; none where a stand-in is no URL."""
    url = URL(str(connection.get("baseUrl") or ""))
    return url.path.rstrip("/") if url.absolute else ""
