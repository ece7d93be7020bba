import { expect, test } from "vitest";
import { groupsOf } from "../src/lib/chosen";
import { isoOf, localOf, startOf } from "../src/lib/ranges";
import { toggled, valuesOf } from "../src/lib/several";

const STATUSES = ["queued", "failed", "dead"];

test("a range begins that long ago, and stays for some minutes", () => {
  const now = Date.parse("2026-01-08T10:04:59Z");
  expect(startOf("1h", now)).toBe("2026-01-08T09:00:00.000Z");
  expect(startOf("1h", now - 240_000)).toBe(startOf("1h", now));
  expect(startOf("7d", now)).toBe("2026-01-01T10:00:00.000Z");
  expect([startOf("", now), startOf("2h", now)]).toEqual(["", ""]);
});

test("a time that is typed is the one that is shown", () => {
  const iso = "2026-03-29T00:30:00.000Z";
  expect(isoOf(localOf(iso))).toBe(iso);
  expect([localOf("never"), isoOf("")]).toEqual(["", ""]);
});

test("values are added and removed, in the order of the options", () => {
  expect(toggled("dead", "failed", STATUSES)).toBe("failed,dead");
  expect(toggled("failed,dead", "failed", STATUSES)).toBe("dead");
  expect(toggled("dead", "dead", STATUSES)).toBe("");
  expect(valuesOf("failed\ndead,queued")).toEqual(["failed", "dead", "queued"]);
  expect(valuesOf("")).toEqual([]);
});

test("chosen runs are acted on in the environment that each is of", () => {
  const environments = [
    { id: "e1", name: "production" },
    { id: "e2", name: "staging" },
  ];
  const projects = [{ id: "p1", name: "Orders", environments }];
  const runs = [
    { id: "r1", environmentId: "e1" },
    { id: "r1", environmentId: "e2" },
    { id: "r2", environmentId: "e1" },
    { id: "r3", environmentId: "gone" },
  ];
  expect(groupsOf(runs, projects as never)).toEqual([
    { project: "p1", environment: "production", ids: ["r1", "r2"] },
    { project: "p1", environment: "staging", ids: ["r1"] },
  ]);
});
