"""Custom resource definitions, generated from the models.

Pydantic's JSON schema is not yet a CRD schema: Kubernetes wants a *structural* schema, without ``$ref``,
with one type a node. The translation here knows each keyword it may meet and fails on any other, so that a
new pydantic or a new kind of field cannot slip something past the API server.

`make manifests` writes the files.
"""

from typing import Any

import yaml

from tieline_core.identity.display_names import READABLE
from tieline_core.identity.ids import ULID_PATTERN
from tieline_core.objects import Json
from tieline_core.resources import KINDS
from tieline_core.resources.fields import STORED_DEFAULT, URL_PATTERN, URL_WORDS
from tieline_core.resources.kinds import CATEGORY, GROUP, VERSION, CustomResource, Kind
from tieline_core.resources.notification_channels import EMAIL_PATTERN, HOST_PATTERN
from tieline_core.resources.oauth2_dialect import (
    PARAMETER_PATTERN,
    PATH_PATTERN,
    VARIABLE_PATTERN,
)
from tieline_core.resources.projects import ENV_NAME_PATTERN, SCHEDULE_NAME_PATTERN
from tieline_core.resources.system_inputs import ANCHORED, NAME_PATTERN, SUFFIX_PATTERN
from tieline_protocol.request_limits import PER
from tieline_protocol.signature_fields import CONDITION_PATTERN, PLACE_PATTERN, PLACE_WORDS
from tieline_protocol.signatures import (
    BODY_HASH_PATTERN,
    INPUT_PATTERN,
    INPUT_WORDS,
    SIGNATURE_NAME_PATTERN,
)
from tieline_protocol.url_inputs import HOST_PATTERN as URL_HOST_PATTERN

_KEPT = frozenset(
    {
        "description",
        "enum",
        "format",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "minProperties",
        "pattern",
        "required",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    }
)
_DROPPED = frozenset({"title", "default", STORED_DEFAULT})
# Kubernetes shows the regular expression that a value does not match. A CEL rule has words in its place.
_WORDS = {
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$": (
        "must be the name of an object: lower case letters, digits, '-' and '.', and each part between dots starts and "
        "ends with a letter or digit"
    ),
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": (
        "must hold lower case letters, digits and '-' only, and start and end with a letter or digit"
    ),
    READABLE["pattern"]: "must not contain control characters or marks of text direction",
    r"^[ -~]*$": "must hold printable ASCII characters only",
    r"^/[^\s#\\]*$": "must be a path that starts with / and holds no spaces, '#' or backslashes",
    r"^https?://\S+$": "must be a URL that starts with http:// or https:// and holds no spaces",
    URL_PATTERN: URL_WORDS,
    r"^[!#$%&'*+.^_`|~0-9A-Za-z\[\]-]+$": (
        "must be the name of a header, parameter or cookie: letters, digits and !#$%&'*+-.^_`|~[] only, so no spaces"
    ),
    ENV_NAME_PATTERN: "must hold letters, digits and '_' only, and not start with a digit",
    PER: "must be a whole number with s, m or h, such as 1s or 10m",
    INPUT_PATTERN: f"must be {INPUT_WORDS}",
    PLACE_PATTERN: f"must be {PLACE_WORDS}",
    CONDITION_PATTERN: f"must be {PLACE_WORDS}; = and a text may follow",
    BODY_HASH_PATTERN: "must be claim:NAME, query:NAME or header:NAME",
    SIGNATURE_NAME_PATTERN: (
        "must be the name of a header, parameter or cookie, or the path of a field of the body, without spaces"
    ),
    ULID_PATTERN: "must be a ULID: 26 digits and capital letters without I, L, O and U",
    "^[0-9A-Za-z]([-.0-9A-Za-z]*[0-9A-Za-z])?$": (
        "must hold letters, digits, '-' and '.' only, and start and end with a letter or digit"
    ),
    SCHEDULE_NAME_PATTERN: "must hold letters, digits, '-', '_' and '.' only, and start with a letter or digit",
    HOST_PATTERN: "must be a host: letters, digits, '-', '_' and '.' only, without a scheme or a port",
    EMAIL_PATTERN: "must be one e-mail address, without a name or angle brackets",
    "^[0-9a-f]{64}$": "must be a SHA-256 digest: 64 digits and lower case letters from a to f",
    "^(header|body|both|none)$": "must be header, body, both or none",
    PATH_PATTERN: "must be a path such as authed_user.access_token or 0.id, or a JSON pointer, without spaces",
    VARIABLE_PATTERN: "must be the name of a variable: letters, digits, '_' and '-' only",
    PARAMETER_PATTERN: (
        "must be the name of a header or parameter: letters, digits and !#$%&'*+-.^_`|~:[] only, so no spaces"
    ),
    "^(openapi|graphql)$": "must be openapi or graphql",
    NAME_PATTERN: "must hold letters, digits, '_' and '-' only",
    ANCHORED: "must start with ^ and end with $, so that it describes the whole value",
    SUFFIX_PATTERN: "must hold letters, digits, '.', '-', '_' and '/' only",
    URL_HOST_PATTERN: "must be a host such as shop.example, or *. and a domain, without a scheme or a port",
    "^(HMAC-SHA1|HMAC-SHA256|HMAC-SHA512|RSA-SHA1|RSA-SHA256|RSA-SHA512|PLAINTEXT)$": (
        "must be HMAC-SHA1, HMAC-SHA256, HMAC-SHA512, RSA-SHA1, RSA-SHA256, RSA-SHA512 or PLAINTEXT"
    ),
}
# kstatus, and so Flux and Argo CD, takes an object without a status for one that has settled.
_NOT_SEEN = {"observedGeneration": -1}
# Keys of ConfigMaps, in lists within lists: as rules they exceed what the API server lets the rules of a kind cost.
_TOO_COSTLY = frozenset({r"^[-._a-zA-Z0-9]+$"})


class _Plain(yaml.SafeDumper):
    """YAML without anchors, as people expect it in a manifest."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class SchemaError(Exception):
    """A model that Kubernetes cannot express; the message names the place."""


def structural(schema: Json, *, definitions: Json, path: str) -> Json:
    """The structural form of a JSON schema that pydantic generated.

    ``definitions`` is the document's ``$defs``; ``path`` is for messages. Raises SchemaError on a keyword
    that has no meaning in a CRD, and on lists, maps and strings without a bound.
    """
    schema = _without_reference(schema, definitions=definitions, path=path)
    schema = _without_null(schema, definitions=definitions, path=path)
    result: Json = {"default": schema[STORED_DEFAULT]} if STORED_DEFAULT in schema else {}
    for keyword, value in schema.items():
        if keyword in _DROPPED:
            continue
        if keyword in _KEPT:
            result[keyword] = _one_paragraph(value) if keyword == "description" else value
        elif keyword == "anyOf" and schema.get("x-kubernetes-int-or-string"):
            result[keyword] = value
        elif keyword == "const":
            result["enum"] = [value]
        elif keyword in ("exclusiveMinimum", "exclusiveMaximum"):
            result[keyword.replace("exclusiveM", "m")] = value
            result[keyword] = True
        elif keyword == "properties":
            result[keyword] = {
                name: structural(child, definitions=definitions, path=f"{path}.{name}")
                for name, child in value.items()
            }
        elif keyword == "items":
            result[keyword] = structural(value, definitions=definitions, path=f"{path}[]")
        elif keyword == "additionalProperties" and isinstance(value, dict):
            result[keyword] = structural(value, definitions=definitions, path=f"{path}.*")
        elif keyword == "additionalProperties" and schema.get("x-kubernetes-preserve-unknown-fields"):
            continue
        else:
            raise SchemaError(f"{path}: a CRD has no {keyword!r}")
    if result.get("type") == "array":
        # One writer owns the list as a whole, unless the model says how the lists of several are merged.
        result.setdefault("x-kubernetes-list-type", "atomic")
    _check_bounds(result, path=path)
    return result


def definition(kind: type[CustomResource]) -> Json:
    """The CustomResourceDefinition of a kind."""
    info = kind.kind_info
    document = kind.model_json_schema(by_alias=True, mode="validation")
    definitions = document.get("$defs", {})

    def part(name: str) -> Json:
        return structural(document["properties"][name], definitions=definitions, path=f"{info.name}.{name}")

    def written_by_people(name: str) -> Json:
        return _in_words(part(name), path=f"{info.name}.{name}")

    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{info.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": info.name,
                "listKind": f"{info.name}List",
                "plural": info.plural,
                "singular": info.singular,
                "shortNames": list(info.short_names),
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}, **_scale(info)},
                    "additionalPrinterColumns": [_column(column) for column in info.columns],
                    **_selectable(info),
                    "schema": {
                        "openAPIV3Schema": {
                            "description": _one_paragraph(kind.__doc__ or info.name),
                            "type": "object",
                            "required": ["spec"],
                            "properties": {
                                "apiVersion": {"type": "string"},
                                "kind": {"type": "string"},
                                "metadata": {"type": "object"},
                                "spec": written_by_people("spec"),
                                "status": {**part("status"), "default": _NOT_SEEN},
                            },
                            **_root_rules(kind),
                        }
                    },
                }
            ],
        },
    }


def _scale(info: Kind) -> Json:
    if info.scale is None:
        return {}
    return {
        "scale": {
            "specReplicasPath": info.scale.spec_replicas,
            "statusReplicasPath": info.scale.status_replicas,
            "labelSelectorPath": info.scale.label_selector,
        }
    }


def _in_words(schema: Json, *, path: str) -> Json:
    """The schema with CEL rules in the place of patterns.

    Numbers that may be strings keep theirs (CEL would have to tell the two apart), and so do those that cost too much.
    Raises SchemaError on another pattern without words.
    """
    result = dict(schema)
    pattern = result.get("pattern")
    kept = pattern in _TOO_COSTLY or result.get("x-kubernetes-int-or-string")
    if pattern is not None and not kept:
        if pattern not in _WORDS:
            raise SchemaError(f"{path}: the pattern {pattern} needs words for people (_WORDS)")
        del result["pattern"]
        rule = {"rule": f'self.matches(r"{pattern}")', "message": _WORDS[pattern]}
        result["x-kubernetes-validations"] = [rule, *result.get("x-kubernetes-validations", [])]
    if "properties" in result:
        result["properties"] = {
            name: _in_words(child, path=f"{path}.{name}") for name, child in result["properties"].items()
        }
    for keyword in ("items", "additionalProperties"):
        if isinstance(result.get(keyword), dict):
            result[keyword] = _in_words(result[keyword], path=f"{path}.{keyword}")
    return result


def _selectable(info: Kind) -> Json:
    paths = [{"jsonPath": path} for path in info.selectable]
    return {"selectableFields": paths} if paths else {}


def render(kind: type[CustomResource]) -> str:
    """The definition as YAML, the same for the same models."""
    text = yaml.dump(definition(kind), Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120)
    return f"# Generated from tieline_core.resources by `make manifests`; do not edit.\n{text}"


def files() -> dict[str, str]:
    """File names and contents of all definitions."""
    return {f"{kind.kind_info.plural}.yaml": render(kind) for kind in KINDS}


def _without_reference(schema: Json, *, definitions: Json, path: str, seen: tuple[str, ...] = ()) -> Json:
    """Replaces ``$ref`` by what it names; keywords beside it win, rules of both hold."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    name = reference.removeprefix("#/$defs/")
    if name in seen:
        raise SchemaError(f"{path}: {name} holds itself, which a CRD cannot say")
    beside = {keyword: value for keyword, value in schema.items() if keyword != "$ref"}
    target = _without_reference(definitions[name], definitions=definitions, path=path, seen=(*seen, name))
    return _merged(target, beside)


def _without_null(schema: Json, *, definitions: Json, path: str) -> Json:
    """An optional field is one that may be absent: ``anyOf [X, null]`` becomes X."""
    options = schema.get("anyOf")
    if options is None or schema.get("x-kubernetes-int-or-string"):
        return schema
    real = [option for option in options if option.get("type") != "null"]
    if len(real) == len(options) or not real:
        raise SchemaError(f"{path}: a CRD node has one type, this one has {len(options)}")
    beside = {keyword: value for keyword, value in schema.items() if keyword != "anyOf"}
    only = real[0] if len(real) == 1 else {"anyOf": real}
    only = _without_reference(only, definitions=definitions, path=path)
    only = _without_null(only, definitions=definitions, path=path) if "anyOf" in only else only
    return _merged(only, beside)


def _merged(inner: Json, outer: Json) -> Json:
    merged = {**inner, **outer}
    both = [*inner.get("x-kubernetes-validations", []), *outer.get("x-kubernetes-validations", [])]
    if both:
        merged["x-kubernetes-validations"] = both
    return merged


def _check_bounds(schema: Json, *, path: str) -> None:
    match schema.get("type"):
        case "array" if "maxItems" not in schema:
            raise SchemaError(f"{path}: a list needs max_length (etcd and CEL costs are bounded by it)")
        case "string" if not {"maxLength", "enum", "format"} & schema.keys():
            raise SchemaError(f"{path}: a string needs max_length")
        case "object" if "additionalProperties" in schema and "maxProperties" not in schema:
            raise SchemaError(f"{path}: a map needs max_length")


def _root_rules(kind: type[CustomResource]) -> Json:
    pairs = kind.kind_info.rules
    if not pairs:
        return {}
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}


def _column(column: Any) -> Json:
    rendered = {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        "description": column.description,
    }
    return {**rendered, "priority": column.priority} if column.priority else rendered


def _one_paragraph(text: str) -> str:
    return " ".join(text.split())
