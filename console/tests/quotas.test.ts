import { expect, test } from "vitest";
import { isUsedUp, type Quota, quotaLabel, quotaUse } from "../src/lib/quotas";

const of = (name: Quota["name"], unit: Quota["unit"], more: Partial<Quota>): Quota => ({ name, unit, ...more });

test.each([
  [of("environments", "environments", { used: 3, limit: 10, left: 7 }), "3 of 10"],
  [of("engineStorage", "bytes", { used: 3 * 2 ** 29, limit: 2 ** 32, left: 5 * 2 ** 29 }), "1.5 GiB of 4 GiB"],
  [of("stateStorage", "bytes", { used: 0 }), "0, no quota"],
  [of("eventsPerSecond", "events", { limit: 50 }), "not known of 50"],
])("a quota says what is used: %j", (quota, text) => {
  expect(quotaUse(quota)).toBe(text);
});

test("a quota of which nothing is left is used up", () => {
  expect(isUsedUp(of("replicas", "pods", { used: 9, limit: 4, left: 0 }))).toBe(true);
  expect(isUsedUp(of("replicas", "pods", { used: 9 }))).toBe(false);
  expect(quotaLabel(of("replicas", "pods", {}))).toBe("Pods");
});
