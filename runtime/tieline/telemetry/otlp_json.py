"""Spans as OTLP in JSON (opentelemetry-proto 1.x), written by hand: the image needs no protobuf for it."""

import json
import math
from collections.abc import Callable, Mapping, Sequence

from tieline.telemetry.redaction import MASK
from tieline.telemetry.spans import Span, Value

Redact = Callable[[str], str]
_KINDS = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "CONSUMER": 5}
_OK, _ERROR = 1, 2
_KEPT = frozenset({str, int})
_REMOTE, _LOCAL = 0x301, 0x101
_MASKED = f'"{MASK}"'
# Made once: json.dumps makes a new encoder on each call that is given options.
_json = json.JSONEncoder(ensure_ascii=False).encode


def encode(spans: Sequence[Span], *, resource: Mapping[str, Value], redact: Redact) -> bytes:
    """The body of an export request. ``redact`` sees every text that code or callers have chosen."""
    texts = _Texts(redact)
    attributes = _Attributes(texts)
    body = (
        f'{{"resourceSpans":[{{"resource":{{"attributes":{attributes.array(resource)}}},'
        f'"scopeSpans":[{{"scope":{{"name":"tieline"}},"spans":['
        f"{','.join([_span(span, texts, attributes) for span in spans])}]}}]}}]}}"
    )
    # Lone surrogates, which no UTF-8 has, become question marks.
    return body.encode(errors="replace")


class _Texts(dict[str, str]):
    """Redacted texts as JSON. Each is looked at once: nearly all of a batch come again in every run."""

    def __init__(self, redact: Redact) -> None:
        super().__init__()
        self._redact = redact

    def __missing__(self, text: str) -> str:
        self[text] = quoted = _json(self._redact(text))
        return quoted


class _Attributes(dict[tuple[str, Value], str]):
    """Attributes as JSON, those with texts and whole numbers made once for a batch, too."""

    def __init__(self, texts: _Texts) -> None:
        super().__init__()
        self._texts = texts

    def __missing__(self, attribute: tuple[str, Value]) -> str:
        self[attribute] = made = self._made(attribute)
        return made

    def array(self, values: Mapping[str, Value]) -> str:
        """All of ``values``."""
        # Others are not kept, because True, 1 and 1.0 are one key of a dict.
        made = [self[one] if one[1].__class__ in _KEPT else self._made(one) for one in values.items()]
        return f"[{','.join(made)}]"

    def _made(self, attribute: tuple[str, Value]) -> str:
        key, value = attribute
        return f'{{"key":{self._texts[key]},"value":{self._value(value)}}}'

    def _value(self, value: Value) -> str:
        if isinstance(value, str):
            return _string(self._texts[value])
        if isinstance(value, bool):
            return f'{{"boolValue":{"true" if value else "false"}}}'
        if isinstance(value, int) and -(2**63) <= value < 2**63:
            # A number can be a secret, too.
            if self._texts[f"{value:d}"] == _MASKED:
                return _string(_MASKED)
            return f'{{"intValue":"{value:d}"}}'
        if isinstance(value, float) and math.isfinite(value):
            return f'{{"doubleValue":{_json(value)}}}'
        return _string(self._texts[str(value)])


def _string(quoted: str) -> str:
    return f'{{"stringValue":{quoted}}}'


def _span(span: Span, texts: _Texts, attributes: _Attributes) -> str:
    parent = f'"parentSpanId":"{span.parent_id}",' if span.parent_id else ""
    state = f'"traceState":{texts[span.state]},' if span.state else ""
    status = f'"code":{_OK}' if span.error is None else f'"code":{_ERROR},"message":{texts[span.error]}'
    return (
        f'{{"traceId":"{span.trace_id}","spanId":"{span.span_id}",{parent}{state}'
        f'"flags":{_REMOTE if span.remote_parent else _LOCAL},"name":{texts[span.name]},"kind":{_KINDS[span.kind]},'
        f'"startTimeUnixNano":"{span.start}","endTimeUnixNano":"{span.end}",'
        f'"attributes":{attributes.array(span.attributes)},"status":{{{status}}}}}'
    )
