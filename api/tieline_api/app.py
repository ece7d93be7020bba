"""The applications: routes from the table, middleware, probes, documentation."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Middleware

from tieline_api.activator.application import Activator, activator_application
from tieline_api.activator.ready_pods import ReadyPods
from tieline_api.activator.wakes import Wakes
from tieline_api.agents.endpoint import add_agents
from tieline_api.audit.export import make_export
from tieline_api.audit.log import AuditLog
from tieline_api.auth.access import Access
from tieline_api.auth.api_keys import ApiKeys
from tieline_api.auth.authentication import AuthenticatorChain
from tieline_api.auth.connect_sessions import ConnectSessions
from tieline_api.auth.issuers import IssuersFile
from tieline_api.auth.jwks import JwksCache
from tieline_api.auth.jwts import JwtAuthenticator
from tieline_api.auth.key_uses import KeyUses
from tieline_api.auth.memberships import Memberships
from tieline_api.auth.rate_limits import FailureLimiter, RateLimiter
from tieline_api.auth.secret_access import SecretAccess
from tieline_api.auth.token_review import TokenReviewer
from tieline_api.body_limits import MIB
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.cluster.connector_results import ConnectorResults
from tieline_api.cluster.operation_index import OperationIndex
from tieline_api.cluster.project_files import ProjectFiles
from tieline_api.cluster.writer import Writer
from tieline_api.connect.callback_page import add_callback
from tieline_api.connect.routes import add_connect_page
from tieline_api.connect.start_page import add_start
from tieline_api.connection_requests.client import ConnectionRequests
from tieline_api.console.credentials import session_credentials
from tieline_api.console.parts import Console
from tieline_api.console.routes import add_console
from tieline_api.console_settings import own_namespace
from tieline_api.credentials.credential_directory import CredentialLookups
from tieline_api.credentials.credential_secrets import CachingSecretClient, CredentialStore
from tieline_api.credentials.outcome_reports import OutcomeReports
from tieline_api.credentials.secret_reader import SecretReader
from tieline_api.credentials.token_ages import TokenAges
from tieline_api.dependencies import Dependencies
from tieline_api.engine.connection import Engine
from tieline_api.engine.credentials import EnvironmentSigner
from tieline_api.engine.environments import EnvironmentEngines
from tieline_api.engine.limit_states import LimitStates
from tieline_api.engine.limit_store import LimitStore
from tieline_api.engine.rate_quotas import EVENTS, REQUESTS, RateQuotas
from tieline_api.engine.waiting_limits import WaitingLimits
from tieline_api.environment_calls import EnvironmentCalls
from tieline_api.gc.expiry_gc import ExpiredCredentialCollector
from tieline_api.gc.secret_gc import SecretCollector
from tieline_api.handlers import OPERATIONS
from tieline_api.http.compression import compression
from tieline_api.http.dispatcher import Dispatcher
from tieline_api.http.metrics import Metrics
from tieline_api.http.middleware import (
    add_standard_headers,
    cors,
    error_handling,
    failure_limiting,
    request_log,
)
from tieline_api.http.openapi import document
from tieline_api.http.operation import Operation
from tieline_api.pod_api.activity import add_activity
from tieline_api.pod_api.documents import add_documents
from tieline_api.pod_api.environment import add_internal
from tieline_api.pod_api.event_rates import add_event_rates
from tieline_api.pod_api.limits import add_internal_limits
from tieline_api.pod_api.otlp_receiver import add_traces
from tieline_api.pod_api.outcomes import add_internal_outcomes
from tieline_api.pod_api.packages import add_packages
from tieline_api.pod_api.run_reports import add_run_reports
from tieline_api.pod_api.schedules import add_schedules
from tieline_api.pod_api.tokens import add_internal_tokens
from tieline_api.runs.approvals import Approvals
from tieline_api.runs.direct import DirectRuns
from tieline_api.runs.history import RunHistory
from tieline_api.runs.index import RunIndex
from tieline_api.runs.reading import RunFollowers
from tieline_api.runs.sleepers import Sleepers
from tieline_api.server.probes import add_metrics, add_openapi, add_probes
from tieline_api.server.swagger_ui import add_documentation
from tieline_api.settings import Settings
from tieline_api.state.documents import Documents
from tieline_api.state.schedules import ScheduleRecords
from tieline_api.traces.backends import make_traces
from tieline_api.use_cases.approval_reporter import ApprovalReporter
from tieline_api.use_cases.issue_reporter import IssueReporter
from tieline_api.views.status_overlay import evict_deleted
from tieline_api.watching.feed import ChangeFeed
from tieline_common.authorities import file_trust
from tieline_core.connectors.import_process import Importer
from tieline_core.credentials.token_manager import TokenManager
from tieline_core.evaluation.variables_checker import VariablesChecker
from tieline_core.identity.names import TOKEN_AUDIENCE
from tieline_core.kubernetes import Kube
from tieline_core.oauth.state_store import OAuthStateStore
from tieline_core.project_files.checker import FilesChecker
from tieline_protocol.oauth.token_client import TokenClient

TITLE = "Tieline"
STALE_HEADER = "X-Tieline-Stale"


def make_dependencies(kube: Kube, settings: Settings) -> Dependencies:
    """The parts that operations work with. Call it where an event loop runs.

    Raises IssuersError when the file of issuers cannot be used.
    """
    jwts = _jwts(settings.issuers_file)
    cluster = ClusterCache(kube, home=own_namespace())
    evict_deleted(cluster)
    token_ages = TokenAges()
    cluster.secrets.subscribe(token_ages.changed)
    reviewer = _reviewer(kube, settings, settings.token_audiences)
    secret_reads = SecretReader(kube, cluster.secrets)
    lookups = CredentialLookups(cluster, secret_reads)
    states = OAuthStateStore(kube, seconds=settings.oauth_state_seconds, kept=cluster.oauth_states.list)
    credentials = CredentialStore(kube, cluster.secrets)
    outgoing = aiohttp.ClientSession(
        connector=settings.egress.connector(), cookie_jar=aiohttp.DummyCookieJar()
    )
    engine = Engine(
        settings.engine_url, settings.engine_credentials_file, trust=file_trust(settings.engine_ca_file)
    )
    signer = EnvironmentSigner(settings.engine_credentials_file, settings.engine_signer_file)
    environments = EnvironmentEngines(engine, signer)
    limits = LimitStates(engine)
    traces = make_traces(settings, engine, cluster.serves)
    index = RunIndex(settings.runs_path, max_bytes=settings.runs_mebibytes * MIB)
    changes = ChangeFeed()
    changes.follow(cluster)
    histories = RunFollowers(engine, index, serves=cluster.serves, notify=changes.publish_from_thread)
    sessions = ConnectSessions(kube, cluster.connect_sessions, cluster.readable_namespace_of)
    access = Access(kube, seconds=settings.access_cache_seconds, away_seconds=settings.away_seconds)
    connectors = ConnectorResults(kube, cluster.connector_versions)
    key_uses = KeyUses(kube)
    return Dependencies(
        settings=settings,
        kube=kube,
        cluster=cluster,
        writer=Writer(kube),
        files=ProjectFiles(kube),
        credentials=credentials,
        secret_reads=secret_reads,
        secret_gc=SecretCollector(kube, cluster, credentials),
        token_ages=token_ages,
        connectors=connectors,
        operations=OperationIndex(connectors),
        importer=Importer(),
        checker=VariablesChecker(),
        files_checker=FilesChecker(),
        traces=traces,
        environment_calls=EnvironmentCalls(),
        audit=AuditLog(engine, export=make_export(settings)),
        engine=engine,
        environments=environments,
        wakes=Wakes(kube),
        documents=Documents(engine),
        schedule_records=ScheduleRecords(engine),
        waiting_limits=WaitingLimits(environments),
        limits=limits,
        connection_requests=ConnectionRequests(settings.egress, limits),
        histories=histories,
        runs=RunHistory(engine, environments, index, histories),
        approvals=Approvals(environments),
        sleepers=Sleepers(environments),
        changes=changes,
        direct_runs=DirectRuns(engine, histories.counts),
        authentication=AuthenticatorChain(
            [jwts, reviewer] if jwts else [reviewer],
            keys=ApiKeys(cluster.api_keys, cluster.readable_namespace_of, used=key_uses.add),
            sessions=sessions,
        ),
        key_uses=key_uses,
        connect_sessions=sessions,
        jwts=jwts,
        rates=RateLimiter(settings.rate_limit),
        end_user_rates=RateLimiter(settings.end_user_rate_limit),
        rate_quotas=RateQuotas(LimitStore(engine), REQUESTS),
        event_quotas=RateQuotas(LimitStore(engine), EVENTS),
        access=access,
        memberships=Memberships(
            access, seconds=settings.access_cache_seconds, away_seconds=settings.away_seconds
        ),
        outcomes=OutcomeReports(kube, cluster),
        references=SecretAccess(access, secret_reads),
        oauth_states=states,
        token_manager=TokenManager(
            CachingSecretClient(kube, cluster.secrets),
            client=TokenClient(outgoing),
            lookups=lookups,
            states=states,
        ),
        lookups=lookups,
        outgoing=outgoing,
        runtimes=_reviewer(kube, settings, (TOKEN_AUDIENCE,)),
        stopping=asyncio.Event(),
    )


def _reviewer(kube: Kube, settings: Settings, audiences: tuple[str, ...]) -> TokenReviewer:
    return TokenReviewer(
        kube,
        audiences=audiences,
        seconds=settings.token_cache_seconds,
        away_seconds=settings.away_seconds,
    )


def _jwts(path: str | None) -> JwtAuthenticator | None:
    if path is None:
        return None
    issuers = IssuersFile(path)
    issuers.read()
    return JwtAuthenticator(issuers, JwksCache())


@dataclass(frozen=True, kw_only=True)
class Applications:
    """What is served, each at a port of its own. They share one platform."""

    public: web.Application
    """The REST API. The platform's caches start and end with it, so it is set up first and cleaned up last."""
    internal: web.Application
    """What project pods ask for with their own tokens."""
    monitoring: web.Application
    """Prometheus' metrics."""
    activator: web.Application
    """What is asked of environments that sleep."""


def make_apps(
    kube: Kube, platform: Dependencies, operations: Iterable[Operation] = OPERATIONS
) -> Applications:
    """The aiohttp applications. Raises BrandError when the file with the brand cannot be used."""
    table, settings = tuple(operations), platform.settings
    metrics = _metrics(kube, platform)
    failures = FailureLimiter(settings.failed_limit)

    def application(*outer: Middleware, inner: Iterable[Middleware] = ()) -> web.Application:
        app = web.Application(
            middlewares=[
                request_log(metrics, header=settings.request_id_header),
                *outer,
                error_handling,
                *inner,
                failure_limiting(failures, trusted=settings.trusted_proxies),
            ],
            client_max_size=0,  # bodies are read, and counted, by engine.reading alone
        )
        app.on_shutdown.append(stop)
        app.on_response_prepare.append(add_staleness_header)
        app.on_response_prepare.append(add_standard_headers)
        add_probes(app, platform)
        return app

    async def stop(_app: web.Application) -> None:
        platform.stopping.set()
        platform.cluster.changes.notify_all()
        platform.changes.wake_all()

    async def add_staleness_header(_request: web.Request, response: web.StreamResponse) -> None:
        cluster = platform.cluster
        if cluster.ready and (cluster.lost or cluster.silence > platform.settings.stale_seconds):
            response.headers[STALE_HEADER] = str(round(cluster.lost or cluster.silence))

    console = Console(platform, failures) if settings.console else None
    public = application(
        compression,
        cors(
            settings.cors_origins,
            request_id_header=settings.request_id_header,
            session_origins=platform.connect_sessions.allows,
        ),
        inner=[session_credentials(console)] if console else (),
    )
    dispatcher = Dispatcher(platform)
    for operation in table:
        path = _with_any_end(operation) if operation.proxies else _routed(operation, table)
        public.router.add_route(operation.method, path, _handler(dispatcher, operation))
    jwts, public_url = platform.jwts, platform.settings.public_api_url
    add_agents(public, dispatcher, issuers=jwts.issuers if jwts is not None else tuple, public_url=public_url)
    add_openapi(public, lambda: document(table, title=TITLE, version=version("tieline")))
    add_documentation(public, title=TITLE)
    add_callback(public, platform, dispatcher.auditor)
    add_start(public, platform, failures, dispatcher.auditor)
    add_connect_page(public, platform)
    if console:
        add_console(public, console)
    public.cleanup_ctx.append(_running(platform))

    internal, monitoring = application(), application()
    add_internal(internal, platform)
    add_documents(internal, platform)
    add_schedules(internal, platform)
    add_internal_tokens(internal, platform)
    add_internal_limits(internal, platform)
    add_internal_outcomes(internal, platform)
    add_traces(internal, platform)
    add_run_reports(internal, platform)
    add_packages(internal, platform)
    add_event_rates(internal, platform)
    add_metrics(monitoring, platform, metrics)
    add_activity(internal, platform)
    activator = activator_application(lambda: Activator(platform.cluster, platform.wakes, ReadyPods(kube)))
    return Applications(public=public, internal=internal, monitoring=monitoring, activator=activator)


def _metrics(kube: Kube, platform: Dependencies) -> Metrics:
    metrics = Metrics(kube)
    metrics.add_traces(platform.traces.counts)
    metrics.add_engine(
        platform.engine,
        platform.histories.counts,
        readers={"runs": lambda: platform.histories.stalled, "traces": lambda: platform.traces.stalled},
    )
    metrics.add_audit(platform.audit)
    metrics.add_watchers(lambda: platform.changes.watchers)
    return metrics


def _with_any_end(operation: Operation) -> str:
    """The path as the router takes it: its last part is any path, an empty one too."""
    return f"{operation.path.removesuffix('}')}:(?s:.*)}}"


def _routed(operation: Operation, table: Iterable[Operation]) -> str:
    """The path as the router takes it: an id at its end is none of the words that other paths have there.

    Where it may have slashes, other paths have such words with other methods alone.
    """
    path = operation.path
    before, _, last = path.rpartition("/")
    if operation.tail:
        return f"{before}/{{{last[1:-1]}:.+}}"
    if not last.startswith("{"):
        return path
    others = {other.path.rpartition("/") for other in table}
    words = sorted(word for start, _, word in others if start == before and not word.startswith("{"))
    return f"{before}/{{{last[1:-1]}:(?!(?:{'|'.join(words)})$)[^/]+}}" if words else path


def _running(platform: Dependencies) -> Callable[[web.Application], AsyncIterator[None]]:
    async def run(_app: web.Application) -> AsyncIterator[None]:
        await platform.cluster.start()
        await platform.engine.start()
        await platform.environments.start()
        await platform.traces.start()
        await platform.histories.start()
        await platform.direct_runs.start()
        await platform.audit.start()
        tasks = [
            asyncio.create_task(platform.oauth_states.run_periodically(), name="sweep authorisations"),
            asyncio.create_task(platform.secret_gc.run_periodically(), name="sweep secrets"),
            asyncio.create_task(platform.key_uses.run_periodically(), name="note uses of API keys"),
            asyncio.create_task(platform.connect_sessions.run_periodically(), name="sweep connect sessions"),
            asyncio.create_task(
                ExpiredCredentialCollector(platform.cluster, platform.writer).run_periodically(),
                name="sweep expired credentials",
            ),
            asyncio.create_task(IssueReporter(platform).run_periodically(), name="report issues"),
            asyncio.create_task(ApprovalReporter(platform).run_periodically(), name="report approvals"),
        ]
        if platform.jwts is not None:
            tasks.append(asyncio.create_task(platform.jwts.keep_reading(), name="follow issuers"))
        yield
        for task in tasks:
            task.cancel()
        await platform.audit.stop()
        await platform.direct_runs.stop()
        await platform.histories.stop()
        await platform.traces.stop()
        await platform.environments.stop()
        await platform.engine.stop()
        await platform.cluster.stop()
        await platform.checker.close()
        await platform.files_checker.close()
        await platform.outgoing.close()
        await platform.environment_calls.close()
        await platform.connection_requests.close()

    return run


def _handler(
    dispatcher: Dispatcher, operation: Operation
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        return await dispatcher.run(operation, request)

    return handle
