"""Keycloak, the real OAuth server of the tests: installed once into the user's cache, started once a session.

``python -m tests.harness.identity.keycloak_process FOLDER PORT TLS_PORT`` installs what is missing, prepares FOLDER and
becomes the server: one process, whose death signal and log its starter has set.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tieline_cluster.image_build.debian_packages import install_missing
from tieline_cluster.paths import cache_folder
from tieline_cluster.progress import Lines

VERSION = "26.4.7"
SHA256 = "dd9834c023460be856f731423d86228c23b5d002194a2064642bec0cc6573eaa"
ARTIFACT = f"org.keycloak:keycloak-quarkus-dist:{VERSION}:zip"
PROGRAMS = {"java": "default-jre-headless", "mvn": "maven", "setpriv": "util-linux"}
INSTALL_SECONDS = 600.0
# What Keycloak fixes when it is built: a start with it takes 11 s, one that builds first 26 s.
BUILD = ("--db=dev-mem", "--https-client-auth=request")
# Quick to start rather than quick in the end.
JAVA = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xms128m",
    "-Xmx512m",
    "-XX:MaxMetaspaceSize=256m",
    "-Dfile.encoding=UTF-8",
    "-Duser.language=en",
    "-Duser.country=US",
    "-Djava.security.egd=file:/dev/urandom",
    "-Djava.util.logging.manager=org.jboss.logmanager.LogManager",
    "-Dpicocli.disable.closures=true",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.security=ALL-UNNAMED",
)


def installed() -> Path:
    """The folder of a built Keycloak, made if it is not there. Safe to call in several processes at once."""
    marks = hashlib.sha256(" ".join((SHA256, *BUILD)).encode()).hexdigest()[:8]
    folder = cache_folder() / "keycloak" / f"{VERSION}-{marks}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    install_missing(PROGRAMS, Lines())
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent) as staging:
                _make(Path(staging)).rename(folder)
    return folder


def _make(staging: Path) -> Path:
    """A Keycloak in ``staging``, built."""
    _run(
        ["mvn", "-B", "-q", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={staging}"],
        doing=f"Fetching {ARTIFACT} with Maven",
    )
    archive = staging / f"keycloak-quarkus-dist-{VERSION}.zip"
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        raise SystemExit(
            f"{archive.name} has the SHA-256 {found}, not {SHA256}: what Maven brought is not it"
        )
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(staging)
    home = staging / f"keycloak-{VERSION}"
    _run(command(home, "build", *BUILD), doing="Building Keycloak")
    return home


def command(home: Path, *arguments: str) -> list[str]:
    """What bin/kc.sh comes to, without a shell between us and the server."""
    jar = (home / "lib" / "quarkus-run.jar").resolve()
    entry = "io.quarkus.bootstrap.runner.QuarkusEntryPoint"
    places = [f"-Dkc.home.dir={home}", f"-Djboss.server.config.dir={home / 'conf'}"]
    return ["java", *JAVA, *places, "-cp", str(jar), entry, *arguments]


def serve(folder: Path, *, port: int, tls_port: int) -> None:
    """Becomes the server. ``folder`` has its certificates, and gets what it writes."""
    built, home = installed(), folder / "home"
    home.mkdir()
    for entry in built.iterdir():
        if entry.name != "data":
            (home / entry.name).symlink_to(entry)
    argv = command(
        home,
        "start",
        "--optimized",
        "--cache=local",
        "--hostname-strict=false",
        "--http-host=127.0.0.1",
        "--http-enabled=true",
        f"--http-port={port}",
        f"--https-port={tls_port}",
        f"--https-certificate-file={folder / 'server.pem'}",
        f"--https-certificate-key-file={folder / 'server.key'}",
        f"--truststore-paths={folder / 'ca.pem'}",
    )
    print("Starting Keycloak", flush=True)
    os.execvp(shutil.which("java") or "java", argv)


def _run(argv: Sequence[str], *, doing: str) -> None:
    print(doing, flush=True)
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise SystemExit(f"{doing} was not done after {INSTALL_SECONDS:.0f} s") from None
    if done.returncode:
        raise SystemExit(
            f"{doing} failed (exit {done.returncode}):\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )


if __name__ == "__main__":
    serve(Path(sys.argv[1]), port=int(sys.argv[2]), tls_port=int(sys.argv[3]))
