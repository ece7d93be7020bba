"""Prometheus metrics, in a registry of our own."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from threading import Thread
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tieline_core.kubernetes import Resource
from tieline_core.kubernetes.resources import PROJECTS
from tieline_core.resources.projects import EnvironmentState
from tieline_operator.apply.conditions import find_condition
from tieline_operator.apply.plan import Object
from tieline_operator.cache.organisations import OrganisationClaim

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """What the operator counts and measures."""

    def __init__(self, *, object_names: bool = False) -> None:
        """``object_names``: whether series name objects and namespaces, readable by all who reach the port."""
        self.registry = CollectorRegistry()
        self.object_names = object_names
        self.reconciles = Counter(
            "tieline_operator_reconciles",
            "Reconciles by kind and outcome (ready, failed, in_progress, error, gone)",
            ("kind", "outcome"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "tieline_operator_reconcile_seconds",
            "Duration of a reconcile",
            ("kind",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.refreshes = Counter(
            "tieline_operator_token_refreshes",
            "Looks at due tokens by outcome (renewed, good, nothing, refused, unresolved, misconfigured, "
            "unreachable, kubernetes)",
            ("outcome",),
            registry=self.registry,
        )
        self.refresh_seconds = Histogram(
            "tieline_operator_token_refresh_seconds",
            "Duration of a look at due tokens, the provider's answer included",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.imports = Counter(
            "tieline_operator_imports",
            "Imports of descriptions that have ended, by outcome (imported, refused, busy)",
            ("outcome",),
            registry=self.registry,
        )
        self.drifts = Counter(
            "tieline_operator_drift_repaired",
            "Children that others had changed, deleted or scaled, by kind, and were put right",
            ("kind", "what"),
            registry=self.registry,
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
        self.registry.register(_Read(depth=depth, oldest=oldest, ages=ages, requests=requests))

    def watch_objects(self, objects: Callable[[], Mapping[Resource, Sequence[Object]]]) -> None:
        """Registers what is read at each scrape: the objects and the environments."""
        self.registry.register(_Objects(objects, names=self.object_names))

    def watch_organisations(self, duplicates: Callable[[], Mapping[str, OrganisationClaim]]) -> None:
        """Registers what is read at each scrape: the namespaces that carry the id of an older one."""
        self.registry.register(_Duplicates(duplicates, names=self.object_names))

    def watch_refreshes(self, *, waiting: Callable[[], float], late: Callable[[], float]) -> None:
        """Registers what is read at each scrape: the tokens that are kept fresh."""
        for name, documentation, read in (
            ("tieline_operator_tokens_kept", "Credentials whose tokens are kept fresh", waiting),
            ("tieline_operator_tokens_late", "Credentials that are due and wait for their turn", late),
        ):
            Gauge(name, documentation, registry=self.registry).set_function(read)

    def serve(self, port: int) -> tuple[WSGIServer, Thread]:
        """Serves ``/metrics`` from a thread of its own (so that a busy event loop stays observable)."""
        return start_http_server(port, registry=self.registry)


class _Read(Collector):
    def __init__(
        self,
        *,
        depth: Callable[[], float],
        oldest: Callable[[], float],
        ages: Callable[[], Mapping[str, float]],
        requests: Callable[[], Mapping[tuple[str, str], int]],
    ) -> None:
        self._depth = depth
        self._oldest = oldest
        self._ages = ages
        self._requests = requests

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        yield GaugeMetricFamily("tieline_operator_queue_depth", "Objects that wait", value=self._depth())
        yield GaugeMetricFamily(
            "tieline_operator_queue_oldest_seconds", "How long the first one has waited", value=self._oldest()
        )
        ages = GaugeMetricFamily(
            "tieline_operator_watch_age_seconds",
            "Seconds since a watch heard something",
            labels=("resource",),
        )
        for resource, age in self._ages().items():
            ages.add_metric((resource,), age)
        yield ages
        requests = CounterMetricFamily(
            "tieline_operator_requests",
            "Requests to the API server by verb and resource",
            labels=("verb", "resource"),
        )
        for (verb, resource), count in dict(self._requests()).items():
            requests.add_metric((verb, resource), count)
        yield requests


class _Duplicates(Collector):
    def __init__(self, duplicates: Callable[[], Mapping[str, OrganisationClaim]], *, names: bool) -> None:
        self._read = duplicates
        self._names = names

    def collect(self) -> Iterable[GaugeMetricFamily]:
        found = GaugeMetricFamily(
            "tieline_operator_duplicate_organisations",
            "Namespaces that carry the organisation of an older namespace: 1 for each, or their number",
            labels=("namespace", "object_namespace", "older") if self._names else (),
        )
        claims = self._read()
        if not self._names:
            found.add_metric((), len(claims))
        else:
            for name, claim in claims.items():
                # A scrape replaces the label "namespace" with the operator's own.
                found.add_metric((name, name, claim.older or ""), 1)
        yield found


_READY = {"True": "true", "False": "false"}
_NAMED = frozenset({"Project", "Connection", "ConnectionTemplate", "System", "Connector", "CredentialGrant"})
"""Kinds whose objects have series of their own. Users, their activations and versions can be any number."""
MAX_NAMED = 2000
"""Objects of a kind, and environments, that have series of their own; those that are not ready come first."""


class _Objects(Collector):
    def __init__(self, objects: Callable[[], Mapping[Resource, Sequence[Object]]], *, names: bool) -> None:
        self._read = objects
        self._names = names

    def collect(self) -> Iterable[GaugeMetricFamily]:
        yield from self._by_object() if self._names else self._by_kind()
        objects = GaugeMetricFamily(
            "tieline_operator_objects",
            "Objects by kind and by what their Ready says (true, false, unknown)",
            labels=("kind", "ready"),
        )
        found = self._read()
        for resource, items in found.items():
            tally = Tally(
                _READY.get((find_condition(item) or {}).get("status", ""), "unknown") for item in items
            )
            for ready in ("true", "false", "unknown"):
                objects.add_metric((resource.kind, ready), tally[ready])
        yield objects
        environments = GaugeMetricFamily(
            "tieline_operator_environments",
            "Environments by status (draft, running, suspended, error)",
            labels=("status",),
        )
        states = Tally(
            str(environment.get("status", "draft"))
            for project in found.get(PROJECTS, ())
            for environment in project.get("status", {}).get("environments", ())
        )
        for state in EnvironmentState:
            environments.add_metric((str(state),), states[str(state)])
        yield environments

    def _by_kind(self) -> Iterable[GaugeMetricFamily]:
        """The same metrics without names, for the same queries: a missing label is an empty one to Prometheus."""
        found = self._read()
        ready = GaugeMetricFamily(
            "tieline_operator_object_ready",
            "0 where the Ready of an object of the kind is not True, else 1",
            labels=("kind",),
        )
        unnamed = GaugeMetricFamily(
            "tieline_operator_objects_unnamed",
            "Objects and environments that have no series of their own",
            labels=("kind",),
        )
        for resource, items in found.items():
            if resource.kind in _NAMED:
                ready.add_metric((resource.kind,), min(map(_is_ready, items), default=1))
                unnamed.add_metric((resource.kind,), len(items))
        yield ready
        status = GaugeMetricFamily(
            "tieline_operator_environment_status",
            "Environments that have the status",
            labels=("status",),
        )
        states = Tally(labels[-1] for _, *labels in _environments(found.get(PROJECTS, ())))
        for state, count in sorted(states.items()):
            status.add_metric((state,), count)
        unnamed.add_metric(("Environment",), states.total())
        yield status
        yield unnamed

    def _by_object(self) -> Iterable[GaugeMetricFamily]:
        found = self._read()
        ready = GaugeMetricFamily(
            "tieline_operator_object_ready",
            f"1 where an object's Ready is True, else 0; at most {MAX_NAMED} of each kind, those with 0 first",
            labels=("kind", "object_namespace", "object"),
        )
        unnamed = GaugeMetricFamily(
            "tieline_operator_objects_unnamed",
            "Objects and environments beyond those that have series of their own",
            labels=("kind",),
        )
        for resource, items in found.items():
            if resource.kind not in _NAMED:
                continue
            values = sorted((_is_ready(item), *_name_of(item)) for item in items)
            for value, namespace, name in values[:MAX_NAMED]:
                ready.add_metric((resource.kind, namespace, name), value)
            unnamed.add_metric((resource.kind,), max(0, len(values) - MAX_NAMED))
        yield ready
        status = GaugeMetricFamily(
            "tieline_operator_environment_status",
            f"1 for the status that an environment has; at most {MAX_NAMED} environments, those in error first",
            labels=("object_namespace", "project", "environment", "status"),
        )
        environments = sorted(_environments(found.get(PROJECTS, ())))
        for _, *labels in environments[:MAX_NAMED]:
            status.add_metric(labels, 1)
        unnamed.add_metric(("Environment",), max(0, len(environments) - MAX_NAMED))
        yield status
        yield unnamed


def _is_ready(item: Object) -> int:
    return int((find_condition(item) or {}).get("status") == "True")


def _name_of(item: Object) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def _environments(projects: Sequence[Object]) -> Iterable[tuple[int, str, str, str, str]]:
    for project in projects:
        for environment in project.get("status", {}).get("environments", ()):
            state = str(environment.get("status", EnvironmentState.DRAFT))
            order = int(state != EnvironmentState.ERROR)
            yield order, *_name_of(project), environment.get("name", ""), state
