"""What the server is made of, as its settings say."""

import os
import time
from collections.abc import Awaitable, Callable

import aiohttp

from tieline.configuration.api_source import ApiSource
from tieline.configuration.api_tokens import AccessTokens, ApiAccessTokens
from tieline.configuration.current import Configuration, Source
from tieline.configuration.file_source import FileSource
from tieline.configuration.pod_api import PodApi
from tieline.configuration.users import ApiUsers, ConfiguredUsers, Users
from tieline.context import Named, RunMetadata
from tieline.events.run_reports import RunReports
from tieline.execution.ulids import new_ulid
from tieline.http_client.limit_sources import ApiLimits, LimitSource, OwnLimits
from tieline.http_client.outcomes import OutcomeReporter
from tieline.http_client.request_gate import LimitGate
from tieline.server.activity_reports import ActivityReports
from tieline.server.settings import Settings
from tieline.server.webhook_runs import Limits, Runner
from tieline.state.api_documents import ApiDocuments
from tieline.state.documents import Documents, MemoryDocuments
from tieline.state.file_documents import FileDocuments
from tieline.telemetry.exporter import Exporter
from tieline.telemetry.limit_metrics import LimitMetrics
from tieline.telemetry.metrics import Gauges, environment_labels
from tieline.telemetry.redaction import Redactor
from tieline.telemetry.spans import Value
from tieline.telemetry.trace_endpoint import destination


def source_of(settings: Settings) -> Source | None:
    """Where the configuration comes from; None where there is none to have."""
    if settings.connections_file is not None or settings.schema_file is not None:
        return FileSource(settings.connections_file, schema=settings.schema_file)
    if settings.api_url is not None:
        return ApiSource(
            api_url=settings.api_url,
            token_file=settings.token_file,
            trust=settings.api_trust,
            version=settings.version,
        )
    return None


def users_of(settings: Settings, configuration: Configuration, client: aiohttp.ClientSession) -> Users:
    """Where users' activations come from."""
    if settings.connections_file is not None or settings.api_url is None:
        return ConfiguredUsers(configuration)
    return ApiUsers(PodApi(client, settings.api_url, settings.token_file, settings.api_trust), time.monotonic)


def tokens_of(
    settings: Settings, redactor: Redactor, client: aiohttp.ClientSession, to_api: aiohttp.ClientSession
) -> AccessTokens | None:
    """Who obtains access tokens: the platform, or on your own machine the process itself."""
    if settings.connections_file is not None:
        # Pods load no more than they need.
        from tieline.configuration.local_tokens import LocalAccessTokens  # noqa: PLC0415

        return LocalAccessTokens(client, redactor.learn)
    if settings.api_url is None:
        return None
    return ApiAccessTokens(
        PodApi(to_api, settings.api_url, settings.token_file, settings.api_trust),
        redactor.learn,
        time.monotonic,
    )


def gate_of(settings: Settings, client: aiohttp.ClientSession) -> LimitGate:
    """Where requests wait for the limits of their connections: those of all pods, or of this process alone."""
    source: LimitSource = OwnLimits()
    if settings.connections_file is None and settings.api_url is not None:
        source = ApiLimits(PodApi(client, settings.api_url, settings.token_file, settings.api_trust))
    labels = environment_labels(settings.project_name, settings.environment)
    return LimitGate(source, pod=new_ulid(), metrics=LimitMetrics(labels=labels))


def outcomes_of(settings: Settings, client: aiohttp.ClientSession) -> OutcomeReporter | None:
    """Tells the platform of refused requests; None on a developer's machine."""
    if settings.connections_file is not None or settings.api_url is None:
        return None
    return OutcomeReporter(PodApi(client, settings.api_url, settings.token_file, settings.api_trust))


def run_reports_of(settings: Settings, client: aiohttp.ClientSession) -> RunReports | None:
    """Who stores records of direct runs; None on an author's machine, where the queue has the history."""
    if settings.connections_file is not None or settings.api_url is None:
        return None
    return RunReports(PodApi(client, settings.api_url, settings.token_file, settings.api_trust))


def documents_of(settings: Settings, client: aiohttp.ClientSession) -> Documents:
    """Where schedules and state are kept: by the API, on your own machine in a file, or else in memory."""
    if settings.state_file is not None:
        return FileDocuments(settings.state_file)
    if settings.connections_file is not None or settings.api_url is None:
        return MemoryDocuments()
    return ApiDocuments(PodApi(client, settings.api_url, settings.token_file, settings.api_trust))


def platform_of(settings: Settings, client: aiohttp.ClientSession) -> PodApi | None:
    """The API, for the code's schedules and the quota of events; None on a developer's machine."""
    if settings.connections_file is not None or settings.api_url is None:
        return None
    return PodApi(client, settings.api_url, settings.token_file, settings.api_trust)


def activity_of(
    platform: PodApi,
    configuration: Configuration,
    runner: Runner,
    register: Callable[[], Awaitable[None]],
) -> ActivityReports:
    """Reports whether the pod works, once it has registered the code's schedules."""
    return ActivityReports(
        platform,
        seconds=lambda: configuration.current.activity_seconds,
        busy=lambda: bool(runner.turns.active or runner.turns.waiting or runner.background.pending),
        ended=runner.counts.runs.total,
        begin=register,
    )


def limits_of(settings: Settings) -> Limits:
    """What runs may take."""
    return Limits(
        max_body=settings.max_body,
        max_runs=settings.max_runs,
        run_timeout=settings.run_timeout,
        max_runs_per_activation=settings.max_runs_per_activation,
        max_waiting=settings.max_waiting,
        wait_timeout=settings.wait_timeout,
        max_background=settings.max_background,
        background_timeout=settings.background_timeout,
    )


def gauges_of(runner: Runner, exporter: Exporter, gate: LimitGate) -> Gauges:
    """What ``/metrics`` tells beside the runs that have ended."""
    return {
        "tieline_limit_waiting": (
            "Requests that wait for the limits of their connections.",
            lambda: gate.waiting,
        ),
        "tieline_limit_uncoordinated_total": (
            "How often limits began to be kept by this pod's share alone, since the API did not answer.",
            lambda: gate.metrics.alone,
        ),
        "tieline_runs_active": ("Runs and background work under way.", lambda: runner.turns.active),
        "tieline_runs_waiting": (
            "Runs and background work that wait for a turn.",
            lambda: runner.turns.waiting,
        ),
        "tieline_background_pending": (
            "Background work that waits or is under way.",
            lambda: runner.background.pending,
        ),
        "tieline_spans_sent_total": ("Spans that were sent.", lambda: exporter.sent),
        "tieline_spans_dropped_total": ("Spans that could not be sent.", lambda: exporter.dropped),
    }


def exporter_of(settings: Settings, redactor: Redactor) -> Exporter:
    """What sends the spans, under the project's name."""
    resource: dict[str, Value] = {
        "service.name": settings.project_name or "tieline",
        "service.version": settings.version,
        "deployment.environment.name": settings.environment,
    }
    target = destination(
        os.environ, api_url=settings.api_url, token_file=settings.token_file, trust=settings.api_trust
    )
    if target is not None:
        # "Bearer <key>" is a secret, and so is the key.
        redactor.replace(
            "collector", [part for value in target.given.values() for part in (value, *value.split()[1:])]
        )
    return Exporter(target, resource=resource, redact=redactor)


def run_metadata_of(settings: Settings) -> RunMetadata:
    """What all runs know of where they are."""
    return RunMetadata(
        organisation_id=settings.organisation_id,
        project=Named(id=settings.project_id, name=settings.project_name),
        environment=Named(id=settings.environment_id, name=settings.environment),
        version=settings.version,
        public_url=settings.public_url,
    )
