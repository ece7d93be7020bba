"""Values of documents that no pod of ours sends."""

from __future__ import annotations

import json

import pytest

from tieline_api.errors import ApiError
from tieline_api.state.documents import json_text


def test_a_value_that_nests_too_deep_is_refused_and_no_failure() -> None:
    with pytest.raises(ApiError) as caught:
        json_text(json.loads("[" * 300 + "]" * 300))
    assert caught.value.status == 422
    assert json_text({"a": [1]}) == b'{"a":[1]}'
