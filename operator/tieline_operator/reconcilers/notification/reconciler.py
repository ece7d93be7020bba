"""Notification: what is wrong in the environment, and what to report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cachetools import LRUCache

from tieline_core.engine.approval_reports import ApprovalReport
from tieline_core.engine.issue_reports import IssueReport
from tieline_core.identity.ids import environment_id, format_time
from tieline_core.kubernetes.resources import (
    ACTIVATIONS,
    CONFIG_MAPS,
    CONNECTION_TEMPLATES,
    CONNECTIONS,
    NOTIFICATION_CHANNELS,
    NOTIFICATIONS,
    PROJECTS,
)
from tieline_core.resources import Notification, Project
from tieline_core.resources.notifications import (
    APPROVAL_EVENTS,
    ISSUE_EVENTS,
    LIFECYCLE_EVENTS,
    MAX_INCIDENTS,
    Incident,
    NotificationEvent,
)
from tieline_core.resources.parsed_cache import PROJECT
from tieline_core.resources.projects import EnvironmentState, EnvironmentStatus
from tieline_operator.apply.conditions import find_condition, has_failed
from tieline_operator.apply.plan import (
    Creation,
    Deletion,
    Key,
    Object,
    Outcome,
    Plan,
    PlannedEvent,
    earliest,
    failed,
    in_progress,
    ready,
)
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.indexers import joined, key_of, ref
from tieline_operator.cache.organisations import organisation
from tieline_operator.reconcilers.notification.approval_messages import approval_message
from tieline_operator.reconcilers.notification.approval_messages import headline as approval_headline
from tieline_operator.reconcilers.notification.deliveries import (
    NO_APPROVALS,
    NO_DELIVERIES,
    NO_ISSUES,
    NO_RUNS,
    NO_SCHEDULES,
    Approvals,
    Deliveries,
    Issues,
    Runs,
    Schedules,
)
from tieline_operator.reconcilers.notification.detection import (
    POLL_SECONDS,
    ObservedTarget,
    RunCounts,
    detect,
)
from tieline_operator.reconcilers.notification.incidents import Followed, follow, message_ids
from tieline_operator.reconcilers.notification.issue_messages import issue_message, sentence
from tieline_operator.reconcilers.notification.ledger import LedgerReader, ledgers_of, replacement
from tieline_operator.reconcilers.notification.lifecycle import MAX_FOLLOWED, LifecycleStep, step
from tieline_operator.reconcilers.notification.lifecycle_messages import lifecycle_message
from tieline_operator.reconcilers.notification.messages import REASONS, Message, Place, message_of
from tieline_operator.reconcilers.notification.reports import ReportStep, reports_due, settled_until
from tieline_operator.reconcilers.notification.schedules import missed_schedules
from tieline_operator.reconcilers.notification.tracked import tracked
from tieline_operator.reconcilers.references import not_found
from tieline_operator.reconcilers.uniqueness import id_conflict

_MAX_CONNECTIONS = 1000
DEAD_RUN_WAIT = timedelta(seconds=2.5 * POLL_SECONDS)
"""How long run_dead waits for the newest dead run: two polls of the run history, and then some."""
_MAX_WAITING = 10_000
_RECHECK_SECONDS = 60.0
"""Statistics of runs change without an event."""
_WRITTEN_SECONDS = 1.0
_LEDGER_SECONDS = 1.0
"""Until a ledger that the cache shows can be read."""


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
    ledgers: Sequence[Object] = ()
    """The ConfigMaps with what was reported of connections and activations."""
    lifecycle_since: datetime | None = None
    lifecycle: LifecycleStep | None = None
    """What to report of them; None where nobody wants to know."""
    issues: ReportStep[IssueReport] | None = None
    """What is to be sent of issues; None where nobody wants to know, or nothing is known."""
    approvals: ReportStep[ApprovalReport] | None = None
    """The same of approvals."""


@dataclass(eq=False)
class NotificationReconciler:
    """Reconciles notifications."""

    deliveries: Deliveries = NO_DELIVERIES
    runs: Runs = NO_RUNS
    schedules: Schedules = NO_SCHEDULES
    issues: Issues = NO_ISSUES
    approvals: Approvals = NO_APPROVALS
    _ledgers: LedgerReader = field(default_factory=LedgerReader)
    _waiting: LRUCache[Key, datetime] = field(default_factory=lambda: LRUCache(_MAX_WAITING))
    """Since when Notifications wait for the newest dead run. A restart waits again."""

    async def reconcile(self, cache: ClusterCache, obj: Object, now: datetime) -> Plan:
        """Observes the Notification, plans, and has delivered what is due."""
        key = key_of(NOTIFICATIONS, obj)
        observed = await self._observe(cache, obj, now)
        followed = followed_incidents(observed, now)
        known = message_ids(observed.notification.metadata.uid, observed.notification.status.incidents)
        if observed.lifecycle is not None:
            known |= observed.lifecycle.known
        for reported in (observed.issues, observed.approvals):
            known |= reported.known if reported is not None else frozenset()
        self.deliveries.deliver(key, due_messages(observed, followed), known=known)
        return plan(observed, followed, obj)

    async def _observe(self, cache: ClusterCache, obj: Object, now: datetime) -> ObservedNotification:
        notification = Notification.read(obj)
        spec, namespace = notification.spec, notification.namespace
        found = cache[PROJECTS].get(namespace, spec.project_ref.name)
        project = PROJECT.of(found) if found else None
        claim = organisation(cache, namespace)
        delivered = self.deliveries.delivered(key_of(NOTIFICATIONS, obj))
        since = notification.status.lifecycle_since or now.replace(microsecond=0)
        ledgers = ledgers_of(cache, obj)
        return ObservedNotification(
            notification=notification,
            id_conflict=id_conflict(obj, cache[NOTIFICATIONS]),
            channel=cache[NOTIFICATION_CHANNELS].get(namespace, spec.channel_ref.name),
            project=project,
            organisation_id=claim.id if claim else "",
            target=await self._target(cache, project, notification, now),
            delivered=delivered,
            ledgers=ledgers,
            lifecycle_since=since,
            lifecycle=await self._lifecycle(
                cache, project, notification, ledgers, since=since, delivered=delivered, now=now
            ),
            issues=reports_due(
                project,
                notification,
                self.issues.reports,
                events=ISSUE_EVENTS,
                until=notification.status.issues_until,
                delivered=delivered,
                now=now,
            ),
            approvals=reports_due(
                project,
                notification,
                self.approvals.reports,
                events=APPROVAL_EVENTS,
                until=notification.status.approvals_until,
                delivered=delivered,
                now=now,
                is_current=lambda report: report.is_open(now.timestamp()),
            ),
        )

    async def _lifecycle(
        self,
        cache: ClusterCache,
        project: Project | None,
        notification: Notification,
        ledgers: Sequence[Object],
        *,
        since: datetime,
        delivered: Mapping[str, datetime],
        now: datetime,
    ) -> LifecycleStep | None:
        """What to report of connections and activations; None where nobody wants to know, or nothing is known."""
        spec = notification.spec
        events = spec.effective_events & LIFECYCLE_EVENTS
        if not events or project is None:
            return None
        stored = await self._ledgers.read(cache, ledgers)
        if stored is None:
            return None
        found = tracked(cache, project, spec.environment)
        return step(
            notification.metadata.uid,
            stored,
            found,
            events=events,
            since=since,
            delivered=delivered,
            now=now,
        )

    async def _target(
        self, cache: ClusterCache, project: Project | None, notification: Notification, now: datetime
    ) -> ObservedTarget:
        spec = notification.spec
        environment = spec.environment
        statuses = project.status.environments if project else ()
        status = next((item for item in statuses if item.name == environment), None)
        if project is None or status is None:
            return ObservedTarget(status=None)
        runs = self.runs.counts(project.namespace, environment_id(project.id, environment))
        with_schedules = NotificationEvent.SCHEDULE_MISSED in spec.effective_events
        return ObservedTarget(
            status=status,
            connections=_connections(cache, project, environment),
            runs=runs,
            missed=self._missed(project, status, now) if with_schedules else None,
            awaits_dead_run=self._awaits_dead_run(notification, status, runs, now),
        )

    def _awaits_dead_run(
        self, notification: Notification, status: EnvironmentStatus, runs: RunCounts | None, now: datetime
    ) -> bool:
        key = Key(NOTIFICATIONS.kind, notification.namespace, notification.name)
        is_wanted = NotificationEvent.RUN_DEAD in notification.spec.effective_events
        if not is_wanted or not status.dead_letters or (runs and runs.last_dead):
            self._waiting.pop(key, None)
            return False
        return now - self._waiting.setdefault(key, now) < DEAD_RUN_WAIT

    def _missed(
        self, project: Project, status: EnvironmentStatus, now: datetime
    ) -> Mapping[str, datetime] | None:
        """The schedules of an environment that did not run when they were due; None while that is not known.

        An environment that is stopped misses none, and neither does a schedule that is paused.
        """
        stopped = status.status in (EnvironmentState.SUSPENDED, EnvironmentState.DRAFT)
        if stopped or status.workload is None or status.deployed_at is None:
            return {}
        records = self.schedules.records(project.namespace, environment_id(project.id, status.name))
        if records is None:
            return None
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
    messages: list[Message] = [
        message_of(channel=channel, uid=uid, incident=incident, phase=phase, place=place)
        for incident, phase in followed.due
    ]
    if observed.issues is not None and notification.status.issues_until:
        messages += [
            issue_message(channel=channel, uid=uid, due=one, place=place) for one in observed.issues.due
        ]
    if observed.approvals is not None and notification.status.approvals_until:
        messages += [
            approval_message(channel=channel, uid=uid, due=one, place=place) for one in observed.approvals.due
        ]
    if observed.lifecycle is None or not notification.status.lifecycle_since:
        return messages
    return messages + [
        lifecycle_message(channel=channel, uid=uid, change=change, place=place)
        for change in observed.lifecycle.due
    ]


def plan(observed: ObservedNotification, followed: Followed, obj: Object) -> Plan:
    """Ready when there is an environment to look at and a channel to tell it to."""
    incidents = [_stored(one) for one in followed.incidents]
    events = [PlannedEvent(REASONS[one.event], one.message) for one in followed.begun]
    events += [
        PlannedEvent(f"{REASONS[one.event]}Resolved", _over(one), warning=False) for one in followed.ended
    ]
    if observed.issues is not None:
        events += [
            PlannedEvent(REASONS[NotificationEvent(one.event)], sentence(one)) for one in observed.issues.sent
        ]
    if observed.approvals is not None:
        # Who may read events may not be who may see what is asked.
        events += [
            PlannedEvent(REASONS[NotificationEvent(one.event)], approval_headline(one), warning=False)
            for one in observed.approvals.sent
        ]
    recheck = _RECHECK_SECONDS if observed.target.status is not None else None
    status: dict[str, object] = {"incidents": incidents} if incidents else {}
    creations, deletions, since = _ledger_changes(observed, obj)
    if since is not None:
        status["lifecycleSince"] = format_time(since)
    spec, stored = observed.notification.spec, observed.notification.status
    for name, reported, until, wanted in (
        ("issuesUntil", observed.issues, stored.issues_until, ISSUE_EVENTS),
        ("approvalsUntil", observed.approvals, stored.approvals_until, APPROVAL_EVENTS),
    ):
        is_wanted = bool(spec.effective_events & wanted)
        if (settled := settled_until(reported, until, is_wanted=is_wanted)) is not None:
            status[name] = format_time(settled)
    return Plan(
        outcome=_outcome(observed, followed),
        status=status,
        creations=tuple(creations),
        deletions=tuple(deletions),
        events=tuple(events),
        requeue_after=earliest(
            followed.requeue_after, recheck, _lifecycle_delay(observed), _reports_delay(observed)
        ),
    )


def _reports_delay(observed: ObservedNotification) -> float | None:
    """Messages are sent for what the stored status holds: when it holds where reports begin."""
    stored = observed.notification.status
    is_first = (observed.issues is not None and not stored.issues_until) or (
        observed.approvals is not None and not stored.approvals_until
    )
    return _WRITTEN_SECONDS if is_first else None


def _lifecycle_delay(observed: ObservedNotification) -> float | None:
    """When to look at connections and activations again: no event of a ledger comes."""
    if observed.lifecycle is not None:
        return observed.lifecycle.requeue_after
    is_wanted = bool(observed.notification.spec.effective_events & LIFECYCLE_EVENTS)
    return _LEDGER_SECONDS if is_wanted and observed.project is not None else None


def _ledger_changes(
    observed: ObservedNotification, obj: Object
) -> tuple[Sequence[Creation], Sequence[Deletion], datetime | None]:
    """What makes the ledger say what was reported by now, and since when changes are reported."""
    notification, lifecycle = observed.notification, observed.lifecycle
    if not notification.spec.effective_events & LIFECYCLE_EVENTS:
        return (), [Deletion.of(CONFIG_MAPS, one) for one in observed.ledgers], None
    if lifecycle is None:  # the project is gone, or the ledger cannot be read yet: it stays as it is
        return (), (), notification.status.lifecycle_since
    creations, deletions = replacement(obj, lifecycle.ledger, observed.ledgers)
    return creations, deletions, observed.lifecycle_since


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
    return ready("Watching", _summary(followed) + _not_followed(observed.lifecycle))


def _not_followed(lifecycle: LifecycleStep | None) -> str:
    if lifecycle is None or not lifecycle.omitted:
        return ""
    return f"; {lifecycle.omitted} connections and activations are not followed (at most {MAX_FOLLOWED} are)"


def _summary(followed: Followed) -> str:
    current = [one for one in followed.incidents if one.ended_at is None]
    if not current:
        return "No incident to report"
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
