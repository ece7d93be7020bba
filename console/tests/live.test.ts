import { expect, test, vi } from "vitest";
import { type Change, concerns, dueMs } from "../src/lib/changes";
import { eventReader, pauseMs } from "../src/lib/eventStream";
import { follow, type Update } from "../src/lib/live";
import { personWatch } from "../src/lib/person";

const TEXT = `retry: 2000\nevent: begin\ndata: {"type":"begin"}\n\n: heartbeat\n\nevent: x\r\ndata: a\r\ndata: b\r\n\r\nretry: x\n\n`;

function readIn(pieces: string[]) {
  const events: string[] = [];
  const retries: number[] = [];
  const take = eventReader(
    (data) => events.push(data),
    (ms) => retries.push(ms),
  );
  pieces.forEach(take);
  return { events, retries };
}

test("events are read wherever the text is cut", () => {
  const whole = readIn([TEXT]);
  expect(whole).toEqual({ events: ['{"type":"begin"}', "a\nb"], retries: [2000] });
  expect(readIn([...TEXT])).toEqual(whole);
  for (let at = 1; at < TEXT.length; at++) expect(readIn([TEXT.slice(0, at), TEXT.slice(at)])).toEqual(whole);
});

test("an event without an end is not kept for ever", () => {
  const take = eventReader(() => {});
  expect(() => {
    for (let count = 0; count < 1000; count++) take("x".repeat(1000));
  }).toThrow(RangeError);
});

test("pauses grow, are bounded, and differ", () => {
  const without = (failures: number) => pauseMs(failures, 1000, () => 0.5);
  expect([0, 1, 2, 3].map(without)).toEqual([1000, 2000, 4000, 8000]);
  expect(without(50)).toBe(60_000);
  expect(pauseMs(0, 1000, () => 0)).toBe(500);
  expect(pauseMs(0, 1000, () => 1)).toBe(1500);
});

test("a change concerns what shows its kind, and its object", () => {
  const run: Change = { kind: "run", id: "a", what: "changed" };
  expect(concerns([run], { kinds: ["run"] })).toBe(true);
  expect(concerns([run], { kinds: ["run"], id: "a" })).toBe(true);
  expect(concerns([run], { kinds: ["run"], id: "b" })).toBe(false);
  expect(concerns([run], { kinds: ["project"] })).toBe(false);
  expect(concerns([{ kind: "run", what: "changed" }], { kinds: ["run"], id: "b" })).toBe(true);
  // The id is of the first kind: of the others, any object may matter.
  expect(concerns([run], { kinds: ["project", "run"], id: "b" })).toBe(true);
});

test("a read that failed is not repeated sooner than one that did not", () => {
  expect(dueMs({ dataUpdatedAt: 1000, errorUpdatedAt: 0 }, 2000, 1500)).toBe(1500);
  expect(dueMs({ dataUpdatedAt: 1000, errorUpdatedAt: 9000 }, 2000, 9500)).toBe(1500);
});

test("a page reloads when another person signs in", () => {
  const onOther = vi.fn();
  const watch = personWatch(onOther);
  for (const id of [undefined, "ann", "ann", undefined, "bob"]) watch(id);
  expect(onOther).not.toHaveBeenCalled();
  watch("ann");
  expect(onOther).toHaveBeenCalledTimes(1);
});

test("a refused stream is tried again while the page is open", async () => {
  vi.useFakeTimers();
  const target = { addEventListener: () => {}, removeEventListener: () => {} };
  vi.stubGlobal("document", { visibilityState: "visible", ...target });
  vi.stubGlobal("window", target);
  vi.stubGlobal("BroadcastChannel", undefined);
  const stream = new ReadableStream({
    start: (sink) => sink.enqueue(new TextEncoder().encode('data: {"type":"begin"}\n\n')),
  });
  const answers = [new Response("", { status: 401 }), new Response(stream)];
  const fetched = vi.fn(async () => answers.shift() ?? Response.error());
  vi.stubGlobal("fetch", fetched);
  const updates: Update[] = [];
  const onSignedOut = vi.fn();
  const end = follow("o", (each) => updates.push(each), onSignedOut);
  await vi.advanceTimersByTimeAsync(50_000);
  expect([onSignedOut.mock.calls.length, fetched.mock.calls.length]).toEqual([1, 1]);
  await vi.advanceTimersByTimeAsync(20_000);
  expect(updates).toEqual([{ type: "missed" }]);
  end();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});
