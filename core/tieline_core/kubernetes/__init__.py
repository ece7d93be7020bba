"""The Kubernetes port: the one way to the API server, typed, with time-outs, and easy to fake.

Plain dictionaries go in and out, in the API server's own JSON. ``Kube`` makes calls, ``Informer`` mirrors one
resource, ``owned`` extracts what a field manager owns.
"""

from tieline_core.kubernetes.client import Applied, Kube, WatchEvent
from tieline_core.kubernetes.errors import (
    AlreadyExists,
    Conflict,
    FieldConflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from tieline_core.kubernetes.informer import Change, Informer
from tieline_core.kubernetes.managed_fields import owned
from tieline_core.kubernetes.object_store import Stored
from tieline_core.kubernetes.resources import Resource
from tieline_core.kubernetes.secret_informers import SecretCache, SecretInformers, SecretKind

__all__ = [
    "AlreadyExists",
    "Applied",
    "Change",
    "Conflict",
    "FieldConflict",
    "Forbidden",
    "Gone",
    "Informer",
    "Invalid",
    "Kube",
    "KubeError",
    "NotFound",
    "Resource",
    "SecretCache",
    "SecretInformers",
    "SecretKind",
    "Stored",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "WatchEvent",
    "owned",
]
