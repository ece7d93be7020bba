"""How connections that are there, and their Secrets, are changed."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tieline_api import errors
from tieline_api.auth.authentication import Caller
from tieline_api.auth.exposure_access import check_exposure, opens_to_code
from tieline_api.auth.secret_access import merged, secrets_sent
from tieline_api.authorisation.authorization_codes import CodeChecks, combined_error
from tieline_api.authorisation.code_exchange import exchange_codes
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.cluster.field_managers import described, other_managers
from tieline_api.cluster.writer import change_limits, change_map, refuse_removal, set_or_drop
from tieline_api.conversion import auth_schemes
from tieline_api.conversion.connections import linked_certificate
from tieline_api.conversion.credential_plans import PlannedSecret, plan_credential, stored_item
from tieline_api.credentials.credential_secrets import made_for, new_edition, secret_name, secret_references
from tieline_api.credentials.tokens_in_use import token_secret_of
from tieline_api.dependencies import Dependencies
from tieline_api.schemas import connections as rest
from tieline_api.schemas.url_variables import stored_variables
from tieline_api.use_cases.url_values import check_values
from tieline_core.identity.ids import object_id
from tieline_core.objects import Object, ObjectView
from tieline_core.resources.objects import (
    ConnectionCredentialDict,
    ConnectionObject,
    ConnectionTemplateObject,
    ReferenceDict,
    SystemObject,
)

CONNECTION_KIND = "Connection"


async def update_connection_object(
    platform: Dependencies,
    body: rest.ConnectionUpdate,
    *,
    obj: ConnectionObject,
    system: SystemObject | None,
    organisation: str,
    caller: Caller | None = None,
    if_match: str | None = None,
) -> ConnectionObject:
    """Writes new Secrets, then the Connection that refers to them, then exchanges its codes.

    ``caller`` must be allowed to get or use each Secret of others that the change sends elsewhere. It is None where
    nobody calls: an authorisation that comes back brings its code, and changes nothing else.
    What is stored stays when a code cannot be exchanged, and so do the tokens of others: the credential tells why,
    and is tried again where that can help.
    """
    metadata, given = obj["metadata"], body.credentials or []
    change = _Change(body=body, obj=obj, system=system, organisation=organisation)
    staged: list[PlannedSecret] = []
    variables = stored_variables(body.variables)
    if body.variables is not None and system is not None:
        live = obj["spec"].get("variables") or {}
        check_values(body.variables, system, live=live, field="variables")
    if given:
        after = obj["spec"] if variables is None else {**obj["spec"], "variables": variables}
        planned = {**obj, "spec": {**after, "credentials": change.plan(obj, obj)}}
        checks = CodeChecks(platform=platform)
        await checks.check(given, planned, change.secrets, path="credentials", live=obj)

    async def stage() -> None:
        if caller is not None:
            names = [secret.name for secret in change.secrets]
            await platform.references.check(caller, obj, change.sent, staged=names)
            if opens_to_code(change.spec_before, change.spec_after, staged=names):
                await check_exposure(platform.access, caller, metadata["namespace"], metadata["name"])
        staged.extend(change.secrets)
        owner = made_for(CONNECTION_KIND, metadata["name"])
        await platform.credentials.stage(metadata["namespace"], owner, change.secrets, owner=obj)

    async with platform.credentials.discarding(metadata["namespace"], staged):
        changed = await platform.writer.change(
            platform.cluster.connections,
            metadata["namespace"],
            metadata["name"],
            change,
            if_match=if_match,
            prepare=stage,
        )
    left = change.referred | {secret.name for secret in staged}
    await platform.credentials.remove(changed, left - secret_references(changed))
    await platform.credentials.remove_unchanged(_tokens_of_removed(platform.cluster, change.before, changed))
    outcome = await exchange_codes(platform, given, changed, change.ids, path="credentials")
    if outcome.failures:
        raise combined_error(outcome.failures)
    return changed


@dataclass(kw_only=True)
class _Change:
    """What a request makes of a connection, computed anew for each state of it that is met on the way."""

    body: rest.ConnectionUpdate
    obj: ConnectionObject
    system: SystemObject | None
    organisation: str
    edition: str = field(default_factory=new_edition)
    secrets: Sequence[PlannedSecret] = ()
    """Those that it needs."""
    ids: Sequence[str] = ()
    """The ids of its credentials, in the order of the request."""
    referred: set[str] = field(default_factory=set)
    """The names of the Secrets that were referred to before."""
    before: Sequence[ConnectionCredentialDict] = ()
    """The credentials that there were before."""
    sent: Sequence[str] = ()
    """The names of the Secrets whose values go elsewhere from now on."""
    spec_before: Mapping[str, Any] = field(default_factory=dict)
    spec_after: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, live: ConnectionObject, mine: Object) -> None:
        owned = copy.deepcopy(mine["spec"])
        self._apply(live, mine)
        bases = [secret.base for secret in self.secrets if secret.base]
        after = merged(live["spec"], mine["spec"])
        self.spec_before, self.spec_after = live["spec"], after
        self.sent = [*secrets_sent(live["spec"], after), *secrets_sent(owned, mine["spec"]), *bases]

    def _apply(self, live: ConnectionObject, mine: Object) -> None:
        body = self.body
        if body.name is not None:
            mine["spec"]["name"] = body.name
        if body.base_url:
            mine["spec"]["baseUrl"] = body.base_url
        elif body.base_url == "" and "baseUrl" in live["spec"]:
            refuse_removal(live, ("baseUrl",), what="The base URL")
            mine["spec"].pop("baseUrl", None)
        change_map(live, mine, "variables", stored_variables(body.variables), what="The variable")
        change_limits(live, mine, body.limits)
        if body.expose_to_code is not None:
            mine["spec"]["exposeToCode"] = body.expose_to_code
        if body.tools is not None:
            _change_tools(live, mine, body.tools)
        if body.credentials is not None:
            self.referred |= secret_references(live)
            self.before = live["spec"].get("credentials") or ()
            set_or_drop(mine["spec"], "credentials", self.plan(live, mine))

    def plan(self, live: ConnectionObject, mine: ObjectView) -> list[Object]:
        """The credentials as they will be; ``mine`` is what the API owns of the connection."""
        if self.system is None:
            raise errors.conflict(
                "The connection's system does not exist: credentials cannot be checked against it"
            )
        items, self.secrets = plan_credentials(
            self.body.credentials or [],
            system=self.system,
            owner=self.obj["metadata"]["name"],
            connection=object_id(self.obj),
            organisation=self.organisation,
            edition=self.edition,
            live=live,
            mine=mine,
        )
        self.ids = [item["id"] for item in items]
        return items


def _change_tools(live: ConnectionObject, mine: Object, tools: rest.AgentTools) -> None:
    if not tools.to_spec() and live["spec"].get("tools"):
        refuse_removal(live, ("tools",), what="What agents may call")
    set_or_drop(mine["spec"], "tools", tools.to_spec())


def _tokens_of_removed(
    cluster: ClusterCache, before: Sequence[ConnectionCredentialDict], after: ConnectionObject
) -> list[Mapping[str, Any]]:
    """The Secrets with tokens of the credentials ``before`` that a connection has no more."""
    left = {item["id"] for item in after["spec"].get("credentials") or ()}
    gone = [item for item in before if item["id"] not in left]
    return [found for item in gone if (found := token_secret_of(cluster, after, item["id"]))]


async def link_if_free(
    platform: Dependencies, template: ConnectionTemplateObject, connection: ConnectionObject
) -> None:
    """Links a static template that has no connection yet."""
    reference = {"name": connection["metadata"]["name"]}
    if template["spec"].get("dynamic") or template["spec"].get("connectionRef"):
        return

    def change(live: ConnectionTemplateObject, mine: Object) -> None:
        if not live["spec"].get("dynamic") and not live["spec"].get("connectionRef"):
            mine["spec"]["connectionRef"] = reference

    metadata = template["metadata"]
    await platform.writer.change(platform.cluster.templates, metadata["namespace"], metadata["name"], change)


def plan_credentials(
    given: Sequence[rest.ConnectionCredential],
    *,
    system: SystemObject,
    owner: str,
    connection: str,
    organisation: str,
    edition: str,
    live: ConnectionObject | None = None,
    mine: ObjectView | None = None,
    path: str = "credentials",
) -> tuple[list[Object], list[PlannedSecret]]:
    """All credentials of a connection in their order, and the Secrets for the values that were given.

    ``owner`` is the connection's name, ``connection`` its id, ``organisation`` its organisation's, ``edition`` the
    write's. Credentials of ``live`` that
    are not listed go; 409 when they belong to somebody else.
    """
    stored = {item["id"]: item for item in (live["spec"].get("credentials") if live else None) or ()}
    ours = {item["id"]: item for item in ((mine or {}).get("spec") or {}).get("credentials") or ()}
    items: list[Object] = []
    secrets: list[PlannedSecret] = []
    seen: set[str] = set()
    for index, one in enumerate(given):
        found = stored_item(one.id, stored.values(), connection=connection)
        known = found["id"] if found else ""
        planned = plan_credential(
            one,
            live=found,
            mine=ours.get(known),
            system=system,
            connection=connection,
            organisation=organisation,
            path=f"{path}[{index}]",
            linked=linked_certificate(live, known),
        )
        if found is not None and any(secret.part == f"credential/{known}" for secret in planned.secrets):
            _refuse_foreign_secret(live, found)
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


def _refuse_foreign_secret(live: ConnectionObject | None, item: ConnectionCredentialDict) -> None:
    """ApiError 409 where another manager sets the Secret of a credential."""
    reference = item.get("secretRef")
    if live is None or reference is None:
        return
    managers = other_managers(live, ("spec", "credentials", {"id": item["id"]}, "secretRef"))
    if not managers:
        return
    raise errors.ApiError(
        409,
        "conflict",
        f'The values of the credential "{item["id"]}" are in the Secret "{reference["name"]}", which '
        f"{described(live, managers[0])} sets: change the values in that Secret, where it is managed",
        extra={"managers": managers},
    )


def refuse_taken_name(
    cluster: ClusterCache, system: str, name: str, *, namespace: str, user: ReferenceDict | None
) -> None:
    """409 when a connection of the system has the name; users' connections are distinguished by user."""
    for other in cluster.referring(cluster.connections, "system", namespace, system):
        if other["spec"]["name"] == name and other["spec"].get("endUserRef") == user:
            raise errors.conflict(f'The system has a connection named "{name}" already: choose another name')


def _refer(item: Object, secret: PlannedSecret) -> None:
    if secret.part.startswith("scheme/"):
        auth_schemes.refer_to_secret(item["authSchemeConfig"], secret.name)
    else:
        item["secretRef"] = {"name": secret.name}
