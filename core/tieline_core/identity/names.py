"""Names of the Kubernetes objects that belong to a project's environment."""

import hashlib
import re

PROJECT_LABEL = "tieline.dev/project"
ENVIRONMENT_LABEL = "tieline.dev/environment"
ENVIRONMENT_ID_LABEL = "tieline.dev/environment-id"
VERSION_ANNOTATION = "tieline.dev/version"
CREDENTIAL_TYPE = "tieline.dev/credential"
EXPOSE_LABEL = "tieline.dev/expose-to-code"
"""On a Secret: "true" where its owner opens its keys to code."""
EXPOSED_TO_ANNOTATION = "tieline.dev/exposed-to"
"""On such a Secret: the only projects, or environments as project/environment, that it is opened to."""
NOT_SECRET_ANNOTATION = "tieline.dev/not-secret"  # noqa: S105  (a name)
"""On such a Secret: the keys whose values are no secrets, so that they are not masked."""
ACTIVE_ANNOTATION = "tieline.dev/active-at"
"""On an Environment: when it last had work, or somebody asked it to wake."""
REPORTED_ANNOTATION = "tieline.dev/reported-at"
"""On an Environment that may sleep: when a pod last reported whether it works."""
ENGINE_CREDENTIALS_TYPE = "tieline.dev/engine-credentials"
API_KEY_TYPE = "tieline.dev/api-key"
CONNECT_SESSION_TYPE = "tieline.dev/connect-session"
OAUTH_STATE_TYPE = "tieline.dev/oauth-state"
SECRETS_ROLE = "tieline-secrets"
"""The ClusterRole with the rights to Secrets, and the RoleBinding to it in each organisation's namespace."""
TOKENS_LABEL = "tieline.dev/tokens"
REPORTED_LABEL = "tieline.dev/reported-by"
"""On the ConfigMap that says what a Notification has reported, with the Notification's uid."""
INTERNAL_API_SERVICE = "tieline-api-internal"
"""The Service of the API's endpoints for project pods, beside ``tieline-api`` for everybody."""
PUBLIC_API_SERVICE = "tieline-api"
"""The Service of the REST API, and the ``app.kubernetes.io/name`` of the API's pods."""
TOKEN_AUDIENCE = "tieline"  # noqa: S105  (the audience of a token, no token)

RUNS_CODE = {"app.kubernetes.io/name": "tieline-environment"}
"""The label of pods that run a project's code; those that install its packages have another one."""
INSTANCE_LABEL = "app.kubernetes.io/instance"
"""On the objects and pods of an environment: the name of its workload."""

# A Service's name is a DNS-1035 label of at most 63 characters; Deployment pods add 17 ("-<hash>-<5>").
_LONGEST = 46
# 64 bits, so that nobody finds two names with one hash by trying.
_HASH = 16
_LABEL = 63
_LABEL_HASH = 6
_LABEL_CUT = _LABEL - _LABEL_HASH - 1
# A Secret's name has up to 253 characters; a dot that would end the readable part goes.
_TOKENS_READABLE = 200
_TOKENS_HASH = 10
_LONGEST_OBJECT = 253


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


def environment_object_name(project: str, environment: str) -> str:
    """The name of an Environment, for people to write into roles and commands. Names of environments have no dots.

    >>> environment_object_name("order-sync", "production")
    'order-sync.production'
    """
    name = f"{project}.{environment}"
    return name if len(name) <= _LONGEST_OBJECT else workload_name(project, environment)


def label_value(name: str) -> str:
    """The value of ``tieline.dev/project`` for a project: its name, cut and hashed where labels end (63).

    It finds candidates. Whose an object is, its owner reference says: the hash has 24 bits.
    """
    if len(name) <= _LABEL:
        return name
    return f"{name[:_LABEL_CUT].rstrip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:_LABEL_HASH]}"


def tokens_name(connection: str, credential: str) -> str:
    """The Secret with the tokens that the platform holds for a connection's credential (its id in there)."""
    digest = hashlib.sha256(f"tokens/{connection}/{credential}".encode()).hexdigest()[:_TOKENS_HASH]
    return f"{connection[:_TOKENS_READABLE].rstrip('-.')}-tokens-{digest}"


def engine_credentials_name(workload: str) -> str:
    """The Secret with which the pods of an environment connect to the event engine."""
    return f"{workload}-engine"


def activator_name(workload: str) -> str:
    """The EndpointSlice with which the API answers for an environment without pods."""
    return f"{workload}-activator"


def packages_name(workload: str) -> str:
    """The ServiceAccount and NetworkPolicy of the Jobs that install an environment's packages."""
    return f"{workload}-packages"
