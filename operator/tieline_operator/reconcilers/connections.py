"""Connection: are the system, its auth schemes and the credentials fit for use, and which have expired?"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from yarl import URL

from tieline_core.credentials.connection_state import (
    ConnectionState,
    CredentialFacts,
    is_given,
    state_of,
)
from tieline_core.credentials.grant_request import SECRET_TAKEN
from tieline_core.credentials.linker import Problem, scheme_in
from tieline_core.credentials.refusals import CONDITION, Refusals, refusals_of
from tieline_core.credentials.resolver import Grant
from tieline_core.credentials.tenants import CHANGED, tenant_of
from tieline_core.credentials.validation.credential_findings import (
    EXPIRED,
    REFUSED,
    KnownCredential,
    findings,
    has_expired,
    recheck_times,
    warnings,
)
from tieline_core.credentials.validation.references import ResolvedReferences, resolve_references
from tieline_core.credentials.validation.scheme_findings import inline_findings
from tieline_core.credentials.validation.secret_facts import SecretFacts, TokenFacts
from tieline_core.identity.claims import name_claim
from tieline_core.identity.ids import format_time
from tieline_core.kubernetes.resources import CONNECTIONS, END_USERS, SECRETS, SYSTEMS
from tieline_core.objects import Json
from tieline_core.resources import Connection, System
from tieline_core.resources.connections import ConnectionCredential, ConnectionSpec
from tieline_core.resources.parsed_cache import CONNECTION, SYSTEM
from tieline_core.systems import base_url_problem, connection_base_url, missing_variables
from tieline_operator.apply.conditions import find_condition
from tieline_operator.apply.plan import (
    Deletion,
    Object,
    Outcome,
    Plan,
    PlannedCondition,
    PlannedEvent,
    failed,
    in_progress,
    ready,
)
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.credential_directory import CacheDirectory
from tieline_operator.cache.indexers import BY_ACCOUNT, joined
from tieline_operator.cache.secret_facts import cached_facts, secret_facts, tokens_facts
from tieline_operator.reconcilers.references import not_found
from tieline_operator.reconcilers.secret_gc import unused_secrets
from tieline_operator.reconcilers.uniqueness import earlier_claimant, id_conflict
from tieline_protocol.egress import ALLOWED, PUBLIC_ONLY, Egress
from tieline_protocol.oauth.dialect import Dialect
from tieline_protocol.oauth.kept import NOTHING, Kept

UNAVAILABLE = "ProviderUnavailable"
# Findings that each credential gets an Event for, also where the connection was not ready before.
_NOTICED = frozenset({EXPIRED, REFUSED})
# From the condition's status to the next: what gets an Event.
_TURNS = frozenset({("", "False"), ("Unknown", "False"), ("True", "False"), ("False", "True")})
TokenProblems = Callable[[str, str], Mapping[str, Problem]]
"""``TokenRefresher.token_problems`` of a connection (namespace, name)."""


@dataclass(frozen=True, kw_only=True)
class ObservedConnection:
    """A Connection with what it refers to."""

    connection: Connection
    spec: Json
    """The Connection's spec as JSON."""
    system_spec: Json
    """The System's; empty where it does not exist."""
    egress: Egress = PUBLIC_ONLY
    id_conflict: Outcome | None = None
    name_holder: str | None = None
    """The connection that has this name already."""
    system: System | None = None
    user_found: bool = True
    secrets: Mapping[str, SecretFacts]
    tokens: Mapping[str, TokenFacts] = field(default_factory=dict)
    """By the credential's id: the tokens that the platform keeps, as far as they are of the connection's tenant."""
    holders: Mapping[str, int] = field(default_factory=dict)
    """By the credential's id: how many connections hold tokens of the same account, this one included."""
    is_authorised: bool = False
    """Whether there are tokens, of whatever tenant."""
    kept: Kept = NOTHING
    """What was kept of the provider's answers."""
    links: Mapping[str, ResolvedReferences] = field(default_factory=dict)
    """By the credential's id."""
    token_problems: Mapping[str, Problem] = field(default_factory=dict)
    """By the credential's id: why its provider cannot be asked for tokens now."""
    reported_errors: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By the credential's id: the errors that the status contains already."""
    unused_secrets: tuple[Deletion, ...] = ()
    """The Secrets to delete."""
    obj: Object = field(default_factory=lambda: {"metadata": {}, "spec": {}})
    """The Connection as it is stored: its annotations say what requests through it have shown."""
    reported_as: str = ""
    """The status of the condition about them, as it is."""


@dataclass(eq=False)
class ConnectionReconciler:
    """Reconciles connections."""

    token_problems: TokenProblems = lambda _namespace, _name: {}
    egress: Egress = PUBLIC_ONLY
    """What the administrator lets connections reach."""

    async def reconcile(self, cache: ClusterCache, obj: Object, now: datetime) -> Plan:
        """Observes the Connection and plans."""
        connection = CONNECTION.of(obj)
        spec, namespace = connection.spec, connection.namespace
        found = cache[SYSTEMS].get(namespace, spec.system_ref.name)
        system = SYSTEM.of(found) if found else None
        user = spec.end_user_ref.name if spec.end_user_ref else None
        key = joined(namespace, spec.system_ref.name, user, spec.name)
        directory, secrets = CacheDirectory(cache), cache[SECRETS]
        spec_json, system_json = spec.to_dict(), system.spec.to_dict() if system else {}
        stored = {
            item.id: facts for item in spec.credentials if (facts := tokens_facts(secrets, obj, item.id))
        }
        tokens = _of_tenant(stored, spec_json, system_json)
        observed = ObservedConnection(
            connection=connection,
            spec=spec_json,
            system_spec=system_json,
            egress=self.egress,
            id_conflict=id_conflict(obj, cache[CONNECTIONS]),
            name_holder=earlier_claimant(obj, cache[CONNECTIONS].by_index("name", key), name_claim),
            system=system,
            user_found=user is None or cache[END_USERS].get(namespace, user) is not None,
            secrets=await secret_facts(cache, secrets, namespace, _secret_names(connection, system, now)),
            tokens=tokens,
            holders={
                item_id: len(secrets.by_index(BY_ACCOUNT, joined(namespace, facts.account)))
                for item_id, facts in tokens.items()
                if facts.account
            },
            is_authorised=any(facts.obtained for facts in stored.values()),
            kept=_kept(spec, tokens),
            links={
                item.id: resolve_references(
                    directory,
                    lambda where, name: cached_facts(secrets, where, name),
                    obj,
                    item,
                    scheme_in(system, item),
                )
                for item in spec.credentials
                if not has_expired(item, now)
            },
            token_problems=self.token_problems(namespace, connection.name),
            reported_errors={
                one["id"]: frozenset(one.get("errors") or ())
                for one in obj.get("status", {}).get("credentials", [])
            },
            obj=obj,
            reported_as=(find_condition(obj, CONDITION) or {}).get("status", ""),
            unused_secrets=await unused_secrets(cache, connection, now),
        )
        return plan(observed, now)


def plan(observed: ObservedConnection, now: datetime) -> Plan:
    """Ready when every credential can be used; the first problem gives the reason."""
    spec = observed.connection.spec
    problems = list(_problems(observed))
    credentials = []
    again: list[datetime] = []
    events = []
    facts = []
    for item in spec.credentials:
        known = _known(item, observed)
        found = findings(known, now) if observed.system else []
        again += recheck_times(known, now)
        facts.append(_facts(known, found))
        for one in found:
            message = f'Credential "{item.id}": {one.message}'
            problems.append(failed(one.reason, message))
            if one.reason in _NOTICED and one.message not in observed.reported_errors.get(item.id, ()):
                events.append(PlannedEvent(one.reason, message))
        entry: dict[str, Any] = {"id": item.id, "errors": [one.message[:2048] for one in found][:16]}
        if risks := warnings(known):
            entry["warnings"] = risks
        if item.id in observed.links and (certificate := observed.links[item.id].certificate_id):
            entry["mtlsCredentialId"] = certificate
        if own := inline_findings(item.auth_scheme_config)[:16]:
            entry["validationMessages"] = [one.message.to_dict() for one in own]
        credentials.append(entry | ({"expired": True} if has_expired(item, now) else {}))
    refusals = refusals_of(observed.obj)
    accepted = acceptance(state_of(observed.obj, facts), refusals)
    # What a provider refuses has an Event of its own.
    if refusals is not None and (observed.reported_as, accepted.status) in _TURNS:
        events.append(PlannedEvent(accepted.reason, accepted.message, warning=accepted.status == "False"))
    waiting = next(_waiting(observed, now), None)
    if observed.id_conflict:
        outcome = observed.id_conflict
    elif problems:
        outcome = failed(problems[0].reason, "; ".join(problem.message for problem in problems))
    elif waiting:
        outcome = waiting
    else:
        outcome = ready("Valid", f'The connection to "{spec.system_ref.name}" can be used')
    has_name = not (observed.id_conflict or observed.name_holder)
    return Plan(
        outcome=outcome,
        status={
            **({"name": spec.name} if has_name else {}),
            **({"credentials": credentials} if credentials and observed.system else {}),
        },
        conditions=(accepted,),
        deletions=observed.unused_secrets,
        events=tuple(events),
        requeue_after=min(((moment - now).total_seconds() for moment in again), default=None),
    )


def acceptance(state: ConnectionState, refusals: Refusals | None) -> PlannedCondition:
    """Whether the system accepts the credentials, as far as requests show."""
    status, reason, message = _ACCEPTANCE[state]
    if state is ConnectionState.REFUSED and refusals is not None and refusals.accepted is None:
        message = (
            f"The system {_refused(refusals)}. Correct the credentials, or connect again; for 403, ask for the rights "
            "that are missing. The next request that is accepted ends this"
        )
    elif state is ConnectionState.WORKS and refusals is not None and refusals.accepted is not None:
        message = f"The system accepts requests again since {format_time(refusals.accepted)}; it {_refused(refusals)}"
    return PlannedCondition(type=CONDITION, status=status, reason=reason, message=message)


_ACCEPTANCE = {
    ConnectionState.WORKS: (
        "True",
        "Works",
        "The system accepts requests; the annotation tieline.dev/last-success says when it last did",
    ),
    ConnectionState.REFUSED: ("False", "Refused", "The provider refuses access; see Ready. Connect again"),
    ConnectionState.NOT_CHECKED: (
        "Unknown",
        "NotChecked",
        "No request has succeeded with these credentials yet; test the connection, or wait until code uses it",
    ),
    ConnectionState.NOT_AUTHORISED: (
        "Unknown",
        "NotAuthorised",
        "A credential is missing: sign in at the system, or enter it, in the console or with a connect session",
    ),
    ConnectionState.INVALID: ("Unknown", "Invalid", "A credential cannot be used; see Ready"),
}


def _refused(refusals: Refusals) -> str:
    since, last = format_time(refusals.since), format_time(refusals.last)
    said = f' ("{refusals.said}")' if refusals.said else ""
    return f"answered at least {refusals.count} requests with {refusals.status}{said} from {since} to {last}"


def _facts(known: KnownCredential, found: list[Problem]) -> CredentialFacts:
    scheme, tokens = known.scheme, known.tokens
    changed = [one for one in found if one.reason == CHANGED]
    return CredentialFacts(
        # Tokens of another tenant are no tokens: the connection has to be authorised.
        is_given=not changed
        and is_given(
            scheme.type if scheme else None, known.item.type, has_tokens=bool(tokens and tokens.obtained)
        ),
        is_refused=any(one.reason == REFUSED for one in found),
        has_errors=len(found) > len(changed),
    )


def _problems(observed: ObservedConnection) -> Iterator[Outcome]:
    spec, namespace = observed.connection.spec, observed.connection.namespace
    if observed.system is None:
        name = spec.system_ref.name
        yield not_found("SystemNotFound", name, namespace, "connection", "for another system")
    if not observed.user_found and spec.end_user_ref:
        name = spec.end_user_ref.name
        yield not_found("EndUserNotFound", name, namespace, "connection", "with another endUserRef")
    missing = _missing(observed)
    if missing:
        yield failed(
            "VariableMissing",
            f"The base URL has no value for {', '.join(missing)}; set spec.variables here or at the system, "
            "or spec.baseUrl",
        )
    wrong = base_url_problem(observed.spec, observed.system_spec, observed.kept) if observed.system else None
    if wrong:
        yield failed("VariableInvalid", f"{wrong}, in spec.variables here or at the system")
    host = _host(observed)
    if host and observed.egress.refuses(host):
        yield failed(
            "BaseUrlRefused",
            f"The base URL leads to {host}, which is not public, so pods refuse to call it; correct spec.baseUrl here "
            f"or spec.templateBaseUrl of the system, or ask the platform's administrator to open it in {ALLOWED}",
        )
    if observed.name_holder:
        yield failed(
            "NameTaken",
            f'Connection "{observed.name_holder}" of this system has the name "{spec.name}" already; '
            "change spec.name",
        )


def _missing(observed: ObservedConnection) -> list[str]:
    """Variables of the base URL without a value. An authorisation that is still to come may bring one."""
    if observed.system is None:
        return []
    missing = missing_variables(observed.spec, observed.system_spec, observed.kept)
    if not missing or observed.is_authorised:
        return missing
    own = (one.get("authSchemeConfig") for one in observed.spec.get("credentials", ()))
    schemes = [*observed.system_spec.get("authSchemeConfigs", ()), *filter(None, own)]
    oauth2 = [one["oauth2"] for one in schemes if one.get("oauth2")]
    coming = {name for one in oauth2 for name in Dialect.of(one).kept_variables}
    return [name for name in missing if name not in coming]


def _host(observed: ObservedConnection) -> str | None:
    """The host of the base URL; None while that has none. Nothing else of it is shown: it may hold credentials."""
    try:
        return URL(connection_base_url(observed.spec, observed.system_spec, observed.kept)).host
    except ValueError:
        return None


def _waiting(observed: ObservedConnection, now: datetime) -> Iterator[Outcome]:
    """Credentials whose tokens have not been obtained yet, which is no error."""
    for item in observed.connection.spec.credentials:
        grant = observed.links.get(item.id, ResolvedReferences()).grant
        tokens = observed.tokens.get(item.id)
        trouble = observed.token_problems.get(item.id)
        given = grant is Grant.TOKEN and tokens is None
        stuck = trouble is not None and trouble.reason == SECRET_TAKEN
        if grant is None or (given and not stuck) or _can_be_used(tokens, now):
            continue
        if trouble and trouble.reason != UNAVAILABLE:
            yield failed(trouble.reason, f'Credential "{item.id}": {trouble.message}')
        elif trouble or (tokens and tokens.not_before):
            detail = (
                trouble.message
                if trouble
                else "the provider could not be asked for tokens; it is tried again"
            )
            yield in_progress(UNAVAILABLE, f'Credential "{item.id}": {detail}')
        else:
            yield in_progress("TokensPending", f'Credential "{item.id}": its tokens are being asked for')


def _can_be_used(tokens: TokenFacts | None, now: datetime) -> bool:
    return tokens is not None and tokens.obtained and (tokens.expires_at is None or tokens.expires_at > now)


def _known(item: ConnectionCredential, observed: ObservedConnection) -> KnownCredential:
    scheme = scheme_in(observed.system, item)
    consumer = scheme.oauth1.secret_ref if scheme and scheme.oauth1 else None
    return KnownCredential(
        item=item,
        scheme=scheme,
        namespace=observed.connection.namespace,
        system=observed.connection.spec.system_ref.name,
        secret=observed.secrets.get(item.secret_ref.name) if item.secret_ref else None,
        consumer=observed.secrets.get(consumer.name) if consumer else None,
        tokens=observed.tokens.get(item.id),
        holders=observed.holders.get(item.id, 0),
        links=observed.links.get(item.id, ResolvedReferences()).problems,
    )


def _of_tenant(stored: Mapping[str, TokenFacts], spec: Json, system: Json) -> dict[str, TokenFacts]:
    """Tokens by the credential's id, as far as they are of the connection's tenant."""
    schemes = {one["id"]: one for one in system.get("authSchemeConfigs", ())}
    return {
        item["id"]: stored[item["id"]].seen_from(tenant_of(spec, system, _scheme(item, schemes)).mark)
        for item in spec.get("credentials", ())
        if item["id"] in stored
    }


def _scheme(item: Json, schemes: Mapping[str, Json]) -> Json | None:
    """``scheme_in`` of JSON."""
    return item.get("authSchemeConfig") or schemes.get(item.get("authSchemeConfigId", ""))


def _kept(spec: ConnectionSpec, tokens: Mapping[str, TokenFacts]) -> Kept:
    found = NOTHING
    for item in spec.credentials:
        found = found.merged(tokens[item.id].kept) if item.id in tokens else found
    return found


def _secret_names(connection: Connection, system: System | None, now: datetime) -> set[str]:
    """The Secrets whose facts are needed; those of expired credentials are deleted."""
    names = set()
    for item in connection.spec.credentials:
        scheme = scheme_in(system, item)
        references = (item.secret_ref, scheme.oauth1.secret_ref if scheme and scheme.oauth1 else None)
        if not has_expired(item, now):
            names |= {reference.name for reference in references if reference}
    return names
