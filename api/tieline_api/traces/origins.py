"""Whose spans they are, as attributes of their resource: for stores that know no owners.

Only a resource's attributes count, never a span's: the platform writes the former itself, over whatever a pod
has sent, while pods choose the latter freely.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import orjson

from tieline_api.traces import otlp_json, otlp_protobuf
from tieline_api.traces.otlp_batch import JSON, MAX_SPANS, TooManySpansError
from tieline_api.traces.spans import SERVICE_NAME, Owner, Span

ORGANISATION = "tieline.organisation.id"
PROJECT = "tieline.project.id"
ENVIRONMENT = "tieline.environment.id"
ORIGINAL_SERVICE = "tieline.service.name"
_OURS = frozenset({ORGANISATION, PROJECT, ENVIRONMENT, ORIGINAL_SERVICE, SERVICE_NAME})


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where spans come from."""

    owner: Owner
    service: str
    """What the environment is called in a store elsewhere: ``<namespace>/<workload>``, which never changes."""

    def attributes(self) -> dict[str, str]:
        """The resource attributes that tell it."""
        return {
            SERVICE_NAME: self.service,
            ORGANISATION: self.owner.organisation,
            PROJECT: self.owner.project,
            ENVIRONMENT: self.owner.environment,
        }


def with_origin(content_type: str, body: bytes, origin: Origin) -> tuple[bytes, int]:
    """An export request with ``origin`` in each of its resources, and how many spans it has.

    All else is passed on as it came. Raises OtlpDecodeError and TooManySpansError.
    """
    stamp = _stamped_json if content_type == JSON else _stamped_protobuf
    changed, count = stamp(body, origin)
    if count > MAX_SPANS:
        raise TooManySpansError
    return changed, count


def _stamped_protobuf(body: bytes, origin: Origin) -> tuple[bytes, int]:
    request = otlp_protobuf.message(body)
    count = 0
    for resource_spans in request.resource_spans:
        count += sum(len(scope.spans) for scope in resource_spans.scope_spans)
        attributes = resource_spans.resource.attributes
        kept = [pair for pair in attributes if pair.key not in _OURS]
        resource_attributes = {pair.key: pair.value.string_value for pair in attributes}
        del attributes[:]
        # Ours come first: readers cut what is too long.
        for key, value in _origin_attributes(origin, resource_attributes.get(SERVICE_NAME)).items():
            attributes.add(key=key).value.string_value = value
        attributes.extend(kept)
    return bytes(request.SerializeToString()), count


def _stamped_json(body: bytes, origin: Origin) -> tuple[bytes, int]:
    request = otlp_json.message(body)
    count = 0
    for resource_spans in otlp_json.objects(request, "resourceSpans"):
        scopes = otlp_json.objects(resource_spans, "scopeSpans")
        count += sum(len(otlp_json.objects(scope, "spans")) for scope in scopes)
        resource = otlp_json.child(resource_spans, "resource")
        attributes = otlp_json.objects(resource, "attributes")
        resource_attributes = dict(otlp_json.attributes(resource))
        resource["attributes"] = [
            *(
                {"key": key, "value": {"stringValue": value}}
                for key, value in _origin_attributes(origin, resource_attributes.get(SERVICE_NAME)).items()
            ),
            *(pair for pair in attributes if pair.get("key") not in _OURS),
        ]
        resource_spans["resource"] = resource
    return orjson.dumps(request), count


def _origin_attributes(origin: Origin, service: str | None) -> dict[str, str]:
    return origin.attributes() | ({ORIGINAL_SERVICE: service} if service else {})


def is_of(resource: Mapping[str, str], organisation: str, project: str) -> bool:
    """Whether a resource is of an environment of this project."""
    return (resource.get(ORGANISATION), resource.get(PROJECT)) == (organisation, project)


def shown(span: Span) -> Span:
    """A span that was read from elsewhere as it was before it was sent there."""
    kept = {key: value for key, value in span.attributes.items() if key not in _OURS}
    return replace(span, attributes=kept, service=span.attributes.get(ORIGINAL_SERVICE) or span.service)
