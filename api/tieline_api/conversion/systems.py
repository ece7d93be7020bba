"""Systems between custom resource and REST."""

from collections.abc import Iterable, Mapping
from typing import Any

from tieline_api.conversion.auth_schemes import SchemeOwner, to_item, to_rest
from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.schemas.limits import Limits
from tieline_api.schemas.systems import System, SystemCreate, SystemUpdate
from tieline_api.schemas.templates import ConnectionTemplate
from tieline_core.identity.ids import object_id
from tieline_core.objects import ObjectView


def system_to_rest(obj: ObjectView, *, organisation: str) -> System:
    """The REST form of a System."""
    spec = obj["spec"]
    return System(
        id=object_id(obj),
        name=spec["name"],
        domain=spec.get("domain") or "",
        auth_scheme_configs=auth_schemes_to_rest(obj, organisation=organisation),
        template_base_url=spec.get("templateBaseUrl") or "",
        labels=spec.get("labels") or None,
        limits=limits_to_rest(spec),
    )


def limits_to_rest(spec: ObjectView) -> Limits | None:
    """The limits in a spec of a System or Connection."""
    return Limits(**spec["limits"]) if spec.get("limits") else None


def auth_schemes_to_rest(obj: ObjectView, *, organisation: str) -> list[AuthSchemeConfig]:
    """A System's auth schemes, with the operator's findings about them."""
    owner = scheme_owner(obj, organisation=organisation)
    return [to_rest(item, messages_about(obj, item["id"]), owner=owner) for item in auth_scheme_items(obj)]


def scheme_owner(obj: ObjectView, *, organisation: str) -> SchemeOwner:
    """A System or Connection as the owner of its auth schemes."""
    return SchemeOwner(id=object_id(obj), organisation=organisation)


def auth_scheme_items(obj: ObjectView) -> list[Mapping[str, Any]]:
    """A System's auth schemes as they stand in the custom resource."""
    return list(obj["spec"].get("authSchemeConfigs") or ())


def auth_scheme_item(obj: ObjectView, identifier: str) -> Mapping[str, Any] | None:
    """The auth scheme with this id."""
    return next((item for item in auth_scheme_items(obj) if item["id"] == identifier), None)


def messages_about(obj: ObjectView, identifier: str) -> Iterable[Mapping[str, Any]]:
    """The operator's findings about one auth scheme."""
    for item in (obj.get("status") or {}).get("authSchemes") or ():
        if item["id"] == identifier:
            return item.get("validationMessages") or ()
    return ()


def new_system_spec(body: SystemCreate) -> dict[str, Any]:
    """The spec of a new System, whose schemes do not refer to Secrets yet."""
    spec: dict[str, Any] = {
        "name": body.name,
        "domain": body.domain,
        "templateBaseUrl": body.template_base_url,
        "authSchemeConfigs": [to_item(config) for config in body.auth_scheme_configs],
    }
    if body.labels:
        spec["labels"] = body.labels
    if body.limits and (limits := body.limits.to_spec()):
        spec["limits"] = limits
    return spec


def system_changes(body: SystemUpdate) -> dict[str, Any]:
    """The fields of the spec that an update sets."""
    given = {"name": body.name, "domain": body.domain, "templateBaseUrl": body.template_base_url}
    return {field: value for field, value in given.items() if value is not None}


def template_to_rest(
    template: ObjectView, system: ObjectView, *, organisation: str, connection: ObjectView | None = None
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
        connection_template_id=object_id(template),
        connection_id=object_id(connection) if connection else None,
        expose_to_code=True if spec.get("exposeToCode") else None,
    )
