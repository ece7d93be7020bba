"""Connecting a member of the club (examples/login) by OAuth 2.0, as an application and a browser do it together."""

import json
import re
import secrets
import urllib.request
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tieline_cluster.deployment.platform import request
from tieline_cluster.errors import ClusterError

SYSTEM = "Club"
PROJECT = "Membership"
CLIENT_ID = "tieline"
_REQUEST = re.compile(r'name="request" value="([^"]+)"')
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_SECONDS = 20

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Club:
    """The club's system and template in an organisation, as the REST API tells them."""

    api: str
    """Base URL of the organisation in the REST API."""
    token: str
    url: str
    """Where browsers reach the club."""
    organisation: str
    system: str
    """The system's id."""
    project: str
    template: str
    """The connection template's id."""

    @property
    def initialise_path(self) -> str:
        """The path that begins an authorisation, below the organisation's base URL."""
        return f"systems/{self.system}/oauth2/initialise"

    def initialise_body(self, credential: str) -> Json:
        """The body that begins an authorisation for a credential."""
        return {
            "credential": {"id": credential, "organisationId": self.organisation},
            "authorizeUrl": f"{self.url}/authorize",
            "clientId": CLIENT_ID,
            "scopes": ["profile"],
        }


def find_club(*, api: str, token: str, organisation: str, url: str) -> Club | None:
    """The club, once the REST API knows its system and its template. ``api`` and ``url`` are base URLs."""
    base = f"{api}/api/v2/o/{organisation}"
    systems = _call("GET", f"{base}/systems?search={SYSTEM}", token)["items"]
    projects = _call("GET", f"{base}/projects", token)["projects"]
    system = next((one["id"] for one in systems if one["name"] == SYSTEM), None)
    project = next((one["id"] for one in projects if one["name"] == PROJECT), None)
    if system is None or project is None:
        return None
    templates = _call("GET", f"{base}/projects/{project}/connection-templates", token)["items"]
    if not templates:
        return None
    return Club(
        api=base,
        token=token,
        url=url,
        organisation=organisation,
        system=system,
        project=project,
        template=templates[0]["connectionTemplateId"],
    )


def connect(club: Club, *, member: str, password: str) -> Json:
    """The connection of a member who signs in and allows access. One that is there already is connected again.

    Raises ClusterError when the club does not send the member back, and OSError for answers that are errors.
    """
    linked = _call("GET", f"{club.api}/projects/{club.project}/connections", club.token)["items"]
    known = linked[0]["credentials"][0] if linked else None
    identifier = known["credential"]["id"] if known else _new_id()
    body = club.initialise_body(identifier)
    url = _call("POST", f"{club.api}/{club.initialise_path}", club.token, body)["url"]
    brought = allow(url, member=member, password=password)
    credential = {"id": identifier, "type": "oauth2-code", "data": {"oauth2Code": brought}}
    if known:
        body = {"credentials": [{"id": known["id"], "credential": credential}]}
        return _call("PUT", f"{club.api}/connections/{linked[0]['id']}", club.token, body)
    (scheme,) = _call("GET", f"{club.api}/systems/{club.system}", club.token)["authSchemeConfigs"]
    connection = {"name": SYSTEM, "credentials": [{"authSchemeConfig": scheme, "credential": credential}]}
    body = {"connectionTemplateId": club.template, "connection": connection}
    return _call("POST", f"{club.api}/connections", club.token, body)


def allow(url: str, *, member: str, password: str) -> dict[str, str]:
    """What a browser comes back with whose user opens the URL, signs in and allows access: code and state."""
    page = request("GET", url).decode()
    found = _REQUEST.search(page)
    if found is None:
        raise ClusterError("The club shows no page to sign in on")
    form = {"request": found[1], "member": member, "password": password, "decision": "allow"}
    parts = urlsplit(url)
    posted = urllib.request.Request(  # noqa: S310  (http, ours)
        f"{parts.scheme}://{parts.netloc}{parts.path}", data=urlencode(form).encode(), method="POST"
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Staying())
    with opener.open(posted, timeout=_SECONDS) as answer:
        query = parse_qs(urlsplit(answer.headers.get("Location", "")).query)
    if "code" not in query:
        raise ClusterError(f"The club sends nobody back with a code: {query.get('error', ['no answer'])[0]}")
    return {"code": query["code"][0], "state": query["state"][0]}


class _Staying(urllib.request.HTTPRedirectHandler):
    """Gives a redirect back as the answer that it is."""

    def http_error_303(self, _req: Any, fp: Any, _code: int, _msg: str, headers: Any) -> Any:
        fp.headers = headers
        return fp


def _call(method: str, url: str, token: str, body: Json | None = None) -> Json:
    answer: Json = json.loads(request(method, url, headers={"Authorization": f"Bearer {token}"}, body=body))
    return answer


def _new_id() -> str:
    """A ULID; its time does not matter here."""
    return "0" + "".join(secrets.choice(_CROCKFORD) for _ in range(25))
