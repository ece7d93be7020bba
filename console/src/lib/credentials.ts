import type { Schemas } from "../api/client";

export type Scheme = Schemas["AuthSchemeConfig"];

/** A field of a form for a credential. */
export interface CredentialField {
  name: string;
  label: string;
  kind: "text" | "secret" | "lines";
  required: boolean;
  /** Words separated by spaces become a list. */
  list?: boolean;
}

/** How the credential of an auth scheme is entered: by a form, or by authorising at the other side. */
export interface CredentialPlan {
  /** The credential's type in REST. */
  type: string;
  /** The sub-object of `data` that the values go into. */
  part: string;
  fields: CredentialField[];
  authorise?: "oauth2" | "oauth1";
}

const text = (name: string, label: string, required = true): CredentialField => ({
  name,
  label,
  kind: "text",
  required,
});
const secret = (name: string, label: string): CredentialField => ({ name, label, kind: "secret", required: true });
const lines = (name: string, label: string, required = true): CredentialField => ({
  name,
  label,
  kind: "lines",
  required,
});

const PASSWORD = [text("username", "User name"), secret("password", "Password")];
const STRING = (label: string): CredentialPlan => ({
  type: "string",
  part: "string",
  fields: [secret("value", label)],
});

/** The plan for a scheme of any type. */
export function planOf(scheme: Scheme | null | undefined): CredentialPlan {
  switch (scheme?.type) {
    case "api-key":
      return STRING(`Key (sent as ${scheme.apiKey?.name ?? "a header"})`);
    case "secret":
      return STRING(`Secret (sent as ${scheme.secret?.name ?? "a value"})`);
    case "hmac":
      return STRING("Signing secret");
    case "basic-auth":
      return { type: "basic-auth", part: "basicAuth", fields: PASSWORD };
    case "certificate":
      return {
        type: "certificate",
        part: "certificate",
        fields: [
          lines("certificate", "Certificate (PEM)"),
          lines("key", "Private key (PEM)"),
          lines("ca", "Certificate authority of the server (PEM)", false),
        ],
      };
    case "jwt-bearer":
      return {
        type: "jwt-bearer",
        part: "jwtBearer",
        fields: [
          lines("key", "Private key (PEM), or the shared secret for HS algorithms"),
          text("keyId", "Id of the key", false),
        ],
      };
    case "oauth1":
      return { type: "oauth1", part: "oauth1", fields: [], authorise: "oauth1" };
    case "oauth2":
      return ofGrant(scheme.oauth2?.grant.type);
    default:
      return { type: "none", part: "none", fields: [] };
  }
}

function ofGrant(grant: string | undefined): CredentialPlan {
  if (grant === "clientCredentials") {
    const scopes = { ...text("scopes", "Scopes, separated by spaces", false), list: true };
    return {
      type: "oauth2-client",
      part: "oauth2Client",
      fields: [text("clientId", "Client id"), secret("clientSecret", "Client secret"), scopes],
    };
  }
  if (grant === "password") return { type: "oauth2-password", part: "oauth2Password", fields: PASSWORD };
  return { type: "oauth2-token", part: "oauth2Token", fields: [], authorise: "oauth2" };
}

/** The credential of a request from what was entered; what is empty is left out. */
export function credentialOf(plan: CredentialPlan, values: Record<string, string>) {
  const given = plan.fields.flatMap((field) => {
    const value = values[field.name] ?? "";
    if (!value) return [];
    return [[field.name, field.list ? value.split(/\s+/).filter(Boolean) : value]];
  });
  // It is connected later: until then there is nothing to store.
  if (plan.authorise) return { type: "none" };
  return { type: plan.type, data: { [plan.part]: Object.fromEntries(given) } };
}

/** What a scheme is, for people. */
export function nameOf(scheme: Scheme | null | undefined): string {
  if (!scheme) return "credential";
  const own = Object.values(scheme).find((each) => typeof each === "object" && each !== null) as
    | { description?: string }
    | undefined;
  const grant = scheme.type === "oauth2" ? ` · ${scheme.oauth2?.grant.type}` : "";
  return `${scheme.type}${grant}${own?.description ? ` · ${own.description}` : ""}`;
}

/** A scheme's id, which is in its sub-object. */
export function idOf(scheme: Scheme): string {
  const own = Object.values(scheme).find((each) => typeof each === "object" && each !== null) as
    | { id?: string }
    | undefined;
  return own?.id ?? "";
}
