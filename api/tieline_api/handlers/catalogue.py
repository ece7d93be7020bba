"""The catalogue of providers: lists, entries, and Systems made of them."""

from collections.abc import Iterable, Sequence

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.cluster.etags import etag
from tieline_api.conversion import catalogue as convert
from tieline_api.conversion.auth_schemes import CLIENT_SECRET, refer_to_secret
from tieline_api.conversion.credential_plans import PlannedSecret
from tieline_api.credentials.credential_secrets import made_for, new_edition, secret_name
from tieline_api.http.operation import ORGANISATION, AnyCall, Call, Operations, Reply
from tieline_api.page_tokens import refused_cursor, seal, unseal
from tieline_api.schemas import catalogue as rest
from tieline_api.schemas.systems import SystemWithMessages
from tieline_api.schemas.url_variables import stored_variables
from tieline_api.views.system_connectors import system_shown
from tieline_catalogue.catalogue import UnknownEntryError, catalogue
from tieline_catalogue.entry import Entry, Summary, needs_client, needs_client_secret
from tieline_core.identity.ids import new_id, object_name
from tieline_core.objects import Object
from tieline_core.resources.auth_schemes import AuthSchemeType
from tieline_core.resources.fields import ValidationMessage
from tieline_core.severity import Severity

CATALOGUE = "/api/v2/catalogue"
_CURSOR = "catalogue"

OPERATIONS = Operations("Catalogue")


@OPERATIONS.add(
    "GET",
    CATALOGUE,
    id="listCatalogue",
    summary="List and search the catalogue of providers",
    permissions=(),
    errors=(403,),
)
async def list_catalogue(call: Call[rest.CatalogueQuery, None]) -> Reply[rest.CataloguePage]:
    """A page of the entries that have every word of ``search``. Those that people ask for most come first."""
    query = call.query
    found = catalogue().search(query.search or "", category=query.category)
    start = _index(found, query.after) + 1 if query.after else 0
    end = _index(found, query.before) if query.before else len(found)
    if query.before and not query.after:
        start = max(start, end - query.first)
    part = found[start : min(end, start + query.first)]
    body = rest.CataloguePage(
        total_count=len(found),
        items=[convert.item_to_rest(one) for one in part],
        next=seal(_CURSOR, part[-1].key) if part and start + len(part) < len(found) else None,
        prev=seal(_CURSOR, part[0].key) if part and start > 0 else None,
    )
    return Reply(body=body)


@OPERATIONS.add(
    "GET",
    f"{CATALOGUE}/{{entry}}",
    id="getCatalogueEntry",
    summary="Get an entry of the catalogue",
    permissions=(),
    errors=(403, 404),
)
async def get_entry(call: Call[None, None]) -> Reply[rest.CatalogueEntry]:
    """What an entry has: the spec of its System, what to fill in at the provider, scopes, and sources of the facts."""
    entry = _entry(call)
    summary = next(one for one in catalogue().summaries if one.key == entry.key)
    redirect_url = call.platform.settings.callback_url or None
    return Reply(body=convert.entry_to_rest(entry, summary, redirect_url=redirect_url))


@OPERATIONS.add(
    "POST",
    f"{ORGANISATION}/catalogue/{{entry}}/systems",
    id="createSystemFromCatalogue",
    summary="Create a system from an entry of the catalogue",
    permissions=permission("create", "systems"),
    body_optional=True,
    success=201,
)
async def create_system(call: Call[None, rest.SystemFromEntry]) -> Reply[SystemWithMessages]:
    """Creates a system with what an entry says: base URL, auth schemes, limits, lists and check.

    An auth scheme that needs an OAuth client is left out, with a message, unless ``clients`` or ``schemes`` names it.
    Client secrets are stored in Kubernetes Secrets and never returned.
    """
    entry, body, platform = _entry(call), call.body, call.platform
    _refuse_unknown(entry, body.schemes or (), "schemes")
    clients = _clients(entry, body)
    schemes, left_out = convert.chosen_schemes(entry, body.schemes, clients)
    identifier, edition = new_id(), new_edition()
    owner = object_name(identifier)
    secrets = [
        secret
        for item in schemes
        if item["id"] in clients and (secret := _with_client(item, clients[item["id"]], owner, edition))
    ]
    spec = convert.system_spec(entry, body, variables=stored_variables(body.variables) or {}, schemes=schemes)
    async with platform.credentials.discarding(call.namespace, secrets):
        await platform.credentials.stage(call.namespace, made_for("System", owner), secrets)
        obj = await platform.writer.create(platform.cluster.systems, call.namespace, identifier, spec)
    await platform.credentials.adopt(obj, secrets)
    messages = [
        ValidationMessage(
            text=f"The auth scheme {scheme} is left out: it needs an OAuth client, in clients",
            severity=Severity.INFO,
        )
        for scheme in left_out
    ]
    shown = system_shown(platform.cluster, obj, organisation=call.organisation.id)
    return Reply(body=SystemWithMessages(**dict(shown), messages=messages), etag=etag(obj))


def _entry(call: AnyCall) -> Entry:
    try:
        return catalogue().get(call.path["entry"])
    except UnknownEntryError as error:
        raise errors.ApiError(404, "not_found", str(error)) from None


def _with_client(
    item: Object, client: rest.CatalogueClient, owner: str, edition: str
) -> PlannedSecret | None:
    """Gives an auth scheme its client, and says which Secret its secret goes into; None for a public client."""
    part = f"scheme/{item['id']}"
    name = secret_name("System", owner, part, edition)
    if item["type"] == AuthSchemeType.OAUTH1:
        item["oauth1"]["consumerKey"] = client.client_id
        key = "consumerSecret"
    else:
        grant = item["oauth2"]["grant"]
        grant.setdefault(grant["type"], {})["clientId"] = client.client_id
        key = CLIENT_SECRET
    if client.client_secret is None:
        return None
    refer_to_secret(item, name)
    return PlannedSecret(part=part, values={key: client.client_secret.encode()}, name=name)


def _clients(entry: Entry, body: rest.SystemFromEntry) -> dict[str, rest.CatalogueClient]:
    """The clients by their auth schemes. ApiError 422 at one that no auth scheme of the System would have."""
    given = body.clients or ()
    _refuse_unknown(entry, [client.scheme for client in given], "clients")
    items = {item["id"]: item for item in entry.system.get("authSchemeConfigs") or ()}
    found: dict[str, rest.CatalogueClient] = {}
    for index, client in enumerate(given):
        field = f"clients[{index}].scheme"
        if not needs_client(items[client.scheme]):
            raise errors.invalid(field, "takes no OAuth client: leave the client out")
        if client.scheme in found:
            raise errors.invalid(field, "is given twice: give one client for each auth scheme")
        if body.schemes is not None and client.scheme not in body.schemes:
            raise errors.invalid(field, "is not in schemes: add it there, or leave the client out")
        if client.client_secret is None and needs_client_secret(items[client.scheme]):
            raise errors.invalid(
                f"clients[{index}].clientSecret", "is required: the provider shows it with the client id"
            )
        found[client.scheme] = client
    return found


def _refuse_unknown(entry: Entry, named: Iterable[str], field: str) -> None:
    known = [item["id"] for item in entry.system.get("authSchemeConfigs") or ()]
    for index, scheme in enumerate(named):
        if scheme not in known:
            raise errors.invalid(
                f"{field}[{index}]", f"names no auth scheme of {entry.name}; it has {', '.join(known)}"
            )


def _index(found: Sequence[Summary], cursor: str) -> int:
    """Where the entry of a cursor stands in a list."""
    refused = refused_cursor()
    match unseal(cursor, refused=refused):
        case [str(kind), str(key)] if kind == _CURSOR:
            for index, one in enumerate(found):
                if one.key == key:
                    return index
    raise refused
