import { expect, test } from "vitest";
import type { BacklogItem } from "../src/api/runs";
import { byTask, depthOf } from "../src/lib/backlog";

const item = (task: string, status: BacklogItem["status"], count: number, minute: number, key?: string) =>
  ({ environmentId: "e", task, status, count, oldest: `2026-11-21T10:0${minute}:00Z`, key }) as BacklogItem;

test("what waits is summed by task, and its keys are told apart", () => {
  const items = [
    item("order", "queued", 2, 3, "ann"),
    item("order", "waiting", 1, 1, "ann"),
    item("order", "queued", 5, 4, "bob"),
    item("order", "dead", 9, 0, "bob"),
    item("mail", "running", 1, 0),
  ];
  const [mail, order] = byTask(items, ["queued", "running", "waiting"]);
  expect(mail?.task).toBe("mail");
  expect(mail?.keys).toEqual([]);
  expect(order && depthOf(order)).toBe(8);
  expect(order?.oldest).toBe("2026-11-21T10:01:00Z");
  expect(order?.keys.map((each) => [each.key, each.count])).toEqual([
    ["bob", 5],
    ["ann", 3],
  ]);
});

test("the same task of two environments is two groups", () => {
  const items = [item("order", "dead", 1, 1), { ...item("order", "dead", 1, 2), environmentId: "other" }];
  expect(byTask(items, ["dead"])).toHaveLength(2);
});
