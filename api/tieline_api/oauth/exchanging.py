"""Codes that are stored by REST are exchanged at once, and who stores one learns what came of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from tieline_api import errors
from tieline_api.models import connections as rest
from tieline_api.models.credential_data import OAuth2CodeData
from tieline_api.platform import Platform
from tieline_core.kube.resources import CONNECTIONS
from tieline_core.oauth.asking import UnresolvedError, client_begun_with
from tieline_core.oauth.states import StateRefusedError
from tieline_core.oauth.tokens import MisconfiguredError, RefusedError, TokenError

Obj = Mapping[str, Any]

_CODE = "credential.data.oauth2Code"
_TRIES = 3


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
        code = _code(one)
        item = planned["spec"]["credentials"][index]
        if code is None or await _is_stored(platform, live, item["id"], code):
            continue
        field = f"{path}[{index}].{_CODE}"
        for name, value in (("code", code.code), ("state", code.state)):
            if not value:
                raise errors.invalid(f"{field}.{name}", "is required: a code is good with its state only")
        try:
            pending = await platform.oauth_states.look(
                code.state or "", namespace=planned["metadata"]["namespace"]
            )
            client_begun_with(platform.lookups, planned, item["id"], pending)
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
        if _code(one) is None:
            continue
        try:
            await _exchanged(platform, stored, ids[index])
        except TokenError as error:
            raise token_error(error, field=f"{path}[{index}]") from None


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


def token_error(error: TokenError, *, field: str) -> errors.ApiError:
    """What a client is told when no token came of a credential; ``details.errors`` as the credential's."""
    told = [str(error)]
    match error:
        case StateRefusedError():
            about = f"{field}.{_CODE}.state"
        case RefusedError():
            about = f"{field}.{_CODE}"
        case UnresolvedError():
            about, told = f"{field}.authSchemeConfig", [problem.message for problem in error.problems]
        case MisconfiguredError():
            about = f"{field}.authSchemeConfig"
        case _:
            return errors.ApiError(
                502,
                "provider_unreachable",
                str(error),
                fields=[errors.FieldError(f"{field}.{_CODE}", str(error))],
                details={"errors": told},
                headers={"Retry-After": "10"},
            )
    found = errors.invalid(about, " ".join(told))
    found.details = {"errors": told}
    return found


def _code(given: rest.ConnectionCredential) -> OAuth2CodeData | None:
    """The code that a request brings, if it brings one."""
    data = given.credential.data if given.credential else None
    code = data.oauth2_code if data else None
    return code if code and (code.code or code.state) else None


async def _is_stored(platform: Platform, live: Obj | None, item_id: str, code: OAuth2CodeData) -> bool:
    """Whether this very code is stored already: the request is repeated, and does no harm."""
    items = live["spec"].get("credentials") or () if live else ()
    reference = next((item.get("secretRef") for item in items if item["id"] == item_id), None)
    if live is None or not reference:
        return False
    stored = await platform.lookups.secret(live["metadata"]["namespace"], reference["name"]) or {}
    values = {name: stored.get(name, b"").decode("utf-8", "replace") for name in ("code", "state")}
    return values == {"code": code.code, "state": code.state}
