"""Names in requests: nothing that cannot be seen, and nothing that makes a name look like another one."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_api.errors import ApiError
from tieline_api.http.request_body import validate
from tieline_api.schemas.base import Rest
from tieline_api.schemas.connections import ConnectionUpdate
from tieline_api.schemas.connectors import ImportMetadata
from tieline_api.schemas.names import check_new_external_id
from tieline_api.schemas.projects import DeployBody, ProjectCreate, ProjectUpdate
from tieline_api.schemas.systems import SystemCreate, SystemFromVersion, SystemUpdate
from tieline_api.schemas.templates import TemplateCreate, TemplateUpdate
from tieline_api.schemas.users import UserCreate
from tieline_core.identity.display_names import ECMA_PATTERN, cleaned, unreadable
from tieline_core.identity.ids import new_id

SYSTEM = {"domain": "d", "templateBaseUrl": "https://d", "authSchemeConfigs": []}
CREDENTIAL: dict[str, Any] = {"id": "k", "credential": {"type": "none"}}
NAMED: list[tuple[type[Rest], dict[str, Any], str]] = [
    (SystemCreate, SYSTEM, "name"),
    (SystemUpdate, {}, "name"),
    (SystemFromVersion, {}, "name"),
    (ProjectCreate, {}, "name"),
    (ProjectUpdate, {}, "name"),
    (DeployBody, {}, "versionName"),
    (TemplateCreate, {"systemId": new_id()}, "name"),
    (TemplateUpdate, {}, "name"),
    (ConnectionUpdate, {}, "name"),
    (UserCreate, {"externalId": "ann"}, "displayName"),
    (UserCreate, {}, "externalId"),
    (ImportMetadata, {"format": "openapi"}, "version"),
]
BAD = [
    "\x00",
    "\n",
    "\x1b",
    "\x7f",
    "\x85",
    "\x9b",
    "\u061c",
    "\u200f",
    "\u2028",
    "\u202e",
    "\u2066",
    "\ufeff",
]
GOOD = ["Größe", "漢字 かな", "می‌خواهم", "👩‍💻 team", "a b", "שלום"]


@pytest.mark.parametrize(("model", "more", "field"), NAMED, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("letter", BAD, ids=lambda letter: f"U+{ord(letter):04X}")
def test_characters_that_cannot_be_seen_are_refused_by_field(
    model: type[Rest], more: dict[str, Any], field: str, letter: str
) -> None:
    with pytest.raises(ApiError) as refused:
        validate(model, {**more, field: f"ab{letter}c"})
    assert refused.value.status == 422
    (found,) = refused.value.fields
    assert found.field == field
    assert f"remove U+{ord(letter):04X} at position 3" in found.message


@pytest.mark.parametrize(("model", "more", "field"), NAMED, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("name", GOOD)
def test_names_in_any_script_are_taken(
    model: type[Rest], more: dict[str, Any], field: str, name: str
) -> None:
    validate(model, {**more, field: name})


@pytest.mark.parametrize(("model", "field"), [(ImportMetadata, "version"), (UserCreate, "externalId")])
@pytest.mark.parametrize("name", [".", ".."])
def test_steps_of_paths_are_no_names(model: type[Rest], field: str, name: str) -> None:
    with pytest.raises(ApiError) as refused:
        validate(model, {"format": "openapi", field: name})
    assert [item.field for item in refused.value.fields] == [field]


def test_a_credentials_name_is_told_by_its_place() -> None:
    item = {**CREDENTIAL, "credential": {"type": "none", "name": "a\u202eb"}}
    with pytest.raises(ApiError) as refused:
        validate(ConnectionUpdate, {"credentials": [item]})
    assert [found.field for found in refused.value.fields] == ["credentials[0].credential.name"]


@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("".join(BAD))))
def test_the_documents_pattern_says_the_same(text: str) -> None:
    assert (re.fullmatch(ECMA_PATTERN, text) is None) == (unreadable(text) is not None)
    assert unreadable(cleaned(text)) is None


def test_a_user_that_a_first_connect_makes_is_named_likewise() -> None:
    assert check_new_external_id("ann") == "ann"
    with pytest.raises(ValueError, match=r"remove U\+202E"):
        check_new_external_id("a\u202eb")
