"""Which credential stands behind an id: an OAuth client's, or the certificate for mutual TLS.

Pure functions over what caches hold. A credential of another organisation is found only through a
CredentialGrant of that organisation: without one the answer is the same as for an id that does not exist, so
that nobody learns which ids there are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from pydantic import ValidationError

from tieline_core.identity.ids import credential_id, object_id, parse_id, text_id
from tieline_core.objects import ObjectView
from tieline_core.resources import Connection, CredentialGrant, System
from tieline_core.resources.auth_schemes import AuthSchemeConfig, AuthSchemeType, OAuth2Client
from tieline_core.resources.connections import ConnectionCredential, CredentialType
from tieline_core.resources.credential_grants import GrantedCredential
from tieline_core.resources.parsed_cache import CONNECTION, SYSTEM


class Directory(Protocol):
    """What is known of the cluster. Objects are as the API server has them."""

    def system(self, namespace: str, name: str) -> ObjectView | None:
        """A System by its name."""

    def connection(self, namespace: str, name: str) -> ObjectView | None:
        """A Connection by its name or its id, the latter in either case."""

    def certificate_holders(self, namespace: str, system: str) -> Sequence[ObjectView]:
        """The Connections of a System (by its name) that ``lent_certificates`` tells it for."""

    def holders(self, namespace: str, credential_id: str) -> Sequence[ObjectView]:
        """The Connections with a credential of this id (as ``ids.credential_id`` tells it)."""

    def grants(self, namespace: str) -> Sequence[ObjectView]:
        """The CredentialGrants of a namespace."""

    def organisation_of(self, namespace: str) -> str | None:
        """The id of the organisation that a namespace is."""

    def namespace_of(self, organisation: str) -> str | None:
        """The namespace of an organisation, if there is one of this id."""


class Lookups(Directory, Protocol):
    """What is known of the cluster, and the values of Secrets."""

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """The data of a Secret of type tieline.dev/credential; None for any other, and where there is none."""


@dataclass(frozen=True)
class Problem:
    """What is wrong with a credential, or why it cannot be used."""

    reason: str
    """One word in CamelCase."""
    message: str
    """A sentence with what to do; never a value."""


@dataclass(frozen=True, kw_only=True)
class LinkedCredential:
    """A credential that may be used."""

    namespace: str
    """Where its Connection and its Secret are."""
    connection: str
    """The Connection's name."""
    id: str
    """The credential's id in the REST API."""
    item: ConnectionCredential
    urls: frozenset[str] | None = None
    """The only URLs that the secret may be sent to; None where whoever names the credential decides."""


def canonical(identifier: str) -> str:
    """An id as indexes hold it: a ULID in upper case. Free text becomes the ULID that REST shows for it."""
    return parse_id(identifier) or (text_id(identifier) if identifier else "")


def credential_ids(obj: ObjectView) -> list[str]:
    """The ids of a Connection's credentials, for the index that ``Directory.holders`` needs."""
    items = obj.get("spec", {}).get("credentials") or ()
    return [canonical(credential_id(object_id(obj), item)) for item in items] if items else []


def lent_certificates(obj: ObjectView) -> str | None:
    """The System whose connections may use a Connection's certificate, for the index of ``certificate_holders``.

    None for one that has none, and for one that belongs to a user.
    """
    spec = obj.get("spec", {})
    kinds = {item.get("type") for item in spec.get("credentials") or ()}
    if spec.get("endUserRef") or CredentialType.CERTIFICATE not in kinds:
        return None
    name: str | None = (spec.get("systemRef") or {}).get("name")
    return name


def scheme_of(
    directory: Directory, connection: Connection, item: ConnectionCredential
) -> AuthSchemeConfig | None:
    """The auth scheme that a credential is for: its own, or one of the system's."""
    if item.auth_scheme_config:
        return item.auth_scheme_config
    found = directory.system(connection.namespace, connection.spec.system_ref.name)
    return scheme_in(SYSTEM.of(found) if found else None, item)


def scheme_in(system: System | None, item: ConnectionCredential) -> AuthSchemeConfig | None:
    """``scheme_of`` where the system is at hand; None for one that does not exist."""
    if item.auth_scheme_config:
        return item.auth_scheme_config
    schemes = system.spec.auth_scheme_configs if system else []
    return next((scheme for scheme in schemes if scheme.id == item.auth_scheme_config_id), None)


def client_of(directory: Directory, namespace: str, client: OAuth2Client) -> LinkedCredential | Problem:
    """The credential that a grant names, for a connection or a system in ``namespace``."""
    organisation = directory.organisation_of(namespace)
    owner = client.organisation_id.upper()
    if owner and owner != organisation:
        # Of two namespaces that claim to be one organisation only the one that everybody takes for it counts.
        known = organisation is not None and directory.namespace_of(organisation) == namespace
        return _borrowed(directory, organisation if known else None, client)
    return _own(directory, namespace, client.credential_id, CredentialType.OAUTH2_CLIENT)


def client_for(
    directory: Directory,
    connection: Connection,
    item: ConnectionCredential,
    client: OAuth2Client,
    *,
    chosen: bool = False,
) -> LinkedCredential | Problem:
    """``client_of`` for a token request of a connection's credential.

    A stored client secret goes only to URLs that its holder's side named, or that somebody named who could read it.

    ``chosen``: the authorisation named the client, not the auth scheme. Nobody who wrote the scheme was asked about
    this client, so its secret goes only to the URLs that its holder's scheme, or a scheme of the holder's system, has.
    The same holds where a connection's own scheme names a client of another connection. Admission asks whoever makes
    such a scheme name a client of the same connection. Schemes of systems, which administrators write, may name any.
    """
    found = client_of(directory, connection.namespace, client)
    if isinstance(found, Problem) or found.urls is not None:
        return found
    if not chosen and (item.auth_scheme_config is None or found.connection == connection.name):
        return found
    return replace(found, urls=_urls_of_holder(directory, found))


def certificate_of(
    directory: Directory, connection: Connection, item: ConnectionCredential, *, named: str = ""
) -> LinkedCredential | Problem:
    """The certificate for mutual TLS at the token URL: the one ``named``, or else an associated one.

    Associated is a certificate credential of the same connection, or else of a connection that the
    organisation itself has to the system, for one of the system's certificate schemes; the oldest such.
    """
    if named:
        for sibling in connection.spec.credentials:
            if _same_id(sibling.id, named) and sibling.type is CredentialType.CERTIFICATE:
                return _linked(connection, sibling)
        found = _own(
            directory, connection.namespace, named, CredentialType.CERTIFICATE, user=_user(connection)
        )
        if isinstance(found, LinkedCredential):
            return found
        return Problem(
            "CertificateNotFound",
            f'mtlsCredentialId names "{named}", which is no certificate credential that this connection may '
            "use; correct it, or leave it out to have one found",
        )
    for sibling in connection.spec.credentials:
        if sibling.id != item.id and sibling.type is CredentialType.CERTIFICATE and sibling.secret_ref:
            return _linked(connection, sibling)
    return _of_the_system(directory, connection) or Problem(
        "CertificateNotFound",
        "mtlsEnabled needs a client certificate, and none is associated: add a credential of type certificate "
        "to this connection or, for one of the system's certificate schemes, to another connection of the "
        "system; or name one in mtlsCredentialId",
    )


def granted(directory: Directory, namespace: str, given: GrantedCredential) -> LinkedCredential | Problem:
    """What an item of a grant's ``to`` in the owner's ``namespace`` stands for."""
    obj = directory.connection(namespace, given.connection)
    connection = CONNECTION.of(obj) if obj else None
    if connection is None:
        return Problem(
            "ConnectionNotFound",
            f'Connection "{given.connection}" does not exist in namespace {namespace}; create it or correct it',
        )
    item = next(
        (one for one in connection.spec.credentials if _is(connection, one, given.credential_id)), None
    )
    if item is None:
        return Problem(
            "CredentialNotFound",
            f'Connection "{given.connection}" has no credential "{given.credential_id}"; add it or correct it',
        )
    if item.type is not CredentialType.OAUTH2_CLIENT:
        return Problem(
            "CredentialTypeWrong",
            f'Credential "{given.credential_id}" is of type {item.type}; only oauth2-client can be granted',
        )
    urls = frozenset(given.token_urls) or _urls(scheme_of(directory, connection, item))
    if not urls:
        return Problem(
            "TokenUrlMissing",
            f'Nothing says where the secret of credential "{given.credential_id}" may be sent; add tokenUrls',
        )
    return _linked(connection, item, urls=urls)


def _borrowed(directory: Directory, borrower: str | None, client: OAuth2Client) -> LinkedCredential | Problem:
    owner = directory.namespace_of(client.organisation_id.upper())
    for grant in _grants(directory, owner, borrower) if owner and borrower else ():
        for given in grant.spec.to:
            found = granted(directory, grant.namespace, given)
            if isinstance(found, LinkedCredential) and _same_id(found.id, client.credential_id):
                return found
    return Problem(
        "CredentialNotFound",
        f'There is no credential "{client.credential_id}" of organisation {client.organisation_id} that may be '
        "used here; correct the ids, or ask its owner for a CredentialGrant",
    )


def _own(
    directory: Directory, namespace: str, wanted: str, kind: CredentialType, *, user: str | None = None
) -> LinkedCredential | Problem:
    others = None
    for obj in sorted(directory.holders(namespace, canonical(wanted)), key=_age):
        connection = CONNECTION.of(obj)
        for item in connection.spec.credentials:
            if not _same_id(credential_id(connection.id, item.to_dict()), wanted):
                continue
            if kind is CredentialType.CERTIFICATE and _user(connection) not in (None, user):
                continue
            if item.type is kind:
                return _linked(connection, item)
            others = item.type
    if others:
        return Problem(
            "CredentialTypeWrong",
            f'Credential "{wanted}" is of type {others}; name one of type {kind}',
        )
    return Problem(
        "CredentialNotFound",
        f'There is no credential "{wanted}" in this organisation; correct credentialId, or add it to a connection',
    )


def _of_the_system(directory: Directory, connection: Connection) -> LinkedCredential | None:
    name = connection.spec.system_ref.name
    obj = directory.system(connection.namespace, name)
    schemes = SYSTEM.of(obj).spec.auth_scheme_configs if obj else []
    ids = {scheme.id for scheme in schemes if scheme.type is AuthSchemeType.CERTIFICATE}
    found = sorted(directory.certificate_holders(connection.namespace, name), key=_age)
    for other in map(CONNECTION.of, found):
        if other.name == connection.name:
            continue
        for item in other.spec.credentials:
            if (
                item.type is CredentialType.CERTIFICATE
                and item.auth_scheme_config_id in ids
                and item.secret_ref
            ):
                return _linked(other, item)
    return None


def _linked(
    connection: Connection, item: ConnectionCredential, *, urls: Iterable[str] | None = None
) -> LinkedCredential:
    return LinkedCredential(
        namespace=connection.namespace,
        connection=connection.name,
        id=credential_id(connection.id, item.to_dict()),
        item=item,
        urls=None if urls is None else frozenset(urls),
    )


def _urls(scheme: AuthSchemeConfig | None) -> frozenset[str]:
    if scheme is None or scheme.oauth2 is None:
        return frozenset()
    request = scheme.oauth2.token_request
    longer = request.long_lived.url if request and request.long_lived else ""
    return frozenset(url for url in (scheme.oauth2.token_url, scheme.oauth2.refresh_url, longer) if url)


def _urls_of_holder(directory: Directory, found: LinkedCredential) -> frozenset[str]:
    """The token and refresh URLs in the credential's own scheme, and in all schemes of its connection's system."""
    obj = directory.connection(found.namespace, found.connection)
    if obj is None:
        return frozenset()
    holder = CONNECTION.of(obj)
    system = directory.system(found.namespace, holder.spec.system_ref.name)
    schemes = [scheme_of(directory, holder, found.item)]
    schemes += SYSTEM.of(system).spec.auth_scheme_configs if system else []
    return frozenset(url for scheme in schemes for url in _urls(scheme))


def _grants(directory: Directory, owner: str, borrower: str) -> Iterator[CredentialGrant]:
    for obj in directory.grants(owner):
        try:
            grant = CredentialGrant.read(obj)
        except ValidationError:
            continue  # an older definition let it in; it grants nothing
        wanted = any(one.organisation_id == borrower for one in grant.spec.from_)
        if wanted and not grant.metadata.deletion_timestamp:
            yield grant


def _is(connection: Connection, item: ConnectionCredential, wanted: str) -> bool:
    return _same_id(item.id, wanted) or _same_id(credential_id(connection.id, item.to_dict()), wanted)


def _same_id(one: str, other: str) -> bool:
    return canonical(one) == canonical(other)


def _user(connection: Connection) -> str | None:
    return connection.spec.end_user_ref.name if connection.spec.end_user_ref else None


def _age(obj: ObjectView) -> tuple[str, str]:
    return obj["metadata"]["creationTimestamp"], object_id(obj)
