"""Requests that are the caller's mistake."""

from collections.abc import Mapping

from tieline_protocol.signature_challenges import FixedAnswer


class RefusedError(Exception):
    """The request is not run, or not to its end; ``status``, ``code`` and the message are its answer."""

    def __init__(
        self, status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})
        self.answer: FixedAnswer | None = None
        """What a sender demands in place of the usual answer."""
