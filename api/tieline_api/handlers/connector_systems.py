"""A System from a connector's version: its base URL and auth schemes, as a start."""

from typing import Any

from tieline_api import errors
from tieline_api.auth.permissions import Permission
from tieline_api.cluster.etags import etag
from tieline_api.http.operation import Call, Operations, Reply
from tieline_api.schemas import systems as rest
from tieline_api.views.connector_lookup import VERSION, require_connector, require_version
from tieline_api.views.system_connectors import system_shown
from tieline_core.identity.display_names import cleaned
from tieline_core.identity.ids import new_id
from tieline_core.resources.fields import ValidationMessage
from tieline_core.severity import Severity
from tieline_core.systems import Generated, generated

OPERATIONS = Operations("Connectors")


@OPERATIONS.add(
    "POST",
    f"{VERSION}/systems",
    id="createSystemFromConnector",
    summary="Create a system from a connector's version",
    permissions=(Permission("get", "connectorversions"), Permission("create", "systems")),
    body_optional=True,
    success=201,
)
async def create_system(call: Call[None, rest.SystemFromVersion]) -> Reply[rest.SystemWithMessages]:
    """Creates a system with the base URL, server variables and auth schemes of a connector's version.

    It refers to this version (connectorRef), so agents and code may call its operations; what it takes from the
    version is copied. Update connectorRef to use another version's operations. Auth schemes that lack something are
    left out, and the messages say so.
    """
    platform, body, connector = call.platform, call.body, require_connector(call)
    version = require_version(call, connector)
    head = await platform.connectors.head(version)
    found = generated(head, base_url=connector["spec"].get("baseUrl") or "")
    spec = {
        "name": body.name or cleaned(connector["spec"]["name"]) or "System",
        "domain": _needed("domain", body.domain, found.domain),
        "templateBaseUrl": _needed("templateBaseUrl", body.template_base_url, found.base_url),
        "connectorRef": {"name": connector["metadata"]["name"], "version": version["spec"]["name"]},
        **_more(body, found),
    }
    obj = await platform.writer.create(platform.cluster.systems, call.namespace, new_id(), spec)
    messages = [
        ValidationMessage(text=f"{key}: {text}", severity=Severity.WARNING)
        for key, text in found.incomplete.items()
    ]
    shown = system_shown(platform.cluster, obj, organisation=call.organisation.id)
    return Reply(body=rest.SystemWithMessages(**dict(shown), messages=messages), etag=etag(obj))


def _more(body: rest.SystemFromVersion, found: Generated) -> dict[str, Any]:
    more: dict[str, Any] = {
        "authSchemeConfigs": found.auth_schemes,
        "variables": {item["name"]: item["value"] for item in found.variables},
        "labels": body.labels,
    }
    return {field: value for field, value in more.items() if value}


def _needed(field: str, given: str | None, found: str) -> str:
    value = given or found
    if not value:
        raise errors.invalid(field, "is needed: the connector's version does not say it")
    return value
