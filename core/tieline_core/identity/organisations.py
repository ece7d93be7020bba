"""Organisations are namespaces with the label ``tieline.dev/organisation``: which one has an id.

Several namespaces may carry one id, after a copy, a restore beside the original or a mistake. The operator records in a
ConfigMap of the release which namespace had the id first. That one has it, for API and operator alike, and another is
no organisation until it gets an id of its own. Between namespaces that are not recorded yet, the older one has it.
"""

from collections.abc import Iterable, Mapping

from tieline_core.identity.ids import ORGANISATION_LABEL, parse_id
from tieline_core.objects import ObjectView

Records = Mapping[str, str]
"""The names of namespaces by the ids of the organisations that they are."""


def labelled_id(namespace: ObjectView) -> str | None:
    """The organisation's id that a Namespace carries, if it carries one."""
    return parse_id((namespace["metadata"].get("labels") or {}).get(ORGANISATION_LABEL, ""))


def records_of(config_maps: Iterable[ObjectView]) -> Records:
    """What the ConfigMap with the records holds, if it is there."""
    return next((one.get("data") or {} for one in config_maps), {})


def recorded_id(records: Records, namespace: str) -> str | None:
    """The id of the organisation that a namespace is by the records."""
    return next((identifier for identifier, name in records.items() if name == namespace), None)


def holder(identifier: str, namespaces: Iterable[ObjectView], records: Records) -> str | None:
    """The name of the one of these Namespaces, which all carry the id ``identifier``, that has it.

    None where none does: another one has it by the records, or each is another organisation by them.
    """
    found = sorted((item["metadata"]["creationTimestamp"], item["metadata"]["name"]) for item in namespaces)
    names = [str(name) for _, name in found]
    recorded = records.get(identifier)
    if recorded is not None:
        return recorded if recorded in names else None
    # A namespace that is looked up has its own record at once; only new ones get here.
    taken = frozenset(records.values()) if names and records else frozenset()
    return next((name for name in names if name not in taken), None)
