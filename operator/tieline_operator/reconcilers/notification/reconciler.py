"""Notification: what is wrong in the environment, and what is to be told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tieline_core.identity.ids import environment_id, format_time
from tieline_core.identity.names import schedules_name
from tieline_core.kubernetes.resources import (
    ACTIVATIONS,
    CONFIG_MAPS,
    CONNECTION_TEMPLATES,
    CONNECTIONS,
    NAMESPACES,
    NOTIFICATION_CHANNELS,
    NOTIFICATIONS,
    PROJECTS,
)
from tieline_core.resources import Notification, Project
from tieline_core.resources.notifications import MAX_INCIDENTS, Incident, NotificationEvent, NotificationSpec
from tieline_core.resources.parsed_cache import PROJECT
from tieline_core.resources.projects import EnvironmentState, EnvironmentStatus
from tieline_operator.apply.conditions import find_condition, has_failed
from tieline_operator.apply.plan import Key, Object, Outcome, Plan, PlannedEvent, failed, in_progress, ready
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.indexers import joined, key_of, ref
from tieline_operator.cache.organisations import organisation
from tieline_operator.reconcilers.notification.deliveries import (
    NO_DELIVERIES,
    NO_RUNS,
    Deliveries,
    Runs,
    Schedules,
)
from tieline_operator.reconcilers.notification.detection import ObservedTarget, detect
from tieline_operator.reconcilers.notification.incidents import Followed, follow, message_ids
from tieline_operator.reconcilers.notification.messages import REASONS, Message, Place, message_of
from tieline_operator.reconcilers.notification.schedules import missed_schedules, records_in
from tieline_operator.reconcilers.references import not_found
from tieline_operator.reconcilers.uniqueness import id_conflict

_MAX_CONNECTIONS = 1000
_RECHECK_SECONDS = 60.0
"""Statistics of runs change without an event."""


@dataclass(frozen=True, kw_only=True)
class ObservedNotification:
    """A Notification with what it refers to."""

    notification: Notification
    id_conflict: Outcome | None = None
    channel: Object | None = None
    project: Project | None = None
    organisation_id: str = ""
    target: ObservedTarget = field(default_factory=lambda: ObservedTarget(status=None))
    delivered: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(eq=False)
class NotificationReconciler:
    """Reconciles notifications."""

    deliveries: Deliveries = NO_DELIVERIES
    runs: Runs = NO_RUNS
    schedules: Schedules | None = None
    """None where there is no event engine: then records are in ConfigMaps."""

    async def reconcile(self, cache: ClusterCache, obj: Object, now: datetime) -> Plan:
        """Observes the Notification, plans, and has delivered what is due."""
        key = key_of(NOTIFICATIONS, obj)
        observed = await self._observe(cache, obj, now)
        followed = followed_incidents(observed, now)
        known = message_ids(observed.notification.metadata.uid, observed.notification.status.incidents)
        self.deliveries.deliver(key, due_messages(observed, followed), known=known)
        return plan(observed, followed)

    async def _observe(self, cache: ClusterCache, obj: Object, now: datetime) -> ObservedNotification:
        notification = Notification.read(obj)
        spec, namespace = notification.spec, notification.namespace
        found = cache[PROJECTS].get(namespace, spec.project_ref.name)
        project = PROJECT.of(found) if found else None
        claim = organisation(cache[NAMESPACES], namespace)
        return ObservedNotification(
            notification=notification,
            id_conflict=id_conflict(obj, cache[NOTIFICATIONS]),
            channel=cache[NOTIFICATION_CHANNELS].get(namespace, spec.channel_ref.name),
            project=project,
            organisation_id=claim.id if claim else "",
            target=await self._target(cache, project, spec, now),
            delivered=self.deliveries.delivered(key_of(NOTIFICATIONS, obj)),
        )

    async def _target(
        self, cache: ClusterCache, project: Project | None, spec: NotificationSpec, now: datetime
    ) -> ObservedTarget:
        environment = spec.environment
        statuses = project.status.environments if project else ()
        status = next((item for item in statuses if item.name == environment), None)
        if project is None or status is None:
            return ObservedTarget(status=None)
        with_schedules = NotificationEvent.SCHEDULE_MISSED in spec.effective_events
        return ObservedTarget(
            status=status,
            connections=_connections(cache, project, environment),
            runs=self.runs.counts(project.namespace, environment_id(project.id, environment)),
            missed=await self._missed(cache, project, status, now) if with_schedules else None,
        )

    async def _missed(
        self, cache: ClusterCache, project: Project, status: EnvironmentStatus, now: datetime
    ) -> Mapping[str, datetime] | None:
        """The schedules of an environment that did not run when they were due.

        An environment that is stopped misses none, and neither does a schedule that is paused.
        """
        stopped = status.status in (EnvironmentState.SUSPENDED, EnvironmentState.DRAFT)
        if stopped or status.workload is None or status.deployed_at is None:
            return {}
        # With an event engine only what was not carried over to it yet is in a ConfigMap.
        records = await _records(cache, project.namespace, status.workload)
        if self.schedules is not None:
            known = self.schedules.records(project.namespace, environment_id(project.id, status.name))
            if known is None:
                return None
            records |= known
        missed = missed_schedules(records, deployed_at=status.deployed_at, now=now)
        environments = project.spec.effective_environments()
        paused = {one for item in environments if item.name == status.name for one in item.paused_schedules}
        return {schedule: due for schedule, due in missed.items() if schedule not in paused}


def followed_incidents(observed: ObservedNotification, now: datetime) -> Followed:
    """What becomes of the incidents that the status holds."""
    notification = observed.notification
    spec, stored = notification.spec, notification.status.incidents
    detection = detect(observed.target, spec.effective_events, spec.failure_rate, stored)
    return follow(notification.metadata.uid, stored, detection, delivered=observed.delivered, now=now)


def due_messages(observed: ObservedNotification, followed: Followed) -> Sequence[Message]:
    """What is to be delivered now."""
    notification, project = observed.notification, observed.project
    spec = notification.spec
    if observed.id_conflict:
        return ()
    identifier = project.id if project else ""
    place = Place(
        namespace=notification.namespace,
        organisation_id=observed.organisation_id,
        project=spec.project_ref.name,
        project_id=identifier,
        project_title=project.spec.name if project else spec.project_ref.name,
        environment=spec.environment,
        environment_id=environment_id(identifier, spec.environment) if identifier else "",
    )
    channel = Key(NOTIFICATION_CHANNELS.kind, notification.namespace, spec.channel_ref.name)
    uid = notification.metadata.uid
    return [
        message_of(channel=channel, uid=uid, incident=incident, phase=phase, place=place)
        for incident, phase in followed.due
    ]


def plan(observed: ObservedNotification, followed: Followed) -> Plan:
    """Ready when there is an environment to look at and a channel to tell it to."""
    incidents = [_stored(one) for one in followed.incidents]
    events = [PlannedEvent(REASONS[one.event], one.message) for one in followed.begun]
    events += [
        PlannedEvent(f"{REASONS[one.event]}Resolved", _over(one), warning=False) for one in followed.ended
    ]
    recheck = _RECHECK_SECONDS if observed.target.status is not None else None
    delays = [delay for delay in (followed.requeue_after, recheck) if delay is not None]
    return Plan(
        outcome=_outcome(observed, followed),
        status={"incidents": incidents} if incidents else {},
        events=tuple(events),
        requeue_after=min(delays, default=None),
    )


def _outcome(observed: ObservedNotification, followed: Followed) -> Outcome:
    notification, channel = observed.notification, observed.channel
    spec, namespace = notification.spec, notification.namespace
    if observed.id_conflict:
        return observed.id_conflict
    if observed.project is None:
        return not_found("ProjectNotFound", spec.project_ref.name, namespace, "notification", "for another")
    if all(item.name != spec.environment for item in observed.project.spec.effective_environments()):
        return failed(
            "EnvironmentNotFound",
            f'Project "{observed.project.name}" has no environment "{spec.environment}"; add it there, '
            "or create a notification for another one",
        )
    if channel is None:
        name = spec.channel_ref.name
        return failed(
            "NotificationChannelNotFound",
            f'NotificationChannel "{name}" does not exist in namespace {namespace}; create it, '
            "or correct channelRef",
        )
    condition = find_condition(channel)
    if condition and has_failed(channel):
        message = condition["message"][:1024]
        return failed("ChannelNotReady", f'Channel "{channel["metadata"]["name"]}": {message}')
    if condition is None:
        return in_progress("ChannelUnchecked", f'Channel "{channel["metadata"]["name"]}" is being checked')
    return ready("Watching", _summary(followed))


def _summary(followed: Followed) -> str:
    current = [one for one in followed.incidents if one.ended_at is None]
    if not current:
        return "Nothing is wrong that would be told"
    omitted = (
        f"; {followed.omitted} more are not followed (at most {MAX_INCIDENTS} are)"
        if followed.omitted
        else ""
    )
    return f"Goes on: {', '.join(one.key for one in current[:5])}{', …' if len(current) > 5 else ''}{omitted}"


def _stored(incident: Incident) -> dict[str, object]:
    moments = {"since": incident.since, "notifiedAt": incident.notified_at, "endedAt": incident.ended_at}
    shown = {name: format_time(moment) for name, moment in moments.items() if moment is not None}
    subject = {"subject": incident.subject} if incident.subject else {}
    return {
        "key": incident.key,
        "event": str(incident.event),
        **subject,
        "message": incident.message,
        **shown,
    }


def _over(incident: Incident) -> str:
    return f"Over: {incident.message}"


async def _records(cache: ClusterCache, namespace: str, workload: str) -> dict[str, str | bytes]:
    """The records of schedules that are in a ConfigMap."""
    name = schedules_name(workload)
    # Its contents are in no cache; most environments have none.
    if cache[CONFIG_MAPS].get(namespace, name) is None:
        return {}
    found = await cache.config_map(namespace, name)
    return records_in((found or {}).get("data") or {})


def _connections(cache: ClusterCache, project: Project, environment: str) -> Sequence[Object]:
    """The connections that an environment's templates and activations use, up to a bound."""
    namespace = project.namespace
    key = joined(namespace, project.name, environment)
    names = {
        ref(template, "connectionRef")
        for template in cache[CONNECTION_TEMPLATES].by_index("environment", key)
    }
    for activation in cache[ACTIVATIONS].by_index("environment", key):
        if len(names) >= _MAX_CONNECTIONS:
            break
        for item in activation["spec"].get("connections") or ():
            names.add((item.get("connectionRef") or {}).get("name"))
    found = (cache[CONNECTIONS].get(namespace, name) for name in sorted(filter(None, names)))
    return [connection for connection in found if connection is not None]
