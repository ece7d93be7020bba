"""What tests have measured, shown at the end of the session: times are told, and never asserted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Measured = Callable[[str], None]
"""Takes a line for the end of the session."""

_LINES = pytest.StashKey[list[str]]()


def noting_in(config: pytest.Config) -> Measured:
    """What notes lines of this session."""
    return config.stash.setdefault(_LINES, []).append


def show(terminal: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Writes the session's lines, if there are any."""
    lines = config.stash.get(_LINES, [])
    if lines:
        terminal.write_sep("=", "measured")
        for line in lines:
            terminal.write_line(line)
