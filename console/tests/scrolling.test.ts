import { expect, test } from "vitest";
import { entryOf, keepOffsets, offsetsOf } from "../src/lib/scrolling";

function storage(content: Record<string, string> = {}, isFull = false): Storage {
  return {
    getItem: (key: string) => content[key] ?? null,
    setItem: (key: string, value: string) => {
      if (isFull) throw new Error("full");
      content[key] = value;
    },
  } as Storage;
}

function history(state: unknown): History {
  const made = {
    state,
    replaceState(next: unknown) {
      made.state = next;
    },
  };
  return made as unknown as History;
}

test("an entry of the history keeps its name, and what else its state has", () => {
  const one = history({ from: "x" });
  const name = entryOf(one);
  expect(entryOf(one)).toBe(name);
  expect(one.state).toMatchObject({ from: "x" });
  expect(entryOf(history(null))).not.toBe(name);
});

test("offsets are kept for each entry, and those of the top are not", () => {
  const kept = storage();
  keepOffsets(kept, "a", { "": 10, Runs: 900 });
  keepOffsets(kept, "b", { "": 0 });
  expect([offsetsOf(kept, "a"), offsetsOf(kept, "b")]).toEqual([{ "": 10, Runs: 900 }, {}]);
  keepOffsets(kept, "a", { "": 0, Runs: 0 });
  expect(offsetsOf(kept, "a")).toEqual({});
});

test("the entries that were left longest ago are forgotten", () => {
  const kept = storage();
  for (let number = 0; number <= 100; number += 1) keepOffsets(kept, `e${number}`, { "": 1 });
  expect([offsetsOf(kept, "e0"), offsetsOf(kept, "e1")]).toEqual([{}, { "": 1 }]);
});

test.each(["no JSON", "{}", "[1, [2], [3, 4], null]"])("what is no offset is ignored: %s", (text) => {
  expect(offsetsOf(storage({ "tieline.scroll": text }), "a")).toEqual({});
});

test("a full storage is no failure", () => {
  keepOffsets(storage({}, true), "a", { "": 1 });
});
