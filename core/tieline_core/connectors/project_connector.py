"""The import's result for a project: the webhooks of its code as triggers, its own description's actions."""

from collections.abc import Iterable, Iterator, Sequence

import orjson

from tieline_core.connectors.descriptions.document import Document
from tieline_core.connectors.descriptions.findings import ImportFinding, ImportFindings
from tieline_core.connectors.descriptions.import_result import ImportResult
from tieline_core.connectors.packing import Map, all_lines, extended, pack
from tieline_core.connectors.webhooks import Interface, Webhook
from tieline_core.objects import Json
from tieline_core.severity import Severity
from tieline_protocol.webhook_names import path_parameters

_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS"})


def webhooks_alone(interface: Interface, *, title: str, refused: str = "") -> list[Map]:
    """The result of a project without a description, or with one that was ``refused`` with a sentence."""
    findings = list(interface.findings)
    if refused:
        findings.insert(0, ImportFinding(refused, Severity.ERROR, interface.description_file or ""))
    return pack(
        ImportResult(
            digest=interface.digest,
            openapi="",
            title=title,
            triggers=list(_triggers(interface, taken=())),
            messages=_messages(findings),
        )
    )


def with_webhooks(interface: Interface, described: Sequence[Map]) -> list[Map]:
    """The result of importing the project's description, with the webhooks of its code.

    A webhook that the description has as well is that trigger: the description says more of it.
    """
    taken = [orjson.loads(line)["name"] for line in all_lines(described, "triggers")]
    triggers = list(_triggers(interface, taken=taken))
    return extended(described, triggers=triggers, messages=_messages(interface.findings))


def _triggers(interface: Interface, *, taken: Iterable[str]) -> Iterator[Json]:
    names = set(taken)
    ids = Document({"openapi": "3.1.0"}, digest=interface.digest, findings=ImportFindings())
    for webhook in interface.webhooks:
        described = {webhook.name, *(f"{webhook.name}_{method.lower()}" for method in webhook.methods)}
        if names & described:
            continue
        for method in webhook.methods:
            yield _trigger(webhook, method, ids.id_of(f"webhook/{webhook.name}/{method}"))


def _trigger(webhook: Webhook, method: str, identifier: str) -> Json:
    name = webhook.name if len(webhook.methods) == 1 else f"{webhook.name}_{method.lower()}"
    result: Json = {
        "id": identifier,
        "errors": [],
        "type": "http",
        "name": name,
        "summary": webhook.description.partition("\n")[0],
        "description": webhook.description,
        "method": method,
        "parameters": [
            {"name": parameter, "in": "path", "required": True, "type": "string"}
            for parameter in path_parameters(webhook.name)
        ],
    }
    if method not in _WITHOUT_BODY:
        result["requestBody"] = {"required": False, "definitions": []}
    result["responses"] = []
    return result


def _messages(findings: Iterable[ImportFinding]) -> list[Json]:
    return [finding.message() for finding in findings]
