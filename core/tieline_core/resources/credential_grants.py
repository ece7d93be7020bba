"""CredentialGrant: which credentials of an organisation another one may use, without ever reading them."""

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from tieline_core.identity.ids import ULID_PATTERN
from tieline_core.resources.fields import ItemId, Shape, Status, Text, Url, list_map
from tieline_core.resources.kinds import READY_COLUMNS, CustomResource, Kind

OrganisationId = Annotated[str, StringConstraints(min_length=26, max_length=26, pattern=ULID_PATTERN)]
# A connection's name is a DNS name in lower case; its id is a ULID in upper case.
NameOrId = Annotated[
    str, StringConstraints(min_length=1, max_length=253, pattern="^[0-9A-Za-z]([-.0-9A-Za-z]*[0-9A-Za-z])?$")
]


class GrantedTo(Shape):
    """An organisation that may use the credentials."""

    organisation_id: OrganisationId
    """The organisation's id, in upper case (the label tieline.dev/organisation of its namespace)."""


class GrantedCredential(Shape):
    """A credential that may be used."""

    connection: NameOrId
    """The name (metadata.name) or the id of the Connection that has the credential."""
    credential_id: ItemId
    """The credential's id in that Connection, or its id in the REST API."""
    token_urls: Annotated[list[Url], Field(max_length=16)] = []
    """Token URLs to which the client's secret may be sent. Default: those of the credential's auth scheme."""


class CredentialGrantSpec(Shape):
    """Who may use which credentials of this namespace's organisation."""

    from_: Annotated[
        list[GrantedTo],
        Field(alias="from", min_length=1, max_length=64, json_schema_extra=list_map("organisationId")),
    ]
    """The organisations that may use the credentials."""
    to: Annotated[
        list[GrantedCredential],
        Field(min_length=1, max_length=64, json_schema_extra=list_map("connection", "credentialId")),
    ]
    """The credentials that they may use: clients of OAuth 2.0 (type oauth2-client)."""


class GrantedStatus(Shape):
    """Observed state of a granted credential."""

    connection: NameOrId
    """As in spec.to."""
    credential_id: ItemId
    """As in spec.to."""
    id: Annotated[str, StringConstraints(max_length=64)] = ""
    """The value of grant.….credentialId in an auth scheme of the other organisation. Empty if not usable."""
    token_urls: Annotated[list[Url], Field(max_length=16)] = []
    """Token URLs to which the client's secret is sent."""
    errors: Annotated[list[Text], Field(max_length=16)] = []
    """Why the credential cannot be used. Empty if it can."""


class CredentialGrantStatus(Status):
    """The observed state of the grant."""

    credentials: Annotated[
        list[GrantedStatus], Field(max_length=64, json_schema_extra=list_map("connection", "credentialId"))
    ] = []
    """What is granted, credential by credential."""


class CredentialGrant(CustomResource):
    """Lets other organisations use credentials of this one through the platform. They cannot read the values.
    Deleting the grant revokes the use at once."""

    kind_info: ClassVar = Kind(
        name="CredentialGrant",
        plural="credentialgrants",
        short_names=("tlcgrant",),
        columns=READY_COLUMNS,
    )

    spec: CredentialGrantSpec
    """The desired state of the grant."""
    status: CredentialGrantStatus
    """The observed state of the grant."""
