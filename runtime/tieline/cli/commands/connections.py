"""``tieline connections`` and ``tieline systems``."""

import webbrowser
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

import typer

from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.options import ContextOption, LimitOption, OrganisationOption, OutputOption, client
from tieline.cli.remote.client import Json
from tieline.cli.remote.lookup import find_in_pages
from tieline.cli.terminal import Output, age, details, note, progress, say, show, styled

connections = typer.Typer(no_args_is_help=True, help="List, test and connect connections.")
systems = typer.Typer(no_args_is_help=True, help="List systems.")
NameArgument = Annotated[str, typer.Argument(metavar="CONNECTION", help="The connection's name or id.")]
_CONSENT_SECONDS = 600
_OAUTH = ("oauth2-code", "oauth2-token")
_PAGE = (
    b"<!doctype html><meta charset=utf-8><title>Tieline</title>"
    b"<p>You can close this window and return to the terminal."
)


@connections.command("list")
def list_connections(
    *,
    system: Annotated[str | None, typer.Option(help="Only connections of this system: name or id.")] = None,
    user: Annotated[
        str | None, typer.Option(metavar="ID", help="Only connections of this user: id or external id.")
    ] = None,
    limit: LimitOption = 100,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List connections."""
    remote = client(context, organisation)
    chosen = find_in_pages(remote, "system", "systems", system)["id"] if system else None
    items = list(remote.pages("connections", limit=limit, system_id=chosen, end_user_id=user))
    names = {item["id"]: item["name"] for item in remote.pages("systems", limit=10_000)}
    show(
        output,
        items,
        ("name", "system", "credentials", "state", "updated", "id"),
        lambda: [
            (
                item["name"],
                names.get(item.get("systemId"), item.get("systemId")),
                ", ".join(_types(item)),
                styled("failed") if _errors(item) else "",
                age(item["updatedAt"]),
                item["id"],
            )
            for item in items
        ],
        empty="There are no connections.",
    )


@connections.command("show")
def show_connection(
    name: NameArgument,
    *,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a connection, and what is wrong with its credentials. Values of credentials are never shown."""
    remote = client(context, organisation)
    found = find_in_pages(remote, "connection", "connections", name)
    details(
        output,
        found,
        {
            "connection": found["name"],
            "id": found["id"],
            "base URL": found.get("baseUrl"),
            "credentials": ", ".join(_types(found)),
            "updated": age(found["updatedAt"]),
        },
    )
    if output is Output.TABLE:
        for error in _errors(found):
            say(error, style="red")
    if _errors(found):
        raise CommandError(f"{found['name']} cannot be used as it is")


@connections.command("test")
def send_test_request(
    name: NameArgument,
    *,
    method: Annotated[str, typer.Option("--method", "-X", help="The method of the test request.")] = "GET",
    path: Annotated[str, typer.Option("--path", help="The path of the test request.")] = "/",
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send a request through a connection; exits with 1 if the other side refuses the credentials."""
    remote = client(context, organisation)
    found = find_in_pages(remote, "connection", "connections", name)
    answer = remote.request(
        "POST", f"connections/{found['id']}/test", body={"method": method.upper(), "path": path}
    )
    details(output, answer, {"status": answer.get("status"), "message": answer.get("message")})
    if not answer["ok"]:
        raise CommandError(f"{found['name']} does not work")


@connections.command("connect")
def connect(
    name: NameArgument,
    *,
    client_id: Annotated[
        str | None, typer.Option(help="The client's id at the system, if its auth scheme does not name it.")
    ] = None,
    browser: Annotated[
        bool, typer.Option(help="Open the page in a browser; --no-browser only shows its address.")
    ] = True,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
) -> None:
    """Connect an OAuth 2.0 connection again: you sign in at the system in a browser."""
    remote = client(context, organisation)
    found = find_in_pages(remote, "connection", "connections", name)
    item = _oauth_credential(found)
    scheme = (item.get("authSchemeConfig") or {}).get("oauth2") or {}
    with _Redirect() as redirect:
        body = {
            "credential": {"id": item["credential"]["id"], "organisationId": remote.context.organisation},
            "authorizeUrl": _needed(scheme, "authorizeUrl"),
            "clientId": client_id or _needed(_grant_client(scheme), "clientId"),
            "scopes": scheme.get("defaultScopes") or [],
            "redirectUrl": redirect.url,
            "authSchemeConfigId": scheme["id"],
        }
        url = remote.request("POST", f"systems/{found['systemId']}/oauth2/initialise", body=body)["url"]
        state = parse_qs(urlsplit(url).query)["state"][0]
        note(f"Sign in at this address:\n{url}")
        if browser and url.startswith(("https://", "http://")):
            webbrowser.open(url)
        with progress("Waiting for the system's answer"):
            code = redirect.code(state)
    item = {**item, "credential": {**item["credential"], "type": "oauth2-code"}}
    item["credential"]["data"] = {"oauth2Code": {"code": code, "state": state}}
    others = [_kept(other) for other in found["credentials"]]
    credentials = [item if other["id"] == item["id"] else other for other in others]
    remote.request("PUT", f"connections/{found['id']}", body={"credentials": credentials})
    say(f"Connected {found['name']}")


@systems.command("list")
def list_systems(
    *,
    search: Annotated[str | None, typer.Option(help="Text in name or domain.")] = None,
    limit: LimitOption = 100,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List systems."""
    remote = client(context, organisation)
    items = list(remote.pages("systems", limit=limit, search=search))
    show(
        output,
        items,
        ("name", "domain", "base URL", "auth schemes", "id"),
        lambda: [
            (
                item["name"],
                item["domain"],
                item["templateBaseUrl"],
                ", ".join(scheme["type"] for scheme in item["authSchemeConfigs"]),
                item["id"],
            )
            for item in items
        ],
        empty="There are no systems.",
    )


class _Redirect:
    """Receives the system's redirect on this machine (RFC 8252)."""

    def __enter__(self) -> "_Redirect":
        received: list[dict[str, list[str]]] = []

        class Handler(BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                known = parts.path == "/callback"
                self.send_response(200 if known else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Referrer-Policy", "no-referrer")
                self.end_headers()
                if known:
                    self.wfile.write(_PAGE)
                    received.append(parse_qs(parts.query))

            def log_message(self, *_: Any) -> None:
                """The code must not reach the terminal."""

        self._received = received
        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._server.timeout = 1
        self.url = f"http://127.0.0.1:{self._server.server_port}/callback"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    def code(self, state: str) -> str:
        """The code that came with this state. Raises CommandError."""
        for _ in range(_CONSENT_SECONDS):
            self._server.handle_request()
            while self._received:
                query = self._received.pop(0)
                if query.get("state") != [state]:
                    continue
                if error := query.get("error"):
                    reason = query.get("error_description", error)[0]
                    raise CommandError(f"The system refuses: {reason}")
                if code := query.get("code"):
                    return code[0]
        raise CommandError("Nobody signed in within ten minutes; run the command again")


def _oauth_credential(connection: Json) -> Json:
    for item in connection["credentials"]:
        credential = item.get("credential") or {}
        scheme = item.get("authSchemeConfig") or {}
        if credential.get("type") in _OAUTH or scheme.get("type") == "oauth2":
            found: Json = item
            return found
    raise CommandError(
        f"{connection['name']} has no OAuth 2.0 credential. Set its values with kubectl or REST.",
        ExitCode.USAGE,
    )


def _grant_client(scheme: Json) -> Json:
    grant = scheme.get("grant") or {}
    found: Json = grant.get("authorizationCode") or {}
    return found


def _needed(scheme: Json, name: str) -> str:
    if not (value := scheme.get(name)):
        hint = " or --client-id" if name == "clientId" else ""
        raise UsageError(f"The system's auth scheme has no {name}; add it{hint}")
    return str(value)


def _kept(item: Json) -> Json:
    """A credential of which nothing changes: without values, those that are stored stay."""
    credential = {name: value for name, value in item["credential"].items() if name in ("id", "type", "name")}
    return {**item, "credential": credential}


def _types(connection: Json) -> list[str]:
    return [(item.get("credential") or {}).get("type") or "none" for item in connection["credentials"]]


def _errors(connection: Json) -> list[str]:
    return [
        error
        for item in connection["credentials"]
        for error in (item.get("credential") or {}).get("errors") or ()
    ]
