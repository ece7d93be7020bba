"""Obtains and refreshes tokens before they are needed: one queue for all connections.

The caches decide when (the Secret of tokens says when it is due); the ``TokenManager`` decides what to request, and
ensures that nobody else requests the same. A credential that its provider has refused is not tried again until
something that it is made of has changed.
"""

import hashlib
import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

from tieline_common.backoff import exponential
from tieline_core.credentials.grant_request import SecretTakenError, UnresolvedError
from tieline_core.credentials.linker import Problem, scheme_of
from tieline_core.credentials.resolver import Grant
from tieline_core.credentials.token_manager import FreshTokens
from tieline_core.credentials.validation.credential_findings import WITH_TOKENS, has_expired
from tieline_core.credentials.validation.references import ResolvedReferences, resolve_references
from tieline_core.credentials.validation.secret_facts import SecretFacts, TokenFacts
from tieline_core.kubernetes import KubeError
from tieline_core.kubernetes.resources import CONNECTIONS, SECRETS
from tieline_core.oauth import token_secret_codec
from tieline_core.oauth.endpoint_urls import authority
from tieline_core.resources import Connection
from tieline_core.resources.connections import ConnectionCredential
from tieline_core.resources.parsed_cache import CONNECTION
from tieline_operator.apply.conditions import is_terminating
from tieline_operator.apply.plan import Object, earliest
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.credential_directory import CacheDirectory
from tieline_operator.cache.secret_facts import cached_facts, tokens_facts
from tieline_operator.metrics import Metrics
from tieline_operator.queues.clock import Clock
from tieline_operator.queues.delaying_queue import DelayingQueue
from tieline_operator.reconcilers.connections import UNAVAILABLE
from tieline_protocol.oauth.token_client import MisconfiguredError, RefusedError, UnreachableError

logger = logging.getLogger(__name__)

# After a start every credential is checked once within this time: its inputs may have changed unseen.
_INITIAL_CHECK_WINDOW = 600.0
# Refreshes that are due at one moment are spread over this time, or half of the time until the tokens expire.
_SPREAD = 300.0
_FIRST_BACKOFF, _LONGEST_BACKOFF = 10.0, 900.0
_MISCONFIGURED_BACKOFF = 60.0
_SECRET_TAKEN_BACKOFF = 60.0

TOKEN_URL_WRONG = "TokenUrlWrong"  # noqa: S105  (a reason)


class CredentialKey(NamedTuple):
    """A credential of a connection."""

    namespace: str
    connection: str
    item_id: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.connection}/{self.item_id}"


class TokenSource(Protocol):
    """What is needed of the TokenManager."""

    async def fresh(self, connection: Object, item_id: str, *, rejected: str = "") -> FreshTokens | None: ...


@dataclass(frozen=True)
class _Check:
    """What was known of a credential when it was last checked."""

    mark: str
    tokens: TokenFacts | None


@dataclass(eq=False)
class TokenRefresher:
    """Keeps the tokens of all connections fresh, on the replica that leads."""

    listers: Listers
    token_manager: TokenSource
    metrics: Metrics
    _: KW_ONLY
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    clock: Clock | None = None
    chance: Callable[[], float] = random.random
    changed: Callable[[str, str], None] = lambda _namespace, _connection: None
    """Enqueues a connection (namespace, name): its provider is in trouble, or has recovered."""
    leads: Callable[[], bool] = lambda: True
    """Whether this replica leads for sure, without which nothing starts.

    It may have hung, and not know yet that another one has taken over.
    """
    _last_checks: dict[CredentialKey, _Check] = field(default_factory=dict)
    _by_connection: dict[tuple[str, str], set[CredentialKey]] = field(default_factory=dict)
    _failures: dict[CredentialKey, int] = field(default_factory=dict)
    _token_problems: dict[CredentialKey, Problem] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.queue: DelayingQueue[CredentialKey] = DelayingQueue(
            self.refresh, group=self._host, clock=self.clock
        )

    def reschedule(self, namespace: str, name: str) -> None:
        """Decides again when the tokens of a connection are due: something that concerns it has changed."""
        obj = self.listers[CONNECTIONS].get(namespace, name)
        refreshable = self._refreshable(obj) if obj and not is_terminating(obj) else set()
        for key in self._by_connection.pop((namespace, name), set()) - refreshable:
            self._forget(key)
        if refreshable:
            self._by_connection[namespace, name] = refreshable

    def token_problems(self, namespace: str, name: str) -> dict[str, Problem]:
        """Why tokens cannot be requested, by the credential's id in the connection."""
        keys = self._by_connection.get((namespace, name), ())
        return {key.item_id: self._token_problems[key] for key in keys if key in self._token_problems}

    async def refresh(self, key: CredentialKey) -> float | None:
        """Ensures that the tokens are valid; returns the seconds after which to check again."""
        if not self.leads():
            return _FIRST_BACKOFF
        obj = self.listers[CONNECTIONS].get(key.namespace, key.connection)
        if obj is None:
            return None
        began, at = time.perf_counter(), self.now()
        outcome, again = await self._ask(key, obj, at)
        self.metrics.refreshes.labels(outcome).inc()
        self.metrics.refresh_seconds.observe(time.perf_counter() - began)
        return again

    async def _ask(self, key: CredentialKey, obj: Object, at: datetime) -> tuple[str, float | None]:
        try:
            fresh = await self.token_manager.fresh(obj, key.item_id)
        except (RefusedError, UnresolvedError, MisconfiguredError, UnreachableError, KubeError) as error:
            outcome, again = self._failed(key, error)
            extra: Mapping[str, Any] = {"kind": "Connection", "object": str(key), "outcome": outcome}
            logger.info("No tokens for a credential: %s", error, extra=extra)
            return outcome, again
        self._failures.pop(key, None)
        self._clear_problem(key)
        if fresh is None or fresh.due_at is None:
            return "nothing", None
        outcome = "renewed" if fresh.tokens.issued_at >= at else "good"
        return outcome, self._until(key, due=fresh.due_at, ends=fresh.tokens.expires_at)

    def _failed(self, key: CredentialKey, error: Exception) -> tuple[str, float | None]:
        """Records why there are no tokens; returns the outcome, and the seconds after which to try again."""
        match error:
            case RefusedError():
                # The TokenManager has recorded it: the connection's status follows from that. It is not retried.
                self._clear_problem(key)
                return "refused", None
            case UnresolvedError():
                self._record_problem(key, error.problems[0].reason, error)
                # Secrets of other types are not watched, so no event says when such a one is gone.
                taken = isinstance(error, SecretTakenError)
                return "unresolved", self._backoff(key, least=_SECRET_TAKEN_BACKOFF) if taken else None
            case MisconfiguredError():
                self._record_problem(key, TOKEN_URL_WRONG, error)
                return "misconfigured", self._backoff(key, least=_MISCONFIGURED_BACKOFF)
            case UnreachableError():
                self._record_problem(key, UNAVAILABLE, error)
                if error.retry_after:
                    self.queue.pause(self._host(key), min(error.retry_after, 60.0))
                return "unreachable", max(self._backoff(key), error.retry_after or 0.0)
        return "kubernetes", self._backoff(key)

    def _refreshable(self, obj: Object) -> set[CredentialKey]:
        """The credentials whose tokens are kept fresh, each in the queue."""
        read = CONNECTION.of(obj)
        found = set()
        for item in read.spec.credentials:
            key = CredentialKey(read.namespace, read.name, item.id)
            if (
                item.type in WITH_TOKENS
                and not has_expired(item, self.now())
                and self._reschedule_credential(key, obj, read, item)
            ):
                found.add(key)
        return found

    def _reschedule_credential(
        self, key: CredentialKey, obj: Object, read: Connection, item: ConnectionCredential
    ) -> bool:
        """Whether there are tokens to keep fresh; adds the credential to the queue if it is not there."""
        secrets = self.listers[SECRETS]
        links = self._links(obj, read, item)
        tokens = tokens_facts(secrets, obj, item.id)
        if links.grant is None or links.problems:
            return False
        if links.grant is Grant.TOKEN and tokens is None and not self._given_is_renewable(key, item):
            return False
        before, check = self._last_checks.get(key), _Check(links.mark, tokens)
        self._last_checks[key] = check
        if before == check:
            return True
        if before is not None and before.mark != check.mark:
            self._failures.pop(key, None)
            self.queue.add_after(key, 0.0)
        elif (due := self._due(key, tokens, first=before is None)) is None:
            self.queue.forget(key)
        elif before is None or self._failures.get(key) is None:
            self.queue.add_after(key, due)
        return True

    def _due(self, key: CredentialKey, tokens: TokenFacts | None, *, first: bool) -> float | None:
        """Seconds until the credential is due, as far as the caches know."""
        if tokens is None:
            return 0.0
        pause = token_secret_codec.pause_left(tokens.not_before, self.now())
        if tokens.refused is not None:
            due = pause if tokens.not_before else None
        elif not tokens.obtained:
            due = pause
        elif tokens.due_at is None:
            due = None
        else:
            due = max(pause, self._until(key, due=tokens.due_at, ends=tokens.expires_at))
        initial = self.chance() * _INITIAL_CHECK_WINDOW if first else None
        return earliest(due, initial)

    def _until(self, key: CredentialKey, *, due: datetime, ends: datetime | None) -> float:
        """Seconds until a due moment, delayed by an amount that follows from the credential's key."""
        room = (ends - due).total_seconds() / 2 if ends else _SPREAD
        share = int.from_bytes(hashlib.sha256(str(key).encode()).digest()[:4], "big") / 2**32
        spread = timedelta(seconds=max(min(room, _SPREAD), 0.0) * share)
        return max((due + spread - self.now()).total_seconds(), 0.0)

    def _links(self, obj: Object, read: Connection, item: ConnectionCredential) -> ResolvedReferences:
        directory, secrets = CacheDirectory(self.listers), self.listers[SECRETS]
        scheme = scheme_of(directory, read, item)

        def facts(namespace: str, name: str) -> SecretFacts:
            return cached_facts(secrets, namespace, name)

        return resolve_references(directory, facts, obj, item, scheme)

    def _given_is_renewable(self, key: CredentialKey, item: ConnectionCredential) -> bool:
        name = item.secret_ref.name if item.secret_ref else ""
        return "refreshToken" in cached_facts(self.listers[SECRETS], key.namespace, name).keys

    def _host(self, key: CredentialKey) -> str:
        """The host of the provider that the auth scheme names: the group of the queue."""
        obj = self.listers[CONNECTIONS].get(key.namespace, key.connection)
        read = CONNECTION.of(obj) if obj else None
        items = read.spec.credentials if read else []
        item = next((one for one in items if one.id == key.item_id), None)
        scheme = scheme_of(CacheDirectory(self.listers), read, item) if read and item else None
        url = scheme.oauth2.token_url if scheme and scheme.oauth2 else ""
        if scheme and scheme.oauth1 and scheme.oauth1.token_endpoint:
            url = scheme.oauth1.token_endpoint.url
        return authority(url) or "?"

    def _backoff(self, key: CredentialKey, *, least: float = _FIRST_BACKOFF) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return exponential(failures, first=least, cap=_LONGEST_BACKOFF) * (0.75 + self.chance() / 2)

    def _record_problem(self, key: CredentialKey, reason: str, error: Exception) -> None:
        problem = Problem(reason, str(error))
        if self._token_problems.get(key) != problem:
            self._token_problems[key] = problem
            self.changed(key.namespace, key.connection)

    def _clear_problem(self, key: CredentialKey) -> None:
        if self._token_problems.pop(key, None) is not None:
            self.changed(key.namespace, key.connection)

    def _forget(self, key: CredentialKey) -> None:
        self._last_checks.pop(key, None)
        self._failures.pop(key, None)
        self._token_problems.pop(key, None)
        self.queue.forget(key)
