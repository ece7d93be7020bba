"""What refuses a project's Python files: their syntax, and names of webhooks that cannot be side by side.

Names are checked where ``main.py`` certainly registers them: constants, in statements at its top level, on an
``Integration`` that is made there once. Of all others the pod tells when it loads the code.
"""

import ast
from collections.abc import Iterable, Iterator

from tieline_protocol.files import MAIN
from tieline_protocol.findings import Finding
from tieline_protocol.python_source import parse
from tieline_protocol.webhook_names import other_integration_problem, registration_problem

_MODULE = "tieline"
_CLASS = "Integration"
_DECORATOR = "webhook"


def check_code(files: Iterable[tuple[str, bytes]]) -> Iterator[Finding]:
    """At most one error for each Python file."""
    for path, content in files:
        if path.endswith(".py"):
            parsed = parse(path, content)
            finding = parsed if isinstance(parsed, Finding) else webhook_problem(path, parsed)
            if finding is not None:
                yield finding


def webhook_problem(path: str, tree: ast.Module) -> Finding | None:
    """The first name of a webhook in ``main.py`` that its registration refuses; None for other files.

    The sentence is that of the exception which loading the code would raise.
    """
    if path != MAIN:
        return None
    names: dict[str, dict[str, int]] = {one: {} for one in _integrations(tree)}
    for integration, name, line in _registered(tree, names.keys()):
        if problem := registration_problem(name, names[integration]):
            return Finding(message=problem, filename=path, line=line)
        names[integration][name] = line
    taken: dict[str, int] = {}
    for own in names.values():
        for name, line in own.items():
            if problem := other_integration_problem(name, taken, MAIN):
                return Finding(message=problem, filename=path, line=line)
        taken |= own
    return None


def _integrations(tree: ast.Module) -> list[str]:
    """The variables that hold an Integration when the module is loaded, in the order of their statements."""
    makers = set(_makers(tree))
    found = [
        target.id
        for statement in tree.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        and isinstance(statement.value, ast.Call)
        and _written(statement.value.func) in makers
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Name)
    ]
    changed = [
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load) and node.id in found
    ]
    return [name for name in found if changed.count(name) == 1]


def _makers(tree: ast.Module) -> Iterator[str]:
    """How the module writes the class."""
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module == _MODULE and not statement.level:
            yield from (one.asname or one.name for one in statement.names if one.name == _CLASS)
        elif isinstance(statement, ast.Import):
            yield from (
                f"{one.asname or one.name}.{_CLASS}" for one in statement.names if one.name == _MODULE
            )


def _written(function: ast.expr) -> str:
    """``Integration`` or ``tieline.Integration``; of other expressions nothing."""
    match function:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return f"{name}.{attribute}"
    return ""


def _registered(tree: ast.Module, integrations: Iterable[str]) -> Iterator[tuple[str, str, int]]:
    """Integration, name and line of each webhook, in the order in which they are registered."""
    for statement in tree.body:
        calls: list[ast.expr] = []
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            calls = statement.decorator_list[::-1]
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            calls = [statement.value.func]
        for call in calls:
            match call:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=integration), attr=attribute)):
                    name = _name(call)
                    if attribute == _DECORATOR and integration in integrations and name is not None:
                        yield integration, name, call.lineno


def _name(call: ast.Call) -> str | None:
    keywords = {item.arg: item.value for item in call.keywords}
    given = call.args[0] if call.args else keywords.get("name")
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else None
