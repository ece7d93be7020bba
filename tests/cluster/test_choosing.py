"""Which cluster a person gets, and what they are told where they can get none."""

from pathlib import Path

import pytest

from tieline_cluster import packages
from tieline_cluster.base_image import base_image
from tieline_cluster.builtin import BuiltIn
from tieline_cluster.errors import ClusterError
from tieline_cluster.kind import Kind
from tieline_cluster.providers import choose_provider

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: work
contexts:
- {name: work, context: {cluster: work, user: me}}
- {name: play, context: {cluster: play, user: me}}
"""


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine where Docker runs."""
    monkeypatch.setattr("tieline_cluster.kind.docker_answers", lambda: True)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return monkeypatch


def test_docker_is_used_where_it_runs(docker: pytest.MonkeyPatch) -> None:
    assert isinstance(choose_provider(), Kind)


def test_without_docker_the_cluster_is_built_in(docker: pytest.MonkeyPatch) -> None:
    docker.setattr("tieline_cluster.kind.docker_answers", lambda: False)
    assert isinstance(choose_provider(), BuiltIn)


def test_a_built_in_cluster_stays_what_its_name_means_when_docker_comes(
    docker: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tieline/clusters/mine").mkdir(parents=True)
    assert isinstance(choose_provider(name="mine"), BuiltIn)
    assert isinstance(choose_provider(name="new"), Kind)


def test_a_persons_own_cluster_is_used_only_when_asked_for(
    docker: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    docker.setenv("KUBECONFIG", str(kubeconfig))
    assert isinstance(choose_provider(), Kind)
    assert choose_provider("existing").up().context == "work"
    assert choose_provider("existing", context="play").up().kubeconfig == kubeconfig


def test_an_unknown_context_is_answered_with_the_known_ones(
    docker: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    docker.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    with pytest.raises(ClusterError, match="work, play"):
        choose_provider("existing", context="home").up()


def test_a_persons_own_cluster_is_never_taken_down() -> None:
    with pytest.raises(ClusterError):
        choose_provider("existing").down()


def test_without_root_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match="needs root"):
        packages.require(packages.NODE_PACKAGES, purpose="A cluster with a node")


def test_missing_packages_are_named_with_the_command_that_installs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ClusterError, match=r"containerd.*nftables.*up --install"):
        packages.require(packages.NODE_PACKAGES, purpose="A cluster with a node")


def test_options_that_are_not_given_stay_as_the_cluster_was_made_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    stored = tmp_path / "tieline/clusters/mine/cluster.json"
    stored.parent.mkdir(parents=True)
    stored.write_text('{"slot": 4, "options": {"name": "mine", "audit": "changes", "fsync": false}}')
    provider = choose_provider("builtin", name="mine", fsync=True, audit=None)
    assert isinstance(provider, BuiltIn)
    assert (provider.options.audit, provider.options.fsync) == ("changes", True)


def test_debians_releases_are_the_bases_there_are() -> None:
    assert base_image("debian:trixie-slim").release == "trixie"
