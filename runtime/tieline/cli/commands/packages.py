"""``tieline lock``: which packages the code gets, in exact versions and with hashes."""

from typing import Annotated

import typer

from tieline.cli.exit_codes import CommandError, ExitCode
from tieline.cli.options import HERE, FolderArgument
from tieline.configuration.project_folder import find


def lock(
    folder: FolderArgument = HERE,
    *,
    upgrade: Annotated[bool, typer.Option("--upgrade", help="Take the newest versions.")] = False,
    upgrade_package: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Take the newest version of this package.")
    ] = None,
    check_only: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if the file is out of date.")
    ] = False,
) -> None:
    """Write requirements.txt: the packages of requirements.in, in exact versions and with hashes."""
    from tieline_packages.archive import PackagesError  # noqa: PLC0415  (imported by the command that needs it)
    from tieline_packages.local import SOURCE, write_lock  # noqa: PLC0415

    code = find(folder).code
    try:
        found, changed = write_lock(code, upgrade=upgrade, upgraded=upgrade_package or (), check=check_only)
    except PackagesError as error:
        raise CommandError(f"The packages cannot be locked: {error}") from None
    path, count = code / "requirements.txt", len(found.packages)
    packages = "1 package" if count == 1 else f"{count} packages"
    if not changed:
        print(f"{path} has the {packages} of {SOURCE}")
    elif check_only:
        print(f"{path} is out of date; run `tieline lock`")
        raise typer.Exit(ExitCode.FAILED)
    else:
        print(f"Wrote {path} with {packages}")
