"""The typed module of a description: a class with a method for each operation, and the types of what they take."""

import re
from collections.abc import Mapping
from typing import Any

from tieline.cli.connector_code.descriptions import RESERVED
from tieline.cli.connector_code.names import Names, class_name, docstring, literal, snake_name
from tieline.cli.connector_code.paging import Json, resolved
from tieline.cli.connector_code.types import Types
from tieline.connectors.paging import set_by_paging
from tieline.connectors.requests import MULTIPART
from tieline_protocol.openapi_parameters import FORM, NO_PARAMETERS, is_json

HEADER = "Written by `tieline connectors add`: run it again instead of changing this file."
_GROUPS = ("path", "query", "headers")
_IMPORTED = ("Any", "Literal", "NotRequired", "TypedDict", "Unpack", "cast")
_OPTIONS = '''\
class CallOptions(TypedDict, total=False):
    """What every operation takes beside its parameters; see `Context.fetch`."""

    timeout: float
    retries: int
    allow_redirects: bool'''
_PAGE_OPTIONS = '''\
class PageOptions(CallOptions, total=False):
    """What a list in pages takes as well; see `Context.call_pages`."""

    max_pages: int'''
_TAKEN = ("self", "body", "cast", "options", "headers", "timeout", "retries", "allow_redirects", "max_pages")
"""Names that no parameter gets: those of the options are among them."""


def module_of(description: Mapping[str, Any], name: str, *, plain: bool = False) -> str:
    """Python source for a description that is stored as ``name``.json; the same for the same description.

    ``plain`` writes it for plain functions, whose context needs no ``await``.
    """
    return _Module(description, name, plain=plain).text()


def class_named(name: str) -> str:
    """The name of the class with the operations."""
    found = class_name(name, default="Connector")
    return f"{found}Connector" if found in RESERVED else found


class _Module:
    def __init__(self, description: Mapping[str, Any], name: str, *, plain: bool) -> None:
        self._description = description
        self._schemas: Mapping[str, Any] = description["schemas"]
        self._name = name
        self._class = class_named(name)
        self._plain = plain
        self._types = Types(self._schemas, Names({*RESERVED, self._class, *self._schemas}))
        self._types.write_all()
        self._methods = Names({"self", "_ctx", "_template"})

    def text(self) -> str:
        operations = self._description["operations"]
        names = {key: self._methods.free(_method_name(key)) for key in operations}
        methods = [
            part for key, item in operations.items() for part in self._operation(key, names[key], item)
        ]
        context = "SyncContext" if self._plain else "Context"
        connector = self._description["connector"]
        version = f", version {connector['version']}" if connector["version"] else ""
        about = docstring(f"{connector['name']}{version}.")
        client = self._client(context, about, methods)
        options = [
            text
            for name, text in (("CallOptions", _OPTIONS), ("PageOptions", _PAGE_OPTIONS))
            if methods and (name == "CallOptions" or f"Unpack[{name}]" in client)
        ]
        body = "\n\n\n".join([*self._types.classes.values(), *options, client])
        typing = [item for item in _IMPORTED if re.search(rf"\b{item}\b", body)]
        iterator = "Iterator" if self._plain else "AsyncIterator"
        lines = [
            f'"""{about} {HEADER}"""',
            "# fmt: off",
            "# ruff: noqa",
            "",
            "from __future__ import annotations",
            "",
            *([f"from collections.abc import {iterator}"] if f"{iterator}[" in body else []),
            f"from typing import {', '.join(typing)}",
            "",
            f"from tieline import {context}",
        ]
        return "\n".join(lines) + f"\n\n\n{body}\n"

    def _client(self, context: str, about: str, methods: list[str]) -> str:
        return "\n\n".join(
            [
                f'class {self._class}:\n    """The operations of {about}"""',
                f"    def __init__(self, ctx: {context}[Any], template: str = {literal(self._name)}) -> None:\n"
                f'        """``template`` is the connection template that leads to the system."""\n'
                "        self._ctx = ctx\n"
                "        self._template = template",
                *methods,
            ]
        )

    def _operation(self, key: str, name: str, operation: Json) -> list[str]:
        found = [self._method(key, name, operation)]
        if operation.get("pages"):
            found.append(self._paged(key, self._methods.free(f"{name}_pages"), operation))
        return found

    def _method(self, key: str, name: str, operation: Json) -> str:
        answer = self._answer(key, operation)
        signature, given = self._arguments(key, operation, frozenset())
        start, wait = ("def", "") if self._plain else ("async def", "await ")
        call = f"{wait}self._ctx.call("
        if answer in ("Any", "None"):
            body = _call(f"{'return ' if answer == 'Any' else ''}{call}", self._given(key, given))
        else:
            body = _cast(answer, call, self._given(key, given))
        return self._function(start, name, signature, answer, operation, body)

    def _paged(self, key: str, name: str, operation: Json) -> str:
        iterator = f"{'Iterator' if self._plain else 'AsyncIterator'}[{self._item(key, operation)}]"
        skipped = set_by_paging(operation["pages"])
        signature, given = self._arguments(key, operation, skipped)
        call = "self._ctx.call_pages("
        if iterator.endswith("[Any]"):
            body = _call(f"return {call}", self._given(key, given))
        else:
            body = _cast(iterator, call, self._given(key, given))
        note = "The items of all pages, one after the other. "
        options = "PageOptions"
        return self._function("def", name, signature, iterator, operation, body, note=note, options=options)

    def _function(
        self,
        start: str,
        name: str,
        signature: list[str],
        answer: str,
        operation: Json,
        body: str,
        *,
        note: str = "",
        options: str = "CallOptions",
    ) -> str:
        parameters = "".join(
            f"        {item},\n" for item in ["self", *signature, f"**options: Unpack[{options}]"]
        )
        where = "" if operation.get("document") else f" ({operation['method']} {operation['path']})"
        text = docstring(f"{operation.get('summary', '')}{where}")
        return f'    {start} {name}(\n{parameters}    ) -> {answer}:\n        """{note}{text}"""\n{body}'

    def _given(self, key: str, given: list[str]) -> list[str]:
        return ["self._template", literal(key), f"connector={literal(self._name)}", *given, "**options"]

    def _arguments(self, key: str, operation: Json, skipped: frozenset[str]) -> tuple[list[str], list[str]]:
        """The parameters of a method, and the arguments of the call in it."""
        names = Names(_TAKEN)
        positional: list[str] = []
        keywords: list[tuple[bool, str]] = []
        groups: dict[str, list[str]] = {group: [] for group in _GROUPS}
        for item in operation.get("parameters", ()):
            where = item["in"]
            if where == "header" and item["name"].lower() in NO_PARAMETERS:
                continue
            if where == "query" and item["name"] in skipped:
                continue
            name = names.free(snake_name(item["name"], default="parameter"))
            kind = self._types.of(item.get("schema"), f"{class_name(key)}{class_name(item['name'])}")
            group = where if where in ("path", "query") else "headers"
            groups[group].append(f"{literal(item['name'])}: {name}")
            if where == "path":
                positional.append(f"{name}: {kind}")
            elif item.get("required"):
                keywords.append((False, f"{name}: {kind}"))
            else:
                keywords.append((True, f"{name}: {_optional(kind)} = None"))
        body = operation.get("body")
        if body is not None:
            kind = self._body(key, body, f"{class_name(key)}Request", sent=True)
            if body["required"]:
                positional.append(f"body: {kind}")
            else:
                positional.append(f"body: {_optional(kind)} = None")
        ordered = [text for _, text in sorted(keywords, key=lambda pair: pair[0])]
        signature = [*positional, "*", *ordered, "headers: dict[str, str] | None = None"]
        given = [
            f"{group}={{{', '.join(items)}}}"
            for group, items in groups.items()
            if items and group != "headers"
        ]
        more = f"{{{', '.join(groups['headers'])}, **(headers or {{}})}}" if groups["headers"] else "headers"
        given.append(f"headers={more}")
        return signature, [*given, *(["body=body"] if body is not None else [])]

    def _answer(self, key: str, operation: Json) -> str:
        answers = operation.get("answers", {})
        successes = [body for status, body in answers.items() if status[0] == "2"] or [
            body for status, body in answers.items() if status == "default"
        ]
        if not successes:
            return "Any"
        kinds = [
            self._body(key, body, f"{class_name(key)}Response") if body else "None" for body in successes
        ]
        if "Any" in kinds:
            return "Any"
        return " | ".join(sorted(dict.fromkeys(kinds), key=lambda kind: kind == "None"))

    def _item(self, key: str, operation: Json) -> str:
        answers = operation["answers"]
        body = next(answers[status] for status in ("200", "2XX", "default") if answers.get(status))
        schema: Any = resolved(body.get("schema"), self._schemas)
        if operation.get("document"):
            return self._types.of(self._node(schema, operation["pages"]["items"]), f"{class_name(key)}Item")
        if items := operation["pages"]["items"]:
            schema = resolved(schema["properties"][items], self._schemas)
        return self._types.of(schema.get("items"), f"{class_name(key)}Item")

    def _node(self, data: Any, place: str) -> Any:
        """The schema of a connection's items."""
        connection = data
        for step in place.split("."):
            connection = self._there(connection["properties"][step])
        if "nodes" in connection["properties"]:
            return self._there(connection["properties"]["nodes"]).get("items")
        edge = self._there(self._there(connection["properties"]["edges"]).get("items"))
        return edge.get("properties", {}).get("node")

    def _there(self, schema: Any) -> Mapping[str, Any]:
        """What a value is that is not null."""
        found = resolved(schema, self._schemas)
        return resolved(found["anyOf"][0], self._schemas) if "anyOf" in found else found

    def _body(self, key: str, body: Json, name: str, *, sent: bool = False) -> str:
        if is_json(body["mediaType"]):
            return self._types.of(body.get("schema"), name)
        if sent and body["mediaType"] in (FORM, MULTIPART) and self._types.has_fields(body.get("schema")):
            return self._types.of(body.get("schema"), name)
        if body["mediaType"].startswith("text/"):
            return "str"
        return "Any" if sent or body["mediaType"] == "*/*" else "bytes"


def _method_name(key: str) -> str:
    """The name of an operation's method. A method ``list`` would be what the types beside it take for a list."""
    name = snake_name(key, default="operation")
    return f"{name}_" if name in RESERVED else name


def _call(start: str, arguments: list[str], indent: str = "        ") -> str:
    return "\n".join([f"{indent}{start}", *(f"{indent}    {item}," for item in arguments), f"{indent})"])


def _cast(kind: str, start: str, arguments: list[str]) -> str:
    inner = _call(start, arguments, "            ")
    return f"        return cast(\n            {literal(kind)},\n{inner},\n        )"


def _optional(kind: str) -> str:
    return kind if kind == "Any" or kind.endswith("| None") or kind == "None" else f"{kind} | None"
