"""What can be told about a project's files before they run: nothing here executes them.

The operator and the API refuse a deploy with these findings, so both use this one function.
"""

import ast
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from tieline_core.files import MAX_FILE_BYTES, MAX_TOTAL_BYTES
from tieline_core.resources.fields import Severity
from tieline_core.resources.project_versions import Finding

MAIN = "main.py"
MAX_PATH = 512
MAX_SEGMENT_BYTES = 255
MAX_FINDINGS = 64

_LABEL_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MIB = 1024 * 1024
_CONTEXT = "ctx"
_CONTEXT_METHODS = frozenset({"fetch", "session"})
_DECORATOR_KEYWORD = "connection"


def check_files(
    files: Mapping[str, bytes] | Sequence[tuple[str, bytes]],
    labels: Mapping[str, str],
    template_names: Collection[str] | None,
) -> list[Finding]:
    """Findings about files and labels, at most MAX_FINDINGS; any of severity error refuses a deploy.

    ``files`` are pairs of path and content (a mapping cannot hold the duplicates that people write).
    ``template_names`` are the connection templates of the environment that the files go to; None skips
    that check, because templates belong to environments and files to none.
    """
    pairs = list(files.items()) if isinstance(files, Mapping) else list(files)
    findings = [
        *_check_names([path for path, _ in pairs]),
        *_check_sizes(pairs),
        *_check_labels(labels),
        *_check_python(pairs),
    ]
    if template_names is not None:
        findings += missing_templates(named_templates(pairs), template_names)
    return findings[:MAX_FINDINGS]


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether the findings refuse a deploy."""
    return any(finding.severity == Severity.ERROR for finding in findings)


def summary(findings: Sequence[Finding], *, most: int = 3) -> str:
    """The first errors as one text for a message."""
    errors = [finding for finding in findings if finding.severity == Severity.ERROR]
    told = "; ".join(_told(finding) for finding in errors[:most])
    return f"{told}; and {len(errors) - most} more" if len(errors) > most else told


def named_templates(
    files: Mapping[str, bytes] | Sequence[tuple[str, bytes]],
) -> dict[str, tuple[str, int]]:
    """The connection templates that the code names, each with the first file and line that does.

    Names are found where they are constants: ``ctx.fetch("shop", …)``, ``ctx.session("shop")`` and
    ``connection="shop"`` in a decorator. Files that do not parse name nothing.
    """
    named: dict[str, tuple[str, int]] = {}
    for path, content in files.items() if isinstance(files, Mapping) else files:
        tree = _parsed(path, content) if path.endswith(".py") else None
        if not isinstance(tree, ast.Module):
            continue
        for name, line in _named_in(tree):
            named.setdefault(name, (path, line))
    return named


def missing_templates(named: Mapping[str, tuple[str, int]], template_names: Collection[str]) -> list[Finding]:
    """An error for each template that code names and the environment does not have."""
    return [
        _error(
            f'the code uses the connection template "{name}", which this environment does not have; '
            f'create a ConnectionTemplate with spec.name "{name}", or correct the name',
            filename=path,
            line=line,
        )
        for name, (path, line) in named.items()
        if name not in template_names
    ]


def _check_names(paths: Sequence[str]) -> Iterator[Finding]:
    seen: set[str] = set()
    for path in paths:
        problem = _name_problem(path)
        if problem:
            yield _error(problem, filename=path)
        if path in seen:
            yield _error("there are two files of this name; keep one of them", filename=path)
        seen.add(path)
        if path == "requirements.txt" or path.endswith("/requirements.txt"):
            yield _error(
                "packages are not installed on deploy; remove this file, and use an image that has them "
                "(spec.runtime.image, based on the runtime image)",
                filename=path,
            )
    folders = {path[:index] for path in seen for index, letter in enumerate(path) if letter == "/"}
    for path in sorted(seen & folders):
        yield _error("this is the name of a file and of a folder; rename one of them", filename=path)
    if MAIN not in seen:
        yield _error(f"there is no {MAIN}; it is the file that is run: add it")


def _name_problem(path: str) -> str | None:
    if not path:
        return "a file has no name; give it a relative path such as main.py"
    if len(path) > MAX_PATH:
        return f"the path has {len(path)} characters, at most {MAX_PATH} are allowed"
    if path.startswith("/") or re.match(r"[A-Za-z]:", path):
        return "the path is absolute; write it relative to the project, such as shop/orders.py"
    if "\\" in path:
        return "the path has a backslash; separate folders by /"
    if _CONTROL.search(path):
        return "the path has control characters; use printable ones"
    segments = path.split("/")
    if ".." in segments:
        return 'the path has "..", which could leave the project; write it without'
    if "" in segments or "." in segments:
        return 'the path has empty parts or "."; write it without'
    if any(len(segment.encode("utf-8", "replace")) > MAX_SEGMENT_BYTES for segment in segments):
        return f"a part of the path has more than {MAX_SEGMENT_BYTES} bytes; shorten it"
    return None


def _check_sizes(files: Sequence[tuple[str, bytes]]) -> Iterator[Finding]:
    for path, content in files:
        if len(content) > MAX_FILE_BYTES:
            yield _error(
                f"the file has {len(content):,} bytes, at most {MAX_FILE_BYTES:,} (1 MiB) are allowed",
                filename=path,
            )
    total = sum(len(content) for _, content in files)
    if total > MAX_TOTAL_BYTES:
        yield _error(
            f"the files have {total / _MIB:.1f} MiB together, at most {MAX_TOTAL_BYTES // _MIB} are allowed"
        )


def _check_labels(labels: Mapping[str, str]) -> Iterator[Finding]:
    for key in labels:
        if not _LABEL_KEY.fullmatch(key):
            yield _error(
                f'the label key "{key[:100]}" must start with a letter and hold only letters, digits and '
                "underscores (at most 63)"
            )


def _check_python(files: Sequence[tuple[str, bytes]]) -> Iterator[Finding]:
    for path, content in files:
        if not path.endswith(".py"):
            continue
        parsed = _parsed(path, content)
        if isinstance(parsed, Finding):
            yield parsed


def _parsed(path: str, content: bytes) -> ast.Module | Finding:
    """The syntax tree, or why there is none. Compiles as well: that finds a ``return`` outside a function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(content, filename=path)
            compile(tree, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        line = error.lineno if error.lineno and error.lineno > 0 else None
        return _error(f"Python cannot read this: {error.msg}", filename=path, line=line)
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return _error(f"Python cannot read this: {error or type(error).__name__}", filename=path)
    return tree


def _named_in(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_context_call(node.func) and node.args:
            yield from _constant(node.args[0])
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
                for keyword in keywords:
                    if keyword.arg == _DECORATOR_KEYWORD:
                        yield from _constant(keyword.value)


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


def _told(finding: Finding) -> str:
    place = f"{finding.filename}:{finding.line}" if finding.line else finding.filename
    return f"{place}: {finding.message}" if place else finding.message


def _error(message: str, *, filename: str | None = None, line: int | None = None) -> Finding:
    # A name may be what is wrong with a file: cut to what a Finding's field holds.
    shown = (filename[:MAX_PATH] or None) if filename else None
    return Finding(filename=shown, line=line, severity=Severity.ERROR, message=message[:2048])
