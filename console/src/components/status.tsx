import type { Environment } from "../api/projects";
import type { RunStatus } from "../api/runs";
import { Badge, type Tone } from "./basics";

const RUNS: Record<RunStatus, Tone> = {
  queued: "idle",
  running: "info",
  waiting: "warn",
  succeeded: "good",
  failed: "bad",
  dead: "bad",
  cancelled: "idle",
};
const ENVIRONMENTS: Record<Environment["status"], Tone> = {
  draft: "idle",
  running: "good",
  suspended: "warn",
  error: "bad",
};

export function toneOf(status: RunStatus): Tone {
  return RUNS[status];
}

export function RunBadge({ status }: { status: RunStatus }) {
  return <Badge tone={RUNS[status]}>{status}</Badge>;
}

/** What an environment does; while it rolls out, that. */
export function EnvironmentBadge({ environment }: { environment: Environment }) {
  const rollout = environment.rollout?.state;
  if (environment.status === "error") return <Badge tone="bad">error</Badge>;
  if (rollout === "progressing") return <Badge tone="info">rolling out</Badge>;
  if (rollout === "failed" && environment.status === "running") return <Badge tone="bad">rollout failed</Badge>;
  if (environment.sleeping) return <Badge tone="idle">sleeping</Badge>;
  return <Badge tone={ENVIRONMENTS[environment.status]}>{environment.status}</Badge>;
}
