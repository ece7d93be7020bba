"""Users between custom resource and REST."""

from tieline_api.conversion.times import created_at, updated_at
from tieline_api.schemas.users import EndUser
from tieline_core.identity.ids import object_id
from tieline_core.resources.objects import EndUserObject


def user_to_rest(obj: EndUserObject, *, organisation: str) -> EndUser:
    """The REST form of an EndUser."""
    return EndUser(
        id=object_id(obj),
        external_id=obj["spec"]["externalId"],
        display_name=obj["spec"].get("displayName") or "",
        organisation_id=organisation,
        created_at=created_at(obj),
        updated_at=updated_at(obj),
    )
