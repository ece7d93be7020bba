"""``python -m bench.variables``: what checking the variables of 10,000 activations costs an operator that starts.

Small schemas are checked at once; others in limited processes the first time, and from memory afterwards. The longest
pause is what anything else on the event loop waits for at most.
"""

import asyncio
import resource
import time
from collections.abc import Callable
from typing import Any

import uvloop

from bench.figures import table
from tieline_core.evaluation.variables_checker import VariablesChecker

_ACTIVATIONS = 10_000
_PROJECTS = 50
_PAUSE = 0.001
_CHUNK = 8  # the operator's workers


def _small(number: int) -> dict[str, Any]:
    return {
        "type": "object",
        "title": f"Project {number}",
        "required": ["region"],
        "properties": {
            "region": {"enum": ["eu", "us", "ap"]},
            "limits": {"type": "object", "properties": {"daily": {"type": "integer", "maximum": 1000}}},
            "prefix": {"type": "string", "maxLength": 8},
        },
    }


def _referring(number: int) -> dict[str, Any]:
    schema = _small(number)
    schema["$defs"] = {"region": schema["properties"]["region"]}
    schema["properties"]["region"] = {"$ref": "#/$defs/region"}
    schema["properties"]["prefix"]["pattern"] = "^[a-z]{2,8}$"
    return schema


def _uncommon(number: int) -> dict[str, Any]:
    schema = _small(number)
    schema["properties"]["tags"] = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}
    return schema


async def _checked(checker: VariablesChecker, schemas: list[dict[str, Any]]) -> None:
    """As the operator does it: nothing is waited for by those who ask."""
    done, left = asyncio.Event(), _ACTIVATIONS

    def ask(number: int) -> None:
        nonlocal left
        values = {
            "region": "eu",
            "limits": {"daily": number % 1_000},
            "prefix": "shop",
            "tags": [f"t{number}", "b"],
        }
        index = number % _PROJECTS
        if checker.request(f"org-{index % 5}", schemas[index], values, lambda: ask(number)) is not None:
            left -= 1
            if not left:
                done.set()

    for number in range(_ACTIVATIONS):
        ask(number)
        if number % _CHUNK == 0:
            await asyncio.sleep(0)
    await done.wait()


async def _measured(name: str, work: Callable[[], Any], checker: VariablesChecker) -> list[str]:
    longest, ended = 0.0, False

    async def watch() -> None:
        nonlocal longest
        while not ended:
            began = time.perf_counter()
            await asyncio.sleep(_PAUSE)
            longest = max(longest, time.perf_counter() - began - _PAUSE)

    watching = asyncio.create_task(watch())
    began, cpu = time.perf_counter(), time.process_time()
    await work()
    seconds, own = time.perf_counter() - began, time.process_time() - cpu
    ended = True
    await watching
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [
        name,
        f"{seconds:.2f} s",
        f"{own / _ACTIVATIONS * 1e6:.0f} µs",
        f"{longest * 1e3:.1f} ms",
        f"{memory:.0f} MiB",
        str(len(checker.pool.pids)),
    ]


async def main() -> None:
    """Measures and prints."""
    small, referring, uncommon = (
        [make(number) for number in range(_PROJECTS)] for make in (_small, _referring, _uncommon)
    )
    checker = VariablesChecker()
    rows = [
        await _measured("small schemas", lambda: _checked(checker, small), checker),
        await _measured("with $ref and pattern, first time", lambda: _checked(checker, referring), checker),
        await _measured("with $ref and pattern, again", lambda: _checked(checker, referring), checker),
        await _measured("others, first time", lambda: _checked(checker, uncommon), checker),
        await _measured("others, again", lambda: _checked(checker, uncommon), checker),
    ]
    await checker.close()
    head = ["schemas", "took", "own CPU each", "longest pause", "memory at most", "processes"]
    print(table("Variables of 10,000 activations", head, rows))


if __name__ == "__main__":
    uvloop.run(main())
