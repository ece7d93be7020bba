"""Billing, version 2026-11. Written by `tieline connectors add`: run it again instead of changing this file."""
# fmt: off
# ruff: noqa

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Literal, NotRequired, TypedDict, Unpack, cast

from tieline import Context


class Invoice(TypedDict):
    id: str
    order: str
    customer: str
    cents: int
    state: Literal["open", "paid"]


class Line(TypedDict):
    sku: str
    quantity: int
    cents: int
    """The price of one."""


class ListInvoicesResponse200(TypedDict):
    invoices: list[Invoice]
    next: NotRequired[str | None]


class NewInvoice(TypedDict):
    order: str
    customer: str
    lines: list[Line]


class CallOptions(TypedDict, total=False):
    """What every operation takes beside its parameters; see `Context.fetch`."""

    timeout: float
    retries: int
    allow_redirects: bool


class PageOptions(CallOptions, total=False):
    """What a list in pages takes as well; see `Context.call_pages`."""

    max_pages: int


class Billing:
    """The operations of Billing, version 2026-11."""

    def __init__(self, ctx: Context[Any], template: str = "billing") -> None:
        """``template`` is the connection template that leads to the system."""
        self._ctx = ctx
        self._template = template

    async def create_invoice(
        self,
        body: NewInvoice,
        *,
        idempotency_key: str | None = None,
        headers: dict[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> Invoice:
        """Create an invoice (POST /invoices)"""
        return cast(
            "Invoice",
            await self._ctx.call(
                self._template,
                "createInvoice",
                connector="billing",
                headers={"Idempotency-Key": idempotency_key, **(headers or {})},
                body=body,
                **options,
            ),
        )

    async def list_invoices(
        self,
        *,
        state: Literal["open", "paid"] | None = None,
        limit: int | None = None,
        after: str | None = None,
        headers: dict[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> ListInvoicesResponse200:
        """Invoices, oldest first, a page at a time (GET /invoices)"""
        return cast(
            "ListInvoicesResponse200",
            await self._ctx.call(
                self._template,
                "listInvoices",
                connector="billing",
                query={"state": state, "limit": limit, "after": after},
                headers=headers,
                **options,
            ),
        )

    def list_invoices_pages(
        self,
        *,
        state: Literal["open", "paid"] | None = None,
        limit: int | None = None,
        headers: dict[str, str] | None = None,
        **options: Unpack[PageOptions],
    ) -> AsyncIterator[Invoice]:
        """The items of all pages, one after the other. Invoices, oldest first, a page at a time (GET /invoices)"""
        return cast(
            "AsyncIterator[Invoice]",
            self._ctx.call_pages(
                self._template,
                "listInvoices",
                connector="billing",
                query={"state": state, "limit": limit},
                headers=headers,
                **options,
            ),
        )

    async def pay_invoice(
        self,
        id: str,
        *,
        headers: dict[str, str] | None = None,
        **options: Unpack[CallOptions],
    ) -> Invoice:
        """Mark an invoice as paid (PUT /invoices/{id}/payment)"""
        return cast(
            "Invoice",
            await self._ctx.call(
                self._template,
                "payInvoice",
                connector="billing",
                path={"id": id},
                headers=headers,
                **options,
            ),
        )
