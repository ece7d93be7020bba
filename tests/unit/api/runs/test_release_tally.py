"""How many runs of each release failed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.api.runs.run_records import NOW, record
from tests.unit.api.runs.test_tally import ENVIRONMENTS, ORGANISATION, SECOND, running

STATUSES = ("succeeded", "failed", "dead", "cancelled")
RUNS = st.lists(
    st.tuples(st.integers(0, 100), st.sampled_from("abc"), st.sampled_from(STATUSES), st.booleans()),
    max_size=20,
)
RELEASES = st.lists(st.tuples(st.integers(0, 100), st.sampled_from("abc")), max_size=6).map(
    lambda found: sorted(found, key=lambda one: one[0])
)


@settings(deadline=None, max_examples=30)
@given(RUNS, RELEASES)
async def test_runs_count_for_the_release_that_did_them(
    runs: list[tuple[int, str, str, bool]], releases: list[tuple[int, str]]
) -> None:
    with running() as platform:
        for at, version, status, direct in runs:
            platform.report(
                replace(record("", status, 1, queued_at=NOW + at), version=version),
                direct=direct and status in ("succeeded", "failed"),
            )
        platform.report(replace(record("", "failed", 1), version="a"), environment=ENVIRONMENTS[1])
        starts = [round(NOW + at) * SECOND for at, _ in releases]
        tally = await platform.history.release_tally(ORGANISATION, ENVIRONMENTS[0], starts)
    versions = [version for _, version in releases]
    for place, (start, version) in enumerate(releases):
        again = [at for at, other in releases[place + 1 :] if other == version]
        until = again[0] if again else 1000
        mine = [one for one in runs if one[1] == version and start <= one[0] < until]
        found = tally.of(place, versions)
        assert (found.all, found.failed) == (len(mine), sum(one[2] in ("failed", "dead") for one in mine))
