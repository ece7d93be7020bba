"""What a client is told where no token came of a code."""

from collections.abc import Sequence
from typing import Any

from tieline_api import errors
from tieline_core.credentials.grant_request import SecretTakenError, UnresolvedError
from tieline_core.oauth.state_store import StateRefusedError
from tieline_core.oauth.token_client import MisconfiguredError, RefusedError, TokenError


def token_error(error: TokenError, *, field: str, about: str) -> errors.ApiError:
    """What a client is told when no token came of a credential; ``errors`` as the credential's."""
    messages = [str(error)]
    match error:
        case StateRefusedError():
            about = f"{field}.{about}.state"
        case RefusedError():
            about = f"{field}.{about}"
        case SecretTakenError():
            return errors.conflict(str(error))
        case UnresolvedError():
            about, messages = f"{field}.authSchemeConfig", [problem.message for problem in error.problems]
        case MisconfiguredError():
            about = f"{field}.authSchemeConfig"
        case _:
            return errors.ApiError(
                502,
                "provider_unreachable",
                str(error),
                fields=[errors.FieldError(f"{field}.{about}", str(error))],
                extra={"errors": messages},
                headers={"Retry-After": "10"},
            )
    found = errors.invalid(about, " ".join(messages))
    found.extra["errors"] = messages
    return found


def combined_error(failures: Sequence[errors.ApiError], **more: Any) -> errors.ApiError:
    """One answer for several failures: that of the first that waiting alone does not mend, with all fields.

    ``more`` are fields about what was kept all the same.
    """
    first = next((one for one in failures if one.status < 500), failures[0])
    messages = [message for one in failures for message in one.extra.get("errors", [one.message])]
    return errors.ApiError(
        first.status,
        first.code,
        first.message,
        fields=[field for one in failures for field in one.fields],
        details=" ".join(messages) if len(messages) > 1 else None,
        extra={"errors": messages, **more} if more or first.extra else None,
        headers=first.headers,
    )
