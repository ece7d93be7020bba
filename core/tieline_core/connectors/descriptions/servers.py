"""Servers of a description: the base URL, and its variables with their defaults."""

from tieline_core.connectors.descriptions.document import Document, Json, list_of, map_of, text_of

_MAX_URL = 2048
_MAX_VARIABLES = 64


def base_url(document: Document) -> tuple[str, list[Json]]:
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
