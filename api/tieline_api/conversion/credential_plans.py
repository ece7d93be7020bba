"""What the credentials in a request become: items of a Connection, and values for Secrets."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tieline_api import errors
from tieline_api.conversion import auth_schemes
from tieline_api.conversion.connections import scheme_item
from tieline_api.conversion.credential_values import to_secret
from tieline_api.conversion.systems import (
    auth_scheme_item,
    auth_scheme_items,
    scheme_owner,
)
from tieline_api.schemas import connections as rest
from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.schemas.credential_data import OAuth2TokenData
from tieline_core.credentials.linker import canonical
from tieline_core.identity.ids import (
    credential_id,
    credential_item_id,
    format_time,
    new_id,
    parse_id,
)
from tieline_core.objects import Object
from tieline_core.resources.auth_schemes import AuthSchemeType
from tieline_core.resources.connections import CredentialType
from tieline_core.resources.objects import ConnectionCredentialDict, SystemObject


@dataclass(frozen=True, kw_only=True)
class PlannedSecret:
    """Values on their way into a Secret."""

    part: str
    """What they belong to in their owner; the Secret's name comes from it."""
    values: Mapping[str, bytes]
    name: str = ""
    """The Secret's name, once it is decided."""
    base: str | None = None
    """The Secret whose other values stay."""


@dataclass(frozen=True, kw_only=True)
class PlannedCredential:
    """A credential's item in the custom resource, and the Secrets that it needs."""

    item: Object
    secrets: tuple[PlannedSecret, ...] = ()


def plan_credential(
    given: rest.ConnectionCredential,
    *,
    live: ConnectionCredentialDict | None,
    mine: Mapping[str, Any] | None,
    system: SystemObject,
    connection: str,
    organisation: str,
    path: str,
    linked: str = "",
) -> PlannedCredential:
    """What a credential in a request becomes.

    ``connection`` is the connection's id, ``organisation`` its organisation's, ``live`` the stored item of the
    same id as it is, ``mine`` the part of it that the API owns, ``linked`` the certificate that answers show for
    it. What the request leaves out stays. Raises ApiError (422) naming the field below ``path``.
    """
    item: Object = dict(mine or {})
    item["id"] = live["id"] if live else given.id or new_id()
    secrets: list[PlannedSecret] = []
    if given.auth_scheme_config is not None:
        config = auth_schemes.without_link(given.auth_scheme_config, linked)
        owner = scheme_owner(system, organisation=organisation)
        if not _stands_for_missing(config, live, system, owner=owner):
            secrets += _plan_scheme(item, config, system=system, connection=connection, owner=owner)
    elif given.auth_scheme_config_id is not None:
        _refer(item, given.auth_scheme_config_id, system=system, path=path)
    elif live is None:
        raise errors.invalid(
            f"{path}.authSchemeConfig",
            "is required for a new credential, or one of the system's schemes in authSchemeConfigId",
        )
    if given.credential is not None:
        planned = _plan_values(item, given.credential, live=live, path=f"{path}.credential")
        shown = credential_id(
            connection, {**item, **({"credentialId": live.get("credentialId")} if live else {})}
        )
        if given.credential.id and canonical(given.credential.id) != canonical(shown):
            item["credentialId"] = given.credential.id
        secrets += [planned] if planned else []
    elif live is None:
        raise errors.invalid(f"{path}.credential", "is required for a new credential")
    return PlannedCredential(item=item, secrets=tuple(secrets))


def stored_item(
    given: str | None, items: Iterable[ConnectionCredentialDict], *, connection: str
) -> ConnectionCredentialDict | None:
    """The stored credential that a request means: by the id that the manifest has, or by the one of answers."""
    if not given:
        return None
    found = {item["id"]: item for item in items}
    if given in found:
        return found[given]
    wanted = parse_id(given)
    return next((one for key, one in found.items() if credential_item_id(connection, key) == wanted), None)


def _stands_for_missing(
    config: AuthSchemeConfig,
    live: ConnectionCredentialDict | None,
    system: SystemObject,
    *,
    owner: auth_schemes.SchemeOwner,
) -> bool:
    """Whether ``config`` is what answers show in place of a scheme that is not there, or cannot be read."""
    if live is None or config.type is not AuthSchemeType.NONE:
        return False
    scheme = scheme_item(live, system)
    if scheme is None:
        return config.id == live.get("authSchemeConfigId")
    is_readable = auth_schemes.to_rest(scheme, owner=owner).type == scheme["type"]
    return config.id == scheme["id"] and not is_readable


def _refer(item: Object, scheme: str, *, system: SystemObject, path: str) -> None:
    """Have a credential use one of the system's schemes. Raises ApiError (422)."""
    if auth_scheme_item(system, scheme) is None:
        known = ", ".join(f'"{one["id"]}"' for one in auth_scheme_items(system)) or "none"
        raise errors.invalid(
            f"{path}.authSchemeConfigId",
            f"is the id of no auth scheme of the connection's system (there are: {known})",
        )
    item.pop("authSchemeConfig", None)
    item["authSchemeConfigId"] = scheme


def _plan_scheme(
    item: Object,
    config: AuthSchemeConfig,
    *,
    system: SystemObject,
    connection: str,
    owner: auth_schemes.SchemeOwner,
) -> list[PlannedSecret]:
    known = next(
        (one for one in auth_scheme_items(system) if auth_schemes.same(config, one, owner=owner)), None
    )
    if known is not None and auth_schemes.secret_of(config) is None:
        item.pop("authSchemeConfig", None)
        item["authSchemeConfigId"] = known["id"]
        return []
    item.pop("authSchemeConfigId", None)
    inline = item.get("authSchemeConfig")
    if inline and not config.has_own_id:
        config = config.with_id(inline["id"])
    item["authSchemeConfig"] = auth_schemes.to_item(config, inline, owners=(connection, owner.id))
    secret = auth_schemes.secret_of(config)
    if secret is None:
        return []
    key, value = secret
    return [PlannedSecret(part=f"scheme/{item['id']}", values={key: value.encode()})]


def _plan_values(
    item: Object, given: rest.Credential, *, live: ConnectionCredentialDict | None, path: str
) -> PlannedSecret | None:
    old = CredentialType(live["type"]) if live else None
    kind = _type_of(given, old=old, path=path)
    data = given.data.given().get(kind) if given.data else None
    if isinstance(data, OAuth2TokenData) and not (data.access_token or data.refresh_token):
        data = None  # as it was read: without the tokens it says nothing
    if kind == CredentialType.OAUTH2_TOKEN and old == CredentialType.OAUTH2_CODE and data is None:
        kind = old  # what was exchanged is shown as tokens, and stays the code that it came from
    item["type"] = kind.value
    if given.name or (given.name is not None and "name" in item):
        item["name"] = given.name
    if given.expires_at is not None:
        item["expiresAt"] = format_time(given.expires_at)
    if kind == CredentialType.NONE:
        item.pop("secretRef", None)
        return None
    reference = live.get("secretRef") if live and old == kind else None
    values = to_secret(data) if data is not None else {}
    if not values:
        if reference is None:
            raise errors.invalid(f"{path}.data", f"a credential of type {kind} needs its values")
        return None
    return PlannedSecret(
        part=f"credential/{item['id']}", values=values, base=reference["name"] if reference else None
    )


def _type_of(given: rest.Credential, *, old: CredentialType | None, path: str) -> CredentialType:
    """The credential's type: as it says, or as its data says, or as it was."""
    given_types = list(given.data.given()) if given.data else []
    kind = given.type or (given_types[0] if given_types else old)
    if kind is None:
        raise errors.invalid(f"{path}.type", "is required for a new credential")
    if len(given_types) > 1 or (given_types and given_types[0] != kind):
        names = ", ".join(str(one) for one in given_types)
        raise errors.invalid(
            f"{path}.data", f"a credential of type {kind} has values of its own type only, not of {names}"
        )
    return kind
