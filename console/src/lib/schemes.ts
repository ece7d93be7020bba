import type { Schemas } from "../api/client";

export type SchemeInput = Schemas["AuthSchemeConfigInput"];
type Scheme = Schemas["AuthSchemeConfig"];
export type SchemeType = Scheme["type"];

/** A field of the form for an auth scheme. */
export interface SchemeField {
  name: string;
  label: string;
  kind: "text" | "secret" | "url" | "words" | "number" | "json" | "check" | readonly string[];
  required?: boolean;
  hint?: string;
  /** Shown only where another field has one of these values. */
  when?: { field: string; is: readonly string[] };
}

/** The types of auth schemes, for people. */
export const TYPES: [SchemeType, string][] = [
  ["oauth2", "OAuth 2.0: users sign in, or client credentials"],
  ["api-key", "API key: in a header, the query or a cookie"],
  ["basic-auth", "User name and password (HTTP basic)"],
  ["hmac", "Signature of requests and webhooks"],
  ["jwt-bearer", "JWT, signed for each request"],
  ["certificate", "Client certificate (mutual TLS)"],
  ["oauth1", "OAuth 1.0"],
  ["secret", "Another secret value"],
  ["none", "None"],
];

const PLACES = ["header", "query", "cookie"] as const;
const OWN = { field: "preset", is: [""] } as const;
const CODE = { field: "grant", is: ["authorizationCode"] } as const;
const CLIENT = { field: "grant", is: ["authorizationCode", "password"] } as const;
/** Common senders of webhooks; the API knows more. */
export const PRESETS = [
  "", "standard-webhooks", "adyen", "asana", "calendly", "docusign", "github", "gitlab", "hubspot", "intercom", "jira",
  "linear", "mailgun", "paddle", "paypal", "pipedrive", "quickbooks", "sendgrid", "shopify", "slack", "square", "stripe",
  "svix", "twilio", "typeform", "woocommerce", "xero", "zendesk", "zoom",
] as const; // biome-ignore format: a list

const FIELDS: Record<SchemeType, SchemeField[]> = {
  none: [],
  certificate: [],
  "basic-auth": [],
  "api-key": [
    { name: "name", label: "Name", kind: "text", required: true, hint: "Of the header, parameter or cookie" },
    { name: "in", label: "Sent in", kind: PLACES },
    { name: "prefix", label: "Prefix", kind: "text", hint: "Such as “Bearer ”, with the space" },
  ],
  secret: [
    { name: "name", label: "Name", kind: "text", required: true },
    { name: "in", label: "Sent in", kind: [...PLACES, "body"] },
  ],
  hmac: [
    {
      name: "preset",
      label: "Sender",
      kind: "text",
      hint: "Such as github or stripe. Leave empty to define the signature below",
    },
    { name: "name", label: "Signature header", kind: "text", required: true, when: OWN },
    { name: "in", label: "Sent in", kind: [...PLACES, "body"], when: OWN },
    {
      name: "algorithm",
      label: "Algorithm",
      kind: ["sha256", "sha1", "sha384", "sha512", "token", "ed25519", "rsa-sha256", "ecdsa-sha256", "jwt-hs256"],
      when: OWN,
    },
    {
      name: "digestInputs",
      label: "Signed parts, in order",
      kind: "words",
      hint: "Such as: timestamp literal:. body",
      when: OWN,
    },
    { name: "encoding", label: "Encoding", kind: ["hex", "base64", "base64url"], when: OWN },
    { name: "prefix", label: "Prefix", kind: "text", hint: "Such as sha256=", when: OWN },
    { name: "timestampHeader", label: "Timestamp header", kind: "text", when: OWN },
    {
      name: "toleranceSeconds",
      label: "Maximum age of a request, in seconds",
      kind: "number",
      hint: "Default: 300",
    },
  ],
  "jwt-bearer": [
    {
      name: "algorithm",
      label: "Algorithm",
      kind: ["RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "HS256", "HS384", "HS512"],
    },
    { name: "payload", label: "Claims", kind: "json", hint: "Tieline adds iat, exp and jti" },
    { name: "expiresIn", label: "Lifetime, in seconds", kind: "number", hint: "Default: 300" },
    { name: "authorizationHeaderPrefix", label: "Authorization prefix", kind: "text", hint: "Default: Bearer" },
  ],
  oauth2: [
    { name: "grant", label: "Flow", kind: ["authorizationCode", "clientCredentials", "password"] },
    { name: "authorizeUrl", label: "Authorise URL", kind: "url", required: true, when: CODE },
    { name: "tokenUrl", label: "Token URL", kind: "url", required: true },
    { name: "refreshUrl", label: "Refresh URL", kind: "url", hint: "Default: the token URL" },
    { name: "clientId", label: "Client id", kind: "text", when: CLIENT },
    { name: "clientSecret", label: "Client secret", kind: "secret", when: CLIENT },
    { name: "scopes", label: "Available scopes", kind: "words", hint: "Separated by spaces" },
    { name: "defaultScopes", label: "Default scopes", kind: "words", hint: "Separated by spaces" },
    {
      name: "clientAuthentication",
      label: "Client authentication",
      kind: ["header", "body", "both", "none"],
    },
    { name: "pkce", label: "PKCE (S256)", kind: "check", when: CODE },
    {
      name: "additionalAuthorizeParams",
      label: "Additional authorise parameters",
      kind: "text",
      hint: "Such as access_type=offline&prompt=consent",
      when: CODE,
    },
  ],
  oauth1: [
    { name: "consumerKey", label: "Consumer key", kind: "text" },
    { name: "consumerSecret", label: "Consumer secret", kind: "secret" },
    {
      name: "signatureMethod",
      label: "Signature",
      kind: ["HMAC-SHA1", "HMAC-SHA256", "HMAC-SHA512", "RSA-SHA1", "RSA-SHA256", "RSA-SHA512", "PLAINTEXT"],
    },
    { name: "tempCredentialEndpoint", label: "URL for temporary credentials", kind: "url" },
    { name: "resourceOwnerAuthorizationEndpoint", label: "Authorise URL", kind: "url" },
    { name: "tokenEndpoint", label: "Token URL", kind: "url" },
  ],
};

const ENDPOINTS = ["tempCredentialEndpoint", "resourceOwnerAuthorizationEndpoint", "tokenEndpoint"];
const PARTS: Record<SchemeType, string> = {
  none: "none",
  "api-key": "apiKey",
  "basic-auth": "basicAuth",
  oauth2: "oauth2",
  hmac: "hmac",
  "jwt-bearer": "jwtBearer",
  certificate: "certificate",
  oauth1: "oauth1",
  secret: "secret",
};

/** An auth scheme while it is entered. */
export interface SchemeDraft {
  type: SchemeType;
  description: string;
  values: Record<string, string>;
  /** The scheme that is changed: what the form does not show stays. */
  stored?: Record<string, unknown>;
}

/** A new scheme of a type. */
export function newDraft(type: SchemeType): SchemeDraft {
  return { type, description: "", values: {} };
}

/** The value of a field; of a choice the first one, until another is chosen. */
export function enteredIn(draft: SchemeDraft, field: SchemeField): string {
  return (
    draft.values[field.name] ?? (Array.isArray(field.kind) ? ((field.kind as readonly string[])[0] ?? "") : "")
  );
}

/** The fields that count for what is entered so far. */
export function fieldsOf(draft: SchemeDraft): SchemeField[] {
  const all = FIELDS[draft.type];
  return all.filter(({ when }) => {
    const other = when && all.find((each) => each.name === when.field);
    return !when || !other || when.is.includes(enteredIn(draft, other).trim());
  });
}

/** The draft of a stored scheme. */
export function draftOf(scheme: Scheme): SchemeDraft {
  const stored = {
    ...((scheme as unknown as Record<string, object>)[PARTS[scheme.type]] as Record<string, unknown>),
  };
  delete stored.validationMessages;
  const values = Object.fromEntries(
    FIELDS[scheme.type].map((field) => [field.name, textOf(field, scheme.type, stored)]),
  );
  return { type: scheme.type, description: String(stored.description ?? ""), values, stored };
}

function textOf(field: SchemeField, type: SchemeType, stored: Record<string, unknown>): string {
  let found = stored[field.name];
  if (type === "oauth2") {
    const grant = stored.grant as { type?: string; [part: string]: unknown } | undefined;
    if (field.name === "grant") found = grant?.type;
    if (field.name === "clientId")
      found = (grant?.[grant.type ?? ""] as { clientId?: string } | undefined)?.clientId;
    if (field.name === "scopes")
      found = (stored.scopes as { name: string }[] | undefined)?.map((each) => each.name);
  }
  if (ENDPOINTS.includes(field.name)) found = (found as { url?: string } | undefined)?.url;
  if (found === undefined || found === null) return "";
  if (field.kind === "json") return Object.keys(found as object).length > 0 ? JSON.stringify(found, null, 2) : "";
  return Array.isArray(found) ? found.join(" ") : String(found);
}

/** The scheme of a request. Throws SyntaxError for invalid JSON. */
export function schemeOf(draft: SchemeDraft): SchemeInput {
  const shown = fieldsOf(draft);
  const value = (name: string) => {
    const field = shown.find((each) => each.name === name);
    return field ? enteredIn(draft, field) : "";
  };
  const part: Record<string, unknown> = { ...draft.stored };
  // Hidden and empty fields are removed.
  for (const each of FIELDS[draft.type]) delete part[each.name];
  for (const field of shown) {
    const parsed = parsedOf(field, enteredIn(draft, field));
    if (parsed !== undefined) part[field.name] = parsed;
  }
  if (draft.type === "oauth2") {
    const type = value("grant");
    const before = (draft.stored?.grant ?? {}) as Record<string, object>;
    const client = {
      ...before[type],
      ...(value("clientId") ? { clientId: value("clientId") } : {}),
      ...(value("clientSecret") ? { clientSecret: value("clientSecret") } : {}),
    };
    part.grant = { type, [type]: type === "clientCredentials" ? {} : client };
    delete part.clientId;
    delete part.clientSecret;
    const known = (draft.stored?.scopes ?? []) as { name: string }[];
    part.scopes = words(value("scopes")).map((name) => known.find((each) => each.name === name) ?? { name });
  }
  if (draft.type === "oauth1") {
    for (const name of ENDPOINTS) {
      if (part[name]) part[name] = { ...(draft.stored?.[name] as object | undefined), url: part[name] };
    }
  }
  if (draft.type === "hmac" && part.preset) {
    const kept = ["id", "preset", "toleranceSeconds", "answer", "refusal"];
    for (const name of Object.keys(part)) if (!kept.includes(name)) delete part[name];
  }
  part.description = draft.description.trim();
  return { type: draft.type, [PARTS[draft.type]]: part } as unknown as SchemeInput;
}

function parsedOf(field: SchemeField, text: string): unknown {
  if (field.kind === "check") return text === "true";
  if (text.trim() === "") return undefined;
  if (field.kind === "words") return words(text);
  if (field.kind === "number") return Number(text);
  if (field.kind === "json") return JSON.parse(text);
  // The space at the end of a prefix counts.
  return field.name.toLowerCase().endsWith("prefix") ? text : text.trim();
}

function words(text: string): string[] {
  return text.split(/\s+/).filter(Boolean);
}

/** The id of a stored scheme. */
export function draftId(draft: SchemeDraft): string | undefined {
  return typeof draft.stored?.id === "string" ? draft.stored.id : undefined;
}
