"""What the beginnings of authorisations share: where users come back to, for which credential, and what is kept."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from tieline_api import errors
from tieline_api.auth.permissions import Permission
from tieline_api.credentials.credential_directory import CredentialDirectory
from tieline_api.http.operation import AnyCall, Call
from tieline_api.schemas.authorisations import Initialise
from tieline_api.settings import Settings
from tieline_core.credentials.linker import canonical
from tieline_core.identity.ids import credential_id, object_id
from tieline_core.oauth.state_store import PendingAuthorization, new_state
from tieline_core.resources.connections import CredentialType
from tieline_core.resources.objects import ConnectionCredentialDict, ConnectionObject, SystemObject

_LOOPBACK_NAMES = ("127.0.0.1", "::1", "localhost")


class CandidateCredential(NamedTuple):
    """A Connection, and the credential of it that the authorisation may be for."""

    connection: ConnectionObject
    item: ConnectionCredentialDict


@dataclass(frozen=True, kw_only=True)
class AuthorizationRequest:
    """An authorisation that is about to begin."""

    call: Call[object, Initialise]
    system: SystemObject
    redirect_uri: str
    """Where the provider sends the user back to."""
    state: str
    candidates: Sequence[CandidateCredential]
    """The system's connections that have the credential."""

    @classmethod
    def of(cls, call: Call[object, Initialise], kinds: Collection[CredentialType]) -> Self:
        """``kinds`` are the types of credentials that it can bring tokens for. ApiError where it cannot begin."""
        cluster = call.platform.cluster
        system = cluster.require(cluster.systems, call.namespace, call.path["system_id"])
        candidates = _holders(call, system, call.body.credential.id, kinds)
        if call.reach is not None:
            candidates = [one for one in candidates if call.reach.has_connection(one.connection)]
        return cls(
            call=call,
            system=system,
            redirect_uri=_redirect_uri(call.platform.settings, call.body.redirect_url),
            state=new_state(call.organisation.id),
            candidates=candidates,
        )

    async def remember(self, *, client_id: str, url: str, **more: str) -> None:
        """Keeps what is needed when the user comes back; ``more`` are fields of ``PendingAuthorization``.

        ``url`` is where the user is sent. It is kept for end users, whose browser we see before.
        """
        call, credential = self.call, self.call.body.credential
        connection, item = await self._finishable()
        if call.reach is not None and call.reach.user is not None:
            scope = call.reach.scope
            user = call.reach.user["metadata"]["name"]
            more |= {"end_user": user, "session": scope.session, "authorize_url": url}
        pending = PendingAuthorization(
            organisation_id=call.organisation.id,
            system_id=object_id(self.system),
            credential_id=credential.id,
            credential_organisation_id=credential.organisation_id or call.organisation.id,
            client_id=client_id,
            redirect_uri=self.redirect_uri,
            requested_by=call.caller.username,
            connection=connection,
            item_id=item,
            **more,
        )
        await call.platform.oauth_states.remember(self.state, pending, system=self.system)

    async def _finishable(self) -> tuple[str, str]:
        """The names of Connection and item, where there is one and the callback page may finish it for the caller."""
        call = self.call
        if len(self.candidates) != 1:
            return "", ""
        if call.reach is None and not await call.platform.access.allowed(
            call.caller, call.namespace, Permission("patch", "connections")
        ):
            return "", ""
        ((connection, item),) = self.candidates
        return connection["metadata"]["name"], item["id"]


def is_loopback(url: str) -> bool:
    """Whether a URL leads to the user's own machine, where a native application listens (RFC 8252, section 7.3).

    Any port and any path, over http: the port is the operating system's choice, and nobody has a certificate for it.
    """
    try:
        parts = urlsplit(url)
        has_usable_port = parts.port != 0
    except ValueError:
        return False
    return (
        parts.scheme == "http"
        and parts.hostname in _LOOPBACK_NAMES
        and "@" not in parts.netloc
        and has_usable_port
        and "#" not in url
        and "\\" not in url
        and url.isascii()
        and url.isprintable()
    )


def _redirect_uri(settings: Settings, given: str | None) -> str:
    """Our page, or a page of the application that is on the list."""
    ours = settings.callback_url
    if given and given != ours:
        if given in settings.redirect_urls or (settings.loopback_redirects and is_loopback(given)):
            return given
        raise errors.invalid(
            "redirectUrl", "is not on the list: ask the operators to add it to TIELINE_REDIRECT_URLS"
        )
    if not ours:
        raise errors.ApiError(
            503,
            "not_configured",
            "This API does not know the address that browsers reach it at: "
            "ask its operators to set TIELINE_PUBLIC_API_URL",
        )
    return ours


def _holders(
    call: AnyCall, system: SystemObject, credential: str, kinds: Collection[CredentialType]
) -> list[CandidateCredential]:
    wanted = canonical(credential)
    return [
        CandidateCredential(connection, item)
        for connection in CredentialDirectory(call.platform.cluster).holders(call.namespace, wanted)
        if connection["spec"]["systemRef"]["name"] == system["metadata"]["name"]
        for item in connection["spec"].get("credentials") or ()
        if canonical(credential_id(object_id(connection), item)) == wanted and item["type"] in kinds
    ]
