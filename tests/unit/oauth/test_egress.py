"""Outgoing requests reach what is public, and inside only what an administrator allows."""

import socket

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from tieline_core.oauth.egress import Egress, EgressRefusedError


class FixedResolver(AbstractResolver):
    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=address, port=port, family=socket.AF_INET, proto=0, flags=0)
            for address in self.addresses
        ]

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "::",
        "fe80::1%eth0",
        "fd00::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:7f00:1::",
        "2130706433",
        "0177.0.0.1",
        "0x7f.1",
        "127.1",
    ],
)
def test_inner_addresses_are_refused_however_they_are_written(address: str) -> None:
    assert not Egress().permits(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_are_reached(address: str) -> None:
    assert Egress().permits(address)


def test_an_administrator_opens_and_closes_networks() -> None:
    egress = Egress.parse(allowed=["10.5.0.0/16"], denied=["8.8.8.0/24"])
    assert egress.permits("10.5.0.1")
    assert egress.permits("::ffff:10.5.0.1")
    assert not egress.permits("10.6.0.1")
    assert not egress.permits("8.8.8.8")


async def _served() -> tuple[web.AppRunner, int]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="inside")

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, runner.addresses[0][1]


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0177.0.0.1", "127.1", "[::ffff:127.0.0.1]"])
async def test_no_notation_of_loopback_is_connected_to(host: str) -> None:
    runner, port = await _served()
    try:
        async with aiohttp.ClientSession(connector=Egress().connector()) as session:
            with pytest.raises((aiohttp.ClientError, ValueError)):
                await session.get(f"http://{host}:{port}/", timeout=aiohttp.ClientTimeout(total=5))
    finally:
        await runner.cleanup()


async def test_a_name_that_resolves_to_a_private_address_is_refused() -> None:
    connector = Egress().connector(resolver=FixedResolver("127.0.0.1", "10.0.0.1"))
    async with aiohttp.ClientSession(connector=connector) as session:
        with pytest.raises(aiohttp.ClientConnectorError) as caught:
            await session.get("http://public.example/")
    assert isinstance(caught.value.os_error, EgressRefusedError)


async def test_an_allowed_network_is_reached_by_name_and_by_address() -> None:
    runner, port = await _served()
    egress = Egress.parse(allowed=["127.0.0.0/8"])
    try:
        connector = egress.connector(resolver=FixedResolver("10.0.0.1", "127.0.0.1"))
        async with aiohttp.ClientSession(connector=connector) as session:
            for host in ("inside.example", "127.0.0.1"):
                async with session.get(f"http://{host}:{port}/") as response:
                    assert await response.text() == "inside"
    finally:
        await runner.cleanup()
