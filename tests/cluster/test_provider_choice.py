"""Which cluster a person gets, and what they are told where they can get none."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tieline_cluster.errors import ClusterError
from tieline_cluster.image_build import debian_packages
from tieline_cluster.image_build.base_image import base_image
from tieline_cluster.kind import Kind
from tieline_cluster.main import main
from tieline_cluster.node.builtin import BuiltIn
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
        debian_packages.require(debian_packages.NODE_PACKAGES, purpose="A cluster with a node")


def test_missing_packages_are_named_with_the_command_that_installs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ClusterError, match=r"containerd.*nftables.*up --install"):
        debian_packages.require(debian_packages.NODE_PACKAGES, purpose="A cluster with a node")


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Debian without the packages, whose apt-get is played; the file that tells what it installed, a line each."""
    programs, installed = tmp_path / "bin", tmp_path / "installed"
    programs.mkdir()
    apt = programs / "apt-get"
    apt.write_text(
        "#!/bin/sh\n"
        '[ "$1" = update ] && exit\n'
        f'echo "$@" >> {installed}\n'
        "/bin/sleep 0.2\n"
        f"for program in containerd nft buildah; do echo > {programs}/$program; "
        f"/bin/chmod +x {programs}/$program; done\n"
    )
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(debian_packages, "POLICY", tmp_path / "policy-rc.d")
    monkeypatch.setattr(debian_packages, "_LOCK", tmp_path / "packages.lock")
    monkeypatch.setattr(debian_packages, "NODE_PACKAGES", {"containerd": "containerd", "nft": "nftables"})
    monkeypatch.setattr(debian_packages, "IMAGE_PACKAGES", {"buildah": "buildah"})

    def no_further(_: object) -> None:
        raise ClusterError("the cluster would start now")

    monkeypatch.setattr("tieline_cluster.node.builtin.ensure_binaries", no_further)
    return installed


def test_what_is_missing_is_installed_first_where_that_was_asked_for(bare_machine: Path) -> None:
    """As `make demo` and `make test` ask, on a machine where nothing is prepared."""
    with pytest.raises(ClusterError, match=r"not installed: containerd nftables"):
        choose_provider("builtin", name="mine").up()
    with pytest.raises(ClusterError, match="would start now"):
        choose_provider("builtin", name="mine", install=True).up()
    assert bare_machine.read_text().split()[-3:] == ["buildah", "containerd", "nftables"]


def test_the_command_installs_what_is_missing_when_told_to(
    bare_machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["up", "--provider", "builtin", "--name", "mine"]
    assert main(command) == 1
    assert "up --install" in capsys.readouterr().err
    assert main([*command, "--install"]) == 1
    assert "would start now" in capsys.readouterr().err
    assert bare_machine.exists()


def test_of_two_that_start_at_once_one_installs_and_the_other_waits(bare_machine: Path) -> None:
    provider = choose_provider("builtin", name="mine", install=True)
    with ThreadPoolExecutor(2) as two:
        started = [two.submit(provider.up) for _ in range(2)]
    assert [str(each.exception()) for each in started] == ["the cluster would start now"] * 2
    assert len(bare_machine.read_text().splitlines()) == 1


def test_an_option_that_no_cluster_has_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        choose_provider("builtin", name="mine", colour="red")


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
