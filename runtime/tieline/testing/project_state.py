"""The state that an integration keeps between runs, for a test to look at and to set."""

from collections.abc import Callable
from typing import Any

from tieline.state.activation_state import State
from tieline.state.documents import Documents


class ProjectState:
    """``project.state.get("cursor")``; with ``user``, the state of that user's activation."""

    def __init__(self, documents: Documents, wait: Callable[[Any], Any]) -> None:
        self._documents = documents
        self._wait = wait

    def get(self, key: str, default: Any = None, *, user: str | None = None) -> Any:
        """The value of ``key``, or ``default``."""
        return self._wait(State(self._documents, user).get(key, default))

    def set(self, key: str, value: Any, *, user: str | None = None) -> None:
        """Keep ``value``, as a run before would have."""
        self._wait(State(self._documents, user).set(key, value))
