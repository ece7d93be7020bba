"""Auth schemes: in REST the id sits in the sub-object, in a custom resource on the item.

``item`` is always a custom resource's auth scheme as plain JSON. Secrets leave a REST body through
``secret_of`` and come back as nothing but a reference.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tieline_api.models.auth_schemes import SUB_OBJECTS, AuthSchemeConfig, OAuth1Scheme, OAuth2Scheme
from tieline_core.resources.auth_schemes import AuthSchemeType

Item = dict[str, Any]

CLIENT_SECRET = "clientSecret"  # noqa: S105  (a key)
CONSUMER_SECRET = "consumerSecret"  # noqa: S105
_OF_THE_ITEM = ("id", "description", "validationMessages")


def to_rest(item: Mapping[str, Any], messages: Iterable[Mapping[str, Any]] = ()) -> AuthSchemeConfig:
    """The REST form of an auth scheme, with the findings about it."""
    kind = item["type"]
    sub_object = {
        **(item.get(SUB_OBJECTS[kind]) or {}),
        "id": item["id"],
        "description": item.get("description", ""),
        "validation_messages": list(messages),
    }
    return AuthSchemeConfig.model_validate({"type": kind, SUB_OBJECTS[kind]: sub_object})


def to_item(config: AuthSchemeConfig, stored: Mapping[str, Any] | None = None) -> Item:
    """The custom resource's form of ``config``; what it leaves out is taken from ``stored``.

    A stored scheme of another type has nothing to give.
    """
    given = config.sub_object()
    key = SUB_OBJECTS[config.type]
    fields = (
        given.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True) if given else {}
    )
    old: Mapping[str, Any] = stored if stored and stored.get("type") == config.type else {}
    item: Item = {"id": config.id, "type": config.type.value}
    description = fields.get("description", old.get("description"))
    if description is not None:
        item["description"] = description
    fields = {name: value for name, value in fields.items() if name not in _OF_THE_ITEM}
    old_fields = old.get(key) or {}
    item[key] = _without_secrets({**old_fields, **fields})
    if "grant" in fields:
        item[key]["grant"] = _grant(fields["grant"], old_fields.get("grant") or {})
    return item


def secret_of(config: AuthSchemeConfig) -> tuple[str, str] | None:
    """The key and the value of the secret that ``config`` brings, if it brings one."""
    match config.sub_object():
        case OAuth2Scheme(grant=grant):
            client = grant.client()
            return (CLIENT_SECRET, client.client_secret) if client and client.client_secret else None
        case OAuth1Scheme(consumer_secret=str(secret)) if secret:
            return CONSUMER_SECRET, secret
    return None


def refer_to_secret(item: Item, name: str) -> None:
    """Makes ``item`` refer to the Secret with its secret."""
    if item["type"] == AuthSchemeType.OAUTH1:
        item["oauth1"]["secretRef"] = {"name": name}
    else:
        grant = item["oauth2"]["grant"]
        grant[grant["type"]]["secretRef"] = {"name": name}


def secret_name_of(item: Mapping[str, Any]) -> str | None:
    """The name of the Secret that ``item`` refers to, if it refers to one."""
    if item["type"] == AuthSchemeType.OAUTH1:
        reference = item.get("oauth1", {}).get("secretRef")
    else:
        grant = item.get("oauth2", {}).get("grant") or {}
        reference = (grant.get(grant.get("type", "")) or {}).get("secretRef")
    return reference["name"] if reference else None


def without_references(item: Mapping[str, Any]) -> Item:
    """``item`` without its references to Secrets, for those who must not know them."""
    result = dict(item)
    if "oauth1" in result:
        result["oauth1"] = {key: value for key, value in result["oauth1"].items() if key != "secretRef"}
    if "oauth2" in result:
        grant = result["oauth2"].get("grant") or {}
        bare = {
            key: {name: entry for name, entry in value.items() if name != "secretRef"}
            if isinstance(value, Mapping)
            else value
            for key, value in grant.items()
        }
        result["oauth2"] = {**result["oauth2"], "grant": bare}
    return result


def with_link(item: Mapping[str, Any], certificate: str) -> Mapping[str, Any]:
    """``item`` as it works: with the certificate credential that was found for its mutual TLS."""
    oauth2 = item.get("oauth2") or {}
    if not certificate or oauth2.get("mtlsCredentialId") or not oauth2.get("mtlsEnabled"):
        return item
    return {**item, "oauth2": {**oauth2, "mtlsCredentialId": certificate}}


def without_link(config: AuthSchemeConfig, certificate: str) -> AuthSchemeConfig:
    """``config`` as its author wrote it: answers show a certificate that was found, and clients send it back."""
    if not certificate or config.oauth2 is None or config.oauth2.mtls_credential_id != certificate:
        return config
    given = config.oauth2.model_dump(by_alias=True, exclude_unset=True, exclude={"mtls_credential_id"})
    return config.model_copy(update={"oauth2": OAuth2Scheme.model_validate(given)})


def same(config: AuthSchemeConfig, item: Mapping[str, Any]) -> bool:
    """Whether ``config`` describes the scheme ``item``.

    Type and id agree, and so does every field that ``config`` brings; secrets and findings do not count.
    """
    if config.id != item["id"] or config.type != item["type"]:
        return False
    return to_rest(to_item(config, item)) == to_rest(item)


def _without_secrets(fields: Mapping[str, Any]) -> Item:
    return {name: value for name, value in fields.items() if name not in (CLIENT_SECRET, CONSUMER_SECRET)}


def _grant(given: Mapping[str, Any], old: Mapping[str, Any]) -> Item:
    """The grant in its new form; the client of the same type keeps what is not given."""
    kind = given["type"]
    kept = (old.get(kind) or {}) if old.get("type") == kind else {}
    return {"type": kind, kind: _without_secrets({**kept, **given.get(kind, {})})}
