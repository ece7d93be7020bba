"""Whether a caller may let code read the credentials of a connection.

The API asks its callers what the admission policy ``deploy/policies/exposed-connections.yaml`` asks everybody else.
``opens_to_code`` is the policy's rule; one table of cases tests both.
"""

from collections.abc import Collection, Mapping
from typing import Any

from tieline_api import errors
from tieline_api.auth.access import Access
from tieline_api.auth.authentication import Caller
from tieline_api.auth.permissions import Permission

VERB = "expose"
_CREDENTIAL = ("type", "secretRef", "credentialId", "authSchemeConfigId", "authSchemeConfig")
_KIND = ("type", "authSchemeConfigId", "authSchemeConfig")
"""What decides which values code gets beside those that are sent: a scheme of OAuth 1.0 brings its consumer's."""


def opens_to_code(
    before: Mapping[str, Any] | None, after: Mapping[str, Any], *, staged: Collection[str] = ()
) -> bool:
    """Whether a change of a Connection's spec opens credentials to code that were not open to it.

    ``before`` is None for a new object. ``staged`` are names of Secrets whose values the request itself brings: who
    sends a value may open it where the connection is open already, to a credential of a type and auth scheme that it
    has.

    >>> shop = {"credentials": [{"id": "key", "type": "string", "secretRef": {"name": "k"}}]}
    >>> opened = {**shop, "exposeToCode": True}
    >>> [opens_to_code(*one) for one in ((None, shop), (shop, opened), (opened, opened), (opened, shop))]
    [False, True, False, False]
    """
    if not after.get("exposeToCode"):
        return False
    if not before or not before.get("exposeToCode"):
        return True
    known = {item["id"]: item for item in before.get("credentials") or ()}
    return any(
        not _is_like_one_of(known, item, staged)
        if item["secretRef"]["name"] in staged
        else _differs(known.get(item["id"]), item)
        for item in after.get("credentials") or ()
        if item.get("secretRef")
    )


async def check_exposure(access: Access, caller: Caller, namespace: str, name: str) -> None:
    """ApiError 403 where ``caller`` may not expose the connection ``name``; empty for one that is not there yet."""
    for one in dict.fromkeys(("", name)):
        if await access.allowed(caller, namespace, Permission(VERB, "connections", name=one)):
            return
    raise errors.forbidden(
        f"exposeToCode lets code read credentials: it needs the permission to expose connections in the namespace "
        f"{namespace}; ask its administrators for the role tieline-admin there"
    )


def _differs(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> bool:
    return before is None or any(before.get(field) != after.get(field) for field in _CREDENTIAL)


def _is_like_one_of(
    known: Mapping[str, Mapping[str, Any]], item: Mapping[str, Any], staged: Collection[str]
) -> bool:
    """Whether a credential whose values are sent is of the kind of the one that it replaces, or of another one's.

    What was stored of another type may stay beside the values that are sent.
    """
    former = known.get(item["id"])
    candidates = known.values() if former is None else [former]
    references: set[str] = set()
    wanted = [_without_references(item.get(field), references) for field in _KIND]
    for one in candidates:
        there: set[str] = set()
        same = [_without_references(one.get(field), there) for field in _KIND] == wanted
        if same and references <= {*staged, *there}:
            return True
    return False


def _without_references(node: Any, names: set[str]) -> Any:
    """A part of a credential without the Secrets that it refers to, whose names are added to ``names``."""
    if not isinstance(node, Mapping):
        return node
    if isinstance(reference := node.get("secretRef"), Mapping):
        names.add(reference["name"])
    return {key: _without_references(value, names) for key, value in node.items() if key != "secretRef"}
