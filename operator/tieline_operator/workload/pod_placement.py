"""Puts the placement of an environment into the spec of a pod. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tieline_core.resources.placement import Placement, Volume
from tieline_operator.apply.plan import Manifest

CA_DIR = "/var/run/tieline/ca"
CA_VOLUME = "ca-bundle"
_CA_FILE = "ca.crt"
_SCHEDULING = (
    "nodeSelector",
    "tolerations",
    "affinity",
    "topologySpreadConstraints",
    "priorityClassName",
    "runtimeClassName",
)
_AFFINITIES = ("podAffinity", "podAntiAffinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def scheduling(placement: Placement, selector: Mapping[str, str]) -> Manifest:
    """The fields of a PodSpec that say where pods run. Rules about pods mean those of ``selector`` by default."""
    given = placement.to_dict()
    fields = {name: given[name] for name in _SCHEDULING if given.get(name)}
    if "topologySpreadConstraints" in fields:
        fields["topologySpreadConstraints"] = [
            _selecting(one, selector) for one in fields["topologySpreadConstraints"]
        ]
    if "affinity" in fields:
        fields["affinity"] = {
            name: _pod_affinity(rules, selector) if name in _AFFINITIES else rules
            for name, rules in fields["affinity"].items()
        }
    return fields


def volumes(placement: Placement) -> list[Manifest]:
    """The volumes, with that of the certificate authorities."""
    found = [one.to_dict() for one in placement.volumes or ()]
    if bundle := placement.ca_bundle:
        source = {"name": bundle.name, "items": [{"key": bundle.key, "path": _CA_FILE}]}
        found.append({"name": CA_VOLUME, "configMap": source})
    return found


def mounts(placement: Placement) -> list[Manifest]:
    """Where the container has the volumes."""
    found = [one.to_dict() for one in placement.volume_mounts or ()]
    if placement.ca_bundle:
        found.append({"name": CA_VOLUME, "mountPath": CA_DIR, "readOnly": True})
    return found


def variables(placement: Placement) -> dict[str, str]:
    """What the runtime is told about its files: the certificate authorities, and where secrets are."""
    found = {}
    if placement.ca_bundle:
        found["TIELINE_CA_BUNDLE"] = f"{CA_DIR}/{_CA_FILE}"
    secret = {one.name for one in placement.volumes or () if any(secrets_of(one))}
    paths = [one.mount_path for one in placement.volume_mounts or () if one.name in secret]
    if paths:
        found["TIELINE_SECRET_PATHS"] = ":".join(paths)
    return found


def secrets_of(volume: Volume) -> Iterator[tuple[str, Sequence[str]]]:
    """The Secrets of a volume, and the keys of each that it names."""
    if volume.secret:
        yield volume.secret.secret_name, [item.key for item in volume.secret.items]
    for source in volume.projected.sources if volume.projected else ():
        if source.secret:
            yield source.secret.name, [item.key for item in source.secret.items]


def _pod_affinity(rules: Mapping[str, Any], selector: Mapping[str, str]) -> Manifest:
    found = dict(rules)
    if required := rules.get(_REQUIRED):
        found[_REQUIRED] = [_selecting(term, selector) for term in required]
    if preferred := rules.get(_PREFERRED):
        found[_PREFERRED] = [
            {**one, "podAffinityTerm": _selecting(one["podAffinityTerm"], selector)} for one in preferred
        ]
    return found


def _selecting(term: Mapping[str, Any], selector: Mapping[str, str]) -> Manifest:
    return {"labelSelector": {"matchLabels": dict(selector)}, **term}
