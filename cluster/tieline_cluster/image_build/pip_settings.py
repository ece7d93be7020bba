"""What installs packages takes from this machine: pip's settings and certificates.

They are mounted into the build of images, never copied: the image has none of them. The demo's platform gets them as
settings.
"""

import configparser
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from tieline_cluster.files import write_if_changed

CERTIFICATES = Path("/etc/ssl/certs")
OWN_AUTHORITIES = Path("/usr/local/share/ca-certificates")
"""Where an administrator of a Debian machine puts additional authorities."""
PUBLIC_AUTHORITIES = Path("/usr/share/ca-certificates/mozilla")
MAX_AUTHORITIES = 64 << 10
"""What the operator takes (TIELINE_PACKAGES_CA)."""
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
SYSTEM_FILE = Path("/etc/pip.conf")
BUNDLE_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
PASSED_ON = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")
"""pip's settings that say where packages come from; the rest are about this machine."""


def build_mounts(environment: Mapping[str, str], home: Path, folder: Path) -> dict[Path, str]:
    """The read-only mounts for the settings in `environment` and pip's files: what on this machine, where in the build.

    The generated file is put into `folder`.

    This machine's certificates are mounted where it has an authority of its own, and only there.
    """
    settings = pip_settings(_files(environment, home), environment)
    paths: dict[Path, str] = {}
    bundle = _bundle(environment, settings)
    if bundle or any(OWN_AUTHORITIES.glob("**/*.crt")):
        paths[CERTIFICATES] = str(CERTIFICATES)
        certificates = bundle or CERTIFICATES / "ca-certificates.crt"
        if CERTIFICATES not in certificates.parents and certificates.is_file():
            paths[certificates] = str(certificates)
        settings = settings | {"cert": str(certificates)}
    wanted = {key: value for key, value in settings.items() if key in {*PASSED_ON, "cert"}}
    for directory in settings.get("find-links", "").split():
        if Path(directory).is_dir():
            paths[Path(directory)] = directory
            wanted["find-links"] = f"{wanted.get('find-links', '')} {directory}".strip()
    if wanted:
        generated = folder / "pip.conf"
        write_if_changed(generated, pip_file(wanted), mode=0o600)
        paths[generated] = "/etc/pip.conf"
    return paths


def package_settings(environment: Mapping[str, str], home: Path) -> dict[str, str]:
    """Settings with which the platform's Jobs install packages as pip does on this machine: index and authorities."""
    settings = pip_settings(_files(environment, home), environment)
    found: dict[str, str] = {}
    index = urlsplit(settings.get("index-url", ""))
    # Credentials belong into a Secret, and pods have another loopback interface.
    if index.hostname and "@" not in index.netloc and not _is_loopback(index.hostname):
        found["TIELINE_PACKAGES_INDEX_URL"] = index.geturl()
    if authorities := own_authorities(_bundle(environment, settings)):
        found["TIELINE_PACKAGES_CA"] = authorities
    return found


def own_authorities(bundle: Path | None) -> str:
    """The certificates, in PEM, that this machine trusts and others do not; empty where there are none."""
    public = {text for path in PUBLIC_AUTHORITIES.glob("*.crt") for text in _certificates(path)}
    paths = [*([bundle] if bundle else []), *sorted(OWN_AUTHORITIES.glob("**/*.crt"))]
    own = dict.fromkeys(text for path in paths for text in _certificates(path) if text not in public)
    joined = "".join(f"{text}\n" for text in own)
    # A bundle with the public ones, on a machine that does not keep those apart.
    return joined if len(joined) <= MAX_AUTHORITIES else ""


def _bundle(environment: Mapping[str, str], settings: Mapping[str, str]) -> Path | None:
    """The file of certificates that pip is told to use."""
    named = next(
        (environment[name] for name in BUNDLE_VARIABLES if environment.get(name)), settings.get("cert")
    )
    return Path(named) if named else None


def _certificates(path: Path) -> list[str]:
    try:
        return _PEM.findall(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return []


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def pip_settings(files: list[str], environment: Mapping[str, str]) -> dict[str, str]:
    """pip's settings from the texts of its files, the later ones first in right, and then from its variables."""
    settings: dict[str, str] = {}
    for text in files:
        parser = configparser.RawConfigParser()
        parser.read_string(text)
        for section in ("global", "install"):
            if parser.has_section(section):
                settings |= dict(parser.items(section))
    for name, value in environment.items():
        if name.startswith("PIP_") and value:
            settings[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    return settings


def pip_file(settings: Mapping[str, str]) -> str:
    """The settings as a file of pip's."""
    lines = (f"{key} = {' '.join(value.split())}" for key, value in sorted(settings.items()))
    return "[global]\n" + "\n".join(lines) + "\n"


def _files(environment: Mapping[str, str], home: Path) -> list[str]:
    configured = environment.get("PIP_CONFIG_FILE")
    paths = [SYSTEM_FILE, home / ".pip/pip.conf", home / ".config/pip/pip.conf"]
    if configured:
        paths.append(Path(configured))
    return [path.read_text() for path in paths if path.is_file()]
