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

const WAITS_FOR: Record<NonNullable<Run["waitsFor"]>, string> = {
  slot: "a pod with room for it",
  key: "a run with its key",
  delay: "its time",
  sleep: "its time",
  retry: "its next attempt",
  debounce: "the end of its burst",
  throttle: "its turn",
  batch: "its batch",
  event: "an event",
  approval: "an approval",
  child: "the run that it started",
};

/** What a run waits for; empty for one that runs or has ended. */
export function waitsForText(run: Pick<Run, "waitsFor">, before = ""): string {
  return run.waitsFor ? `${before}${WAITS_FOR[run.waitsFor] ?? run.waitsFor}` : "";
}
