"""Auth schemes of type ``hmac``: what their fields mean, and the presets of well-known senders.

Platform and pods read the options of a scheme with ``parse``, so both refuse the same. A preset is stored as it was
written, and expanded here.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

MAX_INPUTS = 16
MAX_SIGNATURES = 16
"""How many signatures of one header are compared; senders send several while a secret is rotated."""
DEFAULT_TOLERANCE = 300

INPUT_PATTERN = r"^(body|url|timestamp|id|header:[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}|literal:[\s\S]{1,128})$"
_INPUT = re.compile(INPUT_PATTERN)
INPUT_WORDS = "body, url, timestamp, id, header:NAME or literal:TEXT"

_ALGORITHMS = ("sha1", "sha256", "sha512")
_LOCATIONS = ("query", "header", "cookie")
_ENCODINGS = ("hex", "base64", "base64url")
_FORMATS = ("plain", "fields", "list")
_KEY_ENCODINGS = ("text", "base64")
_NEEDED = ("name", "in", "algorithm", "digestInputs")

InputKind = Literal["body", "url", "timestamp", "id", "header", "literal"]

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "github": {
        "name": "X-Hub-Signature-256",
        "in": "header",
        "algorithm": "sha256",
        "digestInputs": ["body"],
        "prefix": "sha256=",
        "idHeader": "X-GitHub-Delivery",
    },
    "meta": {
        "name": "X-Hub-Signature-256",
        "in": "header",
        "algorithm": "sha256",
        "digestInputs": ["body"],
        "prefix": "sha256=",
    },
    "shopify": {
        "name": "X-Shopify-Hmac-Sha256",
        "in": "header",
        "algorithm": "sha256",
        "digestInputs": ["body"],
        "encoding": "base64",
        "idHeader": "X-Shopify-Webhook-Id",
    },
    "slack": {
        "name": "X-Slack-Signature",
        "in": "header",
        "algorithm": "sha256",
        "digestInputs": ["literal:v0:", "timestamp", "literal::", "body"],
        "prefix": "v0=",
        "timestampHeader": "X-Slack-Request-Timestamp",
    },
    "standard-webhooks": {
        "name": "Webhook-Signature",
        "in": "header",
        "algorithm": "sha256",
        "digestInputs": ["id", "literal:.", "timestamp", "literal:.", "body"],
        "encoding": "base64",
        "signatureFormat": "list",
        "prefix": "v1,",
        "timestampHeader": "Webhook-Timestamp",
        "idHeader": "Webhook-Id",
        "keyEncoding": "base64",
        "keyPrefix": "whsec_",
    },
    "stripe": {
        "name": "Stripe-Signature",
        "in": "header",
        "algorithm": "sha256",
        "digestInputs": ["timestamp", "literal:.", "body"],
        "signatureFormat": "fields",
        "signatureField": "v1",
        "timestampField": "t",
    },
}
"""The options that each preset stands for."""

SET_BY_PRESET = (
    "name",
    "in",
    "algorithm",
    "digestInputs",
    "encoding",
    "signatureFormat",
    "signatureField",
    "prefix",
    "timestampHeader",
    "timestampField",
    "idHeader",
    "keyEncoding",
    "keyPrefix",
)
"""The options that cannot be given beside a preset: all but ``toleranceSeconds``."""


class InvalidSignatureSchemeError(ValueError):
    """The options do not describe a signature; the message says why, and names no secret."""


@dataclass(frozen=True)
class DigestInput:
    """One part of what is signed."""

    kind: InputKind
    argument: str = ""
    """The name of a header, or the text of a literal."""


@dataclass(frozen=True, kw_only=True)
class SignatureScheme:
    """How requests are signed."""

    name: str
    location: str
    """Where the signature is: ``header``, ``query`` or ``cookie``."""
    algorithm: str
    inputs: tuple[DigestInput, ...]
    encoding: str
    format: str
    """``plain``: one signature; ``fields``: ``t=…,v1=…``; ``list``: signatures with spaces between them."""
    signature_field: str
    prefix: str
    timestamp_header: str
    timestamp_field: str
    id_header: str
    tolerance_seconds: int
    key_encoding: str
    key_prefix: str
    preset: str

    @property
    def has_timestamp(self) -> bool:
        """Whether requests say when they were signed."""
        return bool(self.timestamp_header or self.timestamp_field)

    def signs(self, kind: InputKind) -> bool:
        """Whether the signature covers an input of this kind."""
        return any(one.kind == kind for one in self.inputs)


def parse(options: Mapping[str, Any]) -> SignatureScheme:
    """The scheme that an ``hmac`` object describes, with its preset expanded. Raises InvalidSignatureSchemeError."""
    problem = next(_problems(options), None)
    if problem:
        raise InvalidSignatureSchemeError(problem)
    known = {**options, **PRESETS.get(str(options.get("preset") or ""), {})}
    return SignatureScheme(
        name=str(known["name"]),
        location=str(known["in"]),
        algorithm=str(known["algorithm"]),
        inputs=tuple(_input(str(one)) for one in known["digestInputs"]),
        encoding=_text(known, "encoding") or "hex",
        format=_text(known, "signatureFormat") or "plain",
        signature_field=_text(known, "signatureField"),
        prefix=_text(known, "prefix"),
        timestamp_header=_text(known, "timestampHeader"),
        timestamp_field=_text(known, "timestampField"),
        id_header=_text(known, "idHeader"),
        tolerance_seconds=int(known.get("toleranceSeconds") or DEFAULT_TOLERANCE),
        key_encoding=_text(known, "keyEncoding") or "text",
        key_prefix=_text(known, "keyPrefix"),
        preset=_text(known, "preset"),
    )


def problem_of(options: Mapping[str, Any]) -> str | None:
    """What is wrong with an ``hmac`` object; None where nothing is."""
    return next(_problems(options), None)


def _problems(options: Mapping[str, Any]) -> Iterator[str]:
    tolerance = options.get("toleranceSeconds")
    if tolerance is not None and not (isinstance(tolerance, int) and tolerance > 0):
        yield "toleranceSeconds is a number of seconds from 1 on"
    if preset := options.get("preset"):
        yield from _preset_problems(str(preset), options)
        return
    if options.get("digestInputs") in ([], ()):
        yield f"digestInputs is empty, so nothing is signed; add inputs: {INPUT_WORDS}"
    if missing := [name for name in _NEEDED if not options.get(name)]:
        presets = ", ".join(PRESETS)
        yield f"set {', '.join(missing)}, or a preset ({presets}) in place of name, in, algorithm and digestInputs"
    yield from _choice(options, "in", _LOCATIONS)
    yield from _choice(options, "algorithm", _ALGORITHMS)
    yield from _choice(options, "encoding", _ENCODINGS)
    yield from _choice(options, "signatureFormat", _FORMATS)
    yield from _choice(options, "keyEncoding", _KEY_ENCODINGS)
    yield from _input_problems(options)
    yield from _format_problems(options)


def _preset_problems(preset: str, options: Mapping[str, Any]) -> Iterator[str]:
    if preset not in PRESETS:
        yield f'there is no preset "{preset}"; there are {", ".join(PRESETS)}'
    if set_too := [name for name in SET_BY_PRESET if options.get(name)]:
        yield (
            f"preset {preset} sets {', '.join(set_too)}: leave {'that' if len(set_too) == 1 else 'those'} out, or "
            "leave out preset and set all of name, in, algorithm and digestInputs"
        )


def _input_problems(options: Mapping[str, Any]) -> Iterator[str]:
    inputs = options["digestInputs"]
    if not isinstance(inputs, list | tuple) or len(inputs) > MAX_INPUTS:
        yield f"digestInputs is a list of 1 to {MAX_INPUTS} inputs"
    for one in inputs:
        if not _INPUT.fullmatch(str(one)):
            yield f'digestInputs holds "{str(one)[:50]}"; an input is {INPUT_WORDS}'
    has_timestamp = options.get("timestampHeader") or options.get("timestampField")
    if "timestamp" in inputs and not has_timestamp:
        yield (
            "digestInputs holds timestamp: set timestampHeader, or timestampField where the signature's header has it"
        )
    if options.get("timestampHeader") and options.get("timestampField"):
        yield "timestampHeader and timestampField exclude each other; set the one that has the time"
    if "id" in inputs and not options.get("idHeader"):
        yield "digestInputs holds id: set idHeader, the header with the sender's id of the request"


def _format_problems(options: Mapping[str, Any]) -> Iterator[str]:
    is_fields = options.get("signatureFormat") == "fields"
    if is_fields and not options.get("signatureField"):
        yield "signatureFormat fields needs signatureField, such as v1 for t=…,v1=…"
    if is_fields and options.get("prefix"):
        yield "prefix is for the signatureFormats plain and list; with fields, signatureField names the signature"
    for name in ("signatureField", "timestampField"):
        if options.get(name) and not is_fields:
            yield f"{name} needs signatureFormat fields"
        if not _is_field_name(_text(options, name)):
            yield f"{name} must hold no comma, equals sign or space"


def _is_field_name(text: str) -> bool:
    return set(text).isdisjoint(",= \t")


def _choice(options: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> Iterator[str]:
    value = options.get(name)
    if value is not None and str(value) not in choices:
        yield f"{name} must be one of {', '.join(choices)}"


def _input(text: str) -> DigestInput:
    kind, _, argument = text.partition(":")
    return DigestInput(cast("InputKind", kind), argument)


def _text(options: Mapping[str, Any], name: str) -> str:
    value = options.get(name)
    return "" if value is None else str(value)
