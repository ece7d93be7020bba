import { expect, test } from "vitest";
import { warnings } from "../src/lib/warnings";

test("a header gives its texts", () => {
  expect(warnings(null)).toEqual([]);
  expect(warnings('299 - "no Secret \\"db\\"; create it", 299 - "and 2 more"')).toEqual([
    'no Secret "db"; create it',
    "and 2 more",
  ]);
});
