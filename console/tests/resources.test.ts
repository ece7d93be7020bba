import { expect, test } from "vitest";
import { amountsOf, resourcesOf } from "../src/lib/resources";

test("resources are sent back as they were", () => {
  const resources = { requests: { cpu: "100m" }, limits: { memory: "512Mi", cpu: 1 } };
  expect(resourcesOf(amountsOf(resources))).toEqual({
    requests: { cpu: "100m" },
    limits: { memory: "512Mi", cpu: "1" },
  });
});

test("what is empty, or nothing that a form knows, is left out", () => {
  expect(resourcesOf(amountsOf({}))).toEqual({});
  expect(resourcesOf(amountsOf({ requests: "none", limits: { memory: {} } }))).toEqual({});
});
