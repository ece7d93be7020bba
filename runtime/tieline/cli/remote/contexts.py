"""Contexts: which platform and organisation commands speak to, and how they sign in.

They are in ``config.yaml`` in the user's configuration folder, such as ``~/.config/tieline``. The file holds no
tokens: those are in the system's keyring or in a file of their own (``token_store``).
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import platformdirs
import yaml

from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.remote.private_files import locked, read_private, write_private

FOLDER = "TIELINE_CONFIG_FOLDER"
CONTEXT = "TIELINE_CONTEXT"
URL = "TIELINE_URL"
ORGANISATION = "TIELINE_ORGANISATION"
TOKEN = "TIELINE_TOKEN"  # noqa: S105  (the variable's name)

SignInKind = Literal["token", "kubeconfig", "oidc"]
OidcToken = Literal["id", "access"]
"""Which of an issuer's tokens the API is called with."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_HOST = re.compile(r"[\w.-]+|[0-9a-f:.]+(%\w+)?")
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class SignIn:
    """How a context gets its tokens."""

    kind: SignInKind = "token"
    kube_context: str | None = None
    """kubeconfig: the context; None for the current one."""
    service_account: str | None = None
    """kubeconfig: ``namespace/name`` of the ServiceAccount that tokens are requested for."""
    issuer: str | None = None
    """oidc: the issuer's URL."""
    client_id: str | None = None
    """oidc: the public client."""
    scopes: str = "openid offline_access"
    """oidc: what is asked for."""
    oidc_token: OidcToken = "id"  # noqa: S105  (which one, not its value)
    """oidc: the token that the API is called with."""

    def as_dict(self) -> dict[str, str]:
        """What the file has."""
        values = {
            "kind": self.kind,
            "kubeContext": self.kube_context,
            "serviceAccount": self.service_account,
            "issuer": self.issuer,
            "clientId": self.client_id,
            "scopes": self.scopes if self.kind == "oidc" else None,
            "token": self.oidc_token if self.kind == "oidc" else None,
        }
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Context:
    """A platform and an organisation."""

    name: str
    url: str
    """The API's address without a path, such as ``https://tieline.example``."""
    organisation: str
    """The organisation's id."""
    sign_in: SignIn = field(default_factory=SignIn)
    token: str | None = field(default=None, repr=False)
    """Only of the context that environment variables make."""
    ca_file: str | None = None
    """Certificates that the API's certificate is checked with, in place of the system's."""


class ContextFile:
    """The contexts that ``tieline login`` wrote."""

    def __init__(self, folder: Path | None = None) -> None:
        given = os.environ.get(FOLDER)
        self.folder = folder or (Path(given) if given else Path(platformdirs.user_config_path("tieline")))
        self.path = self.folder / "config.yaml"

    def contexts(self) -> dict[str, Context]:
        """All contexts by name. Raises UsageError for a file that cannot be read."""
        found = self._read().get("contexts") or {}
        try:
            return {name: _from_dict(name, value) for name, value in found.items()}
        except (AttributeError, KeyError, TypeError, UsageError) as error:
            raise UsageError(
                f"{self.path} has a context that cannot be read ({error}); sign in again"
            ) from None

    @property
    def current(self) -> str | None:
        """The name of the current context."""
        value = self._read().get("current")
        return value if isinstance(value, str) else None

    def save(self, context: Context, *, current: bool = True) -> None:
        """Adds or replaces a context."""
        with locked(self.folder):
            content = self._read()
            contexts = content.get("contexts") or {}
            contexts[context.name] = {
                "url": context.url,
                "organisation": context.organisation,
                "signIn": context.sign_in.as_dict(),
                **({"caFile": context.ca_file} if context.ca_file else {}),
            }
            self._write({**content, "contexts": contexts, **({"current": context.name} if current else {})})

    def use(self, name: str) -> Context:
        """Makes a context the current one."""
        with locked(self.folder):
            context = self.named(name)
            self._write({**self._read(), "current": name})
        return context

    def delete(self, name: str) -> None:
        """Removes a context."""
        with locked(self.folder):
            self.named(name)
            content = self._read()
            del content["contexts"][name]
            if content.get("current") == name:
                content.pop("current")
            self._write(content)

    def named(self, name: str) -> Context:
        """The context with a name. Raises CommandError."""
        contexts = self.contexts()
        if name not in contexts:
            known = ", ".join(sorted(contexts)) or "none"
            raise CommandError(f"There is no context {name!r}; known are: {known}", ExitCode.NOT_FOUND)
        return contexts[name]

    def _read(self) -> dict[str, Any]:
        try:
            content = yaml.safe_load(read_private(self.path))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise UsageError(f"{self.path} cannot be read: {error}") from None
        if content is None:
            return {}
        if not isinstance(content, dict):
            raise UsageError(f"{self.path} is no configuration of tieline; move it away and sign in again")
        return content

    def _write(self, content: Mapping[str, Any]) -> None:
        # A link, such as into a folder of dotfiles, stays one.
        write_private(self.path.resolve(), yaml.safe_dump(dict(content), sort_keys=True))


def selected(name: str | None, *, organisation: str | None = None) -> Context:
    """The context that a command uses: the named one, the environment's, or the current one.

    ``TIELINE_URL``, ``TIELINE_ORGANISATION`` and ``TIELINE_TOKEN`` make a context without a file, for CI. Raises
    CommandError.
    """
    file = ContextFile()
    name = name or os.environ.get(CONTEXT)
    if name:
        found = file.named(name)
    elif os.environ.get(URL):
        found = _of_environment(os.environ)
    elif current := file.current:
        found = file.named(current)
    else:
        raise CommandError(
            f"You are not signed in. Run `tieline login URL`, or set {URL}, {ORGANISATION} and {TOKEN}.",
            ExitCode.NOT_SIGNED_IN,
        )
    if organisation:
        return Context(**{**found.__dict__, "organisation": checked_organisation(organisation)})
    return found


def checked_url(text: str) -> str:
    """The API's address without a path. Raises UsageError."""
    if "@" in text:
        raise UsageError("An address must not hold a user or password")
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        known = (
            parts.scheme in ("http", "https") and _HOST.fullmatch(parts.hostname or "") and parts.port != 0
        )
    except ValueError:
        known = False
    if not known or parts.query or parts.fragment:
        raise UsageError(f"{text!r} is no address of a platform, such as https://tieline.example")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def checked_organisation(text: str) -> str:
    """An organisation's id. Raises UsageError."""
    if not _ULID.fullmatch(text):
        raise UsageError(f"{text!r} is no organisation's id, such as 01JD3Y000000000000000000RG")
    return text.upper()


def checked_name(text: str) -> str:
    """A context's name. Raises UsageError."""
    if not _NAME.fullmatch(text):
        raise UsageError(f"{text!r} is no context's name: letters, digits, '.', '_' and '-', at most 63")
    return text


def _of_environment(environment: Mapping[str, str]) -> Context:
    missing = [name for name in (ORGANISATION, TOKEN) if not environment.get(name)]
    if missing:
        raise UsageError(f"{URL} is set, and {' and '.join(missing)} is not")
    return Context(
        name="environment",
        url=checked_url(environment[URL]),
        organisation=checked_organisation(environment[ORGANISATION]),
        token=environment[TOKEN],
    )


def _from_dict(name: str, value: Mapping[str, Any]) -> Context:
    sign_in = value.get("signIn") or {}
    return Context(
        name=checked_name(str(name)),
        url=checked_url(str(value["url"])),
        organisation=checked_organisation(str(value["organisation"])),
        ca_file=value.get("caFile"),
        sign_in=SignIn(
            kind=cast(SignInKind, sign_in.get("kind", "token")),
            kube_context=sign_in.get("kubeContext"),
            service_account=sign_in.get("serviceAccount"),
            issuer=sign_in.get("issuer"),
            client_id=sign_in.get("clientId"),
            scopes=sign_in.get("scopes", SignIn.scopes),
            oidc_token=cast(OidcToken, sign_in.get("token", SignIn.oidc_token)),
        ),
    )
