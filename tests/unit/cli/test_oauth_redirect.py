"""What a provider sends back to the command line after a consent."""

import threading
from urllib.request import urlopen

import pytest

from tieline.cli.exit_codes import CommandError
from tieline.cli.remote.oauth_redirect import OAuthRedirect


def visit(url: str) -> None:
    """Opens it as a browser does, while the test waits for the code."""

    def read() -> None:
        with urlopen(url, timeout=10) as answer:
            answer.read()

    threading.Thread(target=read, daemon=True).start()


def test_the_code_that_has_the_state_is_taken() -> None:
    with OAuthRedirect() as redirect:
        visit(f"{redirect.url}?state=s&auth_code=c")
        assert redirect.code("s", parameter="auth_code") == ("c", "state=s&auth_code=c")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("error=access_denied", "access_denied"),
        ("error=access_denied&error_description=No", "No"),
        ("denied=by_user", "by_user"),
    ],
)
def test_a_denial_ends_the_wait(query: str, words: str) -> None:
    with OAuthRedirect() as redirect:
        visit(f"{redirect.url}?state=s&{query}")
        with pytest.raises(CommandError, match=f"The provider refused access: {words}"):
            redirect.code("s", errors=("error", "denied"))
