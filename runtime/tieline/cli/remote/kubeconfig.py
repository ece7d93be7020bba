"""Tokens from a kubeconfig: the user's own, or those of a ServiceAccount.

The API takes bearer tokens, so a kubeconfig with a client certificate cannot sign in by itself. It can request tokens
of a ServiceAccount (``kubectl create token``).
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from tieline.cli.exit_codes import CommandError, ExitCode

_SECONDS = 60


def user_token(kube_context: str | None) -> tuple[str, float | None]:
    """The token of a kubeconfig's user, and the Unix time at which it expires, where that is known.

    Raises CommandError.
    """
    user = _user(_kubectl(*_context(kube_context), "config", "view", "--raw", "--minify", "--output=json"))
    if token := user.get("token"):
        return str(token), None
    if file := user.get("tokenFile"):
        try:
            return Path(file).read_text(encoding="utf-8").strip(), None
        except OSError as error:
            raise _refused(f"the token file of the kubeconfig cannot be read: {error.strerror}") from None
    if plugin := user.get("exec"):
        return _exec(plugin)
    raise _refused(
        "the user of the kubeconfig has no token; sign in with --service-account NAMESPACE/NAME, for which kubectl"
        " requests tokens"
    )


def service_account_token(kube_context: str | None, account: str, *, seconds: int = 3600) -> str:
    """A new token of a ServiceAccount (``namespace/name``). Raises CommandError."""
    namespace, slash, name = account.partition("/")
    if not slash or not namespace or not name:
        raise CommandError(f"{account!r} is no ServiceAccount: write NAMESPACE/NAME", ExitCode.USAGE)
    return _kubectl(
        *_context(kube_context), "create", "token", name, f"--namespace={namespace}", f"--duration={seconds}s"
    ).strip()


def _context(name: str | None) -> Sequence[str]:
    return (f"--context={name}",) if name else ()


def _kubectl(*arguments: str) -> str:
    return _run(["kubectl", *arguments], os.environ)


def _user(text: str) -> Mapping[str, Any]:
    users = (yaml.safe_load(text) or {}).get("users") or []
    user: Mapping[str, Any] = (users[0].get("user") or {}) if users else {}
    return user


def _exec(plugin: Mapping[str, Any]) -> tuple[str, float | None]:
    """Runs a credential plugin (client.authentication.k8s.io)."""
    version = str(plugin.get("apiVersion", "client.authentication.k8s.io/v1"))
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    environment = {
        **os.environ,
        **{item["name"]: item["value"] for item in plugin.get("env") or ()},
        "KUBERNETES_EXEC_INFO": json.dumps(info),
    }
    text = _run([str(plugin["command"]), *(plugin.get("args") or ())], environment)
    try:
        status = json.loads(text)["status"]
        expires = status.get("expirationTimestamp")
        return str(status["token"]), datetime.fromisoformat(expires).timestamp() if expires else None
    except (ValueError, KeyError, TypeError):
        raise _refused("the kubeconfig's credential plugin answered without a token") from None


def _run(command: Sequence[str], environment: Mapping[str, str]) -> str:
    try:
        ended = subprocess.run(  # noqa: S603  (the kubeconfig's own program, as kubectl runs it)
            command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError:
        raise _refused(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise _refused(f"{command[0]} did not end within {_SECONDS} s") from None
    if ended.returncode:
        lines = ended.stderr.strip().splitlines()
        raise _refused(f"{command[0]} failed: {lines[-1] if lines else f'exit code {ended.returncode}'}")
    return ended.stdout


def _refused(reason: str) -> CommandError:
    return CommandError(f"There is no token from the kubeconfig: {reason}", ExitCode.NOT_SIGNED_IN)
