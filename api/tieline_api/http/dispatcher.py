"""From a request to an answer: the one path that every operation takes.

In this order, so that nobody learns anything they may not know: who calls (401), which organisation (404),
may they (403, or 404 for strangers), what do they say (400, 413, 415, 422), then the operation itself.
"""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from pydantic import BaseModel

from tieline_api import errors
from tieline_api.auth.access import MEMBERSHIP
from tieline_api.auth.authentication import Caller
from tieline_api.auth.end_users import EndUserScope
from tieline_api.auth.permissions import CHANGE_PROJECTS, Permission
from tieline_api.body_limits import MIB, BodyLimits
from tieline_api.cluster import revisions
from tieline_api.cluster.etags import unchanged
from tieline_api.cluster.organisations import NO_ORGANISATION, Organisation, nowhere
from tieline_api.dependencies import Dependencies
from tieline_api.http.auditing import Auditor, Trail
from tieline_api.http.operation import Call, Operation, ProxyRequest, Reply
from tieline_api.http.request_body import (
    names_of,
    parameters_of,
    parse_json,
    read_body,
    read_model,
    refuse_repeated_parameters,
    refuse_unknown_parameters,
    unknown_parameters,
    validate,
    validate_query,
    warning_header,
)
from tieline_api.http.request_keys import (
    CREDENTIALS,
    OPERATION,
    ORGANISATION,
    ORIGINS,
    SESSION,
    SESSION_ENDS,
    USER,
    WRITES,
)
from tieline_api.http.uploads import Upload, UploadMemory, read_upload
from tieline_core.identity.ids import parse_id

_MAX_STRAY_BODY = 64 * 1024
_PIECE = 256 * 1024


class Dispatcher:
    """Runs operations for requests."""

    def __init__(self, platform: Dependencies) -> None:
        self._platform = platform
        self._room = UploadMemory()
        self.auditor = Auditor(platform.audit, platform.cluster, trusted=platform.settings.trusted_proxies)

    async def run(self, operation: Operation, request: web.Request) -> web.Response:
        """The answer of ``operation``; raises ApiError and KubeError for what goes wrong."""
        with self.auditor.operation(operation, request) as trail:
            return await self._answer(operation, request, trail)

    async def _answer(self, operation: Operation, request: web.Request, trail: Trail) -> web.Response:
        platform = self._platform
        request[OPERATION] = operation.id
        caller = await platform.authentication.caller(
            credentials_of(request), key_as_bearer=operation.key_as_bearer
        )
        request[USER] = caller.username
        trail.caller = caller
        if caller.end_user is None:
            platform.rates.hit(caller)
        else:
            platform.end_user_rates.hit(caller)
            self._admit(operation, request, caller.end_user)
        organisation, refused = await self._admitted(caller, operation, request.match_info)
        request[ORGANISATION] = organisation.id
        trail.organisation = organisation
        if organisation is not NO_ORGANISATION:
            await self._platform.cluster.await_secrets(organisation.namespace)
        await self._count(organisation)
        await self._catch_up(request, organisation)
        async with AsyncExitStack() as closing:
            upload = None
            if operation.upload:
                upload = await closing.enter_async_context(self._room.file(organisation.id))
            with _instead(refused):
                raw, body, warnings = await _body(operation, request, upload, platform.settings.sizes)
                query, warned = await _query(operation, request, platform.settings.sizes)
            trail.body = body
            as_sent = operation.proxies or operation.own_protocol
            call = Call(
                platform=platform,
                organisation=organisation,
                caller=caller,
                path=request.match_info,
                query=query,
                body=body,
                raw=raw if operation.keeps_body or as_sent else b"",
                if_match=request.headers.get("If-Match") if operation.conditional else None,
                upload=upload.file if upload is not None else None,
                proxied=_proxy_request(operation, request) if as_sent else None,
                recheck=self._recheck(operation, request, caller, organisation)
                if operation.streams
                else None,
                session_seconds=request[SESSION_ENDS] - time.time() if SESSION_ENDS in request else None,
            )
            del raw
            if caller.end_user is not None:
                call = await _narrowed(operation, call)
            if refused is not None:
                await self._check_environments(operation, call, refused)
            writes = revisions.recording()
            request[WRITES] = trail.writes = writes
            reply = trail.reply = await operation.handler(call)
        if caller.end_user is None:
            warnings = [*warnings, *reply.warnings]  # the others name what is not the end user's
        response = _response(operation, request, reply, [*warned, *warnings])
        if revision := writes.header():
            response.headers[revisions.HEADER] = revision
        return response

    async def _count(self, organisation: Organisation) -> None:
        """ApiError 429 where the organisation sends more requests than its quota, over all replicas."""
        platform = self._platform
        if organisation.id:
            quotas = platform.cluster.quotas(organisation.namespace, platform.settings.quotas).quotas
            await platform.rate_quotas.hit(organisation.id, quotas.requests_per_second)

    def _recheck(
        self, operation: Operation, request: web.Request, caller: Caller, organisation: Organisation
    ) -> Callable[[], Awaitable[None]]:
        platform, credentials = self._platform, credentials_of(request)

        async def check() -> None:
            """ApiError: 401 where the credentials are no longer valid, 403 and 404 where the permission was revoked."""
            again = await platform.authentication.caller(credentials, key_as_bearer=operation.key_as_bearer)
            if again.key() != caller.key():
                raise errors.unauthenticated("The credentials belong to another caller now")
            if await self._organisation(again, operation, organisation.id) != organisation:
                raise errors.organisation_not_found(organisation.id)

        return check

    def _admit(self, operation: Operation, request: web.Request, scope: EndUserScope) -> None:
        """ApiError 403 for what end users may not do, and where their token may not be sent from."""
        if scope.session:
            request[SESSION] = scope.session
        if scope.origins is not None:
            origins = request[ORIGINS] = scope.origins | self._platform.settings.own_origins
            if (sent_from := request.headers.get("Origin")) is not None and sent_from.lower() not in origins:
                raise errors.forbidden(
                    "The connect session may not be used from this origin: name it in allowedOrigins when you "
                    "create the session"
                )
        if operation.end_user is None:
            raise errors.forbidden("End users may not do this: it needs a token or an API key with a role")

    async def _admitted(
        self, caller: Caller, operation: Operation, path: Mapping[str, str]
    ) -> tuple[Organisation, errors.ApiError | None]:
        """The organisation, and why the caller is refused who has no right on the Environments of the call."""
        try:
            return await self._organisation_of(caller, operation, path), None
        except errors.ApiError as error:
            if error.status != HTTPStatus.FORBIDDEN or operation.by_environment is None:
                raise
            others = tuple(one for one in operation.permissions if one != CHANGE_PROJECTS)
            by_environment = replace(operation, permissions=(MEMBERSHIP, *others))
            return await self._organisation_of(caller, by_environment, path), error

    async def _check_environments(
        self, operation: Operation, call: Call[Any, Any], refused: errors.ApiError
    ) -> None:
        """Raises ``refused`` unless the caller may patch each of the Environments, and there is one."""
        with _instead(refused):
            names = await operation.by_environment(call) if operation.by_environment else ()
        if not names:
            raise refused
        access = self._platform.access
        for name in names:
            needed = Permission("patch", "environments", name=name)
            if not await access.allowed(call.caller, call.namespace, needed):
                raise refused

    async def _organisation_of(
        self, caller: Caller, operation: Operation, path: Mapping[str, str]
    ) -> Organisation:
        """The organisation that the path names: itself, or by a project or an activation; none for an operation on the
        caller itself."""
        if "organisation_id" in path:
            return await self._organisation(caller, operation, path["organisation_id"])
        cluster = self._platform.cluster
        if "project_id" in path:
            refused, having = errors.project_not_found, cluster.organisations_of_project
            return await self._organisation_by(caller, operation, path["project_id"], having, refused)
        if "activation_id" in path:
            refused, having = errors.activation_not_found, cluster.organisations_of_activation
            return await self._organisation_by(caller, operation, path["activation_id"], having, refused)
        if operation.permissions:
            raise LookupError(f"The path of {operation.id} names nothing that its permissions are about")
        cluster.require_sync()
        return NO_ORGANISATION

    async def _organisation_by(
        self,
        caller: Caller,
        operation: Operation,
        given: str,
        having: Callable[[str], Sequence[Organisation]],
        not_found: Callable[[str], errors.ApiError],
    ) -> Organisation:
        """The organisation that has what this id is of.

        ApiError: 403, and 404 where there is none that the caller may know of.
        """
        platform, identifier = self._platform, parse_id(given)
        platform.cluster.require_sync()
        refused = not_found(identifier or given)
        if identifier is None:
            raise refused
        for organisation in having(identifier):
            if caller.organisations is not None and organisation.id not in caller.organisations:
                continue
            try:
                await platform.access.check(caller, organisation, operation.permissions)
            except errors.ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
            else:
                return organisation
        with suppress(errors.ApiError):
            await platform.access.check(caller, nowhere(identifier), operation.permissions)
        raise refused

    async def _organisation(self, caller: Caller, operation: Operation, given: str) -> Organisation:
        """The organisation that the path names. ApiError: 403, and 404 where there is none.

        One that there is and that the caller must not know of is answered as one that there is not, word by word
        and after the same questions to Kubernetes.
        """
        platform, identifier = self._platform, parse_id(given)
        platform.cluster.require_sync()
        if identifier is None:
            raise errors.organisation_not_found(given)
        if caller.organisations is not None and identifier not in caller.organisations:
            raise errors.organisation_not_found(identifier)
        organisation = platform.cluster.organisation(identifier)
        if organisation is not None and caller.end_user is not None:
            return organisation
        if organisation is not None:
            await platform.access.check(caller, organisation, operation.permissions)
            return organisation
        with suppress(errors.ApiError):
            await platform.access.check(caller, nowhere(identifier), operation.permissions)
        raise errors.organisation_not_found(identifier)

    async def _catch_up(self, request: web.Request, organisation: Organisation) -> None:
        """Waits until this replica knows the writes that the client has made through another."""
        seen = request.headers.get(revisions.HEADER)
        if seen and organisation is not NO_ORGANISATION:
            platform = self._platform
            seconds = platform.settings.revision_seconds
            await revisions.wait(
                seen,
                platform.cluster.watched(organisation.namespace),
                namespace=organisation.namespace,
                seconds=seconds,
            )


@contextmanager
def _instead(refused: errors.ApiError | None) -> Iterator[None]:
    """Whoever may not do it does not learn what else is wrong with the request."""
    try:
        yield
    except errors.ApiError:
        if refused is None:
            raise
        raise refused from None


async def _narrowed(operation: Operation, call: Call[Any, Any]) -> Call[Any, Any]:
    """The call of an end user, with nothing but what is theirs."""
    if operation.end_user is None:
        raise LookupError("End users may not do this, and should have been refused before")
    narrowed = operation.end_user(call)
    return await narrowed if inspect.isawaitable(narrowed) else narrowed


def credentials_of(request: web.Request) -> Mapping[str, str]:
    """The headers that tell who calls."""
    headers: Mapping[str, str] = request.get(CREDENTIALS, request.headers)
    return headers


def _proxy_request(operation: Operation, request: web.Request) -> ProxyRequest:
    """The request as it was sent: what the router has decoded might mean another path elsewhere."""
    before = operation.path.count("/")
    url = request.rel_url
    path = "" if operation.own_protocol else url.raw_path.split("/", before)[before]
    query = f"?{url.raw_query_string}" if url.raw_query_string else ""
    return ProxyRequest(method=request.method, path=path + query, headers=request.headers)


async def _body(
    operation: Operation, request: web.Request, upload: Upload | None, sizes: BodyLimits
) -> tuple[bytes, BaseModel | None, list[str]]:
    """The body as it was sent, as a model, and warnings."""
    limit = sizes.of(operation.size)
    if operation.proxies or operation.own_protocol:
        return await read_body(request, limit=limit, seconds=sizes.seconds), None, []
    if operation.body is None:
        return b"", None, []
    if upload is not None:
        seconds = sizes.seconds * 2
        return b"", *await read_upload(request, operation.body, upload, limit=limit, seconds=seconds)
    raw = await read_body(request, limit=limit, seconds=sizes.seconds)
    if not raw.strip():
        if not operation.body_optional:
            raise errors.malformed("The body is empty; this operation needs a JSON object")
        return raw, *validate(operation.body, {})
    elsewhere = dict.fromkeys(request.match_info, "path")
    if operation.query is not None:
        elsewhere |= dict.fromkeys(parameters_of(operation.query), "query")
    found = await read_model(request, operation.body, raw, strict=operation.strict, elsewhere=elsewhere)
    return raw, *found


async def _query(
    operation: Operation, request: web.Request, sizes: BodyLimits
) -> tuple[BaseModel | None, list[str]]:
    if operation.proxies or operation.own_protocol:
        return None, []
    body_fields = frozenset[str]() if operation.body is None else names_of(operation.body)
    if operation.strict:
        refuse_unknown_parameters(operation.query, request)
        refuse_repeated_parameters(operation.query, request)
    warnings = unknown_parameters(operation.query, request, body_fields=body_fields)
    if operation.query is None:
        return None, warnings
    try:
        return validate_query(operation.query, request), warnings
    except errors.ApiError:
        # A body that the operation does not have is read for one purpose: parameters may have been sent in it.
        if operation.body is not None or not request.body_exists:
            raise
        with suppress(errors.ApiError):
            sent = parse_json(request, await read_body(request, limit=_MAX_STRAY_BODY, seconds=sizes.seconds))
            body_fields = frozenset(sent) if isinstance(sent, dict) else body_fields
        return validate_query(operation.query, request, body_fields=body_fields), warnings


def _response(
    operation: Operation, request: web.Request, reply: Reply[Any], warnings: list[str]
) -> web.Response:
    if reply.response is not None:
        return reply.response
    headers = dict(reply.headers)
    if reply.etag:
        headers["ETag"] = reply.etag
    warning = warning_header(warnings)
    if warning:
        headers["Warning"] = warning
    condition = request.headers.get("If-None-Match")
    if condition and reply.etag and request.method == "GET" and unchanged(condition, reply.etag):
        return web.Response(status=304, headers=headers)
    if reply.body is None and reply.content is None and not reply.parts and not operation.empty:
        return web.Response(status=operation.success, headers=headers)
    content = reply.content or b"{}"
    if reply.body is not None:
        content = reply.body.model_dump_json(by_alias=True, exclude_none=True).encode()
    parts = reply.parts or (content,)
    return web.Response(
        status=operation.success,
        body=ChunkedPayload(parts) if sum(map(len, parts)) > MIB else b"".join(parts),
        content_type="application/json",
        charset="utf-8",
        headers=headers,
    )


class ChunkedPayload(Payload):
    """Bytes, one after the other, as a body. (aiohttp's payload for io.BytesIO copies all of them first.)"""

    def __init__(self, parts: Sequence[bytes]) -> None:
        super().__init__(parts)
        self._size = sum(map(len, parts))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The whole as text."""
        return b"".join(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Sends the pieces, and lets others go on after each."""
        for part in self._value:
            view = memoryview(part)
            for start in range(0, len(view), _PIECE):
                await writer.write(view[start : start + _PIECE])
                await asyncio.sleep(0)
