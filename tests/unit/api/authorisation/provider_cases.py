"""Providers as their documentation describes them: what they take, letter by letter, and what they answer."""

from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any

from tieline_protocol.oauth.kept import NOTHING, Kept

CLIENT, SECRET = "client-1", "secr3t-of-the-client"
REDIRECT, STATE, CODE = "https://tieline.example/oauth2/callback", "st4te", "c0de-of-the-user"
BASIC = "Basic " + b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
IN_BODY = {"client_id": CLIENT, "client_secret": SECRET}
BY_CODE = {"grant_type": "authorization_code", "code": CODE, "redirect_uri": REDIRECT}
ASKED = {"response_type": "code", "client_id": CLIENT, "redirect_uri": REDIRECT, "state": STATE}


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A request that a provider takes; it answers 400 to any other."""

    path: str = "/token"
    method: str = "POST"
    form: dict[str, str] | None = None
    json: dict[str, str] | None = None
    query: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str | None] = field(default_factory=dict)
    """None: must not be there."""
    status: int = 200
    answer: Any = None


@dataclass(frozen=True, kw_only=True)
class Case:
    """An authorisation at a provider, from the URL to a call of its API."""

    scheme: dict[str, Any]
    scopes: tuple[str, ...] = ()
    authorise: dict[str, str]
    """The parameters of the authorise URL, all of them."""
    callback: str = ""
    """What the provider adds to the callback's query, beside code and state."""
    code: Ask
    then: tuple[Ask, ...] = ()
    access: str
    refresh_token: str = ""
    granted: tuple[str, ...] = ()
    lifetime: int | None = None
    kept: Kept = NOTHING
    refresh: Ask | None = None
    refreshed: str = ""
    """The access token after the refresh."""
    call: dict[str, str] = field(default_factory=dict)
    """Headers of a call of the API that matter; Authorization is absent if it is not among them."""


def scheme(**fields: Any) -> dict[str, Any]:
    grant = {"type": "authorizationCode", "authorizationCode": {"clientId": CLIENT}}
    return {"tokenUrl": "{url}/token", "authorizeUrl": "{url}/authorize", "grant": grant, **fields}


def by_refresh(token: str) -> dict[str, str]:
    return {"grant_type": "refresh_token", "refresh_token": token}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


CASES = {
    "google": Case(
        scheme=scheme(
            clientAuthentication="body",
            authorization={
                "offlineAccess": "parameters",
                "offlineParameters": "access_type=offline",
                "prompts": ["none", "consent", "select_account"],
                "prompt": "consent",
            },
        ),
        scopes=("openid", "https://www.googleapis.com/auth/drive"),
        authorise={
            **ASKED,
            "scope": "openid https://www.googleapis.com/auth/drive",
            "access_type": "offline",
            "prompt": "consent",
        },
        callback="&scope=openid+https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fdrive",
        code=Ask(
            form={**BY_CODE, **IN_BODY},
            headers={"Authorization": None},
            answer={
                "access_token": "ya29.a",
                "expires_in": 3599,
                "refresh_token": "1//r",
                "scope": "openid https://www.googleapis.com/auth/drive",
                "token_type": "Bearer",
            },
        ),
        access="ya29.a",
        refresh_token="1//r",
        granted=("openid", "https://www.googleapis.com/auth/drive"),
        lifetime=3599,
        refresh=Ask(
            form={**by_refresh("1//r"), **IN_BODY},
            answer={"access_token": "ya29.b", "expires_in": 3599, "token_type": "Bearer"},
        ),
        refreshed="ya29.b",
        call=bearer("ya29.a"),
    ),
    "slack bot": Case(
        scheme=scheme(
            clientAuthentication="body",
            scopeSeparator=",",
            tokenAnswer={
                "success": {"path": "ok", "equals": "true"},
                "keep": [
                    {"path": "team.id", "as": "accountId"},
                    {"path": "team.name", "as": "accountName"},
                ],
            },
        ),
        scopes=("chat:write", "channels:read"),
        authorise={**ASKED, "scope": "chat:write,channels:read"},
        code=Ask(
            form={**BY_CODE, **IN_BODY},
            answer={
                "ok": True,
                "access_token": "xoxb-1",
                "token_type": "bot",
                "scope": "chat:write,channels:read",
                "team": {"id": "T9TK3CUKW", "name": "Slack Pickleball Team"},
                "authed_user": {"id": "U1234", "access_token": "xoxp-1", "token_type": "user"},
            },
        ),
        access="xoxb-1",
        granted=("chat:write", "channels:read"),
        kept=Kept(account_id="T9TK3CUKW", account_name="Slack Pickleball Team"),
        call=bearer("xoxb-1"),
    ),
    "slack user": Case(
        scheme=scheme(
            clientAuthentication="body",
            scopeSeparator=",",
            authorization={"scopeParameter": "user_scope"},
            tokenAnswer={
                "success": {"path": "ok", "equals": "true"},
                "accessToken": "authed_user.access_token",
                "refreshToken": "authed_user.refresh_token",
                "scope": "authed_user.scope",
                "expiresIn": "authed_user.expires_in",
                "keep": [{"path": "authed_user.id", "as": "accountId"}],
            },
        ),
        scopes=("chat:write", "search:read"),
        authorise={**ASKED, "user_scope": "chat:write,search:read"},
        code=Ask(
            form={**BY_CODE, **IN_BODY},
            answer={
                "ok": True,
                "authed_user": {
                    "id": "U1234",
                    "scope": "chat:write",
                    "access_token": "xoxe.xoxp-1",
                    "refresh_token": "xoxe-1-r",
                    "expires_in": 43200,
                    "token_type": "user",
                },
            },
        ),
        access="xoxe.xoxp-1",
        refresh_token="xoxe-1-r",
        granted=("chat:write",),
        lifetime=43200,
        kept=Kept(account_id="U1234"),
        refresh=Ask(
            form={**by_refresh("xoxe-1-r"), **IN_BODY},
            answer={
                "ok": True,
                "access_token": "xoxe.xoxp-2",
                "refresh_token": "xoxe-1-r2",
                "expires_in": 43200,
                "token_type": "user",
            },
        ),
        refreshed="xoxe.xoxp-2",
        call=bearer("xoxe.xoxp-1"),
    ),
    "shopify": Case(
        scheme=scheme(
            scopeSeparator=",",
            clientAuthentication="body",
            tokenRequest={"format": "json", "omit": ["redirect_uri", "grant_type"]},
            token={"name": "X-Shopify-Access-Token"},
            authorization={
                "omit": ["response_type"],
                "keep": [
                    {
                        "parameter": "shop",
                        "variable": "shop",
                        "pattern": r"^[a-z0-9][a-z0-9-]*\.myshopify\.com$",
                    }
                ],
            },
        ),
        scopes=("read_orders", "write_orders"),
        authorise={
            "client_id": CLIENT,
            "redirect_uri": REDIRECT,
            "state": STATE,
            "scope": "read_orders,write_orders",
        },
        callback="&shop=my-shop.myshopify.com&hmac=0f&timestamp=1337178173",
        code=Ask(
            json={"code": CODE, **IN_BODY},
            answer={"access_token": "shpat_1", "scope": "write_orders,read_customers"},
        ),
        access="shpat_1",
        granted=("write_orders", "read_customers"),
        kept=Kept(variables={"shop": "my-shop.myshopify.com"}),
        call={"X-Shopify-Access-Token": "shpat_1"},
    ),
    "microsoft": Case(
        scheme=scheme(
            clientAuthentication="body",
            scopes=[{"name": "offline_access"}, {"name": "User.Read"}],
            authorization={"prompts": ["login", "none", "consent", "select_account"]},
        ),
        scopes=("User.Read",),
        authorise={**ASKED, "scope": "User.Read offline_access"},
        code=Ask(
            form={**BY_CODE, **IN_BODY},
            answer={
                "token_type": "Bearer",
                "scope": "User.Read",
                "expires_in": "3736",
                "access_token": "eyJ0.a",
                "refresh_token": "0.r",
            },
        ),
        access="eyJ0.a",
        refresh_token="0.r",
        granted=("User.Read",),
        lifetime=3736,
        refresh=Ask(
            form={**by_refresh("0.r"), **IN_BODY},
            answer={"access_token": "eyJ0.b", "refresh_token": "0.r2", "expires_in": 3600},
        ),
        refreshed="eyJ0.b",
        call=bearer("eyJ0.a"),
    ),
    "hubspot": Case(
        scheme=scheme(
            clientAuthentication="body",
            tokenAnswer={"error": "status", "errorDescription": "message"},
            afterToken={
                "url": "{url}/account-info/v3/details",
                "keep": [{"path": "portalId", "as": "accountId"}],
            },
        ),
        scopes=("oauth", "crm.objects.contacts.read"),
        authorise={**ASKED, "scope": "oauth crm.objects.contacts.read"},
        code=Ask(
            form={**BY_CODE, **IN_BODY},
            answer={
                "refresh_token": "6f18-r",
                "access_token": "CN-a",
                "expires_in": 1800,
                "token_type": "bearer",
            },
        ),
        then=(
            Ask(
                path="/account-info/v3/details",
                method="GET",
                headers=dict(bearer("CN-a")),
                answer={"portalId": 62515, "timeZone": "US/Eastern"},
            ),
        ),
        access="CN-a",
        refresh_token="6f18-r",
        granted=("oauth", "crm.objects.contacts.read"),
        lifetime=1800,
        kept=Kept(account_id="62515"),
        refresh=Ask(
            form={**by_refresh("6f18-r"), **IN_BODY},
            answer={"refresh_token": "6f18-r", "access_token": "CN-b", "expires_in": 1800},
        ),
        refreshed="CN-b",
        call=bearer("CN-a"),
    ),
    "github": Case(
        scheme=scheme(clientAuthentication="body", scopes=[{"name": "repo"}, {"name": "gist"}]),
        scopes=("repo", "gist"),
        authorise={**ASKED, "scope": "repo gist"},
        code=Ask(
            form={**BY_CODE, **IN_BODY},
            headers={"Accept": "application/json"},
            answer={"access_token": "gho_1", "scope": "repo,gist", "token_type": "bearer"},
        ),
        access="gho_1",
        granted=("repo", "gist"),
        call=bearer("gho_1"),
    ),
    "gitlab": Case(
        scheme=scheme(
            clientAuthentication="body", tokenRequest={"refreshParameters": f"redirect_uri={REDIRECT}"}
        ),
        scopes=("api",),
        authorise={**ASKED, "scope": "api"},
        code=Ask(
            form={**BY_CODE, **IN_BODY},
            answer={
                "access_token": "de6780",
                "token_type": "bearer",
                "expires_in": 7200,
                "refresh_token": "8257e6",
                "created_at": 1607635748,
            },
        ),
        access="de6780",
        refresh_token="8257e6",
        granted=("api",),
        lifetime=7200,
        refresh=Ask(
            form={**by_refresh("8257e6"), **IN_BODY, "redirect_uri": REDIRECT},
            answer={"access_token": "c97d1f", "refresh_token": "803c1f", "expires_in": 7200},
        ),
        refreshed="c97d1f",
        call=bearer("de6780"),
    ),
    "notion": Case(
        scheme=scheme(
            additionalAuthorizeParams="owner=user",
            tokenRequest={"format": "json", "headers": {"Notion-Version": "2022-06-28"}},
            tokenAnswer={
                "keep": [
                    {"path": "workspace_id", "as": "accountId"},
                    {"path": "workspace_name", "as": "accountName"},
                ]
            },
            token={"headers": {"Notion-Version": "2022-06-28"}},
        ),
        authorise={**ASKED, "owner": "user"},
        code=Ask(
            json=BY_CODE,
            headers={"Authorization": BASIC, "Notion-Version": "2022-06-28"},
            answer={
                "access_token": "ntn_1",
                "bot_id": "b3414d65",
                "workspace_id": "j565j4d7",
                "workspace_name": "Ada's Notion",
                "token_type": "bearer",
                "refresh_token": "nrt_1",
            },
        ),
        access="ntn_1",
        refresh_token="nrt_1",
        kept=Kept(account_id="j565j4d7", account_name="Ada's Notion"),
        refresh=Ask(
            json=by_refresh("nrt_1"),
            headers={"Authorization": BASIC},
            answer={"access_token": "ntn_2", "refresh_token": "nrt_2", "token_type": "bearer"},
        ),
        refreshed="ntn_2",
        call={**bearer("ntn_1"), "Notion-Version": "2022-06-28"},
    ),
    "tiktok": Case(
        scheme=scheme(
            clientAuthentication="body",
            scopeSeparator=",",
            authorization={"clientIdParameter": "client_key"},
            tokenRequest={"clientIdParameter": "client_key"},
            tokenAnswer={"keep": [{"path": "open_id", "as": "accountId"}]},
        ),
        scopes=("user.info.basic", "video.list"),
        authorise={
            "response_type": "code",
            "client_key": CLIENT,
            "redirect_uri": REDIRECT,
            "state": STATE,
            "scope": "user.info.basic,video.list",
        },
        callback="&scopes=user.info.basic%2Cvideo.list",
        code=Ask(
            form={**BY_CODE, "client_key": CLIENT, "client_secret": SECRET},
            answer={
                "access_token": "act.1",
                "expires_in": 86400,
                "open_id": "afd97af1",
                "refresh_expires_in": 31536000,
                "refresh_token": "rft.1",
                "scope": "user.info.basic,video.list",
                "token_type": "Bearer",
            },
        ),
        access="act.1",
        refresh_token="rft.1",
        granted=("user.info.basic", "video.list"),
        lifetime=86400,
        kept=Kept(account_id="afd97af1"),
        refresh=Ask(
            form={**by_refresh("rft.1"), "client_key": CLIENT, "client_secret": SECRET},
            answer={"access_token": "act.2", "refresh_token": "rft.2", "expires_in": 86400},
        ),
        refreshed="act.2",
        call=bearer("act.1"),
    ),
    "salesforce": Case(
        scheme=scheme(
            clientAuthentication="body",
            hosts=["*.salesforce.com"],
            tokenAnswer={"expiresAfter": "2h", "keep": [{"path": "instance_url", "as": "baseUrl"}]},
        ),
        scopes=("api", "refresh_token"),
        authorise={**ASKED, "scope": "api refresh_token"},
        code=Ask(
            form={**BY_CODE, **IN_BODY},
            answer={
                "access_token": "00DB0!a",
                "refresh_token": "5Aep-r",
                "signature": "CMJ4l",
                "scope": "refresh_token api",
                "instance_url": "https://mycompany.my.salesforce.com",
                "id": "https://login.salesforce.com/id/00D/005",
                "token_type": "Bearer",
                "issued_at": "1558553873237",
            },
        ),
        access="00DB0!a",
        refresh_token="5Aep-r",
        granted=("refresh_token", "api"),
        lifetime=7200,
        kept=Kept(base_url="https://mycompany.my.salesforce.com"),
        refresh=Ask(
            form={**by_refresh("5Aep-r"), **IN_BODY},
            answer={"access_token": "00DB0!b", "instance_url": "https://mycompany.my.salesforce.com"},
        ),
        refreshed="00DB0!b",
        call=bearer("00DB0!a"),
    ),
    "quickbooks": Case(
        scheme=scheme(authorization={"keep": [{"parameter": "realmId", "variable": "realmId"}]}),
        scopes=("com.intuit.quickbooks.accounting",),
        authorise={**ASKED, "scope": "com.intuit.quickbooks.accounting"},
        callback="&realmId=9130347957983546",
        code=Ask(
            form=BY_CODE,
            headers={"Authorization": BASIC},
            answer={
                "token_type": "bearer",
                "expires_in": 3600,
                "refresh_token": "AB11-r",
                "x_refresh_token_expires_in": 8726400,
                "access_token": "eyJl.a",
            },
        ),
        access="eyJl.a",
        refresh_token="AB11-r",
        granted=("com.intuit.quickbooks.accounting",),
        lifetime=3600,
        kept=Kept(variables={"realmId": "9130347957983546"}),
        refresh=Ask(
            form=by_refresh("AB11-r"),
            headers={"Authorization": BASIC},
            answer={"access_token": "eyJl.b", "refresh_token": "AB11-r2", "expires_in": 3600},
        ),
        refreshed="eyJl.b",
        call=bearer("eyJl.a"),
    ),
    "zoho": Case(
        scheme=scheme(
            clientAuthentication="body",
            scopeSeparator=",",
            hosts=["www.zohoapis.com", "www.zohoapis.eu"],
            authorization={
                "offlineAccess": "parameters",
                "offlineParameters": "access_type=offline",
                "prompt": "consent",
                "keep": [
                    {
                        "parameter": "accounts-server",
                        "variable": "accountsServer",
                        "pattern": r"^https://accounts\.zoho\.(com|eu|in|jp|com\.au)$",
                    }
                ],
            },
            tokenAnswer={"keep": [{"path": "api_domain", "as": "baseUrl"}]},
            token={"prefix": "Zoho-oauthtoken "},
        ),
        scopes=("ZohoCRM.users.ALL", "ZohoCRM.org.READ"),
        authorise={
            **ASKED,
            "scope": "ZohoCRM.users.ALL,ZohoCRM.org.READ",
            "access_type": "offline",
            "prompt": "consent",
        },
        callback="&location=eu&accounts-server=https%3A%2F%2Faccounts.zoho.eu",
        code=Ask(
            form={**BY_CODE, **IN_BODY},
            answer={
                "access_token": "1000.a",
                "refresh_token": "1000.r",
                "api_domain": "https://www.zohoapis.eu",
                "token_type": "Bearer",
                "expires_in": 3600,
            },
        ),
        access="1000.a",
        refresh_token="1000.r",
        granted=("ZohoCRM.users.ALL", "ZohoCRM.org.READ"),
        lifetime=3600,
        kept=Kept(
            base_url="https://www.zohoapis.eu", variables={"accountsServer": "https://accounts.zoho.eu"}
        ),
        refresh=Ask(
            form={**by_refresh("1000.r"), **IN_BODY},
            answer={"access_token": "1000.b", "api_domain": "https://www.zohoapis.eu", "expires_in": 3600},
        ),
        refreshed="1000.b",
        call={"Authorization": "Zoho-oauthtoken 1000.a"},
    ),
    "atlassian": Case(
        scheme=scheme(
            clientAuthentication="body",
            additionalAuthorizeParams="audience=api.atlassian.com",
            scopes=[{"name": "read:jira-work"}, {"name": "offline_access"}],
            authorization={"prompt": "consent"},
            tokenRequest={"format": "json"},
            refresh={"revokedOn": ["unauthorized_client"]},
            afterToken={
                "url": "{url}/oauth/token/accessible-resources",
                "required": True,
                "keep": [
                    {"path": "0.id", "as": "accountId", "variable": "cloudId"},
                    {"path": "0.name", "as": "accountName"},
                ],
            },
        ),
        scopes=("read:jira-work",),
        authorise={
            **ASKED,
            "audience": "api.atlassian.com",
            "scope": "read:jira-work offline_access",
            "prompt": "consent",
        },
        code=Ask(
            json={**BY_CODE, **IN_BODY},
            answer={
                "access_token": "eyJr.a",
                "refresh_token": "eyJr.r",
                "expires_in": 3600,
                "scope": "read:jira-work offline_access",
            },
        ),
        then=(
            Ask(
                path="/oauth/token/accessible-resources",
                method="GET",
                headers={**bearer("eyJr.a"), "Accept": "application/json"},
                answer=[
                    {
                        "id": "1324a887-45db-1bf4-1e99-ef0ff456d421",
                        "name": "Site name",
                        "url": "https://your-domain.atlassian.net",
                        "scopes": ["read:jira-work"],
                    }
                ],
            ),
        ),
        access="eyJr.a",
        refresh_token="eyJr.r",
        granted=("read:jira-work", "offline_access"),
        lifetime=3600,
        kept=Kept(
            account_id="1324a887-45db-1bf4-1e99-ef0ff456d421",
            account_name="Site name",
            variables={"cloudId": "1324a887-45db-1bf4-1e99-ef0ff456d421"},
        ),
        refresh=Ask(
            json={**by_refresh("eyJr.r"), **IN_BODY},
            answer={"access_token": "eyJr.b", "refresh_token": "eyJr.r2", "expires_in": 3600},
        ),
        refreshed="eyJr.b",
        call=bearer("eyJr.a"),
    ),
    "xero": Case(
        scheme=scheme(
            scopes=[{"name": "accounting.transactions"}, {"name": "offline_access"}],
            refresh={"graceForOldToken": "30m"},
            afterToken={
                "url": "{url}/connections",
                "keep": [
                    {"path": "0.tenantId", "as": "accountId", "variable": "tenantId"},
                    {"path": "0.tenantName", "as": "accountName"},
                ],
            },
            token={"headers": {"Xero-Tenant-Id": "{tenantId}"}},
        ),
        scopes=("accounting.transactions",),
        authorise={**ASKED, "scope": "accounting.transactions offline_access"},
        code=Ask(
            form=BY_CODE,
            headers={"Authorization": BASIC},
            answer={
                "access_token": "xero.a",
                "id_token": "xero.i",
                "expires_in": 1800,
                "refresh_token": "xero.r",
                "token_type": "Bearer",
            },
        ),
        then=(
            Ask(
                path="/connections",
                method="GET",
                headers={**bearer("xero.a"), "Xero-Tenant-Id": None},
                answer=[{"id": "e1eede29", "tenantId": "70784a63-d24b", "tenantName": "Maple Florist"}],
            ),
        ),
        access="xero.a",
        refresh_token="xero.r",
        granted=("accounting.transactions", "offline_access"),
        lifetime=1800,
        kept=Kept(
            account_id="70784a63-d24b",
            account_name="Maple Florist",
            variables={"tenantId": "70784a63-d24b"},
        ),
        refresh=Ask(
            form=by_refresh("xero.r"),
            headers={"Authorization": BASIC},
            answer={"access_token": "xero.b", "refresh_token": "xero.r2", "expires_in": 1800},
        ),
        refreshed="xero.b",
        call={**bearer("xero.a"), "Xero-Tenant-Id": "70784a63-d24b"},
    ),
    "zendesk": Case(
        scheme=scheme(
            clientAuthentication="body", tokenRequest={"format": "json", "codeParameters": "scope=read"}
        ),
        scopes=("read",),
        authorise={**ASKED, "scope": "read"},
        code=Ask(
            json={**BY_CODE, **IN_BODY, "scope": "read"},
            answer={"access_token": "gErypPlm", "token_type": "bearer", "scope": "read"},
        ),
        access="gErypPlm",
        granted=("read",),
        call=bearer("gErypPlm"),
    ),
    "stripe connect": Case(
        scheme=scheme(
            clientAuthentication="body",
            tokenRequest={"omit": ["client_id", "redirect_uri"]},
            tokenAnswer={
                "keep": [{"path": "stripe_user_id", "as": "accountId", "variable": "stripeAccount"}]
            },
            token={
                "name": "X-Unused-Access-Token",
                "headers": {"Stripe-Account": "{stripeAccount}"},
                "clientSecret": {"name": "Authorization", "prefix": "Bearer "},
            },
        ),
        scopes=("read_write",),
        authorise={**ASKED, "scope": "read_write"},
        code=Ask(
            form={"grant_type": "authorization_code", "code": CODE, "client_secret": SECRET},
            answer={
                "access_token": "sk_test_1",
                "livemode": False,
                "refresh_token": "rt_1",
                "token_type": "bearer",
                "stripe_publishable_key": "pk_test_1",
                "stripe_user_id": "acct_1032D82eZvKYlo2C",
                "scope": "read_write",
            },
        ),
        access="sk_test_1",
        refresh_token="rt_1",
        granted=("read_write",),
        kept=Kept(account_id="acct_1032D82eZvKYlo2C", variables={"stripeAccount": "acct_1032D82eZvKYlo2C"}),
        refresh=Ask(
            form={**by_refresh("rt_1"), "client_secret": SECRET},
            answer={"access_token": "sk_test_2", "refresh_token": "rt_1", "token_type": "bearer"},
        ),
        refreshed="sk_test_2",
        call={"Authorization": f"Bearer {SECRET}", "Stripe-Account": "acct_1032D82eZvKYlo2C"},
    ),
    "amazon sp": Case(
        scheme=scheme(
            clientAuthentication="body",
            authorization={
                "clientId": "amzn1.sp.solution.1",
                "clientIdParameter": "application_id",
                "omit": ["response_type", "scope"],
                "codeParameter": "spapi_oauth_code",
                "keep": [{"parameter": "selling_partner_id", "as": "accountId"}],
            },
            token={"name": "x-amz-access-token"},
        ),
        authorise={"application_id": "amzn1.sp.solution.1", "redirect_uri": REDIRECT, "state": STATE},
        callback="&selling_partner_id=A3FHEXAMPLE",
        code=Ask(
            form={**BY_CODE, **IN_BODY},
            answer={
                "access_token": "Atza|a",
                "token_type": "bearer",
                "expires_in": 3600,
                "refresh_token": "Atzr|r",
            },
        ),
        access="Atza|a",
        refresh_token="Atzr|r",
        lifetime=3600,
        kept=Kept(account_id="A3FHEXAMPLE"),
        refresh=Ask(
            form={**by_refresh("Atzr|r"), **IN_BODY},
            answer={"access_token": "Atza|b", "refresh_token": "Atzr|r", "expires_in": 3600},
        ),
        refreshed="Atza|b",
        call={"x-amz-access-token": "Atza|a"},
    ),
    "linkedin": Case(
        scheme=scheme(clientAuthentication="body", token={"headers": {"LinkedIn-Version": "202505"}}),
        scopes=("openid", "profile"),
        authorise={**ASKED, "scope": "openid profile"},
        code=Ask(
            form={**BY_CODE, **IN_BODY},
            answer={"access_token": "AQX-a", "expires_in": 5184000, "scope": "openid,profile"},
        ),
        access="AQX-a",
        granted=("openid", "profile"),
        lifetime=5184000,
        call={**bearer("AQX-a"), "LinkedIn-Version": "202505"},
    ),
    "instagram": Case(
        scheme=scheme(
            clientAuthentication="body",
            scopeSeparator=",",
            refreshUrl="{url}/refresh_access_token",
            tokenRequest={
                "longLived": {
                    "url": "{url}/access_token",
                    "grantType": "ig_exchange_token",
                    "omit": ["client_id"],
                },
                "grantTypes": {"refresh": "ig_refresh_token"},
            },
            tokenAnswer={
                "accessToken": "data.0.access_token",
                "scope": "data.0.permissions",
                "keep": [{"path": "data.0.user_id", "as": "accountId"}],
            },
            refresh={
                "method": "GET",
                "token": "accessToken",
                "tokenParameter": "access_token",
                "omit": ["client_id", "client_secret"],
                "minimumAge": "24h",
            },
            token={"in": "query"},
        ),
        scopes=("instagram_business_basic",),
        authorise={**ASKED, "scope": "instagram_business_basic"},
        code=Ask(
            form={**BY_CODE, **IN_BODY},
            answer={
                "data": [
                    {
                        "access_token": "EAAC-short",
                        "user_id": "1020",
                        "permissions": "instagram_business_basic",
                    }
                ]
            },
        ),
        then=(
            Ask(
                path="/access_token",
                method="GET",
                query={
                    "grant_type": "ig_exchange_token",
                    "client_secret": SECRET,
                    "access_token": "EAAC-short",
                },
                answer={"access_token": "EAAC-long", "token_type": "bearer", "expires_in": 5183944},
            ),
        ),
        access="EAAC-long",
        refresh_token="EAAC-long",
        granted=("instagram_business_basic",),
        lifetime=5183944,
        kept=Kept(account_id="1020"),
        refresh=Ask(
            path="/refresh_access_token",
            method="GET",
            query={"grant_type": "ig_refresh_token", "access_token": "EAAC-long"},
            answer={"access_token": "EAAC-next", "token_type": "bearer", "expires_in": 5183944},
        ),
        refreshed="EAAC-next",
    ),
    "facebook": Case(
        scheme=scheme(
            clientAuthentication="body",
            scopeSeparator=",",
            tokenRequest={
                "longLived": {
                    "url": "{url}/v23.0/oauth/access_token",
                    "grantType": "fb_exchange_token",
                    "tokenParameter": "fb_exchange_token",
                }
            },
        ),
        scopes=("pages_show_list", "email"),
        authorise={**ASKED, "scope": "pages_show_list,email"},
        code=Ask(
            form={**BY_CODE, **IN_BODY},
            answer={"access_token": "EAAB-short", "token_type": "bearer", "expires_in": 5000},
        ),
        then=(
            Ask(
                path="/v23.0/oauth/access_token",
                method="GET",
                query={
                    "grant_type": "fb_exchange_token",
                    **IN_BODY,
                    "fb_exchange_token": "EAAB-short",
                },
                answer={"access_token": "EAAB-long", "token_type": "bearer", "expires_in": 5183944},
            ),
        ),
        access="EAAB-long",
        granted=("pages_show_list", "email"),
        lifetime=5183944,
        call=bearer("EAAB-long"),
    ),
}
