import { expect, test } from "vitest";
import { credentialOf, idOf, nameOf, planOf, type Scheme } from "../src/lib/credentials";
import { newUlid } from "../src/lib/ulid";

const scheme = (type: string, part: string, more: object = {}) =>
  ({ type, [part]: { id: "k", description: "", validationMessages: [], ...more } }) as unknown as Scheme;

test.each([
  ["api-key", "apiKey", "string"],
  ["secret", "secret", "string"],
  ["hmac", "hmac", "string"],
  ["basic-auth", "basicAuth", "basic-auth"],
  ["certificate", "certificate", "certificate"],
  ["jwt-bearer", "jwtBearer", "jwt-bearer"],
  ["none", "none", "none"],
])("a scheme of type %s is entered in a form", (type, part, credential) => {
  const plan = planOf(scheme(type, part));
  expect(plan.type).toBe(credential);
  expect(plan.authorise).toBeUndefined();
});

test("people authorise where the flow asks for it, and only there", () => {
  const grants = ["authorizationCode", "clientCredentials", "password"];
  const plans = grants.map((type) => planOf(scheme("oauth2", "oauth2", { grant: { type } })));
  expect(plans.map((each) => each.authorise)).toEqual(["oauth2", undefined, undefined]);
  expect(plans.map((each) => each.fields.length > 0)).toEqual([false, true, true]);
  expect(planOf(scheme("oauth1", "oauth1")).authorise).toBe("oauth1");
});

test("what is left empty is left out, and words become a list", () => {
  const plan = planOf(scheme("oauth2", "oauth2", { grant: { type: "clientCredentials" } }));
  expect(credentialOf(plan, { clientId: "a", clientSecret: "b", scopes: " read  write " })).toEqual({
    type: "oauth2-client",
    data: { oauth2Client: { clientId: "a", clientSecret: "b", scopes: ["read", "write"] } },
  });
  expect(credentialOf(plan, { clientId: "a", clientSecret: "b" }).data).toEqual({
    oauth2Client: { clientId: "a", clientSecret: "b" },
  });
});

test("a scheme has its name and its id from its sub-object", () => {
  const named = scheme("api-key", "apiKey", { id: "main", description: "For orders" });
  expect([nameOf(named), idOf(named)]).toEqual(["api-key · For orders", "main"]);
  expect(nameOf(undefined)).toBe("credential");
});

test("new ids are ULIDs that follow each other in time", () => {
  const [one, other] = [newUlid(1_700_000_000_000), newUlid(1_800_000_000_000)];
  expect(one).toMatch(/^[0-7][0-9A-HJKMNP-TV-Z]{25}$/);
  expect(one < other).toBe(true);
  expect(newUlid(5).slice(0, 10)).toBe("0000000005");
});
