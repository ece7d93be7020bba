"""The Kubernetes port: the one way to the API server, typed, with time-outs, and easy to fake.

Plain dictionaries go in and out, in the API server's own JSON. ``Kube`` makes calls, ``Cache`` mirrors one
resource, ``owned`` extracts what a field manager owns.
"""

from tieline_core.kube.cache import Cache, Change
from tieline_core.kube.client import Applied, Kube, WatchEvent
from tieline_core.kube.errors import (
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
from tieline_core.kube.ownership import owned
from tieline_core.kube.resources import Resource

__all__ = [
    "AlreadyExists",
    "Applied",
    "Cache",
    "Change",
    "Conflict",
    "FieldConflict",
    "Forbidden",
    "Gone",
    "Invalid",
    "Kube",
    "KubeError",
    "NotFound",
    "Resource",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "WatchEvent",
    "owned",
]
