import type { Run } from "../api/runs";
import { visible } from "./text";

/** What the code of a run last said, and of an earlier attempt which one that was. */
export function progressText(run: Pick<Run, "progress" | "attempt">): string {
  const said = run.progress;
  if (!said) return "";
  const percent =
    said.fraction === undefined || said.fraction === null ? "" : ` (${Math.floor(said.fraction * 100)} %)`;
  const earlier = said.attempt === run.attempt ? "" : `, in attempt ${said.attempt}`;
  return `${visible(said.text)}${percent}${earlier}`;
}
