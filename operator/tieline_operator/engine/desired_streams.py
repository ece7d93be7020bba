"""Which streams the event engine should have, by the caches. Pure."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tieline_core.engine.accounts import StreamFacts
from tieline_core.engine.audit_streams import audit_stream_names
from tieline_core.engine.package_streams import packages_stream
from tieline_core.engine.state_streams import state_stream_names
from tieline_core.engine.streams import StreamOwner
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.identity.names import ENVIRONMENT_ID_LABEL
from tieline_core.identity.organisations import labelled_id
from tieline_core.kubernetes.resources import ENGINE_SECRETS, NAMESPACES, PROJECT_VERSIONS, PROJECTS
from tieline_core.resources.projects import DEFAULT_ENVIRONMENT
from tieline_operator.apply.plan import Object
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.indexers import namespace_of
from tieline_operator.cache.organisations import organisation_of, records_in
from tieline_protocol.event_streams import EventStreams, direct_stream, environment_of, history_stream


class StreamKey(NamedTuple):
    """Streams that are made together: an environment's, or those of an organisation."""

    namespace: str
    secret: str = ""
    """The name of the Secret with the environment's credentials; empty for the organisation's streams."""


def stream_keys(listers: Listers) -> Iterator[StreamKey]:
    """The streams of all environments that have credentials, and of their organisations."""
    secrets = listers[ENGINE_SECRETS].list()
    for namespace in sorted({namespace_of(secret) for secret in secrets}):
        yield StreamKey(namespace)
    for secret in secrets:
        yield StreamKey(namespace_of(secret), secret["metadata"]["name"])


def streams_of(listers: Listers, key: StreamKey) -> EventStreams | None:
    """The streams of an environment; None where it has no credentials any more."""
    secret = listers[ENGINE_SECRETS].get(key.namespace, key.secret)
    identifier = organisation_of(listers, key.namespace)
    if secret is None or identifier is None:
        return None
    environment = secret["metadata"].get("labels", {}).get(ENVIRONMENT_ID_LABEL)
    return EventStreams(identifier, environment) if environment else None


def environments(listers: Listers) -> Mapping[StreamKey, EventStreams]:
    """The streams of all environments that have credentials."""
    return {
        key: streams
        for key in stream_keys(listers)
        if key.secret and (streams := streams_of(listers, key)) is not None
    }


def environment_by_name(stream: str) -> EventStreams | None:
    """The environment that a stream of this name belongs to; None for one of the platform's account."""
    match stream.split("_"):
        case [_, organisation, environment]:
            return EventStreams(organisation, environment)
    return None


def organisation_stream_names(organisation: str) -> tuple[str, ...]:
    """The streams that an organisation may have in the platform's account: runs, state, schedules, issues,
    audit records, packages."""
    return (
        history_stream(organisation),
        direct_stream(organisation),
        *state_stream_names(organisation),
        *audit_stream_names(organisation),
        packages_stream(organisation),
    )


def needed_stream_names(listers: Listers, namespace: str, organisation: str) -> tuple[str, ...]:
    """The streams that an organisation should have: that of packages only where a version needs some."""
    names = organisation_stream_names(organisation)
    return names if needs_packages(listers, namespace) else names[:-1]


def needs_packages(listers: Listers, namespace: str) -> bool:
    """Whether a version of a namespace needs packages."""
    versions = listers[PROJECT_VERSIONS].list(namespace)
    return any(version.get("status", {}).get("packageLock") for version in versions)


class KnownStreams:
    """Tells streams of environments and organisations that exist from those of which nothing is left.

    A namespace that has lost its label, or got another, is no organisation, but its events are not garbage. Those of
    one that is gone are, although its id stays recorded for a while, and whatever namespace waits for the id.
    """

    def __init__(self, listers: Listers) -> None:
        labels = {one["metadata"]["name"]: labelled_id(one) for one in listers[NAMESPACES].list()}
        recorded = records_in(listers)
        ids_of = {name: {identifier} for identifier, name in recorded.items()}
        self._gone = {(identifier, name) for identifier, name in recorded.items() if name not in labels}
        self._unlabelled = {name for name, identifier in labels.items() if identifier is None}
        self._of_organisations = {
            name
            for one in {*labels.values(), *recorded}
            if one is not None
            for name in organisation_stream_names(one)
        }
        self._environments: dict[str, set[str | None]] = {}
        for project in listers[PROJECTS].list():
            for identifier in _environment_ids(project):
                owners = self._environments.setdefault(identifier, set())
                owners.add(labels.get(namespace_of(project)))
                owners |= ids_of.get(namespace_of(project), set())

    def __contains__(self, stream: StreamFacts) -> bool:
        owner: StreamOwner | None = stream.owner
        if owner is None:
            return True
        if stream.name in organisation_stream_names(owner.organisation):
            if (owner.organisation, owner.namespace) in self._gone:
                return False
            return stream.name in self._of_organisations or owner.namespace in self._unlabelled
        return self._has(owner.organisation, environment_of(stream.name))

    def has_environment(self, streams: EventStreams) -> bool:
        """Whether an environment exists."""
        return self._has(streams.organisation, streams.environment)

    def _has(self, organisation: str, environment: str) -> bool:
        owners = self._environments.get(environment, set())
        return organisation in owners or None in owners


def _environment_ids(project: Object) -> Iterator[str]:
    """By spec and status, of Projects too that this version's models refuse."""
    identifier = object_id(project)
    named = [item.get("name") for item in project.get("spec", {}).get("environments") or ()]
    for name in named or [DEFAULT_ENVIRONMENT]:
        if name:
            yield environment_id(identifier, name)
    for item in project.get("status", {}).get("environments") or ():
        if found := item.get("id"):
            yield found
