import { expect, test } from "vitest";
import * as page from "../../api/tieline_api/connect/files/inputs.js";
import { isRequired, valueIn, valuesOf, variablesOf } from "../src/lib/inputs";

const SHOP = { name: "shop", suffix: ".myshopify.com" };

test.each([
  ["my-shop", "my-shop"],
  [" https://my-shop.myshopify.com/admin?x=1#y ", "my-shop"],
  ["HTTPS://My-Shop.MyShopify.com", "My-Shop"],
  [".myshopify.com", ".myshopify.com"],
  ["https://evil.com/.myshopify.com", "https://evil.com/.myshopify.com"],
  ["evil.com/", "evil.com/"],
  ["x@evil.myshopify.com", "x@evil"],
])("what is pasted as %o becomes %o, on the page and in the console", (pasted, value) => {
  expect(valueIn(pasted, SHOP.suffix)).toBe(value);
  expect(page.valueIn(pasted, SHOP.suffix)).toBe(value);
});

test.each(["evil.com/", "a.b", "x@evil", "..", "shöp", "a".repeat(300), "%2e", "-a", ""])(
  "the page sends nobody anywhere with %o",
  (value) => {
    expect(page.wrongIn([SHOP], page.variablesOf([SHOP], { shop: value }))).toEqual([SHOP]);
  },
);

test("patterns and hosts are checked by the service", () => {
  const listed = { name: "host", hosts: ["*.example.com"] };
  const pattern = { ...SHOP, pattern: "^(a+)+$" };
  expect(page.wrongIn([listed], [{ name: "host", value: "eu.example.com" }])).toEqual([]);
  expect(page.wrongIn([pattern], [{ name: "shop", value: `${"a".repeat(60)}-` }])).toEqual([]);
});

test("fields hold what was entered, then what is stored, then the default", () => {
  const inputs = [{ ...SHOP, value: "default" }, { name: "region" }];
  const stored = [
    { name: "shop", value: "mine" },
    { name: "version", value: "v1" },
  ];
  expect(valuesOf(inputs, stored)).toEqual({ shop: "mine", region: "" });
  expect(page.valuesOf(inputs, { shop: "typed" }, stored)).toEqual({ shop: "typed", region: "" });
  expect(variablesOf(inputs, { shop: "x.myshopify.com", region: "" }, stored)).toEqual([
    { name: "shop", value: "x" },
    { name: "version", value: "v1" },
  ]);
  expect([isRequired({ name: "a" }), isRequired({ name: "a", value: "x" })]).toEqual([true, false]);
});
