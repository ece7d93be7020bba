import { expect, test } from "vitest";
import { diffFiles, diffLines, excerpt } from "../src/lib/diff";

const text = (lines: ReturnType<typeof diffLines>, kind: string) =>
  lines.filter((each) => each.kind === "same" || each.kind === kind).map((each) => each.text);

test("the lines of both sides can be read from a diff, whatever they are", () => {
  const words = ["a", "b", "c", ""];
  let seed = 7;
  const random = () => {
    seed = (seed * 16807) % 2147483647;
    return seed;
  };
  for (let round = 0; round < 300; round++) {
    const lines = () => Array.from({ length: random() % 9 }, () => words[random() % words.length] as string);
    const [before, after] = [lines(), lines()];
    const diff = diffLines(before, after);
    expect(text(diff, "removed")).toEqual(before);
    expect(text(diff, "added")).toEqual(after);
  }
});

test("a changed line is one removed and one added, the others stay", () => {
  expect(diffLines(["x", "old", "z"], ["x", "new", "z"]).map((each) => each.kind)).toEqual([
    "same",
    "removed",
    "added",
    "same",
  ]);
});

test("files that are the same are left out; others are added, removed or changed", () => {
  const file = (filename: string, content: string) => ({ filename, content });
  const found = diffFiles(
    [file("a", "1"), file("b", "1"), file("c", "1")],
    [file("b", "2"), file("c", "1"), file("d", "1")],
  );
  expect(found.map((each) => [each.filename, each.change])).toEqual([
    ["a", "removed"],
    ["b", "changed"],
    ["d", "added"],
  ]);
});

test("only the lines around a change are shown", () => {
  const before = Array.from({ length: 40 }, (_, at) => String(at));
  const after = before.map((each) => (each === "20" ? "changed" : each));
  const shown = excerpt(diffLines(before, after));
  expect(shown.at(0)).toBeNull();
  expect(shown.length).toBe(10);
});
