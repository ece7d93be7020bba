"""Security schemes of a description as auth schemes of the platform."""

import re
from collections.abc import Iterator
from typing import Any

from tieline_core.connectors.descriptions.document import Document, list_of, map_of, text_of
from tieline_core.connectors.descriptions.findings import ImportFinding, cut, escaped
from tieline_core.objects import Json
from tieline_core.severity import Severity

_PARAMETER = re.compile(r"^[!#$%&'*+.^_`|~0-9A-Za-z\[\]-]{1,128}$")
_URL = re.compile(r"^https?://\S+$")
_FLOWS_2 = {"accessCode": "authorizationCode", "application": "clientCredentials"}
_GRANTS = ("authorizationCode", "clientCredentials", "password")
_MAX_ID = 64
_MAX_SCHEMES = 64
_MAX_SCOPES = 512


def auth_schemes(document: Document) -> list[Json]:
    """One auth scheme a security scheme, and one a flow where OAuth 2.0 has several.

    ``none`` stands alone where nothing is asked for, and joins where the description says that
    authentication is optional.
    """
    steps = ("securityDefinitions",) if document.is_swagger else ("components", "securitySchemes")
    declared, location = document.part(*steps)
    result: list[Json] = []
    if len(declared) > _MAX_SCHEMES:
        document.findings.warning(
            f"Of {len(declared)} security schemes the first {_MAX_SCHEMES} are taken", location
        )
    for name, node in list(declared.items())[:_MAX_SCHEMES]:
        at = f"{location}/{escaped(name)}"
        scheme, _ = document.mapping(node, at)
        result += _items(document, name[:_MAX_ID] or "scheme", scheme, at)
    if not declared or {} in list_of(document.root, "security"):
        result.append({"id": _free("none", result), "type": "none", "none": {}, "validationMessages": []})
    return result


def _items(document: Document, name: str, scheme: Json, location: str) -> Iterator[Json]:
    kind, http = scheme.get("type"), text_of(scheme, "scheme").lower()
    common = {"id": name, "description": text_of(scheme, "description", 2048)}
    match kind, http:
        case "apiKey", _:
            yield from _api_key(document, scheme, common, location)
        case ("http", "basic") | ("basic", _):
            yield {**common, "type": "basic-auth", "basicAuth": {}, "validationMessages": []}
        case "http", "bearer":
            text = 'The key is sent as it is: store it with "Bearer " before the token'
            yield {
                **common,
                "type": "api-key",
                "apiKey": {"name": "Authorization", "in": "header"},
                "validationMessages": [ImportFinding(text, Severity.INFO).message()],
            }
        case "oauth2", _:
            yield from _oauth2(document, scheme, common, location)
        case "openIdConnect", _:
            yield _open_id(document, scheme, common, location)
        case "mutualTLS", _:
            yield {**common, "type": "certificate", "certificate": {}, "validationMessages": []}
        case _:
            shown = cut(f"{kind} {http}".strip(), 60)
            document.findings.warning(f'The security scheme "{name}" ({shown}) is not supported', location)


def _api_key(document: Document, scheme: Json, common: Json, location: str) -> Iterator[Json]:
    key, where = scheme.get("name"), scheme.get("in")
    problem = ""
    if not isinstance(key, str) or not key:
        problem = "it has no name; say in name: which parameter carries the key"
    elif not _PARAMETER.match(key):
        problem = f'"{cut(key, 80)}" is no name of a parameter: letters, digits and - _ . are, at most 128'
    elif where not in ("query", "header", "cookie"):
        problem = "it does not say where the key is sent; set in: to query, header or cookie"
    if problem:
        document.findings.warning(f'The API key "{common["id"]}" was left out: {problem}', location)
        return
    yield {**common, "type": "api-key", "apiKey": {"name": key, "in": where}, "validationMessages": []}


def _oauth2(document: Document, scheme: Json, common: Json, location: str) -> Iterator[Json]:
    if document.is_swagger:
        only = text_of(scheme, "flow")
        flows: dict[str, Json] = {_FLOWS_2.get(only, only): scheme}
    else:
        flows = {name: flow for name, flow in map_of(scheme, "flows").items() if isinstance(flow, dict)}
    if not flows:
        document.findings.warning(
            f'The OAuth 2.0 scheme "{common["id"]}" has no flow and was left out', location
        )
    for name, flow in flows.items():
        grant = "authorizationCode" if name == "implicit" else name
        if grant not in _GRANTS:
            document.findings.warning(f'The OAuth 2.0 flow "{cut(name, 60)}" is not supported', location)
            continue
        findings: list[ImportFinding] = []
        if name == "implicit":
            text = "The implicit flow became authorisation code, which replaces it; add tokenUrl"
            findings.append(ImportFinding(text, Severity.WARNING, location))
        fields = _flow(flow, grant)
        if "tokenUrl" not in fields and name != "implicit":
            findings.append(
                ImportFinding("tokenUrl is missing or no http(s) URL: add it", Severity.ERROR, location)
            )
        if grant == "authorizationCode" and "authorizeUrl" not in fields:
            findings.append(
                ImportFinding("authorizeUrl is missing or no http(s) URL: add it", Severity.ERROR, location)
            )
        yield _with(document, findings, _named(common, name, flows), fields)


def _flow(flow: Json, grant: str) -> Json:
    urls = {"tokenUrl": "tokenUrl", "authorizeUrl": "authorizationUrl", "refreshUrl": "refreshUrl"}
    fields: Json = {
        ours: url for ours, theirs in urls.items() if _URL.match(url := text_of(flow, theirs, 2048).strip())
    }
    scopes = map_of(flow, "scopes")
    fields["scopes"] = [
        {"name": name[:256], "description": text if isinstance(text, str) else ""}
        for name, text in list(scopes.items())[:_MAX_SCOPES]
        if name
    ]
    fields["grant"] = {"type": grant, grant: {}}
    return fields


def _named(common: Json, flow: str, flows: Json) -> Json:
    if len(flows) == 1:
        return common
    suffix = f"-{flow}"
    return {**common, "id": f"{common['id'][: _MAX_ID - len(suffix)]}{suffix}"}


def _open_id(document: Document, scheme: Json, common: Json, location: str) -> Json:
    url = cut(text_of(scheme, "openIdConnectUrl"), 200)
    text = f"Add tokenUrl and authorizeUrl: they stand in the discovery document {url}, which is not fetched"
    fields: Json = {"scopes": [], "grant": {"type": "authorizationCode", "authorizationCode": {}}}
    return _with(document, [ImportFinding(text, Severity.WARNING, location)], common, fields)


def _with(document: Document, findings: list[ImportFinding], common: Json, fields: Json) -> Json:
    for finding in findings:
        document.findings.add(
            ImportFinding(f"{common['id']}: {finding.text}", finding.severity, finding.location)
        )
    messages = [finding.message() for finding in findings]
    return {**common, "type": "oauth2", "oauth2": fields, "validationMessages": messages}


def _free(name: str, taken: list[Json]) -> str:
    used: set[Any] = {item["id"] for item in taken}
    while name in used:
        name = f"{name}-"
    return name
