import { expect, test } from "vitest";
import { pastRefusal, soon } from "../src/lib/connections";
import { patchLines } from "../src/lib/diff";
import { deployerOf, failedRuns, headline, releaseOf } from "../src/lib/releases";

const release = (number: number, version: string, deployedAt: string) =>
  ({ number, version: { id: version, name: version }, deployedAt, outcome: "healthy", wasHealthy: true }) as never;

test("a run is of the release that had deployed its version", () => {
  const releases = [
    release(3, "a", "2026-01-03T00:00:00Z"),
    release(2, "b", "2026-01-02T00:00:00Z"),
    release(1, "a", "2026-01-01T00:00:00Z"),
  ];
  const of = (version: string, queuedAt: string) =>
    releaseOf(releases, { version: { id: version, name: version }, queuedAt })?.number;
  expect(of("a", "2026-01-01T12:00:00Z")).toBe(1);
  expect(of("a", "2026-01-04T00:00:00Z")).toBe(3);
  expect(of("a", "2025-12-31T00:00:00Z"), "it was queued before the first deploy").toBe(1);
  expect(of("c", "2026-01-04T00:00:00Z")).toBeUndefined();
  expect(releaseOf(releases, { queuedAt: "2026-01-04T00:00:00Z" })).toBeUndefined();
});

test("who deployed is a person, a tool or kubectl", () => {
  expect(deployerOf({ by: "oidc:ann" })).toBe("ann");
  expect(deployerOf({ via: 'Flux (Kustomization "apps")' })).toBe('Flux (Kustomization "apps")');
  expect(deployerOf({})).toBe("kubectl");
});

test("failed runs are said where there were runs", () => {
  expect(failedRuns({ runs: 9, failedRuns: 2 })).toBe("2 of 9 runs failed");
  expect(failedRuns({ runs: 0, failedRuns: 0 })).toBe("");
  expect(failedRuns({})).toBe("");
});

test("the first line of a crash says what is wrong", () => {
  expect(headline("KeyError: 'X', main.py:4\nTraceback\n  …")).toEqual([
    "KeyError: 'X', main.py:4",
    "Traceback\n  …",
  ]);
});

test("a unified diff becomes lines", () => {
  const diff = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n@@ -9 +9 @@\n+++i\n\\ No newline\n";
  expect(patchLines(diff)).toEqual([
    { kind: "same", text: "same" },
    { kind: "removed", text: "old" },
    { kind: "added", text: "new" },
    undefined,
    { kind: "added", text: "++i" },
  ]);
  expect(patchLines("")).toEqual([]);
});

test("what ends soon is asked for once an hour", () => {
  const at = Date.parse("2026-01-01T00:10:00Z");
  expect(soon(at)).toBe("2026-01-15T01:00:00.000Z");
  expect(soon(at + 60_000)).toBe(soon(at));
});

test("a refusal that was taken back is still told", () => {
  const last = { status: 401, count: 1, since: "", lastAt: "", said: "no\u0000" };
  expect(pastRefusal({ lastRefusal: last } as never)).toBe("401: “no␀”");
  expect(pastRefusal({ lastRefusal: last, refused: last } as never)).toBeUndefined();
});
