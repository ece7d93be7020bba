"""Errors of the API: one form, a stable machine word, and what to do next.

Handlers raise ApiError (through the functions here); everything else that can go wrong on the way, from
pydantic to Kubernetes, is translated here and nowhere else, so that no answer holds an input's value, a
stack trace or a word of another organisation.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tieline_core.identity.ids import ULID_PATTERN
from tieline_core.kubernetes import errors as kube
from tieline_core.resources.fields import URL_PATTERN, URL_WORDS

MAX_FIELDS = 50
_MAX_MESSAGE = 1000
_RETRY_SECONDS = 2
_INPUT_WORDS = frozenset({"dict", "model_type", "model_attributes_type", "dataclass_type"})


@dataclass(frozen=True)
class FieldError:
    """What is wrong with one field; ``field`` is a path like ``credentials[0].credential.data``."""

    field: str
    message: str


class ApiError(Exception):
    """An answer that is an error. The message is for people and says what to do."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        fields: Iterable[FieldError] = (),
        details: str | None = None,
        extra: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """``details`` is more text for people; ``extra`` are fields of their own beside the contract's."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.fields = tuple(fields)[:MAX_FIELDS]
        self.details = details
        self.extra = dict(extra or {})
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The error as the contract's JSON object."""
        result: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.fields:
            result["fields"] = [{"field": item.field, "message": item.message} for item in self.fields]
        if self.details:
            result["details"] = self.details
        return {**self.extra, **result}


def malformed(message: str) -> ApiError:
    """400: the request cannot be read."""
    return ApiError(400, "malformed", message)


def unauthenticated(message: str) -> ApiError:
    """401 with the challenge that RFC 6750 asks for."""
    return ApiError(
        401,
        "unauthenticated",
        message,
        headers={"WWW-Authenticate": 'Bearer realm="tieline", charset="UTF-8"'},
    )


def forbidden(message: str) -> ApiError:
    """403: known, and not allowed."""
    return ApiError(403, "forbidden", message)


def not_found(what: str, identifier: str) -> ApiError:
    """404: no such thing in this organisation (ids that are none are simply not found)."""
    return ApiError(404, "not_found", f"There is no {what} {_shown(identifier)} in this organisation")


def organisation_not_found(identifier: str) -> ApiError:
    """404 for organisations that are not there, and for those that the caller must not know of."""
    return ApiError(
        404, "not_found", f"There is no organisation {_shown(identifier)}, or it is not yours to see"
    )


def project_not_found(identifier: str) -> ApiError:
    """404 where the organisation follows from the project, and that is not there or not for the caller to know."""
    return ApiError(404, "not_found", f"There is no project {_shown(identifier)}, or it is not yours to see")


def activation_not_found(identifier: str) -> ApiError:
    """404 where the organisation follows from the activation, as ``project_not_found``."""
    return ApiError(
        404, "not_found", f"There is no activation {_shown(identifier)}, or it is not yours to see"
    )


def conflict(message: str, *, details: str | None = None, **extra: Any) -> ApiError:
    """409: it contradicts what is there."""
    return ApiError(409, "conflict", message, details=details, extra=extra)


def precondition_failed() -> ApiError:
    """412: If-Match names another state than the current one."""
    return ApiError(
        412, "precondition_failed", "It was changed since you read it: read it again, and repeat your change"
    )


def too_large(what: str, *, limit: int) -> ApiError:
    """413 with the limit, in bytes, in the message."""
    return ApiError(
        413,
        "too_large",
        f"{what} may have at most {limit:,} bytes ({_mebibytes(limit)})",
        extra={"limit": limit},
    )


def invalid(field: str, message: str) -> ApiError:
    """422 about one field."""
    return invalid_fields([FieldError(field, message)])


def invalid_fields(fields: Iterable[FieldError]) -> ApiError:
    """422 about several fields."""
    found = tuple(fields)
    first = found[0]
    summary = f"{first.field}: {first.message}" if first.field else first.message
    more = f" (and {len(found) - 1} more, see fields)" if len(found) > 1 else ""
    return ApiError(422, "validation_failed", f"{summary}{more}"[:_MAX_MESSAGE], fields=found)


def unavailable(message: str, *, retry_after: float = _RETRY_SECONDS) -> ApiError:
    """503 with Retry-After."""
    return ApiError(503, "unavailable", message, headers={"Retry-After": str(max(1, round(retry_after)))})


def quota_exceeded(message: str) -> ApiError:
    """403: a quota of the organisation has no room for it."""
    return ApiError(403, "quota_exceeded", message)


def too_many_requests(message: str, *, retry_after: float) -> ApiError:
    """429 with Retry-After."""
    return ApiError(
        429, "too_many_requests", message, headers={"Retry-After": str(max(1, round(retry_after)))}
    )


Hint = Callable[[ErrorDetails], str]
"""More to say about one of pydantic's findings; empty where there is nothing."""


def from_validation(error: ValidationError, *, hint: Hint = lambda _item: "") -> ApiError:
    """422 from pydantic's findings, without the values they are about. ``hint`` follows each message."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return invalid_fields(
        FieldError(field_path(item["loc"]), _sentence(item) + hint(item)) for item in details[:MAX_FIELDS]
    )


def field_path(parts: Iterable[str | int]) -> str:
    """A path as people write it in JavaScript: ``credentials[0].credential.data``."""
    text = ""
    for part in parts:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            shown = part[:64]
            text += f".{shown}" if text else shown
    return text


def from_kube(error: kube.KubeError) -> ApiError:
    """The answer for an error of the Kubernetes API."""
    match error:
        case kube.NotFound():
            return ApiError(
                404, "not_found", "It no longer exists: another client deleted it in the meantime"
            )
        case kube.AlreadyExists():
            return conflict("Something with this id is there already")
        case kube.Conflict():
            return _from_conflict(error)
        case kube.Invalid():
            return _from_invalid(error)
        case kube.Forbidden():
            return ApiError(403, "refused_by_cluster", f"Kubernetes refuses this: {_cut(error.message)}")
        case kube.TooManyRequests():
            return too_many_requests(
                "Kubernetes has too much to do: try again", retry_after=error.retry_after or _RETRY_SECONDS
            )
        case _:
            return unavailable("Kubernetes cannot be reached right now: try again in a moment")


def _from_conflict(error: kube.Conflict) -> ApiError:
    owned = [item for item in error.conflicts if item.manager]
    if not owned:
        return conflict(
            "It is being changed by others again and again: read it again, and repeat your change"
        )
    first = owned[0]
    return ApiError(
        409,
        "conflict",
        f'The field {spec_path(first.field)} belongs to "{first.manager}": change it there, '
        "or make that manager give the field up",
        fields=[FieldError(spec_path(item.field), f'belongs to "{item.manager}"') for item in owned],
        extra={"managers": sorted({item.manager for item in owned})},
    )


def _from_invalid(error: kube.Invalid) -> ApiError:
    fields = [
        FieldError(
            spec_path(str(cause.get("field") or "")), _cut(_without_value(str(cause.get("message") or "")))
        )
        for cause in error.causes
        if cause.get("field") != "<nil>"  # "some rules were not checked", which helps nobody here
    ]
    return invalid_fields(fields) if fields else invalid("", _cut(_without_value(error.message)))


def spec_path(path: str) -> str:
    """A custom resource's field as REST names it: without the leading ``.spec``."""
    bare = path.strip().removeprefix(".").removeprefix("spec.")
    return bare or "spec"


def _without_value(message: str) -> str:
    """Kubernetes writes ``Invalid value: "…": reason``: only the reason is for answers."""
    head, found, rest = message.partition("Invalid value: ")
    if not found:
        return message
    _, _, reason = rest.rpartition(": ")
    return f"{head}{reason}" if reason else f"{head}the value is not allowed"


def _sentence(item: ErrorDetails) -> str:
    """Pydantic's message, with its class names taken out."""
    if item["type"] in _INPUT_WORDS or item["type"].endswith("model_type"):
        return "must be an object"
    if item["type"] == "missing":
        return "is required"
    if item["type"] == "string_pattern_mismatch" and ULID_PATTERN in item["msg"]:
        return "must be an id (a ULID), such as 01JD3Y7M5RZX9KQW8T2V4N6P0A"
    if item["type"] == "string_pattern_mismatch" and URL_PATTERN in item["msg"]:
        return URL_WORDS
    return _cut(item["msg"].removeprefix("Value error, ").replace("Input should be", "must be"))


def _cut(message: str) -> str:
    return message if len(message) <= _MAX_MESSAGE else f"{message[: _MAX_MESSAGE - 1]}…"


def _shown(identifier: str) -> str:
    return f'"{identifier[:64]}"'


def _mebibytes(limit: int) -> str:
    return f"{limit / 1048576:g} MiB" if limit >= 1048576 else f"{limit / 1024:g} KiB"
