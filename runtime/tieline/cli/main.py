"""The command line ``tieline``."""

import os
import sys
import traceback
from typing import TextIO

EXTRA = frozenset(
    {"jsonschema_rs", "keyring", "orjson", "platformdirs", "rich", "typer", "ulid", "urllib3", "yaml"}
)
DEBUG = "TIELINE_DEBUG"
"""Environment variable: show where an unexpected error comes from."""
_FAILED, _USAGE, _INTERRUPTED, _READER_GONE = 1, 2, 130, 141


def main() -> None:
    """Run the command. ``exit_codes`` says what its exit codes mean."""
    _make_writable()
    try:
        code = _run()
        sys.stdout.flush()
    except BrokenPipeError:
        code = _READER_GONE
    except OSError as error:
        _complain(f"The output cannot be written: {error.strerror}")
        code = _FAILED
        _discard_output()
    if code == _READER_GONE:
        # The reader, such as `head`, has had enough.
        _discard_output()
    sys.exit(code)


def _discard_output() -> None:
    """Python writes what is left in its buffer when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _run() -> int:
    try:
        # What the extra "cli" brings may be missing.
        from tieline.cli.application import app  # noqa: PLC0415
        from tieline.cli.exit_codes import CommandError  # noqa: PLC0415
        from tieline.configuration.project_folder import FolderError  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in EXTRA:
            raise
        print(f"tieline: {error.name} is missing; run `pip install 'tieline[cli]'`", file=sys.stderr)
        return _USAGE
    try:
        app()
    except SystemExit as end:
        if type(sys.stdout).__name__ == "PacifyFlushWrapper":
            # typer's way to end when the reader has gone.
            return _READER_GONE
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except CommandError as error:
        _complain(str(error))
        return error.code
    except FolderError as error:
        _complain(str(error))
        return _USAGE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        raise
    except OSError as error:
        _complain(
            f"{error.filename or 'The output cannot be written'}: {error.strerror or type(error).__name__}"
        )
        _discard_output()
        return _FAILED
    except Exception as error:
        _complain_of_defect(error)
        return _FAILED
    return 0


def _make_writable() -> None:
    """Every text can be written, in any locale, and with closed streams."""
    for name in ("stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _complain(message: str) -> None:
    from tieline.cli.terminal import safe  # noqa: PLC0415

    print(f"tieline: {safe(message)}", file=sys.stderr)


def _complain_of_defect(error: Exception) -> None:
    """An answer that is none of the API's, or a defect of the command. Its text could hold a token."""
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    _complain(
        f"{type(error).__name__} in {place}: an answer of the API, or the command itself, is not as expected. "
        f"Do their versions fit? {DEBUG}=1 shows more."
    )
