"""The connection to an emulated provider, as a connections file has it."""

from collections.abc import Mapping
from typing import Any

from tieline.emulator.provider import Provider
from tieline.emulator.scheme import Raw
from tieline.emulator.urls import Endpoint

_FOR_PEOPLE = ("scopes", "defaultScopes")
"""Of a scheme: what only a consent needs."""
_URLS = ("authorizeUrl", "tokenUrl", "refreshUrl", "url")


def local(url: str, provider: Provider, address: str) -> str:
    """A provider's URL with its sample values, at the address of the emulator (``http://127.0.0.1:9100``)."""
    return Endpoint.of(url).filled(provider.values).replace("https://", address.rstrip("/") + "/", 1)


def connection(provider: Provider, address: str, *, scheme: str | None = None) -> dict[str, Any]:
    """Base URL, credential and dialects, with URLs that lead to the emulator.

    ``scheme`` is the id of an auth scheme; the first one of a type that the emulator has credentials for by default.
    """
    made: dict[str, Any] = {
        "baseUrl": local(str(provider.system["templateBaseUrl"]), provider, address),
        "credentials": [_credential(provider, _chosen(provider, scheme), address)],
    }
    for name in ("limits", "lists", "graphqlPath"):
        if provider.system.get(name):
            made[name] = provider.system[name]
    return made


def _chosen(provider: Provider, wanted: str | None) -> Raw:
    for one in provider.system.get("authSchemeConfigs") or ():
        if one["id"] == wanted or (wanted is None and _is_emulated(one, provider)):
            found: Raw = one
            return found
    raise LookupError(
        f"{provider.name} has no auth scheme {wanted or 'that can be emulated'}: it has "
        + ", ".join(one["id"] for one in provider.system.get("authSchemeConfigs") or ())
    )


def _is_emulated(scheme: Raw, provider: Provider) -> bool:
    """Whether there is a credential for a scheme; that of OAuth 1.0 depends on how it is signed."""
    return scheme["type"] in _KINDS and (scheme["type"] != "oauth1" or provider.signing is not None)


_KINDS = {
    "oauth2": "oauth2-token",
    "oauth1": "oauth1",
    "api-key": "string",
    "secret": "string",
    "basic-auth": "basic-auth",
    "none": "none",
}
EMULATED = frozenset(_KINDS)
"""Types of auth schemes that an emulated provider has credentials for."""


def _credential(provider: Provider, scheme: Raw, address: str) -> dict[str, Any]:
    kind = scheme["type"]
    if kind == "oauth2":
        data: dict[str, Any] = {
            **provider.sign_in(),
            "clientId": provider.client.id,
            "clientSecret": provider.client.secret,
        }
        if provider.values:
            data["variables"] = dict(provider.values)
    elif kind == "oauth1":
        data = {
            **(provider.signing.sign_in() if provider.signing else {}),
            "consumerSecret": provider.client.secret,
        }
    elif kind == "basic-auth":
        data = {"username": provider.user, "password": provider.api_key}
    else:
        data = {"value": provider.api_key}
    options = {name: value for name, value in scheme.items() if name not in ("id", "description")}
    if kind == "oauth2":
        options["oauth2"] = {
            name: value for name, value in scheme["oauth2"].items() if name not in _FOR_PEOPLE
        }
    if kind == "oauth1":
        options["oauth1"] = {**scheme["oauth1"], "consumerKey": provider.client.id}
    return {"type": _KINDS[kind], "authScheme": _local_urls(options, provider, address), "data": data}


def _local_urls(content: Any, provider: Provider, address: str) -> Any:
    if isinstance(content, Mapping):
        return {
            name: local(value, provider, address)
            if name in _URLS and isinstance(value, str)
            else _local_urls(value, provider, address)
            for name, value in content.items()
        }
    if isinstance(content, list):
        return [_local_urls(one, provider, address) for one in content]
    return content
