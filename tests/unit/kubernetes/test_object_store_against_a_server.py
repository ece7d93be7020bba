"""Whatever comes in whatever order, a store ends up with what the server has."""

import copy
import random
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tieline_core.kubernetes.object_store import Change, Store, key_of

Object = dict[str, Any]
NAMES = ("a", "b", "c")
STEPS = (
    "create or change",
    "delete",
    "write and observe",
    "write and observe late",
    "observe what is late",
    "delete and forget",
    "watch",
    "bookmark",
    "lose the watch and list",
    "list what was so a moment ago",
)


@dataclass
class Cluster:
    """A server with its history, a store that follows it, and answers that are still on their way."""

    store: Store = field(default_factory=lambda: Store({"colour": lambda obj: [obj["colour"]]}))
    revision: int = 0
    uids: int = 0
    objects: dict[str, Object] = field(default_factory=dict)
    history: list[tuple[str, Object]] = field(default_factory=list)
    place: int = 0
    late: list[Object] = field(default_factory=list)
    mirror: dict[tuple[str, str], Object] = field(default_factory=dict)

    def write(self, name: str, colour: str) -> Object:
        self.revision += 1
        old = self.objects.get(name)
        if old is None:
            self.uids += 1
        metadata = {
            "name": name,
            "namespace": "acme",
            "uid": old["metadata"]["uid"] if old else f"uid-{self.uids}",
            "resourceVersion": str(self.revision),
        }
        self.objects[name] = {"metadata": metadata, "colour": colour}
        self.history.append(("MODIFIED" if old else "ADDED", self.objects[name]))
        return copy.deepcopy(self.objects[name])

    def delete(self, name: str) -> Object | None:
        found = self.objects.pop(name, None)
        if found is None:
            return None
        self.revision += 1
        last = copy.deepcopy(found)
        last["metadata"]["resourceVersion"] = str(self.revision)
        self.history.append(("DELETED", last))
        return copy.deepcopy(found)

    def watch(self, events: int) -> None:
        """The next events of the watch arrive."""
        for kind, obj in self.history[self.place : self.place + events]:
            arrived = copy.deepcopy(obj)
            self.note(self.store.delete(arrived) if kind == "DELETED" else self.store.put(arrived))
            self.store.advance(arrived["metadata"]["resourceVersion"])
            self.place += 1

    def list(self) -> None:
        """The watch is lost, with all that it had not yet told."""
        self.place = len(self.history)
        for change in self.store.replace(copy.deepcopy([*self.objects.values()]), str(self.revision)):
            self.note(change)

    def note(self, change: Change | None) -> None:
        """What a subscriber would know who believes the changes alone."""
        if change is None:
            return
        if change.new is None:
            assert self.mirror.pop(key_of(change.object), None) is not None
        else:
            assert self.mirror.get(key_of(change.new)) == change.old
            self.mirror[key_of(change.new)] = change.new

    def step(self, what: str, name: str, colour: str, number: int) -> None:  # noqa: PLR0912  (a table)
        match what:
            case "create or change":
                self.write(name, colour)
            case "delete":
                self.delete(name)
            case "write and observe":
                self.note(self.store.observe(self.write(name, colour)))
            case "write and observe late":
                self.late.append(self.write(name, colour))
            case "observe what is late" if self.late:
                self.note(self.store.observe(self.late.pop(number % len(self.late))))
            case "delete and forget":
                if gone := self.delete(name):
                    self.note(self.store.forget(gone))
            case "watch":
                self.watch(number)
            case "bookmark" if self.place == len(self.history):
                self.revision += 1
                self.store.advance(str(self.revision))
            case "lose the watch and list":
                self.list()
            case "list what was so a moment ago":
                listed, version, place = (
                    copy.deepcopy([*self.objects.values()]),
                    self.revision,
                    len(self.history),
                )
                self.note(self.store.observe(self.write(name, colour)))
                for change in self.store.replace(listed, str(version)):
                    self.note(change)
                self.place = place
            case _:
                pass


@settings(max_examples=400)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(STEPS),
            st.sampled_from(NAMES),
            st.sampled_from(("red", "blue")),
            st.integers(1, 4),
        ),
        max_size=40,
    )
)
def test_any_course_of_events_ends_with_what_the_server_has(steps: list[tuple[str, str, str, int]]) -> None:
    cluster = Cluster()
    versions: dict[str, int] = {}
    for step in steps:
        cluster.step(*step)
        for obj in cluster.store.list():
            uid, version = obj["metadata"]["uid"], int(obj["metadata"]["resourceVersion"])
            assert versions.get(uid, 0) <= version, "an object went back"
            versions[uid] = version
    cluster.watch(len(cluster.history))
    for obj in cluster.late:
        cluster.note(cluster.store.observe(obj))

    truth = {("acme", name): obj for name, obj in cluster.objects.items()}
    assert {key_of(obj): obj for obj in cluster.store.list()} == truth
    assert cluster.mirror == truth
    assert len(cluster.store) == len(truth)
    for colour in ("red", "blue"):
        found = sorted(obj["metadata"]["name"] for obj in cluster.store.by_index("colour", colour))
        assert found == sorted(name for name, obj in cluster.objects.items() if obj["colour"] == colour)


def test_versions_that_are_no_numbers_are_followed_in_the_order_in_which_they_come() -> None:
    store = Store()
    for version in ("beta", "alpha", "gamma"):
        store.put(_object("a", version=version))
        store.advance(version)
    assert store.list()[0]["metadata"]["resourceVersion"] == "gamma"
    assert store.has_seen("gamma")
    assert not store.has_seen("beta")
    store.delete(_object("a", version="delta"))
    assert store.list() == []


def test_an_object_that_an_index_does_not_understand_is_kept_and_disturbs_no_other() -> None:
    store = Store({"colour": lambda obj: [obj["colour"]], "name": lambda obj: [obj["metadata"]["name"]]})
    store.put(_object("a", version="1"))
    store.put({**_object("b", version="2"), "colour": "red"})
    assert [obj["metadata"]["name"] for obj in store.by_index("colour", "red")] == ["b"]
    assert [obj["metadata"]["name"] for obj in store.by_index("name", "a")] == ["a"]


def test_an_index_stays_right_when_someone_changes_a_shared_object_against_the_rule() -> None:
    store = Store({"colour": lambda obj: [obj["colour"]]})
    shared = {**_object("a", version="1"), "colour": "red"}
    store.put(shared)
    shared["colour"] = "blue"
    store.put({**_object("a", version="2"), "colour": "green"})
    assert store.by_index("colour", "red") == []
    assert len(store.by_index("colour", "green")) == 1


def test_of_many_namespaces_one_is_listed_by_itself() -> None:
    store = Store()
    names = [f"n{number}" for number in range(100)]
    random.Random(1).shuffle(names)
    for number, name in enumerate(names):
        obj = _object(name, version=str(number + 1), namespace=f"ns{number % 10}")
        store.put(obj)
    assert len(store) == 100
    assert len(store.list("ns3")) == 10
    assert store.list("elsewhere") == []


def _object(name: str, *, version: str, namespace: str = "acme") -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": version}
    }
