"""The Secrets that the platform keeps tokens in: their names, and whose they are.

Their names follow from Connection and credential, so somebody may have given one to a Secret of their own. Such a
Secret is never read as tokens, written or deleted.
"""

from typing import Any

from tieline_core.identity.names import CREDENTIAL_TYPE, TOKENS_LABEL, tokens_name
from tieline_core.identity.owner_references import is_owned, owner_reference
from tieline_core.objects import ObjectView

CREDENTIAL_ANNOTATION = "tieline.dev/credential"


def secret_key_of(connection: ObjectView, item_id: str) -> tuple[str, str]:
    """Namespace and name of the Secret with a credential's tokens."""
    metadata = connection["metadata"]
    return metadata["namespace"], tokens_name(metadata["name"], item_id)


def blank_secret(connection: ObjectView, item_id: str) -> dict[str, Any]:
    """The Secret for the tokens before there are any; it goes with the connection."""
    namespace, name = secret_key_of(connection, item_id)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "tieline", TOKENS_LABEL: "true"},
            "annotations": {CREDENTIAL_ANNOTATION: item_id},
            "ownerReferences": [owner_reference(connection)],
        },
        "type": CREDENTIAL_TYPE,
    }


def holds_tokens(secret: ObjectView) -> bool:
    """Whether a Secret is one that the platform has made for tokens."""
    labels = secret["metadata"].get("labels") or {}
    return secret.get("type") == CREDENTIAL_TYPE and labels.get(TOKENS_LABEL) == "true"


def holds_tokens_of(secret: ObjectView, connection: ObjectView) -> bool:
    """Whether a Secret is one that the platform has made for the tokens of this very Connection."""
    return holds_tokens(secret) and is_owned(secret, connection["metadata"]["uid"])


def of_a_predecessor(secret: ObjectView, connection: ObjectView) -> bool:
    """Whether it holds the tokens of a Connection of the same name that was deleted: Kubernetes takes it away."""
    owners = secret["metadata"].get("ownerReferences") or ()
    name = connection["metadata"]["name"]
    return holds_tokens(secret) and any(
        one.get("kind") == connection["kind"] and one.get("name") == name for one in owners
    )
