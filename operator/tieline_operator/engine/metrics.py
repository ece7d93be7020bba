"""Metrics of the event engine, read at each scrape from the last survey."""

from collections.abc import Iterable
from typing import Protocol

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tieline_core.identity.names import ENVIRONMENT_LABEL, PROJECT_LABEL
from tieline_core.kubernetes.resources import ENGINE_SECRETS
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.engine.desired_streams import StreamKey
from tieline_operator.engine.stream_readings import EnvironmentReading, Survey, age
from tieline_operator.metrics import MAX_NAMED


class EngineState(Protocol):
    """What the metrics need of the engine's service."""

    @property
    def leads(self) -> bool:
        """Whether this replica keeps the engine. One that waits knows nothing about it."""

    @property
    def connected(self) -> bool:
        """Whether there is a connection."""

    @property
    def keys_usable(self) -> bool:
        """Whether the Secrets can be used."""

    @property
    def failed(self) -> int:
        """How many environments and organisations the engine refuses streams."""

    def survey(self) -> Survey:
        """The last survey. Asks for another one."""


class EngineCollector(Collector):
    """The engine's metrics of the leader; a replica that waits exports none."""

    def __init__(self, state: EngineState, listers: Listers, *, names: bool) -> None:
        """``names``: whether series name environments."""
        self._state = state
        self._listers = listers
        self._names = names

    def collect(self) -> Iterable[GaugeMetricFamily]:
        if not self._state.leads:
            return
        survey = self._state.survey()
        yield _gauge(
            "tieline_operator_engine_connected",
            "Whether the operator is connected to the event engine",
            self._state.connected,
        )
        yield _gauge(
            "tieline_operator_engine_keys_usable",
            "Whether the engine's Secrets can be used",
            self._state.keys_usable,
        )
        streams = GaugeMetricFamily(
            "tieline_operator_engine_streams",
            "Streams by state: present, missing, and foreign (of other installations, or of nobody)",
            labels=("state",),
        )
        for state, count in (
            ("present", survey.streams),
            ("missing", survey.missing),
            ("foreign", survey.foreign),
        ):
            streams.add_metric((state,), count)
        yield streams
        yield _gauge(
            "tieline_operator_engine_failed",
            "Environments and organisations whose streams the engine refuses",
            self._state.failed,
        )
        yield _gauge(
            "tieline_operator_engine_reserved_bytes",
            "Bytes that all streams may take together",
            survey.reserved,
        )
        yield from self._readings(survey)

    def _readings(self, survey: Survey) -> Iterable[GaugeMetricFamily]:
        labels = ("object_namespace", "project", "environment") if self._names else ()
        queued, waiting, dead, oldest, fill = (
            GaugeMetricFamily(name, documentation, labels=labels)
            for name, documentation in (
                (
                    "tieline_operator_engine_queued",
                    "Messages in the queues of environments, a token for each key included",
                ),
                ("tieline_operator_engine_waiting", "Events that wait for a time"),
                ("tieline_operator_engine_dead_letters", "Dead letters"),
                ("tieline_operator_engine_oldest_seconds", "Age of the oldest message in a queue"),
                (
                    "tieline_operator_engine_fill_ratio",
                    "How full the fullest stream of an environment is: 1 is full",
                ),
            )
        )
        readings = list(survey.environments.items())
        if not self._names:
            values = [reading for _, reading in readings]
            queued.add_metric((), sum(one.queued for one in values))
            waiting.add_metric((), sum(one.waiting for one in values))
            dead.add_metric((), sum(one.dead_letters for one in values))
            oldest.add_metric((), max((age(one.oldest) for one in values), default=0.0))
            fill.add_metric((), max((one.fill for one in values), default=0.0))
        for key, reading in sorted(readings, key=_most_first)[:MAX_NAMED] if self._names else ():
            secret = self._listers[ENGINE_SECRETS].get(key.namespace, key.secret) or {}
            labels = secret.get("metadata", {}).get("labels", {})
            named = (key.namespace, labels.get(PROJECT_LABEL, ""), labels.get(ENVIRONMENT_LABEL, ""))
            queued.add_metric(named, reading.queued)
            waiting.add_metric(named, reading.waiting)
            dead.add_metric(named, reading.dead_letters)
            oldest.add_metric(named, age(reading.oldest))
            fill.add_metric(named, reading.fill)
        yield from (queued, waiting, dead, oldest, fill)


def _most_first(item: tuple[StreamKey, EnvironmentReading]) -> tuple[int, StreamKey]:
    key, reading = item
    return -(reading.queued + reading.dead_letters), key


def _gauge(name: str, documentation: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, documentation, value=value)
