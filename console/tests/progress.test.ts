import { describe, expect, it } from "vitest";
import { progressText } from "../src/lib/progress";

const said = { text: "3 of 10", fraction: 0.3, attempt: 2, at: "2026-11-27T10:00:00Z" };

describe("progressText", () => {
  it("has the share, and names an earlier attempt", () => {
    expect(progressText({ attempt: 2, progress: said })).toBe("3 of 10 (30 %)");
    expect(progressText({ attempt: 3, progress: said })).toBe("3 of 10 (30 %), in attempt 2");
    expect(progressText({ attempt: 2, progress: { ...said, fraction: undefined } })).toBe("3 of 10");
    expect(progressText({ attempt: 2 })).toBe("");
  });
});
