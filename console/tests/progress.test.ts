import { describe, expect, it } from "vitest";
import { progressText, waitsForText } from "../src/lib/progress";

const said = { text: "3 of 10", fraction: 0.3, attempt: 2, at: "2026-11-27T10:00:00Z" };

describe("progressText", () => {
  it("has the share, and names an earlier attempt", () => {
    expect(progressText({ attempt: 2, progress: said })).toBe("3 of 10 (30 %)");
    expect(progressText({ attempt: 3, progress: said })).toBe("3 of 10 (30 %), in attempt 2");
    expect(progressText({ attempt: 2, progress: { ...said, fraction: undefined } })).toBe("3 of 10");
    expect(progressText({ attempt: 2 })).toBe("");
  });
});

describe("waitsForText", () => {
  it("says what a run waits for, and nothing of one that runs", () => {
    expect(waitsForText({ waitsFor: "throttle" }, "Waits for ")).toBe("Waits for its turn");
    expect(waitsForText({ waitsFor: "slot" })).toBe("a pod with room for it");
    expect(waitsForText({}, "Waits for ")).toBe("");
  });
});
