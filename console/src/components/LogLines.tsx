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
            {plain(line.message)}
            {line.fields && <span className="log-fields"> {plain(fieldsOf(line.fields))}</span>}
            {line.error && <span className="sev ERROR">{`\n${plain(line.error)}`}</span>}
          </span>
        </div>
      ))}
    </div>
  );
}

function plain(text: string): string {
  return visible(withoutColours(text));
}

function fieldsOf(fields: Record<string, unknown>): string {
  return Object.entries(fields)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(" ");
}
