"""Checks the catalogue against the platform's own schema: ``make catalogue-check``.

What makes an entry unusable is an error. Which entries have the oldest facts is printed at the end.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema_rs
from pydantic import ValidationError

from tieline_catalogue import packing
from tieline_catalogue.entry import Entry, FactGroup, Setup, needs_client_secret
from tieline_core.crds import definition
from tieline_core.credentials.validation.scheme_findings import KnownScheme, scheme_findings
from tieline_core.objects import Json
from tieline_core.resources.fields import ValidationMessage
from tieline_core.resources.systems import System, SystemSpec
from tieline_core.severity import Severity
from tieline_core.systems import input_problems, placeholders_of
from tieline_protocol.url_inputs import url_inputs

_SPEC: Json = definition(System)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
_VALIDATOR = jsonschema_rs.validator_for(_SPEC)
_SHOWN_OLDEST = 10


def findings(content: Mapping[str, Any]) -> list[str]:
    """What is wrong with an entry, a sentence each."""
    try:
        entry = Entry.model_validate(content)
    except ValidationError as error:
        return [_sentence(item) for item in error.errors()]
    return [*_system_findings(entry.system), *_reference_findings(entry), *_source_findings(entry)]


def main() -> None:
    """Checks the entries in ``catalogue`` of the current folder, or those that the arguments name."""
    folder = Path("catalogue")
    wanted = sys.argv[1:] or packing.keys(folder)
    wrong, dates = 0, []
    for key in wanted:
        try:
            content = packing.read_entry(folder / f"{key}.yaml")
        except (packing.EntryError, OSError) as error:
            found = [str(error)]
        else:
            found = findings(content)
        wrong += bool(found)
        for sentence in found:
            print(f"{key}: {sentence}", file=sys.stderr)
        if not found:
            dates.append((min(source["date"] for source in content["sources"]), key))
    print(f"{len(wanted)} entries, {wrong} with errors. Oldest facts:")
    for when, key in sorted(dates)[:_SHOWN_OLDEST]:
        print(f"  {when}  {key}  ({(date.today() - date.fromisoformat(when)).days} days)")
    sys.exit(1 if wrong else 0)


def _system_findings(system: Json) -> Iterator[str]:
    unknown = set(_unknown(system, _SPEC, ""))
    for path in sorted(unknown):
        yield f"system.{path} is no field of a System"
    known = _without(system, unknown, "")
    for error in _VALIDATOR.iter_errors(known):
        yield f"system.{'.'.join(map(str, error.instance_path))}: {error.message}"
    try:
        spec = SystemSpec.model_validate(known)
    except ValidationError as error:
        yield from (f"system.{_sentence(item)}" for item in error.errors())
        return
    given = {*spec.variables, *(str(item.get("name")) for item in system.get("inputs", []))}
    kept = {item.get("variable") for item in _kept(system)}
    for name in placeholders_of(spec.template_base_url or ""):
        if name not in given | kept:
            yield f"system.templateBaseUrl has {{{name}}}: add it to inputs or variables, or keep it from an answer"
    yield from (f"system: {problem}" for problem in input_problems(known))
    if spec.check and spec.check.body and not _is_json(spec.check.body):
        yield "system.check.body is no JSON"
    for scheme in spec.auth_scheme_configs:
        inputs = url_inputs(known)
        about = KnownScheme(scheme=scheme, siblings=spec.auth_scheme_configs, inputs=inputs)
        for found in scheme_findings(about):
            if found.message.severity is Severity.ERROR:
                yield f"the auth scheme {scheme.id}: {_shown(found.message)}"
        grant = scheme.oauth2.grant.authorization_code if scheme.oauth2 else None
        if grant and (grant.client_id or grant.secret_ref or grant.credential_id):
            yield f"the auth scheme {scheme.id} names a client: each organisation has its own"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _kept(node: Any) -> Iterator[Mapping[str, Any]]:
    """The items of each list ``keep``."""
    if isinstance(node, Mapping):
        yield from (item for item in node.get("keep") or () if isinstance(item, Mapping))
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from _kept(child)


def _reference_findings(entry: Entry) -> Iterator[str]:
    schemes = {item.get("id"): item for item in entry.system.get("authSchemeConfigs", [])}
    for setup in entry.setup:
        scheme = schemes.get(setup.scheme)
        if scheme is None:
            yield f"setup names the auth scheme {setup.scheme}, which system does not have"
        elif "authorizeUrl" in (scheme.get("oauth2") or {}):
            yield from _client_findings(setup, scheme)
    for template in entry.templates:
        listed = {
            one["name"] for one in (schemes.get(template.scheme, {}).get("oauth2") or {}).get("scopes", [])
        }
        for scope in template.scopes:
            if scope not in listed:
                yield f'the template "{template.name}" has the scope {scope}, which the auth scheme does not list'
    if entry.webhooks and (schemes.get(entry.webhooks.scheme) or {}).get("type") != "hmac":
        yield f"webhooks names the auth scheme {entry.webhooks.scheme}, which is no scheme of type hmac"


def _client_findings(setup: Setup, scheme: Mapping[str, Any]) -> Iterator[str]:
    """What the setup does not say of the client at the provider."""
    given = {
        "redirectUrl": setup.redirect_url,
        "clientId": setup.client_id,
        "clientSecret": setup.client_secret,
    }
    wanted = list(given) if needs_client_secret(scheme) else ["clientId"]
    if missing := [name for name in wanted if not given[name]]:
        yield f"setup of {setup.scheme} needs {' and '.join(missing)}: people connect by OAuth"


def _source_findings(entry: Entry) -> Iterator[str]:
    schemes = entry.system.get("authSchemeConfigs", [])
    has = {
        FactGroup.API: True,
        FactGroup.AUTH: True,
        FactGroup.SETUP: True,
        FactGroup.SCOPES: any((item.get("oauth2") or {}).get("scopes") for item in schemes),
        FactGroup.CHECK: "check" in entry.system,
        FactGroup.LIMITS: "limits" in entry.system,
        FactGroup.LISTS: "lists" in entry.system,
        FactGroup.WEBHOOKS: entry.webhooks is not None,
    }
    covered = {group for source in entry.sources for group in source.facts}
    for group, present in has.items():
        if present and group not in covered:
            yield f"no source covers {group}: add the page of the documentation"
    for source in entry.sources:
        if source.date > date.today():
            yield f"the source {source.url} has a date in the future"


def _unknown(node: Any, schema: Json, path: str) -> Iterator[str]:
    """Paths of fields that the schema does not know, without the places in lists."""
    if isinstance(node, list):
        for item in node:
            yield from _unknown(item, schema.get("items", {}), path)
    if not isinstance(node, Mapping) or "properties" not in schema:
        return
    for name, value in node.items():
        below = f"{path}.{name}" if path else name
        if name not in schema["properties"]:
            yield below
        else:
            yield from _unknown(value, schema["properties"][name], below)


def _without(node: Any, paths: set[str], path: str) -> Any:
    if isinstance(node, list):
        return [_without(item, paths, path) for item in node]
    if not isinstance(node, Mapping):
        return node
    below = {name: f"{path}.{name}" if path else name for name in node}
    return {
        name: _without(value, paths, below[name]) for name, value in node.items() if below[name] not in paths
    }


def _shown(message: ValidationMessage) -> str:
    return f"{message.text} ({', '.join(message.detail)})" if message.detail else message.text


def _sentence(error: Any) -> str:
    return f"{'.'.join(map(str, error['loc']))}: {error['msg']}"


if __name__ == "__main__":
    main()
