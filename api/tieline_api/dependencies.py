"""What operations work with, in one object that is made at the start."""

import asyncio
from dataclasses import dataclass

import aiohttp

from tieline_api.activator.wakes import Wakes
from tieline_api.audit.log import AuditLog
from tieline_api.auth.access import Access
from tieline_api.auth.authentication import Authenticator, AuthenticatorChain
from tieline_api.auth.connect_sessions import ConnectSessions
from tieline_api.auth.jwts import JwtAuthenticator
from tieline_api.auth.key_uses import KeyUses
from tieline_api.auth.memberships import Memberships
from tieline_api.auth.rate_limits import RateLimiter
from tieline_api.auth.secret_access import SecretAccess
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.cluster.connector_results import ConnectorResults
from tieline_api.cluster.operation_index import OperationIndex
from tieline_api.cluster.project_files import ProjectFiles
from tieline_api.cluster.writer import Writer
from tieline_api.connection_requests.client import ConnectionRequests
from tieline_api.credentials.credential_secrets import CredentialStore
from tieline_api.credentials.outcome_reports import OutcomeReports
from tieline_api.credentials.secret_reader import SecretReader
from tieline_api.credentials.token_ages import TokenAges
from tieline_api.engine.connection import Engine
from tieline_api.engine.environments import EnvironmentEngines
from tieline_api.engine.limit_states import LimitStates
from tieline_api.engine.rate_quotas import RateQuotas
from tieline_api.engine.waiting_limits import WaitingLimits
from tieline_api.environment_calls import EnvironmentCalls
from tieline_api.gc.secret_gc import SecretCollector
from tieline_api.runs.approvals import Approvals
from tieline_api.runs.direct import DirectRuns
from tieline_api.runs.history import RunHistory
from tieline_api.runs.reading import RunFollowers
from tieline_api.runs.sleepers import Sleepers
from tieline_api.settings import Settings
from tieline_api.state.documents import Documents
from tieline_api.state.schedules import ScheduleRecords
from tieline_api.traces.backends import Traces
from tieline_api.watching.feed import ChangeFeed
from tieline_core.connectors.import_process import Importer
from tieline_core.credentials.linker import Lookups
from tieline_core.credentials.token_manager import TokenManager
from tieline_core.evaluation.variables_checker import VariablesChecker
from tieline_core.kubernetes import Kube
from tieline_core.oauth.state_store import OAuthStateStore
from tieline_core.project_files.checker import FilesChecker


@dataclass(frozen=True, kw_only=True)
class Dependencies:
    """The parts that operations need."""

    settings: Settings
    kube: Kube
    cluster: ClusterCache
    writer: Writer
    files: ProjectFiles
    credentials: CredentialStore
    secret_reads: SecretReader
    secret_gc: SecretCollector
    token_ages: TokenAges
    connectors: ConnectorResults
    operations: OperationIndex
    """Searches the operations of connectors."""
    authentication: AuthenticatorChain
    access: Access
    memberships: Memberships
    """Callers' roles in organisations."""
    outcomes: OutcomeReports
    """Writes down what pods report of refused requests."""
    references: SecretAccess
    """Checks what callers may do with Secrets that their writes send elsewhere."""
    oauth_states: OAuthStateStore
    token_manager: TokenManager
    """Obtains and refreshes the tokens of credentials."""
    lookups: Lookups
    """What the caches know of credentials."""
    outgoing: aiohttp.ClientSession
    """For requests to URLs that users have written; reaches what ``settings.egress`` permits."""
    jwts: JwtAuthenticator | None
    """Checks the tokens of configured issuers, where there are any."""
    runtimes: Authenticator
    """Checks the tokens of environments' pods."""
    key_uses: KeyUses
    """When API keys were last used."""
    connect_sessions: ConnectSessions
    """What end users' tokens of sessions are good for."""
    rates: RateLimiter
    end_user_rates: RateLimiter
    rate_quotas: RateQuotas
    """Counts the requests of organisations over all replicas."""
    event_quotas: RateQuotas
    """Counts the events that organisations publish."""
    traces: Traces
    environment_calls: EnvironmentCalls
    """For requests to the webhooks of environments."""
    audit: AuditLog
    """Stores who changed what."""
    engine: Engine
    """The platform's account: run histories, spans, state and schedules."""
    wakes: Wakes
    """Wakes environments that sleep."""
    environments: EnvironmentEngines
    """The accounts of environments: their events, steps and dead letters."""
    documents: Documents
    """What integrations keep between runs."""
    schedule_records: ScheduleRecords
    """How far the schedules of organisations are."""
    waiting_limits: WaitingLimits
    limits: LimitStates
    """Decides which pod may send requests through connections with limits."""
    connection_requests: ConnectionRequests
    """Sends requests through connections."""
    histories: RunFollowers
    """Read the run histories from the engine into this replica's index."""
    runs: RunHistory
    approvals: Approvals
    sleepers: Sleepers
    changes: ChangeFeed
    """Changes in organisations, for watchers."""
    direct_runs: DirectRuns
    """Stores direct runs in the engine."""
    importer: Importer
    """Imports descriptions in child processes."""
    checker: VariablesChecker
    """Checks variables against projects' schemas, in limited processes where that may take long."""
    files_checker: FilesChecker
    """Checks the files of projects, in limited processes."""
    stopping: asyncio.Event
    """Set when the process ends: long polls finish then."""
