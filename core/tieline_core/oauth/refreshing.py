"""One token request however many want the new token, in however many processes.

Who refreshes first writes a claim into the credential's Secret with its ``resourceVersion``: of many only one
write succeeds, and only its writer asks the provider; all others wait for what it stores. What this
guarantees, and what it cannot, is in docs/decisions/0011-token-refresh.md.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from tieline_core.kube.errors import Conflict, Unavailable
from tieline_core.kube.resources import SECRETS, Resource
from tieline_core.oauth import stored
from tieline_core.oauth.tokens import RefusedError, TokenError, Tokens, UnreachableError

CLAIM = timedelta(seconds=60)
"""Three times what a token request may take (``tokens.TIMEOUT``): the rest is for writes and clocks."""
PAUSE = 10.0
"""Seconds until a provider that could not be reached is asked again."""

Ask = Callable[[Tokens], Awaitable[Tokens]]


class Secrets(Protocol):
    """What is needed of the Kubernetes port."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        """The object as the API server has it."""

    async def replace(self, resource: Resource, obj: Mapping[str, Any]) -> dict[str, Any]:
        """PUT with resourceVersion; Conflict where the object has changed."""


class Refresher:
    """Hands out tokens that are good, and has them refreshed once where they are not."""

    def __init__(
        self,
        secrets: Secrets,
        *,
        claim: timedelta = CLAIM,
        poll: float = 0.2,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._secrets = secrets
        self._claim = claim
        self._poll = poll
        self._now = now
        self._running: dict[tuple[str, str, str], asyncio.Task[Tokens]] = {}

    async def fresh(self, namespace: str, name: str, *, ask: Ask, rejected: str = "") -> Tokens:
        """The credential's tokens, refreshed where they are due or are the ``rejected`` (401) ones.

        ``ask`` makes the token request. Raises its TokenErrors; RefusedError without asking where these very
        tokens were refused before; UnreachableError without asking while the provider is given a pause.
        """
        key = (namespace, name, rejected)
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(self._refreshed(namespace, name, ask, rejected))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key, None))
        # Shielded: a caller that goes away must not stop a refresh between answer and write.
        return await asyncio.shield(task)

    async def _refreshed(self, namespace: str, name: str, ask: Ask, rejected: str) -> Tokens:
        claim = uuid.uuid4().hex
        while True:
            secret = await self._secrets.get(SECRETS, name, namespace)
            found = stored.read(secret)
            if not stored.needs_refresh(found.tokens, now=self._now(), rejected=rejected):
                return found.tokens
            self._stop_where_told(found)
            if found.claimed_until is not None and self._now() < found.claimed_until:
                await asyncio.sleep(self._poll)
                continue
            until = self._now() + self._claim
            marks = {stored.CLAIMED_BY: claim, stored.CLAIMED_UNTIL: stored.written(until)}
            try:
                secret = await self._secrets.replace(SECRETS, stored.marked(secret, marks))
            except Conflict:
                continue
            return await self._asked(secret, claim, found.tokens, ask)

    def _stop_where_told(self, found: stored.Stored) -> None:
        refused_tokens, _, code = found.refused.partition(":")
        if refused_tokens and refused_tokens == stored.fingerprint(found.tokens):
            raise RefusedError(
                "The provider has refused these credentials before; connect again, or correct them", code=code
            )
        if found.not_before is not None and self._now() < found.not_before:
            raise UnreachableError("The provider could not be reached just now; it is tried again soon")

    async def _asked(self, secret: dict[str, Any], claim: str, old: Tokens, ask: Ask) -> Tokens:
        try:
            async with asyncio.timeout(self._claim.total_seconds() / 2):
                new = await ask(old)
        except RefusedError as error:
            refused = f"{stored.fingerprint(old)}:{error.code}"
            await self._write(secret, claim, lambda live: stored.marked(live, {stored.REFUSED: refused}))
            raise
        except (TokenError, TimeoutError) as error:
            pause = getattr(error, "retry_after", None) or PAUSE
            again = stored.written(self._now() + timedelta(seconds=pause))
            await self._write(secret, claim, lambda live: stored.marked(live, {stored.NOT_BEFORE: again}))
            if isinstance(error, TimeoutError):
                raise UnreachableError("The provider did not answer in time; it is tried again") from None
            raise
        return await self._write(secret, claim, lambda live: stored.with_tokens(live, new))

    async def _write(
        self, secret: dict[str, Any], claim: str, change: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> Tokens:
        """Store, however often others touch the Secret and the API server is away, while the claim is ours.

        Returns what is stored then: somebody else's tokens where they have replaced ours.
        """
        while True:
            try:
                if stored.read(secret).claimed_by == claim:
                    secret = await self._secrets.replace(SECRETS, change(secret))
                return stored.read(secret).tokens
            except (Conflict, Unavailable):
                await asyncio.sleep(self._poll)
            metadata = secret["metadata"]
            try:
                secret = await self._secrets.get(SECRETS, metadata["name"], metadata["namespace"])
            except Unavailable:
                continue
