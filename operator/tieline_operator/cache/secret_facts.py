"""Secrets that our objects refer to, looked up as facts."""

from collections.abc import Iterable

from tieline_core.credentials.validation.secret_facts import SecretFacts, TokenFacts
from tieline_core.identity.owner_references import is_owned
from tieline_core.oauth.token_secrets import secret_key_of
from tieline_operator.apply.plan import Object
from tieline_operator.cache.cluster_cache import ClusterCache, Lister


async def secret_facts(
    cache: ClusterCache, secrets: Lister, namespace: str, names: Iterable[str]
) -> dict[str, SecretFacts]:
    """Facts of Secrets by name. Those of another type are in no cache: the API server is asked."""
    facts: dict[str, SecretFacts] = {}
    for name in names:
        facts[name] = cached_facts(secrets, namespace, name)
        if not facts[name].exists and await cache.fetch_uncached_secret(namespace, name):
            facts[name] = cached_facts(secrets, namespace, name)
        if not facts[name].exists:
            facts[name] = SecretFacts(name=name, exists=await cache.has_secret_of_other_type(namespace, name))
    return facts


def cached_facts(secrets: Lister, namespace: str, name: str) -> SecretFacts:
    """The facts of a Secret of the credential type; of any other, those of one that does not exist."""
    found = secrets.get(namespace, name)
    if found is None:
        return SecretFacts(name=name)
    version = found["metadata"]["resourceVersion"]
    return SecretFacts(
        name=name,
        exists=True,
        right_type=True,
        version=version,
        values=found["values"],
        exposure=found.get("exposure"),
    )


def tokens_facts(secrets: Lister, connection: Object, item_id: str) -> TokenFacts | None:
    """The facts of the tokens that the platform keeps for a connection's credential, if it keeps any."""
    found = secrets.get(*secret_key_of(connection, item_id))
    # A Secret of the name that is somebody else's holds none.
    if found is None or not is_owned(found, connection["metadata"]["uid"]):
        return None
    tokens: TokenFacts | None = found["tokens"]
    return tokens
