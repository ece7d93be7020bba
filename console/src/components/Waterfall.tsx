import { useMemo, useState } from "react";
import { visible } from "../lib/text";
import { duration } from "../lib/time";
import { type Bar, kindOf, type TraceSpan, titleOf, waterfall } from "../lib/waterfall";
import { Facts, Pre } from "./basics";

/** The spans of a trace along its time. A row opens to its attributes. */
export function Waterfall({ spans }: { spans: TraceSpan[] }) {
  const bars = useMemo(() => waterfall(spans), [spans]);
  const [open, setOpen] = useState<string>();
  return (
    <div className="spans">
      {bars.map((bar) => (
        <div key={bar.span.spanId}>
          <Row
            bar={bar}
            open={open === bar.span.spanId}
            onToggle={() => setOpen(open === bar.span.spanId ? undefined : bar.span.spanId)}
          />
          {open === bar.span.spanId && <Detail span={bar.span} />}
        </div>
      ))}
    </div>
  );
}

function Row({ bar, open, onToggle }: { bar: Bar; open: boolean; onToggle: () => void }) {
  const failed = bar.span.status.code === "ERROR";
  return (
    <button type="button" className="span" aria-expanded={open} onClick={onToggle}>
      <span className="cut" style={{ paddingLeft: bar.depth * 12 }} title={visible(titleOf(bar.span))}>
        {failed && <span className="sr">failed: </span>}
        {visible(titleOf(bar.span))}
      </span>
      <span className="lane">
        <span
          className={`bar ${failed ? "error" : kindOf(bar.span)}`}
          style={{ left: `${bar.left}%`, width: `${bar.width}%` }}
        />
      </span>
      <span className="took">{duration(bar.milliseconds)}</span>
    </button>
  );
}

function Detail({ span }: { span: TraceSpan }) {
  return (
    <div className="span-detail stack-s">
      {span.status.message && <Pre tone="error">{span.status.message}</Pre>}
      <Facts
        of={span.attributes.map((each) => [
          visible(each.key),
          <code key={each.key}>{visible(String(each.value))}</code>,
        ])}
      />
      <Facts of={[["span", <code key="id">{span.spanId}</code>]]} />
    </div>
  );
}
