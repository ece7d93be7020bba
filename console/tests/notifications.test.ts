import { expect, test } from "vitest";
import { APPROVALS, CHANGES, eventsInWords, FAILURES, newSigningSecret } from "../src/lib/notifications";

test("all failures are said in two words, and others beside them", () => {
  const failures = FAILURES.map(([event]) => event);
  expect(eventsInWords(failures)).toBe("all failures");
  expect(eventsInWords([...failures, "connection.deleted"])).toBe("all failures, a connection was deleted");
  expect(eventsInWords([...failures, "approval_requested"])).toBe("all failures, a run asks people");
  expect(eventsInWords(["issue_opened"])).toBe("runs fail in a new way");
  expect(eventsInWords(["deploy_failed", "run_dead"])).toBe("a deploy failed, runs become dead letters");
});

test("every event has words of its own", () => {
  const words = [...FAILURES, ...APPROVALS, ...CHANGES].map(([, each]) => each);
  expect(new Set(words).size).toBe(15);
});

test("a signing secret is what the API takes, and never the same", () => {
  const made = newSigningSecret();
  expect(made).toMatch(/^whsec_[A-Za-z0-9+/]{32,128}={0,2}$/);
  expect(newSigningSecret()).not.toBe(made);
});
