"""Connection templates between custom resource and REST."""

from collections.abc import Mapping
from typing import Any

from tieline_api.conversion.systems import auth_schemes_to_rest
from tieline_api.schemas.templates import ConnectionTemplate
from tieline_core.identity.ids import object_id


def template_to_rest(
    template: Mapping[str, Any], system: Mapping[str, Any], *, organisation: str
) -> ConnectionTemplate:
    """The REST form of a ConnectionTemplate: its id is the *system's* id.

    Its auth schemes are those of the system that it offers: all, where it names none.
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
    )
