"""Checks variables against schemas that anybody may have written, without holding up those who ask.

Small values of small schemas that look at each value once are checked at once. All else is checked in limited
processes, and so is what breaks its schema: making the errors takes far longer than finding that there is one. What
came out is remembered: a verdict costs a lookup from then on, and what took too much is not tried again for a while.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from cachetools import LRUCache

from tieline_core.evaluation.pool import EvaluationBusy, Pool
from tieline_core.evaluation.prepared_schemas import PreparedSchema, PreparedSchemas, digest_of
from tieline_core.evaluation.turn_budget import TurnBudget
from tieline_core.evaluation.verdicts import FIT, Verdict, VerdictCache
from tieline_core.evaluation.worker import End
from tieline_protocol.variables import InvalidSchema, VariableError, is_valid_for

_SMALL_VALUES_BYTES = 2 * 1024
"""Bytes of the largest variables that are checked on the event loop. The worst take 0.3 ms, and 0.5 ms to compile."""
_REMEMBERED_SCHEMAS = 4_096
_COSTLY_SECONDS = 600.0
# As many values that took too much, and it is the schema's fault.
_STRIKES = 3
_BATCH = 64
_BATCH_BYTES = 1024 * 1024
# What may wait: for one organisation, for all of them, and for all of them with those that have nothing waiting yet.
_WAITING_EACH = 20_000
_WAITING_BYTES_EACH = 8 * 1024 * 1024
_WAITING_BYTES = 32 * 1024 * 1024
_WAITING_BYTES_MOST = 64 * 1024 * 1024
_BUSY_SECONDS = 5.0
_VALUES_BYTES = 2 * 1024 * 1024
"""Bytes of an activation's variables; Kubernetes keeps no object that has more."""

_TOO_COSTLY = (
    "checking it takes more than 1 s, or too much memory: make it simpler, with fewer alternatives (anyOf, oneOf), "
    "shorter enums and smaller repeat counts in patterns"
)
_VALUES_TOO_COSTLY = (
    "checking them against the project's schema takes more than 1 s, or too much memory: set fewer or smaller values, "
    "or make the schema simpler"
)


CONDEMNED = Verdict(_TOO_COSTLY, costly=True)
"""About a schema that takes too much, whatever the values."""


class VariablesChecker:
    """Verdicts about variables, for all organisations.

    The schemas given are objects of caches: they are never changed, only replaced.
    """

    def __init__(
        self,
        pool: Pool | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        condemned: Callable[[str], None] = lambda _tenant: None,
    ) -> None:
        """``condemned`` gets the organisation when one of its schemas turns out to cost too much."""
        self._pool = pool or Pool("variables")
        self._clock = clock
        self._condemned = condemned
        self._prepared = PreparedSchemas()
        self._schemas: LRUCache[bytes, tuple[Verdict, float | None]] = LRUCache(_REMEMBERED_SCHEMAS)
        self._verdicts = VerdictCache()
        # Per organisation: the values of one do not count against the same schema in another.
        self._strikes: LRUCache[tuple[str, bytes], tuple[set[bytes], float]] = LRUCache(_REMEMBERED_SCHEMAS)
        self._groups: dict[tuple[str, bytes], _Group] = {}
        self._waiting: dict[str, _Load] = {}
        self._bytes = 0
        self._turn = TurnBudget()

    @property
    def pool(self) -> Pool:
        """The processes."""
        return self._pool

    def known(
        self, schema: Mapping[str, Any] | None, variables: Mapping[str, Any], *, tenant: str | None = None
    ) -> Verdict | None:
        """The verdict if it is known or costs next to nothing; None when a process must be asked.

        With ``tenant``, what the organisation's values have shown of the schema counts as well.
        """
        found = self._look(tenant, schema, variables)
        return found if isinstance(found, Verdict) else None

    def fits(self, schema: Mapping[str, Any] | None, variables: Mapping[str, Any]) -> bool:
        """Whether the variables are known to follow the schema."""
        found = self.known(schema, variables)
        return found is not None and found.fit

    async def check(
        self, tenant: str, schema: Mapping[str, Any] | None, variables: Mapping[str, Any]
    ) -> Verdict:
        """The verdict. Raises EvaluationBusy when it cannot be had soon.

        ``tenant`` is the organisation's namespace; organisations take turns.
        """
        while self._turn.is_over(tenant):  # noqa: ASYNC110  (the next turn of the loop, no event)
            await asyncio.sleep(0)
        found = self._look(tenant, schema, variables)
        if isinstance(found, Verdict):
            return found
        return await asyncio.shield(self._ask(tenant, found))

    async def check_schema(self, tenant: str, schema: Mapping[str, Any] | None) -> Verdict:
        """The verdict about a schema alone: its ``errors`` say nothing."""
        found = await self.check(tenant, schema, {})
        return Verdict(found.problem, costly=found.costly) if found.problem else FIT

    async def check_soon(
        self, tenant: str, schema: Mapping[str, Any] | None, variables: Mapping[str, Any], *, seconds: float
    ) -> Verdict | None:
        """The verdict if it can be had within some seconds, else None."""
        try:
            async with asyncio.timeout(seconds):
                return await self.check(tenant, schema, variables)
        except (EvaluationBusy, TimeoutError):
            return None

    def request(
        self,
        tenant: str,
        schema: Mapping[str, Any] | None,
        variables: Mapping[str, Any],
        then: Callable[[], None],
    ) -> Verdict | None:
        """The verdict if it is known; else None, and ``then`` is called when it is time to ask again."""
        if self._turn.is_over(tenant):
            asyncio.get_running_loop().call_soon(then)
            return None
        found = self._look(tenant, schema, variables)
        if isinstance(found, Verdict):
            return found
        try:
            future = self._ask(tenant, found)
        except EvaluationBusy:
            # Whoever has so much waiting is served when some of it is done.
            asyncio.get_running_loop().call_later(_BUSY_SECONDS, then)
            return None
        future.add_done_callback(lambda done: self._later(done, then))
        return None

    async def close(self) -> None:
        """Ends the processes."""
        await self._pool.close()

    @staticmethod
    def _later(done: "asyncio.Future[Verdict]", then: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        if done.cancelled() or done.exception() is not None:
            loop.call_later(_BUSY_SECONDS, then)
        else:
            then()

    def _look(
        self, tenant: str | None, schema: Mapping[str, Any] | None, variables: Mapping[str, Any]
    ) -> "Verdict | _Question":
        if schema is None:
            return FIT
        with self._turn.measured(tenant):
            return self._found(tenant, schema, variables)

    def _found(
        self, tenant: str | None, schema: Mapping[str, Any], variables: Mapping[str, Any]
    ) -> "Verdict | _Question":
        prepared = self._prepared.of(schema)
        if prepared.problem is not None:
            return Verdict(prepared.problem)
        known = self._schemas.get(prepared.digest)
        if known is not None and known[0].problem is not None and self._holds(known[1]):
            return known[0]
        if tenant is not None and self.is_condemned(tenant, prepared.digest):
            return CONDEMNED
        try:
            values = orjson.dumps(dict(variables), option=orjson.OPT_SORT_KEYS)
        except TypeError as error:  # nested too deep, or a number of more than 64 bits
            return Verdict(
                errors=(VariableError(path="", message=f"they cannot be written as JSON: {error}"),)
            )
        if len(values) > _VALUES_BYTES:
            return Verdict(errors=(VariableError(path="", message=_VALUES_TOO_COSTLY),), costly=True)
        digest = digest_of(values)
        key = prepared.digest, digest
        verdict = self._verdicts.get(key, self._clock())
        if verdict is None and prepared.linear and len(values) <= _SMALL_VALUES_BYTES:
            verdict = _checked(prepared.text, variables)
            if verdict is not None:
                self._verdicts.put(key, verdict, None)
        return verdict or _Question(prepared, values, digest)

    def _holds(self, until: float | None) -> bool:
        return until is None or self._clock() < until

    def _ask(self, tenant: str, question: "_Question") -> "asyncio.Future[Verdict]":
        key = tenant, question.prepared.digest
        group = self._groups.get(key)
        if group is not None and question.digest in group.waiting:
            return group.waiting[question.digest].future
        size = len(question.values) + (0 if group else len(question.prepared.text))
        load = self._waiting.get(tenant) or _Load()
        limit = _WAITING_BYTES if load.number else _WAITING_BYTES_MOST
        full = load.number >= _WAITING_EACH or load.bytes + size > _WAITING_BYTES_EACH
        if (load.number and full) or self._bytes + size > limit:
            raise EvaluationBusy("Too many variables wait to be checked: try again in a moment")
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        # Whoever gave up waiting does not hear of a failure.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        waiting = _Waiting(values=question.values, future=future, size=size)
        self._waiting[tenant] = load
        load.number += 1
        load.bytes += size
        self._bytes += size
        if group is None:
            group = self._groups[key] = _Group(self, tenant, question.prepared)
            group.waiting[question.digest] = waiting
            self._pool.submit(group)
        else:
            group.waiting[question.digest] = waiting
        return future

    # --- what groups tell -----------------------------------------------------------------------------------

    def schema_told(self, group: "_Group", verdict: Verdict) -> None:
        """A process said whether a schema can be used, or failed to."""
        until = self._clock() + _COSTLY_SECONDS if verdict.costly else None
        self._schemas[group.prepared.digest] = verdict, until
        if verdict.costly:
            self._condemned(group.tenant)

    def values_told(self, group: "_Group", digest: bytes, verdict: Verdict) -> None:
        """A process said whether values follow a schema, or failed to."""
        now = self._clock()
        until = now + _COSTLY_SECONDS if verdict.costly else None
        self._verdicts.put((group.prepared.digest, digest), verdict, until)
        if not verdict.costly:
            return
        key = group.tenant, group.prepared.digest
        struck, held = self._strikes.pop(key, (set[bytes](), 0.0))
        struck = struck if held > now else set()
        struck.add(digest)
        self._strikes[key] = struck, now + _COSTLY_SECONDS
        if len(struck) == _STRIKES:
            self._condemned(group.tenant)

    def is_condemned(self, tenant: str, schema: bytes) -> bool:
        """Whether so many values of an organisation took too much that its schema with this digest is at fault."""
        struck, held = self._strikes.get((tenant, schema), (set[bytes](), 0.0))
        return len(struck) >= _STRIKES and self._clock() < held

    def settle(self, group: "_Group", digest: bytes, outcome: Verdict | EvaluationBusy) -> None:
        """Tells those who wait for a verdict."""
        waiting = group.waiting.pop(digest)
        load = self._waiting[group.tenant]
        load.number -= 1
        load.bytes -= waiting.size
        self._bytes -= waiting.size
        if not load.number:
            del self._waiting[group.tenant]
        if waiting.future.done():
            return
        if isinstance(outcome, EvaluationBusy):
            waiting.future.set_exception(outcome)
        else:
            waiting.future.set_result(outcome)

    def finished(self, group: "_Group") -> None:
        """A group has been served; what came meanwhile gets another turn."""
        if group.waiting:
            self._pool.submit(group)
        else:
            self._groups.pop((group.tenant, group.prepared.digest), None)


@dataclass(frozen=True)
class _Question:
    prepared: PreparedSchema
    values: bytes
    digest: bytes


@dataclass(frozen=True)
class _Waiting:
    values: bytes
    future: "asyncio.Future[Verdict]"
    size: int


@dataclass
class _Load:
    """What waits for an organisation."""

    number: int = 0
    bytes: int = 0


@dataclass(eq=False)
class _Group:
    """The values of one organisation that wait to be checked against one schema: a job of the pool."""

    checker: VariablesChecker
    tenant: str
    prepared: PreparedSchema
    waiting: dict[bytes, _Waiting] = field(default_factory=dict)
    sent: list[bytes] = field(default_factory=list)
    schema_passed: bool = False

    def request(self) -> bytes | None:
        """As many values as make a batch."""
        self.sent, self.schema_passed = [], False
        size = 0
        for digest, waiting in self.waiting.items():
            if self.sent and (len(self.sent) >= _BATCH or size + len(waiting.values) > _BATCH_BYTES):
                break
            self.sent.append(digest)
            size += len(waiting.values)
        if not self.sent:
            return None
        return orjson.dumps(
            {
                "schema": orjson.Fragment(self.prepared.text),
                "values": [orjson.Fragment(self.waiting[digest].values) for digest in self.sent],
            }
        )

    def answered(self, body: bytes) -> None:
        """The schema's verdict first, then those of the values in their order."""
        result = orjson.loads(body)
        if not self.schema_passed:
            self.schema_passed = True
            if result["problem"] is not None:
                self._condemn(Verdict(result["problem"]))
            return
        errors = tuple(VariableError(path=path, message=message) for path, message in result["errors"])
        self._tell(self.sent.pop(0), Verdict(errors=errors) if errors else FIT)

    def ended(self, end: End) -> None:
        """What was not answered: at fault, to be asked for again, or not to be had."""
        if end is End.AGAIN:
            return
        if end in (End.CPU, End.CRASHED):
            if not self.schema_passed:
                self._condemn(CONDEMNED)
            elif self.sent:
                self._tell(
                    self.sent.pop(0),
                    Verdict(errors=(VariableError(path="", message=_VALUES_TOO_COSTLY),), costly=True),
                )
                if self.checker.is_condemned(self.tenant, self.prepared.digest):
                    self._settle(self.waiting, CONDEMNED)
        elif end is not End.DONE:
            # What a killed process was not sent yet gets another one.
            lost = self.sent if end is End.KILLED else self.waiting
            self._settle(lost, EvaluationBusy("Variables cannot be checked right now: try again in a moment"))
        self.checker.finished(self)

    def _tell(self, digest: bytes, verdict: Verdict) -> None:
        self.checker.values_told(self, digest, verdict)
        self.checker.settle(self, digest, verdict)

    def _condemn(self, verdict: Verdict) -> None:
        """The schema itself cannot be used: that is the verdict about all values."""
        self.sent = []
        self.checker.schema_told(self, verdict)
        self._settle(self.waiting, verdict)

    def _settle(self, digests: Iterable[bytes], outcome: Verdict | EvaluationBusy) -> None:
        for digest in list(digests):
            self.checker.settle(self, digest, outcome)


def _checked(text: bytes, variables: Mapping[str, Any]) -> Verdict | None:
    """The verdict, or None where there are errors: they are for a process to make."""
    try:
        return FIT if is_valid_for(text, variables) else None
    except InvalidSchema as error:
        return Verdict(str(error))


async def check_all(
    checker: VariablesChecker,
    tenant: str,
    schema: Mapping[str, Any] | None,
    values: Sequence[Mapping[str, Any]],
    *,
    seconds: float,
) -> list[Verdict | None]:
    """The verdicts about several values that can be had within some seconds, in their order; None for the others."""
    until = asyncio.get_running_loop().time() + seconds

    async def one(variables: Mapping[str, Any]) -> Verdict | None:
        left = until - asyncio.get_running_loop().time()
        return await checker.check_soon(tenant, schema, variables, seconds=max(left, 0.0))

    return list(await asyncio.gather(*(one(variables) for variables in values)))
