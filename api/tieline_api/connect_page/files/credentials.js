// How the credential of an auth scheme is entered: by a form, or by authorising at the system.

/**
 * @typedef {{ name: string, kind: "text" | "secret" | "lines", required: boolean, list?: boolean }} Field
 * @typedef {object} Plan
 * @property {string} type The credential's type in REST.
 * @property {string} part The sub-object of `data` that the values go into.
 * @property {Field[]} fields
 * @property {"oauth2" | "oauth1"} [authorise]
 */

/** @type {(name: string, required?: boolean) => Field} */
const text = (name, required = true) => ({ name, kind: "text", required });
/** @type {(name: string) => Field} */
const secret = (name) => ({ name, kind: "secret", required: true });
/** @type {(name: string, required?: boolean) => Field} */
const lines = (name, required = true) => ({ name, kind: "lines", required });
const PASSWORD = [text("username"), secret("password")];

/** @type {Record<string, Plan>} */
const PLANS = {
  "api-key": { type: "string", part: "string", fields: [secret("value")] },
  secret: { type: "string", part: "string", fields: [secret("value")] },
  hmac: { type: "string", part: "string", fields: [secret("value")] },
  "basic-auth": { type: "basic-auth", part: "basicAuth", fields: PASSWORD },
  certificate: {
    type: "certificate",
    part: "certificate",
    fields: [lines("certificate"), lines("key"), lines("ca", false)],
  },
  "jwt-bearer": { type: "jwt-bearer", part: "jwtBearer", fields: [lines("key"), text("keyId", false)] },
  oauth1: { type: "oauth1", part: "oauth1", fields: [], authorise: "oauth1" },
};
/** @type {Record<string, Plan>} */
const GRANTS = {
  clientCredentials: {
    type: "oauth2-client",
    part: "oauth2Client",
    fields: [text("clientId"), secret("clientSecret"), { ...text("scopes", false), list: true }],
  },
  password: { type: "oauth2-password", part: "oauth2Password", fields: PASSWORD },
};
/** @type {Plan} */
const AUTHORISED = { type: "oauth2-token", part: "oauth2Token", fields: [], authorise: "oauth2" };
/** @type {Plan} */
const NOTHING = { type: "none", part: "none", fields: [] };

/** @param {any} scheme @returns {Plan} */
export function planOf(scheme) {
  if (scheme?.type === "oauth2") return GRANTS[scheme.oauth2?.grant?.type] ?? AUTHORISED;
  return PLANS[scheme?.type] ?? NOTHING;
}

/**
 * The credential of a request; what is empty is left out. One that is authorised has no values until then.
 * @param {Plan} plan
 * @param {Record<string, string>} values
 */
export function credentialOf(plan, values) {
  if (plan.authorise || plan.type === "none") return { type: "none" };
  const given = plan.fields.flatMap(({ name, list }) => {
    const value = values[name] ?? "";
    return value ? [[name, list ? value.split(/\s+/).filter(Boolean) : value]] : [];
  });
  return { type: plan.type, data: { [plan.part]: Object.fromEntries(given) } };
}

/** The sub-object of a scheme's own type. @param {any} scheme @returns {any} */
export function detailsOf(scheme) {
  return Object.values(scheme ?? {}).find((each) => typeof each === "object" && each !== null) ?? {};
}

/**
 * How a connection does: it works, waits for the user, or is refused.
 * @param {any} connection
 * @returns {"connected" | "waiting" | "refused"}
 */
export function stateOf(connection) {
  const parts = connection.credentials ?? [];
  /** @param {any} part */
  const waits = ({ authSchemeConfig, credential }) => {
    const plan = planOf(authSchemeConfig);
    if (plan.authorise === "oauth2") return credential?.type !== "oauth2-token";
    if (plan.authorise === "oauth1") return credential?.type !== "oauth1";
    return plan.type !== "none" && (!credential || credential.type === "none");
  };
  if (parts.length === 0 || parts.some(waits)) return "waiting";
  const wrong = parts.some((/** @type {any} */ part) => part.credential?.errors?.length);
  return wrong || connection.refused ? "refused" : "connected";
}
