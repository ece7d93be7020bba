"""The command `tieline-cluster`: a Kubernetes on this machine, brought up and taken down."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

from tieline_cluster.definition.hyperkube import ensure_binaries
from tieline_cluster.definition.plan import Audit
from tieline_cluster.errors import ClusterError
from tieline_cluster.node.builtin import BuiltIn
from tieline_cluster.paths import clusters_folder
from tieline_cluster.progress import Lines
from tieline_cluster.providers import PROVIDERS, Cluster, ClusterProvider, choose_provider

TARGETS = ("platform", "runtime")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; errors are one sentence on standard error and exit code 1."""
    parsed = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], None] = parsed.command
    try:
        command(parsed)
    except ClusterError as error:
        print(f"tieline-cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "tieline-cluster: stopped; run `up` to go on, or `down` to remove what there is", file=sys.stderr
        )
        return 130
    return 0


def _up(parsed: argparse.Namespace) -> None:
    print(_provider(parsed).up().kubeconfig)


def _down(parsed: argparse.Namespace) -> None:
    _provider(parsed).down(keep_data=parsed.keep_data)


def _status(parsed: argparse.Namespace) -> None:
    names = sorted(path.parent.name for path in clusters_folder().glob("*/cluster.json"))
    if not names:
        print("No built-in cluster; `tieline-cluster up` makes one")
    for name in names:
        provider = BuiltIn(name=name, progress=Lines())
        cluster, running = provider.running(), provider.components()
        print(f"{name}: {f'up, kubeconfig {cluster.kubeconfig}' if cluster else 'down'}")
        for component, pid in running.items():
            print(f"  {component:<24} {pid}")


def _kubeconfig(parsed: argparse.Namespace) -> None:
    print(_running(_provider(parsed), parsed.name).kubeconfig)


def _kubectl(parsed: argparse.Namespace) -> None:
    cluster = _running(_provider(parsed), parsed.name)
    hyperkube = str(ensure_binaries(Lines()).hyperkube)
    context = ["--context", cluster.context] if cluster.context else []
    sys.stdout.flush()
    env = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    os.execve(hyperkube, [hyperkube, "kubectl", *context, *parsed.arguments], env)  # noqa: S606 (our own program)


def _build_images(parsed: argparse.Namespace) -> None:
    names = _provider(parsed).build_images(context=parsed.source, targets=parsed.targets or TARGETS)
    print(json.dumps(dict(names), indent=2))


def _load_image(parsed: argparse.Namespace) -> None:
    _provider(parsed).load_image(parsed.archive)


def _running(provider: ClusterProvider, name: str) -> Cluster:
    cluster = provider.running()
    if cluster is None:
        raise ClusterError(f"The cluster {name} is not up: `tieline-cluster up --name {name}` brings it up")
    return cluster


def _provider(parsed: argparse.Namespace) -> ClusterProvider:
    chosen = ("node", "fsync", "audit", "crash_loop_max", "port", "pod_subnet", "service_subnet")
    options: dict[str, Any] = {option: getattr(parsed, option, None) for option in chosen}
    return choose_provider(
        parsed.provider,
        name=parsed.name,
        context=parsed.context,
        progress=Lines(),
        install=getattr(parsed, "install", False),
        **options,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tieline-cluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--name", default="dev", help="the cluster's name (default: dev)")
    shared.add_argument(
        "--provider",
        choices=PROVIDERS,
        default="auto",
        help="auto (default): kind where Docker answers, else builtin; existing: the cluster of your kubeconfig",
    )
    shared.add_argument("--context", help="the kubeconfig's context, for --provider existing")

    def command(name: str, run: Callable[[argparse.Namespace], None], help: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, parents=[shared], help=help, description=help)
        added.set_defaults(command=run)
        return added

    _add_options(command("up", _up, "bring the cluster up and print its kubeconfig's path"))
    down = command("down", _down, "take the cluster down and remove all its traces")
    down.add_argument(
        "--keep-data", action="store_true", help="keep its objects and images for the next `up`"
    )
    command("status", _status, "list the built-in clusters and their programs")
    command("kubeconfig", _kubeconfig, "print the path of the kubeconfig")
    kubectl = command("kubectl", _kubectl, "run kubectl on the cluster (put -- before its arguments)")
    kubectl.add_argument("arguments", nargs=argparse.REMAINDER)
    build = command(
        "build-images", _build_images, "build the Dockerfile's targets, load them, print their names"
    )
    build.add_argument("targets", nargs="*", help=f"default: {' '.join(TARGETS)}")
    build.add_argument(
        "--source", type=Path, default=Path(), help="the Dockerfile's folder (default: this one)"
    )
    load = command("load-image", _load_image, "load an archive as of `docker save`")
    load.add_argument("archive", type=Path)
    return parser


def _add_options(up: argparse.ArgumentParser) -> None:
    """The built-in cluster's options; what is not given stays as the cluster was made with."""
    up.add_argument("--install", action="store_true", help="install the Debian packages that are missing")
    up.add_argument(
        "--node",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="with a kubelet, so that pods run (default); without, no root is needed",
    )
    up.add_argument(
        "--unsafe-no-fsync",
        dest="fsync",
        action="store_false",
        default=None,
        help="faster writes for tests: a crash of the machine can lose data",
    )
    up.add_argument(
        "--audit",
        choices=get_args(Audit),
        help="write requests to logs/audit.log in the cluster's folder: those that change something, or all of "
        "ServiceAccounts",
    )
    up.add_argument(
        "--crash-loop-max",
        type=int,
        metavar="SECONDS",
        help="the longest wait before a crashed container starts again (Kubernetes: 300)",
    )
    up.add_argument("--port", type=int, help="the first of the ports (default: 27440 + 16 for each cluster)")
    up.add_argument(
        "--pod-subnet", metavar="CIDR", help="default: 10.112.0.0/16 and the next for each cluster"
    )
    up.add_argument("--service-subnet", metavar="CIDR", help="default: 10.96.0.0/16 and the next")


if __name__ == "__main__":
    sys.exit(main())
