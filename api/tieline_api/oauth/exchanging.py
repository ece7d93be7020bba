"""Codes that are stored by REST are exchanged at once, and who stores one learns what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tieline_api import errors
from tieline_api.models import connections as rest
from tieline_api.platform import Platform
from tieline_core.kube.resources import CONNECTIONS
from tieline_core.oauth.asking import SecretTakenError, UnresolvedError, client_begun_with, oauth1_begun_for
from tieline_core.oauth.states import StateRefusedError
from tieline_core.oauth.tokens import MisconfiguredError, RefusedError, TokenError

Obj = Mapping[str, Any]

_TRIES = 3


@dataclass(frozen=True, kw_only=True)
class _Brought:
    """What a user has come back with: an authorisation code, or a verifier of OAuth 1.0."""

    field: str
    values: Mapping[str, str]

    @property
    def about(self) -> str:
        return f"credential.data.{self.field}"


async def check_codes(
    platform: Platform,
    given: Sequence[rest.ConnectionCredential],
    planned: Obj,
    *,
    path: str,
    live: Obj | None = None,
) -> None:
    """ApiError 422 where a code's state is not good for its credential; nothing has been written by then.

    ``planned`` is the connection as it shall be, its credentials in the order of ``given``; ``live`` as it is.
    """
    for index, one in enumerate(given):
        brought = _brought(one)
        item = planned["spec"]["credentials"][index]
        if brought is None or await _is_stored(platform, live, item["id"], brought):
            continue
        field = f"{path}[{index}].{brought.about}"
        for name, value in brought.values.items():
            if not value:
                what = "a code is" if "code" in brought.values else "token and verifier are"
                raise errors.invalid(f"{field}.{name}", f"is required: {what} good with its state only")
        try:
            pending = await platform.oauth_states.look(
                brought.values["state"], namespace=planned["metadata"]["namespace"]
            )
            if "code" in brought.values:
                client_begun_with(platform.lookups, planned, item["id"], pending)
            else:
                token = brought.values["oauthToken"]
                oauth1_begun_for(platform.lookups, planned, item["id"], pending, token=token)
        except StateRefusedError as error:
            raise errors.invalid(f"{field}.state", str(error)) from None


async def exchange_codes(
    platform: Platform,
    given: Sequence[rest.ConnectionCredential],
    stored: Obj,
    ids: Sequence[str],
    *,
    path: str,
) -> None:
    """Exchanges the codes of a connection as it is stored now; ``ids`` are those of ``given``.

    ApiError 422 where the provider or the auth scheme says no, 502 where the provider cannot be asked.
    """
    for index, one in enumerate(given):
        brought = _brought(one)
        if brought is None:
            continue
        try:
            await _exchanged(platform, stored, ids[index])
        except TokenError as error:
            raise token_error(error, field=f"{path}[{index}]", about=brought.about) from None


async def _exchanged(platform: Platform, stored: Obj, item_id: str) -> None:
    for _ in range(_TRIES):
        try:
            await platform.keeper.fresh(stored, item_id, retry=True)
            return
        except UnresolvedError:
            # Somebody may have written the connection meanwhile, and put another Secret in this one's place.
            metadata = stored["metadata"]
            live = await platform.kube.get(CONNECTIONS, metadata["name"], metadata["namespace"])
            if live["metadata"]["resourceVersion"] == metadata["resourceVersion"]:
                raise
            platform.world.connections.observe(live)
            stored = live
    await platform.keeper.fresh(stored, item_id, retry=True)


def token_error(error: TokenError, *, field: str, about: str) -> errors.ApiError:
    """What a client is told when no token came of a credential; ``details.errors`` as the credential's."""
    told = [str(error)]
    match error:
        case StateRefusedError():
            about = f"{field}.{about}.state"
        case RefusedError():
            about = f"{field}.{about}"
        case SecretTakenError():
            return errors.conflict(str(error))
        case UnresolvedError():
            about, told = f"{field}.authSchemeConfig", [problem.message for problem in error.problems]
        case MisconfiguredError():
            about = f"{field}.authSchemeConfig"
        case _:
            return errors.ApiError(
                502,
                "provider_unreachable",
                str(error),
                fields=[errors.FieldError(f"{field}.{about}", str(error))],
                details={"errors": told},
                headers={"Retry-After": "10"},
            )
    found = errors.invalid(about, " ".join(told))
    found.details = {"errors": told}
    return found


def _brought(given: rest.ConnectionCredential) -> _Brought | None:
    """What a request brings to exchange, if it brings anything."""
    data = given.credential.data if given.credential else None
    code, signed = (data.oauth2_code, data.oauth1) if data else (None, None)
    if code and (code.code or code.state):
        return _Brought(field="oauth2Code", values={"code": code.code or "", "state": code.state or ""})
    if signed and signed.state:
        values = {
            "state": signed.state,
            "oauthToken": signed.oauth_token or "",
            "oauthVerifier": signed.oauth_verifier or "",
        }
        return _Brought(field="oauth1", values=values)
    return None


async def _is_stored(platform: Platform, live: Obj | None, item_id: str, brought: _Brought) -> bool:
    """Whether this very thing is stored already: the request is repeated, and does no harm."""
    items = live["spec"].get("credentials") or () if live else ()
    reference = next((item.get("secretRef") for item in items if item["id"] == item_id), None)
    if live is None or not reference:
        return False
    stored = await platform.lookups.secret(live["metadata"]["namespace"], reference["name"]) or {}
    return all(stored.get(name, b"").decode("utf-8", "replace") == v for name, v in brought.values.items())
