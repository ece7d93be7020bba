"""The importer: bytes in, result out. No I/O, no network, the same for the same bytes."""

import hashlib

from tieline_core.connectors.descriptions import openapi, swagger2
from tieline_core.connectors.descriptions.auth_schemes import auth_schemes
from tieline_core.connectors.descriptions.decoding import read
from tieline_core.connectors.descriptions.definitions import Definitions
from tieline_core.connectors.descriptions.document import Document, list_of, map_of, text_of
from tieline_core.connectors.descriptions.findings import DescriptionTooLarge, ImportFindings
from tieline_core.connectors.descriptions.import_result import ImportResult
from tieline_core.connectors.descriptions.validation import check
from tieline_core.identity.display_names import cleaned
from tieline_core.objects import Json

MAX_BYTES = 64 * 1024 * 1024
"""The largest description that is read."""
MAX_GRAPHQL_BYTES = 16 * 1024 * 1024
"""The largest schema of GraphQL."""
_MAX_URL = 2048
_MAX_VARIABLES = 64


def import_description(data: bytes, format: str = "openapi") -> ImportResult:
    """The result of importing a description; raises UnreadableDescription when there is none in ``data``.

    ``format`` is openapi or graphql.
    """
    if len(data) > MAX_BYTES:
        raise DescriptionTooLarge(f"The description has more than {MAX_BYTES // 1024 // 1024} MiB: split it")
    return _import_graphql(data) if format == "graphql" else _import_openapi(data)


def _import_graphql(data: bytes) -> ImportResult:
    # graphql-core takes a tenth of a second to load, which OpenAPI does not need.
    from tieline_core.connectors.descriptions import graphql  # noqa: PLC0415

    if len(data) > MAX_GRAPHQL_BYTES:
        raise DescriptionTooLarge(
            f"The schema has more than {MAX_GRAPHQL_BYTES // 1024 // 1024} MiB: split it"
        )
    findings = ImportFindings()
    read = graphql.read_graphql(data)
    # Only its ids and its bounds: a schema has no references.
    places = Document(
        {"openapi": "3.1.0"}, digest=hashlib.sha256(data).hexdigest(), findings=findings, size=len(data)
    )
    definitions, actions = graphql.operations(read, places)
    findings.info("A GraphQL schema names no server: the base URL is the endpoint, such as https://…/graphql")
    return ImportResult(
        digest=places.digest,
        openapi="",
        format="graphql",
        description=(read.schema.description or "")[:2048],
        definitions=definitions,
        actions=actions,
        messages=findings.messages(),
    )


def _import_openapi(data: bytes) -> ImportResult:
    findings = ImportFindings()
    digest, size = hashlib.sha256(data).hexdigest(), len(data)
    root, text = read(data, findings)
    del data
    document = Document(root, digest=digest, findings=findings, size=size)
    # Before anything is made of it: checking needs the most memory, and gives it back.
    check(document, text)
    del text
    definitions = Definitions(document)
    if document.is_swagger:
        actions = swagger2.operations(document, definitions)
        triggers: list[Json] = []
    else:
        actions, triggers = openapi.operations(document, definitions)
    schemes = auth_schemes(document)
    url, variables = _base_url(document)
    if not actions and not triggers:
        findings.warning("The description has no operations: neither paths nor webhooks")
    info = map_of(document.root, "info")
    return ImportResult(
        digest=document.digest,
        openapi=document.version,
        title=cleaned(text_of(info, "title", 200)),
        description=text_of(info, "description", 2048),
        documentation_url=_link(text_of(map_of(document.root, "externalDocs"), "url", 2048)),
        image_url=_link(text_of(map_of(info, "x-logo"), "url", 2048)),
        base_url=url,
        variables=variables,
        auth_schemes=schemes,
        definitions=definitions.all(),
        actions=actions,
        triggers=triggers,
        messages=findings.messages(),
    )


def _link(url: str) -> str:
    return url if url.startswith(("https://", "http://")) and not any(map(str.isspace, url)) else ""


def _base_url(document: Document) -> tuple[str, list[Json]]:
    """The first server's URL and its variables as {name, value}."""
    if document.is_swagger:
        return _of_swagger(document), []
    servers = [server for server in list_of(document.root, "servers") if isinstance(server, dict)]
    if not servers:
        document.findings.info("The description names no server: set the base URL yourself")
        return "", []
    if len(servers) > 1:
        document.findings.info(f"The first of {len(servers)} servers is the base URL", "#/servers")
    url = text_of(servers[0], "url", _MAX_URL)
    variables = map_of(servers[0], "variables")
    if not url.startswith(("http://", "https://", "{")):
        document.findings.info("The server's URL is relative: set the base URL yourself", "#/servers/0/url")
    return url, [
        {"name": name[:256], "value": str(found.get("default", ""))[:_MAX_URL]}
        for name, found in list(variables.items())[:_MAX_VARIABLES]
        if isinstance(found, dict)
    ]


def _of_swagger(document: Document) -> str:
    root = document.root
    host, path = text_of(root, "host", 253), text_of(root, "basePath", _MAX_URL)
    if not host:
        document.findings.info("The description names no host: set the base URL yourself")
        return path
    schemes = [scheme for scheme in list_of(root, "schemes") if scheme in ("https", "http")]
    scheme = "https" if "https" in schemes or not schemes else "http"
    return f"{scheme}://{host}{path}"
