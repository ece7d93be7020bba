import { expect, test } from "vitest";
import { draftKey, readDraft, writeDraft } from "../src/lib/drafts";

function storage(limit = 1_000_000): Storage {
  const kept = new Map<string, string>();
  return {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => {
      if (value.length > limit) throw new DOMException("full", "QuotaExceededError");
      kept.set(key, value);
    },
    removeItem: (key: string) => void kept.delete(key),
  } as unknown as Storage;
}

const DRAFT = { base: [], files: [{ filename: "main.py", content: "x" }], message: "why" };

test("a draft comes back, and only to its user", () => {
  const place = storage();
  expect(writeDraft(place, draftKey("ann", "P"), DRAFT)).toBe(true);
  expect(readDraft(place, draftKey("ann", "P"))).toEqual(DRAFT);
  expect(readDraft(place, draftKey("bob", "P"))).toBeUndefined();
  writeDraft(place, draftKey("ann", "P"), undefined);
  expect(readDraft(place, draftKey("ann", "P"))).toBeUndefined();
});

test("a tab that is full says so", () => {
  expect(writeDraft(storage(3), "k", DRAFT)).toBe(false);
});

test.each(["{", "null", "[]", '{"base": [], "files": [{"filename": 7}], "message": ""}', '{"files": []}'])(
  "%j is no draft",
  (text) => {
    const place = storage();
    place.setItem("k", text);
    expect(readDraft(place, "k")).toBeUndefined();
  },
);
