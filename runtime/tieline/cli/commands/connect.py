"""``tieline connections connect``: sign in at a system with OAuth 2.0, and store the result."""

import webbrowser
from typing import Annotated
from urllib.parse import parse_qs, urlsplit

import typer
from ulid import ULID

from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.options import InEnvironment, Platform
from tieline.cli.remote.client import Client, Json
from tieline.cli.remote.lookup import find_in_pages, named
from tieline.cli.remote.oauth_redirect import OAuthRedirect
from tieline.cli.terminal import note, progress, say
from tieline.cli.url_variables import VariableOption, chosen_variables

_OAUTH = ("oauth2-code", "oauth2-token")


def connect(
    name: Annotated[str, typer.Argument(metavar="CONNECTION", help="The connection's name or id.")],
    *,
    template: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Create the connection for this template if it does not exist."),
    ] = None,
    where: InEnvironment,
    client_id: Annotated[
        str | None, typer.Option(metavar="ID", help="The client's id, if the auth scheme does not show it.")
    ] = None,
    variable: VariableOption = None,
    browser: Annotated[
        bool, typer.Option(help="Open the page in a browser; --no-browser only shows its address.")
    ] = True,
    platform: Platform,
) -> None:
    """Connect with OAuth 2.0: you sign in at the system in a browser, and the platform stores the tokens."""
    remote = platform.client()
    found = _existing(remote, name, created=template is not None)
    if found is not None:
        item, system = _oauth_credential(found), found["systemId"]
        inputs = remote.get(f"systems/{system}").get("inputs") or () if variable else ()
    else:
        chosen = _template(remote, template or "", where)
        item, system = _new_credential(chosen), chosen["id"]
        inputs = chosen.get("inputs") or ()
    stored = found["variables"] if found is not None else ()
    variables = {"variables": chosen_variables(variable, inputs, stored)} if variable else {}
    brought = _consent(
        remote, system, item, client_id=client_id, browser=browser, given=_asked(variables, variable)
    )
    credential = {"id": item["credential"]["id"], "type": "oauth2-code"}
    credential["data"] = {"oauth2Code": brought}
    item = {**item, "credential": credential}
    if found is not None:
        credentials = [item if other["id"] == item["id"] else _kept(other) for other in found["credentials"]]
        remote.request("PUT", f"connections/{found['id']}", body={"credentials": credentials, **variables})
    else:
        connection = {"name": name, "credentials": [item], **variables}
        body = {"connectionTemplateId": chosen["connectionTemplateId"], "connection": connection}
        remote.request("POST", "connections", body=body)
    say(f"Connected {name}")


def _existing(remote: Client, name: str, *, created: bool) -> Json | None:
    try:
        return find_in_pages(remote, "connection", "connections", name)
    except CommandError as error:
        if not created or error.code is not ExitCode.NOT_FOUND:
            raise
        return None


def _template(remote: Client, name: str, where: InEnvironment) -> Json:
    found, chosen = where.find_environment(remote)
    page = remote.get(f"projects/{found['id']}/connection-templates", env_id=chosen["id"])
    # The id of a template's answer is its system's.
    items = [{**item, "systemId": item["id"], "id": item["connectionTemplateId"]} for item in page["items"]]
    template = named("connection template", items, name)
    return {**template, "id": template["systemId"]}


def _new_credential(template: Json) -> Json:
    schemes = [scheme for scheme in template["authSchemeConfigs"] if scheme["type"] == "oauth2"]
    if len(schemes) != 1:
        raise UsageError(
            f"The system of {template['name']} has {len(schemes)} auth schemes for OAuth 2.0, not one"
        )
    return {"authSchemeConfig": schemes[0], "credential": {"id": str(ULID())}}


def _asked(variables: Json, options: list[str] | None) -> Json:
    """The variables of the options alone: the authorisation is begun with them and with what is stored."""
    names = {text.partition("=")[0] for text in options or ()}
    given = [one for one in variables.get("variables") or () if one["name"] in names]
    return {"variables": given} if given else {}


def _consent(
    remote: Client, system: str, item: Json, *, client_id: str | None, browser: bool, given: Json
) -> Json:
    """Sends the user to the system; the data of the credential that comes back. Raises CommandError."""
    scheme: Json = (item.get("authSchemeConfig") or {}).get("oauth2") or {}
    grant: Json = (scheme.get("grant") or {}).get("authorizationCode") or {}
    with OAuthRedirect() as redirect:
        body = {
            "credential": {"id": item["credential"]["id"], "organisationId": remote.context.organisation},
            "authorizeUrl": _needed(scheme, "authorizeUrl"),
            "clientId": client_id or _needed(grant, "clientId"),
            "scopes": scheme.get("defaultScopes") or [],
            "redirectUrl": redirect.url,
            "authSchemeConfigId": scheme["id"],
            "followScheme": True,
            **given,
        }
        url = remote.request("POST", f"systems/{system}/oauth2/initialise", body=body)["url"]
        state = parse_qs(urlsplit(url).query)["state"][0]
        note(f"Sign in at this address:\n{url}")
        if browser and url.startswith(("https://", "http://")):
            webbrowser.open(url)
        with progress("Waiting for the system's answer"):
            said: Json = scheme.get("authorization") or {}
            code, query = redirect.code(
                state,
                parameter=said.get("codeParameter") or "code",
                errors=("error", *(said.get("errorParameters") or ())),
            )
    callback = {"callback": query} if said.get("keep") or said.get("callbackSignature") else {}
    return {"code": code, "state": state, **callback}


def _oauth_credential(connection: Json) -> Json:
    for item in connection["credentials"]:
        credential = item.get("credential") or {}
        scheme = item.get("authSchemeConfig") or {}
        if credential.get("type") in _OAUTH or scheme.get("type") == "oauth2":
            found: Json = item
            return found
    raise UsageError(
        f"{connection['name']} has no OAuth 2.0 credential. Set its values with kubectl or REST."
    )


def _needed(holder: Json, name: str) -> str:
    if not (value := holder.get(name)):
        hint = ", or use --client-id" if name == "clientId" else ""
        raise UsageError(f"The system's auth scheme shows no {name}; add it{hint}")
    return str(value)


def _kept(item: Json) -> Json:
    """A credential of which nothing changes: without values, those that are stored stay."""
    credential = {name: value for name, value in item["credential"].items() if name in ("id", "type", "name")}
    return {**item, "credential": credential}
