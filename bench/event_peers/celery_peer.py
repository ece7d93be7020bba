"""Celery with Redis. The worker is started by celery's own command."""

import os

if os.environ.get("BENCH_GEVENT"):
    from gevent import monkey

    monkey.patch_all()

from celery import Celery

from bench.event_peers.publishing import (
    Notes,
    arguments,
    load_of,
    payload,
    publish_in_threads,
    write_sent,
)

app = Celery("bench", broker=os.environ["BENCH_URL"])
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    broker_pool_limit=64,
    worker_hijack_root_logger=False,
)
_notes = Notes() if os.environ.get("BENCH_NOTES") else None


@app.task(name="order", acks_late=True, ignore_result=True)
def order(content: dict) -> None:
    assert _notes is not None
    _notes.add(content["number"])


def main() -> None:
    chosen = arguments()
    sent = publish_in_threads(lambda number: order.apply_async((payload(number),)), **load_of(chosen))
    write_sent(chosen, sent)


if __name__ == "__main__":
    main()
