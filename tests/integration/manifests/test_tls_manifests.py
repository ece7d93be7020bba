"""TLS in the chart: what is served in each mode, and who makes the certificates."""

from __future__ import annotations

import pytest

from tests.harness.cluster.manifest_tools import ManifestTools
from tests.integration.manifests.test_engine_manifests import engine_pod, rendered
from tests.integration.manifests.test_manifests import NAMESPACE, Objects, tools
from tieline_operator.engine.keys import CERTIFICATES, CONFIG_FILE, TLS_CONFIG_FILES

__all__ = ["tools"]


def ports_of_pods(found: Objects) -> set[str]:
    """Where project pods may connect to the API: by the Service and by the NetworkPolicy."""
    service = found["Service", NAMESPACE, "tieline-api-internal"]["spec"]["ports"]
    rules = found["NetworkPolicy", NAMESPACE, "tieline-api"]["spec"]["ingress"]
    opened = {str(one["port"]) for one in rules[-1]["ports"]}
    assert opened == {port["targetPort"] for port in service}
    return opened


@pytest.mark.parametrize(
    ("mode", "ports", "scheme"),
    [
        ("required", {"internal-tls"}, "https"),
        ("optional", {"internal", "internal-tls"}, "https"),
        ("disabled", {"internal"}, "http"),
    ],
)
def test_each_mode_serves_what_it_says(tools: ManifestTools, mode: str, ports: set[str], scheme: str) -> None:
    found = rendered(tools, f"tls.mode={mode}")
    assert ports_of_pods(found) == ports
    data = found["ConfigMap", NAMESPACE, "tieline"]["data"]
    assert data["TIELINE_TLS"] == mode
    assert data["TIELINE_API_URL"].startswith(f"{scheme}://")
    assert data["TIELINE_ENGINE_URL"].startswith("nats://" if mode == "disabled" else "tls://")


def test_the_engine_starts_with_the_file_that_the_operator_writes_for_the_mode(tools: ManifestTools) -> None:
    for mode, file in TLS_CONFIG_FILES.items():
        pod = engine_pod(rendered(tools, f"tls.mode={mode}"))
        (container,) = pod["containers"]
        assert container["args"][1:] == [f"{CERTIFICATES}/tls.crt", "-c", f"/etc/tieline-engine/{file}"]
        (config,) = [one["secret"]["items"] for one in pod["volumes"] if one["name"] == "config"]
        assert [item["key"] for item in config] == [CONFIG_FILE, file]
        assert {"name": "tls", "mountPath": CERTIFICATES, "readOnly": True} in container["volumeMounts"]
    plain = engine_pod(rendered(tools, "tls.mode=disabled"))
    assert plain["containers"][0]["args"][-1] == f"/etc/tieline-engine/{CONFIG_FILE}"
    assert not [one for one in plain["volumes"] if one["name"] == "tls"]


def test_cert_manager_makes_the_certificates_of_an_issuer(tools: ManifestTools) -> None:
    found = rendered(tools, "tls.issuerRef.name=platform,tls.issuerRef.kind=ClusterIssuer")
    for name, service in (
        ("tieline-api-tls", "tieline-api-internal"),
        ("tieline-engine-tls", "tieline-engine"),
    ):
        spec = found["Certificate", NAMESPACE, name]["spec"]
        assert spec["secretName"] == name
        assert f"{service}.{NAMESPACE}.svc" in spec["dnsNames"]
        assert spec["issuerRef"] == {"name": "platform", "kind": "ClusterIssuer"}
    assert found["ConfigMap", NAMESPACE, "tieline"]["data"]["TIELINE_TLS_CERTIFICATES"] == "cert-manager"
    assert not [key for key in rendered(tools) if key[0] == "Certificate"]


def test_an_engine_of_others_is_verified_as_it_was(tools: ManifestTools) -> None:
    found = rendered(tools, "engine.external.url=tls://nats.example:4222,tls.issuerRef.name=platform")
    assert ("Certificate", NAMESPACE, "tieline-engine-tls") not in found
    (api,) = found["Deployment", NAMESPACE, "tieline-api"]["spec"]["template"]["spec"]["containers"]
    assert "TIELINE_ENGINE_CA_FILE" not in {one["name"] for one in api["env"]}
