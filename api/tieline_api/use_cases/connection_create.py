"""New connections, of one request: all that can be wrong is found first, codes are exchanged last.

A code is good once, so a request with several cannot be undone as a whole. What a user has granted is not thrown away:
where one code was exchanged and another was not, what was connected stays, and the answer says what is missing. Where
nothing was exchanged, nothing stays.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tieline_api import errors
from tieline_api.auth.authentication import Caller
from tieline_api.auth.exposure_access import check_exposure, opens_to_code
from tieline_api.authorisation.authorization_codes import CodeChecks, combined_error
from tieline_api.authorisation.code_exchange import Exchanges, exchange_codes
from tieline_api.cluster.organisations import Organisation
from tieline_api.conversion.credential_plans import PlannedSecret
from tieline_api.credentials.credential_secrets import made_for, new_edition
from tieline_api.dependencies import Dependencies
from tieline_api.schemas import connections as rest
from tieline_api.schemas.url_variables import stored_variables
from tieline_api.use_cases.connection_update import CONNECTION_KIND, plan_credentials, refuse_taken_name
from tieline_api.use_cases.url_values import check_values
from tieline_core.identity.ids import ID_LABEL, format_time, new_id, object_id
from tieline_core.kubernetes import KubeError
from tieline_core.kubernetes.resources import CONNECTIONS
from tieline_core.objects import Object
from tieline_core.resources.objects import (
    ConnectionObject,
    ConnectionTemplateObject,
    EndUserObject,
    ReferenceDict,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class PlannedConnection:
    """A connection that is still to be made."""

    body: rest.NewConnection
    path: str
    """Where it is in the request."""
    identifier: str
    obj: ConnectionObject
    """As it will be."""
    secrets: Sequence[PlannedSecret]

    @property
    def ids(self) -> list[str]:
        """The ids of its credentials, in the order of the request."""
        return [item["id"] for item in self.obj["spec"]["credentials"]]

    @property
    def rivals(self) -> tuple[Any, ...]:
        """The same for connections that cannot all have their name."""
        spec = self.obj["spec"]
        owner = spec.get("endUserRef")
        return spec["systemRef"]["name"], owner["name"] if owner else None, spec["name"]


@dataclass(frozen=True, kw_only=True)
class CreatedConnections:
    """What a request has made."""

    connections: Mapping[str, ConnectionObject]
    """By their place in the request; those that were taken back are missing."""
    exchanged: int
    """How many codes became tokens."""
    error: errors.ApiError | None
    """What the client has to know all the same."""


def plan_connection(
    platform: Dependencies,
    body: rest.NewConnection,
    *,
    organisation: Organisation,
    template: ConnectionTemplateObject,
    user: EndUserObject | None = None,
    path: str = "connection",
) -> PlannedConnection:
    """A new Connection for a template's system. ApiError where it may not be."""
    cluster = platform.cluster
    system = cluster.referred(cluster.systems, template, "systemRef")
    if system is None:
        raise errors.conflict("The template's system does not exist: create it first")
    check_values(body.variables or (), system, live={}, field=f"{path}.variables")
    system_name = system["metadata"]["name"]
    namespace = organisation.namespace
    reference: ReferenceDict | None = {"name": user["metadata"]["name"]} if user else None
    refuse_taken_name(cluster, system_name, body.name, namespace=namespace, user=reference)
    identifier = new_id()
    items, secrets = plan_credentials(
        body.credentials,
        system=system,
        owner=identifier.lower(),
        connection=identifier,
        organisation=organisation.id,
        edition=new_edition(),
        path=f"{path}.credentials",
    )
    spec: Object = {
        "name": body.name,
        "systemRef": {"name": system_name},
        "connectionTemplateRef": {"name": template["metadata"]["name"]},
        "credentials": items,
    }
    if body.base_url:
        spec["baseUrl"] = body.base_url
    if variables := stored_variables(body.variables):
        spec["variables"] = variables
    if body.limits and (limits := body.limits.to_spec()):
        spec["limits"] = limits
    if body.expose_to_code:
        spec["exposeToCode"] = True
    if body.tools and (tools := body.tools.to_spec()):
        spec["tools"] = tools
    if reference:
        spec["endUserRef"] = reference
    obj = _planned_object(namespace, identifier, spec)
    return PlannedConnection(body=body, path=path, identifier=identifier, obj=obj, secrets=secrets)


async def create_connections(
    platform: Dependencies, planned: Sequence[PlannedConnection], *, caller: Caller
) -> CreatedConnections:
    """Checks all, writes all, then exchanges all codes. ApiError, with nothing made, where nothing is to stay."""
    for one in planned:
        if opens_to_code(None, one.obj["spec"]):
            await check_exposure(platform.access, caller, one.obj["metadata"]["namespace"], "")
    rivals = [one.rivals for one in planned]
    if len(set(rivals)) < len(rivals):
        raise errors.conflict("Two of the new connections have the same system and name: name them otherwise")
    checks = CodeChecks(platform=platform)
    for one in planned:
        await checks.check(one.body.credentials, one.obj, one.secrets, path=f"{one.path}.credentials")
    made: dict[str, ConnectionObject] = {}
    try:
        for one in planned:
            made[one.path] = await _write(platform, one)
    except (errors.ApiError, KubeError):
        await delete_created(platform, made.values())
        raise
    outcomes = await asyncio.gather(
        *(
            exchange_codes(
                platform, one.body.credentials, made[one.path], one.ids, path=f"{one.path}.credentials"
            )
            for one in planned
        )
    )
    return await _kept(platform, made, dict(zip(made, outcomes, strict=True)))


async def _kept(
    platform: Dependencies, made: Mapping[str, ConnectionObject], outcomes: Mapping[str, Exchanges]
) -> CreatedConnections:
    failures = [failure for outcome in outcomes.values() for failure in outcome.failures]
    exchanged = sum(outcome.exchanged for outcome in outcomes.values())
    fruitless = [path for path, one in outcomes.items() if one.failures and not one.exchanged]
    if failures and not exchanged:
        fruitless = list(made)
    await delete_created(platform, [made[path] for path in fruitless])
    if not failures:
        return CreatedConnections(connections=made, exchanged=exchanged, error=None)
    if not exchanged:
        raise failures[0] if len(failures) == 1 else combined_error(failures)
    left = {path: obj for path, obj in made.items() if path not in fruitless}
    error = combined_error(failures, connections=[object_id(obj) for obj in left.values()])
    error.message += (
        "; the connections listed in connections were made all the same, because codes of theirs were exchanged "
        "and are good once only: store a new code in what is missing"
    )
    return CreatedConnections(connections=left, exchanged=exchanged, error=error)


async def delete_created(platform: Dependencies, connections: Iterable[ConnectionObject]) -> None:
    """Deletes connections that nothing came of, and frees the states of their codes."""
    for obj in connections:
        for item in obj["spec"].get("credentials") or ():
            with suppress(KubeError):
                await platform.token_manager.abandon(obj, item["id"])
        try:
            await platform.writer.delete(platform.cluster.connections, obj)
        except KubeError as error:
            extra = {"kind": "Connection", "object": obj["metadata"]["name"]}
            logger.warning("Cannot take back a new connection: %s", error.reason, extra=extra)


async def _write(platform: Dependencies, planned: PlannedConnection) -> ConnectionObject:
    """The Secrets, then the Connection, which owns them."""
    metadata, identifier = planned.obj["metadata"], planned.identifier
    namespace, owner = metadata["namespace"], made_for(CONNECTION_KIND, metadata["name"])
    async with platform.credentials.discarding(namespace, planned.secrets):
        await platform.credentials.stage(namespace, owner, planned.secrets)
        obj = await platform.writer.create(
            platform.cluster.connections, namespace, identifier, planned.obj["spec"]
        )
    await platform.credentials.adopt(obj, planned.secrets)
    return obj


def _planned_object(namespace: str, identifier: str, spec: Any) -> ConnectionObject:
    """A Connection as it will be, for what has to be checked before it is written."""
    return {
        "apiVersion": CONNECTIONS.api_version,
        "kind": "Connection",
        "metadata": {
            "name": identifier.lower(),
            "namespace": namespace,
            "uid": "",
            "resourceVersion": "",
            "generation": 0,
            "labels": {ID_LABEL: identifier},
            "creationTimestamp": format_time(datetime.now(UTC)),
        },
        "spec": spec,
    }
