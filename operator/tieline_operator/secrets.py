"""Secrets that our objects refer to, looked up as facts."""

from collections.abc import Iterable

from tieline_core.credentials.facts import SecretFacts, TokenFacts
from tieline_core.names import tokens_name
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
    found = tokens_secret(view, connection, item_id)
    tokens: TokenFacts | None = found["tokens"] if found else None
    return tokens


def tokens_secret(view: View, connection: Object, item_id: str) -> Object | None:
    """The Secret of those tokens; one of its name that is somebody else's is none."""
    metadata = connection["metadata"]
    found = view.get(metadata["namespace"], tokens_name(metadata["name"], item_id))
    return found if found is not None and is_owned(found, metadata["uid"]) else None
