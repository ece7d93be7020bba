import { useState } from "react";
import type { Schemas } from "../api/client";
import { visible, withoutColours } from "../lib/text";
import { absolute, clock } from "../lib/time";

export type LogEntry = Schemas["LogEntry"];

/** Lines of a log, in the order given. What others wrote stays text. */
export function LogLines({ lines }: { lines: LogEntry[] }) {
  return (
    <div className="log">
      {lines.map((line, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: lines have no identity, and equal ones may follow each other
        <div className="log-line" key={`${line.timestamp}-${index}`}>
          <time dateTime={line.timestamp} title={absolute(line.timestamp)}>
            {clock(line.timestamp)}
          </time>
          <span className={`sev ${line.severity}`}>{line.severity}</span>
          <span className="message">
            <Plain>{line.message}</Plain>
            {line.fields && (
              <span className="log-fields">
                {" "}
                <Plain>{fieldsOf(line.fields)}</Plain>
              </span>
            )}
            {line.error && (
              <span className="sev ERROR">
                {"\n"}
                <Plain>{line.error}</Plain>
              </span>
            )}
          </span>
        </div>
      ))}
    </div>
  );
}

const MOST = 5_000;

/** A text of a line; the end of a very long one is shown when asked for, so that it does not hold the page up. */
function Plain({ children: text }: { children: string }) {
  const [whole, setWhole] = useState(false);
  const left = whole ? 0 : text.length - MOST;
  return (
    <>
      {visible(withoutColours(left > 0 ? text.slice(0, MOST) : text))}
      {left > 0 && (
        <button type="button" className="button small quiet" onClick={() => setWhole(true)}>
          Show {left.toLocaleString()} more characters
        </button>
      )}
    </>
  );
}

function fieldsOf(fields: Record<string, unknown>): string {
  return Object.entries(fields)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" ");
}
