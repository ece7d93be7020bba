import { describe, expect, it } from "vitest";
import { inWords, markKeyOf, markOf } from "../src/lib/catalogue";

describe("the mark of a provider", () => {
  it.each([
    ["github", "GitHub", "GI"],
    ["google-drive", "Google Drive", "GD"],
    ["x", "X", "X"],
    ["1password", "1Password", "1P"],
    ["aerger", "Ärger & Co.", "ÄC"],
    ["odd", "…", "OD"],
  ])("of %s has letters of its name", (key, name, letters) => {
    expect(markOf(key, name).letters).toBe(letters);
  });

  it("always has the same colour", () => {
    const { colour } = markOf("slack", "Slack");
    expect(markOf("slack", "Slack Technologies").colour).toBe(colour);
    expect(colour).toBeLessThan(8);
  });
});

it("is that of the catalogue for a system that was made of an entry", () => {
  expect(markKeyOf({ name: "Our GitHub", labels: { catalogue: "github" } })).toBe("github");
  expect([markKeyOf({ name: "Shop", labels: {} }), markKeyOf({ name: "Shop" })]).toEqual(["Shop", "Shop"]);
});

it("shows names of categories in words", () => {
  expect([inWords("customer-support"), inWords("ai"), inWords("crm")]).toEqual(["Customer support", "AI", "CRM"]);
});
