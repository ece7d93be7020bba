"""Connectors between custom resource and REST."""

from typing import Any

from tieline_api.conversion.times import created_at, updated_at
from tieline_api.schemas import connectors as rest
from tieline_core.connectors.version_order import published_at
from tieline_core.identity.ids import object_id
from tieline_core.objects import Object
from tieline_core.resources.objects import ConnectorObject, ConnectorVersionObject, ProjectObject

_OF_THE_SCHEME = ("none", "apiKey", "basicAuth", "oauth2", "certificate")


def default_of(
    connector: ConnectorObject, versions: list[ConnectorVersionObject]
) -> ConnectorVersionObject | None:
    """The version that is used when none is named, of versions newest first.

    Where nobody says which, a project's connector has the one of what the project serves.
    """
    status = connector.get("status") or {}
    name = connector["spec"].get("defaultVersion") or status.get("defaultVersion")
    return next(
        (version for version in versions if version["spec"]["name"] == name),
        versions[0] if versions else None,
    )


def version_to_rest(
    version: ConnectorVersionObject,
    connector: ConnectorObject,
    versions: list[ConnectorVersionObject],
    head: Object | None = None,
) -> rest.ConnectorVersion:
    """The REST form of a version; with its ``head`` also what was found."""
    spec = version["spec"]
    same = object_id(version)
    default = default_of(connector, versions)
    return rest.ConnectorVersion(
        id=same,
        name=spec["name"],
        description=spec.get("description", ""),
        is_latest=bool(versions) and object_id(versions[0]) == same,
        is_default=default is not None and object_id(default) == same,
        created_at=created_at(version),
        updated_at=created_at(version),
        published_at=published_at(version),
        messages=head["messages"] if head else None,
    )


def connector_to_rest(
    connector: ConnectorObject,
    versions: list[ConnectorVersionObject],
    *,
    organisation: str,
    shown: ConnectorVersionObject | None,
    head: Object | None,
    project: ProjectObject | None = None,
) -> rest.Connector:
    """The REST form of a connector; schemes and base URL are those of the version ``shown`` with ``head``."""
    spec = connector["spec"]
    found = head or {}
    same = object_id(shown) if shown else None
    return rest.Connector(
        id=object_id(connector),
        organisation_id=organisation,
        name=spec["name"],
        public=spec.get("public", False),
        documentation_url=spec.get("documentationUrl") or found.get("documentationUrl") or None,
        image_url=spec.get("imageUrl") or found.get("imageUrl") or None,
        tags=spec.get("tags") or {},
        auth_scheme_configs=[_scheme(item) for item in found.get("authSchemes", ())],
        connection_variables=[rest.Variable(**item) for item in found.get("variables", ())],
        connections=[],
        versions=[
            version_to_rest(version, connector, versions, head if object_id(version) == same else None)
            for version in versions
        ],
        created_at=created_at(connector),
        updated_at=updated_at(connector),
        base_url=spec.get("baseUrl") or found.get("baseUrl", ""),
        project_id=object_id(project) if project else None,
    )


def new_connector_spec(head: Object, name: str | None = None) -> dict[str, Any]:
    """The spec of a connector that an import makes: named as the caller or the description names the API."""
    spec: dict[str, Any] = {"name": name or head["title"] or "Connector"}
    for field in ("documentationUrl", "imageUrl"):
        if head[field]:
            spec[field] = head[field]
    return spec


def _scheme(item: Object) -> rest.ConnectorAuthScheme:
    fields = {key: item[key] for key in _OF_THE_SCHEME if key in item}
    return rest.ConnectorAuthScheme.model_validate(
        {
            "id": item["id"],
            "description": item.get("description", ""),
            "validationMessages": item["validationMessages"],
            "schemeType": item["type"],
            **fields,
        }
    )
