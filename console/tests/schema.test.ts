import { expect, test } from "vitest";
import { changedValues, limitsOf, propertiesOf, type Schema, unsetNames, widgetOf } from "../src/lib/schema";

test.each<[Schema, string]>([
  [{ type: "string" }, "text"],
  [{ type: ["string", "null"] }, "text"],
  [{ type: "integer" }, "number"],
  [{ type: "boolean" }, "boolean"],
  [{ enum: ["a", "b"] }, "choice"],
  [{ enum: [1, "b"] }, "json"],
  [{ type: "array", items: { type: "string" } }, "list"],
  [{ type: "array", items: { type: "object" } }, "json"],
  [{ type: "object", properties: {} }, "group"],
  [{ type: "object" }, "json"],
  [{ type: ["string", "number"] }, "json"],
  [{}, "json"],
])("%j is entered as %s", (schema, widget) => {
  expect(widgetOf(schema)).toBe(widget);
});

test("only what was changed is sent", () => {
  const before = { region: "eu", limits: { daily: 5 }, old: 1 };
  const after = { region: "us", limits: { daily: 5 }, old: undefined, young: [] };
  expect(changedValues(before, after)).toEqual({ region: "us", young: [] });
  expect(unsetNames({ a: 1, b: false, c: undefined }, { a: undefined, c: undefined, d: 1 })).toEqual(["a", "b"]);
});

test("limits are said in words", () => {
  expect(limitsOf({ minimum: 1, maximum: 9 })).toBe("1 to 9");
  expect(limitsOf({ maximum: 9, format: "int32" })).toBe("at most 9, int32");
  expect(limitsOf({})).toBe("");
});

test("properties that are no schema may be anything, and a schema without any has none", () => {
  expect(propertiesOf({ properties: { a: true } as never })).toEqual([["a", {}]]);
  expect(propertiesOf({})).toEqual([]);
});
