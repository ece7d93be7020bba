"""Systems between custom resource and REST."""

from collections.abc import Iterable, Mapping
from typing import Any

from tieline_api.conversion.auth_schemes import SchemeOwner, to_item, to_rest
from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.schemas.limits import Limits, SystemLimits
from tieline_api.schemas.lists import Lists
from tieline_api.schemas.system_inputs import offered_inputs, shown_inputs
from tieline_api.schemas.systems import ConnectionCheck, ConnectorRef, System, SystemCreate, SystemUpdate
from tieline_api.schemas.templates import ConnectionTemplate
from tieline_api.schemas.url_variables import shown_variables, stored_variables
from tieline_core.identity.ids import object_id
from tieline_core.objects import ObjectView
from tieline_core.resources.objects import (
    AuthSchemeConfigDict,
    ConnectionObject,
    ConnectionTemplateObject,
    ConnectorObject,
    SystemObject,
    ValidationMessageDict,
)


def system_to_rest(
    obj: SystemObject, *, organisation: str, connector: ConnectorObject | None = None
) -> System:
    """The REST form of a System; ``connector`` is the one that it refers to, where that exists."""
    spec = obj["spec"]
    return System(
        id=object_id(obj),
        name=spec["name"],
        domain=spec.get("domain") or "",
        auth_scheme_configs=auth_schemes_to_rest(obj, organisation=organisation),
        template_base_url=spec.get("templateBaseUrl") or "",
        variables=shown_variables(spec),
        inputs=shown_inputs(spec),
        connector_ref=_connector_ref(spec, connector),
        labels=spec.get("labels") or None,
        limits=SystemLimits.model_validate(spec["limits"]) if spec.get("limits") else None,
        lists=Lists.model_validate(spec["lists"]) if spec.get("lists") else None,
        graphql_path=spec.get("graphqlPath") or None,
        check=ConnectionCheck.model_validate(spec["check"]) if spec.get("check") else None,
    )


def _connector_ref(spec: ObjectView, connector: ConnectorObject | None) -> ConnectorRef | None:
    reference = spec.get("connectorRef")
    if not reference:
        return None
    identifier = object_id(connector) if connector else None
    return ConnectorRef(id=identifier, version=reference.get("version"))


def limits_to_rest(spec: ObjectView) -> Limits | None:
    """The limits in the spec of a Connection."""
    return Limits(**spec["limits"]) if spec.get("limits") else None


def auth_schemes_to_rest(obj: SystemObject, *, organisation: str) -> list[AuthSchemeConfig]:
    """A System's auth schemes, with the operator's findings about them."""
    owner = scheme_owner(obj, organisation=organisation)
    return [to_rest(item, messages_about(obj, item["id"]), owner=owner) for item in auth_scheme_items(obj)]


def scheme_owner(obj: SystemObject | ConnectionObject, *, organisation: str) -> SchemeOwner:
    """A System or Connection as the owner of its auth schemes."""
    return SchemeOwner(id=object_id(obj), organisation=organisation)


def auth_scheme_items(obj: SystemObject) -> list[AuthSchemeConfigDict]:
    """A System's auth schemes as they stand in the custom resource."""
    return list(obj["spec"].get("authSchemeConfigs") or ())


def auth_scheme_item(obj: SystemObject, identifier: str) -> AuthSchemeConfigDict | None:
    """The auth scheme with this id."""
    return next((item for item in auth_scheme_items(obj) if item["id"] == identifier), None)


def messages_about(obj: SystemObject, identifier: str) -> Iterable[ValidationMessageDict]:
    """The operator's findings about one auth scheme."""
    for item in (obj.get("status") or {}).get("authSchemes") or ():
        if item["id"] == identifier:
            return item.get("validationMessages") or ()
    return ()


def new_system_spec(body: SystemCreate, *, connector: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The spec of a new System, whose schemes do not refer to Secrets yet; ``connector`` is its connectorRef."""
    spec: dict[str, Any] = {
        "name": body.name,
        "authSchemeConfigs": [to_item(config) for config in body.auth_scheme_configs],
    }
    more: dict[str, Any] = {
        "domain": body.domain,
        "templateBaseUrl": body.template_base_url,
        "variables": stored_variables(body.variables),
        "inputs": [one.to_spec() for one in body.inputs or ()],
        "connectorRef": connector,
        "labels": body.labels,
        "limits": body.limits.to_spec() if body.limits else None,
        "lists": body.lists.to_spec() if body.lists else None,
        "graphqlPath": body.graphql_path,
        "check": body.check.to_spec() if body.check else None,
    }
    return spec | {field: value for field, value in more.items() if value}


def system_changes(body: SystemUpdate) -> dict[str, Any]:
    """The fields of the spec that an update sets; an empty one is to be removed."""
    given = {
        "name": body.name,
        "domain": body.domain,
        "templateBaseUrl": body.template_base_url,
        "graphqlPath": body.graphql_path,
    }
    return {field: value for field, value in given.items() if value is not None}


def own_variables(body: SystemUpdate, live: SystemObject) -> dict[str, str] | None:
    """The variables that an update sets in the spec: answers show those of the connector too, and come back."""
    variables = stored_variables(body.variables)
    if variables is None:
        return None
    own = live["spec"].get("variables") or {}
    found = live.get("status", {}).get("fromConnector", {}).get("variables") or ()
    inherited = {item["name"]: item["value"] for item in found if item["name"] not in own}
    return {name: value for name, value in variables.items() if inherited.get(name) != value}


def template_to_rest(
    template: ConnectionTemplateObject,
    system: SystemObject,
    *,
    organisation: str,
    connection: ConnectionObject | None = None,
) -> ConnectionTemplate:
    """The REST form of a ConnectionTemplate: its id is the *system's* id.

    ``connection`` is the one that it is linked to. Its auth schemes are those of the system that it offers: all,
    where it names none.
    """
    spec = template["spec"]
    offered = set(spec.get("authSchemeConfigIds") or ())
    schemes = auth_schemes_to_rest(system, organisation=organisation)
    return ConnectionTemplate(
        id=object_id(system),
        name=spec["name"],
        domain=system["spec"].get("domain") or "",
        dynamic=bool(spec.get("dynamic")),
        auth_scheme_configs=[one for one in schemes if not offered or one.id in offered],
        template_base_url=system["spec"].get("templateBaseUrl") or "",
        inputs=offered_inputs(system["spec"]),
        connection_template_id=object_id(template),
        connection_id=object_id(connection) if connection else None,
        expose_to_code=True if spec.get("exposeToCode") else None,
    )
