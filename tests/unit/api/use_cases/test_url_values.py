"""What end users may set of the variables in a system's URLs."""

from typing import Any

import pytest

from tieline_api.auth.end_users import EndUserScope
from tieline_api.errors import ApiError
from tieline_api.use_cases.url_values import as_variables, check_values, own_values

SYSTEM: dict[str, Any] = {
    "spec": {
        "templateBaseUrl": "https://{shop}.{region}.shop.example/{version}",
        "inputs": [{"name": "shop"}, {"name": "region", "pattern": "^(eu|us)$"}],
        "variables": {"version": "v1"},
    }
}


def own(given: dict[str, str], live: dict[str, str] | None = None, **scope: Any) -> dict[str, str]:
    return own_values(
        as_variables(given),
        EndUserScope(external_id="ann", **scope),
        SYSTEM,
        live=live or {},
        field="variables",
    )


def test_a_user_sets_inputs_and_nothing_else() -> None:
    assert own({"shop": "mine", "region": "eu"}) == {"shop": "mine", "region": "eu"}
    assert own({"shop": "new"}, {"shop": "old", "version": "v2"}) == {"shop": "new", "version": "v2"}
    assert own({"shop": "a", "version": "v2"}, {"version": "v2"}) == {"shop": "a", "version": "v2"}


def test_what_the_application_fixed_cannot_be_changed() -> None:
    fixed: dict[str, Any] = {"variables": (("shop", "theirs"), ("elsewhere", "x"))}
    assert own({}, **fixed) == {"shop": "theirs"}
    assert own({"shop": "theirs", "region": "eu"}, **fixed) == {"shop": "theirs", "region": "eu"}
    assert own({}, {"shop": "old"}, **fixed) == {"shop": "theirs"}


@pytest.mark.parametrize(
    ("given", "scope", "field"),
    [
        ({"version": "v2"}, {}, "variables[0]"),
        ({"shop": "a", "baseUrl": "b"}, {}, "variables[1]"),
        ({"shop": "mine"}, {"variables": (("shop", "theirs"),)}, "variables[0]"),
        ({"shop": "mine"}, {"inputs": frozenset({"region"})}, "variables[0]"),
        ({"shop": "mine"}, {"inputs": frozenset()}, "variables[0]"),
        ({"region": "eu", "shop": "evil.com/"}, {}, "variables[1].value"),
        ({"region": "asia"}, {}, "variables[0].value"),
    ],
)
def test_other_values_are_refused_at_their_field(
    given: dict[str, str], scope: dict[str, Any], field: str
) -> None:
    with pytest.raises(ApiError) as caught:
        own(given, **scope)
    assert caught.value.status == 422
    assert [one.field for one in caught.value.fields] == [field]
    assert "evil" not in str(caught.value.body())


def test_administrators_may_keep_what_kubectl_wrote() -> None:
    wrong = as_variables({"shop": "evil.com/"})
    check_values(wrong, SYSTEM, live={"shop": "evil.com/"}, field="variables")
    with pytest.raises(ApiError):
        check_values(wrong, SYSTEM, live={}, field="variables")
