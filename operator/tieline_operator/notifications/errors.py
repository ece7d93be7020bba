"""Why a notification was not delivered. Messages name hosts and status codes, never a URL's path or a secret."""


class DeliveryError(Exception):
    """A delivery failed. It is tried again."""

    def __init__(self, reason: str, message: str, *, retry_after: float | None = None) -> None:
        """``reason`` is one CamelCase word, ``message`` a sentence that says what to do."""
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class PartlyDeliveredError(DeliveryError):
    """Some got the message, and others never will. It is not tried again: those that have it would get it twice."""
