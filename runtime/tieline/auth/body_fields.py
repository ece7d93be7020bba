"""Fields of a request's body that signatures and challenges name: of a JSON body, or of a form."""

import json
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl

from tieline.auth.static_values import is_form
from tieline_protocol.signature_fields import FieldError, no_duplicates, values_at

MAX_FORM_FIELDS = 1000
_CHARSETS = frozenset(("", "utf-8", "utf8", "us-ascii"))


class BodyFields:
    """A body, read once as JSON or as a form, as its content type says."""

    def __init__(self, content: bytes, content_type: str = "") -> None:
        self.content = content
        self.is_form = is_form(content_type)
        self._charset = _charset(content_type)

    @cached_property
    def json(self) -> Any:
        """The JSON body, with numbers as the text that they are. Raises FieldError."""
        try:
            text = self.content.decode("utf-8-sig")
            return json.loads(
                text, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=no_duplicates
            )
        except FieldError:
            raise
        except (ValueError, RecursionError):
            raise FieldError("its body is not JSON, which its signature needs") from None

    @cached_property
    def form(self) -> list[tuple[str, str]]:
        """The fields of a form, in their order; none for another body. Raises FieldError."""
        if not self.is_form:
            return []
        if self._charset not in _CHARSETS:
            raise FieldError("its form is in another charset than UTF-8")
        try:
            return parse_qsl(
                self.content.decode().rstrip(),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=MAX_FORM_FIELDS,
            )
        except ValueError:
            raise FieldError(
                f"its form cannot be read: it is not UTF-8, or has more than {MAX_FORM_FIELDS} fields"
            ) from None

    def values(self, path: str) -> list[str]:
        """All values of a field. Raises FieldError."""
        if self.is_form:
            return [value for name, value in self.form if name == path]
        return values_at(self.json, path)

    def one(self, path: str) -> str:
        """The one value of a field; empty where there is none. Raises FieldError."""
        found = self.values(path)
        if len(found) > 1:
            raise FieldError(f"its field {path} occurs {len(found)} times; the signature covers one")
        return found[0] if found else ""


def _charset(content_type: str) -> str:
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"').lower()
    return ""
