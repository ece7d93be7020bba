"""The base image of a Dockerfile whose FROM names a Debian release, made from Debian's packages.

It has the name that FROM has. It differs from Docker's in that it also has the packages that our Dockerfile would
install first: they come with the base then, and need no second download.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tieline_cluster.definition.plan import fingerprint
from tieline_cluster.errors import ClusterError

INCLUDED = ("ca-certificates", "python3", "python3-venv")
LEFT_OUT = (
    *("/usr/share/doc", "/usr/share/man", "/usr/share/info", "/usr/share/locale"),
    *("/var/cache/apt", "/var/lib/apt/lists", "/var/log", "/var/cache/debconf"),
)
"""Folders that are emptied, as Docker's slim images do."""
OF_THE_MACHINE = (
    *("/etc/hostname", "/etc/resolv.conf", "/etc/machine-id", "/etc/.pwd.lock"),
    *("/var/cache/ldconfig/aux-cache", "/var/lib/dpkg/*-old", "/etc/*-"),
)
"""What an image with a timestamp lacks: files that differ from one build to the next, or come from this machine."""
DEFAULT_MIRROR = "http://deb.debian.org/debian"
BASE_TIMEOUT = 1800
LABEL = "dev.tieline.base"
RECIPE = 1
"""Goes up when the way in which the image is made changes."""


@dataclass(frozen=True)
class BaseImage:
    """A Debian release as an image, marked with its recipe."""

    name: str
    release: str
    mirror: str
    timestamp: int | None = None
    """The time, in seconds since 1970, that all of its files get, so that its bytes follow from Debian's packages."""

    @property
    def recipe(self) -> str:
        """What the image is made of and how, as a fingerprint: the value of its LABEL."""
        reproducible = () if self.timestamp is None else (self.timestamp, OF_THE_MACHINE)
        return fingerprint(self.name, self.release, INCLUDED, LEFT_OUT, RECIPE, *reproducible)


def external_bases(dockerfile: str) -> list[str]:
    """The images that a Dockerfile builds on and does not make itself, each once, in their order.

    An image that an `ARG` before the first `FROM` names is meant by its default.
    """
    defaults = base_arguments(dockerfile)
    made: set[str] = set()
    needed: dict[str, None] = {}
    pattern = r"^FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?\s*$"
    for written, stage in re.findall(pattern, dockerfile, re.MULTILINE | re.IGNORECASE):
        image = _with_defaults(written, defaults)
        if image not in made and image != "scratch":
            needed[image] = None
        made.add(stage)
    return list(needed)


def base_arguments(dockerfile: str) -> dict[str, str]:
    """The build arguments that stand before the first `FROM`, with their defaults."""
    head = re.split(r"^FROM\s", dockerfile, maxsplit=1, flags=re.MULTILINE | re.IGNORECASE)[0]
    return dict(re.findall(r"^ARG\s+(\w+)=(\S+)\s*$", head, re.MULTILINE | re.IGNORECASE))


def local_base_arguments(dockerfile: str) -> dict[str, str]:
    """The build arguments that must be given to build on images made here: those whose default has a digest.

    An image that is made here has another digest than the published one, so it is named by its tag alone.
    """
    return {
        name: base_image(image).name
        for name, image in base_arguments(dockerfile).items()
        if "@" in image and image in external_bases(dockerfile)
    }


def base_image(name: str, *, timestamp: int | None = None) -> BaseImage:
    """How to make the image `debian:<release>` or `debian:<release>-slim`; no other can be made here.

    A digest (`debian:trixie-slim@sha256:...`) is left out: it is that of the published image.
    """
    found = re.fullmatch(r"(?:docker\.io/library/)?debian:([a-z]+?)(?:-slim)?(?:@sha256:[0-9a-f]{64})?", name)
    if found is None:
        raise ClusterError(
            f"The built-in cluster makes base images of Debian releases (debian:trixie-slim), not {name!r}: "
            "build this Dockerfile with Docker and load the image's archive"
        )
    return BaseImage(
        name=f"docker.io/library/debian:{found[1]}-slim",
        release=found[1],
        mirror=_mirror(),
        timestamp=timestamp,
    )


def _with_defaults(written: str, defaults: Mapping[str, str]) -> str:
    return re.sub(r"\$\{?(\w+)\}?", lambda found: defaults.get(found[1], found[0]), written)


def base_script(base: BaseImage, buildah: list[str]) -> str:
    """The shell script that makes the image in buildah's storage."""
    command = shlex.join(buildah)
    emptied = " ".join(f'"$root"{folder}' for folder in LEFT_OUT)
    timestamp = "" if base.timestamp is None else f"--timestamp {base.timestamp} "
    return f"""\
{command} rm --all >/dev/null
container=$({command} from scratch)
root=$({command} mount "$container")
debootstrap --variant=minbase --include={",".join(INCLUDED)} {base.release} "$root" {shlex.quote(base.mirror)} || {{
    echo "If it does not know {base.release} or its key: apt-get install debootstrap debian-archive-keyring" >&2
    exit 1
}}
{_updates(base)}find {emptied} -mindepth 1 -delete
{_own_files(base)}{command} umount "$container"
{command} config --cmd bash --label {LABEL}={base.recipe} \\
    --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
{command} commit --quiet --rm {timestamp}"$container" {base.name}
"""


def _updates(base: BaseImage) -> str:
    """Commands that install Debian's updates, those of security included, where the image has a timestamp.

    A local cluster's images are published nowhere and do without.
    """
    if base.timestamp is None:
        return ""
    return f"""\
{_sources(base.release, base.mirror)}chroot "$root" apt-get -qq update
DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get -qq -y upgrade
"""


def _own_files(base: BaseImage) -> str:
    """Commands that remove what comes from this machine, where the image has a timestamp."""
    if base.timestamp is None:
        return ""
    removed = " ".join(f'"$root"{path}' for path in OF_THE_MACHINE)
    day = base.timestamp // (24 * 3600)
    return f"""\
rm -f {removed}
{_sources(base.release, DEFAULT_MIRROR)}sed -i -E 's/^([^:]*:[^:]*):[0-9]+:/\\1:{day}:/' "$root"/etc/shadow
"""


def _sources(release: str, mirror: str) -> str:
    lines = (
        f"deb {mirror} {release} main",
        f"deb {mirror} {release}-updates main",
        f"deb {mirror.rstrip('/')}-security {release}-security main",
    )
    return f"printf '%s\\n' {shlex.join(lines)} > \"$root\"/etc/apt/sources.list\n"


def mirror_in(sources: str) -> str | None:
    """The first mirror in the text of an apt source list, of either format, that is not of security updates."""
    one_line = re.findall(r"^\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)", sources, re.MULTILINE)
    stanzas = re.findall(r"^URIs:\s*(\S+)", sources, re.MULTILINE)
    mirrors = [url for url in one_line + stanzas if url.startswith("http") and "security" not in url]
    return mirrors[0] if mirrors else None


def _mirror() -> str:
    folder = Path("/etc/apt/sources.list.d")
    files = [
        Path("/etc/apt/sources.list"),
        *sorted(folder.glob("*.list")),
        *sorted(folder.glob("debian*.sources")),
    ]
    texts = "\n".join(path.read_text() for path in files if path.is_file())
    return mirror_in(texts) or DEFAULT_MIRROR
