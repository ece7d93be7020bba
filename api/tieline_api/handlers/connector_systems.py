"""A System from a connector's version: its base URL and auth schemes, as a start."""

from typing import Any

from tieline_api import errors
from tieline_api.auth.permissions import Permission
from tieline_api.conversion import systems as convert
from tieline_api.http.operation import Call, Operation, Reply
from tieline_api.schemas import systems as rest
from tieline_api.store.etags import etag
from tieline_api.use_cases.connector_lookup import VERSION, need_connector, need_version
from tieline_api.use_cases.status_overlay import system_with_findings
from tieline_core.identity.display_names import cleaned
from tieline_core.identity.ids import new_id
from tieline_core.resources.fields import ValidationMessage
from tieline_core.severity import Severity
from tieline_core.systems import Generated, generated


async def create_system(call: Call[None, rest.SystemFromVersion]) -> Reply:
    """Creates a system with the base URL, server variables and auth schemes of a connector's version.

    It is a copy: later versions of the connector do not change it (a System with spec.connectorRef in
    Kubernetes follows them). Auth schemes that lack something are left out, and the messages say so.
    """
    platform, body, connector = call.platform, call.body, need_connector(call)
    head = await platform.connectors.head(need_version(call, connector))
    found = generated(head, base_url=connector["spec"].get("baseUrl") or "")
    spec = {
        "name": body.name or cleaned(connector["spec"]["name"]) or "System",
        "domain": _needed("domain", body.domain, found.domain),
        "templateBaseUrl": _needed("templateBaseUrl", body.template_base_url, found.base_url),
        **_more(body, found),
    }
    obj = await platform.writer.create(platform.world.systems, call.namespace, new_id(), spec)
    messages = [
        ValidationMessage(text=f"{key}: {text}", severity=Severity.WARNING)
        for key, text in found.incomplete.items()
    ]
    shown = convert.system_to_rest(
        system_with_findings(platform.world, obj), organisation=call.organisation.id
    )
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


OPERATIONS = (
    Operation(
        id="createSystemFromConnector",
        method="POST",
        path=f"{VERSION}/systems",
        summary="Create a system from a connector's version",
        handler=create_system,
        permissions=(Permission("get", "connectorversions"), Permission("create", "systems")),
        body_optional=True,
        success=201,
        response=rest.SystemWithMessages,
        example={
            "name": "Shop",
            "domain": "shop.example",
            "templateBaseUrl": "https://api.shop.example/v1",
        },
    ),
)
