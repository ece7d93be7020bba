import { expect, test } from "vitest";
import { problems } from "../src/lib/attention";
import { changedSearch, readFilters } from "../src/lib/filters";
import { path, safeUrl } from "../src/lib/links";
import { duration, relative } from "../src/lib/time";

test.each([
  "javascript:alert(1)",
  "JaVaScRiPt:alert(1)",
  "data:text/html,x",
  "//evil",
  "vbscript:x",
  "",
  null,
  "x y",
])("%s is no link", (text) => {
  expect(safeUrl(text)).toBeUndefined();
});

test("http and https are links", () => {
  expect(safeUrl("https://a.example/b?c=d")).toBe("https://a.example/b?c=d");
  expect(safeUrl("http://a.example")).toBe("http://a.example/");
});

test("names in paths cannot leave their part", () => {
  expect(path("acme", "../x", "a/b?c#d")).toBe("/acme/..%2Fx/a%2Fb%3Fc%23d");
});

test("filters are read from the URL and written to it, and empty ones are left out", () => {
  const search = changedSearch("status=dead&task=orders", { status: "", search: "a & b" });
  expect(readFilters(search, ["status", "task", "search"])).toEqual({
    status: "",
    task: "orders",
    search: "a & b",
  });
});

test("times are said from now, and lengths in the unit that fits", () => {
  const now = Date.parse("2026-01-02T00:00:00Z");
  expect(relative("2026-01-01T23:59:18Z", now)).toBe("42 s ago");
  expect(relative("2026-01-05T00:00:00Z", now)).toBe("in 3 d");
  expect(relative("no time", now)).toBe("no time");
  expect([0.25, 12, 1250, 62_000, 3_720_000].map(duration)).toEqual([
    "250 µs",
    "12 ms",
    "1.25 s",
    "1 min 2 s",
    "1 h 2 min",
  ]);
});

test("what is broken comes with the worst first", () => {
  const now = Date.parse("2026-01-02T00:00:00Z");
  const environment = {
    id: "e1",
    name: "production",
    status: "error",
    message: "main.py does not load",
    lastDeployedAt: "",
  };
  const project = { id: "p1", name: "Orders", environments: [environment] };
  const run = {
    id: "r1",
    environmentId: "e1",
    task: "sync",
    status: "dead",
    queuedAt: "2026-01-01T00:00:00Z",
    error: { type: "X", message: "no" },
  };
  const credential = (errors: string[], expiresAt: string | null) => ({
    credentials: [{ credential: { errors, expiresAt } }],
  });
  const connections = [
    { id: "c1", name: "soon", ...credential([], "2026-01-03T00:00:00Z") },
    { id: "c2", name: "refused", ...credential(["the token is revoked"], null) },
    { id: "c3", name: "fine", ...credential([], "2027-01-01T00:00:00Z") },
    {
      id: "c4",
      name: "Shop",
      ...credential([], null),
      refused: { status: 401, count: 12, since: "2026-01-01T00:00:00Z", lastAt: "2026-01-01T23:00:00Z" },
    },
  ];
  const late = [
    {
      id: "s1",
      name: "nightly",
      projectId: "p1",
      projectName: "Orders",
      environmentId: "e1",
      environmentName: "production",
      missed: "2026-01-01T22:00:00Z",
    },
  ];
  const found = problems(
    { projects: [project], dead: [run, { ...run, id: "r2" }], connections, late } as never,
    now,
  );
  expect(found.map((each) => each.title)).toEqual([
    "Orders · production is in error",
    "Shop: its system refuses the credentials",
    "Connection refused cannot be used",
    "2 dead letters of sync",
    "Schedule nightly did not run",
    "Connection soon expires soon",
  ]);
  expect(found[1]?.detail).toContain("at least 12 requests with 401");
  expect(found[4]?.href).toBe("/schedules?project=p1&environment=production");
  expect(found[3]?.href).toBe("/runs?status=dead&task=sync&project=p1&environment=production");
});
