import { build } from "vite";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type ConnectEvent, open } from "../../connect/src/index";

const TOKEN = `tcs_01J9ZQ4Y7M2K8V3T5XWB6CDEFG_${"a".repeat(43)}`;
const PAGE = "https://tieline.example/base/connect/";
/** The first 160 bits of the token's SHA-256, which the API computes too (page_key). */
const KEY = "ea7e2e5b72cd57776a184cff0e856aa65d434be2";
const MOST_BYTES = 5000;

let listeners: Set<(event: unknown) => void>;
let opened: { closed: boolean; url: string; said: [unknown, string][] } & Record<string, unknown>;

beforeEach(() => {
  vi.useFakeTimers();
  listeners = new Set();
  opened = {
    closed: false,
    url: "",
    said: [],
    location: { replace: (url: string) => (opened.url = url) },
    postMessage: (data: unknown, origin: string) => opened.said.push([data, origin]),
    close: () => (opened.closed = true),
  };
  vi.stubGlobal("window", { open: () => opened });
  vi.stubGlobal("isSecureContext", true);
  vi.stubGlobal("addEventListener", (_: string, listener: (event: unknown) => void) => listeners.add(listener));
  vi.stubGlobal("removeEventListener", (_: string, listener: (event: unknown) => void) =>
    listeners.delete(listener),
  );
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** What the window of the page says, unless somebody else says it. */
function hear(data: unknown, origin = "https://tieline.example", source: unknown = opened) {
  for (const listener of listeners)
    listener({ data: { source: "tieline-connect", ...(data as object) }, origin, source });
}

test("the page's address names the session by a hash of its token, which is in the fragment alone", async () => {
  open({ token: TOKEN, page: PAGE, mode: "popup", language: "de" });
  await vi.waitFor(() => expect(opened.url).not.toBe(""));
  expect(opened.url).toBe(
    `https://tieline.example/base/connect/01J9ZQ4Y7M2K8V3T5XWB6CDEFG/${KEY}?lang=de#${TOKEN}`,
  );
});

test("it says hello to the page's origin alone, until it is closed", () => {
  const { close } = open({ token: TOKEN, page: PAGE, mode: "popup" });
  vi.advanceTimersByTime(1100);
  const hello = [{ source: "tieline-connect", type: "hello" }, "https://tieline.example"];
  expect(opened.said).toEqual([hello, hello]);
  close();
  vi.advanceTimersByTime(5000);
  expect(opened.said.length).toBe(2);
  expect(opened.closed).toBe(true);
});

test("it hears the page, and nobody else", async () => {
  const events: ConnectEvent[] = [];
  const { closed } = open({ token: TOKEN, page: PAGE, mode: "popup", onEvent: (event) => events.push(event) });
  hear({ type: "done" }, "https://evil.example");
  hear({ type: "done" }, "https://tieline.example", {});
  hear({ type: "done", source: "another" });
  expect(events).toEqual([]);
  const connected = { type: "connected", connectionId: "1", connectionTemplateId: "2" } as const;
  hear(connected);
  expect(events).toEqual([connected]);
  hear({ type: "done" });
  expect(await closed).toBe("done");
  expect(listeners.size).toBe(0);
});

test.each([
  ["the session ends", () => hear({ type: "ended" }), "ended"],
  ["the user closes the window", () => (opened.closed = true), "closed"],
])("%s", async (_, happens, outcome) => {
  const { closed } = open({ token: TOKEN, page: PAGE, mode: "popup" });
  happens();
  vi.advanceTimersByTime(600);
  expect(await closed).toBe(outcome);
});

test("a page that says that the origin is not allowed ends it at once", async () => {
  const said = vi.spyOn(console, "error").mockImplementation(() => {});
  vi.stubGlobal("location", { origin: "https://app.example" });
  const { closed } = open({ token: TOKEN, page: PAGE, mode: "popup" });
  hear({ type: "arrived" });
  hear({ type: "refused" });
  expect(await closed).toBe("failed");
  expect(said.mock.calls[0]?.[0]).toContain("add https://app.example to allowedOrigins");
});

test.each([
  ["an API key", "key_abc", PAGE],
  ["a page that is no URL", TOKEN, "/connect"],
])("%s is refused at once", (_, token, page) => {
  expect(() => open({ token, page, mode: "popup" })).toThrow(TypeError);
});

test("where the browser opens no window, it says what to do", () => {
  vi.stubGlobal("window", { open: () => null });
  expect(() => open({ token: TOKEN, page: PAGE, mode: "popup" })).toThrow("while you handle a click");
});

test(`the widget imports nothing and has less than ${MOST_BYTES} bytes`, async () => {
  vi.useRealTimers();
  const entry = new URL("../../connect/src/index.ts", import.meta.url).pathname;
  const built = await build({
    configFile: false,
    logLevel: "silent",
    build: {
      write: false,
      target: "es2022",
      minify: true,
      rollupOptions: { input: entry, preserveEntrySignatures: "strict", external: () => false },
      modulePreload: { polyfill: false },
    },
  });
  const [found] = [built].flat();
  if (!found || !("output" in found)) throw new Error("nothing was built");
  const [chunk, ...others] = found.output;
  expect(others).toEqual([]);
  expect(chunk.imports).toEqual([]);
  expect(chunk.exports).toEqual(["open"]);
  expect(new TextEncoder().encode(chunk.code).length).toBeLessThan(MOST_BYTES);
});
