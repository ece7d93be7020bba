"""Which placement the pods of an environment get, and why that of the project is refused. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from tieline_core.credentials.validation.secret_facts import SecretFacts
from tieline_core.credentials.validation.variable_findings import is_opened, key_problem, secret_problem
from tieline_core.kubernetes.quantities import amount
from tieline_core.resources.namespace_policies import PolicyError
from tieline_core.resources.placement import (
    Placement,
    PlacementPolicy,
    PodMetadata,
    Toleration,
    Volume,
    VolumeMount,
)
from tieline_core.resources.projects import Runtime, merged_fields
from tieline_operator.workload.placement_policy import (
    PLACEMENT_ANNOTATION,
    allows,
    read_policy,
)
from tieline_operator.workload.pod_placement import CA_DIR, CA_VOLUME, secrets_of
from tieline_operator.workload.pod_template import CODE_DIR, ENGINE_DIR, TOKEN_DIR, VOLUME_NAMES
from tieline_protocol.packages import FOLDER as PACKAGES_DIR

RESERVED_DOMAINS = ("tieline.dev", "kubernetes.io", "k8s.io")
_PLATFORM_PATHS = (CODE_DIR, TOKEN_DIR, ENGINE_DIR, PACKAGES_DIR, CA_DIR, "/app", "/tmp")  # noqa: S108  (names)
_SYSTEM_PATHS = (
    *(
        "/bin",
        "/boot",
        "/dev",
        "/etc",
        "/lib",
        "/lib64",
        "/opt",
        "/proc",
        "/root",
        "/run",
        "/sbin",
        "/sys",
        "/usr",
    ),
    "/var/run",
)
_SHOWN = 5
_FIELDS = set(Placement.model_fields)


@dataclass(frozen=True, kw_only=True)
class PodPlacement:
    """The placement of an environment's pods."""

    effective: Placement = field(default_factory=Placement)
    """What pods get. Where the project's is refused, what the administrator sets."""
    problems: tuple[str, ...] = ()
    """Why the project's placement is refused."""
    withdrawn: bool = False
    """Whether the Deployment mounts a Secret that pods must not have any more."""
    secrets: tuple[tuple[str, str], ...] = ()
    """The names and versions of the Secrets that pods mount."""

    @property
    def problem(self) -> str:
        """The problems as one text; empty where there are none."""
        more = f"; and {len(self.problems) - _SHOWN} more" if len(self.problems) > _SHOWN else ""
        return "; ".join(self.problems[:_SHOWN]) + more


def referenced_secrets(runtime: Runtime) -> set[str]:
    """The names of the Secrets that a runtime mounts."""
    return {name for name, _ in _secrets(runtime.volumes or ())}


def pod_placement(
    runtime: Runtime,
    policy: str,
    *,
    project: str,
    environment: str,
    secrets: Mapping[str, SecretFacts],
    deployment: Mapping[str, Any] | None,
) -> PodPlacement:
    """The placement of a runtime under the policy in a Namespace's annotation.

    ``deployment`` is the one that is there.
    """
    try:
        bounds = read_policy(policy)
    except PolicyError as error:
        problem = (
            f"the annotation {PLACEMENT_ANNOTATION} of the Namespace cannot be used: {error}; an administrator of the "
            "cluster must correct it"
        )
        return PodPlacement(problems=(problem,))
    problems = (
        *_scheduling_problems(runtime, bounds),
        *_metadata_problems(runtime.pod_metadata),
        *_volume_problems(runtime, bounds),
        *_secret_problems(runtime, project, environment, secrets),
    )
    refused = {
        name for name, facts in secrets.items() if facts.exists and not is_opened(facts, project, environment)
    }
    mounted = referenced_secrets(runtime)
    return PodPlacement(
        effective=_effective(Placement() if problems else runtime, bounds),
        problems=problems,
        withdrawn=any(name in refused for name in _mounted(deployment)),
        secrets=() if problems else tuple(sorted((name, secrets[name].version) for name in mounted)),
    )


def _effective(own: Placement, bounds: PlacementPolicy) -> Placement:
    """What a project sets, over the defaults, under what is required."""
    given = own.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True, include=_FIELDS)
    fields = merged_fields(bounds.defaults.to_dict(), given)
    required = bounds.required
    if required.node_selector:
        fields["nodeSelector"] = {**fields.get("nodeSelector", {}), **required.node_selector}
    if required.tolerations:
        fields["tolerations"] = [
            *fields.get("tolerations", ()),
            *(one.to_dict() for one in required.tolerations),
        ]
    return Placement.model_validate(fields)


def _scheduling_problems(runtime: Runtime, bounds: PlacementPolicy) -> Iterator[str]:
    allowed = bounds.allowed
    for key, value in (runtime.node_selector or {}).items():
        if (wanted := bounds.required.node_selector.get(key, value)) != value:
            yield f"nodeSelector {key}: {value} is not allowed, all pods of the organisation run on {key}: {wanted}"
    for one in runtime.tolerations or ():
        if not any(allows(other, one) for other in allowed.tolerations):
            yield (
                f"the toleration {_text(one)} is not allowed; allowed are "
                f"{_listed([_text(other) for other in allowed.tolerations])}"
            )
    for what, name, names in (
        ("priorityClassName", runtime.priority_class_name, allowed.priority_class_names),
        ("runtimeClassName", runtime.runtime_class_name, allowed.runtime_class_names),
    ):
        if name is not None and name not in names:
            yield f"{what} {name} is not allowed; allowed are {_listed(names)}"


def _metadata_problems(metadata: PodMetadata | None) -> Iterator[str]:
    if metadata is None:
        return
    for what, keys in (("label", metadata.labels), ("annotation", metadata.annotations)):
        for key in keys:
            domain = key.rpartition("/")[0]
            if any(domain == one or domain.endswith(f".{one}") for one in RESERVED_DOMAINS):
                yield (
                    f"the {what} {key} is reserved; choose one outside of {', '.join(RESERVED_DOMAINS)} and the "
                    "domains below them"
                )


def _volume_problems(runtime: Runtime, bounds: PlacementPolicy) -> Iterator[str]:
    allowed = bounds.allowed
    names = {one.name for one in runtime.volumes or ()}
    for volume in runtime.volumes or ():
        if volume.name in VOLUME_NAMES or volume.name == CA_VOLUME:
            yield f"the volume {volume.name} has a name of the platform's; choose another one"
        if volume.source not in allowed.volumes:
            kind = volume.source or "without a source"
            yield f"the volume {volume.name} ({kind}) is not allowed; allowed are {_listed(allowed.volumes)}"
        if volume.empty_dir and _exceeds(volume.empty_dir.size_limit, allowed.empty_dir_size):
            yield (
                f"the volume {volume.name} may have a sizeLimit of at most {allowed.empty_dir_size}, not "
                f"{volume.empty_dir.size_limit}"
            )
    for mount in runtime.volume_mounts or ():
        if mount.name not in names:
            yield f"the volume mount {mount.mount_path} names the volume {mount.name}, which is not in volumes"
        yield from _path_problems(mount)


def _path_problems(mount: VolumeMount) -> Iterator[str]:
    path = PurePosixPath(mount.mount_path)
    if (
        not mount.mount_path.startswith("/")
        or ":" in mount.mount_path
        or ".." in path.parts
        or len(path.parts) < 2
    ):
        yield f"the mount path {mount.mount_path} is not allowed; use an absolute path such as /mnt/{mount.name}"
    elif any(_overlap(path, PurePosixPath(one)) for one in (*_PLATFORM_PATHS, *_SYSTEM_PATHS)):
        yield (
            f"the mount path {mount.mount_path} is the platform's or the system's; use another one such as "
            f"/mnt/{mount.name}"
        )


def _overlap(one: PurePosixPath, other: PurePosixPath) -> bool:
    # Two slashes at the start are a root of their own for pathlib, and one for Linux.
    first, second = one.parts[1:], other.parts[1:]
    shorter = min(len(first), len(second))
    return first[:shorter] == second[:shorter]


def _secret_problems(
    runtime: Runtime, project: str, environment: str, secrets: Mapping[str, SecretFacts]
) -> Iterator[str]:
    for volume in runtime.volumes or ():
        for name, keys in secrets_of(volume):
            facts = secrets.get(name) or SecretFacts(name=name)
            found = [key_problem(facts, key, project, environment) for key in keys]
            for problem in dict.fromkeys(found or [secret_problem(facts, project, environment)]):
                if problem:
                    yield f"the volume {volume.name}: {problem}"


def _secrets(volumes: Sequence[Volume]) -> Iterator[tuple[str, Sequence[str]]]:
    for volume in volumes:
        yield from secrets_of(volume)


def _mounted(deployment: Mapping[str, Any] | None) -> Iterator[str]:
    """The Secrets that a Deployment's pods mount for code."""
    pod = deployment["spec"]["template"].get("spec", {}) if deployment else {}
    for volume in pod.get("volumes") or ():
        if volume["name"] in VOLUME_NAMES:
            continue
        if secret := volume.get("secret"):
            yield secret["secretName"]
        for source in (volume.get("projected") or {}).get("sources") or ():
            if secret := source.get("secret"):
                yield secret["name"]


def _exceeds(wanted: Any, limit: Any) -> bool:
    return (amount(wanted) or 0) > (amount(limit) or 0)


def _text(toleration: Toleration) -> str:
    value = "" if toleration.operator.value == "Exists" else f"={toleration.value}"
    effect = f":{toleration.effect.value}" if toleration.effect else ""
    return f"{toleration.key or '(all keys)'}{value}{effect}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none; an administrator of the cluster allows them"
