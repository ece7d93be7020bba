"""Which Secrets a write sends elsewhere, and whether the caller may do that.

The API writes as its own ServiceAccount, which may read every Secret. So it asks for its callers what the admission
policy ``deploy/policies/secret-references.yaml`` asks for everybody else: who makes an object refer to a Secret, or
changes where what is in that Secret is sent, must be allowed to get or use the Secret. ``secrets_sent`` is the policy's
rule; one table of cases tests both.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tieline_api import errors
from tieline_api.auth.access import Access
from tieline_api.auth.authentication import Caller
from tieline_api.auth.permissions import Permission
from tieline_api.credentials.secret_reader import SecretReader
from tieline_core.identity.owner_references import is_owned
from tieline_core.objects import ObjectView
from tieline_core.resources.objects import AuthSchemeConfigDict

_VERBS = ("get", "use")
_DESTINATION = ("baseUrl", "variables", "systemRef")
_CREDENTIAL = ("type", "secretRef", "credentialId", "authSchemeConfigId", "authSchemeConfig")
_LISTS = ("credentials", "authSchemeConfigs")
_CLIENTS = ("authorizationCode", "password")
_MAX_NAMED = 12


class SecretAccess:
    """Checks callers' rights on the Secrets that their writes send elsewhere."""

    def __init__(self, access: Access, secrets: SecretReader) -> None:
        self._access = access
        self._secrets = secrets

    async def check(
        self, caller: Caller, owner: ObjectView, names: Iterable[str], *, staged: Iterable[str] = ()
    ) -> None:
        """ApiError 403 where ``caller`` may neither get nor use one of the Secrets ``names``.

        ``owner`` is the object that the request changes. Its own Secrets, which came by REST or as tokens, belong to
        it as its other fields do; ``staged`` are those that the request itself brings.
        """
        metadata = owner["metadata"]
        namespace, staged_names = metadata["namespace"], set(staged)
        missing = [
            name
            for name in dict.fromkeys(names)
            if name not in staged_names
            and not await self._is_of(owner, name)
            and not await self._may(caller, namespace, name)
        ]
        if missing:
            raise errors.forbidden(
                "This decides where credentials are sent or used, and they are in the Secrets "
                f"{_named(missing)}: it needs the permission to get or use each of them in the namespace {namespace}. "
                "Ask for a Role with the verb get or use on these secrets, or send the values of the credentials in "
                "the same request"
            )

    async def check_config_maps(self, caller: Caller, namespace: str, names: Iterable[str]) -> None:
        """ApiError 403 where ``caller`` may neither get nor use one of the ConfigMaps, which code is to read."""
        missing = [
            name
            for name in dict.fromkeys(names)
            if not await self._may(caller, namespace, name, "configmaps")
        ]
        if missing:
            raise errors.forbidden(
                f"This shows what is in the ConfigMaps {_named(missing)}: it needs the permission to get or use each "
                f"of them in the namespace {namespace}. Ask for a Role with the verb get or use on these configmaps"
            )

    async def _is_of(self, owner: ObjectView, name: str) -> bool:
        namespace, uid = owner["metadata"]["namespace"], owner["metadata"]["uid"]
        found = await self._secrets.get(namespace, name)
        if found is not None and not is_owned(found, uid):
            # Another replica may have made it its owner's a moment ago.
            found = await self._secrets.read(namespace, name)
        return found is not None and is_owned(found, uid)

    async def _may(self, caller: Caller, namespace: str, name: str, resource: str = "secrets") -> bool:
        for verb in _VERBS:
            if await self._access.allowed(caller, namespace, Permission(verb, resource, group="", name=name)):
                return True
        return False


def _named(missing: Sequence[str]) -> str:
    more = f" and {len(missing) - _MAX_NAMED} more" if len(missing) > _MAX_NAMED else ""
    return f"{', '.join(missing[:_MAX_NAMED])}{more}"


def secrets_sent(before: ObjectView | None, after: ObjectView) -> list[str]:
    """The names of the Secrets that a change of a Connection's or a System's spec sends elsewhere, perhaps repeated.

    ``before`` is None for a new object. A reference that stays where it was, with the same destination, is not among
    them.

    >>> shop = {"systemRef": {"name": "shop"}, "credentials": [{"id": "key", "secretRef": {"name": "k"}}]}
    >>> secrets_sent(None, shop), secrets_sent(shop, shop), secrets_sent(shop, {**shop, "baseUrl": "https://x.example"})
    (['k'], [], ['k'])
    """
    old: ObjectView = before or {}
    moved = any(old.get(field) != after.get(field) for field in _DESTINATION)
    known = {item["id"]: item for item in old.get("credentials") or ()}
    schemes = [
        item["authSchemeConfig"]
        for item in after.get("credentials") or ()
        if item.get("authSchemeConfig")
        and (moved or _differs(known.get(item["id"]), item, ("authSchemeConfig",)))
    ]
    old_schemes = list(old.get("authSchemeConfigs") or ())
    schemes += [item for item in after.get("authSchemeConfigs") or () if item not in old_schemes]
    # A scheme that names its client by an id may mean any credential of the connection.
    moved = moved or any(_named_client(scheme) for scheme in schemes)
    names = [
        item["secretRef"]["name"]
        for item in after.get("credentials") or ()
        if item.get("secretRef") and (moved or _differs(known.get(item["id"]), item, _CREDENTIAL))
    ]
    return names + [reference["name"] for scheme in schemes for reference in _references(scheme)]


def merged(live: ObjectView, applied: ObjectView) -> dict[str, Any]:
    """``live`` with ``applied`` over it, as server-side apply merges specs of connections and systems.

    Fields that an apply takes away stay: for a check this finds too much rather than too little.
    """
    result = {**live}
    for field, value in applied.items():
        before = live.get(field)
        if field in _LISTS and isinstance(before, Sequence):
            result[field] = _merged_items(before, value)
        elif isinstance(before, Mapping) and isinstance(value, Mapping):
            result[field] = merged(before, value)
        else:
            result[field] = value
    return result


def _merged_items(live: Sequence[ObjectView], applied: Sequence[ObjectView]) -> list[ObjectView]:
    items = {item["id"]: item for item in live}
    for item in applied:
        items[item["id"]] = merged(items.get(item["id"], {}), item)
    return list(items.values())


def _differs(before: ObjectView | None, after: ObjectView, fields: Iterable[str]) -> bool:
    return before is None or any(before.get(field) != after.get(field) for field in fields)


def _named_client(scheme: AuthSchemeConfigDict) -> bool:
    clients: list[ObjectView] = [scheme.get("oauth1") or {}, *_grant_clients(scheme)]
    return any(client.get("credentialId") for client in clients)


def _references(scheme: AuthSchemeConfigDict) -> list[ObjectView]:
    """The references to Secrets that a scheme has, whichever grant it uses."""
    clients: list[ObjectView] = [*_grant_clients(scheme), scheme.get("oauth1") or {}]
    return [client["secretRef"] for client in clients if client.get("secretRef")]


def _grant_clients(scheme: AuthSchemeConfigDict) -> list[ObjectView]:
    grant: ObjectView = scheme.get("oauth2", {}).get("grant") or {}
    return [grant.get(kind) or {} for kind in _CLIENTS]
