"""What a credential's or a scheme's references lead to, found without any value.

``resolve`` decides it, over stand-ins for the values: so findings name what a token request would meet.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tieline_core.credentials.linker import Directory, LinkedCredential, Problem, certificate_of, client_of
from tieline_core.credentials.live_lookups import DelegatingDirectory
from tieline_core.credentials.oauth1_consumers import consumer_credential
from tieline_core.credentials.resolver import Grant, resolve
from tieline_core.credentials.validation.secret_facts import SecretFacts
from tieline_core.objects import ObjectView
from tieline_core.resources.auth_schemes import AuthSchemeConfig
from tieline_core.resources.connections import ConnectionCredential
from tieline_core.resources.parsed_cache import CONNECTION

Facts = Callable[[str, str], SecretFacts]
"""The facts of a Secret by namespace and name."""

_CERTIFICATE_WRONG = "CertificateWrong"


@dataclass(frozen=True, kw_only=True)
class ResolvedReferences:
    """What is known of a credential's tokens before anybody is asked."""

    grant: Grant | None = None
    """None for a credential that has no tokens."""
    problems: tuple[Problem, ...] = ()
    certificate_id: str = ""
    """The certificate credential that mutual TLS at the token URL uses."""
    mark: str = ""
    """Another one where what the tokens come from may have changed: scheme, client, certificate, Secrets."""


class FactsLookups(DelegatingDirectory):
    """``resolving.Lookups`` with a stand-in for each value that is no public one."""

    def __init__(self, directory: Directory, facts: Facts) -> None:
        super().__init__(directory)
        self._facts = facts
        self.consulted: set[tuple[str, str, str]] = set()
        """Namespace, name and version of each Secret that was asked for."""

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        facts = self._facts(namespace, name)
        self.consulted.add((namespace, name, facts.version))
        if not facts.right_type:
            return None
        public = {key: value.encode() for key, value in facts.values.public.items()}
        return {**dict.fromkeys(facts.keys, b"x"), **public}


def resolve_references(
    directory: Directory,
    facts: Facts,
    connection: ObjectView,
    item: ConnectionCredential,
    scheme: AuthSchemeConfig | None,
) -> ResolvedReferences:
    """The grant of a credential, and what is wrong with its client, its certificate and its URLs."""
    if scheme is None or not (scheme.oauth2 or scheme.oauth1):
        return ResolvedReferences()
    lookups = FactsLookups(directory, facts)
    pending = resolve(lookups, connection, item.id, stand_ins=True)
    try:
        pending.send(None)
    except StopIteration as done:
        resolved = done.value
    else:
        pending.close()
        raise RuntimeError("A look-up of facts has waited for something")
    problems = [one for one in resolved.problems if one.reason != _CERTIFICATE_WRONG]
    if len(problems) < len(resolved.problems):
        problems += _certificate(directory, facts, connection, item, scheme)
    content = (resolved.source, resolved.asked_as, sorted(lookups.consulted))
    mark = hashlib.sha256(repr(content).encode()).hexdigest()[:32]
    return ResolvedReferences(
        grant=resolved.grant,
        problems=tuple(problems),
        certificate_id=resolved.certificate_id,
        mark=mark,
    )


def scheme_links(directory: Directory, namespace: str, scheme: AuthSchemeConfig) -> tuple[Problem, ...]:
    """Why the credentials that a System's scheme names cannot be used."""
    grant = scheme.oauth2.grant if scheme.oauth2 else None
    clients = [one for one in (grant.authorization_code, grant.password) if one] if grant else []
    found = [
        client_of(directory, namespace, client)
        for client in clients
        if client.credential_id and not client.secret_ref
    ]
    if scheme.oauth1 and not scheme.oauth1.secret_ref:
        found += [one for one in (consumer_credential(directory, namespace, scheme.oauth1),) if one]
    return tuple(one for one in found if isinstance(one, Problem))


def _certificate(
    directory: Directory,
    facts: Facts,
    connection: ObjectView,
    item: ConnectionCredential,
    scheme: AuthSchemeConfig,
) -> list[Problem]:
    """The stand-ins are no certificate: what the real one is like, the facts say."""
    named = scheme.oauth2.mtls_credential_id if scheme.oauth2 else ""
    found = certificate_of(directory, CONNECTION.of(connection), item, named=named)
    if not isinstance(found, LinkedCredential) or found.item.secret_ref is None:
        return []
    certificate = facts(found.namespace, found.item.secret_ref.name).values.certificate
    if certificate is None or not certificate.problem:
        return []
    return [Problem(_CERTIFICATE_WRONG, f"The client certificate for mutual TLS: {certificate.problem}")]
