"""Streams, subjects and consumers of the event engine. Platform and pods agree on them.

Each environment has streams of its own, because JetStream's API can be restricted by a stream's name and hardly by a
subject, and because a header of a waiting message names the subject at which it comes back, which JetStream accepts
anywhere in the same stream:

- ``ev_<environment>``, a work queue of events without a key, subject ``ev.<environment>.<task>``;
- ``key_<environment>``, events with a key, in the order in which they were accepted, subject
  ``key.<environment>.<partition>.<hash of the key>``. They are deleted once they have run;
- ``later_<environment>``, events that wait for a time: subject ``later.<environment>.<run>`` until then and
  ``due.<environment>.<task>`` after it.
"""

from dataclasses import dataclass

PODS = "pods"
"""The consumer of an environment's pods, in its work queue and for what is due."""
PARTITIONS = 16
"""Into how many parts an environment's keys are divided. Each part runs in one pod at a time."""


@dataclass(frozen=True)
class EventStreams:
    """The names for an environment, by its id."""

    environment: str

    @property
    def queue(self) -> str:
        """The stream of events without a key."""
        return f"ev_{self.environment}"

    @property
    def ordered(self) -> str:
        """The stream of events with a key."""
        return f"key_{self.environment}"

    @property
    def later(self) -> str:
        """The stream of events that wait for a time."""
        return f"later_{self.environment}"

    def event(self, task: str) -> str:
        """The subject of an event without a key. ``task`` has no dots, spaces or wildcards."""
        return f"ev.{self.environment}.{task}"

    def keyed_event(self, partition: int, key_hash: str) -> str:
        """The subject of an event with a key."""
        return f"key.{self.environment}.{partition}.{key_hash}"

    def waiting(self, run: str) -> str:
        """The subject of a run that waits. Publishing there again replaces what waits."""
        return f"later.{self.environment}.{run}"

    def due(self, task: str) -> str:
        """The subject of an event whose time has come."""
        return f"due.{self.environment}.{task}"

    @property
    def inbox(self) -> str:
        """The prefix of the subjects at which pods get answers."""
        return f"_INBOX.{self.environment}"

    def pods_publish(self) -> tuple[str, ...]:
        """What pods of the environment may publish to, with wildcards."""
        return (
            f"ev.{self.environment}.>",
            f"key.{self.environment}.>",
            f"later.{self.environment}.>",
            f"$JS.API.CONSUMER.MSG.NEXT.{self.queue}.{PODS}",
            f"$JS.ACK.{self.queue}.{PODS}.>",
            f"$JS.API.CONSUMER.MSG.NEXT.{self.later}.{PODS}",
            f"$JS.ACK.{self.later}.{PODS}.>",
            f"$JS.API.CONSUMER.CREATE.{self.ordered}.>",
            f"$JS.API.CONSUMER.DELETE.{self.ordered}.>",
            f"$JS.API.CONSUMER.MSG.NEXT.{self.ordered}.>",
            f"$JS.API.DIRECT.GET.{self.ordered}",
            f"$JS.API.STREAM.MSG.DELETE.{self.ordered}",
        )

    def pods_subscribe(self) -> tuple[str, ...]:
        """What pods of the environment may subscribe to."""
        return (f"{self.inbox}.>",)
