"""What a project offers to others, read from its files without running them: webhooks, and a description.

Webhooks are seen where code says ``….webhook("name", methods=[…])`` with constants. A name that is computed
cannot be seen, nor that a file with a webhook is never imported: findings tell the first.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tieline_core.connectors.descriptions.findings import ImportFinding, cut
from tieline_core.severity import Severity
from tieline_protocol.webhook_names import MAX_TOOL, input_schema_problem, name_problem

MAX_WEBHOOKS = 256
MAX_EVENTS = 256
DESCRIPTIONS = ("openapi.json", "openapi.yaml", "openapi.yml")

_DECORATOR = "webhook"
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_USUAL = ("POST",)
_MAX_TEXT = 2048

Files = Mapping[str, bytes] | Sequence[tuple[str, bytes]]
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """A webhook as the code declares it."""

    name: str
    methods: tuple[str, ...] = _USUAL
    description: str = ""
    """The function's docstring."""
    tool: str = ""
    """What it does, for agents that may run it; empty where they may not."""
    input_schema: Mapping[str, Any] | None = None
    """The JSON Schema of its body, for the same."""


@dataclass(frozen=True, kw_only=True)
class Interface:
    """What a project's files offer to others."""

    digest: str
    """Over all that others see of it: the same for files that only differ elsewhere."""
    webhooks: tuple[Webhook, ...] = ()
    """In the order of their names."""
    findings: tuple[ImportFinding, ...] = ()
    """What could not be seen."""
    description_file: str | None = None
    """The file with the project's own API description."""
    description: bytes = b""
    """What is in it."""
    events: tuple[str, ...] | None = None
    """The tasks for events, which others do not see: no part of the digest. None where they are not known."""


def assembled(
    files: Files, declared: Iterable[Webhook | ImportFinding], *, events: Sequence[str] | None = None
) -> Interface:
    """What the files offer, from what ``declared_in`` found in each of them, in the order of their paths.

    ``events`` are the tasks for events, None where they cannot be seen.
    """
    pairs = sorted(files.items() if isinstance(files, Mapping) else files)
    webhooks: dict[str, Webhook] = {}
    findings: list[ImportFinding] = []
    for found in declared:
        if isinstance(found, ImportFinding):
            findings.append(found)
        else:
            webhooks.setdefault(found.name, found)
    chosen = [webhooks[name] for name in sorted(webhooks)]
    if len(chosen) > MAX_WEBHOOKS:
        text = f"Of {len(chosen)} webhooks the first {MAX_WEBHOOKS} are triggers"
        findings.append(ImportFinding(text, Severity.WARNING))
    described, description = _description(pairs)
    chosen = chosen[:MAX_WEBHOOKS]
    seen = [[item.name, item.methods, item.description, *_as_tool(item)] for item in chosen]
    noted = [[item.text, item.location] for item in findings]
    parts = orjson.dumps([seen, noted, described, hashlib.sha256(description).hexdigest()])
    return Interface(
        digest=hashlib.sha256(parts).hexdigest(),
        webhooks=tuple(chosen),
        findings=tuple(findings),
        description_file=described,
        description=description,
        events=None if events is None or len(events) > MAX_EVENTS else tuple(events),
    )


def _as_tool(webhook: Webhook) -> list[Any]:
    if not webhook.tool:
        return []
    return [webhook.tool, *([webhook.input_schema] if webhook.input_schema else [])]


def _description(pairs: Sequence[tuple[str, bytes]]) -> tuple[str | None, bytes]:
    """The project's API description: the one nearest to the top, JSON before YAML."""
    found = [pair for pair in pairs if pair[0].rpartition("/")[2] in DESCRIPTIONS]
    if not found:
        return None, b""
    return min(found, key=lambda pair: (pair[0].count("/"), DESCRIPTIONS.index(pair[0].rpartition("/")[2])))


def declared_in(path: str, tree: ast.Module) -> Iterator[Webhook | ImportFinding]:
    """The webhooks of one file, and what of them cannot be seen."""
    for call, function in _registrations(tree):
        name = _argument(call, 0, "name")
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            text = "A webhook's name is computed: only names that stand in the code become triggers"
            yield ImportFinding(text, Severity.WARNING, f"{path} line {call.lineno}")
            continue
        if name_problem(name.value):
            continue
        methods = _methods(_argument(call, None, "methods"))
        if methods is None:
            text = f'The methods of the webhook "{name.value}" are computed: POST is taken'
            yield ImportFinding(text, Severity.WARNING, f"{path} line {call.lineno}")
        tool = _argument(call, None, "tool")
        tool_name = tool.value if isinstance(tool, ast.Constant) else None
        if tool is not None and not (isinstance(tool, ast.Constant) and isinstance(tool_name, str | None)):
            text = f'What the webhook "{name.value}" does as a tool is computed: agents do not see it'
            yield ImportFinding(text, Severity.WARNING, f"{path} line {call.lineno}")
        schema, problem = _input_schema(_argument(call, None, "input_schema"))
        if problem:
            text = f'The input_schema of the webhook "{name.value}" {problem}: agents do not see it'
            yield ImportFinding(text, Severity.WARNING, f"{path} line {call.lineno}")
        described = (ast.get_docstring(function) or "") if function else ""
        yield Webhook(
            name=name.value,
            methods=methods or _USUAL,
            description=_cut(described.strip(), _MAX_TEXT),
            tool=_cut(tool_name.strip(), MAX_TOOL) if isinstance(tool_name, str) else "",
            input_schema=schema,
        )


def _input_schema(node: ast.expr | None) -> tuple[Mapping[str, Any] | None, str | None]:
    """The schema as it stands in the code, and why there is none that agents can see."""
    if node is None:
        return None, None
    try:
        found = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None, "is computed"
    if found is None:
        return None, None
    problem = input_schema_problem(found)
    return (None, problem) if problem else (found, None)


def _registrations(tree: ast.Module) -> Iterator[tuple[ast.Call, Function | None]]:
    """Calls of ``….webhook(…)`` that decorate a function, or that are called with one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from ((call, node) for found in node.decorator_list for call in _webhook_call(found))
        elif isinstance(node, ast.Call):
            yield from ((call, None) for call in _webhook_call(node.func))


def _webhook_call(node: ast.expr) -> Iterator[ast.Call]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == _DECORATOR:
        yield node


def _argument(call: ast.Call, position: int | None, keyword: str) -> ast.expr | None:
    if position is not None and len(call.args) > position:
        return call.args[position]
    return next((item.value for item in call.keywords if item.arg == keyword), None)


def _methods(node: ast.expr | None) -> tuple[str, ...] | None:
    """The methods as they stand in the code; None when they are computed."""
    if node is None:
        return _USUAL
    items = node.elts if isinstance(node, ast.List | ast.Tuple | ast.Set) else [node]
    found = {item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)}
    return tuple(sorted(found)) if len(items) == len(found) and found and found <= _METHODS else None


def _cut(text: str, limit: int) -> str:
    """Text of several lines, at most ``limit`` long."""
    return "\n".join(cut(line, limit) for line in text[:limit].splitlines())
