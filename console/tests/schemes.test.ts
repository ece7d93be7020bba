import { expect, test } from "vitest";
import { draftOf, fieldsOf, newDraft, type SchemeDraft, schemeOf, TYPES } from "../src/lib/schemes";

const given = (type: SchemeDraft["type"], values: Record<string, string> = {}) =>
  schemeOf({ ...newDraft(type), values }) as unknown as Record<string, object>;

test("a choice that nobody made is the first one, and empty fields are left out", () => {
  expect(given("api-key", { name: "X-Key" })).toEqual({
    type: "api-key",
    apiKey: { name: "X-Key", in: "header", description: "" },
  });
});

test("the space at the end of a prefix stays", () => {
  expect(given("api-key", { name: " X-Key ", prefix: "Bearer " }).apiKey).toMatchObject({
    name: "X-Key",
    prefix: "Bearer ",
  });
});

test("a sender that is known takes the place of all other fields", () => {
  const values = { preset: "github", name: "X-Old", toleranceSeconds: "60" };
  expect(fieldsOf({ ...newDraft("hmac"), values }).map((each) => each.name)).toEqual([
    "preset",
    "toleranceSeconds",
  ]);
  expect(given("hmac", values).hmac).toEqual({ preset: "github", toleranceSeconds: 60, description: "" });
});

test("a client's secret is sent only where one is entered, and its id stays", () => {
  const stored = {
    type: "oauth2",
    oauth2: {
      id: "one",
      tokenUrl: "https://crm.example/token",
      scopes: [{ name: "read", description: "Reads" }],
      grant: { type: "authorizationCode", authorizationCode: { clientId: "abc", credentialId: "c1" } },
      refresh: { before: 60 },
      validationMessages: [{ severity: "info", text: "x" }],
    },
  } as never;
  const draft = draftOf(stored);
  expect(draft.values).toMatchObject({ grant: "authorizationCode", clientId: "abc", scopes: "read" });
  const sent = schemeOf({ ...draft, values: { ...draft.values, scopes: "read write" } }) as never as {
    oauth2: Record<string, unknown>;
  };
  expect(sent.oauth2).toMatchObject({
    id: "one",
    refresh: { before: 60 },
    scopes: [{ name: "read", description: "Reads" }, { name: "write" }],
    grant: { type: "authorizationCode", authorizationCode: { clientId: "abc", credentialId: "c1" } },
  });
  expect(JSON.stringify(sent)).not.toContain("clientSecret");
  expect(sent.oauth2.validationMessages).toBeUndefined();
});

test("fields of another flow are not sent", () => {
  const values = {
    grant: "clientCredentials",
    tokenUrl: "https://a.example/t",
    authorizeUrl: "https://a.example/a",
  };
  expect(given("oauth2", values).oauth2).toMatchObject({
    grant: { type: "clientCredentials", clientCredentials: {} },
    tokenUrl: "https://a.example/t",
  });
  expect(given("oauth2", values).oauth2).not.toHaveProperty("authorizeUrl");
});

test("claims that are no JSON are not sent", () => {
  expect(() => given("jwt-bearer", { payload: "{" })).toThrow(SyntaxError);
  expect(given("jwt-bearer", { payload: '{"aud": "crm"}' }).jwtBearer).toMatchObject({ payload: { aud: "crm" } });
});

test("what was stored comes back as it was, for each type that has fields", () => {
  const schemes = [
    { type: "secret", secret: { id: "1", name: "token", in: "body", description: "" } },
    { type: "hmac", hmac: { id: "2", name: "X-S", in: "header", algorithm: "sha512", digestInputs: ["timestamp", "literal:.", "body"], encoding: "base64", description: "", challenges: [] } },
    { type: "oauth1", oauth1: { id: "3", consumerKey: "k", signatureMethod: "PLAINTEXT", tokenEndpoint: { url: "https://a.example", parameterTransmission: "AUTH_STYLE_FORM" }, description: "" } },
    { type: "basic-auth", basicAuth: { id: "4", headers: { A: "b" }, description: "two" } },
  ]; // biome-ignore format: a table
  for (const scheme of schemes) expect(schemeOf(draftOf(scheme as never))).toEqual(scheme);
  expect(TYPES).toHaveLength(9);
});
