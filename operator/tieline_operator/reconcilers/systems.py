"""System: are its auth schemes complete, and do they make sense?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tieline_core.credentials.linker import Problem
from tieline_core.credentials.validation.references import scheme_links
from tieline_core.credentials.validation.scheme_findings import KnownScheme, references, scheme_findings
from tieline_core.credentials.validation.secret_facts import SecretFacts
from tieline_core.kubernetes.resources import SECRETS, SYSTEMS
from tieline_core.resources import System
from tieline_core.severity import Severity
from tieline_core.systems import input_problems
from tieline_operator.apply.plan import Object, Outcome, Plan, failed, ready
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.credential_directory import CacheDirectory
from tieline_operator.cache.secret_facts import secret_facts
from tieline_operator.reconcilers.uniqueness import id_conflict
from tieline_protocol.url_inputs import url_inputs

_MAX_FINDINGS = 16


@dataclass(frozen=True, kw_only=True)
class ObservedSystem:
    """A System with what it refers to."""

    system: System
    id_conflict: Outcome | None = None
    secrets: Mapping[str, SecretFacts]
    links: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)
    """By the scheme's id: why credentials that it names cannot be used."""


async def reconcile(cache: ClusterCache, obj: Object, now: datetime) -> Plan:
    """Observes the System and plans."""
    system = System.read(obj)
    schemes = system.spec.auth_scheme_configs
    names = {reference.name for scheme in schemes for reference, _ in references(scheme)}
    directory = CacheDirectory(cache)
    return plan(
        ObservedSystem(
            system=system,
            id_conflict=id_conflict(obj, cache[SYSTEMS]),
            secrets=await secret_facts(cache, cache[SECRETS], system.namespace, names),
            links={scheme.id: scheme_links(directory, system.namespace, scheme) for scheme in schemes},
        )
    )


def plan(observed: ObservedSystem) -> Plan:
    """Findings per scheme; errors among them make the System not ready."""
    schemes, spec = observed.system.spec.auth_scheme_configs, observed.system.spec.to_dict()
    inputs = url_inputs(spec)
    found = {
        scheme.id: scheme_findings(
            KnownScheme(
                scheme=scheme,
                siblings=schemes,
                namespace=observed.system.namespace,
                secrets=observed.secrets,
                links=observed.links.get(scheme.id, ()),
                inputs=inputs,
            )
        )[:_MAX_FINDINGS]
        for scheme in schemes
    }
    status = [
        {"id": key, "validationMessages": [finding.message.to_dict() for finding in findings]}
        for key, findings in found.items()
        if findings
    ]
    errors = [
        (finding.reason, f'Auth scheme "{key}": {finding.message.text}')
        for key, findings in found.items()
        for finding in findings
        if finding.message.severity == Severity.ERROR
    ]
    errors = [("InputInvalid", problem) for problem in input_problems(spec)] + errors
    return Plan(
        outcome=observed.id_conflict or _outcome(errors), status={"authSchemes": status} if status else {}
    )


def _outcome(errors: list[tuple[str, str]]) -> Outcome:
    if errors:
        return failed(errors[0][0], "; ".join(text for _, text in errors))
    return ready("Valid", "The system can be connected to")
