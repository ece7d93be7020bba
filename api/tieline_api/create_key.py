"""``tieline-api create-key``: makes an API key, and prints it once."""

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from tieline_api.auth.api_keys import USER_PREFIX, manifest, new_key
from tieline_api.cluster.field_managers import MANAGER
from tieline_api.settings import served_namespace
from tieline_core.identity.ids import ORGANISATION_LABEL, parse_id
from tieline_core.kubernetes import Kube, KubeError
from tieline_core.kubernetes.kubeconfig import NoClusterError
from tieline_core.kubernetes.resources import NAMESPACES, SECRETS
from tieline_core.kubernetes.scoped_client import ScopedKube

_DURATION = re.compile(r"(?P<number>[1-9][0-9]{0,4})(?P<unit>[hd])")
_HINT = """\
This is the only time that the key is shown. What it may do is up to roles in the namespace, for example:
  kubectl create rolebinding {name} -n {namespace} --clusterrole=tieline-editor --user={user}
It ends{when} when its Secret is deleted:
  kubectl delete secret {secret} -n {namespace}
"""


def main(arguments: Sequence[str]) -> int:
    """The command; 0 when a key was made, 1 when Kubernetes refuses, 2 for arguments that cannot be."""
    parser = argparse.ArgumentParser(
        prog="tieline-api create-key", description="Make an API key of an organisation, and print it once."
    )
    parser.add_argument("--organisation", required=True, help="the organisation's id (a ULID)")
    parser.add_argument("--user", required=True, help="the user that the key acts as, such as ci")
    parser.add_argument("--group", action="append", default=[], help="a group of that user (may be repeated)")
    parser.add_argument(
        "--expires-in", default="", help="how long it is good, such as 12h or 90d; absent: for ever"
    )
    parser.add_argument(
        "--namespace",
        default=served_namespace(os.environ.get("TIELINE_NAMESPACES", "")),
        help="the organisation's namespace, for those who may not list all",
    )
    parser.add_argument("--context", help="context of the kubeconfig")
    given = parser.parse_args(arguments)
    organisation, lasts = parse_id(given.organisation), _DURATION.fullmatch(given.expires_in)
    if organisation is None:
        parser.error("--organisation must be a ULID: kubectl get ns -L tieline.dev/organisation shows them")
    if given.expires_in and lasts is None:
        parser.error("--expires-in must be like 12h or 90d")
    hours = (int(lasts["number"]) * (24 if lasts["unit"] == "d" else 1)) if lasts else None
    expires = datetime.now(UTC) + timedelta(hours=hours) if hours else None
    try:
        return asyncio.run(_create(organisation, given, expires))
    except ValueError as error:
        parser.error(str(error))
    except (KubeError, NoClusterError) as error:
        print(error, file=sys.stderr)
        return 1


async def _connect(given: argparse.Namespace) -> Kube:
    agent = "tieline-api create-key"
    if given.namespace is None:
        return await Kube.connect(context=given.context, user_agent=agent)
    return await ScopedKube.connect(context=given.context, user_agent=agent, namespaces=[given.namespace])


async def _create(organisation: str, given: argparse.Namespace, expires: datetime | None) -> int:
    async with await _connect(given) as kube:
        found = await kube.list(NAMESPACES, label_selector=f"{ORGANISATION_LABEL}={organisation}")
        if not found:
            print(f"There is no organisation {organisation} in this cluster", file=sys.stderr)
            return 1
        names = sorted(str(one["metadata"]["name"]) for one in found)
        if len(names) > 1:
            print(
                f"Several namespaces carry the id {organisation}: {', '.join(names)}; name the one that is the "
                "organisation with --namespace",
                file=sys.stderr,
            )
            return 1
        namespace = names[0]
        key = new_key(organisation)
        secret = manifest(key, namespace=namespace, user=given.user, groups=given.group, expires=expires)
        await kube.create(SECRETS, secret, field_manager=MANAGER)
    print(key)
    user = f"{USER_PREFIX}{organisation.lower()}:{given.user}"
    when = f" at {expires:%Y-%m-%d %H:%M} UTC, or" if expires else ""
    print(
        _HINT.format(
            name=f"api-key-{given.user.lower()}",
            namespace=namespace,
            user=user,
            when=when,
            secret=secret["metadata"]["name"],
        ),
        file=sys.stderr,
    )
    return 0
