"""A plugin of mypy: ``get`` of a key that a TypedDict does not have is an error, as reading it in brackets is.

mypy takes what such a ``get`` gives for an object, so a misspelt key in a condition would pass.
"""

from collections.abc import Callable

from mypy.errorcodes import TYPEDDICT_ITEM
from mypy.plugin import MethodContext, Plugin
from mypy.plugins.default import typed_dict_get_callback
from mypy.typeops import try_getting_str_literals
from mypy.types import Type, TypedDictType


class TypedDictKeys(Plugin):
    """Checks the keys of ``get``."""

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        return _get if fullname == "typing.Mapping.get" else None


def _get(ctx: MethodContext) -> Type:
    if isinstance(ctx.type, TypedDictType) and ctx.args and ctx.args[0]:
        keys = try_getting_str_literals(ctx.args[0][0], ctx.arg_types[0][0]) or []
        for key in keys:
            if key not in ctx.type.items:
                ctx.api.fail(f'{_named(ctx.type)} has no key "{key}"', ctx.context, code=TYPEDDICT_ITEM)
    return typed_dict_get_callback(ctx)


def _named(found: TypedDictType) -> str:
    return f'TypedDict "{found.fallback.type.name}"' if not found.is_anonymous() else "TypedDict"


def plugin(version: str) -> type[Plugin]:
    """What mypy loads."""
    return TypedDictKeys
