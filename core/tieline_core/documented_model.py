"""Models whose JSON schemas describe each field by the docstring below it.

Pydantic's ``use_attribute_docstrings`` reads the sources of all models when they are imported, which is a fifth of the
time that a process needs to start. Here they are read when a schema is made.
"""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

_Docs = Mapping[str, str]


class DocumentedModel(BaseModel):
    """A model with descriptions in its schema. A ``description`` of ``Field`` counts before a docstring."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        """The schema with descriptions."""
        schema = handler(core_schema)
        properties: dict[str, Any] = handler.resolve_ref_schema(schema).get("properties", {})
        for name, info in cls.model_fields.items():
            found = properties.get(info.alias or name, properties.get(name))
            text = _docstring(cls, name)
            if found is not None and text:
                found.setdefault("description", text)
        return schema


def _docstring(model: type[BaseModel], field: str) -> str | None:
    """The docstring of a field, in the class that declares it."""
    for one in model.__mro__:
        if field in vars(one).get("__annotations__", {}):
            return _docs_of(one.__module__).get(one.__qualname__, {}).get(field)
    return None


@lru_cache(maxsize=256)
def _docs_of(module: str) -> Mapping[str, _Docs]:
    """The docstrings of fields, by class and field."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError):
        return {}
    return dict(_classes(tree, ""))


def _classes(node: ast.AST, prefix: str) -> Iterator[tuple[str, _Docs]]:
    for one in ast.iter_child_nodes(node):
        if isinstance(one, ast.ClassDef):
            name = f"{prefix}{one.name}"
            yield name, dict(_fields(one))
            yield from _classes(one, f"{name}.")
        elif isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(one, f"{prefix}{one.name}.<locals>.")


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for before, one in zip(node.body, node.body[1:], strict=False):
        if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name):
            match one:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield before.target.id, inspect.cleandoc(text)
