"""What operations work with, in one object that is made at the start."""

import asyncio
from dataclasses import dataclass

import aiohttp

from tieline_api.auth.access import Access
from tieline_api.auth.callers import Authenticator, Chain
from tieline_api.auth.jwts import JwtAuthenticator
from tieline_api.auth.rates import RateLimit
from tieline_api.auth.references import References
from tieline_api.settings import Settings
from tieline_api.store.connector_results import ConnectorResults
from tieline_api.store.project_files import ProjectFiles
from tieline_api.store.secret_reads import SecretReads
from tieline_api.store.secret_sweep import SecretSweep
from tieline_api.store.secrets import CredentialStore
from tieline_api.store.token_ages import TokenAges
from tieline_api.store.world import World
from tieline_api.store.writer import Writer
from tieline_api.traces.places import Traces
from tieline_core.connectors.limits import Importer
from tieline_core.files_checker import FilesChecker
from tieline_core.kube import Kube
from tieline_core.oauth.keeping import Keeper
from tieline_core.oauth.linking import Lookups
from tieline_core.oauth.states import OAuthStates
from tieline_core.variables_checker import VariablesChecker


@dataclass(frozen=True, kw_only=True)
class Platform:
    """The parts that operations need."""

    settings: Settings
    kube: Kube
    world: World
    writer: Writer
    files: ProjectFiles
    credentials: CredentialStore
    secret_reads: SecretReads
    secret_sweep: SecretSweep
    token_ages: TokenAges
    connectors: ConnectorResults
    authentication: Chain
    access: Access
    references: References
    """Checks what callers may do with Secrets that their writes send elsewhere."""
    oauth_states: OAuthStates
    keeper: Keeper
    """Obtains and refreshes the tokens of credentials."""
    lookups: Lookups
    """What the caches know of credentials."""
    outgoing: aiohttp.ClientSession
    """For requests to URLs that users have written; reaches what ``settings.egress`` permits."""
    jwts: JwtAuthenticator | None
    """Checks the tokens of configured issuers, where there are any."""
    runtimes: Authenticator
    """Checks the tokens of environments' pods."""
    rates: RateLimit
    traces: Traces
    importer: Importer
    """Imports descriptions in child processes."""
    checker: VariablesChecker
    """Checks variables against projects' schemas, in limited processes where that may take long."""
    files_checker: FilesChecker
    """Checks the files of projects, in limited processes."""
    stopping: asyncio.Event
    """Set when the process ends: long polls finish then."""
