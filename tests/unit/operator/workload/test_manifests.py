"""The manifests of an environment: what runs, as whom, and with what it is told."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from tieline_core.resources.projects import FilesConfigMap, KeyToPath, Runtime
from tieline_operator.workload import manifests
from tieline_operator.workload.inputs import Workload, merged_runtime
from tieline_protocol.egress import Egress


def workload(**changes: Any) -> Workload:
    values = {
        "name": "order-sync-production-abc123",
        "namespace": "acme",
        "owner": {"kind": "Project", "name": "order-sync", "uid": "u"},
        "organisation_id": "ORG",
        "project": "order-sync",
        "project_id": "PRJ",
        "environment": "production",
        "environment_id": "ENV",
        "runtime": Runtime(),
        "image": "runtime:1",
        "replicas": 1,
        "api_url": "http://api",
        "engine_urls": ("nats://tieline-engine.tieline-system.svc:4222",),
        "public_url": "http://10.0.0.1",
    }
    return Workload(**{**values, **changes})


def pod_template(version: str = "v1", **changes: Any) -> dict[str, Any]:
    maps = [FilesConfigMap(name="files", items=[KeyToPath(key="shop__a.py", path="shop/a.py")])]
    manifest = manifests.deployment(workload(**changes), version=version, config_maps=maps)
    template: dict[str, Any] = manifest["spec"]["template"]
    return template


def resources(**told: Any) -> dict[str, Any]:
    template = pod_template(runtime=Runtime.model_validate({"resources": told}))
    found: dict[str, Any] = template["spec"]["containers"][0]["resources"]
    return found


def test_the_pod_is_told_who_it_is_and_nothing_secret() -> None:
    (container,) = pod_template()["spec"]["containers"]
    assert {item["name"]: item["value"] for item in container["env"]} == {
        "TIELINE_CODE_DIR": "/app/code",
        "TIELINE_API_URL": "http://api",
        "TIELINE_TOKEN_FILE": "/var/run/secrets/tieline/token",
        "TIELINE_ORGANISATION_ID": "ORG",
        "TIELINE_PROJECT_ID": "PRJ",
        "TIELINE_PROJECT_NAME": "order-sync",
        "TIELINE_ENVIRONMENT_ID": "ENV",
        "TIELINE_ENVIRONMENT": "production",
        "TIELINE_VERSION": "v1",
        "TIELINE_PUBLIC_URL": "http://10.0.0.1",
        "TIELINE_ENGINE_URL": "nats://tieline-engine.tieline-system.svc:4222",
        "TIELINE_ENGINE_CREDENTIALS_FILE": "/var/run/secrets/tieline-engine/engine.creds",
        "TIELINE_EGRESS_ALLOWED": "",
        "TIELINE_EGRESS_DENIED": "",
    }


def test_the_files_and_a_token_of_our_own_audience_are_mounted() -> None:
    volumes = {volume["name"]: volume for volume in pod_template()["spec"]["volumes"]}
    (source,) = volumes["code"]["projected"]["sources"]
    assert source["configMap"] == {"name": "files", "items": [{"key": "shop__a.py", "path": "shop/a.py"}]}
    (token,) = volumes["token"]["projected"]["sources"]
    assert token["serviceAccountToken"]["audience"] == "tieline"


def test_a_rollout_never_takes_away_what_serves() -> None:
    manifest = manifests.deployment(workload(), version="v1", config_maps=[])
    assert manifest["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert manifest["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]


def test_the_selector_is_the_same_for_every_version_and_id() -> None:
    one = manifests.deployment(workload(), version="v1", config_maps=[])
    other = manifests.deployment(workload(environment_id="NEW"), version="v2", config_maps=[])
    assert one["spec"]["selector"] == other["spec"]["selector"]
    assert (
        one["spec"]["selector"]["matchLabels"].items()
        <= one["spec"]["template"]["metadata"]["labels"].items()
    )


def test_another_version_or_image_is_another_revision_and_another_size_is_not() -> None:
    def revision(template: dict[str, Any]) -> str:
        found: str = template["metadata"]["annotations"]["tieline.dev/revision"]
        return found

    assert revision(pod_template()) == revision(pod_template(replicas=5))
    assert len({revision(t) for t in (pod_template(), pod_template("v2"), pod_template(image="x"))}) == 3


@pytest.mark.parametrize(
    ("told", "requests", "limits"),
    [
        ({}, {"cpu": "50m", "memory": "96Mi"}, {"memory": "512Mi"}),
        ({"limits": {"memory": "64Mi"}}, {"cpu": "50m", "memory": "64Mi"}, {"memory": "64Mi"}),
        ({"requests": {"memory": "1Gi"}}, {"cpu": "50m", "memory": "1Gi"}, {"memory": "1Gi"}),
        ({"limits": {"cpu": "20m"}}, {"cpu": "20m", "memory": "96Mi"}, {"cpu": "20m", "memory": "512Mi"}),
        ({"requests": {"cpu": 2}}, {"cpu": "2", "memory": "96Mi"}, {"memory": "512Mi"}),
    ],
)
def test_defaults_give_way_where_they_would_contradict(told: Any, requests: Any, limits: Any) -> None:
    assert resources(**told) == {"requests": requests, "limits": limits}


def test_images_are_pulled_with_the_projects_secrets_and_the_platforms() -> None:
    assert "imagePullSecrets" not in pod_template()["spec"]
    own = Runtime.model_validate({"imagePullSecrets": [{"name": "own"}, {"name": "shared"}]})
    spec = pod_template(runtime=own, pull_secrets=("shared", "registry"))["spec"]
    assert spec["imagePullSecrets"] == [{"name": "own"}, {"name": "shared"}, {"name": "registry"}]


def test_variables_reach_the_pods_as_they_are_and_never_in_place_of_the_platforms() -> None:
    given = {
        "LOG_LEVEL": "debug",
        "PRICE": "5$",
        "TEXT": "$(LOG_LEVEL) $$ $",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://a",
    }
    own = Runtime.model_validate({"env": [{"name": name, "value": value} for name, value in given.items()]})
    (container,) = pod_template(runtime=own, otlp_endpoint="http://collector")["spec"]["containers"]
    names = [one["name"] for one in container["env"]]
    assert len(names) == len(set(names))
    env = {one["name"]: one["value"] for one in container["env"]}
    # What Kubernetes makes of it: https://kubernetes.io/docs/reference/kubernetes-api (EnvVar).
    assert {name: env[name] for name in ("LOG_LEVEL", "PRICE", "TEXT")} == {
        "LOG_LEVEL": "debug",
        "PRICE": "5$$",
        "TEXT": "$$(LOG_LEVEL) $$$$ $$",
    }
    assert env["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector"


def test_variables_of_an_environment_are_merged_by_name() -> None:
    base = Runtime.model_validate({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]})
    over = Runtime.model_validate({"env": [{"name": "B", "value": "2"}, {"name": "C", "value": "3"}]})
    merged = merged_runtime(base, over)
    assert [(one.name, one.value) for one in merged.env or ()] == [("A", "1"), ("B", "2"), ("C", "3")]


def test_an_environment_overrides_the_runtime_field_by_field() -> None:
    base = Runtime.model_validate(
        {"replicas": 3, "image": "a", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    )
    over = Runtime.model_validate({"image": "b", "resources": {"limits": {"cpu": "2"}}})
    assert merged_runtime(base, over).to_dict() == {
        "replicas": 3,
        "image": "b",
        "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
    }


API_PODS = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "tieline-system"}},
    "podSelector": {"matchLabels": {"app.kubernetes.io/name": "tieline-api"}},
}


@pytest.mark.parametrize("suffix", ["", ".svc", ".svc.cluster.local"])
def test_pods_reach_the_ports_of_the_api_that_they_ask_and_no_other_of_the_platform(suffix: str) -> None:
    url = f"http://tieline-api-internal.tieline-system{suffix}"
    changes: dict[str, Any] = {"api_url": url, "otlp_endpoint": url}
    _, others, api, _ = manifests.network_policy(workload(**changes))["spec"]["egress"]
    assert all("ipBlock" in peer for peer in others["to"])
    assert api == {"to": [API_PODS], "ports": [{"port": 8081, "protocol": "TCP"}]}
    changes |= {"api_ports": {"tieline-api-internal": (9001, 9443), "tieline-api": (9000,)}}
    *_, api, _ = manifests.network_policy(workload(**changes))["spec"]["egress"]
    assert [one["port"] for one in api["ports"]] == [9001, 9443]


def test_a_service_of_the_administrators_own_in_front_of_the_api_is_reached_as_before() -> None:
    _, others, _ = manifests.network_policy(workload(api_url="http://gateway.mesh.svc"))["spec"]["egress"]
    assert others["to"][-1] == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "mesh"}}}


def test_pods_may_call_the_world_and_nothing_inside_but_names_and_the_api() -> None:
    changes = {
        "api_url": "http://tieline-api.tieline-system.svc",
        "otlp_endpoint": "http://collector.traces:4318",
    }
    spec = manifests.network_policy(workload(**changes))["spec"]
    names, others, api, engine = spec["egress"]
    assert {item["port"] for item in names["ports"]} == {53, 5353}
    assert names["to"] == [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-dns"}}},
        {"ipBlock": {"cidr": "169.254.0.0/16"}},
    ]
    v4, v6, nat64, collector = others["to"]
    assert collector == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "traces"}}}
    assert {"10.0.0.0/8", "169.254.0.0/16", "127.0.0.0/8", "192.0.2.0/24"} < set(v4["ipBlock"]["except"])
    assert v6["ipBlock"]["cidr"] == "2000::/3", "no unique local, site-local, mapped or other special ones"
    assert {"2001::/23", "2002::/16"} < set(v6["ipBlock"]["except"])
    assert nat64["ipBlock"]["cidr"] == "64:ff9b::/96"
    assert "64:ff9b::a00:0/104" in nat64["ipBlock"]["except"], "10.0.0.0/8, translated"
    assert api == {"to": [API_PODS], "ports": [{"port": 8080, "protocol": "TCP"}]}
    assert engine["ports"] == [{"port": 4222, "protocol": "TCP"}]
    assert spec["ingress"] == [{"ports": [{"port": 8080, "protocol": "TCP"}]}]


def test_an_administrator_may_close_everything_that_is_public() -> None:
    egress = Egress.parse(allowed=["10.5.0.0/16"], denied=["0.0.0.0/0", "::/0"])
    spec = manifests.network_policy(workload(egress=egress, api_url="http://10.0.0.9"))["spec"]
    assert [peer["ipBlock"]["cidr"] for peer in spec["egress"][1]["to"]] == ["10.5.0.0/16", "10.0.0.9/32"]


def test_pods_ask_the_name_servers_that_the_administrator_names() -> None:
    found = workload(cluster_dns=("dns", "169.254.169.254/32"))
    names, *_ = manifests.network_policy(found)["spec"]["egress"]
    assert names["to"] == [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "dns"}}},
        {"ipBlock": {"cidr": "169.254.169.254/32"}},
    ]


ADDRESSES = [
    "8.8.8.8",
    "10.5.0.1",
    "10.5.9.1",
    "10.5.9.9",
    "9.9.9.9",
    "9.9.10.1",
    "192.0.2.1",
    "168.63.129.16",
    "2606:4700::1111",
    "2002:808:808::1",
    "fec0::1",
    "fd00::1",
    "fd00:9::1",
    "::8.8.8.8",
    "64:ff9b::808:808",
    "64:ff9b::909:909",
    "64:ff9b::c000:201",
    "64:ff9b:1::808:808",
]


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    "egress",
    [
        Egress(),
        Egress.parse(
            allowed=["10.5.0.0/16", "10.5.9.9/32", "fd00::/8"],
            denied=["9.9.9.0/24", "10.5.9.0/24", "fd00:9::/32"],
        ),
        Egress.parse(allowed=["9.9.9.9/32"], denied=["0.0.0.0/0", "::/0"]),
    ],
    ids=["public", "some", "none"],
)
def test_the_policy_says_of_each_address_what_the_runtime_says(egress: Egress, address: str) -> None:
    """Except that the runtime takes a translated address for the one that it stands for."""
    _, others, _ = manifests.network_policy(workload(egress=egress))["spec"]["egress"]
    blocks = [peer["ipBlock"] for peer in others["to"] if "ipBlock" in peer]
    wanted = ip_address(address)
    opened = any(
        wanted in ip_network(block["cidr"])
        and not any(wanted in ip_network(one) for one in block.get("except", ()))
        for block in blocks
    )
    translated_and_opened = address == "64:ff9b::909:909" and egress.is_allowed("9.9.9.9")
    assert opened == (egress.permits(address) and not translated_and_opened)


def test_pods_may_go_where_the_administrator_allows() -> None:
    egress = Egress.parse(
        allowed=["10.5.0.0/16", "fd00::/8", "shop.acme.svc", "*.svc.cluster.local", "wiki.corp.example"],
        denied=["9.9.9.0/24"],
    )
    spec = manifests.network_policy(workload(egress=egress, api_url="http://10.0.0.9:8080"))["spec"]
    v4, _, _, *opened = spec["egress"][1]["to"]
    assert "9.9.9.0/24" in v4["ipBlock"]["except"]
    assert opened == [
        {"ipBlock": {"cidr": "10.5.0.0/16"}},
        {"ipBlock": {"cidr": "fd00::/8"}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "acme"}}},
        {"namespaceSelector": {}},
        {"ipBlock": {"cidr": "10.0.0.9/32"}},
    ]
    (container,) = pod_template(egress=egress)["spec"]["containers"]
    told = {item["name"]: item["value"] for item in container["env"]}
    assert Egress.from_environment(told) == egress


def test_a_collector_of_ones_own_is_told_in_opentelemetrys_words() -> None:
    def endpoint(**changes: Any) -> str | None:
        (container,) = pod_template(**changes)["spec"]["containers"]
        told = {item["name"]: item["value"] for item in container["env"]}
        return told.get("OTEL_EXPORTER_OTLP_ENDPOINT")

    assert endpoint() is None
    assert endpoint(otlp_endpoint="http://collector:4318") == "http://collector:4318"


def test_pods_verify_api_and_engine_by_the_authorities_of_their_organisation() -> None:
    template = pod_template(tls=True, engine_by_tls=True, packages_image="runtime:1")
    (volume,) = [one for one in template["spec"]["volumes"] if one["name"] == "tieline-ca"]
    items = [{"key": "ca.crt", "path": "ca.crt"}]
    assert volume["configMap"] == {"name": "tieline-ca", "items": items}, "not optional: the pod waits for it"
    (container,) = template["spec"]["containers"]
    variables = {one["name"]: one.get("value") for one in container["env"]}
    mounts = {one["mountPath"] for one in container["volumeMounts"]}
    for name in ("TIELINE_API_CA_FILE", "TIELINE_ENGINE_CA_FILE"):
        folder, _, file = str(variables[name]).rpartition("/")
        assert folder in mounts
        assert file == "ca.crt"


def test_with_an_engine_of_others_pods_verify_the_api_alone_by_them() -> None:
    (container,) = pod_template(tls=True)["spec"]["containers"]
    names = {one["name"] for one in container["env"]}
    assert "TIELINE_API_CA_FILE" in names
    assert "TIELINE_ENGINE_CA_FILE" not in names
