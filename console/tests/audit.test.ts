import { expect, test } from "vitest";
import { fieldsOf, outcomeOf, pageOf, whoOf } from "../src/lib/audit";

const FROM = { address: "192.0.2.7" };

test("a record says who it was, on whose behalf, or only where from", () => {
  expect(whoOf({ ...FROM, subject: "ann", caller: "user" })).toBe("ann");
  expect(whoOf({ ...FROM, subject: "ann", caller: "" })).toBe("on behalf of ann");
  expect(whoOf({ ...FROM, subject: "", caller: "" })).toBe("anonymous, from 192.0.2.7");
  expect(whoOf({ address: "", subject: "\u202eann", caller: "user" })).toBe("‹U+202E›ann");
});

test("an outcome has its reason", () => {
  expect(outcomeOf({ outcome: "allowed", status: 201, code: "" })).toBe("allowed");
  expect(outcomeOf({ outcome: "refused", status: 403, code: "forbidden" })).toBe("refused: forbidden");
  expect(outcomeOf({ outcome: "failed", status: 500, code: "" })).toBe("failed: 500");
});

test("values are shown where there are any, of some fields", () => {
  const fields = [
    { name: "credentials", before: null, after: null },
    { name: "name", before: "Old", after: "New" },
    { name: "public", before: true, after: false },
  ];
  const change = { kind: "systems", object: "S", action: "changed", fields };
  expect(fieldsOf(change)).toBe("credentials, name = New, public = false");
  const many = Array.from({ length: 8 }, (_, number) => ({ name: `f${number}` }));
  expect(fieldsOf({ ...change, fields: many })).toBe("f0, f1, f2, f3, f4, f5, 2 more");
});

test("what has a page is a link", () => {
  expect(pageOf("systems", "S")).toBe("systems");
  expect(pageOf("systems", "")).toBeUndefined();
  expect(pageOf("apikeys", "K")).toBeUndefined();
});
