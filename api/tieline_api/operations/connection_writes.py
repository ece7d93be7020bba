"""How connections and their Secrets are written; activations create connections as well."""

from collections.abc import Mapping, Sequence
from typing import Any

from tieline_api import errors
from tieline_api.conversion import auth_schemes
from tieline_api.conversion.connections import PlannedSecret, plan_credential
from tieline_api.models import connections as rest
from tieline_api.platform import Platform
from tieline_api.store.secrets import secret_name
from tieline_api.store.world import World
from tieline_api.store.writer import refuse_removal
from tieline_core.ids import new_id
from tieline_core.kube import KubeError

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
    """A new Connection for a template's system, then its Secrets, which it owns.

    When the Secrets cannot be written the Connection is taken back.
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
    obj = await platform.writer.create(world.connections, namespace, identifier, spec)
    try:
        await platform.credentials.put(obj, secrets)
    except (errors.ApiError, KubeError):
        await platform.writer.delete(world.connections, obj)
        raise
    return obj


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
    live: Mapping[str, Any] | None = None,
    mine: Mapping[str, Any] | None = None,
    path: str = "credentials",
) -> tuple[list[Obj], list[PlannedSecret]]:
    """All credentials of a connection in their order, and the Secrets for the values that were given.

    ``owner`` is the connection's name and ``connection`` its id. Credentials of ``live`` that
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
        )
        identifier = planned.item["id"]
        if identifier in seen:
            raise errors.invalid(f"{path}[{index}].id", "is used twice: ids are unique in the connection")
        seen.add(identifier)
        for secret in planned.secrets:
            _refer(planned.item, secret, owner=owner)
        items.append(planned.item)
        secrets += planned.secrets
    for identifier in stored.keys() - seen:
        step = {"id": identifier}
        refuse_removal(live or {}, ("credentials", step), what=f'The credential "{identifier}"')
    return items, secrets


def unused_secrets(before: Sequence[Mapping[str, Any]], after: Mapping[str, Any]) -> list[str]:
    """The Secrets that credentials referred to before and do not any more."""
    used = {name for item in after["spec"].get("credentials") or () for name in _references(item)}
    return sorted({name for item in before for name in _references(item)} - used)


def refuse_taken_name(
    world: World, system: str, name: str, *, namespace: str, user: Mapping[str, Any] | None
) -> None:
    """409 when a connection of the system has the name; users' connections are told apart by user."""
    for other in world.referring(world.connections, "system", namespace, system):
        if other["spec"]["name"] == name and other["spec"].get("endUserRef") == user:
            raise errors.conflict(f'The system has a connection named "{name}" already: choose another name')


def _refer(item: Obj, secret: PlannedSecret, *, owner: str) -> None:
    name = secret_name(_KIND, owner, secret.part)
    if secret.part.startswith("scheme/"):
        auth_schemes.refer_to_secret(item["authSchemeConfig"], name)
    else:
        item["secretRef"] = {"name": name}


def _references(item: Mapping[str, Any]) -> list[str]:
    found = [(item.get("secretRef") or {}).get("name")]
    inline = item.get("authSchemeConfig")
    if inline:
        found.append(auth_schemes.secret_name_of(inline))
    return [name for name in found if name]
