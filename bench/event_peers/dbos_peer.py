"""DBOS on Postgres: its queue, enqueued by its client."""

import os
import threading

from dbos import DBOS, DBOSClient

from bench.event_peers.publishing import (
    Notes,
    arguments,
    load_of,
    payload,
    publish_in_threads,
    write_sent,
)

_URL = os.environ["BENCH_URL"]
_POLLING = float(os.environ.get("BENCH_POLLING", "0.01"))
_notes = Notes() if os.environ.get("BENCH_NOTES") else None


@DBOS.workflow(name="order")
def order(content: dict) -> None:
    assert _notes is not None
    _notes.add(content["number"])


def main() -> None:
    chosen = arguments()
    if chosen.what == "publish":
        client = DBOSClient(system_database_url=_URL, system_database_pool_size=64)
        options = {"workflow_name": "order", "queue_name": "orders", "app_version": "bench"}
        sent = publish_in_threads(lambda number: client.enqueue(options, payload(number)), **load_of(chosen))
        write_sent(chosen, sent)
        client.destroy()
        return
    DBOS(
        config={
            "name": "bench",
            "system_database_url": _URL,
            "application_version": "bench",
            "run_admin_server": False,
            "log_level": "WARNING",
        }
    )
    DBOS.launch()
    if chosen.what == "work":
        DBOS.register_queue("orders", polling_interval_sec=_POLLING, on_conflict="always_update")
        threading.Event().wait()
    DBOS.destroy()


if __name__ == "__main__":
    main()
