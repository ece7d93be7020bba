"""Certificate authorities that a pod trusts in addition to the system's.

Libraries read the file of authorities when they are imported or first used, and child processes inherit it. So the
process starts again with another environment, once there is a file with all of them.
"""

import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tieline.errors import ConfigurationError

BUNDLE = "TIELINE_CA_BUNDLE"
"""The variable that names the file with the additional authorities, in PEM."""
_SYSTEM = "SSL_CERT_FILE"
"""OpenSSL's variable."""
_OTHERS = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")
"""Variables of widespread libraries that bring authorities of their own."""
_USUAL = Path("/etc/ssl/certs/ca-certificates.crt")
_MAX_BYTES = 4 << 20


def trusting_environment(environment: Mapping[str, str]) -> dict[str, str] | None:
    """The environment in which a process trusts the additional authorities; None where there are none.

    Files that the project names in these variables stay: the additional authorities are added to that of OpenSSL
    alone. Raises ConfigurationError when the file cannot be used.
    """
    name = environment.get(BUNDLE)
    if not name:
        return None
    added = _read(Path(name))
    system = _system_file(environment)
    known = system.read_text(encoding="utf-8", errors="replace") if system else ""
    path = _written(f"{known.rstrip()}\n{added.strip()}\n")
    without = {key: value for key, value in environment.items() if key != BUNDLE}
    return {**dict.fromkeys(_OTHERS, path), **without, _SYSTEM: path}


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigurationError(f"The file in {BUNDLE} has more than {_MAX_BYTES >> 20} MiB")
        text = path.read_text(encoding="utf-8")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except OSError as error:
        # An SSLError is one.
        problem = (
            "cannot be read" if not isinstance(error, ssl.SSLError) else "has a certificate that is not valid"
        )
        raise ConfigurationError(
            f"The file in {BUNDLE} {problem}; the ConfigMap in runtime.caBundle needs certificates in PEM"
        ) from None
    except ValueError:
        raise ConfigurationError(
            f"The file in {BUNDLE} has no certificates in PEM (-----BEGIN CERTIFICATE-----); correct the ConfigMap in "
            "runtime.caBundle"
        ) from None
    return text


def _system_file(environment: Mapping[str, str]) -> Path | None:
    """The file of the system's authorities, or the one that the project names in its place."""
    names = (environment.get(_SYSTEM), ssl.get_default_verify_paths().cafile, _USUAL)
    return next((Path(name) for name in names if name and Path(name).is_file()), None)


def _written(text: str) -> str:
    handle, name = tempfile.mkstemp(prefix="tieline-ca-", suffix=".pem")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    return name
