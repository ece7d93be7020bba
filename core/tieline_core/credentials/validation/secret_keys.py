"""Which keys a credential's Secret needs, and what is wrong with a Secret as a whole."""

from collections.abc import Mapping, Sequence

from tieline_core.credentials.linker import Problem
from tieline_core.credentials.validation.secret_facts import SecretFacts
from tieline_core.identity.names import CREDENTIAL_TYPE
from tieline_core.resources.connections import CredentialType

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
    CredentialType.JWT_BEARER: (("key", "value"),),
}


def secret_problem(facts: SecretFacts, needed: Sequence[Sequence[str]], namespace: str) -> Problem | None:
    """What is wrong with a Secret, or None."""
    if not facts.exists:
        return Problem(
            "SecretNotFound",
            f'Secret "{facts.name}" does not exist in namespace {namespace}; '
            f"create it with type {CREDENTIAL_TYPE}, or correct the secretRef",
        )
    if not facts.right_type:
        return Problem(
            "SecretTypeWrong",
            f'Secret "{facts.name}" is not of type {CREDENTIAL_TYPE}, and others are not used; '
            "a Secret's type cannot be changed: delete it and create it again",
        )
    missing = [" or ".join(names) for names in needed if not facts.keys.intersection(names)]
    if missing:
        return Problem("SecretKeyMissing", f'Secret "{facts.name}" lacks {", ".join(missing)}; add it')
    return None
