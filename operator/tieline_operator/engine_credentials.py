"""``tieline-operator engine-credentials``: credentials files for all accounts of the event engine.

NATS' command line backs up and restores one account at a time, and each environment has one. It writes a file for the
platform's account and for each environment's, and an index of them: one line each with the file, the account, and the
names of the namespace, the Project and the environment, separated by tabs. The file ``api-prefix`` has the prefix of
JetStream's API by which streams are managed until the credentials end, and ``ca.crt`` the authorities of the servers'
certificate, where they speak TLS. The files are secrets with all rights in their
accounts.
"""

import argparse
import asyncio
import base64
import io
import os
import stat
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import nats.errors

from tieline_common.authorities import trusting
from tieline_core.engine.accounts import account_claims_of, push_account
from tieline_core.engine.system_requests import EngineAnswerError
from tieline_core.engine.trust import AccountSigner, BackupAccess, EngineTrust, InvalidTrustError
from tieline_core.environment_settings import SettingsError
from tieline_core.identity.names import ENVIRONMENT_ID_LABEL, ENVIRONMENT_LABEL, PROJECT_LABEL
from tieline_core.identity.organisations import Records, holder, labelled_id, records_of
from tieline_core.kubernetes import KubeError
from tieline_core.kubernetes.kubeconfig import NoClusterError
from tieline_core.kubernetes.resources import ENGINE_SECRETS, NAMESPACES, ORGANISATION_RECORDS, SECRETS
from tieline_core.tls import AUTHORITIES
from tieline_operator.apply.plan import Object
from tieline_operator.config import Config
from tieline_operator.engine.connection import account_client
from tieline_operator.engine.keys import TRUST_SECRET
from tieline_operator.main import connect
from tieline_operator.tls.objects import ENGINE_SECRET, read_authorities
from tieline_protocol.event_streams import EventStreams

INDEX = "index.tsv"
PREFIX = "api-prefix"
"""The file with the prefix of JetStream's API by which streams are managed."""
_ARCHIVE = "-"
_USER = "backup"
_MAX_HOURS = 7 * 24
_FILE_MODE = stat.S_IRUSR | stat.S_IWUSR
_FOLDER_MODE = stat.S_IRWXU
_WRONG_USAGE = 2


@dataclass(frozen=True, kw_only=True)
class EnvironmentAccount:
    """An environment that has streams, and what people call it."""

    streams: EventStreams
    namespace: str
    project: str
    name: str


def organisations_in(namespaces: Sequence[Object], records: Records) -> Mapping[str, str]:
    """The ids of organisations by the names of the namespaces that they are."""
    claims: dict[str, list[Object]] = {}
    for namespace in namespaces:
        if identifier := labelled_id(namespace):
            claims.setdefault(identifier, []).append(namespace)
    holders = {identifier: holder(identifier, found, records) for identifier, found in claims.items()}
    return {name: identifier for identifier, name in holders.items() if name is not None}


def environment_accounts(
    secrets: Sequence[Object], namespaces: Sequence[Object], records: Records
) -> list[EnvironmentAccount]:
    """The environments by the Secrets with their pods' credentials, in namespaces that are organisations."""
    organisations = organisations_in(namespaces, records)
    found = []
    for secret in secrets:
        labels = secret["metadata"].get("labels") or {}
        namespace = secret["metadata"]["namespace"]
        organisation, environment = organisations.get(namespace), labels.get(ENVIRONMENT_ID_LABEL)
        if organisation and environment:
            found.append(
                EnvironmentAccount(
                    streams=EventStreams(organisation, environment),
                    namespace=namespace,
                    project=labels.get(PROJECT_LABEL, ""),
                    name=labels.get(ENVIRONMENT_LABEL, ""),
                )
            )
    return sorted(found, key=lambda one: (one.namespace, one.project, one.name))


def credentials_files(
    trust: EngineTrust,
    environments: Sequence[EnvironmentAccount],
    access: BackupAccess,
    *,
    now: datetime,
    authorities: str = "",
) -> Iterator[tuple[str, str]]:
    """Names and contents of the files, with the index at the end."""
    lines = []

    def entry(name: str, signer: AccountSigner, *names: str) -> tuple[str, str]:
        lines.append("\t".join((name, signer.account, *names)))
        return name, signer.credentials(_USER, at=now, expires=access.until)

    yield entry("platform.creds", trust.users, "-", "-", "-")
    for one in environments:
        name = f"{one.streams.organisation}.{one.streams.environment}.creds"
        names = (one.namespace, one.project or "-", one.name or "-")
        yield entry(name, trust.users.of_environment(one.streams), *names)
    yield PREFIX, f"{access.prefix}\n"
    if authorities:
        yield AUTHORITIES, authorities
    yield INDEX, "".join(f"{line}\n" for line in lines)


def write_files(directory: Path, files: Iterator[tuple[str, str]]) -> None:
    """Writes files that their owner alone can read, into a folder that is empty or not there yet.

    Raises OSError.
    """
    directory.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise FileExistsError(f"{directory} is not empty")
    for name, content in files:
        descriptor = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)


def archive(files: Iterator[tuple[str, str]], now: datetime) -> bytes:
    """The same as a tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files:
            data = content.encode()
            item = tarfile.TarInfo(name)
            item.size, item.mode, item.mtime = len(data), _FILE_MODE, int(now.timestamp())
            tar.addfile(item, io.BytesIO(data))
    return buffer.getvalue()


async def _read(config: Config) -> tuple[EngineTrust, list[EnvironmentAccount], str]:
    """The keys, the environments, and the authorities of the servers' certificate; "" where they have none of ours."""
    async with await connect(config) as kube:
        served = (
            await kube.get(SECRETS, ENGINE_SECRET, config.lease_namespace) if config.engine_by_tls else None
        )
        trust = await kube.get(SECRETS, TRUST_SECRET, config.lease_namespace)
        namespaces = await kube.list(NAMESPACES)
        selected = f"metadata.name={ORGANISATION_RECORDS.object_name}"
        records = await kube.list(ORGANISATION_RECORDS, config.lease_namespace, field_selector=selected)
        secrets: list[Object] = []
        # In no other namespaces the operator may read Secrets.
        for namespace in config.namespaces or organisations_in(namespaces, records_of(records)):
            found, _ = await kube.list_with_version(ENGINE_SECRETS, namespace, metadata_only=True)
            secrets.extend(found)
    values: Mapping[str, str] = trust.get("data") or {}
    decoded = {name: base64.b64decode(value) for name, value in values.items()}
    environments = environment_accounts(secrets, namespaces, records_of(records))
    return EngineTrust.from_values(decoded), environments, read_authorities(served)


async def _give(access: BackupAccess, trust: EngineTrust, urls: Sequence[str], authorities: str = "") -> None:
    """Opens the prefix of a backup, and leaves those of others open. The operator closes all when the last one ends."""
    now = datetime.now(UTC)
    trusted = partial(trusting, authorities) if authorities else None
    async with account_client(urls, trust.system_users, trusted) as system:
        claims = await account_claims_of(system, trust.system.public_key) or {}
        await push_account(system, trust.system_jwt(now, backup=access.beside(claims, now)))


def main() -> int:
    """Writes the files; 1 where that did not work, 2 where it is called wrongly."""
    parser = argparse.ArgumentParser(
        prog="tieline-operator engine-credentials",
        description="Writes a credentials file for each account of the event engine, with all rights in it.",
    )
    parser.add_argument(
        "--directory", required=True, help="an empty folder, or - for a tar archive on the standard output"
    )
    parser.add_argument("--hours", type=_hours, default=1.0, help="how long they are valid; 1 by default")
    chosen = parser.parse_args(sys.argv[2:])
    if chosen.directory == _ARCHIVE and sys.stdout.isatty():
        parser.error("the archive holds secrets: send the standard output to tar or into a file")
    try:
        config = Config.from_environment()
    except SettingsError as error:
        return _failed(f"The configuration is not usable: {error}", _WRONG_USAGE)
    try:
        trust, environments, authorities = asyncio.run(_read(config))
        now = datetime.now(UTC)
        access = BackupAccess(until=now + timedelta(hours=chosen.hours))
        asyncio.run(_give(access, trust, config.engine_url, authorities))
        files = credentials_files(trust, environments, access, now=now, authorities=authorities)
        if chosen.directory == _ARCHIVE:
            sys.stdout.buffer.write(archive(files, now))
        else:
            write_files(Path(chosen.directory), files)
    except InvalidTrustError as error:
        return _failed(f"The Secret {TRUST_SECRET} cannot be used: {error}")
    except (nats.errors.Error, EngineAnswerError, TimeoutError) as error:
        return _failed(
            f"The event engine does not take the prefix of the backup: {error or type(error).__name__}"
        )
    except (KubeError, NoClusterError, OSError) as error:
        return _failed(f"{error}")
    sys.stderr.write(f"Credentials of {1 + len(environments)} accounts, for {chosen.hours:g} hours\n")
    return 0


def _hours(text: str) -> float:
    value = float(text)
    if not 0 < value <= _MAX_HOURS:
        raise ValueError(text)
    return value


def _failed(message: str, code: int = 1) -> int:
    sys.stderr.write(f"{message}\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
