"""Conflicts of public addresses: which environment has an address that several claim.

The template of public URLs builds addresses from names that people choose, so two environments can get the same one:
``{namespace}-{project}-{environment}`` makes one host of ``a-b`` + ``c`` and ``a`` + ``b-c``. The environment that was
seen first keeps it, in whatever organisation it is. An older project cannot take the address of a younger one by
adding an environment.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tieline_operator.apply.plan import Object
from tieline_operator.cache.cluster_cache import Lister
from tieline_operator.cache.indexers import BY_ADDRESS, namespace_of
from tieline_operator.workload.public_urls import address, address_key

HOST_TAKEN = "HostTaken"
RECHECK_SECONDS = 60.0

_AddressClaim = tuple[str, str, str, str]


def address_conflict(project: Object, environment: str, url: str, projects: Lister) -> str:
    """Why an environment cannot have ``url``; empty when it can.

    The environment whose status records the address has it; of several, the one that was seen first.
    """
    key, uid = address_key(url), project["metadata"]["uid"]
    held: list[tuple[_AddressClaim, Object, str]] = []
    own: _AddressClaim | None = None
    for other in projects.by_index(BY_ADDRESS, key):
        for item in _holding(other, key):
            if (other["metadata"]["uid"], item["name"]) == (uid, environment):
                own = _address_claim(other, item)
            else:
                held.append((_address_claim(other, item), other, item["name"]))
    first = min(held, key=lambda one: one[0], default=None)
    if first is None or (own is not None and own < first[0]):
        return ""
    shared_address = address(url)
    shown = f'"{shared_address.host}{shared_address.path}"'
    if namespace_of(first[1]) != namespace_of(project):
        return f"{shown} is the address of an environment of another organisation; rename this environment or project"
    name = first[1]["metadata"]["name"]
    return (
        f'{shown} is the address of environment "{first[2]}" of Project "{name}" already; '
        "rename one of the two environments or projects"
    )


def _holding(project: Object, key: str) -> Iterator[Mapping[str, Any]]:
    for item in project.get("status", {}).get("environments") or ():
        if item.get("publicUrl") and address_key(item["publicUrl"]) == key:
            yield item


def _address_claim(project: Object, item: Mapping[str, Any]) -> _AddressClaim:
    metadata = project["metadata"]
    return str(item.get("createdAt", "")), metadata["creationTimestamp"], metadata["uid"], item["name"]
