"""``tieline-operator``: kopf provides the life-cycle and the events of our own kinds.

kopf's handlers only enqueue keys. They are all ``on.event``: such handlers leave no annotations and no finalizers on
objects, and kopf writes nothing.
"""

import asyncio
import logging
import socket
import sys
from typing import Any

import kopf
import uvloop
from aiohttp import web

from tieline_core import json_logging, process_memory
from tieline_core.environment_settings import SettingsError
from tieline_core.kubernetes import Kube, Resource
from tieline_core.kubernetes.kubeconfig import NoClusterError
from tieline_core.kubernetes.scoped_client import ScopedKube
from tieline_operator import health
from tieline_operator.cache.indexers import PRIMARY_RESOURCES
from tieline_operator.config import Config
from tieline_operator.controller.kopf_session import session_of
from tieline_operator.controller.kopf_storage import NoDiffBase, NoMemories, NoProgress
from tieline_operator.controller.manager import Manager
from tieline_operator.metrics import Metrics

logger = logging.getLogger(__name__)

_WRONG_USAGE = 2


def main() -> int:
    """Runs until SIGTERM; returns the process's exit code."""
    try:
        config = Config.from_environment()
    except SettingsError as error:
        sys.stderr.write(f"The configuration is not usable: {error}\n")
        return _WRONG_USAGE
    # These log a line a probe, and a line an event.
    json_logging.set_up(config.log_level, sys.stderr, quiet=("aiohttp.access", "kopf.objects"))
    try:
        return uvloop.run(run(config))
    except NoClusterError as error:
        logger.error("%s", error)
        return _WRONG_USAGE


async def run(config: Config) -> int:
    """Runs the operator; returns 1 when it stopped because of an error."""
    metrics = Metrics(object_names=config.metrics_object_names)
    server, _ = metrics.serve(config.metrics_port)
    manager = Manager(config, await connect(config), metrics)
    stop = asyncio.Event()
    probing = web.AppRunner(health.application(manager), access_log=None, shutdown_timeout=1.0)
    await probing.setup()
    await web.TCPSite(probing, "0.0.0.0", config.health_port).start()  # noqa: S104  (the kubelet asks)
    watching = asyncio.create_task(_stop_when_finished(manager, stop))
    # Given, because kopf would look up the user's name, and a user may have none.
    identity: Any = socket.gethostname()
    try:
        async with process_memory.periodic_heap_trim():
            await kopf.operator(
                registry=registry(config, manager, stop),
                memories=NoMemories(),
                standalone=True,
                identity=identity,
                clusterwide=not config.namespaces,
                namespaces=config.namespaces,
                stop_flag=stop,
            )
    finally:
        watching.cancel()
        await probing.cleanup()
        server.shutdown()
    return 1 if manager.finished.is_set() else 0


async def connect(config: Config) -> Kube:
    """A client for where the operator works."""
    if config.namespaces:
        return await ScopedKube.connect(user_agent="tieline-operator", namespaces=config.namespaces)
    return await Kube.connect(user_agent="tieline-operator")


def registry(config: Config, manager: Manager, stopped: asyncio.Event) -> kopf.OperatorRegistry:
    """kopf's handlers: start, stop, and the events of our kinds. ``stopped`` is set once the manager has stopped."""
    handlers = kopf.OperatorRegistry()

    @kopf.on.login(registry=handlers)
    async def login(**kwargs: Any) -> kopf.AiohttpSession | None:
        found = kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)
        return session_of(found) if found else None

    @kopf.on.startup(registry=handlers)
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        # kopf would post its log as Events on objects.
        settings.posting.enabled = False
        settings.persistence.diffbase_storage = NoDiffBase()
        settings.persistence.progress_storage = NoProgress()
        # kopf keeps a worker an object; idle ones are useless here, and delay the exit.
        settings.queueing.idle_timeout = 0.5
        settings.queueing.exit_timeout = 0.5
        # kopf's default lists a kind in one request: all objects would be in memory once more.
        settings.watching.chunk_size = 100
        # kopf would watch CRDs and Namespaces of the whole cluster, which a Role does not permit.
        settings.scanning.disabled = bool(config.namespaces)
        await manager.start()

    @kopf.on.cleanup(registry=handlers)
    async def stop(**_: Any) -> None:
        await manager.stop()
        # kopf waits up to 5 s for its stop flag, even after a signal.
        stopped.set()

    for resource in PRIMARY_RESOURCES:
        _watch(handlers, manager, resource)
    return handlers


def _watch(handlers: kopf.OperatorRegistry, manager: Manager, resource: Resource) -> None:
    @kopf.on.event(
        resource.group, resource.version, resource.plural, registry=handlers, id=f"see-{resource.plural}"
    )
    async def see(event: kopf.RawEvent, **_: Any) -> None:
        await manager.handle_event(resource, event["object"]["metadata"])


async def _stop_when_finished(manager: Manager, stop: asyncio.Event) -> None:
    await manager.finished.wait()
    stop.set()


if __name__ == "__main__":
    raise SystemExit(main())
