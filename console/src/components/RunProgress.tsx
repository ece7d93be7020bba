import type { Run } from "../api/runs";
import { progressText } from "../lib/progress";

/** How far a run is, as its code says. */
export function RunProgress({ run }: { run: Run }) {
  const said = run.progress;
  if (!said) return null;
  const known = said.fraction !== undefined && said.fraction !== null;
  return (
    <span className="row">
      {known && <progress max={1} value={said.fraction ?? 0} aria-label="Progress" />}
      <span style={{ overflowWrap: "anywhere" }}>{progressText(run)}</span>
    </span>
  );
}
