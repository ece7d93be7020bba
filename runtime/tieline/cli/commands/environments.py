"""``tieline env`` and ``tieline projects``."""

from typing import Annotated, Any

import typer
from rich.text import Text

from tieline.cli.exit_codes import UsageError
from tieline.cli.option_groups import Commands
from tieline.cli.options import InProject, OutputOption, Platform, YesOption, confirm
from tieline.cli.remote.environment_variables import changed_variables, given_variables
from tieline.cli.remote.lookup import environment_of, get_project
from tieline.cli.terminal import Output, age, say, show, styled

environments = Commands(no_args_is_help=True, help="List, create, clone, configure and delete environments.")
projects = Commands(no_args_is_help=True, help="List, create and delete projects.")
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The environment's name.")]
_COLUMNS = ("environment", "status", "deployed", "serves", "age", "rollout", "webhooks", "message")


@environments.command("list")
def list_environments(
    *,
    where: InProject,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the environments of a project: what is deployed, what serves, since when, and how it is."""
    remote = platform.client()
    found = where.find_project(remote)
    show(
        output,
        found["environments"],
        _COLUMNS,
        lambda: [
            (
                item["name"],
                _status(item),
                (item.get("deployedVersion") or {}).get("name"),
                (item.get("servingVersion") or {}).get("name"),
                age(item["lastDeployedAt"]) if item.get("deployedVersion") else "",
                styled((item.get("rollout") or {}).get("state", "")),
                item["publicUrl"],
                item.get("message"),
            )
            for item in found["environments"]
        ],
    )


@environments.command("create")
def create_environment(
    name: NameArgument,
    *,
    clone: Annotated[
        str | None, typer.Option(metavar="NAME", help="Copy the version and systems of this environment.")
    ] = None,
    copy_variables: Annotated[
        bool, typer.Option(help="With --clone: copy the static variables, too.")
    ] = False,
    where: InProject,
    platform: Platform,
) -> None:
    """Create an environment, empty or as a copy of another one."""
    remote = platform.client()
    found = where.find_project(remote)
    path = f"projects/{found['id']}/environments"
    if clone:
        body: dict[str, Any] = {
            "oldEnvName": environment_of(found, clone)["name"],
            "newEnvName": name,
            "cloneSystems": True,
            "copyStaticUserVariables": copy_variables,
        }
        remote.request("POST", f"{path}/clone", body=body)
    elif copy_variables:
        raise UsageError("--copy-variables needs --clone")
    else:
        remote.request("POST", path, body={"name": name})
    say(f"Created {name}; deploy to it with `tieline deploy --environment {name}`")


@environments.command("config")
def configure(
    name: NameArgument,
    *,
    replicas: Annotated[int | None, typer.Option(min=0, help="How many pods run.")] = None,
    cpu: Annotated[str | None, typer.Option(help="CPU limit of a pod, such as 500m.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory limit of a pod, such as 256Mi.")] = None,
    sleep_after: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Sleep, without pods, after so long without work: 10s to 24h."),
    ] = None,
    no_sleep: Annotated[bool, typer.Option("--no-sleep", help="Always have pods.")] = False,
    image: Annotated[
        str | None, typer.Option(help="An image with packages of your own; empty for the platform's.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Set an environment variable; repeat it for several."),
    ] = None,
    env_secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SECRET/KEY", help="Set one from a key of a Secret that is opened to code."
        ),
    ] = None,
    unset_env: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Remove an environment variable.")
    ] = None,
    where: InProject,
    platform: Platform,
) -> None:
    """Change how an environment runs. What is left out stays."""
    if sleep_after is not None and no_sleep:
        raise UsageError("--sleep-after and --no-sleep exclude each other")
    given = given_variables(env or (), env_secret or ())
    remote = platform.client()
    found = environment_of(where.find_project(remote), name)
    limits = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    spec = {
        **({"replicas": replicas} if replicas is not None else {}),
        **({"resources": {"limits": limits}} if limits else {}),
    }
    body = {
        **({"deploymentSpec": spec} if spec else {}),
        **({"scaling": {"min": 0, "idleAfter": sleep_after}} if sleep_after is not None else {}),
        **({"scaling": {"min": 1}} if no_sleep else {}),
        **({"image": image} if image is not None else {}),
        **({"env": changed_variables(found, given, unset_env or ())} if given or unset_env else {}),
    }
    if not body:
        raise UsageError("Nothing is to be changed; name an option such as --replicas")
    remote.request("PUT", f"environments/{found['id']}/config", body=body)
    say(f"Changed {found['name']}")


@environments.command("delete")
def delete_environment(
    name: NameArgument,
    *,
    where: InProject,
    yes: YesOption = False,
    platform: Platform,
) -> None:
    """Delete an environment with its activations, events and state."""
    remote = platform.client()
    found = where.find_project(remote)
    chosen = environment_of(found, name)
    confirm(f"Delete {chosen['name']} of {found['name']}, with its activations, events and state?", yes=yes)
    remote.request("DELETE", f"projects/{found['id']}/environments/{chosen['id']}")
    say(f"Deleted {chosen['name']}")


@projects.command("list")
def list_projects(
    *,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """List projects with their environments."""
    items = platform.client().get("projects")["projects"]
    show(
        output,
        items,
        ("project", *_COLUMNS[:-2], "id"),
        lambda: [
            (
                item["name"],
                environment["name"],
                _status(environment),
                (environment.get("deployedVersion") or {}).get("name"),
                (environment.get("servingVersion") or {}).get("name"),
                age(environment["lastDeployedAt"]) if environment.get("deployedVersion") else "",
                styled((environment.get("rollout") or {}).get("state", "")),
                item["id"],
            )
            for item in items
            for environment in item["environments"]
        ],
        empty="There are no projects. Create one with `tieline init` and `tieline deploy --create`.",
    )


@projects.command("create")
def create_project(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The project's name.")],
    *,
    platform: Platform,
) -> None:
    """Create a project with the environment production."""
    created = platform.client().request("POST", "projects", body={"name": name})
    say(f"Created {created['name']} ({created['id']})")


@projects.command("delete")
def delete_project(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The project's name or id.")],
    *,
    yes: YesOption = False,
    platform: Platform,
) -> None:
    """Delete a project with all that it runs."""
    remote = platform.client()
    found = get_project(remote, name)
    names = ", ".join(item["name"] for item in found["environments"])
    confirm(f"Delete {found['name']} ({found['id']}) with its environments {names}?", yes=yes)
    remote.request("DELETE", f"projects/{found['id']}")
    say(f"Deleted {found['name']}")


def _status(environment: dict[str, Any]) -> Text:
    return styled("sleeping" if environment.get("sleeping") else environment["status"])
