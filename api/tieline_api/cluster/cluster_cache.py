"""What the API knows of the cluster: a cache for each resource, and look-ups by id."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from tieline_api import errors
from tieline_api.cluster import indexes
from tieline_api.cluster.files_manager import remember_files_manager
from tieline_api.cluster.organisations import Organisation, organisation_keys
from tieline_api.cluster.sorted_lists import SortedLists, position
from tieline_api.conversion.times import remember_update
from tieline_core import process_memory
from tieline_core.identity.claims import creation_claim, id_claim
from tieline_core.identity.ids import (
    ORGANISATION_LABEL,
    environment_id,
    object_id,
    parse_id,
    static_activation_id,
)
from tieline_core.identity.names import (
    API_KEY_TYPE,
    CONNECT_SESSION_TYPE,
    CREDENTIAL_TYPE,
    ENGINE_CREDENTIALS_TYPE,
    OAUTH_STATE_TYPE,
    environment_object_name,
)
from tieline_core.identity.organisations import holder, labelled_id, records_of
from tieline_core.kubernetes import (
    Change,
    Informer,
    Kube,
    KubeError,
    Resource,
    SecretInformers,
    SecretKind,
    Stored,
)
from tieline_core.kubernetes import resources as kube
from tieline_core.kubernetes.informer import strip_managed_fields
from tieline_core.objects import Object, ObjectView
from tieline_core.resources.objects import (
    ActivationObject,
    ConnectionObject,
    ConnectionTemplateObject,
    ConnectorObject,
    ConnectorVersionObject,
    CredentialGrantObject,
    EndUserObject,
    EnvironmentObject,
    NotificationChannelObject,
    NotificationObject,
    ProjectObject,
    ProjectVersionObject,
    SystemObject,
)
from tieline_core.resources.quotas import OrganisationQuotas, Quotas, quotas_of
from tieline_core.systems import filled

WORDS: Mapping[str, str] = {
    "System": "system",
    "Connection": "connection",
    "ConnectionTemplate": "connection template",
    "Project": "project",
    "ProjectVersion": "version",
    "EndUser": "user",
    "Activation": "activation",
    "Connector": "connector",
    "ConnectorVersion": "connector version",
    "NotificationChannel": "notification channel",
    "Notification": "notification",
}
_NOT_READY = "The API has just started and is still reading the cluster: try again in a moment"
_NO_SECRETS = (
    "The Secrets of this organisation cannot be read yet: try again in a moment. If it stays so, the RoleBinding "
    "tieline-secrets is missing in its namespace"
)
_NEW_SECONDS = 2.0


def _without_values(secret: Object) -> Object:
    metadata = strip_managed_fields(secret)["metadata"]
    return {"metadata": metadata, "type": secret["type"]}


_SECRET_KINDS = (
    SecretKind(CREDENTIAL_TYPE, indexes={"account": indexes.by_account}),
    SecretKind(API_KEY_TYPE),
    SecretKind(
        CONNECT_SESSION_TYPE,
        indexes={
            "id": indexes.by_id,
            "origin": indexes.by_allowed_origin,
            "user": indexes.by_session_user,
        },
    ),
    # To find those that have expired.
    SecretKind(OAUTH_STATE_TYPE, transform=_without_values),
)


@dataclass(frozen=True)
class ActivationPlace:
    """Whose an activation is."""

    project: ProjectObject
    environment: str
    """The environment's name."""
    activation: ActivationObject | None = None
    """Of a user; None for that of the environment itself."""


class ChangeNotifier:
    """Wakes the waiters of a namespace; nothing is kept for namespaces that nobody waits in."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def notify(self, change: Change[Any]) -> None:
        """A cache saw a change."""
        metadata = change.object["metadata"]
        for event in self._waiting.get(metadata.get("namespace", ""), ()):
            event.set()

    def notify_all(self) -> None:
        """Wakes everybody, because the process ends."""
        for events in self._waiting.values():
            for event in events:
                event.set()

    async def wait(self, namespace: str, seconds: float) -> None:
        """Returns after the next change in ``namespace``, or after ``seconds``."""
        event = asyncio.Event()
        waiting = self._waiting.setdefault(namespace, set())
        waiting.add(event)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await event.wait()
        finally:
            waiting.discard(event)
            if not waiting and self._waiting.get(namespace) is waiting:
                del self._waiting[namespace]


class ClusterCache:
    """Caches of everything that answers are made of. Objects from it are shared: never change them."""

    def __init__(self, kube_client: Kube, *, home: str = "") -> None:
        """``home`` is the release's own namespace; outside a cluster there is none."""
        self._kube = kube_client

        def cache(
            resource: Resource, transform: Callable[[dict[str, Any]], dict[str, Any]] = _remembered
        ) -> Informer[Any]:
            by = {"id": indexes.by_id, **indexes.OF.get(resource, {})}
            return Informer(kube_client, resource, indexes=by, transform=transform)

        self.systems: Informer[SystemObject] = cache(kube.SYSTEMS, lambda obj: filled(_remembered(obj)))
        self.connections: Informer[ConnectionObject] = cache(kube.CONNECTIONS)
        self.templates: Informer[ConnectionTemplateObject] = cache(kube.CONNECTION_TEMPLATES)
        self.projects: Informer[ProjectObject] = cache(
            kube.PROJECTS, lambda obj: _remembered(remember_files_manager(obj))
        )
        self.versions: Informer[ProjectVersionObject] = cache(kube.PROJECT_VERSIONS)
        self.users: Informer[EndUserObject] = cache(kube.END_USERS)
        self.activations: Informer[ActivationObject] = cache(kube.ACTIVATIONS)
        self.connectors: Informer[ConnectorObject] = cache(kube.CONNECTORS)
        self.connector_versions: Informer[ConnectorVersionObject] = cache(kube.CONNECTOR_VERSIONS)
        self.grants: Informer[CredentialGrantObject] = cache(kube.CREDENTIAL_GRANTS)
        self.notification_channels: Informer[NotificationChannelObject] = cache(kube.NOTIFICATION_CHANNELS)
        self.notifications: Informer[NotificationObject] = cache(kube.NOTIFICATIONS)
        self.environments: Informer[EnvironmentObject] = cache(kube.ENVIRONMENTS)
        self.ordered = SortedLists(
            systems=self.systems,
            connections=self.connections,
            projects=self.projects,
            users=self.users,
            activations=self.activations,
        )
        self.secret_informers = SecretInformers(
            kube_client, _SECRET_KINDS, without=(ENGINE_CREDENTIALS_TYPE,)
        )
        self.secrets = self.secret_informers.of_type(CREDENTIAL_TYPE)
        self.api_keys = self.secret_informers.of_type(API_KEY_TYPE)
        self.connect_sessions = self.secret_informers.of_type(CONNECT_SESSION_TYPE)
        self.oauth_states = self.secret_informers.of_type(OAUTH_STATE_TYPE)
        self.namespaces = Informer(
            kube_client,
            kube.NAMESPACES,
            label_selector=ORGANISATION_LABEL,
            indexes={"organisation": organisation_keys},
        )
        self.organisation_records = (
            Informer(
                kube_client,
                kube.ORGANISATION_RECORDS,
                namespace=home,
                field_selector=f"metadata.name={kube.ORGANISATION_RECORDS.object_name}",
                transform=strip_managed_fields,
            )
            if home
            else None
        )
        self.changes = ChangeNotifier()
        for one in (self.systems, self.connections, self.templates, self.projects, self.secrets):
            one.subscribe(self.changes.notify)
        self.activations.subscribe(self._notify_of_static)
        self.environments.subscribe(self._notify_of_scale)
        self.namespaces.subscribe(self._organisations_changed)
        if self.organisation_records is not None:
            self.organisation_records.subscribe(self._organisations_changed)
        self._following = False
        self._synced = False
        self._settling: asyncio.Task[None] | None = None

    def _notify_of_static(self, change: Change[ActivationObject]) -> None:
        """Pods are notified of their environment's own activation; they ask for users' when they need them."""
        states = (change.old, change.new)
        if any(state is not None and not state["spec"].get("endUserRef") for state in states):
            self.changes.notify(change)

    def _notify_of_scale(self, change: Change[EnvironmentObject]) -> None:
        """Pods share the limits of connections by how many they are. An Environment's status changes often."""
        states = (change.old, change.new)
        if len({state["spec"].get("replicas") if state else None for state in states}) > 1:
            self.changes.notify(change)

    @property
    def caches(self) -> tuple[Informer[Any], ...]:
        """All caches but those of Secrets."""
        return (
            self.systems,
            self.connections,
            self.templates,
            self.projects,
            self.versions,
            self.users,
            self.activations,
            self.connectors,
            self.connector_versions,
            self.grants,
            self.notification_channels,
            self.notifications,
            self.environments,
            self.namespaces,
            *([self.organisation_records] if self.organisation_records else []),
        )

    def watched(self, namespace: str) -> tuple[Informer[Any], ...]:
        """The caches of what operations write in a namespace."""
        unwritten = (self.environments, self.namespaces, self.organisation_records)
        secrets = self.secret_informers.informer(namespace)
        written = tuple(cache for cache in self.caches if cache not in unwritten)
        return (*written, secrets) if secrets else written

    async def start(self) -> None:
        """Starts to list and to watch; returns at once."""
        for cache in self.caches:
            await cache.start()
        self.secret_informers.start()
        self._settling = asyncio.create_task(self._settle(), name="settling")

    async def _settle(self) -> None:
        await self.synced()
        process_memory.freeze_gc()

    async def stop(self) -> None:
        """Ends the watches."""
        if self._settling is not None:
            self._settling.cancel()
        await asyncio.gather(self.secret_informers.stop(), *(cache.stop() for cache in self.caches))

    async def synced(self) -> None:
        """Returns once everything was read for the first time."""
        await asyncio.gather(*(cache.synced() for cache in self.caches))
        self._follow_organisations()
        await self.secret_informers.settle()

    @property
    def ready(self) -> bool:
        """Whether everything was read once, but for Secrets that this account has been refused for a minute."""
        if not self._synced and all(cache.is_synced for cache in self.caches):
            self._follow_organisations()
            self._synced = self.secret_informers.settled
        return self._synced

    def _organisations_changed(self, _change: Change) -> None:
        """Follows the Secrets of the organisations that there are, once for all changes of a moment."""
        if not self._following:
            self._following = True
            asyncio.get_running_loop().call_soon(self._follow_organisations)

    def _follow_organisations(self) -> None:
        self._following = False
        # Before all are known, a namespace might be taken for an organisation that has the id of another one.
        if all(one.is_synced for one in (self.namespaces, self.organisation_records) if one):
            self.secret_informers.follow(
                {
                    namespace["metadata"]["name"]
                    for namespace in self.namespaces.list()
                    if self.organisation_of(namespace["metadata"]["name"]) and self._may_follow(namespace)
                }
            )

    def _may_follow(self, namespace: ObjectView) -> bool:
        """In a namespace that is being deleted, rights that are not there yet never come."""
        metadata = namespace["metadata"]
        return "deletionTimestamp" not in metadata or self.secret_informers.follows(metadata["name"])

    def require_secrets(self, namespace: str) -> None:
        """ApiError 503 until the Secrets of an organisation were read once."""
        if not self.secret_informers.knows(namespace):
            raise errors.unavailable(_NO_SECRETS)

    async def await_secrets(self, namespace: str) -> None:
        """Waits a moment for the Secrets of an organisation that is new; ApiError 503 where they are not read then."""
        if not self.secret_informers.knows(namespace):
            self._follow_organisations()
            informer = self.secret_informers.informer(namespace)
            if informer is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_NEW_SECONDS):
                        await informer.synced()
        self.require_secrets(namespace)

    @property
    def ended(self) -> list[str]:
        """The resources whose watch has ended by itself."""
        ended = {cache.resource.plural for cache in self.caches if cache.has_ended}
        if self.secret_informers.has_ended:
            ended.add(kube.SECRETS.plural)
        return sorted(ended)

    @property
    def silence(self) -> float:
        """Seconds since Kubernetes was last heard from, for the cache that waits longest."""
        return max(self.secret_informers.age, *(cache.age for cache in self.caches))

    @property
    def lost(self) -> float:
        """Seconds since Kubernetes was last heard from, where a cache cannot follow it right now; else 0."""
        return max(self.secret_informers.lost, *(cache.lost for cache in self.caches))

    def require_sync(self) -> None:
        """ApiError 503 until everything was read once."""
        if not self.ready:
            raise errors.unavailable(_NOT_READY)

    def organisation_of(self, namespace: str) -> Organisation | None:
        """The organisation that a namespace is, if it is one: it carries an id, and no other one has it."""
        found = self.namespaces.get("", namespace)
        identifier = labelled_id(found) if found else None
        if identifier is None or self._holder(identifier) != namespace:
            return None
        return Organisation(id=identifier, namespace=namespace)

    def organisation(self, identifier: str) -> Organisation | None:
        """The organisation with this id, if there is one; ApiError 503 before the first sync."""
        namespace = self.namespace_of(identifier)
        return Organisation(id=identifier, namespace=namespace) if namespace else None

    def organisations(self) -> list[Organisation]:
        """All organisations, by the names of their namespaces; ApiError 503 before the first sync."""
        self.require_sync()
        names = sorted(namespace["metadata"]["name"] for namespace in self.namespaces.list())
        return [found for name in names if (found := self.organisation_of(name)) is not None]

    def organisations_of_project(self, identifier: str) -> list[Organisation]:
        """The organisations that have a project with this id, the first claim first; ApiError 503 before the first
        sync. Ids are unique, but Git may give one to two projects."""
        return self._organisations(lambda name: self.find(self.projects, name, identifier))

    def organisations_of_activation(self, identifier: str) -> list[Organisation]:
        """The same for an activation, that of an environment itself included."""

        def having(name: str) -> ObjectView | None:
            place = self.activation_place(name, identifier)
            return (place.activation or place.project) if place else None

        return self._organisations(having)

    def _organisations(self, having: Callable[[str], ObjectView | None]) -> list[Organisation]:
        found = [(claimant, one) for one in self.organisations() if (claimant := having(one.namespace))]
        return [organisation for _, organisation in sorted(found, key=lambda item: id_claim(item[0]))]

    def activation_place(self, namespace: str, identifier: str) -> "ActivationPlace | None":
        """Where the activation with this id is, of a user or of an environment itself; None when it is nowhere."""
        canonical = parse_id(identifier)
        if canonical is None:
            return None
        for project in sorted(
            self.projects.by_index("static", indexes.key(namespace, canonical)), key=id_claim
        ):
            for name in indexes.environment_names(project):
                if static_activation_id(environment_id(object_id(project), name)) == canonical:
                    return ActivationPlace(project, name)
        found = self.find(self.activations, namespace, canonical)
        owner = self.referred(self.projects, found, "projectRef") if found else None
        if found is None or owner is None:
            return None
        of_user = found["spec"].get("endUserRef")
        return ActivationPlace(owner, found["spec"]["environment"], found if of_user else None)

    def quotas(self, namespace: str, defaults: Quotas) -> OrganisationQuotas:
        """The quotas of the organisation that a namespace is."""
        return quotas_of(self.namespaces.get("", namespace), defaults)

    def readable_namespace_of(self, organisation: str) -> str | None:
        """The same as ``namespace_of``; ApiError 503 until the Secrets in it were read once."""
        namespace = self.namespace_of(organisation)
        if namespace is not None:
            self.require_secrets(namespace)
        return namespace

    def serves(self, organisation: str) -> bool:
        """Whether this is an organisation that the API serves; ApiError 503 before the first sync."""
        return self.namespace_of(organisation) is not None

    def namespace_of(self, organisation: str) -> str | None:
        """The namespace that is the organisation with this id; ApiError 503 before the first sync."""
        self.require_sync()
        return self._holder(organisation)

    def _holder(self, organisation: str) -> str | None:
        records = self.organisation_records.list() if self.organisation_records else ()
        claimants = self.namespaces.by_index("organisation", organisation)
        return holder(organisation, claimants, records_of(records))

    def find(self, cache: Informer[Stored], namespace: str, identifier: str) -> Stored | None:
        """The object with this id in a namespace; where two claim one id, the first claim has it."""
        canonical = parse_id(identifier)
        if canonical is None:
            return None
        return min(cache.by_index("id", indexes.key(namespace, canonical)), key=id_claim, default=None)

    def require(self, cache: Informer[Stored], namespace: str, identifier: str) -> Stored:
        """The object with this id; ApiError 404 when there is none."""
        found = self.find(cache, namespace, identifier)
        if found is None:
            raise errors.not_found(WORDS[cache.resource.kind], identifier)
        return found

    def user(self, namespace: str, identifier: str) -> EndUserObject | None:
        """The end user with this id, or else with this external id."""
        return self.find(self.users, namespace, identifier) or self.external_user(namespace, identifier)

    def external_user(self, namespace: str, external_id: str) -> EndUserObject | None:
        """The end user with this external id; of several, the one that the operator lets have it."""
        return _first(self.users.by_index("external", indexes.key(namespace, external_id)))

    def user_activation(
        self, namespace: str, project: str, environment: str, external_id: str
    ) -> ActivationObject | None:
        """The oldest activation of the user with this external id in an environment; None when there is none."""
        user = self.external_user(namespace, external_id)
        if user is None:
            return None
        found = self.activations.by_index("user", indexes.key(namespace, user["metadata"]["name"]))
        return _first(
            one
            for one in found
            if (one["spec"]["projectRef"]["name"], one["spec"]["environment"]) == (project, environment)
        )

    def static_activation(self, namespace: str, project: str, environment: str) -> ActivationObject | None:
        """The activation of an environment itself, if there is an object for it: the oldest one."""
        return _first(self.activations.by_index("static", indexes.key(namespace, project, environment)))

    def scale(self, project: ProjectObject, environment: str) -> int:
        """The number of pods that an environment was scaled to, which counts where its project sets none."""
        metadata = project["metadata"]
        name = environment_object_name(metadata["name"], environment)
        found = self.environments.get(metadata["namespace"], name)
        return found["spec"].get("replicas", 1) if found else 1

    def referred(self, cache: Informer[Stored], obj: ObjectView, field: str) -> Stored | None:
        """The object that ``spec.<field>`` names, if it is there."""
        name = (obj["spec"].get(field) or {}).get("name")
        return cache.get(obj["metadata"]["namespace"], name) if name else None

    def referring(self, cache: Informer[Stored], index: str, namespace: str, *parts: str) -> list[Stored]:
        """The objects that an index has under a key, oldest first."""
        return sorted(cache.by_index(index, indexes.key(namespace, *parts)), key=position)

    async def referring_now(
        self, cache: Informer[Stored], field: str, namespace: str, name: str
    ) -> list[Stored]:
        """The objects whose ``spec.<field>`` names this one, as Kubernetes has them, oldest first.

        For what a deletion takes along or is refused for: a cache may not know yet what another replica has made.
        """
        try:
            found: list[Any] = await self._kube.list(
                cache.resource, namespace, field_selector=f"spec.{field}.name={name}"
            )
        except KubeError as error:
            if error.status != HTTPStatus.BAD_REQUEST:
                raise
            # Kubernetes before 1.31 does not select by it.
            found = await self._kube.list(cache.resource, namespace)
        named = (one for one in found if (one["spec"].get(field) or {}).get("name") == name)
        return sorted(named, key=position)


def _remembered(obj: Object) -> Object:
    return strip_managed_fields(remember_update(obj))


def _first(found: Iterable[Stored]) -> Stored | None:
    """The one of these that was made first: they claim something that never changes."""
    return min(found, key=creation_claim, default=None)
