"""How connections that are there, and their Secrets, are changed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tieline_api import errors
from tieline_api.conversion import auth_schemes
from tieline_api.conversion.connections import PlannedSecret, linked_certificate, plan_credential
from tieline_api.models import connections as rest
from tieline_api.oauth.codes import CodeChecks
from tieline_api.oauth.exchanging import exchange_codes
from tieline_api.oauth.token_errors import all_told
from tieline_api.platform import Platform
from tieline_api.runtime_credentials import kept_tokens
from tieline_api.store.secrets import made_for, new_edition, secret_name, secret_references
from tieline_api.store.world import World
from tieline_api.store.writer import put_or_leave_out, refuse_removal
from tieline_core.ids import object_id
from tieline_core.kube import KubeError

Obj = dict[str, Any]
CONNECTION_KIND = "Connection"


async def update_connection_object(
    platform: Platform,
    body: rest.ConnectionUpdate,
    *,
    obj: Mapping[str, Any],
    system: Mapping[str, Any] | None,
    if_match: str | None = None,
) -> Obj:
    """Writes new Secrets, then the Connection that refers to them, then exchanges its codes.

    What is stored stays when a code cannot be exchanged, and so do the tokens of others: the credential tells why,
    and is tried again where that can help.
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
        await CodeChecks(platform=platform).check(given, planned, secrets, path="credentials", live=obj)

    async def stage() -> None:
        staged.update(secret.name for secret in secrets)
        await platform.credentials.stage(
            metadata["namespace"], made_for(CONNECTION_KIND, metadata["name"]), secrets, owner=obj
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
    outcome = await exchange_codes(platform, given, changed, ids, path="credentials")
    if outcome.failures:
        raise all_told(outcome.failures)
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
            replace(secret, name=secret_name(CONNECTION_KIND, owner, secret.part, edition))
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
