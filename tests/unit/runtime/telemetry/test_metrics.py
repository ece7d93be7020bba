"""What a pod tells Prometheus of its runs."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tieline.telemetry.metrics import BUCKETS, MAX_TASK_SERIES, OTHER, RunMetrics


def samples(counts: RunMetrics, name: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by its labels' values, in the order of the labels' names."""
    found = {}
    for family in text_string_to_metric_families(counts.text({"tieline_runs_active": ("Runs.", lambda: 2)})):
        for sample in family.samples:
            if sample.name == name:
                found[tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
    return found


def test_projects_with_one_task_name_are_told_apart() -> None:
    one, other = (RunMetrics(project=name, environment="production") for name in ("orders", "invoices"))
    for counts in (one, other):
        counts.add("schedule", "sync", "succeeded", 0.2)
    told = samples(one, "tieline_runs_total") | samples(other, "tieline_runs_total")
    assert told == {
        ("production", "schedule", "succeeded", project, "sync"): 1 for project in ("orders", "invoices")
    }
    assert samples(one, "tieline_runs_active") == {("production", "orders"): 2}


def test_durations_are_a_histogram() -> None:
    counts = RunMetrics(project="orders", environment="production")
    for seconds in (0.005, 0.05, 0.06, 700.0):
        counts.add("webhook", "orders", "succeeded", seconds)
    buckets = {
        labels[2]: value for labels, value in samples(counts, "tieline_run_duration_seconds_bucket").items()
    }
    assert buckets["0.01"] == 1
    assert buckets["0.05"] == 2, "a limit is part of its bucket"
    assert buckets["0.1"] == buckets["600"] == 3
    assert buckets["+Inf"] == 4
    assert len(buckets) == len(BUCKETS) + 1
    assert list(samples(counts, "tieline_run_duration_seconds_count").values()) == [4]
    assert round(next(iter(samples(counts, "tieline_run_duration_seconds_sum").values())), 3) == 700.115


def test_names_that_are_made_up_at_run_time_do_not_grow_the_metrics_without_end() -> None:
    counts = RunMetrics(project="orders", environment="production")
    for number in range(MAX_TASK_SERIES + 50):
        counts.add("background", f"task-{number}", "succeeded", 0.1)
    counts.add("background", "task-1", "succeeded", 0.1)
    told = {labels[-1]: value for labels, value in samples(counts, "tieline_runs_total").items()}
    assert len(told) == MAX_TASK_SERIES + 1
    assert told[OTHER] == 50
    assert told["task-1"] == 2


def test_a_name_cannot_break_the_format() -> None:
    counts = RunMetrics(project="orders", environment="production")
    counts.add("background", 'a"} 1\nforged{x="\\', "succeeded", 0.1)
    ((labels, value),) = samples(counts, "tieline_runs_total").items()
    assert labels[-1] == 'a"} 1\nforged{x="\\'
    assert value == 1
