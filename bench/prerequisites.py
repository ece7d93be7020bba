"""What the benchmarks need of a cluster, installed before they begin to measure."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from tieline_core.kubernetes import Forbidden, Kube, Resource, Unauthorized, Unavailable
from tieline_core.kubernetes.kubeconfig import NoClusterError
from tieline_core.kubernetes.resources import CLUSTER_ROLES, CUSTOM_RESOURCE_DEFINITIONS

_ROOT = Path(__file__).resolve().parents[1]
_DEFINITIONS = sorted((_ROOT / "crds").glob("*s.yaml"))
_ROLES = _ROOT / "deploy" / "base" / "roles.yaml"
_MANAGER = "tieline-bench"
_SERVED_SECONDS = 60.0
_PAUSE = 0.5


@asynccontextmanager
async def cluster() -> AsyncIterator[Kube]:
    """The cluster that KUBECONFIG names, with Tieline's definitions and the roles for people.

    What is missing is installed and stays; what is there is not changed. Ends the program with a sentence where there
    is no cluster, or no right to install.
    """
    try:
        connecting = await Kube.connect()
    except NoClusterError as error:
        sys.exit(f"The benchmark needs a cluster: {error}. `make demo` starts one")
    async with connecting as kube:
        try:
            await install(kube)
        except (Unauthorized, Forbidden) as error:
            sys.exit(
                f"The benchmark may not look for Tieline's definitions and roles, or install them: {error}. "
                "Use an account of a cluster administrator"
            )
        except (Unavailable, TimeoutError) as error:
            sys.exit(f"The cluster does not answer: {error}. Check KUBECONFIG, or start one with `make demo`")
        yield kube


async def install(kube: Kube) -> list[str]:
    """Installs the definitions and roles that are missing; gives their names."""
    made = []
    for resource, manifest in _wanted():
        name = manifest["metadata"]["name"]
        there = await kube.list(resource, field_selector=f"metadata.name={name}")
        if not there:
            await kube.apply(resource, dict(manifest), field_manager=_MANAGER)
            made.append(name)
    if made:
        print(f"Installed {', '.join(made)}", file=sys.stderr)
        for _ in range(round(_SERVED_SECONDS / _PAUSE)):
            if await _established(kube):
                return made
            await asyncio.sleep(_PAUSE)
        raise TimeoutError(f"the definitions are not served after {_SERVED_SECONDS:g} s")
    return made


async def _established(kube: Kube) -> bool:
    """Whether the API server serves what our definitions define."""
    names = {manifest["metadata"]["name"] for resource, manifest in _wanted() if resource != CLUSTER_ROLES}
    served = {
        one["metadata"]["name"]
        for one in await kube.list(CUSTOM_RESOURCE_DEFINITIONS)
        for condition in one.get("status", {}).get("conditions", ())
        if (condition["type"], condition["status"]) == ("Established", "True")
    }
    return names <= served


def _wanted() -> list[tuple[Resource, Mapping[str, Any]]]:
    definitions = [yaml.safe_load(path.read_text()) for path in _DEFINITIONS]
    roles = yaml.safe_load_all(_ROLES.read_text())
    return [
        *((CUSTOM_RESOURCE_DEFINITIONS, one) for one in definitions),
        *((CLUSTER_ROLES, one) for one in roles),
    ]
