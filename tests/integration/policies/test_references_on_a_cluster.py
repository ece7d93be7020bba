"""Who may not read a Secret or a ConfigMap cannot have the platform send or show it: the admission policies."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation
from tests.harness.inputs.reference_changes import CASES, Case, connection, key
from tests.harness.session import fast_yaml
from tests.unit.docs.doc_pages import page
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

Spec = dict[str, Any]
DIGEST = "0" * 64


class Someone:
    """A person with the role tieline-admin, and with rights on single objects of Kubernetes' own."""

    def __init__(self, kubectl: Kubectl, namespace: str, role: str = "tieline-admin") -> None:
        self.name = f"someone-{new_id().lower()}"
        self._kubectl = kubectl
        self._namespace = namespace
        self._bind("role", f"--clusterrole={role}")

    def may(self, verb: str, resource: str, *names: str, group: str = "") -> Someone:
        """Gets a right on all objects of a kind, or on those of these names."""
        rule: Spec = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": f"{self.name}-{verb}-{resource}"},
            "rules": [{**rule, "resourceNames": list(names)} if names else rule],
        }
        self._kubectl("create", "-f", "-", namespace=self._namespace, stdin=json.dumps(role))
        self._bind(f"{verb}-{resource}", f"--role={role['metadata']['name']}")
        return self

    def _bind(self, what: str, role: str) -> None:
        binding = f"{self.name}-{what}"
        self._kubectl(
            "create", "rolebinding", binding, role, f"--user={self.name}", namespace=self._namespace
        )

    def __call__(self, verb: str, manifest: Spec, *more: str) -> subprocess.CompletedProcess[str]:
        """What comes of ``kubectl create``, ``replace`` or ``apply``."""
        return self._kubectl(
            verb,
            *more,
            "-f",
            "-",
            f"--as={self.name}",
            namespace=self._namespace,
            stdin=json.dumps(manifest),
            check=False,
        )

    def tries(self, verb: str, manifest: Spec) -> str:
        """Why the API server refuses it; empty where it does not. Nothing is written."""
        done = self(verb, manifest, "--dry-run=server")
        assert done.returncode == 0 or "denied request" in done.stderr, done.stderr
        return done.stderr if done.returncode else ""


@pytest.fixture(scope="module")
def place(kubectl: Kubectl, policies_installed: None) -> Iterator[Organisation]:
    with an_organisation(kubectl) as made:
        yield made


@pytest.fixture(scope="module")
def someone(kubectl: Kubectl, place: Organisation) -> Someone:
    """Who may write everything of Tieline, and read no Secret and no ConfigMap."""
    return Someone(kubectl, place.namespace)


def resource(kind: str, spec: Spec, name: str | None = None) -> Spec:
    name = name or new_id().lower()
    return {"apiVersion": "tieline.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def changed(obj: Spec, spec: Spec) -> Spec:
    return {**obj, "spec": spec}


def a_list(items: list[Spec]) -> Spec:
    return {"apiVersion": "v1", "kind": "List", "items": items}


def project(*references: Spec, **more: Any) -> Spec:
    return {"name": "Orders", "source": {"configMaps": list(references)}, **more}


def version(*references: Spec) -> Spec:
    return {"projectRef": {"name": "orders"}, "digest": DIGEST, "configMaps": list(references)}


def connector(*references: Spec, **more: Any) -> Spec:
    return {"name": "Orders", "description": {"version": "1", "configMaps": list(references)}, **more}


def connector_version(*names: str) -> Spec:
    return {
        "connectorRef": {"name": "orders"},
        "name": "1",
        "format": "openapi",
        "digest": DIGEST,
        "configMaps": list(names),
    }


ONE, TWO = {"name": "one"}, {"name": "two"}
ITEM = {**ONE, "items": [{"key": "main.py", "path": "main.py"}]}
PART = {**ONE, "key": "openapi.json"}
MOUNTED: Spec = {
    "caBundle": {"name": "ca"},
    "volumes": [
        {"name": "rates", "configMap": {"name": "rates"}},
        {"name": "login", "secret": {"secretName": "login"}},
        {
            "name": "all",
            "projected": {"sources": [{"configMap": {"name": "rules"}}, {"secret": {"name": "login"}}]},
        },
    ],
}


_ROWS: list[tuple[str, Spec | None, Spec, set[str]]] = [
    ("Project", None, project(ONE, TWO), {"one", "two"}),
    ("Project", None, {"name": "Orders"}, set()),
    ("Project", None, {"name": "Orders", "source": {"files": []}}, set()),
    ("Project", project(ONE), project(ONE, labels={"team": "ops"}), set()),
    ("Project", project(ONE, TWO), project(TWO), set()),
    ("Project", project(ONE), project(ONE, TWO), {"two"}),
    ("Project", project(ITEM), project(ONE), {"one"}),
    ("Project", None, project(runtime=MOUNTED), {"ca", "rates", "rules"}),
    (
        "Project",
        None,
        project(environments=[{"name": "production", "runtime": MOUNTED}]),
        {"ca", "rates", "rules"},
    ),
    ("Project", project(runtime=MOUNTED), project(runtime={**MOUNTED, "replicas": 2}), set()),
    (
        "Project",
        project(runtime=MOUNTED),
        project(environments=[{"name": "test", "runtime": MOUNTED}]),
        set(),
    ),
    ("Project", project(runtime=MOUNTED), project(ONE, runtime=MOUNTED), {"one"}),
    ("Project", project(runtime={"caBundle": ONE}), project(runtime={"caBundle": TWO}), {"two"}),
    (
        "Project",
        None,
        project(runtime={"volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Mi"}}]}),
        set(),
    ),
    ("ProjectVersion", None, version(ONE), {"one"}),
    ("Connector", None, connector(PART), {"one"}),
    ("Connector", None, {"name": "Orders"}, set()),
    ("Connector", connector(PART), connector(PART, public=True), set()),
    ("Connector", connector(PART), connector({**PART, "key": "other"}), {"one"}),
    ("ConnectorVersion", None, connector_version("one", "two"), {"one", "two"}),
]


def pulling(name: str = "Orders", *, project: str = "pull", environment: str = "more") -> Spec:
    """A project that pulls its image with two Secrets, one of them in a single environment."""
    runtime = {"imagePullSecrets": [{"name": environment}]}
    return {
        "name": name,
        "runtime": {"imagePullSecrets": [{"name": project}]},
        "environments": [{"name": "staging"}, {"name": "production", "runtime": runtime}],
    }


_PULLS: list[tuple[Spec | None, Spec, set[str]]] = [
    (None, pulling(), {"pull", "more"}),
    (pulling(), pulling("Another"), set()),
    (pulling(), pulling(project="other"), {"other"}),
    (pulling(), pulling(environment="other"), {"other"}),
    (pulling(), pulling(environment="pull"), set()),
]
PULL_CASES = [
    Case(id=f"pulling-{number}", kind="Project", before=before, after=after, sent=frozenset(used))
    for number, (before, after, used) in enumerate(_PULLS)
]


def mail(host: str = "smtp.example", secret: str = "smtp") -> Spec:
    email = {"host": host, "from": "t@a.example", "to": ["o@a.example"], "username": "t"}
    return {"name": "Mail", "type": "email", "email": {**email, "secretRef": {"name": secret}}}


def hook(url: str = "https://hooks.example", secret: str = "signing") -> Spec:
    return {"name": "Hook", "type": "webhook", "webhook": {"url": url, "secretRef": {"name": secret}}}


_CHANNELS: list[tuple[Spec | None, Spec, set[str]]] = [
    (None, mail(), {"smtp"}),
    (None, hook(), {"signing"}),
    (None, {"name": "Slack", "type": "slack", "slack": {"secretRef": {"name": "slack"}}}, {"slack"}),
    (mail(), {**mail(), "name": "Another"}, set()),
    (mail(), mail(host="evil.example"), {"smtp"}),
    (mail(), mail(secret="login"), {"login"}),
    (hook(), hook(url="https://evil.example"), {"signing"}),
]
CHANNEL_CASES = [
    Case(id=f"channel-{number}", kind="NotificationChannel", before=before, after=after, sent=frozenset(used))
    for number, (before, after, used) in enumerate(_CHANNELS)
]
CONFIG_MAP_CASES = [
    Case(id=f"{kind}-{number}", kind=kind, before=before, after=after, sent=frozenset(shown))
    for number, (kind, before, after, shown) in enumerate(_ROWS)
]
EVERY_CASE = (*CASES, *PULL_CASES, *CHANNEL_CASES, *CONFIG_MAP_CASES)


@pytest.fixture(scope="module")
def refusals(kubectl: Kubectl, place: Organisation, someone: Someone) -> dict[str, str]:
    """Why each case is refused to who may read no Secret and no ConfigMap, by its id; all in three commands."""
    names = {case.id: new_id().lower() for case in EVERY_CASE}
    cases = {names[case.id]: case for case in EVERY_CASE}
    before = [resource(case.kind, case.before, name) for name, case in cases.items() if case.before]
    command = ("create", "-f", "-", "-o", "yaml")
    made = kubectl(*command, namespace=place.namespace, stdin=json.dumps(a_list(before)))
    replaced = [changed(obj, cases[obj["metadata"]["name"]].after) for obj in fast_yaml.load_all(made.stdout)]
    created = [resource(case.kind, case.after, name) for name, case in cases.items() if not case.before]
    told = [
        *someone("create", a_list(created), "--dry-run=server").stderr.splitlines(),
        *someone("replace", a_list(replaced), "--dry-run=server").stderr.splitlines(),
    ]
    lines = [line for line in told if line.startswith("Error")]
    assert all("denied request" in line for line in lines), lines
    found = {
        case: [line for line in lines if f'"{name}" is forbidden' in line] for case, name in names.items()
    }
    assert sum(map(len, found.values())) == len(lines)
    return {case: "".join(of_it) for case, of_it in found.items()}


@pytest.mark.parametrize("case", [*CASES, *PULL_CASES, *CHANNEL_CASES], ids=lambda case: case.id)
def test_a_change_that_sends_a_secret_elsewhere_is_refused_to_who_may_not_read_it(
    refusals: dict[str, str], case: Case
) -> None:
    told = refusals[case.id]
    assert bool(told) is bool(case.sent), told
    if told:
        names = told.partition("in the Secrets ")[2].partition(":")[0]
        assert set(names.split(", ")) == case.sent
        assert "the permission to get or use each of them in the namespace" in told
        assert "Ask for a Role with the verb get or use on these secrets" in told
        assert "Forbidden" in told


@pytest.mark.parametrize("case", CONFIG_MAP_CASES, ids=lambda case: case.id)
def test_a_reference_to_a_config_map_is_refused_to_who_may_not_read_it(
    refusals: dict[str, str], case: Case
) -> None:
    told = refusals[case.id]
    assert bool(told) is bool(case.sent), told
    if told:
        assert set(told.partition("in the ConfigMaps ")[2].partition(":")[0].split(", ")) == case.sent
        assert "Ask for a Role with the verb get or use on these configmaps" in told


@pytest.mark.parametrize("verb", ["get", "use"])
@pytest.mark.parametrize("named", [True, False], ids=["by name", "all"])
def test_who_may_get_or_use_them_may_refer_to_them(
    kubectl: Kubectl, place: Organisation, verb: str, named: bool
) -> None:
    names = [f"s{number}" for number in range(12)] if named else []
    able = Someone(kubectl, place.namespace).may(verb, "secrets", *names).may(verb, "configmaps", *names)
    keys = [key(f"k{number}", f"s{number}") for number in range(12)]
    maps = [{"name": f"s{number}"} for number in range(12)]
    assert able.tries("create", resource("Connection", connection(*keys))) == ""
    assert able.tries("create", resource("Project", project(*maps))) == ""
    more, another = key("k12", "s12"), {"name": "s12"}
    told = able.tries("create", resource("Connection", connection(*keys[1:], more)))
    assert ("s12:" in told) is named
    told = able.tries("create", resource("Connection", connection(*keys, more)))
    assert ("More than 12 at once" in told) is named
    told = able.tries("create", resource("Project", project(*maps[1:], another)))
    assert ("s12:" in told) is named


def of_flux(kind: str = "GitRepository", name: str = "shop", **more: str) -> Spec:
    return {"name": "Orders", "source": {"sourceRef": {"kind": kind, "name": name, **more}}}


@pytest.mark.parametrize("verb", ["get", "use"])
@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("GitRepository", "gitrepositories"),
        ("OCIRepository", "ocirepositories"),
        ("Bucket", "buckets"),
        ("ExternalArtifact", "externalartifacts"),
    ],
)
def test_who_may_not_get_or_use_a_source_of_flux_has_no_project_show_it(
    kubectl: Kubectl, place: Organisation, someone: Someone, verb: str, kind: str, plural: str
) -> None:
    new = resource("Project", of_flux(kind))
    told = someone.tries("create", new)
    assert f"This shows what is in the {kind} shop" in told
    assert f"these {plural}.source.toolkit.fluxcd.io" in told
    able = Someone(kubectl, place.namespace).may(verb, plural, "shop", group="source.toolkit.fluxcd.io")
    assert able.tries("create", new) == ""
    assert "shows what is in" in able.tries("create", resource("Project", of_flux(kind, "other")))
    able("create", new)
    assert someone.tries("replace", changed(new, {**of_flux(kind), "name": "Orders of the shop"})) == ""
    assert "shows what is in" in someone.tries("replace", changed(new, of_flux(kind, path="secret")))
    assert someone.tries("replace", changed(new, {"name": "Orders"})) == ""


def test_the_pages_role_lets_a_pipeline_use_a_secret_that_it_may_not_read(
    kubectl: Kubectl, place: Organisation
) -> None:
    roles = [one for one in page("docs/security.md").blocks("yaml") if one.mark == "role"]
    (block,) = [one for one in roles if "shop-api-key" in one.text]
    pipeline = Someone(kubectl, place.namespace, role="tieline-editor")
    manifest = block.text.replace("namespace: acme", f"namespace: {place.namespace}")
    kubectl("apply", "-f", "-", stdin=manifest.replace("name: pipeline", f"name: {pipeline.name}"))
    shop = resource("Connection", connection(key(secret="shop-api-key")))
    assert pipeline.tries("create", shop) == ""
    assert "another" in pipeline.tries("create", resource("Connection", connection(key(secret="another"))))
    asked = ("auth", "can-i", "get", "secrets/shop-api-key", f"--as={pipeline.name}")
    assert kubectl(*asked, namespace=place.namespace, check=False).stdout.strip() == "no"


def test_as_many_references_as_an_object_can_have_are_decided(
    kubectl: Kubectl, place: Organisation, someone: Someone
) -> None:
    """Kubernetes bounds what a policy may cost: it must not fail for the largest objects."""
    able = Someone(kubectl, place.namespace).may("get", "secrets").may("get", "configmaps")
    keys = [key(f"k{number}", f"s{number}-{'x' * 200}") for number in range(16)]
    maps = [
        {
            "name": f"m{number}-{'x' * 200}",
            "items": [{"key": f"k{one}", "path": f"p{one}"} for one in range(20)],
        }
        for number in range(64)
    ]
    live = [
        json.loads(able("create", resource(kind, spec), "-o", "json").stdout)
        for kind, spec in (("Connection", connection(*keys)), ("Project", project(*maps)))
    ]
    others = [
        connection(*({**one, "type": "binary"} for one in keys), baseUrl="https://x.example"),
        project(*({"name": one["name"]} for one in maps)),
    ]
    results = [f"r{number}-{'x' * 200}" for number in range(256)]
    made = resource("ConnectorVersion", connector_version(*results))
    assert able.tries("create", made) == ""
    assert "More than 12 at once" in someone.tries("create", made)
    for obj, other in zip(live, others, strict=True):
        assert someone.tries("replace", obj) == ""
        assert able.tries("replace", changed(obj, other)) == ""
        assert "More than 12 at once" in someone.tries("replace", changed(obj, other))


def test_an_account_without_rights_on_secrets_applies_again_what_is_there(
    kubectl: Kubectl, place: Organisation, someone: Someone
) -> None:
    """As GitOps tools do, with client-side and with server-side apply, and after the policies came."""
    objects = [
        resource("Connection", connection(key())),
        resource("Project", project(ONE, environments=[{"name": "production", "version": "latest"}])),
    ]
    administrator = Someone(kubectl, place.namespace).may("get", "secrets").may("get", "configmaps")
    for obj in objects:
        for way in ([], ["--server-side", "--field-manager=flux", "--force-conflicts"]):
            for who in (administrator, someone):
                done = who("apply", obj, *way)
                assert done.returncode == 0, done.stderr
        obj["metadata"]["labels"] = {"team": "ops"}
        obj["spec"]["name"] = "Another name"
        done = someone("apply", obj)
        assert done.returncode == 0, done.stderr
        name = obj["metadata"]["name"]
        status = f"--patch={json.dumps({'status': {'observedGeneration': 1}})}"
        patch = ("patch", obj["kind"], name, "--subresource=status", "--type=merge", status)
        kubectl(*patch, namespace=place.namespace)
    objects[0]["spec"]["baseUrl"] = "https://elsewhere.example"
    done = someone("apply", objects[0])
    assert "shop-key: this needs the permission to get or use" in done.stderr
    assert administrator("apply", objects[0]).returncode == 0
