"""System: are its auth schemes complete?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from tieline_core.kube.resources import SECRETS, SYSTEMS
from tieline_core.resources import System
from tieline_core.resources.auth_schemes import (
    AuthSchemeConfig,
    AuthSchemeType,
    OAuth2,
    OAuth2GrantType,
)
from tieline_core.resources.fields import Reference, Severity, ValidationMessage
from tieline_operator.elders import id_taken
from tieline_operator.plans import Object, Outcome, Plan, failed, ready
from tieline_operator.secrets import SecretFacts, look_up, secret_problem
from tieline_operator.world import World

_CLIENT_SECRET, _CONSUMER_SECRET = "clientSecret", "consumerSecret"


@dataclass(frozen=True, kw_only=True)
class Observed:
    """A System with what it refers to."""

    system: System
    taken: Outcome | None = None
    secrets: Mapping[str, SecretFacts]


async def reconcile(world: World, obj: Object, now: datetime) -> Plan:
    """Looks at the System and decides."""
    system = System.read(obj)
    names = {
        reference.name for scheme in system.spec.auth_scheme_configs for reference, _ in _secrets(scheme)
    }
    return plan(
        Observed(
            system=system,
            taken=id_taken(obj, world[SYSTEMS]),
            secrets=await look_up(world, world[SECRETS], system.namespace, names),
        )
    )


def plan(observed: Observed) -> Plan:
    """Findings per scheme; errors among them make the System not ready."""
    found = {scheme.id: _findings(scheme, observed) for scheme in observed.system.spec.auth_scheme_configs}
    status = {
        "authSchemes": [
            {"id": key, "validationMessages": [message.to_dict() for _, message in messages]}
            for key, messages in found.items()
            if messages
        ]
    }
    errors = [
        (reason, f'Auth scheme "{key}": {message.text}')
        for key, messages in found.items()
        for reason, message in messages
        if message.severity == Severity.ERROR
    ]
    return Plan(outcome=observed.taken or _outcome(errors), status=status if status["authSchemes"] else {})


def _outcome(errors: list[tuple[str, str]]) -> Outcome:
    if errors:
        return failed(errors[0][0], "; ".join(text for _, text in errors))
    return ready("Valid", "The system can be connected to")


def _findings(scheme: AuthSchemeConfig, observed: Observed) -> list[tuple[str, ValidationMessage]]:
    findings = [*_secret_findings(scheme, observed)]
    if scheme.oauth2:
        findings += _oauth2_findings(scheme.oauth2, observed.system)
    order = (Severity.ERROR, Severity.WARNING, Severity.INFO)
    return sorted(findings, key=lambda finding: order.index(finding[1].severity))


def _secret_findings(scheme: AuthSchemeConfig, observed: Observed) -> Iterator[tuple[str, ValidationMessage]]:
    for reference, key in _secrets(scheme):
        facts = observed.secrets[reference.name]
        problem = secret_problem(facts, ((key,),), observed.system.namespace)
        if problem:
            yield problem.reason, _message(problem.message, Severity.ERROR)


def _oauth2_findings(oauth2: OAuth2, system: System) -> Iterator[tuple[str, ValidationMessage]]:
    if oauth2.grant.type is OAuth2GrantType.AUTHORIZATION_CODE and oauth2.authorize_url is None:
        text = "the grant authorizationCode needs authorizeUrl, where the user is sent; add it"
        yield "AuthSchemeIncomplete", _message(text, Severity.ERROR)
    client = oauth2.grant.authorization_code or oauth2.grant.password
    if client and not client.secret_ref and not client.credential_id:
        text = "no client secret is given (secretRef); only public clients do without"
        yield "ClientSecretMissing", _message(text, Severity.WARNING)
    kinds = {scheme.type for scheme in system.spec.auth_scheme_configs}
    if oauth2.mtls_enabled and not oauth2.mtls_credential_id and AuthSchemeType.CERTIFICATE not in kinds:
        text = "mtlsEnabled needs a certificate: add an auth scheme of type certificate, or mtlsCredentialId"
        yield "AuthSchemeIncomplete", _message(text, Severity.ERROR)


def _secrets(scheme: AuthSchemeConfig) -> Iterator[tuple[Reference, str]]:
    """The Secrets that a scheme refers to, each with the key that it needs."""
    grant = scheme.oauth2.grant if scheme.oauth2 else None
    for client in (grant.authorization_code, grant.password) if grant else ():
        if client and client.secret_ref:
            yield client.secret_ref, _CLIENT_SECRET
    if scheme.oauth1 and scheme.oauth1.secret_ref:
        yield scheme.oauth1.secret_ref, _CONSUMER_SECRET


def _message(text: str, severity: Severity) -> ValidationMessage:
    return ValidationMessage(text=text, severity=severity)


__all__ = ["Observed", "plan", "reconcile"]
