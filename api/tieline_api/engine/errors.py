"""What goes wrong with the engine, as answers of the API."""

from tieline_api.errors import ApiError

_AWAY_SECONDS = 2
_FULL_SECONDS = 10


class EngineUnavailableError(ApiError):
    """503: the engine is away, or does not answer in time."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(
            503,
            "unavailable",
            message or "The event engine cannot be reached right now: try again in a moment",
            headers={"Retry-After": str(_AWAY_SECONDS)},
        )


class EngineFullError(ApiError):
    """503: the engine takes nothing more until some of what it has is done."""

    def __init__(self) -> None:
        super().__init__(
            503,
            "engine_full",
            "The event engine has no room for more events of this environment: nothing was stored. Try again once "
            "some of its events have run, or ask your administrator for a larger queue",
            headers={"Retry-After": str(_FULL_SECONDS)},
        )


class NoStreamError(ApiError):
    """409: the environment's or the organisation's streams are not there."""

    def __init__(self) -> None:
        super().__init__(
            409,
            "conflict",
            "The event engine has no queue of this environment yet: deploy the environment, and try again in a moment",
        )
