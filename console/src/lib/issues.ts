import type { Issue, IssueState } from "../api/issues";
import type { Tone } from "../components/basics";

export const STATE_TONES: Record<IssueState, Tone> = {
  open: "bad",
  regressed: "bad",
  resolved: "good",
  muted: "idle",
};

/** What failed, in a few words: the system and its answer, or the type of the error without its module. */
export function whatFailed(issue: Issue): string {
  if (issue.system) return issue.upstreamStatus ? `${issue.system} answered ${issue.upstreamStatus}` : issue.system;
  return issue.type.slice(issue.type.lastIndexOf(".") + 1) || "failed";
}

/** A count with its noun, such as `2 runs`. */
export function counted(count: number, one: string, text = count.toLocaleString()): string {
  return `${text} ${count === 1 ? one : `${one}s`}`;
}

const MOST = 1000;

/** A count of users or keys, which the API counts up to 1,000. */
export function capped(count: number): string {
  return `${count.toLocaleString()}${count === MOST ? "+" : ""}`;
}

export interface Bar {
  x: number;
  height: number;
}

/** The bars of a small chart, each from 0 to 1 high; what is not nothing can be seen. */
export function bars(counts: number[]): Bar[] {
  const most = Math.max(1, ...counts);
  return counts.map((count, x) => ({ x, height: count ? Math.max(0.12, count / most) : 0 }));
}
