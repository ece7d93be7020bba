"""Entries of the catalogue as REST shows them, and the Systems that are made of them."""

import pytest

from tieline_api.conversion import catalogue as convert
from tieline_api.schemas.catalogue import SystemFromEntry
from tieline_catalogue.catalogue import catalogue
from tieline_catalogue.entry import needs_client

KEYS = [one.key for one in catalogue().summaries]
SUMMARIES = {one.key: one for one in catalogue().summaries}
REDIRECT = "https://tieline.example/oauth2/callback"


@pytest.mark.parametrize("key", KEYS)
def test_an_entry_is_shown_and_makes_a_system(key: str) -> None:
    entry = catalogue().get(key)
    shown = convert.entry_to_rest(entry, SUMMARIES[key], redirect_url=REDIRECT)
    assert shown.schemes[0].id == entry.setup[0].scheme
    for scheme in shown.schemes:
        by_consent = "authorizeUrl" in str(entry.system["authSchemeConfigs"]) and scheme.redirect_url_field
        assert not by_consent or scheme.redirect_url == REDIRECT
    schemes, left_out = convert.chosen_schemes(entry, None, ())
    assert not any(needs_client(item) for item in schemes)
    assert {item["id"] for item in schemes} | set(left_out) == {one.id for one in shown.schemes}
    everything, nothing = convert.chosen_schemes(entry, None, left_out)
    assert (len(everything), nothing) == (len(shown.schemes), [])
    spec = convert.system_spec(entry, SystemFromEntry(), variables={}, schemes=everything)
    assert spec == {**entry.system, "labels": {"catalogue": key}}


def test_the_body_is_stronger_than_the_entry() -> None:
    entry = catalogue().get("shopify")
    body = SystemFromEntry.model_validate(
        {"name": "Our shops", "labels": {"team": "ops", "catalogue": "own"}}
    )
    spec = convert.system_spec(entry, body, variables={"version": "2027-01"}, schemes=[])
    assert spec["name"] == "Our shops"
    assert spec["labels"] == {"team": "ops", "catalogue": "own"}
    assert spec["variables"] == {"version": "2027-01"}
    assert "authSchemeConfigs" not in spec
    assert entry.system["variables"] == {"version": "2026-07"}


@pytest.mark.parametrize("key", KEYS)
def test_help_is_for_what_users_enter(key: str) -> None:
    entry = catalogue().get(key)
    kinds = {item["id"]: item["type"] for item in entry.system["authSchemeConfigs"]}
    found_key, found = convert.credential_help({**entry.system, "labels": {"catalogue": key}})
    assert found_key == key
    assert {one.scheme for one in found} == {
        one.scheme for one in entry.setup if kinds[one.scheme] not in ("oauth2", "oauth1")
    }
    assert all(one.steps and one.docs.startswith("https://") for one in found)


def test_a_scheme_that_was_changed_or_removed_has_no_help() -> None:
    spec = {**catalogue().get("airtable").system, "labels": {"catalogue": "airtable"}}
    assert [one.scheme for one in convert.credential_help(spec)[1]] == ["token"]
    changed = [{"id": "token", "type": "basic-auth"}]
    assert convert.credential_help({**spec, "authSchemeConfigs": changed}) == ("airtable", [])
    assert convert.credential_help({**spec, "authSchemeConfigs": []}) == ("airtable", [])


@pytest.mark.parametrize("labels", [None, {}, {"catalogue": "../x"}, {"catalogue": "no-such-entry"}])
def test_a_system_of_ones_own_has_no_help(labels: dict[str, str] | None) -> None:
    assert convert.credential_help({"labels": labels, "authSchemeConfigs": []}) == (None, [])
