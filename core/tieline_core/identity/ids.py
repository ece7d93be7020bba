"""Identity: ULIDs that anyone who sees an object computes alike.

An object gets its id from its label ``tieline.dev/id`` when it has one (REST and restores set it), and otherwise
derived: the time is the object's ``creationTimestamp``, the 80 random bits are a hash of its uid. So the
API can answer with an id before the operator has seen the object, and two replicas never disagree.

The operator records the id in ``status.id``. From then on the id never changes, whatever becomes of the label: no apply
of a manifest reaches the status, and the roles of people cannot write it.
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from ulid import ULID

ID_LABEL = "tieline.dev/id"
ORGANISATION_LABEL = "tieline.dev/organisation"

ULID_PATTERN = "^[0-7][0-9A-HJKMNP-TV-Z]{25}$"
_ULID = re.compile(ULID_PATTERN)
_TIME_BYTES = 6
_RANDOM_BYTES = 10
# Every look at a project, and every poll of a pod, asks for the same ones.
_REMEMBERED = 4096


def new_id() -> str:
    """A new ULID in its canonical upper-case form."""
    return str(ULID())


def parse_id(text: str) -> str | None:
    """The canonical form of a ULID in either case, or None when ``text`` is no ULID."""
    # Of other alphabets some letters are ASCII's in upper case ("ſ"); and "$" would let a line end pass.
    upper = text.upper() if text.isascii() else ""
    return upper if _ULID.fullmatch(upper) else None


def time_of(identifier: str) -> datetime:
    """When a ULID was made, in UTC, without fractions of seconds: times of objects have none."""
    return datetime.fromtimestamp(ULID.from_str(identifier).milliseconds // 1000, UTC)


def derived_id(*, created: datetime, seed: str) -> str:
    """The ULID with the time of ``created`` and randomness from a hash of ``seed``."""
    milliseconds = int(created.timestamp() * 1000)
    return _compose(milliseconds.to_bytes(_TIME_BYTES, "big"), seed)


@lru_cache(maxsize=_REMEMBERED)
def child_id(parent: str, seed: str) -> str:
    """A ULID with the time of the ULID ``parent`` and randomness from a hash of parent and ``seed``."""
    return _compose(ULID.from_str(parent).bytes[:_TIME_BYTES], f"{parent}/{seed}")


def environment_id(project_id: str, environment: str) -> str:
    """The id of a project's environment, from the project's id and the environment's name."""
    return child_id(project_id, environment)


def static_activation_id(environment: str) -> str:
    """The id of the user-less activation of the environment with id ``environment``."""
    return child_id(environment, "static-activation")


def project_connector_id(project: str) -> str:
    """The id of the connector that the project with this id has."""
    return child_id(project, "connector")


@lru_cache(maxsize=_REMEMBERED)
def text_id(text: str) -> str:
    """The ULID that answers show for an id that is free text; every caller computes the same one."""
    return _compose(bytes(_TIME_BYTES), f"text/{text}")


def client_credential_id(owner_id: str, scheme_id: str) -> str:
    """The id of the credential with an auth scheme's inline client; the owner is its System or Connection."""
    return child_id(owner_id, f"client/{scheme_id}")


def credential_item_id(connection_id: str, item_id: str) -> str:
    """The ULID of an item of a connection's credentials: its own id where that is one, else derived from it."""
    return parse_id(item_id) or child_id(connection_id, f"credential/{item_id}")


def credential_id(connection_id: str, item: Mapping[str, Any]) -> str:
    """The id of a connection's credential: the one it was given, or derived from the connection's."""
    return item.get("credentialId") or child_id(connection_id, f"credential/{item['id']}")


def object_id(obj: Mapping[str, Any]) -> str:
    """The id of a Kubernetes object as read from the API server: by its status, its label, or derived from its uid."""
    metadata = obj["metadata"]
    recorded = parse_id((obj.get("status") or {}).get("id") or "")
    if recorded:
        return recorded
    label = parse_id(metadata.get("labels", {}).get(ID_LABEL, ""))
    return label or _derived(metadata["creationTimestamp"], metadata["uid"])


def change_id(obj: Mapping[str, Any], generation: int | None = None) -> str:
    """One text for what became of one change of an object: its id and the generation, as ``01J…Z.3``.

    Lines of the API, of the operator and of pods have it, so that it can be searched for in all of them. An object
    without generations (a Secret) has its resourceVersion there.
    """
    metadata = obj["metadata"]
    return f"{object_id(obj)}.{generation or metadata.get('generation') or metadata['resourceVersion']}"


def object_name(identifier: str) -> str:
    """The name of an object that is named after its id (those that REST makes)."""
    return identifier.lower()


def parse_time(text: str) -> datetime:
    """An RFC 3339 time as Kubernetes writes it; ValueError for what Kubernetes takes for one and is none."""
    return to_utc(datetime.fromisoformat(text.upper()))


def format_time(moment: datetime) -> str:
    """RFC 3339 in UTC with ``Z``, to the second as Kubernetes writes it."""
    # Not strftime: it writes the year 1 with one digit.
    return to_utc(moment).isoformat(timespec="seconds").replace("+00:00", "Z")


def to_utc(moment: datetime) -> datetime:
    """``moment`` in UTC. Offsets lead out of the years that Python has; then it is the first or the last of them."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return (datetime.min if moment.year == 1 else datetime.max).replace(tzinfo=UTC)


@lru_cache(maxsize=_REMEMBERED)
def _derived(created: str, uid: str) -> str:
    return derived_id(created=parse_time(created), seed=uid)


def _compose(time: bytes, seed: str) -> str:
    return str(ULID.from_bytes(time + hashlib.sha256(seed.encode()).digest()[:_RANDOM_BYTES]))
