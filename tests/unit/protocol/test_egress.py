"""Outgoing requests reach what is public, and inside only what an administrator allows."""

import socket

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from tieline_protocol.egress import PUBLIC_ONLY, Egress, EgressRefusedError, is_host


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
        "64:ff9b::c0a8:101",
        "64:ff9b:1::808:808",
        "2002:7f00:1::",
        "2002:808:808::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:10::1",
        "2001:db8::1",
        "3fff::1",
        "5f00::1",
        "100::1",
        "4000::1",
        "fec0::1",
        "feff::1",
        "::10.0.0.1",
        "::8.8.8.8",
        "::ffff:0:8.8.8.8",
        "2606:4700::200:5efe:10.0.0.1",
        "2606:4700::5efe:10.0.0.1",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "240.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
        "ff02::1",
        "2130706433",
        "0177.0.0.1",
        "0x7f.1",
        "127.1",
    ],
)
def test_inner_addresses_are_refused_however_they_are_written(address: str) -> None:
    assert not Egress().permits(address)


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2001:4860:4860::8888"],
)
def test_public_addresses_are_reached(address: str) -> None:
    assert Egress().permits(address)


def test_an_administrator_opens_and_closes_networks() -> None:
    egress = Egress.parse(allowed=["10.5.0.0/16"], denied=["8.8.8.0/24"])
    assert egress.permits("10.5.0.1")
    assert egress.permits("::ffff:10.5.0.1")
    assert not egress.permits("10.6.0.1")
    assert not egress.permits("8.8.8.8")


def test_of_allowed_and_denied_networks_the_smaller_one_counts() -> None:
    egress = Egress.parse(
        allowed=["10.0.0.0/8", "8.8.8.8/32"], denied=["10.9.0.0/16", "8.8.8.0/24", "10.1.1.1/32"]
    )
    assert egress.permits("10.8.0.1")
    assert not egress.permits("10.9.0.1")
    assert not egress.is_allowed("10.9.0.1")
    assert not egress.permits("10.1.1.1")
    assert egress.permits("8.8.8.8")
    assert not egress.permits("8.8.8.9")


API_SERVER = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}


@pytest.mark.parametrize(
    "address",
    [
        "10.96.0.1",
        "::ffff:10.96.0.1",
        "::10.96.0.1",
        "64:ff9b::a60:1",
        "64:ff9b:1::a60:1",
        "2002:a60:1::1",
        "2001:0:808:808::f59f:fffe",
        "fd00::5efe:10.96.0.1",
        "::ffff:0:10.96.0.1",
    ],
)
def test_the_api_server_is_opened_by_its_own_address_alone(address: str) -> None:
    wide = {**API_SERVER, "TIELINE_EGRESS_ALLOWED": "0.0.0.0/0,::/0,*.svc"}
    assert not Egress.from_environment(wide).permits(address)
    assert Egress.from_environment(wide).permits("10.96.0.2")
    meant = {**API_SERVER, "TIELINE_EGRESS_ALLOWED": "10.96.0.1/32"}
    assert Egress.from_environment(meant).permits("10.96.0.1")


async def test_an_allowed_name_does_not_lead_to_the_api_server() -> None:
    runner, port = await _served()
    environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "TIELINE_EGRESS_ALLOWED": "*.svc,*.corp.example"}
    egress = Egress.from_environment(environment)
    try:
        connector = egress.connector(resolver=FixedResolver("127.0.0.1"))
        async with aiohttp.ClientSession(connector=connector) as session:
            for host in ("kubernetes.default.svc", "wiki.corp.example", "127.0.0.1"):
                with pytest.raises(aiohttp.ClientConnectorError):
                    await session.get(f"http://{host}:{port}/")
        # Another address of the name is reached, and is not a way to the first.
        connector = egress.connector(resolver=FixedResolver("127.0.0.1", "127.0.0.2"))
        async with aiohttp.ClientSession(connector=connector) as session:
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(f"http://wiki.corp.example:{port}/")
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(f"http://127.0.0.1:{port}/")
    finally:
        await runner.cleanup()


HOSTS = [
    "a..b",
    ".a",
    "a" * 64 + ".example",
    "x" * 300,
    ".".join(["abc"] * 70),
    "a b.example",
    "\u2024\u2024b",
]


@pytest.mark.parametrize("host", HOSTS)
async def test_a_host_that_cannot_be_one_is_a_failed_connection(host: str) -> None:
    connector = Egress().connector(resolver=FixedResolver("8.8.8.8"))
    async with aiohttp.ClientSession(connector=connector) as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"http://{host}/")
    assert not is_host(host)


@pytest.mark.parametrize(
    "host", ["shop.example", "shop.example.", "a_b", "xn--bcher-kva.example", "bücher.example", "::1"]
)
def test_names_and_addresses_are_hosts(host: str) -> None:
    assert is_host(host)


def test_what_is_configured_is_read_checked_and_handed_on() -> None:
    environment = {
        "TIELINE_EGRESS_ALLOWED": "10.5.0.0/16, shop.acme.svc ,*.Corp.example,fd00::/8",
        "TIELINE_EGRESS_DENIED": "8.8.8.0/24",
        "KUBERNETES_SERVICE_HOST": "9.9.9.9",
    }
    egress = Egress.from_environment(environment)
    assert egress.permits("10.5.0.1")
    assert egress.permits("fd00::1")
    assert not egress.permits("9.9.9.9"), "the API server, wherever it is"
    assert egress.opens("shop.acme.svc.")
    assert egress.opens("wiki.corp.example")
    assert not egress.opens("corp.example")
    assert not egress.opens("evilcorp.example")
    kubernetes = {"KUBERNETES_SERVICE_HOST": "9.9.9.9"}
    assert Egress.from_environment({**egress.to_environment(), **kubernetes}) == egress
    assert Egress.from_environment({}) == Egress()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TIELINE_EGRESS_ALLOWED", "10.0.0.1/8"),
        ("TIELINE_EGRESS_ALLOWED", "http://shop.example"),
        ("TIELINE_EGRESS_ALLOWED", "2130706433"),
        ("TIELINE_EGRESS_ALLOWED", "*"),
        ("TIELINE_EGRESS_DENIED", "shop.example"),
    ],
)
def test_what_is_neither_a_network_nor_a_name_is_named(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{name}.*{value[:4].replace('*', '.')}"):
        Egress.from_environment({name: value})


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


async def test_an_allowed_name_is_reached_wherever_it_is_and_no_other_name_there() -> None:
    runner, port = await _served()
    egress = Egress.parse(allowed=["shop.acme.svc"])
    try:
        connector = egress.connector(resolver=FixedResolver("127.0.0.1"))
        async with aiohttp.ClientSession(connector=connector) as session:
            with pytest.raises(aiohttp.ClientConnectorError, match="TIELINE_EGRESS_ALLOWED"):
                await session.get(f"http://127.0.0.1:{port}/")
            async with session.get(f"http://shop.acme.svc:{port}/") as response:
                assert await response.text() == "inside"
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(f"http://other.acme.svc:{port}/")
    finally:
        await runner.cleanup()


async def test_a_name_that_changes_its_address_after_the_check_gains_nothing() -> None:
    """The check is of the address that the socket goes to, not of the name."""

    class Rebinding(FixedResolver):
        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[ResolveResult]:
            found = await super().resolve(host, port, family)
            self.addresses = ("127.0.0.1",)
            return found

    runner, port = await _served()
    resolver = Rebinding("192.0.2.1")
    try:
        async with aiohttp.ClientSession(connector=Egress().connector(resolver=resolver)) as session:
            for _ in range(2):
                with pytest.raises(aiohttp.ClientConnectorError):
                    await session.get(f"http://public.example:{port}/")
        assert resolver.addresses == ("127.0.0.1",)
    finally:
        await runner.cleanup()


async def test_a_name_of_the_cluster_is_refused_even_where_its_range_is_public() -> None:
    connector = Egress().connector(resolver=FixedResolver("8.8.8.8"))
    async with aiohttp.ClientSession(connector=connector) as session:
        for name in ("api.tieline-system.svc", "kubernetes.default.svc.cluster.local"):
            with pytest.raises(aiohttp.ClientConnectorError, match="no public address"):
                await session.get(f"http://{name}/")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "::1",
        "10.0.0.1",
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "shop.acme.svc",
        "x.cluster.local.",
    ],
)
def test_a_host_inside_is_refused_before_it_is_resolved(host: str) -> None:
    assert PUBLIC_ONLY.refuses(host)


@pytest.mark.parametrize(
    "host", ["1.1.1.1", "shop.example", "svc.example", "localhost.example", "mysvc", "shop"]
)
def test_of_other_hosts_nothing_is_said_before_they_are_resolved(host: str) -> None:
    assert not PUBLIC_ONLY.refuses(host)


@pytest.mark.parametrize(
    ("allowed", "host"),
    [("10.0.0.0/8", "10.0.0.1"), ("shop.acme.svc", "shop.acme.svc"), ("10.0.0.0/8", "shop.acme.svc")],
)
def test_what_the_administrator_has_opened_is_not_refused(allowed: str, host: str) -> None:
    assert not Egress.parse(allowed=[allowed]).refuses(host)


def test_another_inner_name_than_the_opened_one_is_refused() -> None:
    assert Egress.parse(allowed=["shop.acme.svc"]).refuses("other.acme.svc")
