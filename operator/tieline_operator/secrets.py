"""Secrets that our objects refer to, looked up as facts."""

from collections.abc import Iterable

from tieline_core.credentials.facts import SecretFacts, TokenFacts
from tieline_core.oauth.token_secrets import place
from tieline_core.owners import is_owned
from tieline_operator.plans import Object
from tieline_operator.world import View, World


async def look_up(world: World, view: View, namespace: str, names: Iterable[str]) -> dict[str, SecretFacts]:
    """Facts of Secrets by name. Those of another type are in no cache: the API server is asked."""
    facts: dict[str, SecretFacts] = {}
    for name in names:
        facts[name] = cached_facts(view, namespace, name)
        if not facts[name].exists and await world.late_secret(namespace, name):
            facts[name] = cached_facts(view, namespace, name)
        if not facts[name].exists:
            facts[name] = SecretFacts(name=name, exists=await world.other_secret(namespace, name))
    return facts


def cached_facts(view: View, namespace: str, name: str) -> SecretFacts:
    """The facts of a Secret of the credential type; of any other, those of one that does not exist."""
    found = view.get(namespace, name)
    if found is None:
        return SecretFacts(name=name)
    version = found["metadata"]["resourceVersion"]
    return SecretFacts(name=name, exists=True, right_type=True, version=version, values=found["values"])


def tokens_facts(view: View, connection: Object, item_id: str) -> TokenFacts | None:
    """The facts of the tokens that the platform keeps for a connection's credential, if it keeps any."""
    found = view.get(*place(connection, item_id))
    # A Secret of the name that is somebody else's holds none.
    if found is None or not is_owned(found, connection["metadata"]["uid"]):
        return None
    tokens: TokenFacts | None = found["tokens"]
    return tokens
