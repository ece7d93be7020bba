import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ApiError } from "../src/api/client";
import type { Finding } from "../src/api/projects";
import { Checker, type CheckState } from "../src/lib/checking";

const finding = (message: string) => ({ severity: "error", message }) as Finding;
const files = (content: string) => [{ filename: "main.py", content }];

interface Asked {
  content: string;
  signal: AbortSignal;
  answer: (found: Finding[]) => void;
  fail: (error: unknown) => void;
}

let asked: Asked[];
let states: CheckState[];
let checker: Checker;

beforeEach(() => {
  vi.useFakeTimers();
  asked = [];
  states = [];
  checker = new Checker(
    ([one], signal) =>
      new Promise((answer, fail) => asked.push({ content: one?.content ?? "", signal, answer, fail })),
    (state) => states.push(state),
  );
});
afterEach(() => void vi.useRealTimers());

const turn = (ms: number) => vi.advanceTimersByTimeAsync(ms);

test("what is typed quickly is checked once", async () => {
  for (const content of ["a", "ab", "abc"]) {
    checker.soon(files(content));
    await turn(100);
  }
  expect(asked).toEqual([]);
  await turn(1000);
  expect(asked.map((each) => each.content)).toEqual(["abc"]);
});

test("the last check wins, whichever answers first", async () => {
  checker.soon(files("old"));
  await turn(1000);
  checker.soon(files("new"));
  await turn(1000);
  const [old, young] = asked as [Asked, Asked];
  expect(old.signal.aborted).toBe(true);
  young.answer([finding("new")]);
  await turn(0);
  old.answer([finding("old")]);
  await turn(0);
  expect(states.at(-1)).toEqual({ type: "done", findings: [finding("new")] });
});

test("without the API the findings stay, it says so, and it tries again", async () => {
  checker.soon(files("x"));
  await turn(1000);
  asked[0]?.answer([finding("before")]);
  await turn(0);
  checker.soon(files("y"));
  await turn(1000);
  asked[1]?.fail(new ApiError(0, "unreachable", "away"));
  await turn(0);
  expect(states.at(-1)).toEqual({ type: "offline", findings: [finding("before")] });
  await turn(6000);
  expect(asked[2]?.content).toBe("y");
});

test("a refusal is reported, and not repeated", async () => {
  checker.soon(files("x"));
  await turn(1000);
  asked[0]?.fail(new ApiError(403, "forbidden", "no"));
  await turn(60_000);
  expect(states.at(-1)?.type).toBe("failed");
  expect(asked).toHaveLength(1);
});

test("after it is stopped nothing is reported", async () => {
  checker.soon(files("x"));
  await turn(1000);
  checker.stop();
  const before = states.length;
  asked[0]?.answer([]);
  await turn(10_000);
  expect(states).toHaveLength(before);
});
