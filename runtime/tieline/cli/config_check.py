"""Checks of the files for local runs: connections, and variables against the project's schema."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tieline.auth.schemes import SCHEMES
from tieline.configuration import connections_file
from tieline.configuration.connections_file import ConnectionsFileError, object_of
from tieline.configuration.local_tokens import problem_of
from tieline.configuration.snapshot import parse_credential
from tieline.errors import ConfigurationError
from tieline_protocol import signatures
from tieline_protocol.findings import Finding
from tieline_protocol.limit_answers import COST_FIELDS, RULE_FIELDS, LimitAnswers
from tieline_protocol.list_dialects import DIALECT_FIELDS, FOLLOWING_FIELDS, ListDialects
from tieline_protocol.request_limits import RequestLimits
from tieline_protocol.variables import InvalidSchema, schema_problem, variable_errors

Path_ = tuple[str | int, ...]

_FILE = frozenset(
    {
        "activationId",
        "connections",
        "environment",
        "organisationId",
        "projectId",
        "projectName",
        "publicUrl",
        "settings",
        "templates",
        "users",
        "variables",
        "variablesSchema",
    }
)
_CONNECTION = frozenset(
    {
        "baseUrl",
        "credentials",
        "exposeToCode",
        "graphqlPath",
        "id",
        "inputs",
        "limits",
        "lists",
        "name",
        "system",
        "templateId",
        "variables",
    }
)
_CREDENTIAL = frozenset({"authScheme", "data", "expiresAt", "fields", "id", "name", "notSecret", "type"})
_LIMITS = frozenset({"answers", "concurrent", "cost", "per", "requests"})
_LISTS = frozenset({"default", "paths"})
_SETTINGS = frozenset({"keepInputs"})
_TEMPLATE = frozenset({"dynamic", "id", "linked"})
_USER = frozenset({"connections", "id", "user", "variables"})


@dataclass(frozen=True, kw_only=True)
class CheckedConfig:
    """What the files for local runs say."""

    templates: frozenset[str] | None = None
    """The environment's templates; None without a connections file."""
    schema: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def describe(connections: Path | None, schema_file: Path | None) -> CheckedConfig:
    """Reads both files; placeholders for secrets are left as they are."""
    findings: list[Finding] = []
    schema, problems = _schema(schema_file)
    findings += problems
    if connections is None:
        return CheckedConfig(schema=schema, findings=tuple(findings))
    try:
        text = connections_file.text_of(connections)
        body = connections_file.parsed(connections, text)
    except ConnectionsFileError as error:
        findings.append(Finding(message=error.problem, filename=str(connections), line=error.line))
        return CheckedConfig(schema=schema, findings=tuple(findings))
    if schema_file is None and isinstance(body.get("variablesSchema"), dict):
        schema = body["variablesSchema"]
        if problem := schema_problem(schema):
            location = _line(text, ("variablesSchema",))
            findings.append(_schema_finding(connections, problem, line=location))
            schema = {}
    for path, message in (*_problems(body), *_variables(body, schema)):
        findings.append(Finding(message=message, filename=str(connections), line=_line(text, path)))
    templates = {*_named(body, "templates"), *_named(body, "connections")}
    for user in _objects(body.get("users")):
        templates |= _named(body["users"][user], "connections")
    return CheckedConfig(templates=frozenset(templates), schema=schema, findings=tuple(findings))


def _schema(path: Path | None) -> tuple[Mapping[str, Any], list[Finding]]:
    if path is None:
        return {}, []
    try:
        text = path.read_text(encoding="utf-8")
        schema = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else getattr(error, "lineno", None)
        return {}, [_schema_finding(path, f"it cannot be read: {error}".splitlines()[0], line=line)]
    problem = schema_problem(schema) if isinstance(schema, dict) else "it is no object"
    return ({}, [_schema_finding(path, problem)]) if problem else (schema, [])


def _schema_finding(path: Path, problem: str, *, line: int | None = None) -> Finding:
    return Finding(message=f"the schema of variables: {problem}", filename=str(path), line=line)


def _problems(body: Mapping[str, Any]) -> Iterator[tuple[Path_, str]]:
    yield from _unknown(body, (), _FILE)
    yield from _unknown(body.get("settings") or {}, ("settings",), _SETTINGS)
    for name, template in _objects(body.get("templates")).items():
        yield from _unknown(template, ("templates", name), _TEMPLATE)
    yield from _connections(body, ())
    for name, user in _objects(body.get("users")).items():
        yield from _unknown(user, ("users", name), _USER)
        yield from _connections(user, ("users", name))


def _connections(body: Mapping[str, Any], where: Path_) -> Iterator[tuple[Path_, str]]:
    for name, connection in _objects(body.get("connections")).items():
        path: Path_ = (*where, "connections", name)
        yield from _unknown(connection, path, _CONNECTION)
        base = str(connection.get("baseUrl") or "")
        if not base.startswith(("http://", "https://", "${")):
            yield (*path, "baseUrl"), f'the connection "{name}" needs a baseUrl such as https://shop.example'
        yield from _limits(connection.get("limits"), (*path, "limits"))
        yield from _lists(connection.get("lists"), (*path, "lists"))
        for index, credential in enumerate(connection.get("credentials") or ()):
            yield from _credential(credential, (*path, "credentials", index))


def _limits(limits: Any, path: Path_) -> Iterator[tuple[Path_, str]]:
    if not limits:
        return
    unknown = list(_unknown(limits, path, _LIMITS))
    for index, rule in enumerate(_items(limits, "answers")):
        unknown += _unknown(rule, (*path, "answers", index), RULE_FIELDS)
    unknown += _unknown(object_of(limits).get("cost") or {}, (*path, "cost"), COST_FIELDS)
    yield from unknown
    if not unknown:
        try:
            RequestLimits.parse(limits)
            LimitAnswers.parse(limits)
        except ValueError as error:
            yield path, f"limits: {error}"


def _lists(lists: Any, path: Path_) -> Iterator[tuple[Path_, str]]:
    if not lists:
        return
    unknown = list(_unknown(lists, path, _LISTS))
    dialects = [((*path, "default"), object_of(lists).get("default") or {})]
    dialects += [((*path, "paths", index), item) for index, item in enumerate(_items(lists, "paths"))]
    for where, dialect in dialects:
        unknown += _unknown(dialect, where, DIALECT_FIELDS | {"path"})
        unknown += _unknown(
            object_of(dialect).get("following") or {}, (*where, "following"), FOLLOWING_FIELDS
        )
    yield from unknown
    if not unknown:
        try:
            ListDialects.parse(lists)
        except ValueError as error:
            yield path, f"lists: {error}"


def _items(content: Any, name: str) -> list[Any]:
    found = object_of(content).get(name)
    return found if isinstance(found, list) else []


def _credential(credential: Any, path: Path_) -> Iterator[tuple[Path_, str]]:
    if not isinstance(credential, dict):
        yield path, "a credential is an object with authScheme and data"
        return
    yield from _unknown(credential, path, _CREDENTIAL)
    scheme = object_of(credential.get("authScheme")).get("type")
    if scheme not in SCHEMES:
        known = ", ".join(sorted(SCHEMES))
        yield (*path, "authScheme", "type"), f"authScheme.type is {scheme!r}; it must be one of {known}"
    elif scheme == "oauth2":
        yield from _oauth2(credential, path)
    elif scheme == "hmac":
        hmac = object_of(object_of(credential.get("authScheme")).get("hmac"))
        if problem := signatures.problem_of(hmac):
            yield (*path, "authScheme", "hmac"), problem


def _oauth2(credential: Mapping[str, Any], path: Path_) -> Iterator[tuple[Path_, str]]:
    try:
        problem = problem_of(parse_credential(credential))
    except ConfigurationError as error:
        yield path, str(error)
        return
    if problem:
        yield path, f"no access token can be obtained for this credential: {problem}"


def _unknown(body: Any, path: Path_, known: frozenset[str]) -> Iterator[tuple[Path_, str]]:
    if not isinstance(body, dict):
        yield path, f"this must be an object with {', '.join(sorted(known))}"
        return
    for key in body:
        if key not in known:
            yield (*path, key), f'there is no field "{key}" here; there are {", ".join(sorted(known))}'


def _variables(body: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[tuple[Path_, str]]:
    if not schema:
        return
    locations: list[Path_] = [("users", name, "variables") for name in _objects(body.get("users"))]
    for location in [("variables",), *locations]:
        owner = object_of(body["users"][location[1]]) if len(location) > 1 else body
        values = owner.get("variables") or {}
        if not values and location == ("variables",) and locations:
            continue  # the users' variables are what counts
        try:
            errors = variable_errors(schema, object_of(values))
        except InvalidSchema:
            return
        for error in errors:
            yield location, f"the variables break the project's schema: {error}"


def _named(body: Any, key: str) -> set[str]:
    return {str(name) for name in object_of(object_of(body).get(key))}


def _objects(value: Any) -> dict[str, dict[str, Any]]:
    return {str(name): item for name, item in object_of(value).items() if isinstance(item, dict)}


def _line(text: str, path: Path_) -> int | None:
    """The line where ``path`` is written, or the nearest thing around it. JSON is YAML enough for this."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    line = node.start_mark.line + 1 if node else None
    for part in path:
        if isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == str(part)]
            if not found:
                break
            line, node = found[0][0].start_mark.line + 1, found[0][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
        else:
            break
    return line
