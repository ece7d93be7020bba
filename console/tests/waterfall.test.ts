import { expect, test } from "vitest";
import { type TraceSpan, titleOf, waterfall } from "../src/lib/waterfall";

const AT = Date.parse("2026-01-01T00:00:00Z");

function span(id: string, parent: string | null, from: number, to: number): TraceSpan {
  const time = (offset: number) => new Date(AT + offset).toISOString();
  return {
    spanId: id,
    parentSpanId: parent,
    name: id,
    startTime: time(from),
    endTime: time(to),
    attributes: [],
    status: { code: "UNSET" },
  };
}

test("children stand under their parents by time, and bars are parts of the whole trace", () => {
  const rows = waterfall([
    span("late", "root", 60, 100),
    span("root", null, 0, 100),
    span("early", "root", 10, 35),
  ]);
  expect(rows.map((row) => [row.span.spanId, row.depth, row.left, row.width])).toEqual([
    ["root", 0, 0, 100],
    ["early", 1, 10, 25],
    ["late", 1, 60, 40],
  ]);
});

test("a span whose parent is elsewhere is shown", () => {
  expect(waterfall([span("a", "of the caller", 0, 1)]).map((row) => row.depth)).toEqual([0]);
});

test("spans that name each other or themselves as parents are each shown once", () => {
  const rows = waterfall([span("a", "b", 0, 1), span("b", "a", 0, 1), span("c", "c", 0, 1)]);
  expect(rows.map((row) => row.span.spanId).sort()).toEqual(["a", "b", "c"]);
});

test("a trace without spans, or without a length, has finite bars", () => {
  expect(waterfall([])).toEqual([]);
  expect(waterfall([span("a", null, 5, 5)])[0]?.width).toBe(0);
});

test.each([
  ["POST", "https://shop.example/orders?x=1", "POST /orders"],
  ["POST /orders/{id}", "https://shop.example/orders/7", "POST /orders/{id}"],
  ["POST", "no url", "POST"],
])("a request that is called %s to %s reads %s", (name, url, title) => {
  const attributes = [
    { key: "http.request.method", value: "POST" },
    { key: "url.full", value: url },
  ];
  expect(titleOf({ ...span("a", null, 0, 1), name, attributes })).toBe(title);
});
