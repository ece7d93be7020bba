"""The command line ``tieline``."""

import sys

EXTRA = frozenset(
    {"jsonschema_rs", "keyring", "orjson", "platformdirs", "rich", "typer", "ulid", "urllib3", "yaml"}
)
_INTERRUPTED = 130


def main() -> None:
    """Run the command. ``exit_codes`` says what its exit codes mean."""
    sys.exit(_run())


def _run() -> int:
    try:
        # What the extra "desk" brings may be missing.
        from tieline.cli.application import app  # noqa: PLC0415
        from tieline.cli.exit_codes import CommandError, ExitCode  # noqa: PLC0415
        from tieline.cli.terminal import safe  # noqa: PLC0415
        from tieline.configuration.project_folder import FolderError  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in EXTRA:
            raise
        print(f"tieline: {error.name} is missing; run `pip install 'tieline[desk]'`", file=sys.stderr)
        return 2
    try:
        app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except CommandError as error:
        print(f"tieline: {chr(10).join(map(safe, str(error).splitlines()))}", file=sys.stderr)
        return error.code
    except FolderError as error:
        print(f"tieline: {error}", file=sys.stderr)
        return ExitCode.USAGE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader, such as `head`, has had enough.
        sys.stderr.close()
        return ExitCode.OK
    return ExitCode.OK
