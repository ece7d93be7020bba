"""Jobs of the limited process about variables: a schema, and values that must follow it.

A job is ``{"schema": object, "values": [object]}``. The first answer is ``{"problem": text or null}``,
why the schema cannot be used; one ``{"errors": [[path, message]]}`` for each value follows. There may be fewer of these
than values: a job gives the process back after a while, and the caller asks again for the values that are left.
"""

import time
from collections.abc import Iterator

import orjson

from tieline_protocol.variables import InvalidSchema, errors_in

_TURN_SECONDS = 0.25


def answers(body: bytes) -> Iterator[bytes]:
    """The answers to a job."""
    began = time.process_time()
    job = orjson.loads(body)
    schema = orjson.dumps(job["schema"], option=orjson.OPT_SORT_KEYS)
    try:
        # What is expensive for no values at all is found here, and held against the schema alone.
        errors_in(schema, {})
    except InvalidSchema as error:
        yield orjson.dumps({"problem": str(error)})
        return
    yield orjson.dumps({"problem": None})
    for number, values in enumerate(job["values"]):
        if number and time.process_time() - began > _TURN_SECONDS:
            return
        found = errors_in(schema, values)
        yield orjson.dumps({"errors": [[error.path, error.message] for error in found]})
