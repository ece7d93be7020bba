"""``--variable``: which shop, or which tenant, a connection is for."""

import pytest

from tieline.cli.exit_codes import UsageError
from tieline.cli.url_variables import chosen_variables

INPUTS = [{"name": "shop", "suffix": ".shop.example"}]


def test_options_join_what_is_stored_and_addresses_are_cut() -> None:
    stored = [{"name": "region", "value": "eu"}, {"name": "shop", "value": "old"}]
    given = ["shop=https://my-shop.shop.example/admin", "plan=a=b"]
    assert chosen_variables(given, INPUTS, stored) == [
        {"name": "region", "value": "eu"},
        {"name": "shop", "value": "my-shop"},
        {"name": "plan", "value": "a=b"},
    ]
    assert chosen_variables(["region="], INPUTS, stored) == [{"name": "shop", "value": "old"}]
    assert chosen_variables(None, INPUTS) == []


@pytest.mark.parametrize("text", ["shop", "=my-shop", ""])
def test_options_that_are_no_pair_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="NAME=VALUE"):
        chosen_variables([text], INPUTS)
