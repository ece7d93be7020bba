"""Entries of the catalogue in REST, and Systems made of them."""

import copy
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tieline_api.schemas import catalogue as rest
from tieline_api.schemas.base import JsonObject
from tieline_api.schemas.connect_sessions import CredentialHelp
from tieline_catalogue.catalogue import UnknownEntryError, catalogue
from tieline_catalogue.entry import Entry, Summary, needs_client, needs_client_secret
from tieline_core.objects import ObjectView
from tieline_core.resources.auth_schemes import AuthSchemeType, OAuth2GrantType

CATALOGUE_LABEL = "catalogue"
"""The label of a System that has the key of the entry it was made of."""
_AUTHORISED = (None, AuthSchemeType.OAUTH2, AuthSchemeType.OAUTH1)
"""Schemes for which the entry's steps are those of an administrator, who registers a client."""
_CODE = OAuth2GrantType.AUTHORIZATION_CODE


def item_to_rest(one: Summary) -> rest.CatalogueItem:
    """An entry in lists."""
    return rest.CatalogueItem(
        key=one.key,
        name=one.name,
        summary=one.summary,
        categories=one.categories,
        auth=[AuthSchemeType(kind) for kind in one.auth],
        proven=one.proven,
    )


def entry_to_rest(entry: Entry, one: Summary, *, redirect_url: str | None) -> rest.CatalogueEntry:
    """An entry; ``redirect_url`` is where providers send users back to."""
    schemes = [
        _scheme(entry, item, redirect_url=redirect_url)
        for item in entry.system.get("authSchemeConfigs") or ()
    ]
    order = [setup.scheme for setup in entry.setup]
    schemes.sort(key=lambda scheme: order.index(scheme.id) if scheme.id in order else len(order))
    webhooks, description = entry.webhooks, entry.description
    return rest.CatalogueEntry(
        **dict(item_to_rest(one)),
        website=entry.website,
        docs=entry.docs,
        spec=JsonObject(entry.system),
        schemes=schemes,
        inputs=[_input(item) for item in entry.system.get("inputs") or ()],
        webhooks=rest.CatalogueWebhooks(**webhooks.model_dump()) if webhooks else None,
        description=rest.CatalogueDescription(**description.model_dump()) if description else None,
        sources=[
            rest.CatalogueSource(
                facts=source.facts, url=source.url, verified=source.verified, date=source.date.isoformat()
            )
            for source in entry.sources
        ],
    )


def credential_help(spec: Mapping[str, Any]) -> tuple[str | None, list[CredentialHelp]]:
    """The key of the entry that a System was made of, and where users find what they enter for its auth schemes.

    An administrator can change the System: help for a scheme that is another one by now is left out.
    """
    try:
        entry = catalogue().get(str((spec.get("labels") or {}).get(CATALOGUE_LABEL, "")))
    except UnknownEntryError:
        return None, []
    kinds = {item["id"]: item["type"] for item in spec.get("authSchemeConfigs") or ()}
    known = {item["id"]: item["type"] for item in entry.system.get("authSchemeConfigs") or ()}
    return entry.key, [
        CredentialHelp(scheme=setup.scheme, steps=list(setup.steps), docs=setup.docs)
        for setup in entry.setup
        if kinds.get(setup.scheme) == known.get(setup.scheme) not in _AUTHORISED
    ]


def system_spec(
    entry: Entry,
    body: rest.SystemFromEntry,
    *,
    variables: Mapping[str, str],
    schemes: Iterable[ObjectView],
) -> dict[str, Any]:
    """The spec of a System made of an entry, with these of its auth schemes."""
    spec = copy.deepcopy(entry.system)
    spec["name"] = body.name or spec["name"]
    spec["labels"] = {CATALOGUE_LABEL: entry.key, **(body.labels or {})}
    spec["variables"] = {**(spec.get("variables") or {}), **variables}
    spec["authSchemeConfigs"] = [dict(item) for item in schemes]
    return {field: value for field, value in spec.items() if value}


def chosen_schemes(
    entry: Entry, wanted: Collection[str] | None, clients: Collection[str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """The auth schemes to take, and the ids of those that are left out because they need a client.

    ``wanted`` are those that the caller names; without it all that can be used.
    """
    taken, left_out = [], []
    for item in entry.system.get("authSchemeConfigs") or ():
        if wanted is not None and item["id"] not in wanted:
            continue
        if needs_client(item) and item["id"] not in clients and wanted is None:
            left_out.append(item["id"])
        else:
            taken.append(copy.deepcopy(item))
    return taken, left_out


def _scheme(entry: Entry, item: Mapping[str, Any], *, redirect_url: str | None) -> rest.CatalogueScheme:
    setup = next((one for one in entry.setup if one.scheme == item["id"]), None)
    oauth2 = item.get("oauth2") or {}
    default = set(oauth2.get("defaultScopes") or ())
    by_code = (oauth2.get("grant") or {}).get("type") == _CODE or item["type"] == AuthSchemeType.OAUTH1
    return rest.CatalogueScheme(
        id=item["id"],
        type=AuthSchemeType(item["type"]),
        description=item.get("description") or "",
        needs_client=needs_client(item),
        needs_client_secret=needs_client_secret(item),
        redirect_url=redirect_url if by_code else None,
        redirect_url_field=setup.redirect_url if setup else None,
        client_id_place=setup.client_id if setup else None,
        client_secret_place=setup.client_secret if setup else None,
        steps=setup.steps if setup else [],
        docs=setup.docs if setup else None,
        scopes=[
            rest.CatalogueScope(
                name=scope["name"],
                description=scope.get("description") or "",
                default=scope["name"] in default,
            )
            for scope in oauth2.get("scopes") or ()
        ],
        templates=[
            rest.CatalogueScopeTemplate(name=one.name, description=one.description, scopes=one.scopes)
            for one in entry.templates
            if one.scheme == item["id"]
        ],
    )


def _input(item: Mapping[str, Any]) -> rest.CatalogueInput:
    return rest.CatalogueInput(
        name=item["name"],
        label=item.get("label") or item["name"],
        description=item.get("description") or "",
        example=item.get("example") or "",
    )
