"""Writes what the console's editor completes: the public names of the SDK with their signatures.

``python -m deploy.sdk_completions`` writes the file, ``--check`` says whether it is current.
"""

import ast
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from typing import Any, get_type_hints

import tieline
from deploy.generated_page import ROOT, write_or_compare

TARGET = ROOT / "console" / "src" / "lib" / "sdk.json"
_MOST_SIGNATURE = 240
_MOST_DOC = 240


def completions() -> dict[str, Any]:
    """The names of the package, and the members of its classes by class."""
    public = {name: getattr(tieline, name) for name in sorted(tieline.__all__)}
    classes = {name: value for name, value in public.items() if inspect.isclass(value)}
    for found in list(classes.values()):
        for kind in _attribute_types(found).values():
            if inspect.isclass(kind) and kind.__module__.startswith("tieline"):
                classes.setdefault(kind.__name__, kind)
    members = {
        name: found
        for name, value in sorted(classes.items())
        if not issubclass(value, BaseException) and (found := list(_members(value, classes)))
    }
    names = [_described(name, value) for name, value in public.items()]
    return {"names": names, "members": members}


def _described(name: str, value: Any) -> dict[str, str]:
    kind = "class" if inspect.isclass(value) else "function" if callable(value) else "constant"
    return _without_empty(
        {
            "name": name,
            "kind": kind,
            "signature": _signature(value) if callable(value) else "",
            "doc": _doc(value),
        }
    )


def _members(value: type, classes: dict[str, type]) -> Iterator[dict[str, str]]:
    types = _attribute_types(value)
    names = {name for base in value.__mro__ if base is not object for name in vars(base)} | types.keys()
    for name in sorted(names):
        if name.startswith("_"):
            continue
        found = inspect.getattr_static(value, name, None)
        if inspect.isroutine(found) or isinstance(found, classmethod | staticmethod):
            bound = getattr(value, name)
            yield _without_empty(
                {"name": name, "kind": "method", "signature": _signature(bound), "doc": _doc(bound)}
            )
        else:
            kind = types.get(name)
            of = kind.__name__ if inspect.isclass(kind) and kind.__name__ in classes else ""
            doc = _doc(found) if isinstance(found, property) else ""
            yield _without_empty({"name": name, "kind": "property", "type": of, "doc": doc})


def _attribute_types(value: type) -> dict[str, Any]:
    """The types of public attributes and properties, as far as annotations give them."""
    found: dict[str, Any] = {}
    for base in reversed(value.__mro__):
        if not base.__module__.startswith("tieline"):
            continue
        try:
            found |= get_type_hints(base)
        except (NameError, TypeError):
            found |= dict.fromkeys(vars(base).get("__annotations__", {}))
        found |= _made_in_init(base)
        for name, member in vars(base).items():
            if isinstance(member, property) and member.fget is not None:
                try:
                    found[name] = get_type_hints(member.fget).get("return")
                except (NameError, TypeError):
                    found[name] = None
    return {name: kind for name, kind in found.items() if not name.startswith("_")}


def _made_in_init(value: type) -> dict[str, Any]:
    """The classes of what ``__init__`` assigns to attributes as ``self.log = Log(…)``."""
    init = vars(value).get("__init__")
    if not inspect.isfunction(init):
        return {}
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(init)))
    except (OSError, TypeError, SyntaxError):
        return {}
    return {
        node.targets[0].attr: init.__globals__.get(node.value.func.id)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Attribute)
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
    }


def _signature(value: Any) -> str:
    try:
        written = str(inspect.signature(value))
    except (TypeError, ValueError):
        return ""
    written = re.sub(r"\(self(, )?", "(", written, count=1)
    written = re.sub(r"<[^=]*? at 0x[0-9a-f]+>|<[^<>]*>", "…", written)
    written = re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)", "", written).replace("'", "").replace("~", "")
    return written if len(written) <= _MOST_SIGNATURE else f"{written[: _MOST_SIGNATURE - 1]}…"


def _doc(value: Any) -> str:
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split()).replace("``", "")
    return text if len(text) <= _MOST_DOC else f"{text[: _MOST_DOC - 1]}…"


def _without_empty(fields: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}


def _text(found: dict[str, Any]) -> str:
    """JSON with a name a line: who changes one changes one line."""

    def compact(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    names = ",\n".join(map(compact, found["names"]))
    members = ",\n".join(f"{compact(name)}:{compact(value)}" for name, value in found["members"].items())
    return f'{{"names":[\n{names}\n],"members":{{\n{members}\n}}}}\n'


if __name__ == "__main__":
    sys.exit(write_or_compare(TARGET, _text(completions())))
