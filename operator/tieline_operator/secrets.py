"""Secrets as far as the operator looks at them: their type, and which keys hold something."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tieline_core.names import CREDENTIAL_TYPE
from tieline_core.resources.connections import CredentialType
from tieline_operator.pods import Failure
from tieline_operator.world import View, World

# Per credential type: alternatives of keys, each of which must hold at least one of its names.
NEEDED_KEYS: Mapping[CredentialType, Sequence[Sequence[str]]] = {
    CredentialType.NONE: (),
    CredentialType.STRING: (("value",),),
    CredentialType.BINARY: (("value",),),
    CredentialType.BASIC_AUTH: (("username",), ("password",)),
    CredentialType.OAUTH2_CLIENT: (("clientId",), ("clientSecret",)),
    CredentialType.OAUTH2_CODE: (("code",),),
    CredentialType.OAUTH2_PASSWORD: (("username",), ("password",)),
    CredentialType.OAUTH2_TOKEN: (("accessToken", "refreshToken"),),
    CredentialType.OAUTH1: (("oauthToken",),),
    CredentialType.CERTIFICATE: (("certificate",), ("key",)),
    CredentialType.JWT_BEARER: (("key", "privateKey", "secret", "value"),),
}

# Many services take an API key as the user name, with no password.
MAY_BE_EMPTY = frozenset({"password"})


@dataclass(frozen=True, kw_only=True)
class SecretFacts:
    """What is known of a Secret that something refers to."""

    name: str
    exists: bool = False
    right_type: bool = False
    keys: frozenset[str] = frozenset()
    """Keys that hold something."""


async def look_up(world: World, view: View, namespace: str, names: Iterable[str]) -> dict[str, SecretFacts]:
    """Facts of Secrets by name. Those of another type are in no cache: the API server is asked."""
    facts: dict[str, SecretFacts] = {}
    for name in names:
        found = view.get(namespace, name)
        if found is not None:
            keys = frozenset(key for key, filled in found["keys"].items() if filled or key in MAY_BE_EMPTY)
            facts[name] = SecretFacts(name=name, exists=True, right_type=True, keys=keys)
        else:
            facts[name] = SecretFacts(name=name, exists=await world.other_secret(namespace, name))
    return facts


def secret_problem(facts: SecretFacts, needed: Sequence[Sequence[str]], namespace: str) -> Failure | None:
    """What is wrong with a Secret, or None."""
    if not facts.exists:
        return Failure(
            "SecretNotFound",
            f'Secret "{facts.name}" does not exist in namespace {namespace}; '
            f"create it with type {CREDENTIAL_TYPE}, or correct the secretRef",
        )
    if not facts.right_type:
        return Failure(
            "SecretTypeWrong",
            f'Secret "{facts.name}" is not of type {CREDENTIAL_TYPE}, and others are not used; '
            "a Secret's type cannot be changed: delete it and create it again",
        )
    missing = [" or ".join(names) for names in needed if not facts.keys.intersection(names)]
    if missing:
        return Failure("SecretKeyMissing", f'Secret "{facts.name}" lacks {", ".join(missing)}; add it')
    return None
