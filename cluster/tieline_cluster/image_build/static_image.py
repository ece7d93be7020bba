"""Images of one static program in one layer, made without any registry."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, kw_only=True)
class StaticImage:
    """What the image holds: `program` at the absolute path `path`, started as the user `user` (an id)."""

    program: Path
    path: PurePosixPath
    user: int
    environment: Mapping[str, str] = field(default_factory=dict)

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
        return _tar({str(self.path).lstrip("/"): self.program.read_bytes()}, mode=0o755)

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


def engine_image(program: Path) -> StaticImage:
    """nats-server, where the official image has it, and found by `PATH` as there."""
    path = PurePosixPath("/usr/local/bin/nats-server")
    return StaticImage(program=program, path=path, user=65532, environment={"PATH": str(path.parent)})


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _tar(files: dict[str, bytes], *, mode: int = 0o644) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return written.getvalue()
