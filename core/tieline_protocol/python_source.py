"""What Python files say, without running them: syntax, connection templates that they name, tasks for events."""

import ast
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from tieline_protocol.findings import Finding
from tieline_protocol.runtime_image import PYTHON

Named = Mapping[str, tuple[str, int]]
"""Where a name is first written: file and line."""

_CONTEXT = "ctx"
_CONTEXT_METHODS = frozenset({"fetch", "session"})
_DECORATOR_KEYWORD = "connection"
_MAX_MESSAGE = 2048


def parse(path: str, content: bytes) -> ast.Module | Finding:
    """The syntax tree, or why there is none. Compiles as well: that finds a ``return`` outside a function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(content, filename=path, feature_version=PYTHON)
            compile(tree, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        line = error.lineno if error.lineno and error.lineno > 0 else None
        return _unreadable(path, error.msg, line)
    except MemoryError:
        return _unreadable(path, "it takes too much memory, or nests too deeply")
    except (ValueError, RecursionError, OverflowError) as error:
        return _unreadable(path, str(error) or type(error).__name__)
    return tree


def trees(files: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, ast.Module]]:
    """The Python files that can be read, with their syntax trees."""
    for path, content in files:
        if path.endswith(".py") and isinstance(tree := parse(path, content), ast.Module):
            yield path, tree


def named_templates(files: Iterable[tuple[str, bytes]]) -> dict[str, tuple[str, int]]:
    """The connection templates that the code names, each with the first file and line that does.

    Names are found where they are constants: ``ctx.fetch("shop", …)``, ``ctx.session("shop")`` and
    ``connection="shop"`` in a decorator. Files that do not parse name nothing.
    """
    named: dict[str, tuple[str, int]] = {}
    for path, tree in trees(files):
        for name, line in templates_in(tree):
            named.setdefault(name, (path, line))
    return named


def missing_templates(
    named: Named, template_names: Collection[str], connections_file: str = ""
) -> list[Finding]:
    """An error for each template that code names and the environment, or the connections file, does not have."""
    return [
        Finding(
            message=f'the code uses the connection template "{name}", which {connections_file} does not have; '
            f'add "{name}" to its connections, or correct the name'
            if connections_file
            else f'the code uses the connection template "{name}", which this environment does not have; '
            f'create a ConnectionTemplate with spec.name "{name}", or correct the name',
            filename=path,
            line=line,
        )
        for name, (path, line) in named.items()
        if name not in template_names
    ]


def templates_in(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The names of connection templates in one file, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_context_call(node.func) and node.args:
            yield from _constant(node.args[0])
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
                for keyword in keywords:
                    if keyword.arg == _DECORATOR_KEYWORD:
                        yield from _constant(keyword.value)


_DECLARES_EVENTS = ("event", "waits_for")


def events_in(tree: ast.Module) -> frozenset[str] | None:
    """The events that one file declares: ``….event("name")`` for a task, ``….waits_for("name")`` for runs that wait.

    None where that cannot be seen: a name is computed, or the decorator is passed on.

    >>> sorted(events_in(ast.parse("@integration.event('a')\\nasync def f(ctx): ...\\nintegration.waits_for('b')")))
    ['a', 'b']
    >>> events_in(ast.parse("for name in NAMES: integration.event(name)(f)")) is None
    True
    """
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="getattr"), args=[_, attribute, *_]):
                if not isinstance(attribute, ast.Constant) or attribute.value in _DECLARES_EVENTS:
                    return None
            case ast.Attribute(attr="event" | "waits_for"):
                name = _first_argument(called.get(id(node)))
                if name is None:
                    return None
                names.add(name)
    return frozenset(names)


def _first_argument(call: ast.Call | None) -> str | None:
    """The constant text that is a call's first argument or its ``name``."""
    named = next((item.value for item in call.keywords if item.arg == "name"), None) if call else None
    node = call.args[0] if call and call.args else named
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_context_call(function: ast.expr) -> bool:
    if not isinstance(function, ast.Attribute) or function.attr not in _CONTEXT_METHODS:
        return False
    match function.value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name == _CONTEXT
    return False


def _constant(node: ast.expr) -> Iterator[tuple[str, int]]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value, node.lineno


def _unreadable(path: str, reason: Any, line: int | None = None) -> Finding:
    message = f"Python cannot read this: {reason}"[:_MAX_MESSAGE]
    return Finding(message=message, filename=path[:512] or None, line=line)
