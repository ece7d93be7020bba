"""Serves the provider emulator until it is interrupted, and says how to use it."""

import asyncio
from collections.abc import Iterator, Sequence

import yaml
from aiohttp import web

from tieline.cli.exit_codes import CommandError, ExitCode
from tieline.emulator.connection import connection, local
from tieline.emulator.provider import Provider
from tieline.emulator.server import CONTROL, Emulator
from tieline_catalogue.catalogue import UnknownEntryError, catalogue
from tieline_protocol.signature_presets import PRESET_OPTIONS


def provider_of(key: str, *, redirect_uris: frozenset[str] = frozenset()) -> Provider:
    """The provider of an entry. Raises CommandError for a key that the catalogue does not have."""
    try:
        entry = catalogue().get(key)
    except UnknownEntryError as error:
        near = ", ".join(one.key for one in catalogue().search(key)[:5])
        raise CommandError(f"{error}{f': {near}' if near else ''}", ExitCode.NOT_FOUND) from None
    raw = {"key": entry.key, "name": entry.name, "system": entry.system, "emulator": entry.emulator}
    return Provider(raw, redirect_uris=redirect_uris, presets=PRESET_OPTIONS)


def run(keys: Sequence[str], *, port: int, redirect_uris: frozenset[str]) -> None:
    """Serves the providers of some entries. Raises CommandError."""
    emulator = Emulator([provider_of(key, redirect_uris=redirect_uris) for key in keys])
    try:
        asyncio.run(_serve(emulator, port))
    except KeyboardInterrupt:
        return
    except OSError as error:
        raise CommandError(
            f"Port {port} cannot be used ({error.strerror}): choose another by --port"
        ) from None


async def _serve(emulator: Emulator, port: int) -> None:
    # Ctrl-C ends it at once: nothing under way is worth aiohttp's minute.
    runner = web.AppRunner(emulator.application(), access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        for line in _lines(emulator, address):
            print(line, flush=True)
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def _lines(emulator: Emulator, address: str) -> Iterator[str]:
    names = ", ".join(one.name for one in emulator.providers.values())
    yield f"# {names} at {address}/, where buttons end tokens, revoke access and set limits"
    for one in emulator.providers.values():
        yield from _about(one, address)
    yield "# connections.yaml:"
    connections = {one.key: connection(one, address) for one in emulator.providers.values()}
    yield yaml.safe_dump({"connections": connections}, sort_keys=False, allow_unicode=True, width=110)


def _about(provider: Provider, address: str) -> Iterator[str]:
    scheme = provider.scheme
    if scheme is not None and scheme.authorise is not None:
        yield f"# {provider.name}: client id {provider.client.id}, client secret {provider.client.secret}"
        yield f"#   authorise URL {local(str(scheme.raw['authorizeUrl']), provider, address)}"
        yield f"#   token URL     {local(str(scheme.raw['tokenUrl']), provider, address)}"
    if provider.signing is not None:
        yield f"# {provider.name}: consumer key {provider.client.id}, consumer secret {provider.client.secret}"
        for one in provider.signing.endpoints:
            yield f"#   {local(one.filled({}), provider, address)}"
    if provider.webhooks is not None:
        yield f"# {provider.name}: webhook secret {provider.webhooks.secret}".replace("\n", "\n#   ")
        yield f"#   curl -X POST '{address}{CONTROL}/{provider.key}/webhook?url=http://127.0.0.1:8080/<webhook>'"
