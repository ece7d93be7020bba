"""The types of custom resources as Kubernetes stores them, generated from the models.

Caches hold objects as the API server sends them, because parsing thousands of them costs too much. With these types
mypy checks reads by key at no cost at run time.

`make manifests` writes the file.
"""

import re
import types
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from tieline_core.resources import KINDS
from tieline_core.resources.connections import CredentialStatus
from tieline_core.resources.fields import STORED_DEFAULT, Shape
from tieline_core.resources.kinds import CustomResource
from tieline_core.resources.projects import EnvironmentSpec, EnvironmentStatus

PATH = Path("core/tieline_core/resources/objects.py")
"""The generated file, from the root of the repository."""

_LOOKED_UP: tuple[type[Shape], ...] = (CredentialStatus, EnvironmentSpec, EnvironmentStatus)
"""What look-ups give nothing of ({}) where it is not there: these have a form without required keys, too."""
_LONGEST_LINE = 110
_HEADER = '''"""The custom resources as Kubernetes stores them: what caches and the API server hand out.

Generated from tieline_core.resources by `make manifests`; do not edit. Keys that an object may lack are NotRequired.
All are ReadOnly, because objects of caches are shared.
"""

from typing import Any, Literal, NotRequired

from typing_extensions import ReadOnly, TypedDict

from tieline_core.objects import ObjectMeta
'''
_PLAIN: dict[Any, str] = {str: "str", int: "int", bool: "bool", float: "float", datetime: "str", Any: "Any"}


class UnknownTypeError(Exception):
    """A model with a field that has no form in JSON here; the message names the type."""


def render() -> str:
    """The module's text, the same for the same models."""
    shapes: dict[type[Shape], None] = {}
    for kind in KINDS:
        for part in ("spec", "status"):
            _collect(kind.model_fields[part].annotation, shapes)
    return "\n\n".join([_HEADER, *map(_shape, shapes), *map(_partial, _LOOKED_UP), *map(_kind, KINDS)])


def _collect(annotation: Any, found: dict[type[Shape], None]) -> None:
    """Adds the models in a type to ``found``, each after those that it refers to."""
    if _is_shape(annotation):
        if annotation in found:
            return
        for field in annotation.model_fields.values():
            _collect(field.annotation, found)
        found[annotation] = None
    elif get_origin(annotation) is not Literal:
        for argument in get_args(annotation):
            _collect(argument, found)


def _kind(kind: type[CustomResource]) -> str:
    name = kind.kind_info.name
    spec, status = (_type(kind.model_fields[part].annotation) for part in ("spec", "status"))
    return f'''class {name}Object(TypedDict):
    """A stored {name}."""

    apiVersion: ReadOnly[str]
    kind: ReadOnly[Literal["{name}"]]
    metadata: ReadOnly[ObjectMeta]
    spec: ReadOnly[{spec}]
    status: NotRequired[ReadOnly[{status}]]
'''


def _shape(model: type[Shape]) -> str:
    name = _name(model)
    fields = [
        (field.validation_alias or field.alias or key, field) for key, field in model.model_fields.items()
    ]
    if any(iskeyword(str(key)) for key, _ in fields):
        body = "".join(line for key, field in fields for line in _lines(f'        "{key}": ', field, ","))
        return f'{name} = TypedDict(\n    "{name}",\n    {{\n{body}    }},\n)\n'
    body = "".join(line for key, field in fields for line in _lines(f"    {key}: ", field, ""))
    head = f'class {name}(TypedDict):\n    """A stored {model.__name__}."""\n'
    return f"{head}\n{body}" if body else head


def _partial(model: type[Shape]) -> str:
    whole = _shape(model).replace(f"class {_name(model)}(", f"class Partial{_name(model)}(", 1)
    return re.sub(r": ReadOnly(.*)$", r": NotRequired[ReadOnly\1]", whole, flags=re.MULTILINE).replace(
        "A stored", "Nothing, or a stored"
    )


def _lines(start: str, field: FieldInfo, end: str) -> Iterator[str]:
    extra = field.json_schema_extra
    stored = field.is_required() or (isinstance(extra, dict) and STORED_DEFAULT in extra)
    inner = f"ReadOnly[{_type(field.annotation)}]"
    text = inner if stored else f"NotRequired[{inner}]"
    line = f"{start}{text}{end}"
    if len(line) <= _LONGEST_LINE:
        yield f"{line}\n"
        return
    yield from _wrapped(start, text, end)


def _wrapped(start: str, text: str, end: str) -> Iterator[str]:
    """A type over several lines, as ruff formats it."""
    outer, _, rest = text.partition("[")
    inner = rest.removesuffix("]")
    indent = " " * (len(start) - len(start.lstrip()))
    yield f"{start}{outer}[\n"
    deeper = f"{indent}    "
    if outer == "Literal":
        for value in inner.split(", "):
            yield f"{deeper}{value},\n"
    elif len(deeper) + len(inner) <= _LONGEST_LINE:
        yield f"{deeper}{inner}\n"
    else:
        yield from _wrapped(deeper, inner, "")
    yield f"{indent}]{end}\n"


def _type(annotation: Any) -> str:
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if _is_shape(annotation):
        return _name(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _literal(one.value for one in annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return _literal(arguments)
    if origin is Annotated:
        return _type(arguments[0])
    if origin in (Union, types.UnionType):
        # An optional field is one that may be absent: Kubernetes refuses null.
        return " | ".join(_type(one) for one in arguments if one is not types.NoneType)
    if origin in (list, dict):
        return f"{origin.__name__}[{', '.join(map(_type, arguments))}]"
    raise UnknownTypeError(f"{annotation} has no type in JSON here: add it to tieline_core.object_types")


def _literal(values: Any) -> str:
    quoted = [f'"{value}"' for value in values]
    return f"Literal[{', '.join(quoted)}]"


def _is_shape(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Shape)


def _name(model: type[Shape]) -> str:
    return f"{model.__name__}Dict"
