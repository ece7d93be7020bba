"""The REST client of the command."""

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import orjson

from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.remote.contexts import Context
from tieline.cli.remote.http import READ_SECONDS, Answer, send
from tieline.cli.remote.sign_in import Authentication
from tieline.cli.terminal import warn

Json = dict[str, Any]
_ATTEMPTS = 4
_LONGEST_PAUSE = 20.0
_LONGEST_MESSAGE, _MOST_FIELDS = 4000, 50
_UPWARDS = re.compile(r"(^|/)(\.|%2e){1,2}(/|$)", re.IGNORECASE)
"""A segment that servers and clients resolve."""
_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})
_CODES = {
    401: ExitCode.NOT_SIGNED_IN,
    403: ExitCode.NOT_SIGNED_IN,
    404: ExitCode.NOT_FOUND,
    429: ExitCode.UNAVAILABLE,
}


class ApiError(CommandError):
    """The API refused a request."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        self.status = status
        self.api_code = str(body.get("code") or "")
        self.body = body
        super().__init__(
            _message(status, body),
            _CODES.get(status, ExitCode.UNAVAILABLE if status >= 500 else ExitCode.FAILED),
        )


class Client:
    """Requests to a context's organisation.

    Reads, and writes that may be repeated, are tried up to four times while the API is away or asks for a pause.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self._authentication = Authentication(context)
        self._revision: str | None = None

    def get(self, path: str, **query: Any) -> Any:
        """Reads; ``path`` is below the organisation's, or absolute."""
        return self.request("GET", path, query=query)

    def pages(self, path: str, *, limit: int, **query: Any) -> Iterator[Json]:
        """The items of a list, page by page, at most ``limit``."""
        after: str | None = None
        left = limit
        while left > 0:
            page = self.get(path, **query, first=min(left, 200), after=after)
            items = page.get("items") or page.get("users") or []
            yield from items[:left]
            left -= len(items)
            after = page.get("next")
            if not after or not items:
                return

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        fields: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        read_seconds: float = READ_SECONDS,
    ) -> Any:
        """The JSON of an answer; None for an empty one. Raises ApiError, and CommandError if there is no answer."""
        content = None if body is None else _encoded(body)
        sent = {
            "Accept": "application/json",
            "User-Agent": "tieline-cli",
            **({"Content-Type": "application/json"} if content is not None else {}),
            **({"X-Tieline-Revision": self._revision} if self._revision else {}),
            **(headers or {}),
            **self._auth(),
        }
        url = self.url(path, query or {})
        answer = self._answer(method, url, sent, content, fields, read_seconds)
        self._revision = answer.headers.get("X-Tieline-Revision", self._revision)
        _show_warnings(answer)
        try:
            document = answer.json()
        except ValueError:
            document = None
        if answer.status >= 300:
            raise self.refusal(answer)
        if answer.body and document is None and answer.body.strip() != b"null":
            raise CommandError(
                f"{self.context.url} does not answer as Tieline's API does; is the address right?"
            )
        return document

    def once(
        self, method: str, path: str, *, body: bytes | None, headers: Mapping[str, str], read_seconds: float
    ) -> Answer:
        """The answer as it is, to a request that is not repeated. ``path`` may have a query."""
        return send(
            method,
            self.url(path, {}),
            headers={"User-Agent": "tieline-cli", **headers, **self._auth()},
            body=body,
            ca_file=self.context.ca_file,
            read_seconds=read_seconds,
        )

    def url(self, path: str, query: Mapping[str, Any]) -> str:
        """The address of an operation. Raises UsageError for a path that leads to another one."""
        if _UPWARDS.search(path.partition("?")[0]) or "#" in path:
            raise UsageError(f"{path!r} is no path: it has '.', '..' or '#'")
        if not path.startswith("/"):
            path = f"/api/v2/o/{self.context.organisation}/{path}"
        given = {name: _texts(value) for name, value in query.items() if value is not None}
        try:
            return f"{self.context.url}{path}" + (f"?{urlencode(given, doseq=True)}" if given else "")
        except UnicodeEncodeError:
            raise _not_utf8() from None

    def _answer(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        fields: Mapping[str, Any] | None,
        read_seconds: float,
    ) -> Answer:
        for attempt in range(_ATTEMPTS):
            last = attempt == _ATTEMPTS - 1
            try:
                answer = send(
                    method,
                    url,
                    headers=headers,
                    body=content,
                    fields=fields,
                    ca_file=self.context.ca_file,
                    read_seconds=read_seconds,
                )
            except CommandError as error:
                if last or method not in _REPEATABLE or error.code is not ExitCode.UNAVAILABLE:
                    raise
                pause = 2.0**attempt
            else:
                repeat = answer.status == 429 or (answer.status == 503 and method in _REPEATABLE)
                if last or not repeat:
                    return answer
                pause = _retry_after(answer, 2.0**attempt)
                if pause > _LONGEST_PAUSE:
                    return answer
            time.sleep(pause)
        raise AssertionError("unreachable")

    def _auth(self) -> dict[str, str]:
        return self._authentication.headers()

    def refusal(self, answer: Answer) -> ApiError:
        """The error of an answer, without the token that a server may have put into its text."""
        try:
            document = answer.json()
        except ValueError:
            document = None
        body = document if isinstance(document, dict) else {}
        if 300 <= answer.status < 400:
            body = {
                "message": f"{self.context.url} redirects to {_origin(answer)}: sign in with that address"
            }
        error = ApiError(answer.status, body)
        for secret in self._auth().values():
            error.args = (str(error).replace(secret.removeprefix("Bearer "), "<token>"),)
        return error


def segment(text: str) -> str:
    """A name or id as one segment of a path. Raises UsageError for what would lead to another path."""
    if text in ("", ".", ".."):
        raise UsageError(f"{text!r} is no name or id")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise _not_utf8() from None


def _texts(value: Any) -> str | list[str]:
    return [_text(one) for one in value] if isinstance(value, list) else _text(value)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _retry_after(answer: Answer, default: float) -> float:
    try:
        return max(0.0, float(answer.headers.get("Retry-After", default)))
    except ValueError:
        return default


def _show_warnings(answer: Answer) -> None:
    # RFC 9110 had it as: code, agent, quoted text.
    value = answer.headers.get("Warning", "")
    for part in value.split('299 - "')[1:]:
        warn(part.rpartition('"')[0].replace('\\"', '"'))


def _not_utf8() -> UsageError:
    return UsageError("An argument has bytes that are not UTF-8")


def _encoded(body: Any) -> bytes:
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        raise _not_utf8() from None


def _origin(answer: Answer) -> str:
    """Where an answer redirects to, without path and query."""
    try:
        parts = urlsplit(answer.headers.get("Location", ""))
    except ValueError:
        return "no address"
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else "another path"


def _message(status: int, body: Mapping[str, Any]) -> str:
    message = str(body.get("message") or f"The API answers with HTTP {status}")[:_LONGEST_MESSAGE]
    fields = body.get("fields")
    lines = [
        f"  {item.get('field')}: {item.get('message')}"[:_LONGEST_MESSAGE]
        for item in (fields[:_MOST_FIELDS] if isinstance(fields, list) else ())
        if isinstance(item, dict)
    ]
    return "\n".join([message, *lines])
