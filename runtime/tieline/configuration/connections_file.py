"""Connections of your own machine: a YAML or JSON file of the internal endpoint's shape, with secrets from elsewhere.

``${NAME}`` in a text stands for an environment variable, ``${file:path}`` for a file's content (relative to the
connections file), ``$${`` for ``${`` itself. ``{name}`` in a URL stands for a value in ``variables`` of its connection.
Templates that the file does not list follow from its connections.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tieline.errors import ConfigurationError
from tieline_protocol.url_inputs import UrlInputError, filled_url, url_inputs

_URLS = frozenset({"baseUrl", "tokenUrl", "refreshUrl"})
_PLACEHOLDER = re.compile(r"\$(?P<escaped>\$\{)|\$\{(?P<file>file:)?(?P<name>[^}]*)\}")

Missing = Callable[[str], str | None]
"""Stands in for an environment variable or file that is not there; None: it is an error."""


class ConnectionsFileError(ConfigurationError):
    """The file cannot be used; the message begins with its place."""

    def __init__(self, path: Path, problem: str, *, line: int | None = None) -> None:
        super().__init__(f"{path}:{line}: {problem}" if line else f"{path}: {problem}")
        self.problem = problem
        self.line = line


def read(path: Path, env: Mapping[str, str], *, missing: Missing = lambda _name: None) -> dict[str, Any]:
    """The body that ``configuration.snapshot.parse`` takes; raises ConnectionsFileError."""
    text = text_of(path)
    body = _resolved(parsed(path, text), path, text, env, missing)
    for name, connection in _connections(body):
        _fill_urls(connection, path, name)
    body["templates"] = {**_implied_templates(body), **object_of(body.get("templates"))}
    return body


def text_of(path: Path) -> str:
    """The file's text; raises ConnectionsFileError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConnectionsFileError(path, f"the file cannot be read: {reason}") from error


def parsed(path: Path, text: str) -> dict[str, Any]:
    """The file's object, with placeholders as they are; raises ConnectionsFileError."""
    if path.suffix == ".json":
        try:
            body = json.loads(text)
        except ValueError as error:
            line = error.lineno if isinstance(error, json.JSONDecodeError) else None
            raise ConnectionsFileError(path, f"this is not JSON: {error}", line=line) from error
    else:
        body = _parsed_yaml(path, text)
    if not isinstance(body, dict):
        raise ConnectionsFileError(path, "the file holds no object", line=1)
    return body


def _parsed_yaml(path: Path, text: str) -> Any:
    # Pods have JSON only, and no YAML library.
    import yaml  # noqa: PLC0415

    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        line = mark.line + 1 if mark else None
        raise ConnectionsFileError(path, f"this is not YAML: {problem}", line=line) from error


def _resolved(
    body: dict[str, Any], path: Path, text: str, env: Mapping[str, str], missing: Missing
) -> dict[str, Any]:
    def resolve(value: Any) -> Any:
        if isinstance(value, dict):
            return {str(key): resolve(item) for key, item in value.items()}
        if isinstance(value, list):
            return [resolve(item) for item in value]
        return _PLACEHOLDER.sub(put_in, value) if isinstance(value, str) else value

    def put_in(found: re.Match[str]) -> str:
        if found["escaped"]:
            return "${"
        name = found["name"]
        value = _file(path, name) if found["file"] else env.get(name)
        if value is None:
            value = missing(name)
        if value is None:
            what = (
                f"the file {name} cannot be read"
                if found["file"]
                else f"the environment variable {name} is not set"
            )
            raise ConnectionsFileError(
                path, f"{what}; provide it, or write $${{ for a plain ${{", line=_line(text, found[0])
            )
        return value

    resolved = resolve(body)
    assert isinstance(resolved, dict)  # noqa: S101  (a dict stays one)
    return resolved


def _file(path: Path, name: str) -> str | None:
    """The file's text without the line break that editors put at its end."""
    try:
        return (
            (path.parent / name)
            .expanduser()
            .read_text(encoding="utf-8")
            .removesuffix("\n")
            .removesuffix("\r")
        )
    except (OSError, UnicodeDecodeError):
        return None


def _line(text: str, part: str) -> int | None:
    before, found, _ = text.partition(part)
    return before.count("\n") + 1 if found else None


def _connections(body: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The connections of the file and of its users, by name."""
    for holder in (body, *object_of(body.get("users")).values()):
        for name, connection in object_of(object_of(holder).get("connections")).items():
            if isinstance(connection, dict):
                yield name, connection


def _fill_urls(connection: dict[str, Any], path: Path, name: str) -> None:
    """Puts the values in ``variables`` of a connection into its URLs, as the platform does."""
    values = {key: str(value) for key, value in object_of(connection.get("variables")).items()}
    if not values:
        return
    credentials = connection.get("credentials")
    schemes = [
        object_of(object_of(object_of(one).get("authScheme")).get("oauth2"))
        for one in (credentials if isinstance(credentials, list) else ())
    ]
    inputs = url_inputs(connection)
    for holder in (connection, *schemes):
        for key in _URLS & holder.keys():
            try:
                holder[key] = filled_url(str(holder[key]), values, inputs)
            except UrlInputError as error:
                raise ConnectionsFileError(path, f"connections.{name}: {key}: {error}") from None


def _implied_templates(body: Mapping[str, Any]) -> dict[str, Any]:
    """A template of a user's connection is dynamic, one of the file's own is static and linked."""
    users = [object_of(user) for user in object_of(body.get("users")).values()]
    dynamic = {name for user in users for name in object_of(user.get("connections"))}
    static = object_of(body.get("connections"))
    return {
        **{name: {"id": name, "dynamic": True, "linked": False} for name in dynamic},
        **{name: {"id": name, "dynamic": False, "linked": True} for name in static},
    }


def object_of(value: Any) -> dict[str, Any]:
    """``value`` where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}
