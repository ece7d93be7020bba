"""Calls of operations through a connection template: checked, sent as every request, and checked again."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp

from tieline.connectors.answers import AnswerChecks, Reported, UnexpectedAnswerError, problems_of, read
from tieline.connectors.description import Description, Descriptions, Operation
from tieline.connectors.paging import paging_of
from tieline.connectors.requests import PreparedCall, RequestChecks, prepare
from tieline.patterns.list_pages import Pages
from tieline.patterns.pagination import Pager
from tieline.telemetry.logs import Log
from tieline.telemetry.spans import Tracer
from tieline_protocol.list_dialects import ListDialect

Fetch = Callable[..., Awaitable[aiohttp.ClientResponse]]
Graphql = Callable[..., Awaitable[tuple[aiohttp.ClientResponse, dict[str, Any]]]]
_NOTHING: Mapping[str, Any] = {}
_REQUEST = 0
"""In the place of a status, for what was reported of requests."""


class Connectors:
    """What all runs of a process share: the descriptions, and what was reported of answers."""

    def __init__(
        self,
        code: Path | None = None,
        checks: AnswerChecks = AnswerChecks.LOG,
        request_checks: RequestChecks = RequestChecks.RAISE,
    ) -> None:
        self.descriptions = Descriptions(code)
        self.checks = checks
        self.request_checks = request_checks
        self.reported = Reported()


class Caller:
    """Calls operations of one connector for one run."""

    def __init__(
        self,
        connectors: Connectors,
        name: str,
        *,
        template: str,
        fetch: Fetch,
        graphql: Graphql,
        tracer: Tracer,
        log: Log,
    ) -> None:
        """``graphql`` sends a document to the System's endpoint. Raises ConnectorDescriptionError."""
        self._connectors = connectors
        self._description: Description = connectors.descriptions.get(name)
        self._template = template
        self._fetch = fetch
        self._graphql = graphql
        self._tracer = tracer
        self._log = log

    async def call(
        self,
        operation: str,
        *,
        path: Mapping[str, Any] | None,
        query: Mapping[str, Any] | None,
        headers: Mapping[str, Any] | None,
        body: Any,
        options: Mapping[str, Any],
    ) -> Any:
        """See ``Context.call``."""
        found = self._description.operation(operation)
        prepared = prepare(
            self._description,
            found,
            path=path or _NOTHING,
            query=query or _NOTHING,
            headers=headers or _NOTHING,
            body=body,
            checks=self._connectors.request_checks,
        )
        _, value = await self._sent(
            found, prepared, prepared.url, {"params": prepared.params, **prepared.options, **options}
        )
        return value

    def pages(
        self,
        operation: str,
        *,
        path: Mapping[str, Any] | None,
        query: Mapping[str, Any] | None,
        headers: Mapping[str, Any] | None,
        body: Any,
        pages: Pages | None,
        items: str | None,
        max_pages: int,
        options: Mapping[str, Any],
        dialect: Callable[[str], ListDialect | None],
    ) -> Pager:
        """See ``Context.call_pages``. ``dialect`` is what the System says of a path."""
        found = self._description.operation(operation)
        paging = paging_of(self._description, found, pages=pages, items=items, system=dialect(found.path))
        prepared = prepare(
            self._description,
            found,
            path=path or _NOTHING,
            query=query or _NOTHING,
            headers=headers or _NOTHING,
            body=body,
            paged=paging.parameters,
            checks=self._connectors.request_checks,
        )

        async def fetch(_template: str, url: str, **given: Any) -> aiohttp.ClientResponse:
            response, _ = await self._sent(found, prepared, url, given)
            return response

        return Pager(
            fetch,
            self._template,
            prepared.url,
            pages=paging.pages,
            items=paging.items,
            max_pages=max_pages,
            options={"params": prepared.params, **prepared.options, **options},
        )

    async def _sent(
        self, operation: Operation, prepared: PreparedCall, url: str, options: Mapping[str, Any]
    ) -> tuple[aiohttp.ClientResponse, Any]:
        self._report(operation, prepared)
        attributes = {
            "connector": self._description.title,
            "connector.version": self._description.version,
            "connection.template": self._template,
        }
        with self._tracer.span(operation.id, attributes=attributes):
            if operation.document:
                given = {"headers": prepared.headers, **options}
                response, answer = await self._graphql(self._template, None, operation.document, given)
                value = answer["data"]
            else:
                response = await self._fetch(
                    self._template,
                    url,
                    method=prepared.method,
                    headers=prepared.headers,
                    **options,
                )
                response.raise_for_status()
                value = await read(self._description, operation, response)
            self._check(operation, response.status, value)
            return response, value

    def _report(self, operation: Operation, prepared: PreparedCall) -> None:
        name = self._description.name
        if prepared.findings and self._connectors.reported.is_new(name, operation.id, _REQUEST):
            self._log.warning(
                "A request does not follow the connector's description; this is logged once",
                connector=name,
                operation=operation.id,
                problems=prepared.findings,
            )

    def _check(self, operation: Operation, status: int, value: Any) -> None:
        checks = self._connectors.checks
        if checks is AnswerChecks.OFF:
            return
        problems = problems_of(self._description, operation, status, value)
        if not problems:
            return
        name = self._description.name
        if checks is AnswerChecks.RAISE:
            raise UnexpectedAnswerError(name, operation.id, status, problems)
        if self._connectors.reported.is_new(name, operation.id, status):
            self._log.warning(
                "An answer does not follow the connector's description; this is logged once",
                connector=name,
                operation=operation.id,
                status=status,
                problems=problems,
            )
