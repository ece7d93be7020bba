"""``/internal/v1/environment/packages/{key}``: the packages that were installed for an environment's lock.

    GET   ?digest=…   the archive, for a pod of the environment
    PUT   ?digest=…   stores the archive, for the Job that the operator made for just this key

A pod's token is of the environment's ServiceAccount. The Job has another one, of which code never sees a token; the
token also names the Job's pod, and so the key that the Job may store.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing

import orjson
from aiohttp import web

from tieline_api import errors
from tieline_api.auth.authentication import bearer_token
from tieline_api.dependencies import Dependencies
from tieline_api.engine.packages import PackageKey, PackageStore, too_large
from tieline_api.pod_api.environment import (
    authenticated_workload,
    endpoint,
    workload_environment,
)
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.identity.names import packages_name
from tieline_protocol.packages import CHUNK_BYTES, MAX_ARCHIVE_BYTES, installer_job

_PATH = "/internal/v1/environment/packages/{key}"
_HEX = re.compile(r"[0-9a-f]{64}")
_SUFFIX = packages_name("")
_POD = "authentication.kubernetes.io/pod-name"
_PART_SECONDS = 30.0
"""For a part of 1 MiB, in either direction."""


def add_packages(app: web.Application, platform: Dependencies) -> None:
    """Adds the endpoints."""
    store = PackageStore(platform.engine)

    async def get(request: web.Request, _platform: Dependencies) -> web.StreamResponse:
        key, digest = _named(request)
        namespace, workload = await authenticated_workload(request, platform)
        organisation, _, _ = workload_environment(request, platform, namespace, workload)
        ref = PackageKey(organisation.id, key)
        entry = await store.entry(ref)
        if entry is None or entry.digest != digest:
            raise errors.ApiError(404, "not_found", "These packages are not stored; they are installed again")
        response = web.StreamResponse(headers={"Cache-Control": "no-store"})
        response.content_length = entry.size
        response.content_type = "application/zip"
        await response.prepare(request)
        await send_parts(request, response, store.read(ref, entry))
        return response

    async def put(request: web.Request, _platform: Dependencies) -> web.StreamResponse:
        key, digest = _named(request)
        organisation = await _installer(request, platform, key)
        if (request.content_length or 0) > MAX_ARCHIVE_BYTES:
            raise too_large()
        content = paced(request.content.iter_chunked(CHUNK_BYTES))
        entry = await store.store(PackageKey(organisation, key), digest, content)
        body = orjson.dumps({"digest": entry.digest, "size": entry.size})
        return web.Response(body=body, content_type="application/json")

    app.router.add_get(_PATH, endpoint("internalGetPackages", get, platform), allow_head=False)
    app.router.add_put(_PATH, endpoint("internalPutPackages", put, platform))


async def send_parts(
    request: web.Request,
    response: web.StreamResponse,
    parts: AsyncGenerator[bytes, None],
    *,
    seconds: float = _PART_SECONDS,
) -> None:
    """Sends an archive; ends the connection where a part is not taken in time."""
    try:
        async with aclosing(parts) as ahead:
            async for part in ahead:
                async with asyncio.timeout(seconds):
                    await response.write(part)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise
    await response.write_eof()


async def paced(content: AsyncIterator[bytes], *, seconds: float = _PART_SECONDS) -> AsyncIterator[bytes]:
    """The content of a request. Raises ApiError 408 where nothing more of it comes: a node that died says nothing."""
    while True:
        try:
            async with asyncio.timeout(seconds):
                part = await anext(content)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise errors.ApiError(
                408, "timeout", f"Nothing of the packages arrived for {seconds:g} s"
            ) from None
        yield part


def _named(request: web.Request) -> tuple[str, str]:
    """Key and digest; ApiError 422."""
    key, digest = request.match_info["key"], request.query.get("digest", "")
    for name, value in (("key", key), ("digest", digest)):
        if not _HEX.fullmatch(value):
            raise errors.invalid(name, "must be a SHA-256 in hexadecimal")
    return key, digest


async def _installer(request: web.Request, platform: Dependencies, key: str) -> str:
    """The organisation of the Job's pod whose token came; ApiError 401 and 403 for any other."""
    namespace, account = await authenticated_workload(request, platform)
    if not account.endswith(_SUFFIX):
        raise _not_installer()
    workload = account.removesuffix(_SUFFIX)
    organisation, project, environment = workload_environment(request, platform, namespace, workload)
    caller = await platform.runtimes.authenticate(bearer_token(request.headers))
    extra: Mapping[str, tuple[str, ...]] = caller.extra if caller else {}
    job = installer_job(environment_id(object_id(project), environment), key)
    if not any(pod.startswith(f"{job}-") for pod in extra.get(_POD, ())):
        raise _not_installer()
    return organisation.id


def _not_installer() -> errors.ApiError:
    return errors.forbidden("Only the Job that installs these packages may store them")
