"""Connection templates between custom resource and REST."""

from collections.abc import Mapping
from typing import Any

from tieline_api.conversion.systems import auth_schemes_to_rest
from tieline_api.models.templates import ConnectionTemplate
from tieline_core.ids import object_id


def template_to_rest(template: Mapping[str, Any], system: Mapping[str, Any]) -> ConnectionTemplate:
    """The REST form of a ConnectionTemplate: its id is the *system's* id."""
    spec = template["spec"]
    return ConnectionTemplate(
        id=object_id(system),
        name=spec["name"],
        domain=system["spec"].get("domain", ""),
        dynamic=spec.get("dynamic", False),
        auth_scheme_configs=auth_schemes_to_rest(system),
        template_base_url=system["spec"].get("templateBaseUrl", ""),
        connection_template_id=object_id(template),
    )
