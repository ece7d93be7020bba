"""What end users may bring for a connection: credentials for the auth schemes that the system offers, and no more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tieline_api import errors
from tieline_api.auth.end_user_reach import EndUserReach
from tieline_api.authorisation.authorization_codes import authorization_result
from tieline_api.conversion import auth_schemes
from tieline_api.conversion.connections import linked_certificate, scheme_item
from tieline_api.conversion.credential_plans import stored_item
from tieline_api.conversion.systems import auth_scheme_items, scheme_owner
from tieline_api.credentials.credential_directory import CredentialDirectory
from tieline_api.http.operation import AnyCall, Call
from tieline_api.schemas import authorisations
from tieline_api.schemas import connections as rest
from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.use_cases.url_values import as_variables, own_values
from tieline_core.credentials.linker import canonical
from tieline_core.identity.ids import client_credential_id, credential_id, object_id
from tieline_core.oauth.state_store import StateRefusedError, unknown_state
from tieline_core.objects import ObjectView
from tieline_core.resources.connections import CredentialType
from tieline_core.resources.objects import (
    AuthSchemeConfigDict,
    ConnectionCredentialDict,
    ConnectionObject,
    ConnectionTemplateObject,
    SystemObject,
)


@dataclass(frozen=True)
class CredentialChecks:
    """The checks of the credentials of one connection of the calling end user."""

    call: AnyCall
    system: SystemObject | None
    template: ConnectionTemplateObject | None
    """The template that a new connection is for."""
    live: ConnectionObject | None
    """The connection that is changed; None for a new one."""

    async def check(self, given: Sequence[rest.ConnectionCredential], *, path: str) -> None:
        """ApiError 422 at the field that an end user may not send."""
        for index, one in enumerate(given):
            where = f"{path}[{index}]"
            stored = self._stored(one)
            if one.auth_scheme_config is not None:
                self._check_scheme(one.auth_scheme_config, stored, field=f"{where}.authSchemeConfig")
            if one.credential is not None and one.credential.id:
                self._check_id(one.credential.id, stored, field=f"{where}.credential.id")
            await self._check_state(one, field=where)

    def _stored(self, given: rest.ConnectionCredential) -> ConnectionCredentialDict | None:
        if self.live is None:
            return None
        items = self.live["spec"].get("credentials") or ()
        return stored_item(given.id, items, connection=object_id(self.live))

    def _check_scheme(
        self, config: AuthSchemeConfig, stored: ConnectionCredentialDict | None, *, field: str
    ) -> None:
        """Only what the system offers, or what the credential has already, is accepted."""
        organisation = self.call.organisation.id
        if auth_schemes.secret_of(config) is None:
            if self.system is not None:
                owner = scheme_owner(self.system, organisation=organisation)
                offered = self._offered(self.system)
                linked = linked_certificate(self.live, stored["id"]) if stored else ""
                bare = auth_schemes.without_link(config, linked)
                if any(auth_schemes.same(bare, item, owner=owner) for item in offered):
                    return
            kept = stored.get("authSchemeConfig") if stored else None
            if kept and self.live is not None:
                owner = scheme_owner(self.live, organisation=organisation)
                if auth_schemes.same(config, kept, owner=owner):
                    return
        raise errors.invalid(
            field, "is none of the auth schemes that the system offers: send one as it was read"
        )

    def _offered(self, system: SystemObject) -> list[AuthSchemeConfigDict]:
        named = set((self.template["spec"].get("authSchemeConfigIds") if self.template else None) or ())
        return [item for item in auth_scheme_items(system) if not named or item["id"] in named]

    def _check_id(self, given: str, stored: ConnectionCredentialDict | None, *, field: str) -> None:
        """An id that another credential has, or that an auth scheme takes for its client's, is refused.

        Whoever could give their credential such an id could have it used in the other one's place.
        """
        wanted = canonical(given)
        if stored and self.live and canonical(credential_id(object_id(self.live), stored)) == wanted:
            return
        taken = self.call.platform.lookups.holders(self.call.namespace, wanted)
        named = (
            wanted in _client_ids(system)
            for system in self.call.platform.cluster.systems.list(self.call.namespace)
        )
        if taken or any(named):
            raise errors.invalid(field, "is taken: leave it out, and the credential gets one")

    async def _check_state(self, given: rest.ConnectionCredential, *, field: str) -> None:
        """What a user has come back with must be of an authorisation that they began themselves."""
        result, reach = authorization_result(given), _reach(self.call)
        if result is None or not result.values["state"]:
            return
        states = self.call.platform.oauth_states
        try:
            pending = await states.peek(result.values["state"], namespace=self.call.namespace)
        except StateRefusedError:
            return  # reported when the code is looked at, unless the request is repeated
        if reach.user is None or pending.end_user != reach.user["metadata"]["name"]:
            raise errors.invalid(f"{field}.{result.about}.state", str(unknown_state()))


def own_authorisation(call: Call[None, authorisations.Initialise]) -> AnyCall:
    """The start of an authorisation for a system that the user may connect, with what its auth schemes say."""
    cluster, body, reach = call.platform.cluster, call.body, _reach(call)
    identifier = call.path["system_id"]
    system = cluster.find(cluster.systems, call.namespace, identifier)
    if system is None or not reach.has_system(system):
        raise errors.not_found("system", identifier)
    if reach.user is None:
        raise errors.invalid("credential", "needs a user: create the user first")
    if getattr(body, "auth_scheme_config", None) is not None:
        raise errors.invalid("authSchemeConfig", "is not for end users to set: leave it out")
    if isinstance(body, authorisations.OAuth2Initialise) and body.authorize_url not in _authorize_urls(
        system, reach
    ):
        raise errors.invalid(
            "authorizeUrl", "is that of no auth scheme of the system: send the one of the scheme"
        )
    if _is_anothers(call, system):
        raise errors.invalid("credential.id", "is no credential of yours, and no client of the system")
    if isinstance(body, authorisations.OAuth2Initialise):
        given = body.variables or ()
        values = own_values(given, reach.scope, system, live={}, field="variables")
        return replace(call, body=body.model_copy(update={"variables": as_variables(values)}))
    return call


def _is_anothers(call: Call[None, authorisations.Initialise], system: SystemObject) -> bool:
    """Whether the credential that an authorisation is for belongs to somebody else."""
    reach, wanted = _reach(call), canonical(call.body.credential.id)
    for connection in CredentialDirectory(call.platform.cluster).holders(call.namespace, wanted):
        if reach.has_connection(connection):
            continue
        items = [
            item
            for item in connection["spec"].get("credentials") or ()
            if canonical(credential_id(object_id(connection), item)) == wanted
        ]
        clients = (CredentialType.OAUTH2_CLIENT, CredentialType.OAUTH1)
        is_client = wanted in _client_ids(system) and all(item["type"] in clients for item in items)
        if connection["spec"].get("endUserRef") or not is_client:
            return True
    return False


def _authorize_urls(system: SystemObject, reach: EndUserReach) -> set[str]:
    """Where the schemes of a system, and those of the user's own connections to it, send users."""
    cluster, name = reach.cluster, system["metadata"]["name"]
    items: list[AuthSchemeConfigDict] = list(auth_scheme_items(system))
    for connection in cluster.referring(cluster.connections, "system", reach.namespace, name):
        if reach.has_connection(connection):
            credentials = connection["spec"].get("credentials") or ()
            items += [found for item in credentials if (found := scheme_item(item, None))]
    return {url for item in items if (url := item.get("oauth2", {}).get("authorizeUrl"))}


def _client_ids(system: SystemObject) -> set[str]:
    """The ids of the credentials that a system's auth schemes take for their clients and certificates."""
    found = set()
    for item in auth_scheme_items(system):
        oauth2, oauth1 = item.get("oauth2", {}), item.get("oauth1", {})
        grant: ObjectView = oauth2.get("grant") or {}
        named = [oauth2.get("mtlsCredentialId"), oauth1.get("credentialId")]
        named += [client.get("credentialId") for client in grant.values() if isinstance(client, Mapping)]
        found |= {canonical(one) for one in named if one}
        found.add(client_credential_id(object_id(system), item["id"]))
    return found


def _reach(call: AnyCall) -> EndUserReach:
    if call.reach is None:
        raise LookupError("The caller is no end user")
    return call.reach
