"""A record says what changed, and never a value that may be secret."""

import json
from typing import Any

import pytest

from tests.unit.api.audit.audit_records import record
from tieline_api.audit.records import MOST_CHANGES, SHOWN, cleaned, redacted, sent_through
from tieline_api.cluster.revisions import ObjectChange, SentRequest
from tieline_core.engine.audit_streams import MAX_RECORD_BYTES
from tieline_core.resources import KINDS

ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
MARKER = "s3cr3t-marker"


def _object(spec: Any) -> dict[str, Any]:
    metadata = {
        "name": ID.lower(), "namespace": "acme", "labels": {"tieline.dev/id": ID},
        "annotations": {"note": MARKER}, "creationTimestamp": "2026-01-01T00:00:00Z", "uid": "u",
    }  # fmt: skip
    return {"metadata": metadata, "spec": spec, "status": {"message": MARKER}}


def _spec_of(plural: str) -> dict[str, Any]:
    (kind,) = [one for one in KINDS if one.kind_info.plural == plural]
    fields: dict[str, Any] = kind.model_fields["spec"].annotation.model_fields  # type: ignore[union-attr]
    return {described.alias or name: described for name, described in fields.items()}


@pytest.mark.parametrize("plural", sorted(SHOWN))
def test_no_field_shows_its_value_unless_it_is_listed(plural: str) -> None:
    spec = {
        name: {"deep": [MARKER]} if number % 2 else MARKER for number, name in enumerate(_spec_of(plural))
    }
    hidden = {name: value for name, value in spec.items() if name not in SHOWN[plural]}
    nested = {name: {"secret": MARKER} for name in SHOWN[plural]}
    for before, after in ((None, hidden | nested), (hidden | nested, {}), (hidden | nested, None)):
        change = ObjectChange(plural, before and _object(before), None if after is None else _object(after))
        (found,) = redacted([change])
        assert MARKER not in json.dumps(found)
        assert {one["name"] for one in found["fields"]} == spec.keys()


@pytest.mark.parametrize("plural", sorted(SHOWN))
def test_fields_with_values_exist(plural: str) -> None:
    assert SHOWN[plural] <= _spec_of(plural).keys()


def test_a_change_names_its_fields_and_shows_harmless_values() -> None:
    before = _object({"name": "Old", "domain": "one.example", "same": 1})
    after = _object({"name": "New", "domain": "two.example", "same": 1})
    assert redacted([ObjectChange("systems", before, after)]) == [
        {
            "kind": "systems", "object": ID, "action": "changed",
            "fields": [{"name": "domain"}, {"name": "name", "before": "Old", "after": "New"}],
        }
    ]  # fmt: skip


def test_secrets_are_left_out_with_their_names() -> None:
    assert redacted([ObjectChange("secrets", None, _object({"name": MARKER}))]) == []


def test_untrusted_text_is_one_short_line() -> None:
    assert cleaned("a\r\nb\x1b[31m\ud800") == "a  b [31m "
    assert len(cleaned("x" * 10_000)) == 256


def test_a_record_keeps_within_its_bounds() -> None:
    sent = sent_through([SentRequest("POST", "api.example", "/ü" * 500)] * (MOST_CHANGES + 1))
    content = record(sent=sent, user_agent="ü" * 10_000).encoded()
    assert len(content) <= MAX_RECORD_BYTES
    found = json.loads(content)
    assert found["cut"]
    assert len(found["sent"]) <= MOST_CHANGES
    huge = [{"name": "x" * MAX_RECORD_BYTES}]
    found = json.loads(record(changes=huge).encoded())
    assert (found["cut"], found["changes"], found["subject"]) == (True, [], "ann")
