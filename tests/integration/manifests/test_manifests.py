"""The chart and the kustomizations: the same objects, known to Kubernetes, and refused when misspelt."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.cluster.kubectl import ROOT, Kubectl
from tests.harness.cluster.manifest_tools import ManifestTools, manifest_tools
from tests.harness.session import fast_yaml
from tests.harness.session.uncaptured_progress import UncapturedProgress
from tests.unit.docs.doc_pages import page
from tieline_api import settings as api_settings
from tieline_operator import config as operator_config
from tieline_operator.workload import exposure

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "tieline"
NAMESPACE = "tieline-system"
KEEP = "helm.sh/resource-policy"
CHECKSUM = "checksum/configuration"
HELMS_LABELS = {
    "app.kubernetes.io/instance": "tieline",
    "app.kubernetes.io/version": "0.1.0",
    "app.kubernetes.io/managed-by": "Helm",
    "helm.sh/chart": "tieline-0.1.0",
}
HIGHLY_AVAILABLE = ("--set", "api.replicas=2,operator.replicas=2,engine.replicas=3")
ONE_ORGANISATION = ("--set", "organisation=acme")
# kustomize does not know that these have no namespace, and Kubernetes ignores one.
WITHOUT_NAMESPACE = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
# It restricts operator and API, which go with the release.
GOES = "tieline-namespaces"

Objects = dict[tuple[str, str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def tools(request: pytest.FixtureRequest) -> ManifestTools:
    return manifest_tools(UncapturedProgress(request.config.pluginmanager.getplugin("capturemanager")))


def helm(tools: ManifestTools, *more: str, namespace: str = NAMESPACE) -> subprocess.CompletedProcess[str]:
    """``helm template`` of the chart, on a cluster that has a Gateway and the Prometheus operator."""
    arguments = [tools.helm, "template", "tieline", CHART, "-n", namespace, "--kube-version", "1.34.0", *more]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)


def kustomized(tools: ManifestTools, folder: str | Path) -> str:
    arguments = [tools.kustomize, "build", DEPLOY / folder]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True).stdout


def objects(text: str) -> Objects:
    found = {}
    for document in fast_yaml.load_all(text):
        if document:
            metadata = document["metadata"]
            if document["kind"] in WITHOUT_NAMESPACE:
                metadata.pop("namespace", None)
            found[document["kind"], metadata.get("namespace", ""), metadata["name"]] = document
    return found


def without_helms_own(found: Objects) -> Objects:
    """Definitions and policies are marked for helm to keep, pods with a checksum, and the rest with the release."""
    for document in found.values():
        marked = [] if document["kind"] == "CustomResourceDefinition" else [document["metadata"]]
        if document["kind"] in ("Deployment", "StatefulSet"):
            marked.append(document["spec"]["template"]["metadata"])
        for metadata in marked:
            assert {label: metadata["labels"].pop(label, None) for label in HELMS_LABELS} == HELMS_LABELS
        if document["kind"] == "Deployment":
            assert list(document["spec"]["template"]["metadata"].pop("annotations")) == [CHECKSUM]
        notes = document["metadata"].get("annotations", {})
        stays = document["kind"] in {"CustomResourceDefinition", *WITHOUT_NAMESPACE}
        assert (KEEP in notes) is (stays and document["metadata"]["name"] != GOES)
        if notes.pop(KEEP, None) and not notes:
            del document["metadata"]["annotations"]
    return found


@pytest.mark.parametrize(
    ("folder", "more", "namespace"),
    [
        ("overlays/highly-available", HIGHLY_AVAILABLE, NAMESPACE),
        ("overlays/one-organisation", ONE_ORGANISATION, "acme"),
    ],
)
def test_an_overlay_is_the_chart_with_values(
    tools: ManifestTools, folder: str, more: tuple[str, ...], namespace: str
) -> None:
    done = helm(tools, *more, namespace=namespace)
    assert done.returncode == 0, done.stderr
    from_kustomize = objects(kustomized(tools, folder))
    # helm makes the namespace itself (--create-namespace), or finds it; an organisation's is there.
    assert (("Namespace", "", namespace) in from_kustomize) is (namespace == NAMESPACE)
    from_kustomize.pop(("Namespace", "", namespace), None)
    assert len(from_kustomize) > 20
    assert without_helms_own(objects(done.stdout)) == from_kustomize


@pytest.mark.parametrize(
    ("folder", "more"), [("overlays/one-replica", ()), ("overlays/highly-available", HIGHLY_AVAILABLE)]
)
def test_an_overlay_installs_it_in_another_namespace(
    tools: ManifestTools, tmp_path: Path, folder: str, more: tuple[str, ...]
) -> None:
    """With the page's patch an overlay gives what ``helm template -n`` gives."""
    (block,) = [one for one in page("docs/install.md").blocks("yaml") if one.mark == "namespace"]
    overlay = {
        **fast_yaml.load(block.text),
        "resources": [os.path.relpath(DEPLOY / folder, tmp_path.resolve())],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    from_kustomize = objects(kustomized(tools, tmp_path))
    assert from_kustomize.pop(("Namespace", "", "integration"))
    done = helm(tools, *more, namespace="integration")
    assert done.returncode == 0, done.stderr
    assert without_helms_own(objects(done.stdout)) == from_kustomize


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("api.replica=2", "replica"),
        ("operator.replicas=many", "replicas"),
        ("configuration.PUBLIC_URL=x", "PUBLIC_URL"),
        ("configuration.TIELINE_API_URL=http://elsewhere", "TIELINE_API_URL"),
        ("configuration.TIELINE_WORKER=4", "TIELINE_WORKER"),
        ("image.digest=sha256:12", "digest"),
        ("image.tag=1.2.3", "image.repository"),
        ("image.repository=registry.example/p:1", "repository"),
        ("ingress.enabled=true", "ingress.host"),
        ("httpRoute.enabled=true", "httpRoute.parentRefs"),
        ("operator.nodeSelectors.disk=ssd", "nodeSelectors"),
        ("api.podLabels.app\\.kubernetes\\.io/name=mine", "app.kubernetes.io/name"),
        ("images.platform=", "platform"),
        ("organisation=Acme Ltd", "organisation"),
        ("organisation=acme,configuration.TIELINE_NAMESPACES=other", "not both"),
        ("engine.replicas=2", "replicas"),
        ("engine.external.url=http://elsewhere", "external"),
        ("engine.persistence.size=plenty", "size"),
    ],
)
def test_values_that_nothing_reads_are_refused(tools: ManifestTools, setting: str, named: str) -> None:
    done = helm(tools, "--set", setting)
    assert done.returncode != 0
    assert named in done.stderr


def test_values_reach_the_objects(tools: ManifestTools) -> None:
    left_out = "networkPolicies=false,crds=false,roles=false,policies=false"
    values = f"images.platform=registry.example/p:1,images.runtime=registry.example/r:1,{left_out}"
    done = helm(
        tools, "--set", values, "--set-string", "images.pullSecrets={pull},configuration.TIELINE_WORKERS=4"
    )
    assert done.returncode == 0, done.stderr
    found = objects(done.stdout)
    pod = found["Deployment", NAMESPACE, "tieline-api"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry.example/p:1"
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    data = found["ConfigMap", NAMESPACE, "tieline"]["data"]
    assert (data["TIELINE_RUNTIME_IMAGE"], data["TIELINE_WORKERS"]) == ("registry.example/r:1", "4")
    assert not {kind for kind, _, _ in found} & {
        "NetworkPolicy",
        "CustomResourceDefinition",
        *WITHOUT_NAMESPACE,
    }
    assert not {name for _, _, name in found} & {"tieline-viewer", "tieline-editor", "tieline-admin"}


PODS: dict[str, Any] = {
    "podAnnotations": {"example.com/team": "integration"},
    "podLabels": {"example.com/zone": "inner"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "platform", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}]
            }
        }
    },
    "priorityClassName": "system-cluster-critical",
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
    "extraVolumes": [{"name": "traces", "persistentVolumeClaim": {"claimName": "traces"}}],
    "extraVolumeMounts": [{"name": "traces", "mountPath": "/var/lib/traces"}],
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"}},
}
EVERYTHING: dict[str, Any] = {
    "operator": PODS,
    "api": PODS,
    "image": {"repository": "registry.example:5000/platform", "tag": "1.2.3"},
    "runtimeImage": {
        "repository": "registry.example:5000/runtime",
        "digest": f"sha256:{'0a' * 32}",
        "pullSecrets": ["registry", "mirror"],
    },
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "host": "tieline.example",
        "tlsSecret": "tieline-tls",
        "annotations": {"cert-manager.io/cluster-issuer": "letsencrypt"},
    },
    "httpRoute": {
        "enabled": True,
        "parentRefs": [{"name": "public", "namespace": "gateways"}],
        "hostnames": ["tieline.example"],
    },
    "monitors": {"enabled": True, "labels": {"release": "prometheus"}},
}


def test_pods_of_the_platform_are_placed_and_extended_as_values_say(
    tools: ManifestTools, tmp_path: Path
) -> None:
    values = tmp_path / "values.json"
    values.write_text(json.dumps(EVERYTHING))
    done = helm(tools, "-f", str(values))
    assert done.returncode == 0, done.stderr
    found = objects(done.stdout)
    for part in ("tieline-operator", "tieline-api"):
        template = found["Deployment", NAMESPACE, part]["spec"]["template"]
        spec, (container,) = template["spec"], template["spec"]["containers"]
        for field in ("nodeSelector", "tolerations", "affinity", "priorityClassName"):
            assert spec[field] == PODS[field]
        assert PODS["podLabels"].items() < template["metadata"]["labels"].items()
        assert PODS["podAnnotations"].items() < template["metadata"]["annotations"].items()
        assert container["env"][-1] == PODS["extraEnv"][0]
        assert container["volumeMounts"][-1] == PODS["extraVolumeMounts"][0]
        assert spec["volumes"][-1] == PODS["extraVolumes"][0]
        account = found["ServiceAccount", NAMESPACE, part]
        assert account["metadata"]["annotations"] == PODS["serviceAccount"]["annotations"]
        assert container["image"] == "registry.example:5000/platform:1.2.3"
    data = found["ConfigMap", NAMESPACE, "tieline"]["data"]
    assert data["TIELINE_RUNTIME_IMAGE"] == f"registry.example:5000/runtime@sha256:{'0a' * 32}"
    assert data["TIELINE_IMAGE_PULL_SECRETS"] == "registry,mirror"


def test_the_api_is_reached_from_outside_at_its_public_port_alone(
    tools: ManifestTools, tmp_path: Path
) -> None:
    values = tmp_path / "values.json"
    values.write_text(json.dumps(EVERYTHING))
    found = objects(helm(tools, "-f", str(values)).stdout)
    ingress = found["Ingress", NAMESPACE, "tieline-api"]["spec"]
    route = found["HTTPRoute", NAMESPACE, "tieline-api"]["spec"]
    (rule,) = ingress["rules"]
    assert rule["host"] == "tieline.example"
    assert ingress["tls"] == [{"hosts": ["tieline.example"], "secretName": "tieline-tls"}]
    service = rule["http"]["paths"][0]["backend"]["service"]
    assert service == {"name": "tieline-api", "port": {"name": "http"}}
    assert route["rules"] == [{"backendRefs": [{"name": "tieline-api", "port": 80}]}]
    ports = found["Service", NAMESPACE, "tieline-api"]["spec"]["ports"]
    assert ports == [{"name": "http", "port": 80, "targetPort": "http"}]


def test_the_charts_monitors_are_those_of_the_folder(tools: ManifestTools, tmp_path: Path) -> None:
    values = tmp_path / "values.json"
    values.write_text(json.dumps(EVERYTHING))
    found = objects(helm(tools, "-f", str(values)).stdout)
    by_hand = objects((DEPLOY / "monitoring" / "monitors.yaml").read_text())
    assert len(by_hand) == 3
    for key, document in by_hand.items():
        assert found[key]["spec"] == document["spec"]
        assert found[key]["metadata"]["labels"]["release"] == "prometheus"


@pytest.mark.parametrize(
    ("settings", "namespaces"),
    [
        ([], None),
        (["monitors.enabled=true"], "monitoring"),
        (["monitors.enabled=true", "configuration.TIELINE_METRICS_NAMESPACES="], "monitoring"),
        (["monitors.enabled=true", "configuration.TIELINE_METRICS_NAMESPACES=prometheus"], "prometheus"),
    ],
)
def test_monitors_scrape_environments_that_are_open_to_them(
    tools: ManifestTools, settings: list[str], namespaces: str | None
) -> None:
    done = helm(tools, *(part for one in settings for part in ("--set", one)))
    assert done.returncode == 0, done.stderr
    found = objects(done.stdout)
    assert found["ConfigMap", NAMESPACE, "tieline"]["data"].get("TIELINE_METRICS_NAMESPACES") == namespaces


def test_a_selector_never_changes(tools: ManifestTools) -> None:
    """Kubernetes refuses to change a Deployment's selector, so an upgrade would fail."""
    found = objects(helm(tools, "--set", "api.podLabels.zone=inner").stdout)
    for kind, part in (
        ("Deployment", "tieline-operator"),
        ("Deployment", "tieline-api"),
        ("StatefulSet", "tieline-engine"),
    ):
        selector = found[kind, NAMESPACE, part]["spec"]["selector"]
        assert selector == {"matchLabels": {"app.kubernetes.io/name": part}}


def test_every_setting_of_operator_and_api_can_be_configured_and_no_other() -> None:
    known = {
        name
        for module in (operator_config, api_settings)
        for name in re.findall(r"^\| (TIELINE_[A-Z_]+) \|", module.__doc__ or "", re.MULTILINE)
    } | set(re.findall(r"^\| (TIELINE_[A-Z_]+) \|", exposure.__doc__ or "", re.MULTILINE))
    by_the_chart = {
        "TIELINE_API_URL",
        "TIELINE_CONSOLE_OIDC_CLIENT_SECRET_FILE",
        "TIELINE_ENGINE_CA_FILE",
        "TIELINE_ENGINE_CREDENTIALS_FILE",
        "TIELINE_ENGINE_REPLICAS",
        "TIELINE_ENGINE_SIGNER_FILE",
        "TIELINE_ENGINE_URL",
        "TIELINE_RUNTIME_IMAGE",
        "TIELINE_IMAGE_PULL_SECRETS",
        "TIELINE_TLS",
        "TIELINE_TLS_CERTIFICATES",
        "TIELINE_TLS_FOLDER",
    }
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]["configuration"]
    assert len(known) > 30
    assert set(schema["properties"]) == known - by_the_chart
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("kind", "part", "replicas"),
    [
        ("Deployment", "tieline-operator", 2),
        ("Deployment", "tieline-api", 2),
        ("StatefulSet", "tieline-engine", 3),
    ],
)
def test_replicas_of_a_part_are_kept_apart_and_one_at_a_time_is_drained(
    tools: ManifestTools, kind: str, part: str, replicas: int
) -> None:
    """One node cannot show it: here the constraint must count this part's pods, and the budget protect them."""
    found = objects(kustomized(tools, "overlays/highly-available"))
    workload = found[kind, NAMESPACE, part]["spec"]
    labels, pod = workload["template"]["metadata"]["labels"], workload["template"]["spec"]
    assert workload["replicas"] == replicas
    (spread,) = pod["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["maxSkew"]) == ("kubernetes.io/hostname", 1)
    budget = found["PodDisruptionBudget", NAMESPACE, part]["spec"]
    assert budget["maxUnavailable"] == 1
    for selector in (spread["labelSelector"], budget["selector"]):
        assert selector["matchLabels"]
        assert selector["matchLabels"].items() <= labels.items()

    alone = objects(kustomized(tools, "overlays/one-replica"))[kind, NAMESPACE, part]["spec"]
    assert alone["replicas"] == 1
    assert "topologySpreadConstraints" not in alone["template"]["spec"]


def test_other_settings_make_other_pods(tools: ManifestTools) -> None:
    def checksum(*more: str) -> str:
        deployment = objects(helm(tools, *more).stdout)["Deployment", NAMESPACE, "tieline-operator"]
        return str(deployment["spec"]["template"]["metadata"]["annotations"][CHECKSUM])

    assert checksum() == checksum("--set", "api.replicas=2")
    assert checksum() != checksum("--set", "images.runtime=registry.example/r:2")


def test_for_one_organisation_nothing_but_the_review_of_callers_is_granted_beyond_it(
    tools: ManifestTools,
) -> None:
    found = objects(helm(tools, *ONE_ORGANISATION, namespace="platform").stdout)
    roles = {name for kind, _, name in found if kind == "ClusterRole"}
    assert roles == {"tieline-viewer", "tieline-editor", "tieline-admin"}, "these are for people"
    ((binding, granted),) = [
        (name, one["roleRef"]["name"])
        for (kind, _, name), one in found.items()
        if kind == "ClusterRoleBinding"
    ]
    assert (binding, granted) == ("tieline-api-platform", "system:auth-delegator")
    assert {name for kind, namespace, name in found if kind == "Role" and namespace == "acme"} == {
        "tieline-operator",
        "tieline-api",
        "tieline-secrets",
    }


@pytest.mark.cluster
def test_kubernetes_knows_every_field(tools: ManifestTools, kubectl: Kubectl, tmp_path: Path) -> None:
    schemas = tmp_path / "schemas"
    write_schemas(json.loads(kubectl("get", "--raw", "/openapi/v2").stdout), schemas)
    for name, text in (
        ("chart.yaml", helm(tools, *HIGHLY_AVAILABLE).stdout),
        ("base.yaml", kustomized(tools, "base")),
        ("local.yaml", kustomized(tools, "overlays/local")),
        ("available.yaml", kustomized(tools, "overlays/highly-available")),
        ("organisation.yaml", kustomized(tools, "overlays/one-organisation")),
    ):
        manifest = tmp_path / name
        manifest.write_text(text)
        assert conformity(tools, schemas, manifest) == ""
    misspelt = tmp_path / "misspelt.yaml"
    misspelt.write_text((tmp_path / "base.yaml").read_text().replace("readinessProbe:", "readynessProbe:"))
    assert "readynessProbe" in conformity(tools, schemas, misspelt)


@pytest.mark.cluster
def test_kubernetes_would_take_every_object(
    tools: ManifestTools, kubectl: Kubectl, namespace: str, tmp_path: Path
) -> None:
    manifest = tmp_path / "chart.yaml"
    manifest.write_text(helm(tools, *HIGHLY_AVAILABLE, namespace=namespace).stdout)
    arguments = ("--server-side", "--dry-run=server", "--force-conflicts", "--validate=strict")
    done = kubectl("apply", *arguments, "-f", str(manifest))
    assert len(done.stdout.splitlines()) == len(objects(manifest.read_text()))


def conformity(tools: ManifestTools, schemas: Path, manifest: Path) -> str:
    """What kubeconform finds; nothing when all is known."""
    location = f"{schemas}/{{{{ .Group }}}}/{{{{ .ResourceKind }}}}_{{{{ .ResourceAPIVersion }}}}.json"
    arguments = [tools.kubeconform, "-strict", "-schema-location", location, manifest]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def write_schemas(document: dict[str, Any], folder: Path) -> None:
    """A file for each kind that the API server knows, as kubeconform looks for them."""
    definitions = document["definitions"]
    for definition in definitions.values():
        _strict(definition)
    folder.mkdir()
    (folder / "definitions.json").write_text(json.dumps({"definitions": definitions}))
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", []):
            # What kubeconform calls the group of the core's kinds is their version.
            place = folder / (kind["group"] or kind["version"])
            place.mkdir(exist_ok=True)
            schema = {"$ref": f"../definitions.json#/definitions/{name}"}
            (place / f"{kind['kind'].lower()}_{kind['version']}.json").write_text(json.dumps(schema))


def _strict(schema: Any) -> None:
    """No fields but those that are named, and numbers where Kubernetes takes numbers or texts."""
    if not isinstance(schema, dict):
        return
    if schema.get("format") in {"int-or-string", "quantity"} or schema.get("x-kubernetes-int-or-string"):
        schema.pop("type", None)
        schema.pop("format", None)
    if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema.setdefault("additionalProperties", False)
    for part in ("properties", "definitions"):
        for child in (schema.get(part) or {}).values():
            _strict(child)
    for part in ("items", "additionalProperties"):
        _strict(schema.get(part))


def test_what_the_configuration_opens_is_open_for_the_platform_too(tools: ManifestTools) -> None:
    done = helm(
        tools,
        "--set-string",
        r"configuration.TIELINE_EGRESS_ALLOWED=10.5.0.0/16\, fd00::1\,10.0.0.9\,shop.Acme.svc"
        r"\,*.svc.cluster.local\,*.corp.example",
        "--set-string",
        r"configuration.TIELINE_CLUSTER_DNS=dns\,169.254.169.254",
        "--set",
        "egress.kubernetesPorts={7443}",
        "--set-json",
        'egress.more=[{"ports":[{"port":9411}]}]',
    )
    assert done.returncode == 0, done.stderr
    policy = objects(done.stdout)["NetworkPolicy", NAMESPACE, "tieline-egress"]
    names, kubernetes, _engine, _flux, public, more = policy["spec"]["egress"]
    assert names["to"] == [_namespace("dns"), {"ipBlock": {"cidr": "169.254.169.254/32"}}]
    assert kubernetes == {"ports": [{"port": 7443, "protocol": "TCP"}]}
    assert public["to"][3:] == [
        {"ipBlock": {"cidr": "10.5.0.0/16"}},
        {"ipBlock": {"cidr": "fd00::1/128"}},
        {"ipBlock": {"cidr": "10.0.0.9/32"}},
        _namespace("acme"),
        {"namespaceSelector": {}},
    ]
    assert more == {"ports": [{"port": 9411}]}


@pytest.mark.parametrize(
    ("setting", "namespaces"),
    [("", ["monitoring"]), (r" \, ", ["monitoring"]), (r"prometheus\, agents", ["prometheus", "agents"])],
)
def test_metrics_of_the_platform_are_for_the_monitoring_namespaces_alone(
    tools: ManifestTools, setting: str, namespaces: list[str]
) -> None:
    done = helm(tools, "--set-string", f"configuration.TIELINE_METRICS_NAMESPACES={setting}")
    assert done.returncode == 0, done.stderr
    found = objects(done.stdout)
    for part in ("tieline-operator", "tieline-api"):
        rules = found["NetworkPolicy", NAMESPACE, part]["spec"]["ingress"]
        (rule,) = [one for one in rules if {"port": "metrics", "protocol": "TCP"} in one["ports"]]
        assert rule == {
            "from": [_namespace(name) for name in namespaces],
            "ports": [{"port": "metrics", "protocol": "TCP"}],
        }
    (port,) = found["Service", NAMESPACE, "tieline-api-internal"]["spec"]["ports"]
    assert port["name"] == "internal-tls"


def _namespace(name: str) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
