import { expect, test, vi } from "vitest";
import { Api } from "../../api/tieline_api/connect/files/api.js";
import { luminanceOf, textOn } from "../../api/tieline_api/connect/files/colours.js";
import { credentialOf, planOf, stateOf } from "../../api/tieline_api/connect/files/credentials.js";
import { markOf as markOnPage } from "../../api/tieline_api/connect/files/marks.js";
import { propertiesOf, widgetOf } from "../../api/tieline_api/connect/files/schema.js";
import { directionOf, languageOf, TEXTS, textsIn } from "../../api/tieline_api/connect/files/texts.js";
import { markOf } from "../src/lib/catalogue";

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
  ["waiting", { state: "not_authorised" }, OAUTH, false],
  ["connected", { state: "not_checked" }, OAUTH, false],
  ["stored", { state: "not_checked" }, OAUTH, true],
  ["stored", { state: "not_checked" }, KEY, false],
  ["connected", { state: "works" }, KEY, true],
  ["refused", { state: "refused" }, KEY, false],
  ["refused", { state: "invalid" }, OAUTH, false],
])("a connection is %s when it is %o", (shown, connection, scheme, hasCheck) => {
  expect(stateOf({ credentials: [{ authSchemeConfig: scheme }], ...connection }, hasCheck)).toBe(shown);
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

test("the page sends back the revision of what it has written", async () => {
  const headers: Record<string, string>[] = [{ "X-Tieline-Revision": "connections:8" }, {}, {}];
  const answers = headers.map((each) => new Response("{}", { headers: each }));
  const sent = vi.fn<typeof fetch>(async () => answers.shift() ?? Response.error());
  vi.stubGlobal("fetch", sent);
  const api = new Api("t", new URL("https://tieline.example/"));
  for (const method of ["PUT", "POST", "GET"]) await api.call(method, "connections/c");
  vi.unstubAllGlobals();
  const revisions = sent.mock.calls.map(([, given]) => new Headers(given?.headers).get("X-Tieline-Revision"));
  expect(revisions).toEqual([null, "connections:8", "connections:8"]);
});

test("a language of the brand's falls back to English where it lacks a text, and its script has a direction", () => {
  const t = textsIn({ texts: { fr: { cancel: "Annuler" }, en: { done: "Finish" } } }, "fr-CA");
  expect([t("cancel"), t("done"), t("close")]).toEqual(["Annuler", "Finish", "Close"]);
  expect(textsIn({ texts: { en: { done: "Finish" } } }, "de")("done")).toBe(TEXTS.de?.done);
  expect(["ar", "he-IL", "fr", "de"].map(directionOf)).toEqual(["rtl", "rtl", "ltr", "ltr"]);
});

test("the page and the console mark a system alike", () => {
  for (const [key, name] of [
    ["slack", "Slack"],
    ["hubspot", "HubSpot CRM"],
    ["x", ""],
    ["ł", "Łódź & Co"],
    ["shop.example", "The Shop"],
  ] as const)
    expect(markOnPage(key, name)).toEqual(markOf(key, name));
});
