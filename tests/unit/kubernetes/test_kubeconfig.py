"""How the API server is reached, and what is told when it cannot be."""

import asyncio
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.kubernetes.fake_api_server import FakeApiServer, refuse
from tieline_core.kubernetes import Kube, Unauthorized, Unavailable
from tieline_core.kubernetes.kubeconfig import NoClusterError, connection
from tieline_core.kubernetes.resources import CONFIG_MAPS


@pytest.fixture(autouse=True)
def _outside_of_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)


def written(path: Path, *, user: dict[str, Any], server: str = "http://127.0.0.1:1", **cluster: Any) -> Path:
    """A kubeconfig with one user and one cluster."""
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return path


async def test_a_token_becomes_the_authorization(tmp_path: Path) -> None:
    reached = await connection(kubeconfig=written(tmp_path / "config", user={"token": "abc"}))
    assert await reached.authorization() == "Bearer abc"


async def test_user_name_and_password_become_the_authorization(tmp_path: Path) -> None:
    user = {"username": "ada", "password": "pass"}
    reached = await connection(kubeconfig=written(tmp_path / "config", user=user))
    assert await reached.authorization() == "Basic YWRhOnBhc3M="


async def test_the_clusters_own_name_and_proxy_are_used(tmp_path: Path) -> None:
    more = {"tls-server-name": "kubernetes", "proxy-url": "http://proxy:3128"}
    path = written(tmp_path / "config", user={}, server="https://10.0.0.1:6443/", **more)
    reached = await connection(kubeconfig=path)
    assert (reached.url, reached.server_hostname, reached.proxy) == (
        "https://10.0.0.1:6443",
        "kubernetes",
        "http://proxy:3128",
    )
    assert await reached.authorization() is None


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "just a text",
        "{unclosed",
        "clusters: []\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c}}]",
        "current-context: nowhere\ncontexts: []",
    ],
    ids=["absent", "empty", "text", "no YAML", "no cluster", "no context"],
)
async def test_a_kubeconfig_that_cannot_be_read_says_which_and_what_to_do(
    content: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(NoClusterError, match=r"config.*Set KUBECONFIG"):
        await connection(kubeconfig=path)


async def test_the_message_about_a_broken_user_entry_does_not_quote_its_secrets(tmp_path: Path) -> None:
    provider = {"name": "oidc", "config": {"refresh-token": "hunter2", "client-secret": "hunter2"}}
    path = written(tmp_path / "config", user={"auth-provider": provider, "token": "hunter2"})
    with pytest.raises(NoClusterError) as caught:
        await connection(kubeconfig=path)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


async def test_a_plugins_token_is_fetched_again_when_it_is_refused(
    tmp_path: Path, server: FakeApiServer
) -> None:
    counter, plugin = tmp_path / "count", tmp_path / "plugin"
    plugin.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib\n"
        f"path = pathlib.Path({str(counter)!r})\n"
        "count = int(path.read_text()) + 1 if path.exists() else 1\n"
        "path.write_text(str(count))\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',\n"
        "                  'status': {'token': f'token-{count}'}}))\n"
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}
    path = written(tmp_path / "config", user=user, server=server.url)
    server.put("one")
    async with await Kube.connect(kubeconfig=path) as kube:
        await kube.get(CONFIG_MAPS, "one", "acme")
        assert counter.read_text() == "1"
        server.answers.append(refuse(401, "Unauthorized"))
        await kube.replace(CONFIG_MAPS, server.objects["acme", "one"])
        assert counter.read_text() == "2"
        server.answers.append(refuse(401, "Unauthorized"))
        with pytest.raises(Unauthorized):
            await kube.get(CONFIG_MAPS, "one", "acme")
        assert counter.read_text() == "2", "the plugin is not asked again and again"


async def test_calls_that_are_refused_together_fetch_credentials_once(
    tmp_path: Path, server: FakeApiServer
) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    path = written(tmp_path / "config", user={"tokenFile": str(token)}, server=server.url)
    server.put("one")
    async with await Kube.connect(kubeconfig=path) as kube:
        token.write_text("new")
        server.answers.extend([refuse(401, "Unauthorized")] * 3)
        found = await asyncio.gather(*(kube.get(CONFIG_MAPS, "one", "acme") for _ in range(3)))
    assert len(found) == 3


async def test_a_pods_token_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token, reached = await _in_a_pod(tmp_path, monkeypatch)
    assert await reached.authorization() == "Bearer first"
    token.write_text("second\n")
    assert await reached.authorization() == "Bearer second"


async def test_a_pods_token_that_is_missing_for_a_moment_is_no_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, reached = await _in_a_pod(tmp_path, monkeypatch)
    token.unlink()
    with pytest.raises(Unavailable, match="token"):
        await reached.authorization()


async def _in_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Any]:
    import certifi
    from kubernetes.aio.config import incluster_config

    token = tmp_path / "token"
    token.write_text("first\n")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", certifi.where())
    monkeypatch.setattr(incluster_config.datetime, "timedelta", lambda **_: _Immediately())
    return token, await connection()


class _Immediately:
    """A token's life that is over at once."""

    def __radd__(self, time: Any) -> Any:
        return time
