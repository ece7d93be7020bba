"""Indexers: the keys by which cached objects are found."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tieline_core.credentials.linker import canonical, credential_ids, lent_certificates
from tieline_core.identity.ids import object_id
from tieline_core.identity.names import (
    PROJECT_LABEL,
    REPORTED_LABEL,
    activator_name,
    engine_credentials_name,
    label_value,
)
from tieline_core.identity.organisations import labelled_id
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes import resources as r
from tieline_operator.apply.plan import Key, Object
from tieline_operator.workload.public_urls import address_key

IndexFunc = Callable[[Object], Iterable[str]]
BY_ID = "id"
BY_ID_ANYWHERE = "id anywhere"
"""Projects by id in all organisations: ids of environments, and hosts made of them, follow from it."""
BY_ACCOUNT = "account"
"""Secrets of tokens by the account that they are of."""
BY_ADDRESS = "address"
"""Projects by the public addresses of their environments."""

PRIMARY_RESOURCES = (
    r.SYSTEMS,
    r.CONNECTION_TEMPLATES,
    r.CONNECTIONS,
    r.PROJECTS,
    r.PROJECT_VERSIONS,
    r.ACTIVATIONS,
    r.END_USERS,
    r.CONNECTORS,
    r.CONNECTOR_VERSIONS,
    r.CREDENTIAL_GRANTS,
    r.NOTIFICATION_CHANNELS,
    r.NOTIFICATIONS,
    r.ENVIRONMENTS,
)
CHILD_RESOURCES = (
    r.SERVICE_ACCOUNTS,
    r.NETWORK_POLICIES,
    r.SERVICES,
    r.ENGINE_SECRETS,
    r.POD_DISRUPTION_BUDGETS,
    r.ENDPOINT_SLICES,
    r.DEPLOYMENTS,
    r.INGRESSES,
    r.HTTP_ROUTES,
)


def child_name(resource: Resource, workload: str) -> str:
    """The name of an environment's child: that of its workload, but for kinds that others make, too."""
    if resource == r.ENDPOINT_SLICES:
        return activator_name(workload)
    return engine_credentials_name(workload) if resource == r.ENGINE_SECRETS else workload


def joined(*parts: str | None) -> str:
    """A key of an index: namespace and names, which never hold a slash."""
    return "/".join(part or "" for part in parts)


def ref(obj: Object, field: str) -> str | None:
    """The name in a reference of the spec."""
    reference = obj.get("spec", {}).get(field) or {}
    name: str | None = reference.get("name")
    return name


def namespace_of(obj: Object) -> str:
    namespace: str = obj["metadata"].get("namespace", "")
    return namespace


def key_of(resource: Resource, obj: Object) -> Key:
    """The key of one of our own objects."""
    return Key(resource.kind, namespace_of(obj), obj["metadata"]["name"])


def _by(*fields: Callable[[Object], str | None]) -> IndexFunc:
    """An index by namespace and values; objects without one of the values are not in it."""

    def index(obj: Object) -> Iterable[str]:
        values = [field(obj) for field in fields]
        return [] if None in values else [joined(namespace_of(obj), *values)]

    return index


def _ref(field: str) -> Callable[[Object], str | None]:
    return lambda obj: ref(obj, field)


def _spec(field: str) -> Callable[[Object], str | None]:
    return lambda obj: obj.get("spec", {}).get(field)


def _label(name: str) -> Callable[[Object], str | None]:
    return lambda obj: obj["metadata"].get("labels", {}).get(name)


def _optional(field: Callable[[Object], str | None]) -> Callable[[Object], str | None]:
    return lambda obj: field(obj) or ""


def _each(values: Callable[[Object], Iterable[str | None]]) -> IndexFunc:
    return lambda obj: [joined(namespace_of(obj), value) for value in {*values(obj)} if value]


def _at(*path: str) -> Callable[[Object], Iterable[str | None]]:
    """The texts at a path of the spec, through each item of the lists on the way."""

    def values(value: Any, keys: Sequence[str]) -> Iterator[str | None]:
        if isinstance(value, list):
            for item in value:
                yield from values(item, keys)
        elif keys and value is not None:
            yield from values(value.get(keys[0]), keys[1:])
        else:
            yield value

    return lambda obj: values(obj.get("spec"), path)


def _scheme_secrets(obj: Object) -> Iterable[str | None]:
    for scheme in obj.get("spec", {}).get("authSchemeConfigs", []):
        for client in _scheme_clients(scheme):
            yield (client.get("secretRef") or {}).get("name")


def _scheme_clients(scheme: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The OAuth clients of an auth scheme."""
    grant = (scheme.get("oauth2") or {}).get("grant", {})
    return filter(None, (grant.get("authorizationCode"), grant.get("password"), scheme.get("oauth1")))


def _channel_secret(obj: Object) -> str | None:
    """The name of the Secret that a NotificationChannel needs."""
    spec = obj.get("spec", {})
    target = spec.get("email") or spec.get("webhook") or spec.get("slack") or {}
    name: str | None = (target.get("secretRef") or {}).get("name")
    return name


_SECRETS_OF_CODE = (
    ("runtime", "env", "valueFrom", "secretKeyRef", "name"),
    ("runtime", "volumes", "secret", "secretName"),
    ("runtime", "volumes", "projected", "sources", "secret", "name"),
)


def _secrets_of_code(obj: Object) -> Iterable[str | None]:
    """The names of the Secrets that environment variables and volumes of a Project come from."""
    for path in _SECRETS_OF_CODE:
        yield from _at(*path)(obj)
        yield from _at("environments", *path)(obj)


def _holders(obj: Object) -> Iterable[str]:
    return [joined(namespace_of(obj), identifier) for identifier in credential_ids(obj)]


def _named_clients(obj: Object) -> Iterable[str]:
    """By the credentials that the schemes of a System or a Connection name, whoever owns them."""
    spec = obj.get("spec", {})
    inline = [item.get("authSchemeConfig") for item in spec.get("credentials", [])]
    schemes = filter(None, (*spec.get("authSchemeConfigs", []), *inline))
    named = (client.get("credentialId") for scheme in schemes for client in _scheme_clients(scheme))
    return {canonical(identifier) for identifier in named if identifier}


def _tokens_of(obj: Object) -> Iterable[str]:
    """Secrets of tokens (as the cache keeps Secrets) by the Connection that they belong to."""
    owners = obj["metadata"].get("ownerReferences") or () if obj.get("tokens") else ()
    return [joined(namespace_of(obj), owner["name"]) for owner in owners]


def account_key(obj: Object) -> str | None:
    """The account whose tokens a Secret (as the cache keeps it) holds; None where that is not known."""
    tokens = obj.get("tokens")
    return joined(namespace_of(obj), tokens.account) if tokens and tokens.account else None


def _account(obj: Object) -> Iterable[str]:
    key = account_key(obj)
    return [key] if key else []


def _organisation(obj: Object) -> Iterable[str]:
    found = labelled_id(obj)
    return [found] if found else []


def public_urls(obj: Object) -> Iterable[str]:
    """The public URLs of the environments of a Project, from its status."""
    environments = obj.get("status", {}).get("environments") or ()
    return [url for item in environments if (url := item.get("publicUrl"))]


def has_scaling(project: Object) -> bool:
    """Whether a Project says how it, or one of its environments, scales. Most do not, and need not be parsed."""
    spec = project.get("spec", {})
    runtimes = (one.get("runtime") for one in (spec, *spec.get("environments", ())))
    return any("scaling" in (runtime or {}) for runtime in runtimes)


_ID: IndexFunc = _by(object_id)
_ENVIRONMENT = (_ref("projectRef"), _spec("environment"))
_CHILD = {"project": _by(_label(PROJECT_LABEL))}

INDEXERS: Mapping[Resource, Mapping[str, IndexFunc]] = {
    r.SYSTEMS: {
        BY_ID: _ID,
        "secret": _each(_scheme_secrets),
        "client": _named_clients,
        "connector": _by(_ref("connectorRef")),
    },
    r.CONNECTIONS: {
        BY_ID: _ID,
        "system": _by(_ref("systemRef")),
        "template": _by(_ref("connectionTemplateRef")),
        "user": _by(_ref("endUserRef")),
        "name": _by(_ref("systemRef"), _optional(_ref("endUserRef")), _spec("name")),
        "secret": _each(_at("credentials", "secretRef", "name")),
        "client": _named_clients,
        "credential": _holders,
        "certificate": _by(lent_certificates),
    },
    r.CONNECTION_TEMPLATES: {
        BY_ID: _ID,
        "system": _by(_ref("systemRef")),
        "connection": _by(_ref("connectionRef")),
        "project": _by(_ref("projectRef")),
        "environment": _by(*_ENVIRONMENT),
        "name": _by(*_ENVIRONMENT, _spec("name")),
    },
    r.PROJECTS: {
        BY_ID: _ID,
        BY_ID_ANYWHERE: lambda obj: [object_id(obj)],
        BY_ADDRESS: lambda obj: {address_key(url) for url in public_urls(obj)},
        "config-map": _each(_at("source", "configMaps", "name")),
        "secret": _each(_secrets_of_code),
        "label": _by(lambda obj: label_value(obj["metadata"]["name"])),
    },
    r.PROJECT_VERSIONS: {
        BY_ID: _ID,
        "project": _by(_ref("projectRef")),
        "config-map": _each(_at("configMaps", "name")),
    },
    r.ACTIVATIONS: {
        BY_ID: _ID,
        "project": _by(_ref("projectRef")),
        "environment": _by(*_ENVIRONMENT),
        "user": _by(_ref("endUserRef")),
        "target": _by(*_ENVIRONMENT, _optional(_ref("endUserRef"))),
        "connection": _each(_at("connections", "connectionRef", "name")),
        "template": _each(_at("connections", "connectionTemplate")),
    },
    r.END_USERS: {BY_ID: _ID, "external": _by(_spec("externalId"))},
    r.CONNECTORS: {
        BY_ID: _ID,
        "config-map": _each(_at("description", "configMaps", "name")),
        "project": _by(_ref("projectRef")),
    },
    r.CONNECTOR_VERSIONS: {
        BY_ID: _ID,
        "connector": _by(_ref("connectorRef")),
        "config-map": _each(_at("configMaps")),
    },
    r.CREDENTIAL_GRANTS: {BY_ID: _ID, "connection": _each(_at("to", "connection"))},
    r.NOTIFICATION_CHANNELS: {
        BY_ID: _ID,
        "secret": _each(lambda obj: [_channel_secret(obj)]),
    },
    r.NOTIFICATIONS: {
        BY_ID: _ID,
        "project": _by(_ref("projectRef")),
        "channel": _by(_ref("channelRef")),
        "environment": _by(*_ENVIRONMENT),
    },
    r.ENVIRONMENTS: {BY_ID: _ID, "project": _by(_ref("projectRef"))},
    r.SECRETS: {"tokens-of": _tokens_of, BY_ACCOUNT: _account},
    r.NAMESPACES: {"organisation": _organisation},
    **dict.fromkeys((*CHILD_RESOURCES, r.JOBS, r.PODS), _CHILD),
    r.CONFIG_MAPS: {**_CHILD, "reported-by": _by(_label(REPORTED_LABEL))},
}
