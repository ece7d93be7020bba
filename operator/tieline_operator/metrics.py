"""Prometheus metrics, in a registry of our own."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from threading import Thread
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tieline_core.credentials.refusals import CONDITION
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes.resources import CONNECTIONS, NOTIFICATIONS, PROJECTS
from tieline_core.resources.notifications import NotificationEvent
from tieline_core.resources.projects import DEFAULT_ENVIRONMENT, EnvironmentState
from tieline_operator.apply.conditions import find_condition
from tieline_operator.apply.plan import Object
from tieline_operator.cache.organisations import OrganisationClaim
from tieline_operator.workload.packages import has_ended

QUOTAS = ("environments", "replicas")
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
Objects = Mapping[Resource, Sequence[Object]]


@dataclass(frozen=True, kw_only=True)
class QuotaUsage:
    """What an organisation uses of a quota."""

    namespace: str
    quota: str
    """The quota's field: environments or replicas."""
    used: int
    limit: int


class Metrics:
    """What the operator counts and measures."""

    def __init__(self, *, object_names: bool = False) -> None:
        """``object_names``: whether series name objects and namespaces, readable by all who reach the port."""
        self.registry = CollectorRegistry()
        self.object_names = object_names
        self._stalled: dict[str, Callable[[], float]] = {}
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, buckets=_BUCKETS, registry=self.registry)
        self.reconciles = counter(
            "tieline_operator_reconciles",
            "Reconciles by kind and outcome (ready, failed, in_progress, error, gone)",
            ("kind", "outcome"),
        )
        self.seconds = histogram("tieline_operator_reconcile_seconds", "Duration of a reconcile", ("kind",))
        self.refreshes = counter(
            "tieline_operator_token_refreshes",
            "Looks at due tokens by outcome (renewed, good, nothing, refused, unresolved, misconfigured, "
            "unreachable, kubernetes)",
            ("outcome",),
        )
        for outcome in ("refused", "unreachable", "misconfigured", "kubernetes"):
            # To Prometheus, a series that appears with 1 has not increased.
            self.refreshes.labels(outcome)
        self.refresh_seconds = histogram(
            "tieline_operator_token_refresh_seconds",
            "Duration of a look at due tokens, the provider's answer included",
        )
        self.imports = counter(
            "tieline_operator_imports",
            "Imports of descriptions that have ended, by outcome (imported, refused, busy)",
            ("outcome",),
        )
        self.notifications = counter(
            "tieline_operator_notifications",
            "Attempts to deliver a notification, by type of channel and outcome (delivered, failed)",
            ("type", "outcome"),
        )
        self.drifts = counter(
            "tieline_operator_drift_repaired",
            "Children that others had changed, deleted or scaled, by kind, and were put right",
            ("kind", "what"),
        )
        self.leading = Gauge(
            "tieline_operator_leading", "Whether this replica is the one at work", registry=self.registry
        )
        Gauge(
            "tieline_operator_build_info",
            "Always 1; its label says which release this is",
            ("version",),
            registry=self.registry,
        ).labels(version("tieline")).set(1)

    def watch(
        self,
        *,
        depth: Callable[[], float],
        oldest: Callable[[], float],
        ages: Callable[[], Mapping[str, float]],
        requests: Callable[[], Mapping[tuple[str, str], int]],
    ) -> None:
        """Registers what is read at each scrape: the queue, the watches and the requests."""
        self.registry.register(_Collected(lambda: _work(depth(), oldest(), ages(), dict(requests()))))

    def watch_objects(self, objects: Callable[[], Objects]) -> None:
        """Registers what is read at each scrape: the objects and the environments."""
        self.registry.register(_Collected(lambda: _objects(objects(), names=self.object_names)))

    def watch_organisations(self, duplicates: Callable[[], Mapping[str, OrganisationClaim]]) -> None:
        """Registers what is read at each scrape: the namespaces that carry the id of another one."""
        self.registry.register(_Collected(lambda: _duplicates(duplicates(), names=self.object_names)))

    def watch_quotas(self, usage: Callable[[], Sequence[QuotaUsage]]) -> None:
        """Registers what is read at each scrape: what organisations use of their quotas."""
        self.registry.register(_Collected(lambda: _quotas(usage(), names=self.object_names)))

    def watch_package_jobs(self, jobs: Callable[[], Sequence[Object]]) -> None:
        """Registers what is read at each scrape: the Jobs that install packages."""
        self.registry.register(_Collected(lambda: _package_jobs(jobs())))

    def watch_refreshes(self, *, waiting: Callable[[], float], late: Callable[[], float]) -> None:
        """Registers what is read at each scrape: the tokens that are kept fresh."""
        for name, documentation, read in (
            ("tieline_operator_tokens_kept", "Credentials whose tokens are kept fresh", waiting),
            ("tieline_operator_tokens_late", "Credentials that are due and wait for their turn", late),
        ):
            Gauge(name, documentation, registry=self.registry).set_function(read)

    def watch_notifications(self, waiting: Callable[[], float]) -> None:
        """Registers what is read at each scrape: the notifications that are not delivered yet."""
        Gauge(
            "tieline_operator_notifications_waiting",
            "Notifications that are not delivered yet",
            registry=self.registry,
        ).set_function(waiting)

    def watch_stream_readers(self, stalled: Mapping[str, Callable[[], float]]) -> None:
        """Registers what is read at each scrape: the organisations whose streams cannot be read, by reader."""
        if not self._stalled:
            self.registry.register(_Collected(lambda: [_stalled(self._stalled)]))
        self._stalled |= stalled

    def serve(self, port: int) -> tuple[WSGIServer, Thread]:
        """Serves ``/metrics`` from a thread of its own (so that a busy event loop stays observable)."""
        return start_http_server(port, registry=self.registry)


class _Collected(Collector):
    """Metrics that are read at each scrape."""

    def __init__(self, read: Callable[[], Iterable[Metric]]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        return self._read()


def _gauge(
    name: str, documentation: str, labels: Sequence[str], samples: Iterable[tuple[Sequence[str], float]]
) -> Metric:
    """A gauge with the values of its labels, and the value for each."""
    family = GaugeMetricFamily(name, documentation, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _stalled(readers: Mapping[str, Callable[[], float]]) -> Metric:
    return _gauge(
        "tieline_operator_stream_readers_stalled",
        "Organisations whose streams in the event engine cannot be read, or not be read further, by reader",
        ("reader",),
        [((name,), read()) for name, read in readers.items()],
    )


def _work(
    depth: float, oldest: float, ages: Mapping[str, float], requests: Mapping[tuple[str, str], int]
) -> Iterable[Metric]:
    yield _gauge("tieline_operator_queue_depth", "Objects that wait", (), [((), depth)])
    yield _gauge(
        "tieline_operator_queue_oldest_seconds", "How long the first one has waited", (), [((), oldest)]
    )
    yield _gauge(
        "tieline_operator_watch_age_seconds",
        "Seconds since a watch heard something",
        ("resource",),
        (((resource,), age) for resource, age in ages.items()),
    )
    sent = CounterMetricFamily(
        "tieline_operator_requests",
        "Requests to the API server by verb and resource",
        labels=("verb", "resource"),
    )
    for labels, count in requests.items():
        sent.add_metric(labels, count)
    yield sent


def _duplicates(claims: Mapping[str, OrganisationClaim], *, names: bool) -> Iterable[Metric]:
    # A scrape replaces the label "namespace" with the operator's own.
    named = [((name, name, claim.holder or ""), 1) for name, claim in claims.items()]
    yield _gauge(
        "tieline_operator_duplicate_organisations",
        "Namespaces that carry the organisation of another namespace: 1 for each, or their number",
        ("namespace", "object_namespace", "holder") if names else (),
        named if names else [((), len(claims))],
    )


def _quotas(usage: Sequence[QuotaUsage], *, names: bool) -> Iterable[Metric]:
    exhausted = Tally(one.quota for one in usage if one.used >= one.limit)
    yield _gauge(
        "tieline_operator_quotas_exhausted",
        "Organisations that have nothing left of a quota, by quota (environments, replicas)",
        ("quota",),
        (((quota,), exhausted[quota]) for quota in QUOTAS),
    )
    if not names:
        return
    fullest = sorted(usage, key=lambda one: (one.used < one.limit, one.namespace, one.quota))[:MAX_NAMED]
    labels = ("object_namespace", "quota")
    used = [((one.namespace, one.quota), one.used) for one in fullest]
    limits = [((one.namespace, one.quota), one.limit) for one in fullest]
    yield _gauge("tieline_operator_quota_used", "What an organisation uses of a quota", labels, used)
    yield _gauge("tieline_operator_quota_limit", "The quota of an organisation", labels, limits)


def _package_jobs(jobs: Sequence[Object]) -> Iterable[Metric]:
    found = Tally(_JOB_STATES[has_ended(job)] for job in jobs)
    yield _gauge(
        "tieline_operator_package_jobs",
        "Jobs that install packages, by state (running, complete, failed); those that ended go after five minutes",
        ("state",),
        (((state,), found[state]) for state in _JOB_STATES.values()),
    )


_JOB_STATES = {"": "running", "Complete": "complete", "Failed": "failed"}
_READY = {"True": "true", "False": "false"}
_NAMED = frozenset(
    {
        "Project",
        "Connection",
        "ConnectionTemplate",
        "System",
        "Connector",
        "CredentialGrant",
        "NotificationChannel",
    }
)
"""Kinds whose objects have series of their own. Users, their activations and versions can be any number."""
MAX_NAMED = 2000
"""Objects of a kind, and environments, that have series of their own; those that are not ready come first."""


def _objects(found: Objects, *, names: bool) -> Iterable[Metric]:
    yield from _by_object(found) if names else _by_kind(found)
    tallies = {
        resource.kind: Tally(
            _READY.get((find_condition(item) or {}).get("status", ""), "unknown") for item in items
        )
        for resource, items in found.items()
    }
    yield _gauge(
        "tieline_operator_objects",
        "Objects by kind and by what their Ready says (true, false, unknown)",
        ("kind", "ready"),
        (
            ((kind, ready), tally[ready])
            for kind, tally in tallies.items()
            for ready in ("true", "false", "unknown")
        ),
    )
    states = Tally(state for *_, state in _environments(found))
    yield _gauge(
        "tieline_operator_environments",
        "Environments by status (draft, running, suspended, error)",
        ("status",),
        (((str(state),), states[str(state)]) for state in EnvironmentState),
    )
    yield _incidents(found)
    yield _refused(found.get(CONNECTIONS, ()), names=names)


def _refused(connections: Sequence[Object], *, names: bool) -> Metric:
    refused = sorted(
        _name_of(item)
        for item in connections
        if (find_condition(item, CONDITION) or {}).get("status") == "False"
    )
    return _gauge(
        "tieline_operator_connections_refused",
        "Connections whose credentials their systems refuse: 1 for each, or their number",
        ("object_namespace", "object") if names else (),
        [(name, 1) for name in refused[:MAX_NAMED]] if names else [((), len(refused))],
    )


def _incidents(found: Objects) -> Metric:
    tally = Tally(
        incident["event"]
        for notification in found.get(NOTIFICATIONS, ())
        for incident in notification.get("status", {}).get("incidents", ())
        if "endedAt" not in incident
    )
    return _gauge(
        "tieline_operator_incidents",
        "What is wrong in environments that have notifications, by event",
        ("event",),
        (((str(event),), tally[str(event)]) for event in NotificationEvent),
    )


def _by_kind(found: Objects) -> Iterable[Metric]:
    """The same metrics without names, for the same queries: a missing label is an empty one to Prometheus."""
    named = {resource.kind: items for resource, items in found.items() if resource.kind in _NAMED}
    states = Tally((state, _is_production(name)) for *_, name, state in _environments(found))
    yield _gauge(
        "tieline_operator_object_ready",
        "0 where the Ready of an object of the kind is not True, else 1",
        ("kind",),
        (((kind,), min(map(_is_ready, items), default=1)) for kind, items in named.items()),
    )
    yield _gauge(
        "tieline_operator_environment_status",
        "Environments that have the status; production is true for those of that name",
        ("status", "production"),
        (((state, production), count) for (state, production), count in sorted(states.items())),
    )
    unnamed = {**{kind: len(items) for kind, items in named.items()}, "Environment": states.total()}
    yield _unnamed("Objects and environments that have no series of their own", unnamed)


def _by_object(found: Objects) -> Iterable[Metric]:
    named = {
        resource.kind: sorted((_is_ready(item), *_name_of(item)) for item in items)
        for resource, items in found.items()
        if resource.kind in _NAMED
    }
    environments = sorted(_environments(found))
    yield _gauge(
        "tieline_operator_object_ready",
        f"1 where an object's Ready is True, else 0; at most {MAX_NAMED} of each kind, those with 0 first",
        ("kind", "object_namespace", "object"),
        (((kind, *name), value) for kind, items in named.items() for value, *name in items[:MAX_NAMED]),
    )
    yield _gauge(
        "tieline_operator_environment_status",
        f"1 for the status that an environment has; at most {MAX_NAMED} environments, those in error first",
        ("object_namespace", "project", "environment", "status", "production"),
        (
            ((*names, name, state, _is_production(name)), 1)
            for _, *names, name, state in environments[:MAX_NAMED]
        ),
    )
    counts = {**{kind: len(items) for kind, items in named.items()}, "Environment": len(environments)}
    yield _unnamed(
        "Objects and environments beyond those that have series of their own",
        {kind: max(0, count - MAX_NAMED) for kind, count in counts.items()},
    )


def _unnamed(documentation: str, counts: Mapping[str, int]) -> Metric:
    samples = (((kind,), count) for kind, count in counts.items())
    return _gauge("tieline_operator_objects_unnamed", documentation, ("kind",), samples)


def _is_ready(item: Object) -> int:
    return int((find_condition(item) or {}).get("status") == "True")


def _name_of(item: Object) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _is_production(environment: str) -> str:
    return "true" if environment == DEFAULT_ENVIRONMENT else "false"


def _environments(found: Objects) -> Iterable[tuple[int, str, str, str, str]]:
    for project in found.get(PROJECTS, ()):
        for environment in project.get("status", {}).get("environments", ()):
            state = str(environment.get("status", EnvironmentState.DRAFT))
            order = int(state != EnvironmentState.ERROR)
            yield order, *_name_of(project), environment.get("name", ""), state
