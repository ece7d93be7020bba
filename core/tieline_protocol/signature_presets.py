"""Senders of webhooks whose signatures are known: one row of data each.

``source`` is where the sender documents them. ``tests/unit/runtime/auth/sender_vectors.yaml`` has an example of each,
and ``docs/webhooks.md`` a table that is made of these rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Options = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Preset:
    """How a sender signs its requests."""

    sender: str
    """The sender's name, for people."""
    secret: str
    """What the credential's value is."""
    source: str
    """The sender's documentation."""
    options: Options
    """The fields of an ``hmac`` object that the preset stands for."""
    certificates: str = ""
    """Requests name the certificate that they are signed with: whose, of ``sns``, ``paypal`` and ``paypal-sandbox``."""


def _header(
    name: str, *inputs: str, algorithm: str = "sha256", encoding: str = "hex", **more: Any
) -> dict[str, Any]:
    """A signature in a header, of the body unless ``inputs`` says otherwise."""
    return {
        "name": name,
        "in": "header",
        "algorithm": algorithm,
        "digestInputs": list(inputs) or ["body"],
        "encoding": encoding,
        **more,
    }


def _token(name: str, place: str = "header", **more: Any) -> dict[str, Any]:
    """The secret itself, or (``algorithm="basic"``) a user name and password."""
    return {"name": name, "in": place, "algorithm": "token", **more}


def _timed(
    name: str, time: str = "t", signature: str = "v1", between: str = ".", **more: Any
) -> dict[str, Any]:
    """A header such as ``t=…,v1=…`` with a signature of the time and the body."""
    return _header(
        name,
        "timestamp",
        f"literal:{between}",
        "body",
        signatureFormat="fields",
        signatureField=signature,
        timestampField=time,
        **more,
    )


def _standard(name: str, **more: Any) -> dict[str, Any]:
    """Standard Webhooks, with headers of this prefix."""
    return {
        **_header(
            f"{name}-Signature", "id", "literal:.", "timestamp", "literal:.", "body", encoding="base64"
        ),
        "signatureFormat": "list",
        "prefix": "v1,",
        "timestampHeader": f"{name}-Timestamp",
        "idHeader": f"{name}-Id",
        "keyEncoding": "base64",
        "keyPrefix": "whsec_",
        **more,
    }


_EMPTY_200 = {"status": 200}
_EMPTY_GET = {"method": "GET", "proof": "none", "when": ["query:challenge"], "value": "query:challenge"}
_ADYEN = "notificationItems.*.NotificationRequestItem"
_ADYEN_FIELDS = (
    "pspReference",
    "originalReference",
    "merchantAccountCode",
    "merchantReference",
    "amount.value",
    "amount.currency",
    "eventCode",
    "success",
)
_HUB_SUBSCRIBE = {
    "method": "GET",
    "proof": "secret",
    "proofIn": "query:hub.verify_token",
    "when": ["query:hub.mode=subscribe"],
    "value": "query:hub.challenge",
}
_SIGNING = "the signing secret"
_WEBHOOK = "the webhook's secret"


def _paypal(name: str, certificates: str) -> Preset:
    return Preset(
        sender=name,
        secret="the webhook's id",
        source="https://developer.paypal.com/api/rest/webhooks/rest/#link-messageverification",
        options=_header(
            "Paypal-Transmission-Sig",
            "id",
            "literal:|",
            "timestamp",
            "literal:|",
            "secret",
            "literal:|",
            "bodyHash:crc32",
            algorithm="rsa-sha256",
            encoding="base64",
            timestampHeader="Paypal-Transmission-Time",
            timestampUnit="iso8601",
            idHeader="Paypal-Transmission-Id",
            answer=_EMPTY_200,
        ),
        certificates=certificates,
    )


PRESETS: Mapping[str, Preset] = {
    "adyen": Preset(
        sender="Adyen (standard webhooks)",
        secret="the HMAC key, in hex",
        source="https://docs.adyen.com/development-resources/webhooks/secure-webhooks/verify-hmac-signatures/",
        options={
            "name": f"{_ADYEN}.additionalData.hmacSignature",
            "in": "body",
            "algorithm": "sha256",
            "digestInputs": [
                one
                for name in _ADYEN_FIELDS
                for one in (
                    (f"field:{_ADYEN}.{name}", "literal::")
                    if name != "success"
                    else (f"field:{_ADYEN}.{name}",)
                )
            ],
            "encoding": "base64",
            "keyEncoding": "hex",
            "answer": {"status": 200, "body": "[accepted]"},
        },
    ),
    "adyen-platform": Preset(
        sender="Adyen (platforms, management)",
        secret="the HMAC key, in hex",
        source="https://docs.adyen.com/development-resources/webhooks/secure-webhooks/verify-hmac-signatures/",
        options=_header(
            "HmacSignature",
            encoding="base64",
            keyEncoding="hex",
            answer={"status": 200, "body": "[accepted]"},
        ),
    ),
    "aircall": Preset(
        sender="Aircall",
        secret="the webhook's token",
        source="https://developer.aircall.io/api-references/#webhook-usage",
        options=_token("token", "body"),
    ),
    "airtable": Preset(
        sender="Airtable",
        secret="macSecretBase64 of the answer to the webhook's creation",
        source="https://airtable.com/developers/web/api/webhooks-overview",
        options=_header(
            "X-Airtable-Content-MAC", prefix="hmac-sha256=", keyEncoding="base64", answer=_EMPTY_200
        ),
    ),
    "asana": Preset(
        sender="Asana",
        secret="X-Hook-Secret of the answer to the webhook's creation",
        source="https://developers.asana.com/docs/webhooks-guide",
        options=_header(
            "X-Hook-Signature",
            challenges=[
                {
                    "proof": "none",
                    "when": ["header:X-Hook-Secret"],
                    "value": "header:X-Hook-Secret",
                    "header": "X-Hook-Secret",
                }
            ],
        ),
    ),
    "atlassian-connect": Preset(
        sender="Atlassian Connect",
        secret="sharedSecret of the installation",
        source="https://developer.atlassian.com/cloud/jira/platform/understanding-jwt-for-connect-apps/",
        options=_token("Authorization", algorithm="jwt-hs256", prefix="JWT ", queryHashClaim="qsh"),
    ),
    "auth0": Preset(
        sender="Auth0 (log streams)",
        secret="the authorization token of the stream",
        source="https://auth0.com/docs/customize/log-streams/custom-log-streams",
        options=_token("Authorization"),
    ),
    "bitbucket": Preset(
        sender="Bitbucket",
        secret=_WEBHOOK,
        source="https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/",
        options=_header("X-Hub-Signature", prefix="sha256=", idHeader="X-Request-UUID"),
    ),
    "box": Preset(
        sender="Box",
        secret="the primary or the secondary signature key",
        source="https://developer.box.com/guides/webhooks/v2/signatures-v2/",
        options=_header(
            "Box-Signature-Primary",
            "body",
            "timestamp",
            encoding="base64",
            otherNames=["Box-Signature-Secondary"],
            timestampHeader="Box-Delivery-Timestamp",
            timestampUnit="iso8601",
            idHeader="Box-Delivery-Id",
            toleranceSeconds=600,
        ),
    ),
    "braintree": Preset(
        sender="Braintree",
        secret="the private key of the API",
        source="https://developer.paypal.com/braintree/docs/guides/webhooks/parse/",
        options={
            "name": "bt_signature",
            "in": "body",
            "algorithm": "sha1",
            "digestInputs": ["field:bt_payload"],
            "signatureFormat": "list",
            "separator": "&|",
            "keyEncoding": "sha1",
            "answer": _EMPTY_200,
        },
    ),
    "buildkite": Preset(
        sender="Buildkite",
        secret="the webhook's token",
        source="https://buildkite.com/docs/apis/webhooks",
        options=_timed("X-Buildkite-Signature", "timestamp", "signature"),
    ),
    "cal-com": Preset(
        sender="Cal.com",
        secret=_WEBHOOK,
        source="https://cal.com/docs/developing/guides/automation/webhooks",
        options=_header("X-Cal-Signature-256"),
    ),
    "calendly": Preset(
        sender="Calendly",
        secret="the signing key of the subscription",
        source="https://developer.calendly.com/api-docs/overview/webhooks/webhook-signatures",
        options=_timed("Calendly-Webhook-Signature"),
    ),
    "chargebee": Preset(
        sender="Chargebee",
        secret="user name and password, with a colon between them",
        source="https://www.chargebee.com/docs/billing/2.0/site-configuration/webhook_settings",
        options=_token("Authorization", algorithm="basic"),
    ),
    "checkr": Preset(
        sender="Checkr",
        secret="the API key",
        source="https://docs.checkr.com/#section/Webhooks",
        options=_header("X-Checkr-Signature"),
    ),
    "circleci": Preset(
        sender="CircleCI",
        secret=_WEBHOOK,
        source="https://circleci.com/docs/webhooks/#validate-webhooks",
        options=_header("Circleci-Signature", signatureFormat="list", separator=",", prefix="v1="),
    ),
    "clerk": Preset(
        sender="Clerk",
        secret="the endpoint's signing secret, whsec_…",
        source="https://clerk.com/docs/webhooks/sync-data",
        options=_standard("Svix"),
    ),
    "clickup": Preset(
        sender="ClickUp",
        secret="secret of the answer to the webhook's creation",
        source="https://developer.clickup.com/docs/webhooksignature",
        options=_header("X-Signature"),
    ),
    "cloudflare": Preset(
        sender="Cloudflare (notifications)",
        secret="the secret of the webhook destination",
        source="https://developers.cloudflare.com/notifications/get-started/configure-webhooks/",
        options=_token("Cf-Webhook-Auth"),
    ),
    "cloudflare-stream": Preset(
        sender="Cloudflare Stream",
        secret="secret of the answer to the webhook's creation",
        source="https://developers.cloudflare.com/stream/manage-video-library/using-webhooks/",
        options=_timed("Webhook-Signature", "time", "sig1"),
    ),
    "coinbase": Preset(
        sender="Coinbase Developer Platform",
        secret="the secret of the subscription",
        source="https://docs.cdp.coinbase.com/webhooks/verify-signatures",
        options=_timed("X-Hook0-Signature", "t", "v0"),
    ),
    "coinbase-commerce": Preset(
        sender="Coinbase Commerce",
        secret="the webhook's shared secret",
        source="https://docs.cdp.coinbase.com/commerce/webhooks/webhooks-security",
        options=_header("X-CC-Webhook-Signature"),
    ),
    "contentful": Preset(
        sender="Contentful",
        secret=_SIGNING,
        source="https://www.contentful.com/developers/docs/webhooks/request-verification/",
        options=_header(
            "X-Contentful-Signature",
            "method",
            "literal:\n",
            "path",
            "literal:\n",
            "signedHeaders:X-Contentful-Signed-Headers",
            "literal:\n",
            "body",
            timestampHeader="X-Contentful-Timestamp",
            timestampUnit="milliseconds",
        ),
    ),
    "customer-io": Preset(
        sender="Customer.io",
        secret="the signing key of the reporting webhook",
        source="https://docs.customer.io/journeys/webhooks/#securely-verify-requests",
        options=_header(
            "X-CIO-Signature",
            "literal:v0:",
            "timestamp",
            "literal::",
            "body",
            timestampHeader="X-CIO-Timestamp",
        ),
    ),
    "discord": Preset(
        sender="Discord",
        secret="the public key of the application",
        source="https://docs.discord.com/developers/interactions/overview",
        options=_header(
            "X-Signature-Ed25519",
            "timestamp",
            "body",
            algorithm="ed25519",
            keyEncoding="hex",
            timestampHeader="X-Signature-Timestamp",
            answer={"status": 204},
            challenges=[
                {"when": ["body:type=1"], "contentType": "application/json", "body": '{"type": 1}'},
                {"when": ["body:type=0"], "status": 204},
            ],
        ),
    ),
    "docusign": Preset(
        sender="DocuSign Connect",
        secret="one of the HMAC keys of the account",
        source="https://developers.docusign.com/platform/webhooks/connect/hmac/",
        options=_header(
            "X-DocuSign-Signature-1",
            encoding="base64",
            otherNames=[f"X-DocuSign-Signature-{number}" for number in range(2, 8)],
            answer=_EMPTY_200,
        ),
    ),
    "dropbox": Preset(
        sender="Dropbox",
        secret="the app's secret",
        source="https://www.dropbox.com/developers/reference/webhooks",
        options=_header("X-Dropbox-Signature", challenges=[{**_EMPTY_GET, "body": "{challenge}"}]),
    ),
    "dropbox-sign": Preset(
        sender="Dropbox Sign (JSON callbacks)",
        secret="the API key",
        source="https://developers.hellosign.com/docs/events/walkthrough/",
        options={
            "name": "event.event_hash",
            "in": "body",
            "algorithm": "sha256",
            "digestInputs": ["field:event.event_time", "field:event.event_type"],
            "answer": {"status": 200, "body": "Hello API Event Received"},
        },
    ),
    "easypost": Preset(
        sender="EasyPost",
        secret="the webhook_secret that you gave the webhook",
        source="https://docs.easypost.com/guides/webhooks-guide",
        options=_header("X-Hmac-Signature", prefix="hmac-sha256-hex="),
    ),
    "figma": Preset(
        sender="Figma",
        secret="the passcode of the webhook",
        source="https://developers.figma.com/docs/rest-api/webhooks-security/",
        options=_token("passcode", "body"),
    ),
    "flutterwave": Preset(
        sender="Flutterwave",
        secret="the secret hash of the account",
        source="https://developer.flutterwave.com/docs/webhooks",
        options=_token("Verif-Hash"),
    ),
    "freshdesk": Preset(
        sender="Freshdesk (automations)",
        secret="user name and password, with a colon between them",
        source="https://support.freshdesk.com/support/solutions/articles/132589-using-webhooks-in-automation-rules",
        options=_token("Authorization", algorithm="basic"),
    ),
    "front": Preset(
        sender="Front (applications)",
        secret="the application's secret",
        source="https://dev.frontapp.com/docs/webhooks-1",
        options=_header(
            "X-Front-Signature",
            "timestamp",
            "literal::",
            "body",
            encoding="base64",
            timestampHeader="X-Front-Request-Timestamp",
            timestampUnit="milliseconds",
            challenges=[
                {
                    "when": ["header:X-Front-Challenge"],
                    "value": "header:X-Front-Challenge",
                    "contentType": "text/plain",
                    "body": "{challenge}",
                }
            ],
        ),
    ),
    "ghost": Preset(
        sender="Ghost",
        secret=_WEBHOOK,
        source="https://docs.ghost.org/webhooks",
        options=_header(
            "X-Ghost-Signature",
            "body",
            "timestamp",
            signatureFormat="fields",
            signatureField="sha256",
            timestampField="t",
            timestampUnit="milliseconds",
        ),
    ),
    "gitea": Preset(
        sender="Gitea, Forgejo",
        secret=_WEBHOOK,
        source="https://docs.gitea.com/usage/webhooks",
        options=_header("X-Gitea-Signature", idHeader="X-Gitea-Delivery"),
    ),
    "github": Preset(
        sender="GitHub",
        secret=_WEBHOOK,
        source="https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries",
        options=_header("X-Hub-Signature-256", prefix="sha256=", idHeader="X-GitHub-Delivery"),
    ),
    "gitlab": Preset(
        sender="GitLab (secret token)",
        secret="the webhook's secret token",
        source="https://docs.gitlab.com/user/project/integrations/webhooks/",
        options=_token("X-Gitlab-Token", idHeader="Idempotency-Key"),
    ),
    "gitlab-signing": Preset(
        sender="GitLab (signing token)",
        secret="the webhook's signing token, whsec_…",
        source="https://docs.gitlab.com/user/project/integrations/webhooks/",
        options=_standard("Webhook"),
    ),
    "gocardless": Preset(
        sender="GoCardless",
        secret="the secret of the webhook endpoint",
        source="https://developer.gocardless.com/getting-started/staying-up-to-date-with-webhooks/",
        options=_header("Webhook-Signature", answer={"status": 204}, refusal={"status": 498}),
    ),
    "grafana": Preset(
        sender="Grafana Alerting",
        secret="the secret of the contact point",
        source="https://grafana.com/docs/grafana/latest/alerting/configure-notifications/manage-contact-points/"
        "integrations/webhook-notifier/",
        options=_header("X-Grafana-Alerting-Signature"),
    ),
    "greenhouse": Preset(
        sender="Greenhouse",
        secret="the webhook's secret key",
        source="https://developers.greenhouse.io/webhooks.html",
        options=_header("Signature", prefix="sha256 "),
    ),
    "help-scout": Preset(
        sender="Help Scout",
        secret="the webhook's secret key",
        source="https://developer.helpscout.com/webhooks/",
        options=_header("X-HelpScout-Signature", algorithm="sha1", encoding="base64"),
    ),
    "heroku": Preset(
        sender="Heroku",
        secret="the webhook's shared secret",
        source="https://devcenter.heroku.com/articles/app-webhooks",
        options=_header("Heroku-Webhook-Hmac-SHA256", encoding="base64"),
    ),
    "hubspot": Preset(
        sender="HubSpot (v3)",
        secret="the app's client secret",
        source="https://developers.hubspot.com/docs/apps/developer-platform/build-apps/authentication/"
        "request-validation",
        options=_header(
            "X-HubSpot-Signature-v3",
            "method",
            "decodedUrl",
            "body",
            "timestamp",
            encoding="base64",
            timestampHeader="X-HubSpot-Request-Timestamp",
            timestampUnit="milliseconds",
        ),
    ),
    "hubspot-v1": Preset(
        sender="HubSpot (v1)",
        secret="the app's client secret",
        source="https://developers.hubspot.com/docs/apps/developer-platform/build-apps/authentication/"
        "request-validation",
        options=_header("X-HubSpot-Signature", "secret", "body", algorithm="hash-sha256"),
    ),
    "hubspot-v2": Preset(
        sender="HubSpot (v2)",
        secret="the app's client secret",
        source="https://developers.hubspot.com/docs/apps/developer-platform/build-apps/authentication/"
        "request-validation",
        options=_header("X-HubSpot-Signature", "secret", "method", "url", "body", algorithm="hash-sha256"),
    ),
    "intercom": Preset(
        sender="Intercom",
        secret="the app's client secret",
        source="https://developers.intercom.com/docs/webhooks/webhook-notifications",
        options=_header(
            "X-Hub-Signature",
            algorithm="sha1",
            prefix="sha1=",
            answer=_EMPTY_200,
            challenges=[{"method": "HEAD", "proof": "none"}],
        ),
    ),
    "jira": Preset(
        sender="Jira (webhooks with a secret)",
        secret=_WEBHOOK,
        source="https://developer.atlassian.com/cloud/jira/platform/webhooks/",
        options=_header("X-Hub-Signature", prefix="sha256=", idHeader="X-Atlassian-Webhook-Identifier"),
    ),
    "klaviyo": Preset(
        sender="Klaviyo",
        secret="the webhook's secret key",
        source="https://developers.klaviyo.com/en/docs/working_with_system_webhooks",
        options=_header(
            "Klaviyo-Signature",
            "body",
            "timestamp",
            timestampHeader="Klaviyo-Timestamp",
            timestampUnit="httpDate",
        ),
    ),
    "knock": Preset(
        sender="Knock",
        secret=_SIGNING,
        source="https://docs.knock.app/developer-tools/outbound-webhooks/overview",
        options=_timed("X-Knock-Signature", "t", "s", encoding="base64", timestampUnit="milliseconds"),
    ),
    "launchdarkly": Preset(
        sender="LaunchDarkly",
        secret=_WEBHOOK,
        source="https://launchdarkly.com/docs/home/infrastructure/webhooks",
        options=_header("X-LD-Signature"),
    ),
    "lemonsqueezy": Preset(
        sender="Lemon Squeezy",
        secret=_SIGNING,
        source="https://docs.lemonsqueezy.com/help/webhooks/signing-requests",
        options=_header("X-Signature", answer=_EMPTY_200),
    ),
    "line": Preset(
        sender="LINE",
        secret="the channel secret",
        source="https://developers.line.biz/en/docs/messaging-api/verify-webhook-signature/",
        options=_header("X-Line-Signature", encoding="base64", answer=_EMPTY_200),
    ),
    "linear": Preset(
        sender="Linear",
        secret="the webhook's signing secret",
        source="https://linear.app/developers/webhooks",
        options=_header(
            "Linear-Signature",
            timestampPath="webhookTimestamp",
            timestampUnit="milliseconds",
            idHeader="Linear-Delivery",
            answer=_EMPTY_200,
        ),
    ),
    "mailchimp": Preset(
        sender="Mailchimp Marketing",
        secret="the text that you add to the webhook's URL as ?secret=",
        source="https://mailchimp.com/developer/marketing/guides/sync-audience-data-webhooks/",
        options=_token("secret", "query", challenges=[{"method": "GET"}]),
    ),
    "mailchimp-transactional": Preset(
        sender="Mailchimp Transactional (Mandrill)",
        secret="the webhook's key",
        source="https://mailchimp.com/developer/transactional/guides/track-respond-activity-webhooks/",
        options=_header(
            "X-Mandrill-Signature",
            "url",
            "form",
            algorithm="sha1",
            encoding="base64",
            answer=_EMPTY_200,
            challenges=[{"method": "HEAD", "proof": "none"}],
        ),
    ),
    "mailgun": Preset(
        sender="Mailgun (JSON webhooks)",
        secret="the HTTP webhook signing key",
        source="https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks",
        options={
            "name": "signature.signature",
            "in": "body",
            "algorithm": "sha256",
            "digestInputs": ["timestamp", "field:signature.token"],
            "timestampPath": "signature.timestamp",
            "idPath": "signature.token",
            "answer": _EMPTY_200,
        },
    ),
    "meta": Preset(
        sender="Meta (Facebook, Instagram, WhatsApp)",
        secret="the app's secret",
        source="https://developers.facebook.com/docs/graph-api/webhooks/getting-started",
        options=_header(
            "X-Hub-Signature-256",
            prefix="sha256=",
            answer=_EMPTY_200,
            challenges=[{**_HUB_SUBSCRIBE, "body": "{challenge}"}],
        ),
    ),
    "microsoft-graph": Preset(
        sender="Microsoft Graph",
        secret="clientState of the subscription",
        source="https://learn.microsoft.com/en-us/graph/change-notifications-delivery-webhooks",
        options=_token(
            "value.*.clientState",
            "body",
            answer={"status": 202},
            challenges=[
                {
                    "proof": "none",
                    "when": ["query:validationToken"],
                    "value": "query:validationToken",
                    "body": "{challenge}",
                }
            ],
        ),
    ),
    "mollie": Preset(
        sender="Mollie",
        secret="the webhook's signing secret",
        source="https://docs.mollie.com/reference/webhooks-best-practices",
        options=_header("X-Mollie-Signature", prefix="sha256=", answer=_EMPTY_200),
    ),
    "monday": Preset(
        sender="monday.com",
        secret="the app's signing secret",
        source="https://developer.monday.com/apps/docs/integration-authorization",
        options=_token(
            "Authorization",
            algorithm="jwt-hs256",
            challenges=[
                {
                    "proof": "none",
                    "when": ["body:challenge"],
                    "value": "body:challenge",
                    "contentType": "application/json",
                    "body": '{"challenge": "{challenge}"}',
                }
            ],
        ),
    ),
    "mux": Preset(
        sender="Mux",
        secret="the webhook's signing secret",
        source="https://www.mux.com/docs/core/verify-webhook-signatures",
        options=_timed("Mux-Signature"),
    ),
    "netlify": Preset(
        sender="Netlify",
        secret="the JWS secret of the notification",
        source="https://docs.netlify.com/deploy/deploy-notifications/#payload-signature",
        options=_token("X-Webhook-Signature", algorithm="jwt-hs256", bodyHash="claim:sha256"),
    ),
    "notion": Preset(
        sender="Notion",
        secret="the verification token of the subscription",
        source="https://developers.notion.com/reference/webhooks",
        options=_header(
            "X-Notion-Signature",
            prefix="sha256=",
            answer=_EMPTY_200,
            challenges=[
                {"proof": "key", "proofIn": "body:verification_token", "when": ["body:verification_token"]}
            ],
        ),
    ),
    "nylas": Preset(
        sender="Nylas",
        secret=_WEBHOOK,
        source="https://developer.nylas.com/docs/v3/notifications/",
        options=_header(
            "X-Nylas-Signature", answer=_EMPTY_200, challenges=[{**_EMPTY_GET, "body": "{challenge}"}]
        ),
    ),
    "okta": Preset(
        sender="Okta (event and inline hooks)",
        secret="the value of the authentication field Authorization",
        source="https://developer.okta.com/docs/concepts/event-hooks/",
        options=_token(
            "Authorization",
            idPath="eventId",
            answer=_EMPTY_200,
            challenges=[
                {
                    "method": "GET",
                    "proof": "none",
                    "when": ["header:X-Okta-Verification-Challenge"],
                    "value": "header:X-Okta-Verification-Challenge",
                    "contentType": "application/json",
                    "body": '{"verification": "{challenge}"}',
                }
            ],
        ),
    ),
    "paddle": Preset(
        sender="Paddle Billing",
        secret="the secret key of the notification destination",
        source="https://developer.paddle.com/webhooks/about/signature-verification",
        options=_timed("Paddle-Signature", "ts", "h1", ":", separator=";", answer=_EMPTY_200),
    ),
    "paddle-classic": Preset(
        sender="Paddle Classic",
        secret="the public key, in PEM",
        source="https://developer.paddle.com/classic/webhook-reference/verifying-webhooks",
        options={
            "name": "p_signature",
            "in": "body",
            "algorithm": "rsa-sha1",
            "digestInputs": ["phpForm:p_signature"],
            "encoding": "base64",
            "answer": _EMPTY_200,
        },
    ),
    "pagerduty": Preset(
        sender="PagerDuty",
        secret="secret of the subscription's delivery method",
        source="https://developer.pagerduty.com/docs/verifying-webhook-signatures",
        options=_header("X-PagerDuty-Signature", signatureFormat="list", separator=",", prefix="v1="),
    ),
    "pandadoc": Preset(
        sender="PandaDoc",
        secret="the shared key of the webhook",
        source="https://developers.pandadoc.com/docs/webhook-verification",
        options={"name": "signature", "in": "query", "algorithm": "sha256", "digestInputs": ["body"]},
    ),
    "paypal": _paypal("PayPal", "paypal"),
    "paypal-sandbox": _paypal("PayPal (sandbox)", "paypal-sandbox"),
    "paystack": Preset(
        sender="Paystack",
        secret="the secret key of the API",
        source="https://paystack.com/docs/payments/webhooks/",
        options=_header("X-Paystack-Signature", algorithm="sha512", answer=_EMPTY_200),
    ),
    "persona": Preset(
        sender="Persona",
        secret="the webhook's secret",
        source="https://docs.withpersona.com/webhooks-best-practices",
        options=_timed("Persona-Signature", separator=", "),
    ),
    "pipedrive": Preset(
        sender="Pipedrive",
        secret="user name and password, with a colon between them",
        source="https://pipedrive.readme.io/docs/guide-for-webhooks-v2",
        options=_token("Authorization", algorithm="basic"),
    ),
    "plaid": Preset(
        sender="Plaid",
        secret="the JWK of /webhook_verification_key/get, in JSON",
        source="https://plaid.com/docs/api/webhooks/webhook-verification/",
        options=_token("Plaid-Verification", algorithm="jwt-es256", bodyHash="claim:request_body_sha256"),
    ),
    "postmark": Preset(
        sender="Postmark",
        secret="user name and password, with a colon between them",
        source="https://postmarkapp.com/developer/webhooks/webhooks-overview",
        options=_token("Authorization", algorithm="basic"),
    ),
    "quickbooks": Preset(
        sender="QuickBooks",
        secret="the verifier token of the app",
        source="https://developer.intuit.com/app/developer/qbo/docs/develop/webhooks",
        options=_header("Intuit-Signature", encoding="base64", answer=_EMPTY_200),
    ),
    "razorpay": Preset(
        sender="Razorpay",
        secret=_WEBHOOK,
        source="https://razorpay.com/docs/webhooks/validate-test/",
        options=_header("X-Razorpay-Signature", idHeader="X-Razorpay-Event-Id"),
    ),
    "recurly": Preset(
        sender="Recurly",
        secret="the secret key of the webhook endpoint",
        source="https://docs.recurly.com/recurly-subscriptions/docs/webhooks",
        options=_header(
            "Recurly-Signature",
            "timestamp",
            "literal:.",
            "body",
            signatureFormat="timedList",
            timestampUnit="milliseconds",
        ),
    ),
    "resend": Preset(
        sender="Resend",
        secret="the webhook's signing secret, whsec_…",
        source="https://resend.com/docs/dashboard/webhooks/verify-webhooks-requests",
        options=_standard("Svix"),
    ),
    "sanity": Preset(
        sender="Sanity",
        secret=_WEBHOOK,
        source="https://www.sanity.io/docs/content-lake/webhook-best-practices",
        options=_timed(
            "Sanity-Webhook-Signature",
            encoding="base64url",
            timestampUnit="milliseconds",
            idHeader="Idempotency-Key",
        ),
    ),
    "segment": Preset(
        sender="Segment",
        secret="the shared secret of the destination",
        source="https://segment.com/docs/connections/destinations/catalog/webhooks/",
        options=_header("X-Signature", algorithm="sha1"),
    ),
    "sendgrid": Preset(
        sender="SendGrid",
        secret="the verification key",
        source="https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/"
        "getting-started-event-webhook-security-features",
        options=_header(
            "X-Twilio-Email-Event-Webhook-Signature",
            "timestamp",
            "body",
            algorithm="ecdsa-sha256",
            encoding="base64",
            keyEncoding="base64",
            timestampHeader="X-Twilio-Email-Event-Webhook-Timestamp",
            answer=_EMPTY_200,
        ),
    ),
    "sentry": Preset(
        sender="Sentry",
        secret="the client secret of the integration",
        source="https://docs.sentry.io/organization/integrations/integration-platform/webhooks/",
        options=_header("Sentry-Hook-Signature", idHeader="Request-ID", answer=_EMPTY_200),
    ),
    "shopify": Preset(
        sender="Shopify",
        secret="the app's client secret",
        source="https://shopify.dev/docs/apps/build/webhooks/verify-deliveries",
        options=_header("X-Shopify-Hmac-Sha256", encoding="base64", idHeader="X-Shopify-Webhook-Id"),
    ),
    "slack": Preset(
        sender="Slack",
        secret="the app's signing secret",
        source="https://docs.slack.dev/authentication/verifying-requests-from-slack",
        options=_header(
            "X-Slack-Signature",
            "literal:v0:",
            "timestamp",
            "literal::",
            "body",
            prefix="v0=",
            timestampHeader="X-Slack-Request-Timestamp",
            answer=_EMPTY_200,
            challenges=[
                {"when": ["body:type=url_verification"], "value": "body:challenge", "body": "{challenge}"}
            ],
        ),
    ),
    "smartsheet": Preset(
        sender="Smartsheet",
        secret="sharedSecret of the webhook",
        source="https://developers.smartsheet.com/api/smartsheet/guides/webhooks",
        options=_header(
            "Smartsheet-Hmac-SHA256",
            answer=_EMPTY_200,
            challenges=[
                {
                    "proof": "none",
                    "when": ["header:Smartsheet-Hook-Challenge"],
                    "value": "header:Smartsheet-Hook-Challenge",
                    "contentType": "application/json",
                    "body": '{"smartsheetHookResponse": "{challenge}"}',
                }
            ],
        ),
    ),
    "sns": Preset(
        sender="Amazon SNS",
        secret="the ARN of the topic",
        source="https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html",
        options={
            "name": "Signature",
            "in": "body",
            "algorithm": "rsa-sha256",
            "digestInputs": [
                "jsonLines:Message,MessageId,Subject,SubscribeURL,Timestamp,Token,TopicArn,Type",
            ],
            "encoding": "base64",
            "timestampPath": "Timestamp",
            "timestampUnit": "iso8601",
            "toleranceSeconds": 3600,
            "idPath": "MessageId",
            "answer": _EMPTY_200,
        },
        certificates="sns",
    ),
    "square": Preset(
        sender="Square",
        secret="the signature key of the subscription",
        source="https://developer.squareup.com/docs/webhooks/step3validate",
        options=_header("X-Square-HmacSha256-Signature", "url", "body", encoding="base64", answer=_EMPTY_200),
    ),
    "standard-webhooks": Preset(
        sender="Standard Webhooks",
        secret="whsec_ and base64, or base64 alone",
        source="https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md",
        options=_standard("Webhook"),
    ),
    "standard-webhooks-ed25519": Preset(
        sender="Standard Webhooks with a public key",
        secret="whpk_ and base64",
        source="https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md",
        options=_standard("Webhook", algorithm="ed25519", prefix="v1a,", keyPrefix="whpk_"),
    ),
    "strava": Preset(
        sender="Strava",
        secret="subscription_id of the subscription",
        source="https://developers.strava.com/docs/webhooks/",
        options=_token(
            "subscription_id",
            "body",
            answer=_EMPTY_200,
            challenges=[
                {
                    **_HUB_SUBSCRIBE,
                    "contentType": "application/json",
                    "body": '{"hub.challenge": "{challenge}"}',
                }
            ],
        ),
    ),
    "stripe": Preset(
        sender="Stripe",
        secret="the endpoint's signing secret, whsec_…",
        source="https://docs.stripe.com/webhooks/signature",
        options=_timed("Stripe-Signature"),
    ),
    "svix": Preset(
        sender="Svix",
        secret="the endpoint's signing secret, whsec_…",
        source="https://docs.svix.com/receiving/verifying-payloads/how-manual",
        options=_standard("Svix"),
    ),
    "telegram": Preset(
        sender="Telegram",
        secret="secret_token of setWebhook",
        source="https://core.telegram.org/bots/api#setwebhook",
        options=_token("X-Telegram-Bot-Api-Secret-Token", answer=_EMPTY_200),
    ),
    "telnyx": Preset(
        sender="Telnyx",
        secret="the public key of the account",
        source="https://developers.telnyx.com/docs/messaging/messages/receiving-webhooks",
        options=_header(
            "Telnyx-Signature-Ed25519",
            "timestamp",
            "literal:|",
            "body",
            algorithm="ed25519",
            encoding="base64",
            keyEncoding="base64",
            timestampHeader="Telnyx-Timestamp",
            answer=_EMPTY_200,
        ),
    ),
    "terraform": Preset(
        sender="HCP Terraform",
        secret="the token of the notification",
        source="https://developer.hashicorp.com/terraform/cloud-docs/api-docs/notification-configurations",
        options=_header("X-TFE-Notification-Signature", algorithm="sha512", answer=_EMPTY_200),
    ),
    "todoist": Preset(
        sender="Todoist",
        secret="the app's client secret",
        source="https://developer.todoist.com/api/v1/#tag/Webhooks",
        options=_header(
            "X-Todoist-Hmac-SHA256", encoding="base64", idHeader="X-Todoist-Delivery-ID", answer=_EMPTY_200
        ),
    ),
    "trello": Preset(
        sender="Trello",
        secret="the secret of the power-up",
        source="https://developer.atlassian.com/cloud/trello/guides/rest-api/webhooks/",
        options=_header(
            "X-Trello-Webhook",
            "body",
            "url",
            algorithm="sha1",
            encoding="base64",
            answer=_EMPTY_200,
            challenges=[{"method": "HEAD", "proof": "none"}],
        ),
    ),
    "twilio": Preset(
        sender="Twilio",
        secret="the auth token of the account",
        source="https://www.twilio.com/docs/usage/security",
        options=_header(
            "X-Twilio-Signature",
            "url",
            "form",
            algorithm="sha1",
            encoding="base64",
            bodyHash="query:bodySHA256",
            idHeader="I-Twilio-Idempotency-Token",
            answer={"status": 204},
        ),
    ),
    "twitch": Preset(
        sender="Twitch",
        secret="secret of the subscription",
        source="https://dev.twitch.tv/docs/eventsub/handling-webhook-events/",
        options=_header(
            "Twitch-Eventsub-Message-Signature",
            "id",
            "timestamp",
            "body",
            prefix="sha256=",
            timestampHeader="Twitch-Eventsub-Message-Timestamp",
            timestampUnit="iso8601",
            toleranceSeconds=600,
            idHeader="Twitch-Eventsub-Message-Id",
            challenges=[
                {
                    "when": ["header:Twitch-Eventsub-Message-Type=webhook_callback_verification"],
                    "value": "body:challenge",
                    "body": "{challenge}",
                }
            ],
        ),
    ),
    "typeform": Preset(
        sender="Typeform",
        secret=_WEBHOOK,
        source="https://www.typeform.com/developers/webhooks/secure-your-webhooks/",
        options=_header("Typeform-Signature", encoding="base64", prefix="sha256="),
    ),
    "vercel": Preset(
        sender="Vercel",
        secret="the webhook's secret, or the client secret of the integration",
        source="https://vercel.com/docs/webhooks/webhooks-api#securing-webhooks",
        options=_header("X-Vercel-Signature", algorithm="sha1"),
    ),
    "webflow": Preset(
        sender="Webflow",
        secret="the webhook's secret key, or the client secret of the app",
        source="https://developers.webflow.com/data/docs/working-with-webhooks",
        options=_header(
            "X-Webflow-Signature",
            "timestamp",
            "literal::",
            "body",
            timestampHeader="X-Webflow-Timestamp",
            timestampUnit="milliseconds",
            answer=_EMPTY_200,
        ),
    ),
    "wise": Preset(
        sender="Wise",
        secret="Wise's public key for events, in PEM",
        source="https://docs.wise.com/guides/developer/webhooks/event-handling",
        options=_header(
            "X-Signature-SHA256",
            algorithm="rsa-sha256",
            encoding="base64",
            keyEncoding="base64",
            idHeader="X-Delivery-Id",
            answer=_EMPTY_200,
        ),
    ),
    "woocommerce": Preset(
        sender="WooCommerce",
        secret=_WEBHOOK,
        source="https://developer.woocommerce.com/docs/apis/rest-api/v3/webhooks/",
        options=_header(
            "X-WC-Webhook-Signature",
            encoding="base64",
            idHeader="X-WC-Webhook-Delivery-ID",
            answer=_EMPTY_200,
            challenges=[{"proof": "none", "when": ["form:webhook_id"]}],
        ),
    ),
    "workos": Preset(
        sender="WorkOS",
        secret="the webhook's secret",
        source="https://workos.com/docs/events/data-syncing/webhooks",
        options=_timed("WorkOS-Signature", timestampUnit="milliseconds", answer=_EMPTY_200),
    ),
    "x": Preset(
        sender="X (Twitter)",
        secret="the consumer secret of the app",
        source="https://docs.x.com/x-api/webhooks/quickstart",
        options=_header(
            "X-Twitter-Webhooks-Signature",
            encoding="base64",
            prefix="sha256=",
            answer=_EMPTY_200,
            challenges=[
                {
                    "method": "GET",
                    "proof": "none",
                    "when": ["query:crc_token"],
                    "value": "query:crc_token",
                    "contentType": "application/json",
                    "body": '{"response_token": "sha256={hmac}"}',
                }
            ],
        ),
    ),
    "xero": Preset(
        sender="Xero",
        secret="the webhooks key",
        source="https://developer.xero.com/documentation/guides/webhooks/overview/",
        options=_header(
            "X-Xero-Signature",
            encoding="base64",
            answer=_EMPTY_200,
            refusal={"status": 401},
            challenges=[{"when": ["body:firstEventSequence=0", "body:lastEventSequence=0"]}],
        ),
    ),
    "zendesk": Preset(
        sender="Zendesk",
        secret="the webhook's signing secret",
        source="https://developer.zendesk.com/documentation/webhooks/verifying/",
        options=_header(
            "X-Zendesk-Webhook-Signature",
            "timestamp",
            "body",
            encoding="base64",
            timestampHeader="X-Zendesk-Webhook-Signature-Timestamp",
            timestampUnit="iso8601",
            idHeader="X-Zendesk-Webhook-Invocation-Id",
            answer=_EMPTY_200,
        ),
    ),
    "zoom": Preset(
        sender="Zoom",
        secret="the secret token of the app",
        source="https://developers.zoom.us/docs/api/webhooks/",
        options=_header(
            "X-Zm-Signature",
            "literal:v0:",
            "timestamp",
            "literal::",
            "body",
            prefix="v0=",
            timestampHeader="X-Zm-Request-Timestamp",
            answer=_EMPTY_200,
            challenges=[
                {
                    "when": ["body:event=endpoint.url_validation"],
                    "value": "body:payload.plainToken",
                    "contentType": "application/json",
                    "body": '{"plainToken": "{challenge}", "encryptedToken": "{hmac}"}',
                }
            ],
        ),
    ),
}
"""By the names that ``preset`` takes."""

PRESET_OPTIONS: Mapping[str, Options] = {name: preset.options for name, preset in PRESETS.items()}
"""The fields of an ``hmac`` object that each preset stands for."""
_PLACES = ("query", "header", "cookie")
_HASHES = ("sha1", "sha256", "sha512")


def specified_fields(preset: str) -> dict[str, Any]:
    """The four fields that clients of the specification need in each ``hmac`` object, as close as they come.

    A signature by other means than HMAC, or in a body, has no exact form there.

    >>> specified_fields("github")
    {'name': 'X-Hub-Signature-256', 'in': 'header', 'algorithm': 'sha256', 'digestInputs': ['body']}
    """
    options = PRESET_OPTIONS.get(preset, {})
    place, algorithm = options.get("in"), options.get("algorithm")
    return {
        "name": options.get("name") or "Authorization",
        "in": place if place in _PLACES else "header",
        "algorithm": algorithm if algorithm in _HASHES else "sha256",
        "digestInputs": list(options.get("digestInputs") or ["body"]),
    }
