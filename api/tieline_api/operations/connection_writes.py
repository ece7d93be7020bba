"""How connections and their Secrets are written; activations create connections as well."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tieline_api import errors
from tieline_api.conversion import auth_schemes
from tieline_api.conversion.connections import PlannedSecret, linked_certificate, plan_credential
from tieline_api.models import connections as rest
from tieline_api.oauth.exchanging import check_codes, exchange_codes
from tieline_api.platform import Platform
from tieline_api.runtime_credentials import kept_tokens
from tieline_api.store.secrets import made_for, new_edition, secret_name, secret_references
from tieline_api.store.world import World
from tieline_api.store.writer import put_or_leave_out, refuse_removal
from tieline_core.ids import ID_LABEL, format_time, new_id, object_id
from tieline_core.kube import KubeError
from tieline_core.kube.resources import CONNECTIONS

Obj = dict[str, Any]
_KIND = "Connection"


async def create_connection_object(
    platform: Platform,
    body: rest.NewConnection,
    *,
    namespace: str,
    template: Mapping[str, Any],
    user: Mapping[str, Any] | None = None,
    path: str = "connection",
) -> Obj:
    """Secrets, then a new Connection for a template's system, which owns them, then tokens for its codes.

    When a code cannot be exchanged, the Connection is taken back.
    """
    world = platform.world
    system = world.referred(world.systems, template, "systemRef")
    if system is None:
        raise errors.conflict("The template's system does not exist (any more): create it first")
    system_name = system["metadata"]["name"]
    reference = {"name": user["metadata"]["name"]} if user else None
    refuse_taken_name(world, system_name, body.name, namespace=namespace, user=reference)
    identifier = new_id()
    items, secrets = plan_credentials(
        body.credentials,
        system=system,
        owner=identifier.lower(),
        connection=identifier,
        edition=new_edition(),
        path=f"{path}.credentials",
    )
    spec: Obj = {
        "name": body.name,
        "systemRef": {"name": system_name},
        "connectionTemplateRef": {"name": template["metadata"]["name"]},
        "credentials": items,
    }
    if body.base_url:
        spec["baseUrl"] = body.base_url
    if reference:
        spec["endUserRef"] = reference
    ids, path = [item["id"] for item in items], f"{path}.credentials"
    planned = planned_object(namespace, identifier, spec)
    await check_codes(platform, body.credentials, planned, path=path)
    names = [secret.name for secret in secrets]
    try:
        await platform.credentials.stage(namespace, made_for(_KIND, identifier.lower()), secrets)
        obj = await platform.writer.create(world.connections, namespace, identifier, spec)
    except (errors.ApiError, KubeError) as error:
        await platform.credentials.discard(namespace, names, error=error)
        raise
    await platform.credentials.adopt(obj, secrets)
    try:
        await exchange_codes(platform, body.credentials, obj, ids, path=path)
    except (errors.ApiError, KubeError):
        for item in ids:
            with suppress(KubeError):
                await platform.keeper.give_up(obj, item)
        await platform.writer.delete(world.connections, obj)
        raise
    return obj


async def update_connection_object(
    platform: Platform,
    body: rest.ConnectionUpdate,
    *,
    obj: Mapping[str, Any],
    system: Mapping[str, Any] | None,
    if_match: str | None = None,
) -> Obj:
    """Writes new Secrets, then the Connection that refers to them, then exchanges its codes.

    What is stored stays when a code cannot be exchanged: the credential tells why, and is tried again where
    that can help.
    """
    metadata, identifier = obj["metadata"], object_id(obj)
    given = body.credentials or []
    secrets: list[PlannedSecret] = []
    staged: set[str] = set()
    before: set[str] = set()
    held: list[Obj] = []
    ids: list[str] = []
    edition = new_edition()

    def plan(live: Mapping[str, Any], mine: Mapping[str, Any]) -> list[Obj]:
        items, secrets[:] = plan_credentials(
            given,
            system=system or {},
            owner=metadata["name"],
            connection=identifier,
            edition=edition,
            live=live,
            mine=mine,
        )
        ids[:] = [item["id"] for item in items]
        return items

    def change(live: Obj, mine: Obj) -> None:
        if body.name is not None:
            mine["spec"]["name"] = body.name
        if body.base_url:
            mine["spec"]["baseUrl"] = body.base_url
        elif body.base_url == "" and "baseUrl" in live["spec"]:
            refuse_removal(live, ("baseUrl",), what="The base URL")
            mine["spec"].pop("baseUrl", None)
        if body.credentials is not None:
            before.update(secret_references(live))
            held[:] = live["spec"].get("credentials") or ()
            put_or_leave_out(mine["spec"], "credentials", plan(live, mine))

    if given:
        planned = {**obj, "spec": {**obj["spec"], "credentials": plan(obj, obj)}}
        await check_codes(platform, given, planned, path="credentials", live=obj)

    async def stage() -> None:
        staged.update(secret.name for secret in secrets)
        await platform.credentials.stage(
            metadata["namespace"], made_for(_KIND, metadata["name"]), secrets, owner=obj
        )

    try:
        changed = await platform.writer.change(
            platform.world.connections,
            metadata["namespace"],
            metadata["name"],
            change,
            if_match=if_match,
            prepare=stage,
        )
    except (errors.ApiError, KubeError) as error:
        await platform.credentials.discard(metadata["namespace"], staged, error=error)
        raise
    await platform.credentials.remove(changed, (before | staged) - secret_references(changed))
    await platform.credentials.remove_unchanged(_tokens_of_removed(platform.world, held, changed))
    await exchange_codes(platform, given, changed, ids, path="credentials")
    return changed


def _tokens_of_removed(world: World, before: Sequence[Obj], after: Obj) -> list[Mapping[str, Any]]:
    """The Secrets with tokens of the credentials ``before`` that a connection has no more."""
    left = {item["id"] for item in after["spec"].get("credentials") or ()}
    gone = [item for item in before if item["id"] not in left]
    return [found for item in gone if (found := kept_tokens(world, after, item))]


async def link_if_free(
    platform: Platform, template: Mapping[str, Any], connection: Mapping[str, Any]
) -> None:
    """Links a static template that has no connection yet."""
    reference = {"name": connection["metadata"]["name"]}
    if template["spec"].get("dynamic") or template["spec"].get("connectionRef"):
        return

    def change(live: Obj, mine: Obj) -> None:
        if not live["spec"].get("dynamic") and not live["spec"].get("connectionRef"):
            mine["spec"]["connectionRef"] = reference

    metadata = template["metadata"]
    await platform.writer.change(platform.world.templates, metadata["namespace"], metadata["name"], change)


def plan_credentials(
    given: Sequence[rest.ConnectionCredential],
    *,
    system: Mapping[str, Any],
    owner: str,
    connection: str,
    edition: str,
    live: Mapping[str, Any] | None = None,
    mine: Mapping[str, Any] | None = None,
    path: str = "credentials",
) -> tuple[list[Obj], list[PlannedSecret]]:
    """All credentials of a connection in their order, and the Secrets for the values that were given.

    ``owner`` is the connection's name, ``connection`` its id, ``edition`` the write's. Credentials of ``live`` that
    are not listed go; 409 when they belong to somebody else.
    """
    stored = {item["id"]: item for item in ((live or {}).get("spec") or {}).get("credentials") or ()}
    ours = {item["id"]: item for item in ((mine or {}).get("spec") or {}).get("credentials") or ()}
    items: list[Obj] = []
    secrets: list[PlannedSecret] = []
    seen: set[str] = set()
    for index, one in enumerate(given):
        planned = plan_credential(
            one,
            live=stored.get(one.id or ""),
            mine=ours.get(one.id or ""),
            system=system,
            connection=connection,
            path=f"{path}[{index}]",
            linked=linked_certificate(live or {}, one.id or ""),
        )
        identifier = planned.item["id"]
        if identifier in seen:
            raise errors.invalid(f"{path}[{index}].id", "is used twice: ids are unique in the connection")
        seen.add(identifier)
        named = [
            replace(secret, name=secret_name(_KIND, owner, secret.part, edition))
            for secret in planned.secrets
        ]
        for secret in named:
            _refer(planned.item, secret)
        items.append(planned.item)
        secrets += named
    for identifier in stored.keys() - seen:
        step = {"id": identifier}
        refuse_removal(live or {}, ("credentials", step), what=f'The credential "{identifier}"')
    return items, secrets


def planned_object(namespace: str, identifier: str, spec: Mapping[str, Any]) -> Obj:
    """A Connection as it will be, for what has to be checked before it is written."""
    return {
        "apiVersion": CONNECTIONS.api_version,
        "kind": CONNECTIONS.kind,
        "metadata": {
            "name": identifier.lower(),
            "namespace": namespace,
            "uid": "",
            "labels": {ID_LABEL: identifier},
            "creationTimestamp": format_time(datetime.now(UTC)),
        },
        "spec": spec,
    }


def refuse_taken_name(
    world: World, system: str, name: str, *, namespace: str, user: Mapping[str, Any] | None
) -> None:
    """409 when a connection of the system has the name; users' connections are told apart by user."""
    for other in world.referring(world.connections, "system", namespace, system):
        if other["spec"]["name"] == name and other["spec"].get("endUserRef") == user:
            raise errors.conflict(f'The system has a connection named "{name}" already: choose another name')


def _refer(item: Obj, secret: PlannedSecret) -> None:
    if secret.part.startswith("scheme/"):
        auth_schemes.refer_to_secret(item["authSchemeConfig"], secret.name)
    else:
        item["secretRef"] = {"name": secret.name}
