"""Images of static programs in one layer, made without any registry."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

ENGINE_TOOLS = ("cat", "find", "rm", "sh", "sleep")
"""What the engine's start runs."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, kw_only=True)
class StaticImage:
    """What the image holds: `program` at the absolute path `path`, started as the user `user` (an id)."""

    program: Path
    path: PurePosixPath
    user: int
    environment: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[PurePosixPath, Path] = field(default_factory=dict)
    """More programs, by their absolute paths."""
    links: Mapping[PurePosixPath, PurePosixPath] = field(default_factory=dict)
    """Symbolic links to programs."""

    @property
    def tag(self) -> str:
        """Another one for each other content."""
        return _digest(self._config)[:12]

    def archive(self, name: str) -> bytes:
        """An archive as `docker save` makes it. The same program always gives the same archive."""
        manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
        described = json.dumps(manifest).encode()
        return _tar({"config.json": self._config, "layer.tar": self._layer, "manifest.json": described})

    @cached_property
    def _layer(self) -> bytes:
        programs = {self.path: self.program, **self.more}
        return _tar(
            {_relative(path): one.read_bytes() for path, one in programs.items()},
            mode=0o755,
            links={_relative(path): str(target) for path, target in self.links.items()},
        )

    @cached_property
    def _config(self) -> bytes:
        started = {
            "Entrypoint": [str(self.path)],
            "User": f"{self.user}:{self.user}",
            "Env": [f"{variable}={value}" for variable, value in self.environment.items()],
        }
        config = {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": started,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(self._layer)}"]},
        }
        return json.dumps(config).encode()


def pause_image(program: Path) -> StaticImage:
    """The image of every pod's sandbox."""
    return StaticImage(program=program, path=PurePosixPath("/pause"), user=65535)


def engine_image(program: Path, busybox: Path) -> StaticImage:
    """nats-server with the `wget` of its probes, and of BusyBox what its start runs.

    Debian's static BusyBox has a wget of its own, which crashes where there are no libraries to look addresses up.
    """
    path, tools = PurePosixPath("/usr/local/bin/nats-server"), PurePosixPath("/bin")
    return StaticImage(
        program=program,
        path=path,
        user=65532,
        environment={"PATH": f"{path.parent}:{tools}"},
        more={path.parent / "wget": program.parent / "wget", tools / "busybox": busybox},
        links={tools / tool: tools / "busybox" for tool in ENGINE_TOOLS},
    )


def _relative(path: PurePosixPath) -> str:
    return str(path).lstrip("/")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _tar(files: dict[str, bytes], *, mode: int = 0o644, links: Mapping[str, str] | None = None) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
        for name, target in (links or {}).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
            archive.addfile(entry)
    return written.getvalue()
