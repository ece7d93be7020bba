"""A DELETE on the callback URL: the provider reports that an application was removed from an account.

The provider authenticates as the client of an auth scheme with ``uninstall``. The tokens of that account's connections
are recorded as refused, so that they are not refreshed any more and their connections say what to do.
"""

import hmac
from collections.abc import Iterator, Sequence
from typing import Any

from tieline_api import errors
from tieline_api.credentials.credential_secrets import CachingSecretClient
from tieline_api.credentials.tokens_in_use import token_secret_of
from tieline_api.dependencies import Dependencies
from tieline_core.kubernetes import Conflict, NotFound
from tieline_core.kubernetes.reading import texts_of
from tieline_core.kubernetes.resources import SECRETS
from tieline_core.oauth import token_secret_codec
from tieline_core.objects import ObjectView
from tieline_core.resources.objects import AuthSchemeConfigDict, SystemObject
from tieline_protocol.answer_paths import value_at
from tieline_protocol.oauth.answers import text_of

UNINSTALLED = "uninstalled"
"""The error code of the refusal that is recorded."""
_TRIES = 5


async def uninstall(
    platform: Dependencies, *, client_id: str, client_secret: str, body: Any
) -> Sequence[ObjectView]:
    """Records the removal for each connection of the account. Returns the Systems whose client this is; none where it
    is not known."""
    platform.cluster.require_sync()
    known: list[ObjectView] = []
    for system, scheme in _schemes(platform, client_id):
        if not await _is_secret(platform, system, scheme, client_secret):
            continue
        known.append(system)
        said = scheme["oauth2"]["uninstall"]
        if text_of(value_at(body, said.get("clientId") or "client_id")) not in ("", client_id):
            continue
        account = text_of(value_at(body, said["accountId"]))
        if account:
            await _record(platform, system, scheme["id"], account)
    return known


def _schemes(platform: Dependencies, client_id: str) -> Iterator[tuple[SystemObject, AuthSchemeConfigDict]]:
    """The auth schemes with ``uninstall`` whose client this is, with their Systems."""
    for system in platform.cluster.systems.by_index("uninstall", client_id):
        for item in system["spec"].get("authSchemeConfigs") or ():
            oauth2 = item.get("oauth2", {})
            client = oauth2.get("grant", {}).get("authorizationCode", {})
            if oauth2.get("uninstall") and client.get("clientId") == client_id:
                yield system, item


async def _is_secret(
    platform: Dependencies, system: SystemObject, scheme: AuthSchemeConfigDict, client_secret: str
) -> bool:
    """Whether this is the secret of the scheme's own client; a borrowed client reports to its owner."""
    reference = scheme["oauth2"]["grant"]["authorizationCode"].get("secretRef")
    if reference is None:
        return False
    stored = await platform.lookups.secret(system["metadata"]["namespace"], reference["name"])
    expected = texts_of(stored or {}).get("clientSecret", "")
    return bool(expected) and hmac.compare_digest(expected.encode(), client_secret.encode())


async def _record(platform: Dependencies, system: SystemObject, scheme: str, account: str) -> None:
    cluster, metadata = platform.cluster, system["metadata"]
    for connection in cluster.referring(
        cluster.connections, "system", metadata["namespace"], metadata["name"]
    ):
        for item in connection["spec"].get("credentials") or ():
            if item.get("authSchemeConfigId") != scheme:
                continue
            secret = token_secret_of(cluster, connection, item["id"])
            if secret is not None and token_secret_codec.read(secret).tokens.kept.account_id == account:
                await _refuse(platform, secret, account)


async def _refuse(platform: Dependencies, secret: ObjectView, account: str) -> None:
    """Records the removal in a Secret, if its tokens are the account's still. ApiError 503 where it could not."""
    metadata, client = secret["metadata"], CachingSecretClient(platform.kube, platform.cluster.secrets)
    for _ in range(_TRIES):
        try:
            live = await client.get(SECRETS, metadata["name"], metadata["namespace"])
            found = token_secret_codec.read(live)
            if found.tokens.kept.account_id != account:
                return
            mark = token_secret_codec.fingerprint(found.tokens, found.source, found.asked_as)
            marks = {token_secret_codec.REFUSED: f"{mark}:{UNINSTALLED}"}
            await client.replace(SECRETS, token_secret_codec.marked(live, marks))
        except NotFound:
            return
        except Conflict:
            continue
        return
    raise errors.unavailable("The removal could not be recorded: report it again")
