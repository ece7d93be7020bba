"""Names of the Kubernetes objects that belong to a project's environment."""

import hashlib
import re

PROJECT_LABEL = "tieline.dev/project"
ENVIRONMENT_LABEL = "tieline.dev/environment"
ENVIRONMENT_ID_LABEL = "tieline.dev/environment-id"
VERSION_ANNOTATION = "tieline.dev/version"
CREDENTIAL_TYPE = "tieline.dev/credential"
API_KEY_TYPE = "tieline.dev/api-key"
TOKENS_LABEL = "tieline.dev/tokens"
STATE_LABEL = "tieline.dev/state"
"""On the ConfigMaps that hold what integrations keep between runs."""
TOKEN_AUDIENCE = "tieline"  # noqa: S105  (the audience of a token, no token)

# A Service's name is a DNS-1035 label of at most 63 characters; Deployment pods add 17 ("-<hash>-<5>").
_LONGEST = 46
_HASH = 6
_LABEL = 63
_LABEL_CUT = _LABEL - _HASH - 1
# A Secret's name has up to 253 characters; a dot that would end the readable part goes.
_TOKENS_READABLE = 200
_TOKENS_HASH = 10


def workload_name(project: str, environment: str) -> str:
    """The one name of an environment's Deployment, Service, ServiceAccount, NetworkPolicy and budget.

    A DNS-1035 label, unique in the namespace: the readable part may be cut, the hash of both names
    never is (``a-b`` + ``c`` and ``a`` + ``b-c`` differ).
    """
    digest = hashlib.sha256(f"{project}/{environment}".encode()).hexdigest()[:_HASH]
    readable = re.sub(r"[^a-z0-9-]", "-", f"{project}-{environment}")
    if not readable[0].isalpha():
        readable = f"p-{readable}"
    return f"{readable[: _LONGEST - _HASH - 1].rstrip('-')}-{digest}"


def label_value(name: str) -> str:
    """The value of ``tieline.dev/project`` for a project: its name, cut and hashed where labels end (63)."""
    if len(name) <= _LABEL:
        return name
    return f"{name[:_LABEL_CUT].rstrip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:_HASH]}"


def tokens_name(connection: str, credential: str) -> str:
    """The Secret with the tokens that the platform holds for a connection's credential (its id in there)."""
    digest = hashlib.sha256(f"tokens/{connection}/{credential}".encode()).hexdigest()[:_TOKENS_HASH]
    return f"{connection[:_TOKENS_READABLE].rstrip('-.')}-tokens-{digest}"


def schedules_name(workload: str) -> str:
    """The ConfigMap that says how far the schedules of an environment are."""
    return f"{workload}-schedules"


def state_name(workload: str, activation: str | None) -> str:
    """The ConfigMap with an activation's state: the environment's own, or that of the activation with this id."""
    return f"{workload}-state-{activation.lower()}" if activation else f"{workload}-state"
