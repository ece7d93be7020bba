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

/** Whether its user signs in at the system for each credential. @param {any} connection */
function isSignedIn(connection) {
  const plans = (connection.credentials ?? []).map((/** @type {any} */ part) => planOf(part.authSchemeConfig));
  return plans.every((/** @type {Plan} */ plan) => plan.authorise || plan.type === "none");
}

/**
 * What its user is told of a connection. `stored`: nothing is known yet of what was entered.
 * @param {any} connection
 * @param {boolean} [hasCheck] Whether the system can be asked; then only its answer counts.
 * @returns {"connected" | "stored" | "waiting" | "refused"}
 */
export function stateOf(connection, hasCheck = false) {
  switch (connection.state) {
    case "works":
      return "connected";
    case "not_authorised":
      return "waiting";
    case "not_checked":
      return isSignedIn(connection) && !hasCheck ? "connected" : "stored";
    default:
      return "refused";
  }
}

/** Whether its user has signed in, or entered everything; the system may refuse it all the same. @param {any} connection */
export function isGiven(connection) {
  const hasErrors = connection.credentials?.some((/** @type {any} */ part) => part.credential?.errors?.length);
  return connection.state !== "not_authorised" && !hasErrors;
}

/** Whether its account is connected as often as the system allows, or more often. @param {any} connection */
export function isShared(connection) {
  return Boolean(connection.credentials?.some((/** @type {any} */ part) => part.credential?.warnings?.length));
}
