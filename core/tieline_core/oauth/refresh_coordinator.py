"""One token request however many want the new token, in however many processes.

Who needs tokens first writes a claim into their Secret: creates it with the claim, or replaces it by its
``resourceVersion``. Of many only one write succeeds, and only its writer asks the provider; all others wait for
what it stores. What this guarantees, and what it cannot, is in docs/decisions/0011-token-refresh.md.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from tieline_common.single_flight import SingleFlight
from tieline_core.kubernetes.errors import AlreadyExists, Conflict, NotFound, Unavailable
from tieline_core.kubernetes.reading import Reader
from tieline_core.kubernetes.resources import SECRETS, Resource
from tieline_core.oauth import token_secret_codec
from tieline_core.objects import Object
from tieline_protocol.oauth.token_client import (
    LONGEST_PAUSE,
    RefusedError,
    TokenError,
    Tokens,
    UnreachableError,
)

CLAIM = timedelta(seconds=60)
"""Three times what a token request may take (``tokens.TIMEOUT``): the rest is for writes."""
PAUSE = 10.0
"""Seconds until a provider that could not be reached is asked again."""
RECONSIDER = LONGEST_PAUSE
"""Seconds until a provider that refused the client is asked again: it may have been let in meanwhile."""
NOT_RENEWABLE = "not_renewable"

# Refusals of the client, not of what the user or the token brought: the provider's side can mend them.
_OF_THE_CLIENT = frozenset({"", "invalid_client", "unauthorized_client", "incorrect_client_credentials"})

Ask = Callable[[Tokens], Awaitable[Tokens]]
"""Makes the token request. Gets the tokens so far, without any where there are none of the wanted source."""


class SecretClient(Reader, Protocol):
    """What is needed of the Kubernetes port."""

    async def create(self, resource: Resource, obj: Mapping[str, Any]) -> Object:
        """A new object; AlreadyExists where there is one of this name."""

    async def replace(self, resource: Resource, obj: Mapping[str, Any]) -> Object:
        """PUT with resourceVersion; Conflict where the object has changed."""


@dataclass(frozen=True, kw_only=True)
class TokenRequirement:
    """Which tokens are good, and what is asked with for others."""

    source: str = ""
    """A fingerprint of the inputs: tokens of another source are not these."""
    asked_as: str = ""
    """A fingerprint of endpoint and client: with another one a refusal does not count any more."""
    rejected: str = ""
    """An access token that was answered with 401."""
    renews: bool = False
    """Whether new tokens can be had without a refresh token."""
    retry: bool = False
    """Whether to ask although a refusal or a pause was recorded before: somebody has just stored the inputs."""
    blank: Mapping[str, Any] | None = field(default=None, repr=False)
    """The Secret to create where there is none."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Annotations that are written with the claim."""
    keeps_refresh_token: bool = False
    """Whether new tokens without a refresh token get the stored one, if client and account are the same."""
    grace: timedelta | None = None
    """How long the old refresh token is good after a refresh whose answer was lost."""
    check: Callable[[Object], None] = lambda _secret: None
    """Raises TokenError where the Secret that is there must not be written."""

    def renewable(self, tokens: Tokens) -> bool:
        """Whether tokens can follow these ones."""
        return self.renews or bool(tokens.refresh_token)


class RefreshCoordinator:
    """Hands out tokens that are good, and has them refreshed once where they are not."""

    def __init__(
        self,
        secrets: SecretClient,
        *,
        claim: timedelta = CLAIM,
        poll: float = 0.2,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._secrets = secrets
        self._claim = claim
        self._poll = poll
        self._now = now
        self._monotonic = monotonic
        self._flights: SingleFlight[tuple[str, ...], Tokens] = SingleFlight()

    async def fresh(
        self,
        namespace: str,
        name: str,
        *,
        ask: Ask,
        rejected: str = "",
        wanted: TokenRequirement | None = None,
        seen: Object | None = None,
    ) -> Tokens:
        """The credential's tokens; asked for where they are due, not the ``wanted``, or ``rejected``.

        ``seen`` is the Secret where it was just read. Raises the TokenErrors of ``ask``; RefusedError without
        asking where this was refused before, or where nothing can be asked with; UnreachableError without
        asking while the provider is given a pause.
        """
        wanted = wanted or TokenRequirement(rejected=rejected)
        key = (namespace, name, wanted.source, wanted.asked_as, wanted.rejected, str(wanted.retry))
        # A cancelled caller must not stop a refresh between the provider's answer and the write.
        return await self._flights.run(key, lambda: self._refreshed(namespace, name, ask, wanted, seen))

    async def _refreshed(
        self, namespace: str, name: str, ask: Ask, wanted: TokenRequirement, seen: Object | None
    ) -> Tokens:
        claim = uuid.uuid4().hex
        lifted: token_secret_codec.StoredTokens | None = None
        first: str | None = None
        watched, since = "", 0.0
        while True:
            secret = seen or await self._read(namespace, name, wanted)
            seen = None
            found = token_secret_codec.read(secret)
            if wanted.retry and lifted is None:
                lifted = found
            known = found.source == wanted.source
            if first is None:
                first = found.source
            elif not known and found.source != first:
                raise UnreachableError("The credential is being changed; it is tried again")
            tokens = found.tokens if known else blank(self._now())
            renewable = wanted.renewable(tokens)
            if token_secret_codec.good(
                tokens, now=self._now(), rejected=wanted.rejected, renewable=renewable
            ):
                return tokens
            if known and tokens.access_token and not renewable:
                raise not_renewable()
            if lifted is None or _marks(found) != _marks(lifted):
                self._stop_where_told(found, wanted)
            if found.claimed_by != watched:
                watched, since = found.claimed_by, self._monotonic()
            if self._counts(found, since):
                await asyncio.sleep(self._poll)
                continue
            until = token_secret_codec.written(self._now() + self._claim)
            marks = {token_secret_codec.CLAIMED_BY: claim, token_secret_codec.CLAIMED_UNTIL: until}
            try:
                secret = await self._claimed(token_secret_codec.marked(secret, marks, wanted.notes))
            except (Conflict, AlreadyExists, NotFound):
                continue
            new = await self._asked(secret, claim, tokens, ask, wanted, before=found)
            if new.access_token:
                return new

    def _counts(self, found: token_secret_codec.StoredTokens, since: float) -> bool:
        """Whether somebody's claim counts, which was seen ``since``: by one's own clock, as with a Lease.

        Clocks may differ; what its holder wrote down is good only for what is long over.
        """
        if not found.claimed_by or found.claimed_until is None:
            return False
        long_over = self._now() >= found.claimed_until + token_secret_codec.CLOCKS
        return not long_over and self._monotonic() - since < self._claim.total_seconds()

    async def _read(self, namespace: str, name: str, wanted: TokenRequirement) -> Object:
        try:
            found = await self._secrets.get(SECRETS, name, namespace)
        except NotFound:
            if wanted.blank is None:
                raise
            return dict(wanted.blank)
        wanted.check(found)
        return found

    async def _claimed(self, secret: Object) -> Object:
        if "resourceVersion" in secret["metadata"]:
            return await self._secrets.replace(SECRETS, secret)
        return await self._secrets.create(SECRETS, secret)

    def _stop_where_told(self, found: token_secret_codec.StoredTokens, wanted: TokenRequirement) -> None:
        mark = _mark(found.tokens, wanted)
        paused = token_secret_codec.pause_left(found.not_before, self._now()) > 0 and found.paused == mark
        code = found.refusal
        if code is not None and found.refused.partition(":")[0] == mark:
            if paused or code not in _OF_THE_CLIENT:
                raise RefusedError(refusal_message(code), code=code)
            return
        if paused:
            raise UnreachableError("The provider could not be reached just now; it is tried again soon")

    async def _asked(
        self,
        secret: Object,
        claim: str,
        old: Tokens,
        ask: Ask,
        wanted: TokenRequirement,
        *,
        before: token_secret_codec.StoredTokens,
    ) -> Tokens:
        """``before`` is what was stored before the claim, which takes marks away."""
        mark = _mark(token_secret_codec.read(secret).tokens, wanted)
        try:
            async with asyncio.timeout(self._claim.total_seconds() / 2):
                new = await ask(old)
        except RefusedError as error:
            marks = {token_secret_codec.REFUSED: f"{mark}:{error.code}", **self._pause(RECONSIDER, mark)}
            await self._write(secret, claim, lambda live: token_secret_codec.marked(live, marks))
            raise
        except (TokenError, TimeoutError) as error:
            marks = self._pause(getattr(error, "retry_after", None) or _pause_within(wanted.grace), mark)
            await self._write(secret, claim, lambda live: token_secret_codec.marked(live, marks))
            if isinstance(error, TimeoutError):
                raise UnreachableError("The provider did not answer in time; it is tried again") from None
            raise
        issued = _with_old_refresh_token(new, before, wanted)
        return await self._write(
            secret,
            claim,
            lambda live: token_secret_codec.with_tokens(
                live,
                issued,
                source=wanted.source,
                asked_as=wanted.asked_as,
                renewable=wanted.renewable(issued),
            ),
        )

    def _pause(self, seconds: float, mark: str) -> dict[str, str]:
        until = token_secret_codec.written(self._now() + timedelta(seconds=seconds))
        return {token_secret_codec.NOT_BEFORE: f"{until} {mark}"}

    async def _write(self, secret: Object, claim: str, change: Callable[[Object], Object]) -> Tokens:
        """Store, however often others touch the Secret and the API server is away, while the claim is ours.

        Returns what is stored then: somebody else's tokens where they have replaced ours.
        """
        while True:
            try:
                if token_secret_codec.read(secret).claimed_by == claim:
                    secret = await self._secrets.replace(SECRETS, change(secret))
                return token_secret_codec.read(secret).tokens
            except (Conflict, Unavailable):
                await asyncio.sleep(self._poll)
            metadata = secret["metadata"]
            try:
                secret = await self._secrets.get(SECRETS, metadata["name"], metadata["namespace"])
            except Unavailable:
                continue


def _pause_within(grace: timedelta | None) -> float:
    """Seconds until a provider is asked again: soon enough for the old refresh token, where that ends soon."""
    return min(PAUSE, grace.total_seconds() / 4) if grace else PAUSE


def _with_old_refresh_token(
    new: Tokens, stored: token_secret_codec.StoredTokens, wanted: TokenRequirement
) -> Tokens:
    """New tokens with the stored refresh token, where a further consent has brought none.

    Not the one of another client, or of another account as far as that is known, or one that was refused.
    """
    old = stored.tokens
    if new.refresh_token or not wanted.keeps_refresh_token or not old.refresh_token:
        return new
    accounts = {one.kept.account_id for one in (old, new)}
    if stored.asked_as != wanted.asked_as or stored.refused or len(accounts) > 1:
        return new
    return replace(new, refresh_token=old.refresh_token)


def blank(issued_at: datetime) -> Tokens:
    """No tokens."""
    return Tokens(access_token="", issued_at=issued_at)


def refusal_message(code: str) -> str:
    """What a person reads of a refusal that is recorded."""
    named = f" ({code})" if code else ""
    return f"The provider has refused these credentials{named}; connect again, or correct the client"


def _marks(found: token_secret_codec.StoredTokens) -> tuple[str, datetime | None]:
    return found.refused, found.not_before


def _mark(tokens: Tokens, wanted: TokenRequirement) -> str:
    return token_secret_codec.fingerprint(tokens, wanted.source, wanted.asked_as)


def not_renewable() -> RefusedError:
    return RefusedError(
        "The access token is no longer accepted and there is no refresh token; connect again, or store new tokens",
        code=NOT_RENEWABLE,
    )
