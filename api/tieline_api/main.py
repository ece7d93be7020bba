"""``tieline-api``: serves the REST API until it is asked to stop, and finishes what is in flight."""

import asyncio
import logging
import signal
import ssl
import sys

import uvloop
from aiohttp import web

from tieline_api import create_key
from tieline_api.app import make_apps, make_dependencies
from tieline_api.auth.issuers import IssuersError
from tieline_api.connect.brand import BrandError
from tieline_api.server import json_logging
from tieline_api.server.graceful_drain import Leaving
from tieline_api.server.http_server import Runner
from tieline_api.server.tls import CertificateError, ServedCertificate
from tieline_api.settings import Settings
from tieline_common.cancellation import cancel_and_wait
from tieline_core import process_memory
from tieline_core.environment_settings import SettingsError
from tieline_core.kubernetes import Kube
from tieline_core.kubernetes.kubeconfig import NoClusterError
from tieline_core.kubernetes.scoped_client import ScopedKube

logger = logging.getLogger("tieline_api")

# What pods ask for is short, but for long polls, which end when something changes.
_SHORT_SECONDS = 10.0


def main() -> int:
    """The console script; 0 after an orderly end, 2 when the configuration is wrong.

    Without arguments it serves; ``create-key`` makes an API key.
    """
    if len(sys.argv) > 1 and sys.argv[1] == "create-key":
        return create_key.main(sys.argv[2:])
    try:
        settings = Settings.from_environment()
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    json_logging.set_up(settings.log_level)
    try:
        uvloop.run(serve(settings))
    except (NoClusterError, IssuersError, BrandError, CertificateError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


async def serve(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stop_requested = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_requested.set)
    async with process_memory.periodic_heap_trim(), await _connect(settings) as kube:
        platform = make_dependencies(kube, settings)
        apps, leaving = make_apps(kube, platform), Leaving()
        certificate = _certificate(settings)
        internal: list[tuple[int, ssl.SSLContext | None]] = []
        if settings.tls.is_plain_served:
            internal.append((settings.internal_port, None))
        if certificate is not None:
            internal.append((settings.internal_tls_port, certificate.context))
        listeners: tuple[tuple[web.Application, list[tuple[int, ssl.SSLContext | None]], float], ...] = (
            (apps.public, [(settings.listen_port, None)], settings.shutdown_seconds),
            (apps.internal, internal, min(settings.shutdown_seconds, _SHORT_SECONDS)),
            (apps.monitoring, [(settings.metrics_port, None)], 1.0),
            (apps.activator, [(settings.activator_port, None)], settings.shutdown_seconds),
        )
        runners = []
        for app, ports, patience in listeners:
            app.middlewares.insert(0, leaving.middleware())
            runner = Runner(app, shutdown_timeout=patience)
            await runner.setup()
            for port, context in ports:
                await web.TCPSite(runner, settings.listen_host, port, ssl_context=context).start()
                logger.info("Listening", extra={"host": settings.listen_host, "port": port})
            runners.append(runner)
        following = asyncio.create_task(certificate.follow()) if certificate is not None else None
        await stop_requested.wait()
        logger.info("Draining: accepting requests until no more arrive")
        await leaving.wait(silence=settings.drain_seconds)
        logger.info("Stopping, finishing what is in flight")
        for runner in reversed(runners):
            await runner.cleanup()
        if following is not None:
            await cancel_and_wait(following)


def _certificate(settings: Settings) -> ServedCertificate | None:
    """For the listener of project pods; None where that speaks plain text. Raises CertificateError."""
    if not settings.tls.is_served or settings.tls_folder is None:
        return None
    return ServedCertificate(settings.tls_folder)


async def _connect(settings: Settings) -> Kube:
    """To the whole cluster, or to the one organisation that is served."""
    context, agent, timeout = settings.kube_context, "tieline-api", settings.kube_timeout_seconds
    if settings.namespace is None:
        return await Kube.connect(context=context, user_agent=agent, timeout=timeout)
    return await ScopedKube.connect(
        context=context, user_agent=agent, timeout=timeout, namespaces=[settings.namespace]
    )


if __name__ == "__main__":
    raise SystemExit(main())
