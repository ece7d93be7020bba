"""``tieline login``, ``logout`` and ``whoami``."""

import sys
import webbrowser
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from tieline.cli.commands.contexts import note_environment
from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.options import ContextOption, OrganisationOption, OutputOption, Platform
from tieline.cli.remote import device_login
from tieline.cli.remote.client import ApiError, Client
from tieline.cli.remote.contexts import (
    TOKEN,
    Context,
    ContextFile,
    SignIn,
    checked_name,
    checked_organisation,
    checked_url,
    selected,
)
from tieline.cli.remote.sign_in import header_of, keep, revoke
from tieline.cli.remote.token_store import TokenStore, Values, token_store
from tieline.cli.terminal import Output, details, is_interactive, note, progress, say, show, warn

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_NO_ORGANISATION = "0" * 26


class OidcTokenChoice(StrEnum):
    """``OidcToken`` as an option."""

    ID = "id"
    ACCESS = "access"


def login(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="The platform's address, such as https://tieline.example.")
    ],
    *,
    organisation: OrganisationOption = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="The context's name. Default: the address's host.", show_default=False),
    ] = None,
    token_stdin: Annotated[
        bool, typer.Option("--token-stdin", help="Read a token or API key from standard input.")
    ] = False,
    kubeconfig: Annotated[
        bool, typer.Option("--kubeconfig", help="Use the token of the kubeconfig's user.")
    ] = False,
    kube_context: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --kubeconfig: another context than the current one."),
    ] = None,
    service_account: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE/NAME", help="With --kubeconfig: request tokens of this ServiceAccount."
        ),
    ] = None,
    issuer: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Sign in with this OpenID Connect issuer, on any device."),
    ] = None,
    client_id: Annotated[
        str | None, typer.Option(metavar="ID", help="With --issuer: the public client's id.")
    ] = None,
    scopes: Annotated[str, typer.Option(help="With --issuer: what to ask for.")] = SignIn.scopes,
    oidc_token: Annotated[
        OidcTokenChoice,
        typer.Option(help="With --issuer: the token that the API is called with."),
    ] = OidcTokenChoice.ID,
    browser: Annotated[
        bool, typer.Option(help="With --issuer: open the page in a browser; --no-browser only shows it.")
    ] = True,
    ca_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Certificates of a private authority, in PEM.")
    ] = None,
) -> None:
    """Sign in to a platform, and make it the current context.

    Without options, the command asks for a token or an API key. Tokens are kept in the system's keyring, or in a file
    that only you may read where there is none.
    """
    address = checked_url(url)
    _warn_of_plain_http(address)
    if (issuer is None) != (client_id is None):
        raise UsageError("--issuer and --client-id go together")
    if sum(map(bool, (issuer, kubeconfig, token_stdin))) > 1:
        raise UsageError("Use one of --issuer, --kubeconfig and --token-stdin")
    if (kube_context or service_account) and not kubeconfig:
        raise UsageError("--kube-context and --service-account need --kubeconfig")
    kind: SignIn = SignIn()
    if kubeconfig:
        kind = SignIn(kind="kubeconfig", kube_context=kube_context, service_account=service_account)
    elif issuer:
        kind = SignIn(
            kind="oidc", issuer=issuer, client_id=client_id, scopes=scopes, oidc_token=oidc_token.value
        )
    context = Context(
        name=checked_name(name or urlsplit(address).hostname or "default"),
        url=address,
        organisation=checked_organisation(organisation) if organisation else _NO_ORGANISATION,
        ca_file=_absolute(ca_file),
        sign_in=kind,
    )
    file = ContextFile()
    store = token_store(file.folder)
    file.contexts()  # Others could have spoilt it.
    before = _before(store, context.name)
    _store_token(context, store, token_stdin=token_stdin, browser=browser)
    try:
        context = _checked(context, organisation)
        file.save(context)
    except BaseException:
        # A failed sign-in leaves what was there.
        store.delete(context.name)
        if before:
            store.put(context.name, before)
        raise
    say(f"Signed in to {context.url}, organisation {context.organisation} (context {context.name})")
    if kind.kind != "kubeconfig":
        note(f"The token is in {store.description}")
    note_environment()


def logout(context: ContextOption = None) -> None:
    """Forget a context's token, and revoke that of an issuer. One that you pasted stays valid until it is revoked."""
    found = selected(context)
    if found.token:
        raise UsageError(f"{TOKEN} is set: unset it, or name a context with --context")
    store = token_store(ContextFile().folder)
    try:
        if found.sign_in.kind == "oidc" and not revoke(found, store):
            note("The issuer has revoked no token; end the session there if others may have it")
    except CommandError as error:
        warn(f"The token is not revoked: {error}")
    store.delete(found.name)
    say(f"Signed out of {found.name}")


def whoami(
    *,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show who you are, and which organisations you reach."""
    me = platform.client().get("/api/v2/me")
    if output is not Output.TABLE:
        show(output, me)
        return
    details(
        output,
        me,
        {
            "user": me.get("id"),
            "name": me.get("name"),
            "kind": me.get("kind"),
            "groups": ", ".join(me.get("groups") or ()),
        },
    )
    show(
        output,
        me,
        ("organisation", "name", "role"),
        lambda: [(item["id"], item.get("name"), item.get("role")) for item in me["organisations"]],
    )


def _store_token(context: Context, store: TokenStore, *, token_stdin: bool, browser: bool) -> None:
    sign_in = context.sign_in
    if sign_in.kind == "kubeconfig":
        store.delete(context.name)
    elif sign_in.kind == "oidc" and sign_in.issuer and sign_in.client_id:
        issuer = device_login.discover(sign_in.issuer, ca_file=context.ca_file)
        code = device_login.begin(issuer, sign_in.client_id, sign_in.scopes, ca_file=context.ca_file)
        note(f"Open {code.url} and enter the code {code.user_code}")
        page = code.complete_url or code.url
        if browser and is_interactive() and page.startswith(("https://", "http://")):
            webbrowser.open(page)
        with progress("Waiting for your sign-in"):
            tokens = device_login.poll(
                issuer, sign_in.client_id, code, wanted=sign_in.oidc_token, ca_file=context.ca_file
            )
        keep(store, context.name, tokens)
    else:
        token = _read_token(token_stdin)
        header_of(token)
        store.put(context.name, {"token": token})


def _read_token(token_stdin: bool) -> str:
    if token_stdin:
        token = sys.stdin.readline(65_536).strip()
    elif is_interactive():
        token = typer.prompt("Token or API key", hide_input=True, err=True).strip()
    else:
        raise UsageError("There is no terminal to ask for a token; send it with --token-stdin")
    if not token:
        raise UsageError("The token is empty")
    return token


def _checked(context: Context, organisation: str | None) -> Context:
    """The context, once the API has accepted its token; with the only organisation that it reaches."""
    try:
        me = Client(context).get("/api/v2/me")
    except ApiError as error:
        if error.status == 401 and context.sign_in.kind == "oidc":
            raise _not_accepted(context, error) from None
        if error.status != 404:
            raise
        me = None
    if organisation is None:
        if me is None:
            raise UsageError(
                "This platform does not say which organisations you reach; name one with --organisation"
            )
        context = Context(**{**context.__dict__, "organisation": _only(me["organisations"])})
    Client(context).get("systems", first=1)
    return context


def _not_accepted(context: Context, error: ApiError) -> CommandError:
    sign_in = context.sign_in
    kind, audience = ("ID", f" with the audience {sign_in.client_id}")
    if sign_in.oidc_token == "access":  # noqa: S105  (which one, not its value)
        kind, audience = ("access", " and the audience of its access tokens")
    return CommandError(
        f"{context.url} does not accept the {kind} token of {sign_in.issuer}: {error}. "
        f"The platform's file of issuers needs this one{audience}.",
        ExitCode.NOT_SIGNED_IN,
    )


def _only(organisations: list[dict[str, str]]) -> str:
    if len(organisations) == 1:
        return organisations[0]["id"]
    if not organisations:
        raise CommandError(
            "The token is valid, and reaches no organisation. Ask an administrator for a role.",
            ExitCode.NOT_SIGNED_IN,
        )
    names = "\n".join(f"  {item['id']}  {item.get('name', '')}" for item in organisations)
    raise UsageError(f"You reach several organisations; name one with --organisation:\n{names}")


def _before(store: TokenStore, name: str) -> Values | None:
    """What is stored; a file that others may read is replaced."""
    try:
        return store.get(name)
    except CommandError as error:
        if error.code is not ExitCode.NOT_SIGNED_IN:
            raise
        warn(str(error))
        store.delete(name)
        return None


def _absolute(path: str | None) -> str | None:
    """A file's path for all working folders. Raises UsageError."""
    if path is None:
        return None
    if not Path(path).is_file():
        raise UsageError(f"There is no file {path}")
    return str(Path(path).resolve())


def _warn_of_plain_http(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        warn(f"{url} is not HTTPS: your token can be read on its way")
