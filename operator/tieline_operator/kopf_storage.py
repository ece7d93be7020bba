"""What kopf would compare and keep for handlers that we do not have.

For each event kopf copies the object, to compare it with the copy that it left on the object, and looks for the
progress of its handlers there. Ours are all ``on.event``: they have neither. Its default storages took a sixth of the
operator's processor time to find that out (``python -m bench.controllers``).
"""

from typing import Any

import kopf


class NoDiffBase(kopf.DiffBaseStorage):
    """Nothing is compared, and nothing left on objects."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None


class NoProgress(kopf.ProgressStorage):
    """No handler has progress to be kept."""

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None

    def purge(self, **_: Any) -> None:
        return None

    def touch(self, **_: Any) -> None:
        return None

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence
