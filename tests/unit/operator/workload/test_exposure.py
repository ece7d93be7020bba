"""Environments beyond the cluster's addresses: what the administrator may say, and what is made of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.session import fast_yaml
from tests.unit.docs.doc_pages import page
from tests.unit.operator.objects import project
from tests.unit.operator.project_fixtures import change, reconciling, running
from tests.unit.operator.reconcile_loop import CONFIG, ReconcileLoop
from tieline_core.environment_settings import SettingsError
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes import resources as r
from tieline_operator.config import Config
from tieline_operator.workload.exposure import Exposure, ExposureMode, Gateway

NEEDED = {
    "TIELINE_RUNTIME_IMAGE": "runtime:1",
    "TIELINE_API_URL": "http://api",
    "TIELINE_ENGINE_URL": "nats://engine",
}
URL = "TIELINE_PUBLIC_URL_TEMPLATE"
GATEWAY = Gateway("infra", "edge")


def told(mode: str, url: str, **more: str) -> Exposure:
    return Config.from_environment({**NEEDED, "TIELINE_EXPOSE": mode, URL: url, **more}).exposure


def exposed(template: str = "https://{name}.{namespace}.hooks.example", **exposure: Any) -> Config:
    return CONFIG.model_copy(update={"public_url_template": template, "exposure": Exposure(**exposure)})


def only(there: ReconcileLoop, resource: Resource) -> dict[str, Any]:
    (found,) = there.cluster[resource].list()
    return found


@pytest.mark.parametrize(
    ("mode", "url", "more", "said"),
    [
        (
            "proxy",
            "https://{name}.{namespace}.x",
            {},
            "TIELINE_EXPOSE must be one of none, ingress, httproute",
        ),
        ("ingress", "http://{clusterIP}", {}, "not to {clusterIP}"),
        ("ingress", "https://{name}.hooks.example", {}, "different namespaces apart"),
        ("ingress", "https://{namespace}.x/{name}", {}, "no path"),
        ("httproute", "https://{name}.{namespace}.x", {}, "TIELINE_GATEWAY is not set"),
        ("httproute", "https://{name}.{namespace}.x", {"TIELINE_GATEWAY": "edge"}, "namespace/name"),
        ("httproute", "https://{name}.{namespace}.x", {"TIELINE_GATEWAY": "a/b/c/d"}, "namespace/name"),
        ("none", "http://x", {"TIELINE_EXPOSE_ANNOTATIONS": "a=b"}, "JSON object"),
        ("none", "http://x", {"TIELINE_INGRESS_TLS_SECRET": "{host}-tls"}, "unknown placeholders"),
    ],
)
def test_what_could_not_work_is_refused_at_the_start(
    mode: str, url: str, more: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingsError) as error:
        told(mode, url, **more)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("mode", "url", "more"),
    [
        ("ingress", "https://{name}.{namespace}.hooks.example", {}),
        ("ingress", "http://{environmentId}.hooks.example:8080", {}),
        ("ingress", "https://{environment}.{project}.{namespace}.hooks.example/", {}),
        ("ingress", "https://{name}.hooks.example", {"TIELINE_NAMESPACES": "acme"}),
        ("httproute", "https://hooks.example/{namespace}/{name}", {"TIELINE_GATEWAY": "infra/edge"}),
    ],
)
def test_templates_that_tell_environments_apart_are_taken(mode: str, url: str, more: dict[str, str]) -> None:
    assert told(mode, url, **more).mode == mode


def test_a_gateway_may_be_told_with_one_of_its_listeners() -> None:
    found = told("httproute", "https://{environmentId}.x", TIELINE_GATEWAY="infra/edge/https")
    assert found.gateway == Gateway("infra", "edge", "https")


def test_the_pages_settings_are_taken() -> None:
    (values,) = [
        block.text for block in page("docs/configuration.md").blocks("yaml") if block.mark == "exposed"
    ]
    config = Config.from_environment({**NEEDED, **fast_yaml.load(values)["configuration"]})
    assert config.exposure.mode is ExposureMode.INGRESS
    assert config.exposure.annotations


async def test_environments_have_no_entrance_where_none_is_asked_for() -> None:
    there = await running()
    assert there.cluster[r.INGRESSES].list() == there.cluster[r.HTTP_ROUTES].list() == []


async def test_an_ingress_leads_from_the_public_urls_host_to_the_environment() -> None:
    there = reconciling(
        project(),
        config=exposed(
            mode=ExposureMode.INGRESS,
            ingress_class="nginx",
            tls_secret="{name}-tls",
            annotations={"cert-manager.io/cluster-issuer": "letsencrypt"},
        ),
    )
    await there.until_quiet()
    ingress = only(there, r.INGRESSES)
    name = only(there, r.SERVICES)["metadata"]["name"]
    host = f"{name}.acme.hooks.example"
    assert there.environment()["publicUrl"] == f"https://{host}"
    assert ingress["spec"] == {
        "ingressClassName": "nginx",
        "tls": [{"hosts": [host], "secretName": f"{name}-tls"}],
        "rules": [
            {
                "host": host,
                "http": {
                    "paths": [
                        {
                            "path": "/",
                            "pathType": "Prefix",
                            "backend": {"service": {"name": name, "port": {"number": 80}}},
                        }
                    ]
                },
            }
        ],
    }
    metadata = ingress["metadata"]
    assert metadata["ownerReferences"][0]["kind"] == "Project"
    assert metadata["annotations"]["cert-manager.io/cluster-issuer"] == "letsencrypt"
    assert there.cluster[r.HTTP_ROUTES].list() == []


async def test_an_https_url_without_a_secret_leaves_the_certificate_to_the_controller() -> None:
    there = reconciling(project(), config=exposed(mode=ExposureMode.INGRESS))
    await there.until_quiet()
    (tls,) = only(there, r.INGRESSES)["spec"]["tls"]
    assert set(tls) == {"hosts"}


async def test_an_id_in_a_host_is_in_lower_case_in_the_public_url_too() -> None:
    there = reconciling(
        project(), config=exposed("http://{environmentId}.hooks.example", mode=ExposureMode.INGRESS)
    )
    await there.until_quiet()
    environment = there.environment()
    host = f"{environment['id'].lower()}.hooks.example"
    assert environment["publicUrl"] == f"http://{host}"
    spec = only(there, r.INGRESSES)["spec"]
    assert spec["rules"][0]["host"] == host
    assert "tls" not in spec


async def test_a_route_takes_the_public_urls_path_off_before_the_environment_sees_it() -> None:
    template = "https://hooks.example/{namespace}/{project}/{environment}"
    there = reconciling(project(), config=exposed(template, mode=ExposureMode.HTTP_ROUTE, gateway=GATEWAY))
    await there.until_quiet()
    spec = only(there, r.HTTP_ROUTES)["spec"]
    assert spec["parentRefs"] == [{"namespace": "infra", "name": "edge"}]
    assert spec["hostnames"] == ["hooks.example"]
    (rule,) = spec["rules"]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/acme/order-sync/production"}}]
    assert rule["filters"][0]["urlRewrite"]["path"]["replacePrefixMatch"] == "/"
    assert rule["backendRefs"] == [{"name": only(there, r.SERVICES)["metadata"]["name"], "port": 80}]


async def test_an_entrance_outlives_a_suspension_and_goes_when_it_is_switched_off() -> None:
    there = await running(config=exposed(mode=ExposureMode.INGRESS))
    before = only(there, r.INGRESSES)
    change(there, environments=[{"name": "production", "version": "latest", "suspended": True}])
    await there.until_quiet()
    there.kubelet()
    await there.until_quiet()
    assert there.environment()["status"] == "suspended"
    assert only(there, r.INGRESSES) == before

    route = exposed(mode=ExposureMode.HTTP_ROUTE, gateway=GATEWAY)
    await ReconcileLoop(there.cluster, config=route).until_quiet()
    assert there.cluster[r.INGRESSES].list() == []
    assert only(there, r.HTTP_ROUTES)
    await ReconcileLoop(there.cluster).until_quiet()
    assert there.cluster[r.INGRESSES].list() == there.cluster[r.HTTP_ROUTES].list() == []


async def test_an_entrance_goes_with_its_environment() -> None:
    there = await running(config=exposed(mode=ExposureMode.INGRESS))
    change(there, environments=[{"name": "staging"}])
    await there.until_quiet()
    assert there.cluster[r.INGRESSES].list() == []


async def test_metrics_are_open_to_the_namespaces_that_are_named_alone() -> None:
    there = reconciling(project(), config=CONFIG.model_copy(update={"metrics_namespaces": ("monitoring",)}))
    await there.until_quiet()
    webhooks, metrics = only(there, r.NETWORK_POLICIES)["spec"]["ingress"]
    assert webhooks == {"ports": [{"port": 8080, "protocol": "TCP"}]}
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert metrics == {"from": [monitoring], "ports": [{"port": 8081, "protocol": "TCP"}]}
    there = await running()
    assert only(there, r.NETWORK_POLICIES)["spec"]["ingress"] == [webhooks]
