import type { Finding } from "../api/projects";
import type { CheckState } from "../lib/checking";
import { visible } from "../lib/text";
import { Badge } from "./basics";

const TONES = { error: "bad", warning: "warn", info: "info" } as const;

/** What the check found in the files that are edited, and whether it is of the text as it is now. */
export function FindingList({
  state,
  findings,
  onChoose,
}: {
  state: CheckState | undefined;
  findings: Finding[];
  onChoose: (filename: string, line?: number | null) => void;
}) {
  return (
    <div className="findings">
      {state && (
        <p className="small dim" role="status" aria-label="Check">
          {wordsOf(state, findings.length)}
        </p>
      )}
      {findings.length > 0 && (
        <ul aria-label="Findings">
          {findings.map((each) => (
            <li key={`${each.filename}:${each.line}:${each.message}`} className="problem">
              <Badge tone={TONES[each.severity]}>{each.severity}</Badge>
              {each.filename && (
                <button
                  type="button"
                  className="button small quiet mono"
                  onClick={() => onChoose(each.filename ?? "", each.line)}
                >
                  {visible(each.filename)}
                  {each.line ? `:${each.line}` : ""}
                </button>
              )}
              <span className="grow break">{visible(each.message)}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function wordsOf(state: CheckState, count: number): string {
  switch (state.type) {
    case "waiting":
    case "checking":
      return "Checking…";
    case "offline":
      return "Offline: the text is checked when the API answers again.";
    case "failed":
      return `The text could not be checked: ${visible(state.error instanceof Error ? state.error.message : "")}`;
    case "done":
      if (count === 0) return "Checked: nothing was found.";
      return count === 1 ? "Checked: 1 finding." : `Checked: ${count} findings.`;
  }
}
