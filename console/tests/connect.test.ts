import { expect, test } from "vitest";
import { luminanceOf, textOn } from "../../api/tieline_api/connect_page/files/colours.js";
import { credentialOf, planOf, stateOf } from "../../api/tieline_api/connect_page/files/credentials.js";
import { propertiesOf, widgetOf } from "../../api/tieline_api/connect_page/files/schema.js";
import { languageOf, TEXTS, textsIn } from "../../api/tieline_api/connect_page/files/texts.js";

const OAUTH = { type: "oauth2", oauth2: { id: "o", grant: { type: "authorizationCode" } } };
const KEY = { type: "api-key", apiKey: { id: "k" } };

test("all languages of the page have the same texts, with the same places for values", () => {
  const places = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(String).sort();
  const english = TEXTS.en ?? {};
  for (const texts of Object.values(TEXTS)) {
    expect(Object.keys(texts).sort()).toEqual(Object.keys(english).sort());
    for (const [key, text] of Object.entries(texts)) expect(places(text)).toEqual(places(english[key] ?? ""));
  }
});

test.each([
  [{}, ["de-AT", "en"], "de"],
  [{}, ["fr"], "en"],
  [{ texts: { fr: {} } }, ["fr-CA"], "fr"],
  [{ languages: ["de"] }, ["en"], "de"],
  [{ languages: ["pt", "pt-BR"] }, ["pt-br"], "pt-BR"],
])("%o offers to a reader of %o the language %s", (brand, wanted, language) => {
  expect(languageOf(brand, wanted)).toBe(language);
});

test("a brand's text counts before the page's, and values are put in as they are", () => {
  const t = textsIn({ texts: { de: { connect: "{system} anbinden" } } }, "de-AT");
  expect(t("connect", { system: "$& {user}" })).toBe("$& {user} anbinden");
  expect(t("cancel")).toBe("Abbrechen");
  expect(textsIn({}, "fr")("cancel")).toBe("Cancel");
});

test("a credential holds what was entered, and nothing before the user has authorised", () => {
  expect(credentialOf(planOf(KEY), { value: "s" })).toEqual({ type: "string", data: { string: { value: "s" } } });
  expect(credentialOf(planOf(OAUTH), {})).toEqual({ type: "none" });
  const client = { type: "oauth2", oauth2: { grant: { type: "clientCredentials" } } };
  expect(credentialOf(planOf(client), { clientId: "c", clientSecret: "s", scopes: "a  b" }).data).toEqual({
    oauth2Client: { clientId: "c", clientSecret: "s", scopes: ["a", "b"] },
  });
});

test.each([
  ["waiting", { authSchemeConfig: OAUTH, credential: { type: "none" } }, {}],
  ["connected", { authSchemeConfig: OAUTH, credential: { type: "oauth2-token", errors: [] } }, {}],
  ["refused", { authSchemeConfig: OAUTH, credential: { type: "oauth2-token", errors: ["expired"] } }, {}],
  ["refused", { authSchemeConfig: KEY, credential: { type: "string" } }, { refused: { status: 401 } }],
  ["waiting", { authSchemeConfig: KEY }, {}],
])("a connection is %s", (state, part, more) => {
  expect(stateOf({ credentials: [part], ...more })).toBe(state);
});

test("what no field fits is entered as JSON", () => {
  expect(["string", "integer", "boolean"].map((type) => widgetOf({ type }))).toEqual(["text", "number", "boolean"]);
  expect(widgetOf({ type: ["string", "null"], enum: ["a", "b"] })).toBe("choice");
  expect(widgetOf({ type: "array", items: { type: "object" } })).toBe("json");
  expect(widgetOf({ anyOf: [] })).toBe("json");
  expect(propertiesOf({ properties: { any: true } })).toEqual([["any", {}]]);
});

test.each(["#000", "#fff", "#0b5d3b", "#8fa5ff", "#767676", "#ff0000"])(
  "text on the accent %s can be read",
  (accent) => {
    const [low = 0, high = 0] = [accent, textOn(accent)].map(luminanceOf).sort((a, b) => a - b);
    expect((high + 0.05) / (low + 0.05)).toBeGreaterThanOrEqual(4.5);
  },
);
