import { expect, test } from "vitest";
import { visible, withoutColours } from "../src/lib/text";

test("a text cannot be turned around, and hides nothing", () => {
  expect(visible("if admin:\u202e # evil\u2066")).toBe("if admin:‹U+202E› # evil‹U+2066›");
  expect(visible("nul\0 bell\x07 del\x7f zero\u200bwidth")).toBe("nul␀ bell␇ del␡ zero‹U+200B›width");
});

test("tabs, new lines and letters of any language stay as they are", () => {
  const text = "a\tb\r\nGrüße, שלום, مرحبا, 你好, 👩\u200d🚀";
  expect(visible(text)).toBe(text);
});

test.each([
  ["\x1b[31mred\x1b[0m", "red"],
  ["\x1b]8;;http://evil.example\x07link\x1b]8;;\x07", "link"],
  ["\x1b]0;title\x1b\\rest", "rest"],
  ["\x1b[2J\x1b[1;1Hcleared", "cleared"],
  ["plain [31m text", "plain [31m text"],
])("colours of a terminal are left out: %j", (text, plain) => {
  expect(withoutColours(text)).toBe(plain);
});
