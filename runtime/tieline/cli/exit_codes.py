"""What the command's exit codes mean, and the errors that end it with one."""

from enum import IntEnum


class ExitCode(IntEnum):
    """How the command ended, for scripts and CI."""

    OK = 0
    FAILED = 1
    """What was asked for did not succeed: findings, a failed rollout, a failed run, a refusal by the API."""
    USAGE = 2
    """The command cannot be carried out as it is: an unknown option, an invalid value, a missing setting."""
    NOT_SIGNED_IN = 3
    """There is no token, the API does not accept it, or it does not permit the operation."""
    NOT_FOUND = 4
    """What the command names does not exist."""
    UNAVAILABLE = 5
    """The API cannot be reached, or cannot answer now. Nothing is wrong with the command: repeat it later."""


class CommandError(Exception):
    """Ends the command; the message says what to do. It never holds a token."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


class UsageError(CommandError):
    """The command cannot be carried out as it is."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.USAGE)
