import type { Schemas } from "../api/client";

export type TraceSpan = Schemas["TraceSpan"];

/** A span where it is drawn: how deep, and which part of the trace's time, in per cent. */
export interface Bar {
  span: TraceSpan;
  depth: number;
  left: number;
  width: number;
  milliseconds: number;
}

const MOST_DEPTH = 12;

/** The spans of a trace as rows: children under their parents, by time. A span whose parent is not there is a root. */
export function waterfall(spans: TraceSpan[]): Bar[] {
  if (spans.length === 0) return [];
  const start = Math.min(...spans.map((each) => Date.parse(each.startTime)));
  const end = Math.max(...spans.map((each) => Date.parse(each.endTime)));
  const whole = Math.max(end - start, 0.001);
  const known = new Set(spans.map((each) => each.spanId));
  const children = new Map<string, TraceSpan[]>();
  for (const span of spans) {
    const parent =
      span.parentSpanId && span.parentSpanId !== span.spanId && known.has(span.parentSpanId)
        ? span.parentSpanId
        : "";
    children.set(parent, [...(children.get(parent) ?? []), span]);
  }
  const rows: Bar[] = [];
  const seen = new Set<string>();
  const add = (span: TraceSpan, depth: number) => {
    if (seen.has(span.spanId)) return;
    seen.add(span.spanId);
    const from = Date.parse(span.startTime);
    const milliseconds = Math.max(0, Date.parse(span.endTime) - from);
    const left = ((from - start) / whole) * 100;
    rows.push({
      span,
      depth: Math.min(depth, MOST_DEPTH),
      left,
      width: Math.min((milliseconds / whole) * 100, 100 - left),
      milliseconds,
    });
    for (const child of sorted(children.get(span.spanId) ?? [])) add(child, depth + 1);
  };
  for (const root of sorted(children.get("") ?? [])) add(root, 0);
  // Spans that name each other as parents have no root: they are shown all the same.
  for (const span of sorted(spans)) add(span, 0);
  return rows;
}

function sorted(spans: TraceSpan[]): TraceSpan[] {
  return [...spans].sort((one, other) => Date.parse(one.startTime) - Date.parse(other.startTime));
}

export function attribute(span: TraceSpan, key: string): string | undefined {
  return span.attributes.find((each) => each.key === key)?.value;
}

/** What a span is about, by which it is coloured. */
export function kindOf(span: TraceSpan): "client" | "step" | "wait" | "server" {
  if (attribute(span, "http.request.method") && span.parentSpanId) return "client";
  if (span.name.startsWith("step")) return "step";
  if (span.name.includes("wait") || span.name.includes("queue")) return "wait";
  return "server";
}

/** A span's name; of a request that is named after its method alone, with the path that was asked for. */
export function titleOf(span: TraceSpan): string {
  const url = attribute(span, "url.full");
  if (!url || span.name !== attribute(span, "http.request.method")) return span.name;
  try {
    return `${span.name} ${new URL(url).pathname}`;
  } catch {
    return span.name;
  }
}
