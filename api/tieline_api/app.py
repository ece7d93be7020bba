"""The applications: routes from the table, middleware, probes, documentation."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Middleware

from tieline_api.auth.access import Access
from tieline_api.auth.api_keys import ApiKeys
from tieline_api.auth.callers import Chain
from tieline_api.auth.failures import FailedAttempts
from tieline_api.auth.issuers import IssuersFile
from tieline_api.auth.jwts import JwtAuthenticator
from tieline_api.auth.key_sets import KeySets
from tieline_api.auth.rates import RateLimit
from tieline_api.auth.references import References
from tieline_api.auth.token_review import TokenReviewer
from tieline_api.engine.dispatch import Dispatcher
from tieline_api.engine.openapi import document
from tieline_api.engine.operation import Operation
from tieline_api.judging import forget_what_goes
from tieline_api.oauth.kept_secrets import KeptSecrets
from tieline_api.operations import OPERATIONS
from tieline_api.platform import Platform
from tieline_api.service.callback import add_callback
from tieline_api.service.documentation import add_documentation
from tieline_api.service.earlier_pods import EarlierPods
from tieline_api.service.headers import add_standard_headers
from tieline_api.service.internal import EARLIER_PODS, add_internal
from tieline_api.service.internal_documents import add_documents
from tieline_api.service.internal_tokens import add_internal_tokens
from tieline_api.service.metrics import Metrics
from tieline_api.service.middleware import cross_origin, erring, guarding, observed
from tieline_api.service.otlp import add_traces
from tieline_api.service.probes import add_metrics, add_openapi, add_probes
from tieline_api.settings import Settings
from tieline_api.store.connector_results import ConnectorResults
from tieline_api.store.expiry_sweep import ExpirySweep
from tieline_api.store.lookups import CacheLookups
from tieline_api.store.project_files import ProjectFiles
from tieline_api.store.secret_reads import SecretReads
from tieline_api.store.secret_sweep import SecretSweep
from tieline_api.store.secrets import CredentialStore
from tieline_api.store.token_ages import TokenAges
from tieline_api.store.world import World
from tieline_api.store.writer import Writer
from tieline_api.traces.places import make_traces
from tieline_core.connectors.limits import Importer
from tieline_core.files_checker import FilesChecker
from tieline_core.kube import Kube
from tieline_core.names import TOKEN_AUDIENCE
from tieline_core.oauth.keeping import Keeper
from tieline_core.oauth.states import OAuthStates
from tieline_core.oauth.tokens import TokenClient
from tieline_core.variables_checker import VariablesChecker

TITLE = "Tieline"
STALE_HEADER = "X-Tieline-Stale"


def make_platform(kube: Kube, settings: Settings) -> Platform:
    """The parts that operations work with. Call it where an event loop runs.

    Raises IssuersError when the file of issuers cannot be used.
    """
    jwts = _jwts(settings.issuers_file)
    world = World(kube)
    forget_what_goes(world)
    token_ages = TokenAges()
    world.secrets.subscribe(token_ages.changed)
    reviewer = _reviewer(kube, settings, settings.token_audiences)
    secret_reads = SecretReads(kube, world.secrets)
    lookups = CacheLookups(world, secret_reads)
    states = OAuthStates(kube, seconds=settings.oauth_state_seconds)
    credentials = CredentialStore(kube, world.secrets)
    outgoing = aiohttp.ClientSession(
        connector=settings.egress.connector(), cookie_jar=aiohttp.DummyCookieJar()
    )
    access = Access(kube, seconds=settings.access_cache_seconds, away_seconds=settings.away_seconds)
    return Platform(
        settings=settings,
        kube=kube,
        world=world,
        writer=Writer(kube),
        files=ProjectFiles(kube),
        credentials=credentials,
        secret_reads=secret_reads,
        secret_sweep=SecretSweep(kube, world, credentials),
        token_ages=token_ages,
        connectors=ConnectorResults(kube, world.connector_versions),
        importer=Importer(),
        checker=VariablesChecker(),
        files_checker=FilesChecker(),
        traces=make_traces(settings),
        authentication=Chain(
            [jwts, reviewer] if jwts else [reviewer], keys=ApiKeys(world.api_keys, world.namespace_of)
        ),
        jwts=jwts,
        rates=RateLimit(settings.rate_limit),
        access=access,
        references=References(access, secret_reads),
        oauth_states=states,
        keeper=Keeper(
            KeptSecrets(kube, world.secrets), client=TokenClient(outgoing), lookups=lookups, states=states
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
    return JwtAuthenticator(issuers, KeySets())


@dataclass(frozen=True, kw_only=True)
class Applications:
    """What is served, each at a port of its own. They share one platform."""

    public: web.Application
    """The REST API. The platform's caches start and end with it, so it is set up first and cleaned up last."""
    internal: web.Application
    """What project pods ask for with their own tokens."""
    monitoring: web.Application
    """Prometheus' metrics."""


def make_apps(kube: Kube, platform: Platform, operations: Iterable[Operation] = OPERATIONS) -> Applications:
    """The aiohttp applications."""
    table, settings = tuple(operations), platform.settings
    metrics = Metrics(kube)
    metrics.add_traces(platform.traces)
    failures = FailedAttempts(settings.failed_limit)

    def application(*more: Middleware) -> web.Application:
        app = web.Application(
            middlewares=[
                observed(metrics, header=settings.request_id_header),
                *more,
                erring,
                guarding(failures, trusted=settings.trusted_proxies),
            ],
            client_max_size=0,  # bodies are read, and counted, by engine.reading alone
        )
        app.on_shutdown.append(stop)
        app.on_response_prepare.append(tell_staleness)
        app.on_response_prepare.append(add_standard_headers)
        add_probes(app, platform)
        return app

    async def stop(_app: web.Application) -> None:
        platform.stopping.set()
        platform.world.changes.tell_all()

    async def tell_staleness(_request: web.Request, response: web.StreamResponse) -> None:
        world = platform.world
        if world.ready and (world.lost or world.silence > platform.settings.stale_seconds):
            response.headers[STALE_HEADER] = str(round(world.lost or world.silence))

    public = application(cross_origin(settings.cors_origins, request_id_header=settings.request_id_header))
    dispatcher = Dispatcher(platform)
    for operation in table:
        public.router.add_route(operation.method, operation.path, _handler(dispatcher, operation))
    add_openapi(public, document(table, title=TITLE, version=version("tieline")))
    add_documentation(public, title=TITLE)
    add_callback(public, platform)
    public[EARLIER_PODS] = EarlierPods(kube)
    public.cleanup_ctx.append(_running(platform))

    internal, monitoring = application(), application()
    for app in (public, internal):
        add_internal(app, platform)
        add_documents(app, platform)
        add_internal_tokens(app, platform)
        add_traces(app, platform)
    add_metrics(monitoring, platform, metrics)
    return Applications(public=public, internal=internal, monitoring=monitoring)


def _running(platform: Platform) -> Callable[[web.Application], AsyncIterator[None]]:
    async def run(_app: web.Application) -> AsyncIterator[None]:
        await platform.world.start()
        await platform.traces.start()
        tasks = [
            asyncio.create_task(platform.oauth_states.keep_sweeping(), name="sweep authorisations"),
            asyncio.create_task(platform.secret_sweep.keep_sweeping(), name="sweep secrets"),
            asyncio.create_task(
                ExpirySweep(platform.world, platform.writer).keep_sweeping(), name="sweep expired credentials"
            ),
        ]
        if platform.jwts is not None:
            tasks.append(asyncio.create_task(platform.jwts.keep_reading(), name="follow issuers"))
        yield
        for task in tasks:
            task.cancel()
        await platform.traces.stop()
        await platform.world.stop()
        await platform.checker.close()
        await platform.files_checker.close()
        await platform.outgoing.close()

    return run


def _handler(
    dispatcher: Dispatcher, operation: Operation
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        return await dispatcher.run(operation, request)

    return handle
