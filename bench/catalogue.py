"""``python -m bench.catalogue``: searches of the catalogue, and imports of GraphQL schemas."""

import asyncio
import resource
import tempfile
import time
from pathlib import Path

from bench.figures import percentile, table
from tieline_catalogue import packing
from tieline_catalogue.catalogue import Catalogue
from tieline_core.connectors.import_process import Importer

_SEARCHES = ("", "google", "pull requests", "e", "nothing has this", "invoices customers")
_RUNS = 1_000
_CHECKOUT = Path(__file__).parents[1] / "catalogue"
_IMPORTS = 2
_SIZES = (100, 1500)


def searches(folder: Path) -> str:
    """What a search of the packed catalogue takes, and the first one, which reads the file."""
    packed = folder / "catalogue.zip"
    packing.pack(_CHECKOUT, packed)
    began = time.perf_counter()
    catalogue = Catalogue(packed)
    found = len(catalogue.search(""))
    first = time.perf_counter() - began
    times = []
    for number in range(_RUNS):
        began = time.perf_counter()
        catalogue.search(_SEARCHES[number % len(_SEARCHES)])
        times.append((time.perf_counter() - began) * 1000)
    row = [
        str(found),
        f"{first:.2f} s",
        f"{percentile(times, 0.5):.2f} ms",
        f"{percentile(times, 0.99):.2f} ms",
    ]
    return table("The catalogue", ["entries", "first search", "search, p50", "p99"], [row])


async def imports() -> str:
    """What an import of a schema takes, from start to result, in its limited child process."""
    rows = []
    for types in _SIZES:
        data = schema(types)
        times, before = [], _children()
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            for _ in range(_IMPORTS):
                began = time.perf_counter()
                await Importer().run(file, format="graphql")
                times.append(time.perf_counter() - began)
        spent = (_children() - before) / _IMPORTS
        rows.append([f"{len(data) / 1e6:.1f} MB, {types:,} types", f"{min(times):.1f} s", f"{spent:.1f} s"])
    return table("Imports of GraphQL schemas", ["schema", "import", "processor time"], rows)


def _children() -> float:
    """Seconds of processor time of the child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def schema(types: int) -> bytes:
    """SDL with as many types, and an operation for each fourth of them."""
    parts = ["type PageInfo { hasNextPage: Boolean! endCursor: String }"]
    for number in range(types):
        fields = "\n".join(
            f'  """\n  The field number {field}, with a text of some length to describe it.\n  """\n'
            f"  field{field}(first: Int): {'String!' if field % 3 else f'T{(number * 7 + field) % types}'}"
            for field in range(15)
        )
        parts += [
            f"type T{number} {{\n{fields}\n}}",
            f"input I{number} {{ a: ID! b: [String!] c: I{(number + 1) % types} }}",
            f"type C{number} {{ nodes: [T{number}] pageInfo: PageInfo! }}",
        ]
    half = range(types // 4)
    queries = "\n".join(f"  q{number}(first: Int, after: String): C{number}" for number in half)
    mutations = "\n".join(f"  m{number}(input: I{number}!): T{number}" for number in half)
    return "\n".join([*parts, f"type Query {{\n{queries}\n}}", f"type Mutation {{\n{mutations}\n}}"]).encode()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        print(searches(Path(made)))
    print(asyncio.run(imports()))
