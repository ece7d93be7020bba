"""ConnectionTemplate: do project, environment, system and the linked connection exist and fit?"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tieline_core.identity.claims import name_claim
from tieline_core.kubernetes.resources import CONNECTION_TEMPLATES, CONNECTIONS, PROJECTS, SYSTEMS
from tieline_core.resources import ConnectionTemplate, Project
from tieline_core.resources.parsed_cache import PROJECT
from tieline_operator.apply.plan import Object, Outcome, Plan, failed, ready
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.indexers import joined, ref
from tieline_operator.reconcilers.references import environment_status, not_found, not_ready
from tieline_operator.reconcilers.uniqueness import earlier_claimant, id_conflict

UNUSABLE = frozenset(
    {"SystemNotFound", "TemplateNotLinked", "ConnectionNotFound", "SystemDiffers", "ConnectionNotReady"}
)
"""Reasons why code that names a static template gets no connection."""


@dataclass(frozen=True, kw_only=True)
class ObservedTemplate:
    """A ConnectionTemplate with what it refers to."""

    template: ConnectionTemplate
    id_conflict: Outcome | None = None
    name_holder: str | None = None
    """The template that has this name in the environment already."""
    project: Project | None = None
    system_found: bool = False
    connection: Object | None = None


async def reconcile(cache: ClusterCache, obj: Object, now: datetime) -> Plan:
    """Observes the ConnectionTemplate and plans."""
    template = ConnectionTemplate.read(obj)
    spec, namespace = template.spec, template.namespace
    project = cache[PROJECTS].get(namespace, spec.project_ref.name)
    key = joined(namespace, spec.project_ref.name, spec.environment, spec.name)
    linked = spec.connection_ref.name if spec.connection_ref else None
    return plan(
        ObservedTemplate(
            template=template,
            id_conflict=id_conflict(obj, cache[CONNECTION_TEMPLATES]),
            name_holder=earlier_claimant(obj, cache[CONNECTION_TEMPLATES].by_index("name", key), name_claim),
            project=PROJECT.of(project) if project else None,
            system_found=cache[SYSTEMS].get(namespace, spec.system_ref.name) is not None,
            connection=cache[CONNECTIONS].get(namespace, linked) if linked else None,
        )
    )


def plan(observed: ObservedTemplate) -> Plan:
    """Ready when code can use the template's name."""
    template = observed.template
    status = environment_status(observed.project, template.spec.environment)
    problem = observed.id_conflict or next(_problems(observed, found=bool(status)), None)
    has_name = not (observed.id_conflict or observed.name_holder)
    return Plan(
        outcome=problem or _usable(template),
        status={**status, **({"name": template.spec.name} if has_name else {})},
    )


def _problems(observed: ObservedTemplate, *, found: bool) -> Iterator[Outcome]:
    spec, namespace = observed.template.spec, observed.template.namespace
    if observed.project is None:
        name = spec.project_ref.name
        yield not_found("ProjectNotFound", name, namespace, "template", "with another projectRef")
    elif not found:
        names = ", ".join(item.name for item in observed.project.spec.effective_environments())
        yield failed(
            "EnvironmentNotFound",
            f'Project "{spec.project_ref.name}" has no environment "{spec.environment}" (it has {names}); '
            "add it to the project's spec.environments",
        )
    if not observed.system_found:
        name = spec.system_ref.name
        yield not_found("SystemNotFound", name, namespace, "template", "for another system")
    if observed.name_holder:
        yield failed(
            "NameTaken",
            f'Template "{observed.name_holder}" has the name "{spec.name}" in this environment already; '
            "change spec.name",
        )
    if not spec.dynamic:
        yield from _link_problems(observed)


def _link_problems(observed: ObservedTemplate) -> Iterator[Outcome]:
    spec, namespace = observed.template.spec, observed.template.namespace
    if spec.connection_ref is None:
        yield failed(
            "TemplateNotLinked",
            f'No connection is linked to the static template "{spec.name}"; '
            "set spec.connectionRef, or make it dynamic",
        )
        return
    name = spec.connection_ref.name
    if observed.connection is None:
        yield failed(
            "ConnectionNotFound",
            f'Connection "{name}" does not exist in namespace {namespace}; '
            "create it or correct spec.connectionRef.name",
        )
        return
    system = ref(observed.connection, "systemRef")
    if system != spec.system_ref.name:
        yield failed(
            "SystemDiffers",
            f'Connection "{name}" is for the system "{system}", the template for "{spec.system_ref.name}"; '
            "link a connection of that system",
        )
    yield from not_ready(observed.connection)


def _usable(template: ConnectionTemplate) -> Outcome:
    spec = template.spec
    if spec.dynamic:
        return ready("Dynamic", f'Code can use "{spec.name}" with the connections of its users')
    name = spec.connection_ref.name if spec.connection_ref else ""
    return ready("Linked", f'Code can use "{spec.name}" with the connection "{name}"')
