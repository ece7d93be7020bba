"""What is asked of Docker and kind, told by two programs in their place that write down how they are called."""

from pathlib import Path

import pytest

from tieline_cluster.errors import ClusterError
from tieline_cluster.kind import Kind
from tieline_cluster.progress import Progress

DOCKER = """#!/bin/sh
echo "docker $*" >> {calls}
case "$1" in info) echo 27.0;; build) echo sha256:abcdef0123456789;; ps) echo node;; esac
"""
KIND = """#!/bin/sh
echo "kind $*" >> {calls}
[ "$1 $2" != "create cluster" ] || cat {kubeconfig} > "${{4#*=}}"
"""
FAILING = "#!/bin/sh\nexit 3\n"
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: a, user: {token: a}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the two programs, first in the search path."""
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    for name, text in (("docker", DOCKER), ("kind", KIND)):
        program = tmp_path / name
        program.write_text(text.format(calls=tmp_path / "calls", kubeconfig=tmp_path / "kubeconfig"))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_images_that_docker_built_are_in_the_cluster_under_a_name_of_their_content(programs: Path) -> None:
    kind = Kind(name="dev", progress=Progress())
    assert kind.up().kubeconfig.read_text() == KUBECONFIG
    names = kind.build_images(context=programs, targets=["runtime"])
    assert names == {"runtime": "tieline.local/runtime:abcdef012345"}
    calls = (programs / "calls").read_text().splitlines()
    assert "kind load docker-image --name tieline-dev tieline.local/runtime:abcdef012345" in calls


def test_a_cluster_in_docker_is_deleted_with_its_kubeconfig(programs: Path) -> None:
    kind = Kind(name="dev", progress=Progress())
    kubeconfig = kind.up().kubeconfig
    kind.down()
    assert not kubeconfig.exists()
    assert "kind delete cluster --name=tieline-dev" in (programs / "calls").read_text()


def test_a_failure_of_kind_is_told_in_one_sentence(programs: Path) -> None:
    (programs / "kind").write_text(FAILING)
    with pytest.raises(ClusterError, match="kind could not do it"):
        Kind(name="dev", progress=Progress()).up()
