import { expect, test } from "vitest";
import { envOf, namesTwice, newRow, problemOf, rowsOf } from "../src/lib/env";

const ENV = [
  { name: "LOG_LEVEL", value: "debug" },
  { name: "SMTP_PASSWORD", valueFrom: { secretKeyRef: { name: "smtp", key: "password" } } },
  { name: "REGION", value: "eu", inherited: true },
];

test("what an environment has of its own is sent back as it was", () => {
  expect(envOf(rowsOf(ENV))).toEqual(ENV.slice(0, 2));
  expect(rowsOf(undefined)).toEqual([]);
});

test("a new row is another one than all that are there", () => {
  const rows = rowsOf(ENV);
  expect(rows.map((each) => each.id)).not.toContain(newRow(rows).id);
  expect(newRow([]).id).toBe(0);
});

test("names are compared without the space around them, and empty ones not at all", () => {
  const [row] = rowsOf(ENV);
  if (!row) throw new Error("no row");
  expect(namesTwice([row, { ...row, name: " LOG_LEVEL" }, { ...row, name: "" }, { ...row, name: "" }])).toEqual([
    "LOG_LEVEL",
  ]);
});

test("what the API says of a row stands at that row", () => {
  const problems = new Map([["env[1].name", "is wrong"]]);
  expect(problemOf(problems, 1)).toBe("is wrong");
  expect(problemOf(problems, 11)).toBeUndefined();
});
