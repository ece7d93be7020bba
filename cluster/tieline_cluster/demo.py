"""``make demo``: from nothing to an order that goes through a running integration into a shop, and a member's sign-in.

Everything is real: the cluster, the images built from this checkout, the manifests that users apply, and the
shop and the club, small services that know nothing of Tieline. The club has an OAuth 2.0 provider for trying.
"""

import argparse
import json
import os
import shlex
import shutil
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tieline_cluster.deployment.kubectl import Kubectl, kubectl_for
from tieline_cluster.deployment.oauth_sign_in import Club, connect, find_club
from tieline_cluster.deployment.platform import Deployed, deploy, request, until, with_images
from tieline_cluster.deployment.service_access import stop
from tieline_cluster.errors import ClusterError
from tieline_cluster.image_build.pip_settings import package_settings
from tieline_cluster.progress import Lines, Progress
from tieline_cluster.providers import PROVIDERS, ClusterProvider, choose_provider

CHECKOUT = Path(__file__).resolve().parents[2]
WORK = CHECKOUT / ".tieline"
QUICKSTART = CHECKOUT / "examples" / "quickstart"
LOGIN = CHECKOUT / "examples" / "login"
CLUSTER = "demo"
ORGANISATION = "acme"
PROJECT = "order-sync"
MEMBERSHIP = "membership"
_NOT_KEPT = """
The demo's event engine has no volume here: it keeps events as long as its pod.
"""
TOKEN_DURATION = "24h"  # noqa: S105  (a duration)
ORDER: dict[str, Any] = {
    "number": "S-1001",
    "buyer": {"email": "ann@example.org"},
    "items": [{"product": "mug", "count": 2, "price": "9.90"}],
}


@dataclass(frozen=True)
class DemoResult:
    """What the summary tells."""

    webhook: str
    answer: dict[str, Any]
    orders: Any
    member: str
    """The webhook that reads a member's record."""
    record: dict[str, Any]
    club: Club
    credential: str
    """The id of the member's credential in the club."""


def up(provider: ClusterProvider, progress: Progress) -> None:
    """The whole demonstration; raises ClusterError with what to do."""
    started = time.monotonic()
    cluster = provider.up()
    kubectl = kubectl_for(cluster, progress)
    # The nodes of another cluster have their own ways to packages.
    local = provider.provider != "existing"
    deployed = deploy(
        checkout=CHECKOUT,
        work=WORK,
        provider=provider,
        cluster=cluster,
        kubectl=kubectl,
        progress=progress,
        for_browsers=True,
        settings=package_settings(os.environ, Path.home()) if local else None,
    )
    shown = _show(deployed, progress)
    _write_environment(deployed, shown)
    print(_summary(deployed, shown, time.monotonic() - started))


def down(provider: ClusterProvider, progress: Progress) -> None:
    """Removes the cluster (from a cluster of the user's, what the demo applied) and the demo's files."""
    stop(WORK / "platform" / "forwards")
    if provider.provider == "existing":
        kubectl = kubectl_for(provider.up(), progress)
        for applied in ("login", "quickstart", "platform"):
            if (WORK / applied).exists():
                with progress.step(f"Deleting what was applied from {applied}"):
                    kubectl("delete", "--ignore-not-found", "-k", str(WORK / applied), timeout=300)
    else:
        provider.down()
    remove_files(WORK)


def remove_files(work: Path) -> None:
    """Deletes what the demo wrote in ``work``, and ``work`` itself when nothing else is left in it."""
    (work / "demo.env").unlink(missing_ok=True)
    for folder in ("bin", "login", "platform", "quickstart"):
        shutil.rmtree(work / folder, ignore_errors=True)
    with suppress(OSError):
        work.rmdir()


def _show(deployed: Deployed, progress: Progress) -> DemoResult:
    kubectl = deployed.kubectl
    with progress.step("Applying examples/quickstart"):
        runtime = {"runtime": deployed.images["runtime"]}
        kubectl("apply", "-k", str(with_images(QUICKSTART, images=runtime, work=WORK / "quickstart")))
        token = _token(kubectl)
    with progress.step("Waiting until the integration runs"):
        until("the environment runs", lambda: _running(kubectl, PROJECT), within=240)
        _run(kubectl, "rollout", "status", "deployment/shop", "--timeout=120s")
    with progress.step("Sending an order to the integration's webhook"):
        webhook = f"{deployed.reach.url(ORGANISATION, _service(kubectl, PROJECT))}/orders"
        answer = json.loads(
            until("the webhook answers", lambda: request("POST", webhook, body=ORDER), within=30)
        )
        key = _run(kubectl, "exec", "deployment/shop", "--", "printenv", "SHOP_API_KEY").strip()
        orders = json.loads(
            request("GET", f"{deployed.reach.url(ORGANISATION, 'shop')}/orders", headers={"X-API-Key": key})
        )
    if ORDER["number"] not in json.dumps(orders):
        raise ClusterError(f"The shop did not receive order {ORDER['number']}; it has {orders}")
    namespace = json.loads(kubectl("get", "namespace", ORGANISATION, "-o", "json"))
    organisation = namespace["metadata"]["labels"]["tieline.dev/organisation"]
    member, record, club, connection = _sign_in(deployed, token, organisation, progress)
    (credential,) = connection["credentials"]
    return DemoResult(
        webhook=webhook,
        answer=answer,
        orders=orders,
        member=member,
        record=record,
        club=club,
        credential=credential["credential"]["id"],
    )


def _sign_in(
    deployed: Deployed, token: str, organisation: str, progress: Progress
) -> tuple[str, dict[str, Any], Club, dict[str, Any]]:
    """A member of the club signs in; the webhook that then reads her record, the record, and the connection."""
    kubectl, reach = deployed.kubectl, deployed.reach
    with progress.step("Applying examples/login"):
        callback = f"{deployed.url}/oauth2/callback"
        manifests = with_images(
            LOGIN,
            images={"runtime": deployed.images["runtime"]},
            work=WORK / "login",
            secrets={"club-settings": {"REDIRECT_URIS": callback}},
            namespace=ORGANISATION,
        )
        kubectl("apply", "-k", str(manifests))
        _run(kubectl, "rollout", "status", "deployment/club", "--timeout=120s")
        until("the environment runs", lambda: _running(kubectl, MEMBERSHIP), within=240)
    with progress.step("Signing in as a member of the club, by OAuth 2.0"):
        url = reach.url(ORGANISATION, "club")
        until("the club answers", lambda: request("GET", f"{url}/healthz"), within=30)
        club: Club = until(
            "the API knows the club",
            lambda: find_club(api=deployed.url, token=token, organisation=organisation, url=url),
            within=30,
        )
        try:
            connection = connect(club, member="ann", password="anns-password")  # noqa: S106  (of the example)
        except OSError as error:
            raise ClusterError(f"A member of the club cannot sign in: {error}") from error
        member = f"{reach.url(ORGANISATION, _service(kubectl, MEMBERSHIP))}/me"
        record = json.loads(until("the webhook answers", lambda: request("GET", member), within=60))
    return member, record, club, connection


def _service(kubectl: Kubectl, project: str) -> str:
    """The name of the environment's Service."""
    label, name = f"tieline.dev/project={project}", "jsonpath={.items[0].metadata.name}"
    return _run(kubectl, "get", "services", "-l", label, "-o", name).strip()


def _running(kubectl: Kubectl, project: str) -> dict[str, Any] | None:
    found = json.loads(_run(kubectl, "get", "project", project, "-o", "json"))
    environment: dict[str, Any] = found["status"]["environments"][0]
    if environment["status"] == "error":
        raise ValueError(environment["message"])
    return environment if environment["status"] == "running" else None


def _token(kubectl: Kubectl) -> str:
    """A token of an administrator of the demo's organisation."""
    account = {"name": "demo", "namespace": ORGANISATION}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tieline-admin"}
    manifests = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "demo-admin", "namespace": ORGANISATION},
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", **account}],
        },
    ]
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
    return _run(kubectl, "create", "token", "demo", f"--duration={TOKEN_DURATION}").strip()


def _write_environment(deployed: Deployed, shown: DemoResult) -> None:
    """``.tieline/demo.env`` for the shell; it holds a token, so only its owner may read it."""
    kubectl = deployed.kubectl
    programs = WORK / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    wrapper = programs / "kubectl"
    wrapper.write_text(f'#!/bin/sh\nexec {shlex.join(kubectl.argv)} "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    values = {
        "TIELINE_URL": deployed.url,
        "TIELINE_SERVICE_URL": deployed.reach.url("tieline-system", "tieline-api"),
        "TIELINE_TOKEN": shown.club.token,
        "TIELINE_ORGANISATION": shown.club.organisation,
        "TIELINE_CONSOLE_URL": f"{deployed.url}/console/",
        "KUBECONFIG": str(kubectl.kubeconfig),
    }
    lines = [f"{name}={shlex.quote(value)}" for name, value in values.items()]
    lines += [f"export {' '.join(values)}", f'export PATH={shlex.quote(str(programs))}:"$PATH"']
    file = WORK / "demo.env"
    file.touch(mode=0o600)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _summary(deployed: Deployed, shown: DemoResult, elapsed: float) -> str:
    resources = _run(deployed.kubectl, "get", "projects,systems,connections,connectiontemplates")
    return f"""
{resources}
An order was sent to {shown.webhook}
  the integration answered  {json.dumps(shown.answer)}
  and the shop now has      {json.dumps(shown.orders)}
Ann, a member of the club, signed in by OAuth 2.0 (the demo clicked for her). With her token {shown.member}
  answers                   {json.dumps(shown.record)}

API            {deployed.url}/api/v2/o/{shown.club.organisation}/projects
Documentation  {deployed.url}/docs
Console        {deployed.url}/console/
  It is plain HTTP, so it works on this machine alone. Sign in with the token that this prints:
  sed -n "s/^TIELINE_TOKEN=//p" .tieline/demo.env

Try next:
  . .tieline/demo.env
  curl -H "Authorization: Bearer $TIELINE_TOKEN" $TIELINE_URL/api/v2/o/$TIELINE_ORGANISATION/projects
  kubectl -n {ORGANISATION} get tieline
  kubectl -n {ORGANISATION} describe project {PROJECT}
  curl -H 'Content-Type: application/json' -d '{json.dumps(ORDER)}' {shown.webhook}
  # Sign in yourself, as ben with bens-password: open the URL that this answers in a browser on this machine,
  # wait ten seconds on the page that you come back to, and ask {shown.member} again.
  curl -H "Authorization: Bearer $TIELINE_TOKEN" -H 'Content-Type: application/json' \\
    -d '{json.dumps(shown.club.initialise_body(shown.credential))}' \\
    $TIELINE_URL/api/v2/o/$TIELINE_ORGANISATION/{shown.club.initialise_path}
  make demo-down            # removes everything again
{"" if deployed.kept else _NOT_KEPT}
Done in {elapsed:.0f} s."""


def _run(kubectl: Kubectl, *arguments: str) -> str:
    return kubectl("-n", ORGANISATION, *arguments)


def main() -> int:
    """``python -m tieline_cluster.demo up|down``."""
    parser = argparse.ArgumentParser(description="Tieline's demonstration on a local Kubernetes")
    parser.add_argument("action", choices=["up", "down"])
    parser.add_argument("--provider", default="auto", choices=PROVIDERS, help="where to get a cluster")
    parser.add_argument("--context", help="the kubeconfig's context, for an existing cluster")
    arguments = parser.parse_args()
    progress = Lines()
    try:
        provider = choose_provider(
            arguments.provider, name=CLUSTER, context=arguments.context, progress=progress, install=True
        )
        if arguments.action == "up":
            up(provider, progress)
        else:
            down(provider, progress)
    except ClusterError as error:
        print(f"\nThe demo stopped: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
