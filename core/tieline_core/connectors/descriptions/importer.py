"""The importer: bytes in, result out. No I/O, no network, the same for the same bytes."""

import hashlib

from tieline_core.connectors.descriptions import openapi, swagger2
from tieline_core.connectors.descriptions.auth_schemes import auth_schemes
from tieline_core.connectors.descriptions.decoding import read
from tieline_core.connectors.descriptions.definitions import Definitions
from tieline_core.connectors.descriptions.document import Document, Json, map_of, text_of
from tieline_core.connectors.descriptions.findings import DescriptionTooLarge, ImportFindings
from tieline_core.connectors.descriptions.import_result import ImportResult
from tieline_core.connectors.descriptions.servers import base_url
from tieline_core.connectors.descriptions.validation import check
from tieline_core.identity.display_names import cleaned

MAX_BYTES = 64 * 1024 * 1024
"""The largest description that is read."""


def import_description(data: bytes) -> ImportResult:
    """The result of importing a description; raises UnreadableDescription when there is none in ``data``."""
    if len(data) > MAX_BYTES:
        raise DescriptionTooLarge(f"The description has more than {MAX_BYTES // 1024 // 1024} MiB: split it")
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
    url, variables = base_url(document)
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
