"""Pods and the API speak TLS: who is trusted, and what happens when certificates are replaced."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from tests.harness.identity.served_certificates import CertificateFolder, impostor
from tests.harness.session.waiting import eventually_async
from tieline.configuration.pod_api import UNREACHABLE, PodApi
from tieline_api.server.http_server import Runner
from tieline_api.server.tls import CertificateError, ServedCertificate
from tieline_common.authorities import AuthoritiesFile
from tieline_operator.tls.certificates import Issued

TOKEN = "a-token-of-a-pod"
LIMITS = aiohttp.ClientTimeout(total=30)


class ServedApi:
    """A listener as the API's for project pods, and how a pod asks it."""

    def __init__(self, folder: Path) -> None:
        self.certificates = CertificateFolder(folder)
        self.certificates.trust()
        self.certificates.issue()
        self.served = ServedCertificate(folder, look_seconds=0.01)
        self.token = folder / "token"
        self.token.write_text(TOKEN)
        self.port = 0

    def pod(self, client: aiohttp.ClientSession, port: int | None = None) -> PodApi:
        trust = AuthoritiesFile(self.certificates.authorities).context
        return PodApi(client, f"https://localhost:{port or self.port}", self.token, trust)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[ServedApi]:
    made = ServedApi(tmp_path)

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"token": request.headers["Authorization"]})

    app = web.Application()
    app.router.add_get("/", answer)
    runner = Runner(app, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=made.served.context)
    await site.start()
    made.port = runner.addresses[0][1]
    following = asyncio.create_task(made.served.follow())
    yield made
    following.cancel()
    await runner.cleanup()


async def ask(api: PodApi) -> int:
    return (await api.request("GET", "/", limits=LIMITS)).status


async def served_serial(port: int) -> int:
    """Which certificate new connections get."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return hash(found)


async def test_no_request_is_lost_while_certificate_and_authority_are_replaced(api: ServedApi) -> None:
    """In the operator's order: first clients trust the new authority, then it signs, then the old one goes."""
    answers: list[int] = []
    ended = asyncio.Event()

    async def load(*, keep_alive: bool) -> None:
        connector = aiohttp.TCPConnector(force_close=not keep_alive)
        async with aiohttp.ClientSession(connector=connector) as client:
            pod = api.pod(client)
            while not ended.is_set():
                answers.append(await ask(pod))

    async def until_served_anew(before: int) -> None:
        async def is_other() -> bool:
            return await served_serial(api.port) != before

        await eventually_async("another certificate", is_other)

    async def until_more() -> None:
        count = len(answers) + 20

        async def enough() -> bool:
            return len(answers) >= count

        await eventually_async("more answers", enough)

    async with asyncio.TaskGroup() as group:
        group.create_task(load(keep_alive=True))
        group.create_task(load(keep_alive=False))
        before = await served_serial(api.port)
        api.certificates.issue()
        await until_served_anew(before)
        await until_more()
        old, new = api.certificates.authority, Issued.authority(datetime.now(UTC))
        api.certificates.trust(old, new)
        await until_more()
        api.certificates.authority = new
        before = await served_serial(api.port)
        api.certificates.issue()
        await until_served_anew(before)
        await until_more()
        api.certificates.trust(new)
        await until_more()
        ended.set()
    assert set(answers) == {200}


@pytest.mark.parametrize("tls", [True, False])
async def test_a_pod_sends_its_token_to_no_server_that_it_does_not_trust(
    api: ServedApi, tmp_path: Path, *, tls: bool
) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    async with aiohttp.ClientSession() as client, impostor(foreign, tls=tls) as (port, heard):
        with pytest.raises(UNREACHABLE):
            await ask(api.pod(client, port))
    assert TOKEN.encode() not in heard
    assert b"GET" not in heard


async def test_a_pod_whose_authority_is_an_old_one_is_refused(api: ServedApi) -> None:
    api.certificates.trust(Issued.authority(datetime.now(UTC)))
    async with aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await ask(api.pod(client))


async def test_a_pod_without_authorities_sends_nothing(api: ServedApi) -> None:
    api.certificates.authorities.write_text("none")
    async with aiohttp.ClientSession() as client:
        with pytest.raises(UNREACHABLE):
            await ask(api.pod(client))


async def test_plain_text_is_refused_at_the_port_of_tls(api: ServedApi) -> None:
    async with aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.ClientError):
            await client.get(f"http://localhost:{api.port}/")


async def test_half_a_certificate_leaves_the_last_one_in_place(
    api: ServedApi, caplog: pytest.LogCaptureFixture
) -> None:
    (api.certificates.folder / "tls.key").write_text(Issued.authority(datetime.now(UTC)).key)

    async def noticed() -> bool:
        return "The certificate cannot be read" in caplog.text

    await eventually_async("that it does not fit", noticed)
    assert "PRIVATE" not in caplog.text
    async with aiohttp.ClientSession() as client:
        assert await ask(api.pod(client)) == 200


def test_an_api_without_a_certificate_says_so(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="cannot be used"):
        ServedCertificate(tmp_path)
