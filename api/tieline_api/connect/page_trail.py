"""What pages for end users note for the audit."""

from tieline_api.audit.records import END_USER
from tieline_api.cluster.organisations import Organisation
from tieline_api.dependencies import Dependencies
from tieline_api.http.auditing import PageTrail
from tieline_core.identity.ids import object_id
from tieline_core.oauth.state_store import PendingAuthorization


def note_authorisation(
    trail: PageTrail, platform: Dependencies, organisation: Organisation, pending: PendingAuthorization
) -> None:
    """Notes for the audit on whose behalf a page goes on with an authorisation, and of which connection."""
    trail.organisation = organisation
    trail.on_behalf, trail.session = pending.requested_by, pending.session
    trail.kind_of_caller = END_USER if pending.end_user else ""
    cluster = platform.cluster
    connection = (
        cluster.connections.get(organisation.namespace, pending.connection) if pending.connection else None
    )
    trail.kind, trail.object = "connections", object_id(connection) if connection else ""
