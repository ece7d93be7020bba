"""Pages of metrics of the platform's pods, as Prometheus scrapes them."""

from __future__ import annotations

import json

from tests.harness.cluster.ha_deployment import NAMESPACE, PARTS
from tests.harness.cluster.kubectl import Kubectl
from tests.harness.processes.alert_rules import SCRAPE_SECONDS, Scrapes

_HOURS = 7200
# Of objects of organisations: with their names as labels, or of all together.
_OF_OBJECTS = frozenset(
    {
        "tieline_operator_object_ready",
        "tieline_operator_environment_status",
        "tieline_operator_connections_refused",
        "tieline_operator_duplicate_organisations",
    }
)


def metric_pages(kubectl: Kubectl, part: str) -> dict[str, str]:
    """The page of each pod by the pod's name; of those that answer."""
    label = f"app.kubernetes.io/name={part}"
    listed = kubectl("get", "pods", "-l", label, "-o", "json", namespace=NAMESPACE).stdout
    found = {}
    for pod in json.loads(listed)["items"]:
        name = pod["metadata"]["name"]
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}:9090/proxy/metrics"
        done = kubectl("get", "--raw", path, check=False)
        if done.returncode == 0:
            found[name] = done.stdout
    return found


def alerts_at_rest(kubectl: Kubectl) -> set[str]:
    """The alerts that fire if two hours pass in which all pods answer what they answer now.

    Objects of organisations are left out: tests leave broken ones.
    """
    scrapes = Scrapes()
    for part in PARTS:
        for pod, page in metric_pages(kubectl, part).items():
            target = {"instance": pod, "pod": pod, "namespace": NAMESPACE}
            scrapes.scrape(page, target, range(0, _HOURS + 1, SCRAPE_SECONDS))
    scrapes.series = {
        labels: samples for labels, samples in scrapes.series.items() if not _is_of_objects(dict(labels))
    }
    return scrapes.firing(_HOURS)


def _is_of_objects(labels: dict[str, str]) -> bool:
    return labels["__name__"] in _OF_OBJECTS or not {"object_namespace", "organisation"}.isdisjoint(labels)
