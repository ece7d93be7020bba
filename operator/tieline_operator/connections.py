"""Connection: are the system, its auth schemes and the Secrets there?"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from tieline_core.kube.resources import CONNECTIONS, END_USERS, SECRETS, SYSTEMS
from tieline_core.resources import Connection, System
from tieline_core.resources.auth_schemes import AuthSchemeType
from tieline_core.resources.connections import ConnectionCredential, CredentialType
from tieline_operator.elders import elder, id_taken
from tieline_operator.indexes import joined
from tieline_operator.plans import Object, Outcome, Plan, failed, ready
from tieline_operator.pods import Failure
from tieline_operator.secrets import NEEDED_KEYS, SecretFacts, look_up, secret_problem
from tieline_operator.world import World

_OAUTH2 = frozenset(
    {
        CredentialType.OAUTH2_CLIENT,
        CredentialType.OAUTH2_CODE,
        CredentialType.OAUTH2_PASSWORD,
        CredentialType.OAUTH2_TOKEN,
    }
)
_VALUES = frozenset({CredentialType.STRING, CredentialType.BINARY})
# Which credentials an auth scheme can work with.
FITTING: Mapping[AuthSchemeType, frozenset[CredentialType]] = {
    AuthSchemeType.NONE: frozenset(CredentialType),
    AuthSchemeType.API_KEY: _VALUES,
    AuthSchemeType.BASIC_AUTH: frozenset({CredentialType.BASIC_AUTH}),
    AuthSchemeType.OAUTH2: _OAUTH2,
    AuthSchemeType.HMAC: _VALUES,
    AuthSchemeType.JWT_BEARER: _VALUES | {CredentialType.JWT_BEARER, CredentialType.CERTIFICATE},
    AuthSchemeType.CERTIFICATE: frozenset({CredentialType.CERTIFICATE}),
    AuthSchemeType.OAUTH1: frozenset({CredentialType.OAUTH1}),
    AuthSchemeType.SECRET: _VALUES,
}


@dataclass(frozen=True, kw_only=True)
class Observed:
    """A Connection with what it refers to."""

    connection: Connection
    taken: Outcome | None = None
    namesake: str | None = None
    """The older connection of the same name."""
    system: System | None = None
    user_found: bool = True
    secrets: Mapping[str, SecretFacts]


async def reconcile(world: World, obj: Object, now: datetime) -> Plan:
    """Looks at the Connection and decides."""
    connection = Connection.read(obj)
    spec, namespace = connection.spec, connection.namespace
    system = world[SYSTEMS].get(namespace, spec.system_ref.name)
    user = spec.end_user_ref.name if spec.end_user_ref else None
    key = joined(namespace, spec.system_ref.name, user, spec.name)
    older = elder(obj, world[CONNECTIONS].by_index("name", key))
    names = {credential.secret_ref.name for credential in spec.credentials if credential.secret_ref}
    observed = Observed(
        connection=connection,
        taken=id_taken(obj, world[CONNECTIONS]),
        namesake=older["metadata"]["name"] if older else None,
        system=System.read(system) if system else None,
        user_found=user is None or world[END_USERS].get(namespace, user) is not None,
        secrets=await look_up(world, world[SECRETS], namespace, names),
    )
    return plan(observed, now)


def plan(observed: Observed, now: datetime) -> Plan:
    """Ready when every credential can be used; the first problem gives the reason."""
    connection, spec = observed.connection, observed.connection.spec
    problems = list(_problems(observed))
    credentials = []
    for credential in spec.credentials:
        found = list(_credential_problems(credential, observed, now)) if observed.system else []
        problems += [Failure(p.reason, f'Credential "{credential.id}": {p.message}') for p in found]
        credentials.append({"id": credential.id, "errors": [problem.message for problem in found]})
    if observed.taken:
        outcome = observed.taken
    elif problems:
        outcome = failed(problems[0].reason, "; ".join(problem.message for problem in problems))
    else:
        outcome = ready("Valid", f'The connection to "{spec.system_ref.name}" can be used')
    return Plan(
        outcome=outcome,
        status={"credentials": credentials} if credentials and observed.system else {},
        requeue_after=_until_expiry(connection, now),
    )


def _problems(observed: Observed) -> Iterator[Failure]:
    spec, namespace = observed.connection.spec, observed.connection.namespace
    if observed.system is None:
        yield Failure(
            "SystemNotFound",
            f'System "{spec.system_ref.name}" does not exist in namespace {namespace}; '
            "create it or correct spec.systemRef.name",
        )
    if not observed.user_found and spec.end_user_ref:
        yield Failure(
            "EndUserNotFound",
            f'EndUser "{spec.end_user_ref.name}" does not exist in namespace {namespace}; create it',
        )
    if observed.namesake:
        yield Failure(
            "NameTaken",
            f'The older connection "{observed.namesake}" of this system is named "{spec.name}" too; '
            "change spec.name",
        )


def _credential_problems(
    credential: ConnectionCredential, observed: Observed, now: datetime
) -> Iterator[Failure]:
    scheme = _scheme_type(credential, observed.system)
    if scheme is None:
        yield Failure(
            "AuthSchemeNotFound",
            f'System "{observed.connection.spec.system_ref.name}" has no auth scheme '
            f'"{credential.auth_scheme_config_id}"; correct authSchemeConfigId or add the scheme',
        )
    elif credential.type is not CredentialType.NONE and credential.type not in FITTING[scheme]:
        usable = ", ".join(sorted(FITTING[scheme]))
        yield Failure(
            "CredentialTypeWrong",
            f"An auth scheme of type {scheme} cannot use a credential of type {credential.type}; use {usable}",
        )
    if credential.secret_ref and credential.type is not CredentialType.NONE:
        facts = observed.secrets[credential.secret_ref.name]
        problem = secret_problem(facts, NEEDED_KEYS[credential.type], observed.connection.namespace)
        if problem:
            yield problem
    if credential.expires_at and credential.expires_at <= now:
        yield Failure("CredentialExpired", "The credential has expired; replace it, or change expiresAt")


def _scheme_type(credential: ConnectionCredential, system: System | None) -> AuthSchemeType | None:
    if credential.auth_scheme_config:
        return credential.auth_scheme_config.type
    schemes = system.spec.auth_scheme_configs if system else []
    found = (scheme.type for scheme in schemes if scheme.id == credential.auth_scheme_config_id)
    return next(found, None)


def _until_expiry(connection: Connection, now: datetime) -> float | None:
    left = [
        (credential.expires_at - now).total_seconds()
        for credential in connection.spec.credentials
        if credential.expires_at and credential.expires_at > now
    ]
    return min(left, default=None)
